//! Where the fields of a message are. All numbers are big-endian.
//!
//! The offsets are those that the assertions in Valkey's `cluster_legacy.h` fix for good.

use crate::id::Id;
use crate::slot::SET_BYTES;

/// The beginning of every message.
pub(super) const MAGIC: &[u8; 4] = b"RCmb";
/// The version of the format.
pub(super) const VERSION: u16 = 1;
/// The bit of a type that says that the header is short.
pub(super) const LIGHT: u16 = 0x8000;

pub(super) const TOTAL: usize = 4;
pub(super) const VERSION_AT: usize = 8;
pub(super) const PORT: usize = 10;
pub(super) const TYPE: usize = 12;
pub(super) const COUNT: usize = 14;
/// The end of a short header.
pub(super) const LIGHT_LEN: usize = 16;
pub(super) const CURRENT_EPOCH: usize = 16;
pub(super) const CONFIG_EPOCH: usize = 24;
pub(super) const OFFSET: usize = 32;
pub(super) const SENDER: usize = 40;
pub(super) const SLOTS_AT: usize = SENDER + Id::LEN;
pub(super) const PRIMARY: usize = SLOTS_AT + SET_BYTES;
pub(super) const IP: usize = PRIMARY + Id::LEN;
pub(super) const EXTENSIONS: usize = IP + IP_LEN;
pub(super) const RESERVED: usize = EXTENSIONS + 2;
pub(super) const OTHER_PORT: usize = RESERVED + 30;
pub(super) const BUS_PORT: usize = OTHER_PORT + 2;
pub(super) const FLAGS: usize = BUS_PORT + 2;
pub(super) const STATE: usize = FLAGS + 2;
pub(super) const MESSAGE_FLAGS: usize = STATE + 1;
/// The end of a header.
pub(super) const HEADER_LEN: usize = MESSAGE_FLAGS + 3;

const _: () = {
    assert!(SLOTS_AT == 80 && PRIMARY == 2128 && IP == 2168 && EXTENSIONS == 2214);
    assert!(OTHER_PORT == 2246 && BUS_PORT == 2248 && FLAGS == 2250 && STATE == 2252);
    assert!(MESSAGE_FLAGS == 2253 && HEADER_LEN == 2256);
    assert!(ENTRY_LEN == 104 && UPDATE_LEN == 2096);
};

/// The bytes of an address, the last of which is zero.
pub(super) const IP_LEN: usize = 46;

/// Flags of a message.
pub(super) const PAUSED: u8 = 1;
pub(super) const FORCE_VOTE: u8 = 1 << 1;
pub(super) const HAS_EXTENSIONS: u8 = 1 << 2;

/// An entry of the gossip: ID, PING's time, PONG's time, address, port, bus port, flags, other
/// port, two bytes of zero.
pub(super) const ENTRY_LEN: usize = Id::LEN + 4 + 4 + IP_LEN + 5 * 2;
/// The head of an extension: length, type, two bytes of zero.
pub(super) const EXTENSION_HEAD: usize = 8;
/// The body of an UPDATE: epoch, ID, slots.
pub(super) const UPDATE_LEN: usize = 8 + Id::LEN + SET_BYTES;
/// The head of a published message: lengths of the channel and of the message.
pub(super) const PUBLISH_HEAD: usize = 8;

/// The types of messages.
pub(super) mod kind {
    pub(in crate::message) const PING: u16 = 0;
    pub(in crate::message) const PONG: u16 = 1;
    pub(in crate::message) const MEET: u16 = 2;
    pub(in crate::message) const FAIL: u16 = 3;
    pub(in crate::message) const PUBLISH: u16 = 4;
    pub(in crate::message) const ASK_VOTE: u16 = 5;
    pub(in crate::message) const VOTE: u16 = 6;
    pub(in crate::message) const UPDATE: u16 = 7;
    pub(in crate::message) const START_FAILOVER: u16 = 8;
    pub(in crate::message) const MODULE: u16 = 9;
    pub(in crate::message) const PUBLISH_SHARD: u16 = 10;
}

/// The types of extensions.
pub(super) mod extension_kind {
    pub(in crate::message) const HOST_NAME: u16 = 0;
    pub(in crate::message) const NODE_NAME: u16 = 1;
    pub(in crate::message) const FORGOTTEN: u16 = 2;
    pub(in crate::message) const SHARD: u16 = 3;
    pub(in crate::message) const CLIENT_IPV4: u16 = 4;
    pub(in crate::message) const CLIENT_IPV6: u16 = 5;
    pub(in crate::message) const CLIENT_PORT: u16 = 6;
    pub(in crate::message) const CLIENT_TLS_PORT: u16 = 7;
    pub(in crate::message) const ZONE: u16 = 8;
}
