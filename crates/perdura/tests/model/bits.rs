//! Bitmaps and HyperLogLogs.

use std::collections::BTreeSet;

use perdura::{BitInteger, BitOperation, BitOverflow, BitRange, Error, Operations};

use super::draw::Draw;
use super::state::{Bytes, Checked, Db, Value, same};
use super::strings::call;

fn bit(bytes: &[u8], at: u64) -> bool {
    bytes.get((at / 8) as usize).is_some_and(|byte| byte & 0x80 >> (at % 8) != 0)
}

fn put_bit(bytes: &mut Bytes, at: u64, on: bool) {
    let byte = (at / 8) as usize;
    if bytes.len() <= byte {
        bytes.resize(byte + 1, 0);
    }
    let mask = 0x80 >> (at % 8);
    if on { bytes[byte] |= mask } else { bytes[byte] &= !mask }
}

/// Returns the first and the last bit of a range; none if it is empty.
fn bits_of(range: BitRange, len: usize) -> Option<(u64, u64)> {
    let (first, last, unit) = match range {
        BitRange::All => (0, -1, 8),
        BitRange::Bytes(first, last) => (first, last, 8),
        BitRange::Bits(first, last) => (first, last, 1),
    };
    let total = len as i64 * 8 / unit;
    let from = if first < 0 { (first + total).max(0) } else { first };
    let to = if last < 0 { (last + total).max(0) } else { last };
    let to = to.min(total - 1);
    (from <= to).then(|| ((from * unit) as u64, ((to + 1) * unit - 1) as u64))
}

fn range(draw: &mut Draw, len: usize) -> BitRange {
    let mut at = |most: i64| {
        let near = [0, 1, 7, 8, 9, most - 1, most, most + 1, -1, -2, -8, -most, -most - 1];
        if draw.one_in(3) { draw.rng.i64(-most - 2..=most + 2) } else { draw.of(&near) }
    };
    let (bytes, bits) = (len as i64, len as i64 * 8);
    match (at(2) & 3, at(bytes), at(bytes), at(bits), at(bits)) {
        (0, ..) => BitRange::All,
        (1, first, last, ..) => BitRange::Bytes(first, last),
        (_, _, _, first, last) => BitRange::Bits(first, last),
    }
}

/// Returns true if a range ends before it begins, with both counted from the end: it has no bits to
/// count, but is searched as in Redis.
fn is_backwards(range: BitRange) -> bool {
    match range {
        BitRange::All => false,
        BitRange::Bytes(first, last) | BitRange::Bits(first, last) => {
            first < 0 && last < 0 && first > last
        }
    }
}

/// Draws the position of a bit: in the string, at its end, after it, or across a block.
fn place(draw: &mut Draw, len: usize) -> u64 {
    let end = len as u64 * 8;
    match draw.below(8) {
        0..4 => draw.rng.u64(..end + 20),
        4 => end + draw.below(3) as u64,
        5 => end.saturating_sub(1 + draw.below(3) as u64),
        _ => draw.size().min(20_000) as u64 * 8 + draw.below(9) as u64,
    }
}

