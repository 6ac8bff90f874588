//! From bytes to a message.
//!
//! A reader takes [`PREFIX_LEN`] bytes from the link, asks [`length`] how many the message has, and
//! decodes it when all have come. A length is believed only as far as [`MAX_LEN`]; memory is taken
//! for bytes that came, never for those that were promised.

use super::extension::Extension;
use super::layout::*;
use super::text::Text;
use super::{Body, Entry, Gossip, Header, Message, Ports, Published, Update};
use crate::flags::Flags;
use crate::id::Id;
use crate::slot::{SET_BYTES, SlotSet};

/// The bytes that say how long a message is.
pub const PREFIX_LEN: usize = LIGHT_LEN;

/// The maximum length of a message: a channel and a message of 512 MiB each, with their header.
pub const MAX_LEN: usize = (1 << 30) + HEADER_LEN + PUBLISH_HEAD;

/// The maximum length of a message in which nothing is published: gossip of 65535 nodes, and room
/// for extensions.
const MAX_GOSSIP_LEN: usize = 16 << 20;

/// A message that nobody may have sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// It does not begin as messages do: what follows on the link cannot be understood either.
    #[error("bytes on the cluster bus that are no message")]
    NoMessage,
    /// Its length is impossible: what follows on the link cannot be understood either.
    #[error("a message on the cluster bus that claims {0} bytes")]
    Length(usize),
    /// It has a version of the format that is not known.
    #[error("a message on the cluster bus of version {0}")]
    Version(u16),
    /// It ends within a field.
    #[error("a message on the cluster bus that ends too early")]
    Cut,
    /// It goes on after its last field.
    #[error("a message on the cluster bus with {0} bytes too many")]
    TooLong(usize),
    /// An ID has other characters than an ID may have.
    #[error("a message on the cluster bus with an invalid node ID")]
    Id,
    /// A text has characters that it must not have.
    #[error("a message on the cluster bus with an invalid address or name")]
    Text,
    /// An extension has an impossible length.
    #[error("a message on the cluster bus with an extension of type {what} of {length} bytes")]
    Extension {
        /// Its type.
        what: u16,
        /// Its length.
        length: usize,
    },
    /// A message of this type cannot have a short header.
    #[error("a message on the cluster bus of type {0} with a short header")]
    Light(u16),
}

impl DecodeError {
    /// Returns true if nothing after it on the link can be understood: the link must be closed.
    pub fn ends_link(&self) -> bool {
        matches!(self, DecodeError::NoMessage | DecodeError::Length(_))
    }
}

/// Returns the length of the message that begins with these bytes.
pub fn length(prefix: &[u8; PREFIX_LEN]) -> Result<usize, DecodeError> {
    let mut fields = Fields::new(prefix);
    if fields.take(MAGIC.len())? != MAGIC {
        return Err(DecodeError::NoMessage);
    }
    let total = fields.u32()? as usize;
    let what = Fields::new(&prefix[TYPE..]).u16()?;
    let (least, most) = match what & !LIGHT {
        kind::PUBLISH | kind::PUBLISH_SHARD | kind::MODULE => (HEADER_LEN, MAX_LEN),
        _ => (HEADER_LEN, MAX_GOSSIP_LEN),
    };
    let least = if what & LIGHT != 0 { LIGHT_LEN } else { least };
    if total < least || total > most {
        return Err(DecodeError::Length(total));
    }
    Ok(total)
}

/// Returns the number of the type of a message that was encoded here.
pub(crate) fn kind_of(bytes: &[u8]) -> u16 {
    Fields::at(bytes, TYPE).and_then(|mut fields| fields.u16()).map_or(0, |what| what & !LIGHT)
}

impl Message {
    /// Decodes a whole message.
    pub fn decode(bytes: &[u8]) -> Result<Message, DecodeError> {
        let prefix = bytes.first_chunk().ok_or(DecodeError::Cut)?;
        let total = length(prefix)?;
        let bytes = bytes.get(..total).ok_or(DecodeError::Cut)?;
        let version = Fields::at(bytes, VERSION_AT)?.u16()?;
        if version != VERSION {
            return Err(DecodeError::Version(version));
        }
        let what = Fields::at(bytes, TYPE)?.u16()?;
        if what & LIGHT != 0 {
            return light(what & !LIGHT, bytes);
        }
        let header = header(bytes)?;
        let body = body(what, bytes, header.has_extensions)?;
        Ok(Message::full(header, body))
    }
}

/// Decodes a message with a short header.
fn light(what: u16, bytes: &[u8]) -> Result<Message, DecodeError> {
    let mut fields = Fields::at(bytes, LIGHT_LEN)?;
    match what {
        kind::PUBLISH | kind::PUBLISH_SHARD => {
            let published = published(what, &mut fields)?;
            fields.end()?;
            Ok(Message::Light(published))
        }
        kind::MODULE => Ok(Message::LightModule),
        _ => Err(DecodeError::Light(what)),
    }
}

