//! Replies of commands as scripts see them, and results of scripts as replies.

use resp::Writer;
use script::Reply;

/// Writes what a script returned.
pub(super) fn write(reply: &Reply, out: &mut Writer) {
    match reply {
        Reply::Nil => out.null(),
        Reply::Status(text) => out.simple(one_line(text)),
        Reply::Error { message, .. } => out.error(message),
        Reply::Integer(value) => out.integer(*value),
        Reply::Bulk(bytes) => out.bulk(bytes),
        Reply::Array(items) => {
            out.array(items.len());
            items.iter().for_each(|item| write(item, out));
        }
        Reply::Set(items) => {
            out.set(items.len());
            items.iter().for_each(|item| write(item, out));
        }
        Reply::Map(pairs) => {
            out.map(pairs.len());
            for (key, value) in pairs {
                write(key, out);
                write(value, out);
            }
        }
        Reply::Double(value) => out.double(*value),
        Reply::Bool(value) => out.boolean(*value),
        Reply::BigNumber(digits) => out.big_number(&one_line(digits)),
        Reply::Verbatim { format, text } => {
            let mut letters = *b"txt";
            letters.iter_mut().zip(format).for_each(|(letter, given)| *letter = *given);
            out.verbatim(letters, text);
        }
    }
}

/// A script may put line ends where the protocol has none.
fn one_line(text: &[u8]) -> Vec<u8> {
    text.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }).collect()
}

/// Reads the reply that a command wrote. Its error was counted.
pub(super) fn read(bytes: &[u8]) -> Reply {
    Reader { bytes, at: 0 }.reply().unwrap_or_else(|| Reply::error("ERR the reply is incomplete"))
}

struct Reader<'r> {
    bytes: &'r [u8],
    at: usize,
}

impl<'r> Reader<'r> {
    fn reply(&mut self) -> Option<Reply> {
        let (kind, line) = self.line()?.split_first()?;
        Some(match kind {
            b'+' => Reply::Status(line.to_vec()),
            b'-' => Reply::Error { message: line.to_vec(), is_counted: true },
            b':' => Reply::Integer(resp::number::parse_i64(line)?),
            b'$' | b'=' | b'*' if line == b"-1" => Reply::Nil,
            b'_' => Reply::Nil,
            b'$' => Reply::Bulk(self.piece(line)?.to_vec()),
            b'=' => {
                let piece = self.piece(line)?;
                let (format, text) = (piece.get(..3)?, piece.get(4..)?);
                Reply::Verbatim { format: format.to_vec(), text: text.to_vec() }
            }
            b'*' | b'>' => Reply::Array(self.replies(line)?),
            b'~' => Reply::Set(self.replies(line)?),
            b'%' => {
                let pairs = 0..count(line)?;
                let pairs = pairs.map(|_| Some((self.reply()?, self.reply()?)));
                Reply::Map(pairs.collect::<Option<_>>()?)
            }
            b',' => Reply::Double(resp::number::parse_f64(line)?),
            b'#' => Reply::Bool(line == b"t"),
            b'(' => Reply::BigNumber(line.to_vec()),
            _ => return None,
        })
    }

    fn replies(&mut self, line: &[u8]) -> Option<Vec<Reply>> {
        (0..count(line)?).map(|_| self.reply()).collect()
    }

    /// The bytes up to the next line end, which is passed over.
    fn line(&mut self) -> Option<&'r [u8]> {
        let rest = self.bytes.get(self.at..)?;
        let len = memchr::memchr(b'\r', rest)?;
        self.at += len + 2;
        Some(&rest[..len])
    }

    /// This many bytes, and the line end after them.
    fn piece(&mut self, len: &[u8]) -> Option<&'r [u8]> {
        let len = count(len)?;
        let piece = self.bytes.get(self.at..self.at + len)?;
        self.at += len + 2;
        Some(piece)
    }
}

fn count(line: &[u8]) -> Option<usize> {
    resp::number::parse_i64(line)?.try_into().ok()
}
