//! HRANDFIELD.

use engine::call::{Call, Run};
use engine::failure::{Done, Failure, SYNTAX};
use engine::spec::*;
use keyspace::{Text, Txn};

use super::hash;
use crate::collections::random::{Picks, count, pick};

pub(crate) const HRANDFIELD: CommandSpec = CommandSpec {
    name: "hrandfield",
    summary: "Get one or multiple random fields from a hash",
    complexity: "O(N) where N is the number of fields returned",
    since: "6.2.0",
    group: Group::Hash,
    arity: -2,
    flags: READONLY,
    acl: ACL_HASH,
    tips: &["nondeterministic_output"],
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    args: &[
        key("key", 0),
        block("options", &[integer("count"), token("withvalues", "WITHVALUES").optional()])
            .optional(),
    ],
    weigh: Some(weights::reads_count),
    run: Run::Keys(hrandfield),
    ..CommandSpec::EMPTY
};

fn hrandfield(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    if call.args.len() == 2 {
        let picked = match hash(call, txn)? {
            Some(hash) => hash.random(|| call.session.random.u64(..))?,
            None => None,
        };
        call.out.bulk_or_null(picked.as_ref().map(|(field, _)| Text::as_ref(field)));
        return Ok(());
    }
    let (count, with_values) = parse(call)?;
    let picked = match hash(call, txn)? {
        Some(hash) => pick(&hash, count, &mut call.session.random)?,
        None => Picks::default(),
    };
    let nested = with_values && call.out.protocol() == resp::Protocol::Resp3;
    call.out.array(picked.len() * if with_values && !nested { 2 } else { 1 });
    let out = &mut *call.out;
    picked.each(&mut call.session.random, |field, value| {
        if nested {
            out.array(2);
        }
        out.bulk(field);
        if with_values {
            out.bulk(value);
        }
    });
    Ok(())
}

fn parse(call: &Call<'_>) -> Result<(i64, bool), Failure> {
    let number = count(call, 2)?;
    match call.args.len() {
        3 => Ok((number, false)),
        4 if call.is(3, "WITHVALUES") => {
            if !(i64::MIN / 2..=i64::MAX / 2).contains(&number) {
                return Err("ERR value is out of range".into());
            }
            Ok((number, true))
        }
        _ => Err(SYNTAX.into()),
    }
}
