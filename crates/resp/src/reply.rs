//! The reply writer: appends to a connection's write buffer in the client's protocol.
//!
//! A command states its reply (a map, a double, a null) and the writer encodes it in RESP2 or
//! RESP3; nothing else knows the difference. The length of an aggregate comes first; a command that
//! learns it late writes the elements first, and [`Writer::finish_array`] and similar methods
//! insert the header before them. A command that fails half way undoes its output with
//! [`Writer::mark`] and [`Writer::truncate`].

use crate::ProtocolError;
use crate::number;

/// The protocol version of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// RESP2, what a connection starts with.
    #[default]
    Resp2,
    /// RESP3, after `HELLO 3`.
    Resp3,
}

/// A position in the reply to go back to.
#[derive(Clone, Copy, Debug)]
pub struct Mark(usize);

/// An aggregate whose elements are being written before its length is known.
#[derive(Debug)]
#[must_use = "without its header the reply is no reply"]
pub struct Deferred(usize);

/// Appends replies to a buffer.
#[derive(Debug)]
pub struct Writer {
    out: Vec<u8>,
    protocol: Protocol,
    /// The length of the buffer that no bulk string may exceed.
    limit: usize,
    /// Whether a bulk string was left out because of that.
    is_over_limit: bool,
}

impl Default for Writer {
    fn default() -> Writer {
        Writer::new(Protocol::default())
    }
}

impl Writer {
    /// Returns an empty writer in `protocol`.
    pub fn new(protocol: Protocol) -> Writer {
        Writer::append_to(Vec::new(), protocol)
    }

    /// Returns a writer that appends to `out`, to reuse its space.
    pub fn append_to(out: Vec<u8>, protocol: Protocol) -> Writer {
        Writer { out, protocol, limit: usize::MAX, is_over_limit: false }
    }

    /// Returns the protocol in force.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Sets the protocol of later replies (HELLO, RESET).
    pub fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    /// Returns the bytes that were written and not yet taken.
    pub fn as_bytes(&self) -> &[u8] {
        &self.out
    }

    /// Returns how many bytes were written and not yet taken.
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Returns true if there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Returns how many bytes of memory the buffer takes.
    pub fn capacity(&self) -> usize {
        self.out.capacity()
    }

    /// Drops all bytes, but keeps their memory.
    pub fn clear(&mut self) {
        self.out.clear();
    }

    /// Hands the bytes over and starts with an empty buffer.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// Appends a reply that was written elsewhere. It is not copied if the buffer is empty and has
    /// less capacity.
    pub fn append(&mut self, reply: Vec<u8>) {
        if self.out.is_empty() && reply.len() > self.out.capacity() {
            self.out = reply;
        } else {
            self.out.extend_from_slice(&reply);
        }
    }

    /// Returns the buffer itself, to drain what was sent or to append a reply that was written
    /// elsewhere.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Leaves out every later bulk string that would make the buffer longer by more than `bytes`.
    /// The output is then no valid reply, as [`end_limit`](Writer::end_limit) reports.
    #[inline]
    pub fn begin_limit(&mut self, bytes: usize) {
        self.limit = self.out.len().saturating_add(bytes);
        self.is_over_limit = false;
    }

    /// Ends the limit. Returns true if a bulk string was left out because of it.
    #[inline]
    pub fn end_limit(&mut self) -> bool {
        self.limit = usize::MAX;
        std::mem::take(&mut self.is_over_limit)
    }

    /// Returns true if a bulk string was left out because of the limit.
    #[inline]
    pub fn is_over_limit(&self) -> bool {
        self.is_over_limit
    }

    /// Counts as exceeding the limit, if there is one, whatever is written.
    pub fn exceed_limit(&mut self) {
        self.is_over_limit |= self.limit != usize::MAX;
    }

    /// Returns true if a bulk string of `len` bytes may be written, or records that it exceeds the
    /// limit.
    #[inline]
    pub fn takes(&mut self, len: usize) -> bool {
        let takes = len <= self.limit.saturating_sub(self.out.len());
        if !takes {
            self.is_over_limit = true;
        }
        takes
    }

    /// Returns the position where the next reply starts.
    pub fn mark(&self) -> Mark {
        Mark(self.out.len())
    }

