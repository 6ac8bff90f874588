//! Bitmaps: strings, bit by bit. The keyspace implements them; here are arguments and replies.

mod bit;
mod count;
mod field;
mod operate;
mod position;

use engine::call::Call;
use engine::failure::{Failure, SYNTAX};
use engine::spec::CommandSpec;

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

/// Parses the argument as the number of a bit. With `width`, `#n` means the nth integer of this
/// many bits.
fn bit_offset(call: &Call<'_>, at: usize, width: Option<u32>) -> Result<u64, Failure> {
    let text = call.arg(at)?;
    let (text, scale) = match (text.strip_prefix(b"#"), width) {
        (Some(number), Some(width)) => (number, i64::from(width)),
        _ => (text, 1),
    };
    let offset = resp::number::parse_i64(text).and_then(|number| number.checked_mul(scale));
    let offset = offset.and_then(|offset| u64::try_from(offset).ok()).ok_or(BAD_OFFSET)?;
    // Whatever a log contains was allowed when it was written.
    let limit = call.engine.config().proto_max_bulk_len();
    if !call.session.replay && offset >> 3 >= limit {
        return Err(BAD_OFFSET.into());
    }
    Ok(offset)
}

/// Returns true if the argument is BIT, and false if it is BYTE.
fn in_bits(call: &Call<'_>, at: usize) -> Result<bool, Failure> {
    if call.is(at, "BIT") {
        return Ok(true);
    }
    if call.is(at, "BYTE") { Ok(false) } else { Err(SYNTAX.into()) }
}
