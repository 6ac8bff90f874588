//! What a PING, PONG or MEET has after its gossip: pieces with a length and a type of their own, of
//! a multiple of eight bytes each.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::decode::{DecodeError, Fields};
use super::layout::{EXTENSION_HEAD, extension_kind as kind};
use super::text::Text;
use crate::id::Id;

/// Something that a node says of itself, or a node that was forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extension {
    /// Its host name.
    HostName(Text),
    /// The name that people gave it.
    NodeName(Text),
    /// A node was forgotten, and is not to be added again for so many seconds.
    Forgotten {
        /// The node.
        node: Id,
        /// Seconds.
        seconds: u64,
    },
    /// The shard that it belongs to.
    Shard(Id),
    /// The IPv4 address that clients are to use.
    ClientIpv4(Text),
    /// The IPv6 address that clients are to use.
    ClientIpv6(Text),
    /// The port that clients are to use.
    ClientPort(u16),
    /// The port that clients with TLS are to use.
    ClientTlsPort(u16),
    /// Its availability zone.
    Zone(Text),
}

impl Extension {
    /// Reads the next extension. Returns none, and skips it, if its type is not known.
    pub(super) fn read(fields: &mut Fields<'_>) -> Result<Option<Extension>, DecodeError> {
        let length = fields.u32()? as usize;
        let what = fields.u16()?;
        fields.skip(2)?;
        if !length.is_multiple_of(8) || length < EXTENSION_HEAD {
            return Err(DecodeError::Extension { what, length });
        }
        let mut body = Fields::new(fields.take(length - EXTENSION_HEAD)?);
        // Servers differ in the characters that they allow in a name. One that is not allowed here
        // is left out: it is no reason to take its node for dead.
        let mut text = |make: fn(Text) -> Extension| body.text_to_end().ok().map(make);
        Ok(match what {
            kind::HOST_NAME => text(Extension::HostName),
            kind::NODE_NAME => text(Extension::NodeName),
            // Redis 8.0 has something of its own under this number: 40 bytes for its internal use.
            kind::CLIENT_IPV4 => text(Extension::ClientIpv4).filter(is_address),
            kind::CLIENT_IPV6 => text(Extension::ClientIpv6).filter(is_address),
            kind::ZONE => text(Extension::Zone),
            kind::FORGOTTEN => {
                Some(Extension::Forgotten { node: body.id()?, seconds: body.u64()? })
            }
            kind::SHARD => Some(Extension::Shard(body.id()?)),
            kind::CLIENT_PORT => Some(Extension::ClientPort(body.u16()?)),
            kind::CLIENT_TLS_PORT => Some(Extension::ClientTlsPort(body.u16()?)),
            _ => None,
        })
    }

    /// Writes it.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let mut body = Vec::new();
        let what = match self {
            Extension::HostName(text) => text_body(&mut body, text, kind::HOST_NAME),
            Extension::NodeName(text) => text_body(&mut body, text, kind::NODE_NAME),
            Extension::ClientIpv4(text) => text_body(&mut body, text, kind::CLIENT_IPV4),
            Extension::ClientIpv6(text) => text_body(&mut body, text, kind::CLIENT_IPV6),
            Extension::Zone(text) => text_body(&mut body, text, kind::ZONE),
            Extension::Forgotten { node, seconds } => {
                body.extend_from_slice(node.as_bytes());
                body.extend_from_slice(&seconds.to_be_bytes());
                kind::FORGOTTEN
            }
            Extension::Shard(shard) => {
                body.extend_from_slice(shard.as_bytes());
                kind::SHARD
            }
            Extension::ClientPort(port) => {
                body.extend_from_slice(&port.to_be_bytes());
                kind::CLIENT_PORT
            }
            Extension::ClientTlsPort(port) => {
                body.extend_from_slice(&port.to_be_bytes());
                kind::CLIENT_TLS_PORT
            }
        };
        body.resize(body.len().next_multiple_of(8), 0);
        out.extend_from_slice(&((EXTENSION_HEAD + body.len()) as u32).to_be_bytes());
        out.extend_from_slice(&what.to_be_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&body);
    }
}

fn is_address(extension: &Extension) -> bool {
    match extension {
        Extension::ClientIpv4(text) => text.as_str().parse::<Ipv4Addr>().is_ok(),
        Extension::ClientIpv6(text) => text.as_str().parse::<Ipv6Addr>().is_ok(),
        _ => false,
    }
}

/// Writes a text and the zero that ends it. Returns the type of its extension.
fn text_body(body: &mut Vec<u8>, text: &Text, what: u16) -> u16 {
    body.extend_from_slice(text.as_str().as_bytes());
    body.push(0);
    what
}
