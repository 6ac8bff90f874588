//! XTRIM, XDEL, and the options that say how far a stream is trimmed.

use engine::call::{Call, Run};
use engine::failure::{Done, Failure, SYNTAX};
use engine::notify::events::EventClass;
use engine::spec::*;
use keyspace::{StreamBound, StreamId, StreamRef, StreamTrim, Txn};

use super::id::{self, Wanted};
use super::references::{References, STRATEGY, Trimmed};
use super::{reply, stream_mut};

pub(crate) const XTRIM: CommandSpec = CommandSpec {
    name: "xtrim",
    summary: "Trims the stream to (approximately if '~' is passed) a certain size",
    complexity: "O(N), with N being the number of evicted entries. Constant times are very small however, since entries are organized in macro nodes containing multiple entries that can be released with a single deallocation.",
    since: "5.0.0",
    group: Group::Stream,
    arity: -4,
    flags: WRITE,
    acl: ACL_STREAM,
    tips: &["nondeterministic_output"],
    keys: &[KeySpec::one(1, KEY_RW | KEY_DELETE)],
    history: &[
        ("6.2.0", "Added the `MINID` trimming strategy and the `LIMIT` option."),
        ("8.2.0", "Added the `KEEPREF`, `DELREF` and `ACKED` options."),
    ],
    args: &[
        key("key", 0),
        block(
            "trim",
            &[
                oneof(
                    "strategy",
                    &[token("maxlen", "MAXLEN"), token("minid", "MINID").since("6.2.0")],
                ),
                oneof("operator", &[token("equal", "="), token("approximately", "~")]).optional(),
                string("threshold"),
                integer("count").token("LIMIT").since("6.2.0").optional(),
                STRATEGY.since("8.2.0"),
            ],
        ),
    ],
    run: Run::Keys(xtrim),
    ..CommandSpec::EMPTY
};

fn xtrim(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let options = TrimOptions::parse(call, false)?;
    let Some(stream) = stream_mut(call, txn)? else {
        call.out.integer(0);
        return Ok(());
    };
    let Some(trim) = options.trim else { return Err(SYNTAX.into()) };
    call.check_work(weights::STORED * entries_trimmed(trim, &stream)?)?;
    let (db, key) = (call.db(), call.key(0));
    let trimmed =
        txn.streams().edit(db, &key, |edit| Trimmed::of(edit, trim, options.references))?;
    let gone = trimmed.count;
    if gone > 0 && trimmed.is_whole() {
        let words = match stream_mut(call, txn)? {
            Some(stream) => exact(trim, &stream)?,
            None => return Err(SYNTAX.into()),
        };
        let mut args: Vec<&[u8]> = vec![call.args[0], key.bytes()];
        args.extend(words.iter().map(Vec::as_slice));
        call.wrote_as(&args);
    }
    trimmed.log(call);
    if gone > 0 {
        call.notify(EventClass::Stream, "xtrim", &key);
    }
    call.out.integer(gone as i64);
    Ok(())
}

/// Estimates the number of entries that are deleted.
fn entries_trimmed(trim: StreamTrim, stream: &StreamRef<'_>) -> Result<u64, Failure> {
    let head = stream.head();
    let entries = match trim.bound {
        StreamBound::Len(most) => head.len.saturating_sub(most),
        // Assumes that the entries were added evenly over time.
        StreamBound::Id(id) => {
            let first = stream.first_id()?.map_or(0, |first| first.ms);
            let (before, all) = (id.ms.saturating_sub(first), head.last.ms.saturating_sub(first));
            (u128::from(head.len) * u128::from(before.min(all)) / u128::from(all.max(1))) as u64
        }
    };
    Ok(if trim.most > 0 { entries.min(trim.most) } else { entries })
}

/// Returns the trim that has the same effect at any time: its result instead of an approximation.
pub(super) fn exact(trim: StreamTrim, stream: &StreamRef<'_>) -> Result<Vec<Vec<u8>>, Failure> {
    let (word, bound) = match trim.bound {
        StreamBound::Len(most) => {
            let most = if trim.whole_nodes { stream.head().len } else { most };
            ("MAXLEN", most.to_string())
        }
        StreamBound::Id(least) => {
            let first = if trim.whole_nodes { stream.first_id()?.unwrap_or(least) } else { least };
            ("MINID", reply::text(first))
        }
    };
    Ok(vec![word.into(), b"=".to_vec(), bound.into_bytes()])
}

