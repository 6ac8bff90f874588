//! BITFIELD: reads, sets and increments integers of any width inside a string.

use engine::call::{Call, Run};
use engine::failure::{Done, Failure, SYNTAX};
use engine::notify::events::EventClass;
use engine::spec::*;
use keyspace::{BitChange, BitField, BitInteger, BitOverflow, Txn};

use super::bit_offset;

pub(crate) const BITFIELD: CommandSpec = CommandSpec {
    name: "bitfield",
    summary: "Perform arbitrary bitfield integer operations on strings",
    complexity: "O(1) for each subcommand specified",
    since: "3.2.0",
    group: Group::Bitmap,
    arity: -2,
    flags: WRITE | DENYOOM,
    acl: ACL_BITMAP,
    keys: &[KeySpec::one(1, KEY_RW | KEY_ACCESS | KEY_UPDATE | KEY_VARIABLE)
        .notes("This command allows both access and modification of the key")],
    args: &[
        key("key", 0),
        oneof(
            "operation",
            &[
                block("encoding_offset", &[string("encoding"), integer("offset")]).token("GET"),
                block(
                    "write",
                    &[
                        oneof(
                            "wrap_sat_fail",
                            &[token("wrap", "WRAP"), token("sat", "SAT"), token("fail", "FAIL")],
                        )
                        .token("OVERFLOW")
                        .optional(),
                        oneof(
                            "write_operation",
                            &[
                                block(
                                    "encoding_offset_value",
                                    &[string("encoding"), integer("offset"), integer("value")],
                                )
                                .token("SET"),
                                block(
                                    "encoding_offset_increment",
                                    &[string("encoding"), integer("offset"), integer("increment")],
                                )
                                .token("INCRBY"),
                            ],
                        ),
                    ],
                ),
            ],
        )
        .optional()
        .multiple(),
    ],
    key_flags: Some(bitfield_key_flags),
    run: Run::Keys(bitfield),
    ..CommandSpec::EMPTY
};

/// Returns the flags of a key that is only read, unless a subcommand writes or is unknown.
fn bitfield_key_flags(args: &[&[u8]]) -> u16 {
    let mut at = 2;
    while at < args.len() {
        let (rest, word) = (args.len() - at - 1, args[at].to_ascii_lowercase());
        at += match word.as_slice() {
            b"get" if rest >= 2 => 3,
            b"overflow" if rest >= 1 => 2,
            _ => return KEY_RW | KEY_ACCESS | KEY_UPDATE,
        };
    }
    KEY_RO | KEY_ACCESS
}

pub(crate) const BITFIELD_RO: CommandSpec = CommandSpec {
    name: "bitfield_ro",
    summary: "Perform arbitrary bitfield integer operations on strings. Read-only variant of BITFIELD",
    complexity: "O(1) for each subcommand specified",
    since: "6.0.0",
    group: Group::Bitmap,
    arity: -2,
    flags: READONLY | FAST,
    acl: ACL_BITMAP,
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    args: &[
        key("key", 0),
        block("encoding_offset", &[string("encoding"), integer("offset")])
            .token("GET")
            .optional()
            .multiple()
            .multiple_token(),
    ],
    run: Run::Keys(bitfield_ro),
    ..CommandSpec::EMPTY
};

const BAD_TYPE: &str = "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not \
                        supported but i64 is.";

fn bitfield(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let fields = parse(call)?;
    answer(call, txn, &fields)
}

fn bitfield_ro(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let fields = parse(call)?;
    if fields.iter().any(|field| field.change.is_some()) {
        return Err("ERR BITFIELD_RO only supports the GET subcommand".into());
    }
    answer(call, txn, &fields)
}

fn answer(call: &mut Call<'_>, txn: &mut Txn<'_>, fields: &[BitField]) -> Done {
    let (answers, wrote) = txn.bitmaps().change_fields(call.db(), &call.key(0), fields)?;
    if wrote {
        call.wrote();
        call.notify(EventClass::String, "setbit", &call.key(0));
    }
    call.out.array(answers.len());
    for answer in answers {
        match answer {
            Some(answer) => call.out.integer(answer),
            None => call.out.null(),
        }
    }
    Ok(())
}

fn parse(call: &Call<'_>) -> Result<Vec<BitField>, Failure> {
    let mut fields = Vec::new();
    let mut overflow = BitOverflow::Wrap;
    let mut at = 2;
    while at < call.args.len() {
        let rest = call.args.len() - at - 1;
        if call.is(at, "OVERFLOW") && rest >= 1 {
            overflow = parse_overflow(call, at + 1)?;
            at += 2;
            continue;
        }
        let set = call.is(at, "SET");
        let writes = (set || call.is(at, "INCRBY")) && rest >= 3;
        let reads = call.is(at, "GET") && rest >= 2;
        if !(writes || reads) {
            return Err(SYNTAX.into());
        }
        let integer = parse_integer(call.args[at + 1]).ok_or(BAD_TYPE)?;
        let offset = bit_offset(call, at + 2, Some(integer.bits()))?;
        let change = match writes {
            true if set => Some(BitChange::Set(call.int(at + 3)?, overflow)),
            true => Some(BitChange::Add(call.int(at + 3)?, overflow)),
            false => None,
        };
        fields.push(BitField { integer, at: offset, change });
        at += if writes { 4 } else { 3 };
    }
    Ok(fields)
}

fn parse_overflow(call: &Call<'_>, at: usize) -> Result<BitOverflow, Failure> {
    let names =
        [("WRAP", BitOverflow::Wrap), ("SAT", BitOverflow::Saturate), ("FAIL", BitOverflow::Fail)];
    let found = names.iter().find(|(name, _)| call.is(at, name));
    found.map(|(_, overflow)| *overflow).ok_or_else(|| "ERR Invalid OVERFLOW type specified".into())
}

/// Parses `i16`, `u8` and the like.
fn parse_integer(text: &[u8]) -> Option<BitInteger> {
    let (&sign, digits) = text.split_first()?;
    let bits = u32::try_from(resp::number::parse_i64(digits)?).ok()?;
    match sign {
        b'i' => BitInteger::signed(bits),
        b'u' => BitInteger::unsigned(bits),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_have_their_limits() {
        for text in ["", "8", "u", "u0", "u64", "i65", "i-1", "i08", "U8", "i8 ", "x8"] {
            assert_eq!(parse_integer(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(parse_integer(b"i64"), BitInteger::signed(64));
        assert_eq!(parse_integer(b"u63"), BitInteger::unsigned(63));
    }
}