    /// Undoes everything written since `mark`.
    pub fn truncate(&mut self, mark: Mark) {
        self.out.truncate(mark.0);
    }

    /// Returns the bytes written since `mark`.
    pub fn since(&self, mark: Mark) -> &[u8] {
        self.out.get(mark.0..).unwrap_or_default()
    }

    /// Writes `+OK`.
    pub fn ok(&mut self) {
        self.out.extend_from_slice(b"+OK\r\n");
    }

    /// Writes a status such as `OK` or `PONG`: one line.
    pub fn simple(&mut self, text: impl AsRef<[u8]>) {
        self.line(b'+', text.as_ref());
    }

    /// Writes an error, with its code: `ERR no such key`, `WRONGTYPE Operation ...`. Leading and
    /// trailing line ends are cut off and others become spaces, so that the text may quote the
    /// client.
    pub fn error(&mut self, text: impl AsRef<[u8]>) {
        let is_end = |b: &u8| matches!(b, b'\r' | b'\n');
        let text = text.as_ref();
        let start = text.iter().position(|b| !is_end(b)).unwrap_or(text.len());
        let end = text.iter().rposition(|b| !is_end(b)).map_or(start, |last| last + 1);
        self.out.push(b'-');
        self.out.extend(text[start..end].iter().map(|b| if is_end(b) { b' ' } else { *b }));
        self.end();
    }

    /// Writes the reply to a request that violates the protocol, after which the connection is
    /// closed.
    pub fn protocol_error(&mut self, error: &ProtocolError) {
        let mut text = b"ERR ".to_vec();
        text.extend_from_slice(&error.message());
        self.error(text);
    }

    /// Writes an integer.
    pub fn integer(&mut self, value: i64) {
        self.header(b':', value);
    }

    /// Writes a boolean: `1` and `0` in RESP2.
    pub fn boolean(&mut self, value: bool) {
        self.out.extend_from_slice(match (self.protocol, value) {
            (Protocol::Resp2, true) => b":1\r\n",
            (Protocol::Resp2, false) => b":0\r\n",
            (Protocol::Resp3, true) => b"#t\r\n",
            (Protocol::Resp3, false) => b"#f\r\n",
        });
    }

    /// Writes a double, with 17 significant digits; a bulk string in RESP2.
    pub fn double(&mut self, value: f64) {
        let mut text = Vec::with_capacity(32);
        number::write_f64(&mut text, value);
        self.double_text(&text);
    }

