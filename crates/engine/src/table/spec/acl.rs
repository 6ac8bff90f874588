//! ACL categories: the stated ones, and those that Redis derives from a command's flags.

use super::flags::*;

/// `@keyspace`
pub const ACL_KEYSPACE: u32 = 1 << 0;
/// `@read`
pub const ACL_READ: u32 = 1 << 1;
/// `@write`
pub const ACL_WRITE: u32 = 1 << 2;
/// `@set`
pub const ACL_SET: u32 = 1 << 3;
/// `@sortedset`
pub const ACL_SORTEDSET: u32 = 1 << 4;
/// `@list`
pub const ACL_LIST: u32 = 1 << 5;
/// `@hash`
pub const ACL_HASH: u32 = 1 << 6;
/// `@string`
pub const ACL_STRING: u32 = 1 << 7;
/// `@bitmap`
pub const ACL_BITMAP: u32 = 1 << 8;
/// `@hyperloglog`
pub const ACL_HYPERLOGLOG: u32 = 1 << 9;
/// `@geo`
pub const ACL_GEO: u32 = 1 << 10;
/// `@stream`
pub const ACL_STREAM: u32 = 1 << 11;
/// `@pubsub`
pub const ACL_PUBSUB: u32 = 1 << 12;
/// `@admin`
pub const ACL_ADMIN: u32 = 1 << 13;
/// `@fast`
pub const ACL_FAST: u32 = 1 << 14;
/// `@slow`
pub const ACL_SLOW: u32 = 1 << 15;
/// `@blocking`
pub const ACL_BLOCKING: u32 = 1 << 16;
/// `@dangerous`
pub const ACL_DANGEROUS: u32 = 1 << 17;
/// `@connection`
pub const ACL_CONNECTION: u32 = 1 << 18;
/// `@transaction`
pub const ACL_TRANSACTION: u32 = 1 << 19;
/// `@scripting`
pub const ACL_SCRIPTING: u32 = 1 << 20;

/// Category names without the `@`, in the order in which Redis prints them.
pub const ACL_NAMES: &[(u32, &str)] = &[
    (ACL_KEYSPACE, "keyspace"),
    (ACL_READ, "read"),
    (ACL_WRITE, "write"),
    (ACL_SET, "set"),
    (ACL_SORTEDSET, "sortedset"),
    (ACL_LIST, "list"),
    (ACL_HASH, "hash"),
    (ACL_STRING, "string"),
    (ACL_BITMAP, "bitmap"),
    (ACL_HYPERLOGLOG, "hyperloglog"),
    (ACL_GEO, "geo"),
    (ACL_STREAM, "stream"),
    (ACL_PUBSUB, "pubsub"),
    (ACL_ADMIN, "admin"),
    (ACL_FAST, "fast"),
    (ACL_SLOW, "slow"),
    (ACL_BLOCKING, "blocking"),
    (ACL_DANGEROUS, "dangerous"),
    (ACL_CONNECTION, "connection"),
    (ACL_TRANSACTION, "transaction"),
    (ACL_SCRIPTING, "scripting"),
];

/// Returns the category of a name without its `@`, ignoring case.
pub fn category(name: &[u8]) -> Option<u32> {
    ACL_NAMES.iter().find(|(_, n)| n.as_bytes().eq_ignore_ascii_case(name)).map(|(bit, _)| *bit)
}

pub(super) const fn implied(flags: u32) -> u32 {
    let mut acl = 0;
    if flags & WRITE != 0 {
        acl |= ACL_WRITE;
    }
    if flags & READONLY != 0 {
        acl |= ACL_READ;
    }
    if flags & ADMIN != 0 {
        acl |= ACL_ADMIN | ACL_DANGEROUS;
    }
    if flags & PUBSUB != 0 {
        acl |= ACL_PUBSUB;
    }
    if flags & BLOCKING != 0 {
        acl |= ACL_BLOCKING;
    }
    acl | if flags & FAST != 0 { ACL_FAST } else { ACL_SLOW }
}
