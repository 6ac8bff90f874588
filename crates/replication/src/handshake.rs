//! The replica's first words to its primary, up to the primary's answer to PSYNC.
//!
//! They are those of Redis 7.0: PING; then AUTH and what REPLCONF tells (port, address,
//! capabilities) in one packet; then PSYNC, alone, since a primary refuses it while it has other
//! replies to send. Valkey also tells its version, from which a primary of its kind chooses the
//! format of the dump; other primaries answer an error, which has no effect.
//!
//! The peer may be anything that listens on a port. A line is bounded, and one that answers nothing
//! ends the handshake, so that no dump and no stream is read from a peer that is no primary.

use std::io::{self, BufRead, ErrorKind, Write};

use crate::Id;
use crate::line::{Line, LineError, shown};

/// Maximum length of an answer, in bytes.
const MAX_ANSWER: usize = 64 * 1024;

/// The states of a primary that pass: the first words of their errors.
const TRY_AGAIN: [&[u8]; 5] = [b"LOADING", b"NOMASTERLINK", b"MASTERDOWN", b"BUSY", b"TRYAGAIN"];

/// The facts that a replica tells its primary, and its request.
#[derive(Clone, Debug, Default)]
pub struct Handshake {
    /// The user to authenticate as; the default user if none. Without a password it has no effect.
    pub user: Option<Vec<u8>>,
    /// The password. No AUTH is sent if there is none.
    pub password: Option<Vec<u8>>,
    /// The port that the primary shows in INFO and ROLE, and Sentinel connects to.
    pub listening_port: u16,
    /// The address that the primary shows, if it is not the one that the connection comes from.
    pub announce_ip: Option<Vec<u8>>,
    /// The version of Valkey whose dumps this replica reads, such as `9.1.0`. Nothing is sent if
    /// there is none. The answer has no effect.
    pub version: Option<Vec<u8>>,
    /// The history that this replica has, and the offset of the last byte of it that it has, to
    /// continue from there. A full dump is asked for if there is none.
    pub resume: Option<(Id, u64)>,
    /// Asks the peer, which is a replica of this server, to become the primary first (FAILOVER).
    /// Without `resume` it has no effect.
    pub failover: bool,
}

/// The primary's answer to PSYNC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A dump follows, and after it the stream.
    Full {
        /// The primary's history.
        id: Id,
        /// The dump's offset: the stream's first byte is the one after it.
        offset: u64,
    },
    /// The stream follows, from the byte after the offset that was asked for.
    Continue {
        /// The ID that the history has from here on, if the primary says it (it may be the one that
        /// was asked for).
        id: Option<Id>,
    },
}

/// A handshake that did not succeed. Each ends the connection.
///
/// The texts are those of the primary's errors without the `-`, with control characters escaped,
/// and cut if they are long.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The connection failed, ended (`UnexpectedEof`) or timed out.
    #[error("the connection to the primary failed: {0}")]
    Io(#[from] io::Error),
    /// The primary is in a state that passes: it loads its data, runs a script, or has no link to
    /// its own primary.
    #[error("the primary cannot serve replicas now: {0}")]
    TryAgain(String),
    /// The primary refused the password, wants one, or the user may not replicate.
    #[error("Unable to AUTH to MASTER: {0}")]
    Unauthorized(String),
    /// The primary refused for another reason.
    #[error("the primary refused: {0}")]
    Refused(String),
    /// The primary does not know PSYNC: it is too old, or has renamed the command.
    #[error("the primary does not know PSYNC: it is older than Redis 2.8, or renames the command")]
    NoPsync,
    /// The peer sent a line that answers nothing that was asked.
    #[error("the peer's answer to {to} is none that a primary gives: {line}")]
    NotAnAnswer {
        /// The command.
        to: &'static str,
        /// The line.
        line: String,
    },
    /// The peer sent a line without an end.
    #[error("the peer's answer has no end of line in its first 64 KiB")]
    LineTooLong,
}

impl From<LineError> for HandshakeError {
    fn from(error: LineError) -> HandshakeError {
        match error {
            LineError::Io(error) => HandshakeError::Io(error),
            LineError::TooLong => HandshakeError::LineTooLong,
        }
    }
}

/// Introduces this replica to the primary at the other end and asks for its data. Returns what the
/// primary will send next.
///
/// Takes nothing from `input` beyond the answer's line. It blocks as long as reads and writes do; a
/// primary that prepares its answer sends a newline each second.
pub fn handshake(
    input: &mut (impl BufRead + ?Sized),
    output: &mut (impl Write + ?Sized),
    asks: &Handshake,
) -> Result<Answer, HandshakeError> {
    introduce(input, output, asks)?;
    psync(input, output, asks)
}

/// Does the first part of a [`handshake`]: the peer knows this replica then.
pub fn introduce(
    input: &mut (impl BufRead + ?Sized),
    output: &mut (impl Write + ?Sized),
    asks: &Handshake,
) -> Result<(), HandshakeError> {
    let mut link = Link { input, output, line: Line::default() };
    link.send(&[&[b"PING"]])?;
    link.pong()?;
    link.introduce(asks)
}