fn read<S: Operations>(on: &S, db: &Db, draw: &mut Draw, key: &[u8]) -> Checked {
    let held = db.string(key).map(|value| value.cloned().unwrap_or_default());
    let len = held.as_ref().map_or(0, Vec::len);
    match draw.below(4) {
        0 => {
            let at = place(draw, len);
            let text = call(draw, "get_bit", key, &at.to_string());
            same(&text, on.get_bit(key, at), held.map(|bytes| bit(&bytes, at)))
        }
        1 => {
            let range = range(draw, len);
            let text = call(draw, "bit_count", key, &format!("{range:?} of {len}"));
            let count = |bytes: Bytes| {
                let bits = bits_of(range, len).filter(|_| !is_backwards(range));
                bits.map_or(0, |(from, to)| {
                    (from..=to).filter(|at| bit(&bytes, *at)).count() as u64
                })
            };
            same(&text, on.bit_count(key, range), held.map(count))
        }
        2 => {
            let (range, wanted) = (range(draw, len), draw.rng.bool());
            let text = call(draw, "bit_position", key, &format!("{wanted}, {range:?} of {len}"));
            let find = |bytes: Bytes| {
                let bits = bits_of(range, len);
                let found =
                    bits.and_then(|(from, to)| (from..=to).find(|at| bit(&bytes, *at) == wanted));
                let after = (!wanted && range == BitRange::All).then_some(len as u64 * 8);
                found.or(after)
            };
            same(&text, on.bit_position(key, wanted, range), held.map(find))
        }
        _ => {
            let (integer, field) = integer(draw);
            let at = place(draw, len);
            let text = call(draw, "bit_field_get", key, &format!("{field:?}, {at}"));
            same(&text, on.bit_field_get(key, integer, at), held.map(|bytes| field.get(&bytes, at)))
        }
    }
}

/// An integer of some bits.
#[derive(Clone, Copy, Debug)]
struct Field {
    bits: u32,
    is_signed: bool,
}

fn integer(draw: &mut Draw) -> (BitInteger, Field) {
    let is_signed = draw.rng.bool();
    let most = if is_signed { 64 } else { 63 };
    let bits =
        if draw.rng.bool() { draw.rng.u32(1..=most) } else { draw.of(&[1, 7, 8, 9, 32, 63, most]) };
    let made = if is_signed { BitInteger::signed(bits) } else { BitInteger::unsigned(bits) };
    (made.expect("a width"), Field { bits, is_signed })
}

impl Field {
    fn least(self) -> i128 {
        if self.is_signed { -(1 << (self.bits - 1)) } else { 0 }
    }

    fn greatest(self) -> i128 {
        if self.is_signed { (1 << (self.bits - 1)) - 1 } else { (1 << self.bits) - 1 }
    }

    fn get(self, bytes: &[u8], at: u64) -> i64 {
        let bits = (at..at + u64::from(self.bits)).map(|at| i128::from(bit(bytes, at)));
        self.wrapped(bits.fold(0, |value, bit| value << 1 | bit))
    }

    fn wrapped(self, value: i128) -> i64 {
        let low = value & ((1 << self.bits) - 1);
        let is_negative = self.is_signed && low >> (self.bits - 1) == 1;
        (if is_negative { low - (1 << self.bits) } else { low }) as i64
    }

    fn fit(self, value: i128, overflow: BitOverflow) -> Option<i64> {
        if (self.least()..=self.greatest()).contains(&value) {
            return Some(value as i64);
        }
        match overflow {
            BitOverflow::Wrap => Some(self.wrapped(value)),
            BitOverflow::Saturate => Some(value.clamp(self.least(), self.greatest()) as i64),
            BitOverflow::Fail => None,
        }
    }

    fn put(self, bytes: &mut Bytes, at: u64, value: i64) {
        for n in 0..u64::from(self.bits) {
            put_bit(bytes, at + n, value >> (u64::from(self.bits) - 1 - n) & 1 == 1);
        }
    }
}