/// The options between the key and the entry of XADD, or after the key of XTRIM.
#[derive(Debug)]
pub(super) struct TrimOptions {
    pub(super) trim: Option<StreamTrim>,
    /// What happens to references to deleted entries.
    pub(super) references: References,
    pub(super) make: bool,
    pub(super) id: Wanted,
    /// The position of the ID, or the end.
    pub(super) id_at: usize,
}

impl TrimOptions {
    pub(super) fn parse(call: &Call<'_>, is_add: bool) -> Result<TrimOptions, Failure> {
        let (mut bound, mut whole_nodes, mut limit) = (None, false, None);
        let mut references = None;
        let (mut make, mut wanted, mut at) = (true, Wanted::Any, 2);
        let args = call.args;
        while at < args.len() {
            let more = args.len() - 1 - at;
            if is_add && args[at] == b"*" {
                break;
            } else if more > 0 && (call.is(at, "MAXLEN") || call.is(at, "MINID")) {
                if bound.is_some() {
                    return Err("ERR syntax error, MAXLEN and MINID options at the same time are not compatible".into());
                }
                let is_len = call.is(at, "MAXLEN");
                let operator = if more >= 2 { args[at + 1] } else { b"" };
                whole_nodes = operator == b"~";
                at += 1 + usize::from(matches!(operator, b"~" | b"="));
                bound = Some(if is_len {
                    length(call, at)?
                } else {
                    StreamBound::Id(id::any(args[at], 0)?)
                });
            } else if more > 0 && call.is(at, "LIMIT") {
                at += 1;
                limit = Some(
                    u64::try_from(call.int(at)?)
                        .map_err(|_| "ERR The LIMIT argument must be >= 0.")?,
                );
            } else if let (None, Some(named)) = (references, References::named(args[at])) {
                references = Some(named);
            } else if is_add && call.is(at, "NOMKSTREAM") {
                make = false;
            } else if is_add {
                wanted = id::wanted(args[at])?;
                break;
            } else {
                return Err(SYNTAX.into());
            }
            at += 1;
        }
        let most = most(call, bound.is_some(), is_add, whole_nodes, limit)?;
        let trim = bound.map(|bound| StreamTrim { bound, whole_nodes, most });
        let references = references.unwrap_or_default();
        Ok(TrimOptions { trim, references, make, id: wanted, id_at: at })
    }
}

fn length(call: &Call<'_>, at: usize) -> Result<StreamBound, Failure> {
    match u64::try_from(call.int(at)?) {
        Ok(most) => Ok(StreamBound::Len(most)),
        Err(_) => Err("ERR The MAXLEN argument must be >= 0.".into()),
    }
}

/// Returns the maximum number of entries that may be deleted; 0 for no limit.
fn most(
    call: &Call<'_>,
    trims: bool,
    is_add: bool,
    whole_nodes: bool,
    limit: Option<u64>,
) -> Result<u64, Failure> {
    if limit.is_some_and(|limit| limit > 0) && !trims {
        return Err(
            "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy".into(),
        );
    }
    if !is_add && !trims {
        return Err("ERR syntax error, XTRIM must be called with a trimming strategy".into());
    }
    if call.session.replay {
        // A logged trim is exact.
        return Ok(0);
    }
    match limit {
        Some(_) if !whole_nodes => {
            Err("ERR syntax error, LIMIT cannot be used without the special ~ option".into())
        }
        Some(limit) => Ok(limit),
        None if whole_nodes => Ok(call.engine.config().stream_trim_limit()),
        None => Ok(0),
    }
}

pub(crate) const XDEL: CommandSpec = CommandSpec {
    name: "xdel",
    summary: "Removes the specified entries from the stream. Returns the number of items actually deleted, that may be different from the number of IDs passed in case certain IDs do not exist.",
    complexity: "O(1) for each single item to delete in the stream, regardless of the stream size.",
    since: "5.0.0",
    group: Group::Stream,
    arity: -3,
    flags: WRITE | FAST,
    acl: ACL_STREAM,
    keys: &[KeySpec::one(1, KEY_RW | KEY_DELETE)],
    args: &[key("key", 0), string("id").multiple()],
    run: Run::Keys(xdel),
    ..CommandSpec::EMPTY
};

fn xdel(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let mut deleted = 0;
    if stream_mut(call, txn)?.is_some() {
        let ids = call.args[2..].iter().map(|word| id::strict(word, 0));
        let ids: Vec<StreamId> = ids.collect::<Result<_, _>>()?;
        deleted = txn.streams().edit(call.db(), &call.key(0), |edit| edit.delete(&ids))?;
    }
    if deleted > 0 {
        call.wrote();
        call.notify(EventClass::Stream, "xdel", &call.key(0));
    }
    call.out.integer(deleted as i64);
    Ok(())
}