fn header(bytes: &[u8]) -> Result<Header, DecodeError> {
    let at = |offset| Fields::at(bytes, offset);
    let flags = at(MESSAGE_FLAGS)?.u8()?;
    Ok(Header {
        sender: at(SENDER)?.id()?,
        ip: at(IP)?.text(IP_LEN)?,
        ports: Ports {
            client: at(PORT)?.u16()?,
            other: at(OTHER_PORT)?.u16()?,
            bus: at(BUS_PORT)?.u16()?,
        },
        flags: Flags::from_bits(at(FLAGS)?.u16()?),
        primary: at(PRIMARY)?.id_or_none()?,
        current_epoch: at(CURRENT_EPOCH)?.u64()?,
        config_epoch: at(CONFIG_EPOCH)?.u64()?,
        slots: at(SLOTS_AT)?.slots()?,
        offset: at(OFFSET)?.u64()?,
        is_down: at(STATE)?.u8()? != 0,
        is_paused: flags & PAUSED != 0,
        forces_vote: flags & FORCE_VOTE != 0,
        has_extensions: flags & HAS_EXTENSIONS != 0,
    })
}

fn body(what: u16, bytes: &[u8], has_extensions: bool) -> Result<Body, DecodeError> {
    let mut fields = Fields::at(bytes, HEADER_LEN)?;
    let body = match what {
        kind::PING | kind::PONG | kind::MEET => {
            let entries = Fields::at(bytes, COUNT)?.u16()?;
            let extensions =
                if has_extensions { Fields::at(bytes, EXTENSIONS)?.u16()? } else { 0 };
            let gossip = gossip(&mut fields, entries, extensions)?;
            match what {
                kind::PING => Body::Ping(gossip),
                kind::PONG => Body::Pong(gossip),
                _ => Body::Meet(gossip),
            }
        }
        kind::FAIL => Body::Fail(fields.id()?),
        kind::PUBLISH | kind::PUBLISH_SHARD => Body::Publish(published(what, &mut fields)?),
        kind::ASK_VOTE => Body::AskVote,
        kind::VOTE => Body::Vote,
        kind::UPDATE => Body::Update(Update {
            config_epoch: fields.u64()?,
            node: fields.id()?,
            slots: fields.slots()?,
        }),
        kind::START_FAILOVER => Body::StartFailover,
        _ => return Ok(Body::Other(what)),
    };
    fields.end()?;
    Ok(body)
}

fn gossip(fields: &mut Fields<'_>, entries: u16, extensions: u16) -> Result<Gossip, DecodeError> {
    let mut gossip = Gossip::default();
    for _ in 0..entries {
        gossip.entries.push(entry(fields)?);
    }
    for _ in 0..extensions {
        gossip.extensions.extend(Extension::read(fields)?);
    }
    Ok(gossip)
}

fn entry(fields: &mut Fields<'_>) -> Result<Entry, DecodeError> {
    let node = fields.id()?;
    let (ping_sent, pong_received) = (fields.u32()?, fields.u32()?);
    let ip = fields.text(IP_LEN)?;
    let (client, bus) = (fields.u16()?, fields.u16()?);
    let flags = Flags::from_bits(fields.u16()?);
    let other = fields.u16()?;
    fields.skip(2)?;
    let ports = Ports { client, other, bus };
    Ok(Entry { node, ping_sent, pong_received, ip, ports, flags })
}

fn published(what: u16, fields: &mut Fields<'_>) -> Result<Published, DecodeError> {
    let (channel, message) = (fields.u32()? as usize, fields.u32()? as usize);
    Ok(Published {
        is_sharded: what == kind::PUBLISH_SHARD,
        channel: fields.take(channel)?.to_vec(),
        message: fields.take(message)?.to_vec(),
    })
}

/// The fields of a message that are still to be read.
pub(super) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Fields<'a> {
        Fields(bytes)
    }

    fn at(bytes: &'a [u8], offset: usize) -> Result<Fields<'a>, DecodeError> {
        bytes.get(offset..).map(Fields).ok_or(DecodeError::Cut)
    }

    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(DecodeError::Cut)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<&'a [u8; N], DecodeError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(DecodeError::Cut)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn skip(&mut self, length: usize) -> Result<(), DecodeError> {
        self.take(length).map(|_| ())
    }

    fn u8(&mut self) -> Result<u8, DecodeError> {
        self.array::<1>().map(|bytes| bytes[0])
    }

    pub(super) fn u16(&mut self) -> Result<u16, DecodeError> {
        self.array().copied().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().copied().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().copied().map(u64::from_be_bytes)
    }

    pub(super) fn id(&mut self) -> Result<Id, DecodeError> {
        Id::parse(self.take(Id::LEN)?).ok_or(DecodeError::Id)
    }

    /// Reads an ID, or as many zeros.
    fn id_or_none(&mut self) -> Result<Option<Id>, DecodeError> {
        let bytes = self.take(Id::LEN)?;
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        Id::parse(bytes).map(Some).ok_or(DecodeError::Id)
    }

    fn slots(&mut self) -> Result<SlotSet, DecodeError> {
        self.array::<SET_BYTES>().map(SlotSet::from_bytes)
    }

    /// Reads a text in a field of this many bytes, which a zero ends.
    fn text(&mut self, length: usize) -> Result<Text, DecodeError> {
        let field = self.take(length)?;
        let end = field.iter().position(|byte| *byte == 0).ok_or(DecodeError::Text)?;
        Text::parse(&field[..end]).ok_or(DecodeError::Text)
    }

    /// Reads a text in all of the rest.
    pub(super) fn text_to_end(&mut self) -> Result<Text, DecodeError> {
        self.text(self.0.len())
    }

    fn end(&self) -> Result<(), DecodeError> {
        if self.0.is_empty() { Ok(()) } else { Err(DecodeError::TooLong(self.0.len())) }
    }
}
