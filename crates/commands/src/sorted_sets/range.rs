//! ZRANGE, and the older commands that it replaces.

use engine::call::{Call, Run};
use engine::failure::Done;
use engine::spec::*;
use keyspace::Txn;

use super::select::{By, Form, Selection};
use super::{reply_header, reply_member, sorted_set};

const FORM: Form = Form { key: 1, by: None, backwards: None, stores: false };

pub(crate) const ZRANGE: CommandSpec = CommandSpec {
    name: "zrange",
    summary: "Return a range of members in a sorted set",
    complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements returned.",
    since: "1.2.0",
    group: Group::SortedSet,
    arity: -4,
    flags: READONLY,
    acl: ACL_SORTEDSET,
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    history: &[("6.2.0", "Added the `REV`, `BYSCORE`, `BYLEX` and `LIMIT` options.")],
    args: &[
        key("key", 0),
        string("start"),
        string("stop"),
        oneof("sortby", &[token("byscore", "BYSCORE"), token("bylex", "BYLEX")])
            .since("6.2.0")
            .optional(),
        token("rev", "REV").since("6.2.0").optional(),
        block("offset_count", &[integer("offset"), integer("count")])
            .token("LIMIT")
            .since("6.2.0")
            .optional(),
        token("withscores", "WITHSCORES").optional(),
    ],
    weigh: Some(weights::reads_range),
    run: Run::Keys(zrange),
    ..CommandSpec::EMPTY
};

fn zrange(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    range(call, txn, FORM)
}

pub(crate) const ZREVRANGE: CommandSpec = CommandSpec {
    name: "zrevrange",
    summary: "Return a range of members in a sorted set, by index, with scores ordered from high to low",
    complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements returned.",
    since: "1.2.0",
    group: Group::SortedSet,
    arity: -4,
    flags: READONLY,
    acl: ACL_SORTEDSET,
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    deprecated: Some(Deprecated { since: "6.2.0", instead: "`ZRANGE` with the `REV` argument" }),
    args: &[
        key("key", 0),
        integer("start"),
        integer("stop"),
        token("withscores", "WITHSCORES").optional(),
    ],
    weigh: Some(weights::reads_range),
    run: Run::Keys(zrevrange),
    ..CommandSpec::EMPTY
};

fn zrevrange(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    range(call, txn, Form { by: Some(By::Rank), backwards: Some(true), ..FORM })
}

pub(crate) const ZRANGEBYSCORE: CommandSpec = CommandSpec {
    name: "zrangebyscore",
    summary: "Return a range of members in a sorted set, by score",
    complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements being returned. If M is constant (e.g. always asking for the first 10 elements with LIMIT), you can consider it O(log(N)).",
    since: "1.0.5",
    group: Group::SortedSet,
    arity: -4,
    flags: READONLY,
    acl: ACL_SORTEDSET,
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    deprecated: Some(Deprecated {
        since: "6.2.0",
        instead: "`ZRANGE` with the `BYSCORE` argument",
    }),
    history: &[("2.0.0", "Added the `WITHSCORES` modifier.")],
    args: &[
        key("key", 0),
        double("min"),
        double("max"),
        token("withscores", "WITHSCORES").since("2.0.0").optional(),
        block("offset_count", &[integer("offset"), integer("count")]).token("LIMIT").optional(),
    ],
    weigh: Some(weights::reads_bounds),
    run: Run::Keys(zrangebyscore),
    ..CommandSpec::EMPTY
};

fn zrangebyscore(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    range(call, txn, Form { by: Some(By::Score), backwards: Some(false), ..FORM })
}

pub(crate) const ZREVRANGEBYSCORE: CommandSpec = CommandSpec {
    name: "zrevrangebyscore",
    summary: "Return a range of members in a sorted set, by score, with scores ordered from high to low",
    complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements being returned. If M is constant (e.g. always asking for the first 10 elements with LIMIT), you can consider it O(log(N)).",
    since: "2.2.0",
    group: Group::SortedSet,
    arity: -4,
    flags: READONLY,
    acl: ACL_SORTEDSET,
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    deprecated: Some(Deprecated {
        since: "6.2.0",
        instead: "`ZRANGE` with the `REV` and `BYSCORE` arguments",
    }),
    history: &[("2.1.6", "`min` and `max` can be exclusive.")],
    args: &[
        key("key", 0),
        double("max"),
        double("min"),
        token("withscores", "WITHSCORES").optional(),
        block("offset_count", &[integer("offset"), integer("count")]).token("LIMIT").optional(),
    ],
    weigh: Some(weights::reads_bounds),
    run: Run::Keys(zrevrangebyscore),
    ..CommandSpec::EMPTY
};

fn zrevrangebyscore(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    range(call, txn, Form { by: Some(By::Score), backwards: Some(true), ..FORM })
}

pub(crate) const ZRANGEBYLEX: CommandSpec = CommandSpec {
    name: "zrangebylex",
    summary: "Return a range of members in a sorted set, by lexicographical range",
    complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements being returned. If M is constant (e.g. always asking for the first 10 elements with LIMIT), you can consider it O(log(N)).",
    since: "2.8.9",
    group: Group::SortedSet,
    arity: -4,
    flags: READONLY,
    acl: ACL_SORTEDSET,
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    deprecated: Some(Deprecated { since: "6.2.0", instead: "`ZRANGE` with the `BYLEX` argument" }),
    args: &[
        key("key", 0),
        string("min"),
        string("max"),
        block("offset_count", &[integer("offset"), integer("count")]).token("LIMIT").optional(),
    ],
    weigh: Some(weights::reads_bounds),
    run: Run::Keys(zrangebylex),
    ..CommandSpec::EMPTY
};

fn zrangebylex(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    range(call, txn, Form { by: Some(By::Lex), backwards: Some(false), ..FORM })
}

pub(crate) const ZREVRANGEBYLEX: CommandSpec = CommandSpec {
    name: "zrevrangebylex",
    summary: "Return a range of members in a sorted set, by lexicographical range, ordered from higher to lower strings.",
    complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements being returned. If M is constant (e.g. always asking for the first 10 elements with LIMIT), you can consider it O(log(N)).",
    since: "2.8.9",
    group: Group::SortedSet,
    arity: -4,
    flags: READONLY,
    acl: ACL_SORTEDSET,
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    deprecated: Some(Deprecated {
        since: "6.2.0",
        instead: "`ZRANGE` with the `REV` and `BYLEX` arguments",
    }),
    args: &[
        key("key", 0),
        string("max"),
        string("min"),
        block("offset_count", &[integer("offset"), integer("count")]).token("LIMIT").optional(),
    ],
    weigh: Some(weights::reads_bounds),
    run: Run::Keys(zrevrangebylex),
    ..CommandSpec::EMPTY
};

fn zrevrangebylex(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    range(call, txn, Form { by: Some(By::Lex), backwards: Some(true), ..FORM })
}

fn range(call: &mut Call<'_>, txn: &mut Txn<'_>, form: Form) -> Done {
    let selection = Selection::parse(call, form)?;
    let Some(sorted_set) = sorted_set(call, txn)? else {
        call.out.array(0);
        return Ok(());
    };
    let (first, count) = selection.ranks(&sorted_set)?;
    call.check_work(count)?;
    let mut left = count;
    reply_header(call, count as usize, selection.with_scores);
    if count > 0 {
        sorted_set.visit(first, selection.backwards, |member, score| {
            reply_member(call, member, score, selection.with_scores);
            left -= 1;
            left > 0
        })?;
    }
    Ok(())
}
