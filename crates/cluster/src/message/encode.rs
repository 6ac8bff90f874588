//! From a message to bytes.

use super::layout::*;
use super::text::Text;
use super::{Body, Entry, Gossip, Header, Message, Published};
use crate::id::Id;

impl Message {
    /// Returns its bytes.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Message::Full(header, body) => full(header, body),
            Message::Light(published) => light(published),
            Message::LightModule => prefix(kind::MODULE | LIGHT),
        }
    }
}

/// Returns what both kinds of headers begin with, without the length.
fn prefix(what: u16) -> Vec<u8> {
    let mut bytes = vec![0; LIGHT_LEN];
    bytes[..MAGIC.len()].copy_from_slice(MAGIC);
    put(&mut bytes, VERSION_AT, &VERSION.to_be_bytes());
    put(&mut bytes, TYPE, &what.to_be_bytes());
    with_length(bytes)
}

fn light(published: &Published) -> Vec<u8> {
    let mut bytes = prefix(published.kind() | LIGHT);
    publish(published, &mut bytes);
    with_length(bytes)
}

fn full(header: &Header, body: &Body) -> Vec<u8> {
    let mut bytes = prefix(body.kind());
    bytes.resize(HEADER_LEN, 0);
    put_header(&mut bytes, header);
    match body {
        Body::Ping(gossip) | Body::Pong(gossip) | Body::Meet(gossip) => {
            put_gossip(&mut bytes, gossip);
        }
        Body::Fail(node) => bytes.extend_from_slice(node.as_bytes()),
        Body::Publish(published) => publish(published, &mut bytes),
        Body::Update(update) => {
            bytes.extend_from_slice(&update.config_epoch.to_be_bytes());
            bytes.extend_from_slice(update.node.as_bytes());
            bytes.extend_from_slice(update.slots.as_bytes());
        }
        Body::AskVote | Body::Vote | Body::StartFailover | Body::Other(_) => {}
    }
    with_length(bytes)
}

fn put_header(bytes: &mut [u8], header: &Header) {
    put(bytes, PORT, &header.ports.client.to_be_bytes());
    put(bytes, OTHER_PORT, &header.ports.other.to_be_bytes());
    put(bytes, BUS_PORT, &header.ports.bus.to_be_bytes());
    put(bytes, CURRENT_EPOCH, &header.current_epoch.to_be_bytes());
    put(bytes, CONFIG_EPOCH, &header.config_epoch.to_be_bytes());
    put(bytes, OFFSET, &header.offset.to_be_bytes());
    put(bytes, SENDER, header.sender.as_bytes());
    put(bytes, SLOTS_AT, header.slots.as_bytes());
    let primary = header.primary.map_or([0; Id::LEN], |primary| *primary.as_bytes());
    put(bytes, PRIMARY, &primary);
    put(bytes, IP, &address(&header.ip));
    put(bytes, FLAGS, &header.flags.bits().to_be_bytes());
    bytes[STATE] = u8::from(header.is_down);
    let flags = [
        (header.is_paused, PAUSED),
        (header.forces_vote, FORCE_VOTE),
        (header.has_extensions, HAS_EXTENSIONS),
    ];
    bytes[MESSAGE_FLAGS] = flags.iter().filter(|flag| flag.0).map(|flag| flag.1).sum();
}

/// Adds gossip and extensions, as many of each as can be counted.
fn put_gossip(bytes: &mut Vec<u8>, gossip: &Gossip) {
    let most = usize::from(u16::MAX);
    let entries = &gossip.entries[..gossip.entries.len().min(most)];
    let extensions = &gossip.extensions[..gossip.extensions.len().min(most)];
    put(bytes, COUNT, &(entries.len() as u16).to_be_bytes());
    put(bytes, EXTENSIONS, &(extensions.len() as u16).to_be_bytes());
    entries.iter().for_each(|entry| put_entry(bytes, entry));
    extensions.iter().for_each(|extension| extension.write(bytes));
}

fn put_entry(bytes: &mut Vec<u8>, entry: &Entry) {
    bytes.extend_from_slice(entry.node.as_bytes());
    bytes.extend_from_slice(&entry.ping_sent.to_be_bytes());
    bytes.extend_from_slice(&entry.pong_received.to_be_bytes());
    bytes.extend_from_slice(&address(&entry.ip));
    bytes.extend_from_slice(&entry.ports.client.to_be_bytes());
    bytes.extend_from_slice(&entry.ports.bus.to_be_bytes());
    bytes.extend_from_slice(&entry.flags.bits().to_be_bytes());
    bytes.extend_from_slice(&entry.ports.other.to_be_bytes());
    bytes.extend_from_slice(&[0; 2]);
}

fn publish(published: &Published, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&(published.channel.len() as u32).to_be_bytes());
    bytes.extend_from_slice(&(published.message.len() as u32).to_be_bytes());
    bytes.extend_from_slice(&published.channel);
    bytes.extend_from_slice(&published.message);
}

/// Returns the field of an address; one that is too long is left out.
fn address(ip: &Text) -> [u8; IP_LEN] {
    let mut field = [0; IP_LEN];
    let text = ip.as_str().as_bytes();
    if text.len() < IP_LEN {
        field[..text.len()].copy_from_slice(text);
    }
    field
}

fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}

fn with_length(mut bytes: Vec<u8>) -> Vec<u8> {
    let length = bytes.len() as u32;
    put(&mut bytes, TOTAL, &length.to_be_bytes());
    bytes
}