/// Does the second part of a [`handshake`]: asks for the data.
pub fn psync(
    input: &mut (impl BufRead + ?Sized),
    output: &mut (impl Write + ?Sized),
    asks: &Handshake,
) -> Result<Answer, HandshakeError> {
    Link { input, output, line: Line::default() }.psync(asks)
}

/// The role of a peer, and the histories that it continues, as INFO shows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Role {
    /// Whether it is a primary.
    pub is_primary: bool,
    /// The offset of the end of its history.
    pub end: u64,
    /// The histories that it continues under another ID, and the offsets up to which it has them;
    /// the last one first.
    pub continues: [Option<(Id, u64)>; 2],
}

impl Role {
    /// Returns the offset up to which it has a history that it continues.
    pub fn until(&self, id: Id) -> Option<u64> {
        self.continues.iter().flatten().find(|(continued, _)| *continued == id).map(|has| has.1)
    }

    /// Returns true if it continues nothing, and nothing was written to it.
    pub fn is_at_start(&self) -> bool {
        self.end == 0 && self.continues == [None; 2]
    }
}

/// Asks the peer for its role, between the two parts of a [`handshake`].
pub fn ask_role(
    input: &mut (impl BufRead + ?Sized),
    output: &mut (impl Write + ?Sized),
) -> Result<Role, HandshakeError> {
    let mut link = Link { input, output, line: Line::default() };
    link.send(&[&[b"INFO", b"replication"]])?;
    let text = link.bulk("INFO")?;
    let not_an_answer = || HandshakeError::NotAnAnswer { to: "INFO", line: shown(&text) };
    read_role(&text).ok_or_else(not_an_answer)
}

/// Asks the peer whether it has any keys.
pub fn ask_keys(
    input: &mut (impl BufRead + ?Sized),
    output: &mut (impl Write + ?Sized),
) -> Result<bool, HandshakeError> {
    let mut link = Link { input, output, line: Line::default() };
    link.send(&[&[b"INFO", b"keyspace"]])?;
    let text = link.bulk("INFO")?;
    Ok(text.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"db")))
}

fn read_role(text: &[u8]) -> Option<Role> {
    let field = |name: &[u8]| {
        let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
        lines.filter_map(|line| line.strip_prefix(name)?.strip_prefix(b":")).next()
    };
    let is_primary = match field(b"role")? {
        b"master" => true,
        b"slave" => false,
        _ => return None,
    };
    // The number of the first byte that the second history does not have; negative for none.
    let offset = |name: &[u8]| field(name).and_then(resp::number::parse_i64).unwrap_or(-1);
    let continues = |id: &[u8], first: &[u8]| {
        let until = u64::try_from(offset(first)).ok().and_then(|first| first.checked_sub(1));
        field(id).and_then(Id::parse).zip(until)
    };
    let end = u64::try_from(offset(b"master_repl_offset")).unwrap_or(0);
    let second = continues(b"master_replid2", b"second_repl_offset");
    // Perdura alone says this.
    let third = continues(b"master_replid3", b"third_repl_offset");
    Some(Role { is_primary, end, continues: [second, third] })
}

/// Both directions of a connection.
struct Link<'a, I: ?Sized, O: ?Sized> {
    input: &'a mut I,
    output: &'a mut O,
    line: Line,
}