fn change_field<S: Operations>(on: &S, db: &mut Db, draw: &mut Draw, key: &[u8]) -> Checked {
    let held = db.string(key).map(|value| value.cloned());
    let len = held.as_ref().map_or(0, |held| held.as_ref().map_or(0, Vec::len));
    let ((integer, field), at) = (integer(draw), place(draw, len));
    let overflow = draw.of(&[BitOverflow::Wrap, BitOverflow::Saturate, BitOverflow::Fail]);
    let is_set = draw.rng.bool();
    let value = match draw.below(3) {
        0 => draw.rng.i64(-3..4),
        1 => draw.rng.i64(..) >> draw.below(64),
        _ => draw.of(&[i64::MAX, i64::MIN, field.greatest() as i64, field.least() as i64]),
    };
    // A negative value of an unsigned integer is a very large one.
    let meant = match value {
        value if value < 0 && is_set && !field.is_signed => i128::from(value as u64),
        value => i128::from(value),
    };
    let text =
        call(draw, "bit_field", key, &format!("{field:?}, {at}, {is_set}, {value}, {overflow:?}"));
    let want = match held {
        Err(error) => Err(error),
        Ok(held) => {
            let mut bytes = held.clone().unwrap_or_default();
            let old = field.get(&bytes, at);
            let new = field.fit(if is_set { meant } else { i128::from(old) + meant }, overflow);
            if let Some(new) = new {
                field.put(&mut bytes, at, new);
            }
            let end = (at + u64::from(field.bits)).div_ceil(8) as usize;
            if new.is_none() && held.is_none() {
                // As in Redis, an integer that does not fit may still create the key.
                bytes.resize(end.max(bytes.len()), 0);
            }
            bytes.resize(end.max(bytes.len()), 0);
            let until = db.keys.get(key).and_then(|held| held.until);
            db.put(key, Value::String(bytes), until);
            Ok(new.map(|new| if is_set { old } else { new }))
        }
    };
    let done = match is_set {
        true => on.bit_field_set(key, integer, at, value, overflow),
        false => on.bit_field_increment(key, integer, at, value, overflow),
    };
    same(&text, done, want)
}

/// Returns a bit of the combination of some bytes.
fn combined(operation: BitOperation, all: &[u8], bit: u32) -> u8 {
    let bits: Vec<bool> = all.iter().map(|byte| byte >> bit & 1 == 1).collect();
    let (first, others) = bits.split_first().expect("a source");
    let any = others.contains(&true);
    let set = bits.iter().filter(|bit| **bit).count();
    u8::from(match operation {
        BitOperation::And => set == bits.len(),
        BitOperation::Or => set > 0,
        BitOperation::Xor => set % 2 == 1,
        BitOperation::Not => !first,
        BitOperation::Difference => *first && !any,
        BitOperation::ReverseDifference => !first && any,
        BitOperation::AndOr => *first && any,
        BitOperation::One => set == 1,
    })
}

fn combine<S: Operations>(on: &S, db: &mut Db, draw: &mut Draw, key: &[u8]) -> Checked {
    let operations = [
        BitOperation::And,
        BitOperation::Or,
        BitOperation::Xor,
        BitOperation::Not,
        BitOperation::Difference,
        BitOperation::ReverseDifference,
        BitOperation::AndOr,
        BitOperation::One,
    ];
    let operation = draw.of(&operations);
    let count = if operation == BitOperation::Not && draw.below(4) > 0 { 1 } else { draw.below(4) };
    let sources: Vec<Bytes> = (0..count).map(|_| draw.key(b'b')).collect();
    if sources.iter().any(|key| matches!(db.sketch(key), Ok(Some(_)))) {
        return Ok(());
    }
    let text = call(draw, "bit_op", key, &format!("{operation:?}, {sources:?}"));
    let found: Result<Vec<Bytes>, Error> =
        sources.iter().map(|key| Ok(db.string(key)?.cloned().unwrap_or_default())).collect();
    let want =
        if operation == BitOperation::Not && count != 1 { Err(Error::OneSource) } else { found };
    let want = want.map(|found| {
        let len = found.iter().map(Vec::len).max().unwrap_or(0);
        let byte = |n: usize| {
            let all: Vec<u8> =
                found.iter().map(|bytes| bytes.get(n).copied().unwrap_or(0)).collect();
            (0..8).map(|bit| combined(operation, &all, bit) << bit).sum()
        };
        let made: Bytes = (0..len).map(byte).collect();
        match len {
            0 => drop(db.keys.remove(key)),
            _ => db.put(key, Value::String(made), None),
        }
        len
    });
    same(&text, on.bit_op(key, operation, &sources), want)
}

