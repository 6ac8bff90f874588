//! How much work a command does, estimated before it runs: from its arguments, and from the sizes
//! of the values at its keys, whose shards are locked.
//!
//! A unit takes about a tenth of a microsecond: an element that is read, a kilobyte that is copied.
//! The figures need not be exact; they only separate microseconds from milliseconds.

use keyspace::{Db, Entry, Key, Txn, Type};

/// Estimates how much work a command does with these arguments and keys.
pub type Weigh = fn(&[&[u8]], &[Key<'_>], &Txn<'_>, Db) -> u64;

/// Commands that weigh more than this, a millisecond, are executed by a thread other than their
/// connection's.
pub const LONG: u64 = 10_000;

/// A command with no more words than this is not executed elsewhere for their number.
pub const MANY_WORDS: usize = 1000;

/// Functions that estimate a command's work, in addition to the weight of each argument.
pub mod weights {
    use resp::number::parse_i64;

    use super::{Db, Key, Txn, Type, amount, bytes, entry};

    /// Any command.
    pub const COMMAND: u64 = 4;
    /// An argument.
    pub const ARGUMENT: u64 = 2;
    /// An element that is stored or removed, counted in elements that are read.
    pub const STORED: u64 = 8;

    /// Reads all of the values at its keys.
    pub fn reads_all(_: &[&[u8]], keys: &[Key<'_>], txn: &Txn<'_>, db: Db) -> u64 {
        keys.iter().map(|key| amount(txn, db, key)).sum()
    }

    /// Reads the values at all its keys but the first, where it stores about as much.
    pub fn stores_all(_: &[&[u8]], keys: &[Key<'_>], txn: &Txn<'_>, db: Db) -> u64 {
        STORED * sources(keys).iter().map(|key| amount(txn, db, key)).sum::<u64>()
    }

    /// Reads all of the values at its keys and compresses strings.
    pub fn dumps(args: &[&[u8]], keys: &[Key<'_>], txn: &Txn<'_>, db: Db) -> u64 {
        let compressed: u64 = keys.iter().map(|key| bytes(txn, db, key) / 64).sum();
        reads_all(args, keys, txn, db) + compressed
    }

    /// Copies the value at its first key.
    pub fn copies(_: &[&[u8]], keys: &[Key<'_>], txn: &Txn<'_>, db: Db) -> u64 {
        keys.first().map_or(0, |key| STORED * amount(txn, db, key))
    }

    /// Copies the value at its first key if the second belongs to another shard.
    pub fn renames(args: &[&[u8]], keys: &[Key<'_>], txn: &Txn<'_>, db: Db) -> u64 {
        let is_far = keys.iter().any(|key| key.shard() != keys[0].shard());
        if is_far { copies(args, keys, txn, db) } else { 0 }
    }

    /// Looks up the elements of the smallest value in all others.
    pub fn intersects(_: &[&[u8]], keys: &[Key<'_>], txn: &Txn<'_>, db: Db) -> u64 {
        let least = keys.iter().map(|key| amount(txn, db, key)).min();
        least.unwrap_or(0).saturating_mul(3 * keys.len() as u64)
    }

    /// Does the same without the value at the first key, where it stores the result.
    pub fn intersects_into(args: &[&[u8]], keys: &[Key<'_>], txn: &Txn<'_>, db: Db) -> u64 {
        2 * intersects(args, sources(keys), txn, db)
    }

    /// Compares two strings, each part of one with each of the other.
    pub fn compares(_: &[&[u8]], keys: &[Key<'_>], txn: &Txn<'_>, db: Db) -> u64 {
        let bytes = keys.iter().map(|key| bytes(txn, db, key) / 8 + 1);
        bytes.fold(1, u64::saturating_mul)
    }

    /// Reads the elements from the position in the second argument to the one in the third.
    pub fn reads_range(args: &[&[u8]], keys: &[Key<'_>], txn: &Txn<'_>, db: Db) -> u64 {
        let index = |at: usize| args.get(at).and_then(|arg| parse_i64(arg));
        let is = |word: &str| args.iter().any(|arg| arg.eq_ignore_ascii_case(word.as_bytes()));
        if args.len() > 4 && (is("byscore") || is("bylex")) {
            return reads_bounds(args, keys, txn, db);
        }
        let (Some(start), Some(stop)) = (index(2), index(3)) else {
            return reads_bounds(args, keys, txn, db);
        };
        let len = reads_all(args, keys, txn, db);
        let position = |index: i64| match u64::try_from(index) {
            Ok(index) => index.min(len),
            Err(_) => len.saturating_sub(index.unsigned_abs()),
        };
        position(stop).saturating_sub(position(start))
    }

    /// Stores the elements of its second key between the positions in the third and the fourth
    /// argument at its first key.
    pub fn stores_range(args: &[&[u8]], keys: &[Key<'_>], txn: &Txn<'_>, db: Db) -> u64 {
        let read = reads_range(args.get(1..).unwrap_or_default(), sources(keys), txn, db);
        STORED.saturating_mul(read)
    }

    /// Removes all elements except those from the position in the second argument to the one in the
    /// third.
    pub fn trims(args: &[&[u8]], keys: &[Key<'_>], txn: &Txn<'_>, db: Db) -> u64 {
        let kept = reads_range(args, keys, txn, db);
        reads_all(args, keys, txn, db).saturating_sub(kept)
    }

    /// Reads the elements between two bounds. Their number is known only if neither is a bound: all
    /// of them, or as many as LIMIT or COUNT says.
    pub fn reads_bounds(args: &[&[u8]], keys: &[Key<'_>], txn: &Txn<'_>, db: Db) -> u64 {
        let is_none = |at: usize| {
            let arg = args.get(at).copied().unwrap_or_default();
            [&b"-"[..], b"+", b"-inf", b"+inf", b"inf"]
                .iter()
                .any(|none| arg.eq_ignore_ascii_case(none))
        };
        if !(is_none(2) && is_none(3)) {
            return 0;
        }
        let after = |word: &str, by: usize| {
            let at = args.iter().position(|arg| arg.eq_ignore_ascii_case(word.as_bytes()))?;
            u64::try_from(parse_i64(args.get(at + by)?)?).ok()
        };
        let limit = after("limit", 2).or_else(|| after("count", 1));
        reads_all(args, keys, txn, db).min(limit.unwrap_or(u64::MAX))
    }

    /// Reads or takes as many elements as the second argument says, one without it. If it is
    /// negative, elements may be repeated.
    pub fn reads_count(args: &[&[u8]], keys: &[Key<'_>], txn: &Txn<'_>, db: Db) -> u64 {
        let Some(count) = args.get(2).and_then(|arg| parse_i64(arg)) else { return 0 };
        let len = reads_all(args, keys, txn, db);
        match u64::try_from(count) {
            Ok(count) => 2 * count.min(len),
            Err(_) if len == 0 => 0,
            Err(_) => count.unsigned_abs().saturating_mul(2),
        }
    }

    /// Reads or takes as many elements as COUNT says, or few without it.
    pub fn reads_some(args: &[&[u8]], keys: &[Key<'_>], txn: &Txn<'_>, db: Db) -> u64 {
        let at = args.iter().position(|arg| arg.eq_ignore_ascii_case(b"count"));
        let count = at.and_then(|at| parse_i64(args.get(at + 1)?)).unwrap_or(0);
        let all = if keys.is_empty() { u64::MAX } else { reads_all(args, keys, txn, db) };
        2 * all.min(u64::try_from(count).unwrap_or(0)).min(1 << 32)
    }

    /// Restores a value from the bytes of its third argument.
    pub fn restores(args: &[&[u8]], _: &[Key<'_>], _: &Txn<'_>, _: Db) -> u64 {
        args.get(3).map_or(0, |payload| payload.len() as u64 / 8)
    }

    /// Sorts the elements at its first key.
    pub fn sorts(_: &[&[u8]], keys: &[Key<'_>], txn: &Txn<'_>, db: Db) -> u64 {
        let sorted = keys.first().filter(|key| {
            entry(txn, db, key)
                .is_some_and(|entry| txn.properties(&entry).value_type() != Type::String)
        });
        sorted.map_or(0, |key| 4 * amount(txn, db, key))
    }

    fn sources<'k, 'b>(keys: &'k [Key<'b>]) -> &'k [Key<'b>] {
        keys.get(1..).unwrap_or_default()
    }
}

/// Returns how much there is to read at a key.
fn amount(txn: &Txn<'_>, db: Db, key: &Key<'_>) -> u64 {
    elements(txn, db, key) + bytes(txn, db, key) / 1024
}

/// Returns the number of elements at a key; 0 for a string.
fn elements(txn: &Txn<'_>, db: Db, key: &Key<'_>) -> u64 {
    let Some(entry) = entry(txn, db, key) else { return 0 };
    let len = match txn.properties(&entry).value_type() {
        Type::Set | Type::List | Type::SortedSet => {
            txn.elements(&entry).and_then(|elements| elements.count())
        }
        Type::Hash => txn.members(&entry, Type::Hash).map(|fields| fields.len()),
        Type::Stream => txn.stream(&entry).map(|stream| stream.head().len),
        _ => Ok(0),
    };
    len.unwrap_or(0)
}

/// Returns the length of the string at a key; 0 for other types.
fn bytes(txn: &Txn<'_>, db: Db, key: &Key<'_>) -> u64 {
    let entry =
        entry(txn, db, key).filter(|entry| txn.properties(entry).value_type() == Type::String);
    entry.and_then(|entry| txn.string(&entry).ok()).map_or(0, |value| value.len() as u64)
}

fn entry(txn: &Txn<'_>, db: Db, key: &Key<'_>) -> Option<Entry> {
    if txn.covers(key) { txn.peek(db, key) } else { None }
}