impl<I: BufRead + ?Sized, O: Write + ?Sized> Link<'_, I, O> {
    /// Sends commands in one packet.
    fn send(&mut self, commands: &[&[&[u8]]]) -> Result<(), HandshakeError> {
        let mut packet = Vec::new();
        for command in commands {
            write!(packet, "*{}\r\n", command.len())?;
            for word in *command {
                write!(packet, "${}\r\n", word.len())?;
                packet.extend_from_slice(word);
                packet.extend_from_slice(b"\r\n");
            }
        }
        // A peer that refuses connections (too many clients, protected mode) says so and closes
        // without reading: what it said is more telling than the failed write.
        match self.output.write_all(&packet).and_then(|()| self.output.flush()) {
            Err(error) if !is_closed(&error) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Reads the answer to the command `to`: `Ok` of a status, or `Err` of an error, without the
    /// first byte.
    fn answer(&mut self, to: &'static str) -> Result<Result<&[u8], &[u8]>, HandshakeError> {
        self.line.clear();
        match self.line.read(self.input, MAX_ANSWER)? {
            [b'+', status @ ..] => Ok(Ok(status)),
            [b'-', error @ ..] => Ok(Err(error)),
            line => Err(HandshakeError::NotAnAnswer { to, line: shown(line) }),
        }
    }

    /// Reads the answer to the command `to`, which is a string.
    fn bulk(&mut self, to: &'static str) -> Result<Vec<u8>, HandshakeError> {
        self.line.clear();
        let line = self.line.read(self.input, MAX_ANSWER)?;
        if let [b'-', error @ ..] = line {
            return Err(refused(error));
        }
        let length = line.strip_prefix(b"$").and_then(resp::number::parse_i64);
        let Some(length) = length.and_then(|length| usize::try_from(length).ok()) else {
            return Err(HandshakeError::NotAnAnswer { to, line: shown(line) });
        };
        if length > MAX_ANSWER {
            return Err(HandshakeError::LineTooLong);
        }
        let mut text = vec![0; length + 2];
        self.input.read_exact(&mut text)?;
        text.truncate(length);
        Ok(text)
    }

    /// Reads the answer to PING. A primary that wants a password answers an error.
    fn pong(&mut self) -> Result<(), HandshakeError> {
        match self.answer("PING")? {
            Ok(b"PONG") => Ok(()),
            Ok(status) => Err(HandshakeError::NotAnAnswer { to: "PING", line: shown(status) }),
            Err(error) if wants_password(error) => Ok(()),
            Err(error) => Err(refused(error)),
        }
    }

    /// Authenticates, and says who this replica is and what it understands.
    fn introduce(&mut self, asks: &Handshake) -> Result<(), HandshakeError> {
        let auth = match (&asks.user, &asks.password) {
            (Some(user), Some(password)) => vec![&b"AUTH"[..], user, password],
            (None, Some(password)) => vec![&b"AUTH"[..], password],
            (_, None) => Vec::new(),
        };
        let port = asks.listening_port.to_string();
        let mut told = vec![vec![&b"listening-port"[..], port.as_bytes()]];
        if let Some(ip) = &asks.announce_ip {
            told.push(vec![b"ip-address", ip]);
        }
        // The last is known to Perdura alone; others ignore it.
        told.push(vec![b"capa", b"eof", b"capa", b"psync2", b"capa", b"perdura"]);
        if let Some(version) = &asks.version {
            told.push(vec![b"version", version]);
        }
        for options in &mut told {
            options.insert(0, b"REPLCONF");
        }
        let commands = [&auth].into_iter().filter(|auth| !auth.is_empty()).chain(&told);
        self.send(&commands.map(Vec::as_slice).collect::<Vec<_>>())?;
        if !auth.is_empty()
            && let Err(error) = self.answer("AUTH")?
        {
            return Err(HandshakeError::Unauthorized(shown(error)));
        }
        for _ in told {
            // Primaries differ in the options that they know; an error to one has no effect.
            let _ = self.answer("REPLCONF")?;
        }
        Ok(())
    }

    /// Asks for the data, and reads the answer.
    fn psync(&mut self, asks: &Handshake) -> Result<Answer, HandshakeError> {
        match &asks.resume {
            None => self.send(&[&[b"PSYNC", b"?", b"-1"]])?,
            Some((id, offset)) => {
                let next = offset.saturating_add(1).to_string();
                let psync = [b"PSYNC", id.as_bytes(), next.as_bytes(), b"FAILOVER"];
                self.send(&[if asks.failover { &psync } else { &psync[..3] }])?;
            }
        }
        match self.answer("PSYNC")? {
            Ok(status) => read_answer(status, asks.resume.is_some())
                .ok_or_else(|| HandshakeError::NotAnAnswer { to: "PSYNC", line: shown(status) }),
            Err(error) if error.starts_with(b"ERR unknown command") => Err(HandshakeError::NoPsync),
            Err(error) if wants_password(error) => Err(HandshakeError::Unauthorized(shown(error))),
            Err(error) => Err(refused(error)),
        }
    }
}

/// Reads a status in answer to PSYNC. Returns none if it is not one that may be given.
fn read_answer(status: &[u8], may_continue: bool) -> Option<Answer> {
    let mut words = status.split(|byte| *byte == b' ');
    let answer = match (words.next()?, words.next(), words.next()) {
        (b"FULLRESYNC", Some(id), Some(offset)) => {
            let offset = u64::try_from(resp::number::parse_i64(offset)?).ok()?;
            Answer::Full { id: Id::parse(id)?, offset }
        }
        (b"CONTINUE", None, None) if may_continue => Answer::Continue { id: None },
        (b"CONTINUE", Some(id), None) if may_continue => {
            Answer::Continue { id: Some(Id::parse(id)?) }
        }
        _ => return None,
    };
    words.next().is_none().then_some(answer)
}

/// Returns true if an error means that the peer wants a password, or another one. The third is that
/// of Redis 2.
fn wants_password(error: &[u8]) -> bool {
    [&b"NOAUTH"[..], b"NOPERM", b"ERR operation not permitted"]
        .iter()
        .any(|known| error.starts_with(known))
}

/// Returns the error for one that the primary gave.
fn refused(error: &[u8]) -> HandshakeError {
    let code = error.split(|byte| *byte == b' ').next().unwrap_or_default();
    if TRY_AGAIN.contains(&code) {
        return HandshakeError::TryAgain(shown(error));
    }
    HandshakeError::Refused(shown(error))
}

/// Returns true if a write failed because the peer has closed its end.
fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}
