//! Bitmaps: strings, bit by bit. Bit 0 is the highest of the first byte.
//!
//! A bit behind the end of a string reads as 0, and writing one there makes the string as long as it takes.

mod bit;
mod count;
mod field;
mod integer;
mod operate;
mod position;
mod range;

use keyspace::{Encoding, Entry, Str, Txn};

use crate::call::Call;
use crate::failure::Failure;
use crate::spec::CommandSpec;

/// The group's commands.
pub(crate) const COMMANDS: &[&CommandSpec] = &[
    &bit::GETBIT,
    &bit::SETBIT,
    &count::BITCOUNT,
    &field::BITFIELD,
    &field::BITFIELD_RO,
    &operate::BITOP,
    &position::BITPOS,
];

const BAD_OFFSET: &str = "ERR bit offset is not an integer or out of range";

/// The argument as the number of a bit; with `width`, `#n` means the nth integer of so many bits.
fn bit_offset(call: &Call<'_>, at: usize, width: Option<u32>) -> Result<u64, Failure> {
    let text = call.arg(at)?;
    let (text, scale) = match (text.strip_prefix(b"#"), width) {
        (Some(number), Some(width)) => (number, i64::from(width)),
        _ => (text, 1),
    };
    let offset = resp::number::parse_i64(text).and_then(|number| number.checked_mul(scale));
    let offset = offset.and_then(|offset| u64::try_from(offset).ok()).ok_or(BAD_OFFSET)?;
    // What a log says was allowed when it was written.
    let limit = call.engine.config().proto_max_bulk_len();
    if !call.session.replay && offset >> 3 >= limit {
        return Err(BAD_OFFSET.into());
    }
    Ok(offset)
}

/// The string at the key for a command that writes bits up to number `last`, and whether it has to be written whatever
/// the bits are: to grow, or to become "raw", as OBJECT ENCODING tells.
fn writable(
    call: &Call<'_>,
    txn: &mut Txn<'_>,
    last: u64,
) -> Result<(Option<Entry>, bool), Failure> {
    let needed = (last >> 3) as usize + 1;
    let entry = txn.find_mut(call.db(), &call.key(0))?;
    let (len, raw) = match &entry {
        Some(entry) => (txn.string(entry)?.len(), txn.encoding(entry) == Encoding::Raw),
        None => (0, false),
    };
    Ok((entry, !raw || len < needed))
}

/// Bytes `at..at + N` of a string; zeros behind its end.
fn window<const N: usize>(value: &Str<'_>, at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    let mut filled = 0;
    value.pieces(at, at.saturating_add(N), &mut |piece| {
        bytes[filled..filled + piece.len()].copy_from_slice(piece);
        filled += piece.len();
    });
    bytes
}
