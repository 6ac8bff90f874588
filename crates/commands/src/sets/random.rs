//! SRANDMEMBER.

use engine::call::{Call, Run};
use engine::failure::{Done, SYNTAX};
use engine::spec::*;
use keyspace::{Text, Txn};

use super::set;
use crate::collections::random::{Picks, count, pick};

pub(crate) const SRANDMEMBER: CommandSpec = CommandSpec {
    name: "srandmember",
    summary: "Get one or multiple random members from a set",
    complexity: "Without the count argument O(1), otherwise O(N) where N is the absolute value of the passed count.",
    since: "1.0.0",
    group: Group::Set,
    arity: -2,
    flags: READONLY,
    acl: ACL_SET,
    tips: &["nondeterministic_output"],
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    history: &[("2.6.0", "Added the optional `count` argument.")],
    args: &[key("key", 0), integer("count").since("2.6.0").optional()],
    weigh: Some(weights::reads_count),
    run: Run::Keys(srandmember),
    ..CommandSpec::EMPTY
};

fn srandmember(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    if call.args.len() == 2 {
        let picked = match set(call, txn)? {
            Some(set) => set.random(|| call.session.random.u64(..))?,
            None => None,
        };
        call.out.bulk_or_null(picked.as_ref().map(|(member, _)| Text::as_ref(member)));
        return Ok(());
    }
    if call.args.len() > 3 {
        return Err(SYNTAX.into());
    }
    let count = count(call, 2)?;
    let picked = match set(call, txn)? {
        Some(set) => pick(&set, count, &mut call.session.random)?,
        None => Picks::default(),
    };
    call.out.array(picked.len());
    picked.each(&mut call.session.random, |member, _| call.out.bulk(member));
    Ok(())
}