/// Runs one of the operations on bitmaps.
pub(crate) fn step<S: Operations>(on: &S, db: &mut Db, draw: &mut Draw) -> Checked {
    let key = draw.key(b'b');
    if matches!(db.sketch(&key), Ok(Some(_))) {
        return Ok(());
    }
    match draw.below(10) {
        0..3 => {
            let held = db.string(&key).map(|value| value.cloned().unwrap_or_default());
            let len = held.as_ref().map_or(0, Vec::len);
            let (at, wanted) = (place(draw, len), draw.rng.bool());
            let text = call(draw, "set_bit", &key, &format!("{at}, {wanted}"));
            let want = held.map(|bytes| {
                put_bit(db.string_mut(&key).expect("a string"), at, wanted);
                bit(&bytes, at)
            });
            same(&text, on.set_bit(&key, at, wanted), want)
        }
        3..5 => change_field(on, db, draw, &key),
        5 | 6 => combine(on, db, draw, &key),
        _ => read(on, db, draw, &key),
    }
}

fn sketch(db: &Db, key: &[u8]) -> Result<BTreeSet<Bytes>, Error> {
    if db.string(key).is_ok_and(|text| text.is_some()) {
        return Err(Error::NotHyperLogLog);
    }
    Ok(db.sketch(key)?.cloned().unwrap_or_default())
}

fn check_estimate(text: &str, got: Result<u64, Error>, want: Result<usize, Error>) -> Checked {
    match (got, want) {
        // The error is at most 0.8 % for large ones; small ones are nearly exact.
        (Ok(got), Ok(want)) if got.abs_diff(want as u64) <= 2 + want as u64 / 25 => Ok(()),
        (got, want) => same(text, got.map(|got| got as usize), want),
    }
}

/// Runs one of the operations on HyperLogLogs.
pub(crate) fn sketches<S: Operations>(on: &S, db: &mut Db, draw: &mut Draw) -> Checked {
    let key = draw.key(b'p');
    let held = sketch(db, &key);
    match draw.below(5) {
        0..3 => {
            let most = if draw.one_in(10) { 1500 } else { 6 };
            let elements: Vec<Bytes> =
                (0..draw.below(most)).map(|_| draw.below(4000).to_string().into_bytes()).collect();
            let text = call(draw, "pf_add", &key, &format!("{} elements", elements.len()));
            let is_new = !db.keys.contains_key(&key);
            let done = on.pf_add(&key, &elements);
            let Ok(held) = held else { return same(&text, done, held.map(|_| false)) };
            db.sketch_mut(&key).expect("a sketch").extend(elements.iter().cloned());
            let certain = if is_new {
                Some(true)
            } else {
                elements.iter().all(|element| held.contains(element)).then_some(false)
            };
            same(&text, done, Ok(certain.unwrap_or(done.unwrap_or_default())))
        }
        3 => {
            let keys: Vec<Bytes> = (0..draw.below(4)).map(|_| draw.key(b'p')).collect();
            let text = call(draw, "pf_count", &key, &format!("{keys:?}"));
            let all: Result<BTreeSet<Bytes>, Error> =
                keys.iter().try_fold(BTreeSet::new(), |mut all, key| {
                    all.append(&mut sketch(db, key)?);
                    Ok(all)
                });
            check_estimate(&text, on.pf_count(&keys), all.map(|all| all.len()))
        }
        _ => {
            let keys: Vec<Bytes> = (0..draw.below(3)).map(|_| draw.key(b'p')).collect();
            let text = call(draw, "pf_merge", &key, &format!("{keys:?}"));
            let all = keys.iter().try_fold(held, |all, key| {
                let mut all = all?;
                all.append(&mut sketch(db, key)?);
                Ok::<_, Error>(Ok(all))
            });
            let all = all.and_then(|all| all);
            let want = all.map(|all| *db.sketch_mut(&key).expect("a sketch") = all);
            same(&text, on.pf_merge(&key, &keys), want)
        }
    }
}