    /// Writes a double that is already text, as for commands like INCRBYFLOAT.
    pub fn double_text(&mut self, text: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text),
            Protocol::Resp3 => self.line(b',', text),
        }
    }

    /// Writes a number of any size in decimal digits; a bulk string in RESP2.
    pub fn big_number(&mut self, digits: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(digits),
            Protocol::Resp3 => self.line(b'(', digits),
        }
    }

    /// Writes a bulk string.
    #[inline]
    pub fn bulk(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        if !self.takes(bytes.len()) {
            return;
        }
        self.out.reserve(bytes.len() + 32);
        self.bulk_header(bytes.len());
        self.out.extend_from_slice(bytes);
        self.end();
    }

    /// Writes a bulk string that holds a number.
    pub fn bulk_integer(&mut self, value: i64) {
        self.bulk(itoa::Buffer::new().format(value));
    }

    /// Writes the header of a bulk string of `len` bytes, which are then written with
    /// [`raw`](Writer::raw), in as many pieces as the caller likes, and closed with
    /// [`bulk_end`](Writer::bulk_end).
    #[inline]
    pub fn bulk_header(&mut self, len: usize) {
        self.aggregate(b'$', len);
    }

    /// Closes a bulk string written in pieces.
    pub fn bulk_end(&mut self) {
        self.end();
    }

    /// Writes bytes unchanged: a piece of a bulk string, or a complete reply made elsewhere.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Writes a text with a format of three letters (`txt`, `mkd`); a bulk string in RESP2.
    pub fn verbatim(&mut self, format: [u8; 3], text: impl AsRef<[u8]>) {
        let text = text.as_ref();
        match self.protocol {
            Protocol::Resp2 => self.bulk(text),
            Protocol::Resp3 => {
                self.aggregate(b'=', text.len() + 4);
                self.out.extend_from_slice(&format);
                self.out.push(b':');
                self.out.extend_from_slice(text);
                self.end();
            }
        }
    }

    /// Writes the null of a single value.
    pub fn null(&mut self) {
        self.out.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"$-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// Writes the null of an array.
    pub fn null_array(&mut self) {
        self.out.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"*-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// Writes the value, or a null.
    pub fn bulk_or_null(&mut self, value: Option<&[u8]>) {
        match value {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    /// Writes the header of an array of `len` elements.
    pub fn array(&mut self, len: usize) {
        self.aggregate(b'*', len);
    }

    /// Writes the header of a map of `pairs` keys and values; an array of twice as many in RESP2.
    pub fn map(&mut self, pairs: usize) {
        let (kind, len) = self.map_header(pairs);
        self.aggregate(kind, len);
    }

    /// Writes the header of a set; an array in RESP2.
    pub fn set(&mut self, len: usize) {
        self.aggregate(self.or_array(b'~'), len);
    }

    /// Writes the header of a message that answers no command; an array in RESP2.
    pub fn push(&mut self, len: usize) {
        self.aggregate(self.or_array(b'>'), len);
    }

    /// Writes the header of a map of `pairs` that annotates the reply after it. RESP3 only, as in
    /// Redis: a RESP2 client must not be sent one.
    pub fn attribute(&mut self, pairs: usize) {
        debug_assert_eq!(self.protocol, Protocol::Resp3, "RESP2 has no attributes");
        self.aggregate(b'|', pairs);
    }

    /// Starts an aggregate whose length is not known yet. Several may be open; the inner one is
    /// finished first.
    pub fn deferred(&mut self) -> Deferred {
        Deferred(self.out.len())
    }

    /// Inserts the header of an array of `len` elements before everything written since
    /// [`deferred`](Writer::deferred).
    pub fn finish_array(&mut self, start: Deferred, len: usize) {
        self.finish(start, b'*', len);
    }

    /// As [`finish_array`](Writer::finish_array), for a map of `pairs`.
    pub fn finish_map(&mut self, start: Deferred, pairs: usize) {
        let (kind, len) = self.map_header(pairs);
        self.finish(start, kind, len);
    }

    /// As [`finish_array`](Writer::finish_array), for a set.
    pub fn finish_set(&mut self, start: Deferred, len: usize) {
        self.finish(start, self.or_array(b'~'), len);
    }

    fn finish(&mut self, start: Deferred, kind: u8, len: usize) {
        let mut digits = itoa::Buffer::new();
        let header = std::iter::once(kind).chain(digits.format(len).bytes()).chain(*b"\r\n");
        self.out.splice(start.0..start.0, header);
    }

    fn map_header(&self, pairs: usize) -> (u8, usize) {
        match self.protocol {
            Protocol::Resp2 => (b'*', pairs * 2),
            Protocol::Resp3 => (b'%', pairs),
        }
    }

    fn or_array(&self, kind: u8) -> u8 {
        match self.protocol {
            Protocol::Resp2 => b'*',
            Protocol::Resp3 => kind,
        }
    }

    #[inline(always)]
    fn aggregate(&mut self, kind: u8, len: usize) {
        match u8::try_from(len) {
            Ok(len @ 0..=9) => self.out.extend_from_slice(&[kind, b'0' + len, b'\r', b'\n']),
            Ok(len @ 10..=99) => {
                let (tens, ones) = (b'0' + len / 10, b'0' + len % 10);
                self.out.extend_from_slice(&[kind, tens, ones, b'\r', b'\n']);
            }
            _ => self.header(kind, len),
        }
    }

    #[inline]
    fn header(&mut self, kind: u8, number: impl itoa::Integer) {
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(number).as_bytes();
        self.out.reserve(digits.len() + 3);
        self.out.push(kind);
        self.out.extend_from_slice(digits);
        self.end();
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.out.reserve(text.len() + 3);
        self.out.push(kind);
        self.out.extend_from_slice(text);
        self.end();
    }

    #[inline]
    fn end(&mut self) {
        self.out.extend_from_slice(b"\r\n");
    }
}
