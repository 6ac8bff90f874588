//! GEORADIUS, GEORADIUSBYMEMBER, and their read-only forms: GEOSEARCH as it was before Redis 6.2.

use engine::call::{Call, Run};
use engine::failure::{Done, Failure, SYNTAX};
use engine::spec::*;
use keyspace::geo::{Area, Point, Shape, point_of};
use keyspace::{Entry, Txn};
use resp::number::parse_f64;

use super::point::{point, unit};
use super::select::{SearchOptions, Where, answer};

pub(crate) const GEORADIUS: CommandSpec = CommandSpec {
    name: "georadius",
    summary: "Query a sorted set representing a geospatial index to fetch members matching a given maximum distance from a point",
    complexity: "O(N+log(M)) where N is the number of elements inside the bounding box of the circular area delimited by center and radius and M is the number of items inside the index.",
    since: "3.2.0",
    group: Group::Geo,
    arity: -6,
    flags: WRITE | DENYOOM,
    acl: ACL_GEO,
    keys: &[
        KeySpec::one(1, KEY_RO | KEY_ACCESS),
        KeySpec::new(
            Begin::Keyword("STORE", 6),
            Find::Range { last: 0, step: 1, limit: 0 },
            KEY_OW | KEY_UPDATE,
        ),
        KeySpec::new(
            Begin::Keyword("STOREDIST", 6),
            Find::Range { last: 0, step: 1, limit: 0 },
            KEY_OW | KEY_UPDATE,
        ),
    ],
    deprecated: Some(Deprecated {
        since: "6.2.0",
        instead: "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` argument",
    }),
    history: &[
        ("6.2.0", "Added the `ANY` option for `COUNT`."),
        ("7.0.0", "Added support for uppercase unit names."),
    ],
    args: &[
        key("key", 0),
        double("longitude"),
        double("latitude"),
        double("radius"),
        oneof("unit", &[token("m", "M"), token("km", "KM"), token("ft", "FT"), token("mi", "MI")]),
        token("withcoord", "WITHCOORD").optional(),
        token("withdist", "WITHDIST").optional(),
        token("withhash", "WITHHASH").optional(),
        block(
            "count",
            &[integer("count").token("COUNT"), token("any", "ANY").since("6.2.0").optional()],
        )
        .optional(),
        oneof("order", &[token("asc", "ASC"), token("desc", "DESC")]).optional(),
        key("key", 1).token("STORE").optional(),
        key("key", 2).token("STOREDIST").optional(),
    ],
    run: Run::Keys(georadius),
    ..CommandSpec::EMPTY
};

fn georadius(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    around_point(call, txn)
}

pub(crate) const GEORADIUS_RO: CommandSpec = CommandSpec {
    name: "georadius_ro",
    summary: "A read-only variant for GEORADIUS",
    complexity: "O(N+log(M)) where N is the number of elements inside the bounding box of the circular area delimited by center and radius and M is the number of items inside the index.",
    since: "3.2.10",
    group: Group::Geo,
    arity: -6,
    flags: READONLY,
    acl: ACL_GEO,
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    deprecated: Some(Deprecated {
        since: "6.2.0",
        instead: "`GEOSEARCH` with the `BYRADIUS` argument",
    }),
    history: &[("6.2.0", "Added the `ANY` option for `COUNT`.")],
    args: &[
        key("key", 0),
        double("longitude"),
        double("latitude"),
        double("radius"),
        oneof("unit", &[token("m", "M"), token("km", "KM"), token("ft", "FT"), token("mi", "MI")]),
        token("withcoord", "WITHCOORD").optional(),
        token("withdist", "WITHDIST").optional(),
        token("withhash", "WITHHASH").optional(),
        block(
            "count",
            &[integer("count").token("COUNT"), token("any", "ANY").since("6.2.0").optional()],
        )
        .optional(),
        oneof("order", &[token("asc", "ASC"), token("desc", "DESC")]).optional(),
    ],
    run: Run::Keys(georadius_ro),
    ..CommandSpec::EMPTY
};

fn georadius_ro(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    around_point(call, txn)
}

pub(crate) const GEORADIUSBYMEMBER: CommandSpec = CommandSpec {
    name: "georadiusbymember",
    summary: "Query a sorted set representing a geospatial index to fetch members matching a given maximum distance from a member",
    complexity: "O(N+log(M)) where N is the number of elements inside the bounding box of the circular area delimited by center and radius and M is the number of items inside the index.",
    since: "3.2.0",
    group: Group::Geo,
    arity: -5,
    flags: WRITE | DENYOOM,
    acl: ACL_GEO,
    keys: &[
        KeySpec::one(1, KEY_RO | KEY_ACCESS),
        KeySpec::new(
            Begin::Keyword("STORE", 5),
            Find::Range { last: 0, step: 1, limit: 0 },
            KEY_OW | KEY_UPDATE,
        ),
        KeySpec::new(
            Begin::Keyword("STOREDIST", 5),
            Find::Range { last: 0, step: 1, limit: 0 },
            KEY_OW | KEY_UPDATE,
        ),
    ],
    deprecated: Some(Deprecated {
        since: "6.2.0",
        instead: "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` and `FROMMEMBER` arguments",
    }),
    history: &[("7.0.0", "Added support for uppercase unit names.")],
    args: &[
        key("key", 0),
        string("member"),
        double("radius"),
        oneof("unit", &[token("m", "M"), token("km", "KM"), token("ft", "FT"), token("mi", "MI")]),
        token("withcoord", "WITHCOORD").optional(),
        token("withdist", "WITHDIST").optional(),
        token("withhash", "WITHHASH").optional(),
        block("count", &[integer("count").token("COUNT"), token("any", "ANY").optional()])
            .optional(),
        oneof("order", &[token("asc", "ASC"), token("desc", "DESC")]).optional(),
        key("key", 1).token("STORE").optional(),
        key("key", 2).token("STOREDIST").optional(),
    ],
    run: Run::Keys(georadiusbymember),
    ..CommandSpec::EMPTY
};

fn georadiusbymember(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    around_member(call, txn)
}

pub(crate) const GEORADIUSBYMEMBER_RO: CommandSpec = CommandSpec {
    name: "georadiusbymember_ro",
    summary: "A read-only variant for GEORADIUSBYMEMBER",
    complexity: "O(N+log(M)) where N is the number of elements inside the bounding box of the circular area delimited by center and radius and M is the number of items inside the index.",
    since: "3.2.10",
    group: Group::Geo,
    arity: -5,
    flags: READONLY,
    acl: ACL_GEO,
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    deprecated: Some(Deprecated {
        since: "6.2.0",
        instead: "`GEOSEARCH` with the `BYRADIUS` and `FROMMEMBER` arguments",
    }),
    args: &[
        key("key", 0),
        string("member"),
        double("radius"),
        oneof("unit", &[token("m", "M"), token("km", "KM"), token("ft", "FT"), token("mi", "MI")]),
        token("withcoord", "WITHCOORD").optional(),
        token("withdist", "WITHDIST").optional(),
        token("withhash", "WITHHASH").optional(),
        block("count", &[integer("count").token("COUNT"), token("any", "ANY").optional()])
            .optional(),
        oneof("order", &[token("asc", "ASC"), token("desc", "DESC")]).optional(),
    ],
    run: Run::Keys(georadiusbymember_ro),
    ..CommandSpec::EMPTY
};

fn georadiusbymember_ro(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    around_member(call, txn)
}

fn around_point(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let source = source(call, txn)?;
    let centre = point(call, 2)?;
    let (shape, unit) = circle(call, 4)?;
    search(call, txn, source, Some((Area { centre, shape }, unit)), 6)
}

fn around_member(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let source = source(call, txn)?;
    let area = match &source {
        Some(entry) => {
            let centre = point_of_member(txn, entry, call.args[2])?;
            let (shape, unit) = circle(call, 3)?;
            Some((Area { centre, shape }, unit))
        }
        None => None,
    };
    search(call, txn, source, area, 5)
}

/// Returns the sorted set at the first key.
fn source(call: &Call<'_>, txn: &mut Txn<'_>) -> Result<Option<Entry>, Failure> {
    // The forms that store delete an expired source first, so that a replay, for which nothing
    // expires, reads the same.
    let source = match call.keys.len() {
        1 => txn.find(call.db(), &call.key(0)),
        _ => txn.find_mut_to_read(call.db(), &call.key(0))?,
    };
    if let Some(entry) = &source {
        txn.sorted_set(entry)?;
    }
    Ok(source)
}

fn search(
    call: &mut Call<'_>,
    txn: &mut Txn<'_>,
    source: Option<Entry>,
    area: Option<(Area, f64)>,
    first: usize,
) -> Done {
    let (mut options, mut at) = (SearchOptions::default(), first);
    let may_store = call.command.spec.has(WRITE);
    while at < call.args.len() {
        at += match options.read(call, at)? {
            0 if may_store && at + 1 < call.args.len() => {
                options.store_distance = match () {
                    () if call.is(at, "STORE") => false,
                    () if call.is(at, "STOREDIST") => true,
                    () => return Err(SYNTAX.into()),
                };
                let key = call.args[at + 1];
                options.target = call.keys[1..].iter().position(|own| own.bytes() == key);
                options.target = Some(options.target.ok_or(SYNTAX)? + 1);
                2
            }
            0 => return Err(SYNTAX.into()),
            taken => taken,
        };
    }
    options.check_store("STORE option in GEORADIUS")?;
    options.check_any()?;
    let area = area.map(|(area, unit)| Where::Around(area, unit));
    answer(call, txn, source, area, &options)
}

/// Returns the position of a member.
pub(super) fn point_of_member(
    txn: &Txn<'_>,
    entry: &Entry,
    member: &[u8],
) -> Result<Point, Failure> {
    let score = txn.sorted_set(entry)?.score(member)?;
    score.map(point_of).ok_or_else(|| "ERR could not decode requested zset member".into())
}

/// Parses a radius and its unit, in metres.
pub(super) fn circle(call: &Call<'_>, at: usize) -> Result<(Shape, f64), Failure> {
    let radius = length(call, at, "ERR need numeric radius")?;
    if radius < 0.0 {
        return Err("ERR radius cannot be negative".into());
    }
    let unit = unit(call.arg(at + 1)?)?;
    Ok((Shape::Circle { radius: radius * unit }, unit))
}

pub(super) fn length(call: &Call<'_>, at: usize, otherwise: &'static str) -> Result<f64, Failure> {
    parse_f64(call.arg(at)?).ok_or_else(|| otherwise.into())
}
