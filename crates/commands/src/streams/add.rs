//! XADD.

use engine::call::{Call, Run, Words};
use engine::failure::{Done, Failure};
use engine::notify::events::EventClass;
use engine::spec::*;
use keyspace::{StreamHead, StreamId, Txn};

use super::id::Wanted;
use super::references::{STRATEGY, Trimmed};
use super::trim::{TrimOptions, exact};
use super::{reply, stream_mut};

/// The maximum number of bytes of fields and values in one entry, as in Redis.
const LARGEST: usize = 1 << 30;
const TOO_LARGE: &str = "ERR Elements are too large to be stored";

pub(crate) const XADD: CommandSpec = CommandSpec {
    name: "xadd",
    summary: "Appends a new entry to a stream",
    complexity: "O(1) when adding a new entry, O(N) when trimming where N being the number of entries evicted.",
    since: "5.0.0",
    group: Group::Stream,
    arity: -5,
    flags: WRITE | DENYOOM | FAST,
    acl: ACL_STREAM,
    tips: &["nondeterministic_output"],
    keys: &[KeySpec::one(1, KEY_RW | KEY_UPDATE)
        .notes("UPDATE instead of INSERT because of the optional trimming feature")],
    history: &[
        (
            "6.2.0",
            "Added the `NOMKSTREAM` option, `MINID` trimming strategy and the `LIMIT` option.",
        ),
        ("7.0.0", "Added support for the `<ms>-*` explicit ID form."),
        ("8.2.0", "Added the `KEEPREF`, `DELREF` and `ACKED` options."),
    ],
    args: &[
        key("key", 0),
        token("nomkstream", "NOMKSTREAM").since("6.2.0").optional(),
        STRATEGY.since("8.2.0"),
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
            ],
        )
        .optional(),
        oneof("id_or_auto", &[token("auto_id", "*"), string("id")]),
        block("field_value", &[string("field"), string("value")]).multiple(),
    ],
    run: Run::Keys(xadd),
    joined: Some(xadd_joined),
    ..CommandSpec::EMPTY
};

fn xadd(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let options = TrimOptions::parse(call, true)?;
    let words = call.args.get(options.id_at + 1..).unwrap_or_default();
    if words.len() < 2 || words.len() % 2 == 1 {
        return Err("ERR wrong number of arguments for 'xadd' command".into());
    }
    if options.id == Wanted::Exactly(StreamId::MIN) {
        return Err("ERR The ID specified in XADD must be greater than 0-0".into());
    }
    let head = match stream_mut(call, txn)? {
        Some(stream) => stream.head(),
        None if options.make => StreamHead::default(),
        None => {
            call.out.null();
            return Ok(());
        }
    };
    let id = next(call, options.id, &head)?;
    if words.iter().map(|word| word.len()).sum::<usize>() > LARGEST {
        return Err(TOO_LARGE.into());
    }
    let (db, key) = (call.db(), call.key(0));
    let limits = call.engine.config().stream_limits();
    let trimmed = txn.streams().edit(db, &key, |edit| {
        edit.append(id, words, limits)?;
        let trim = |trim| Trimmed::of(edit, trim, options.references);
        options.trim.map_or(Ok(Trimmed::default()), trim)
    })?;
    added(call, txn, &options, id, &trimmed)
}

/// Logs the command, and replies with the ID of the new entry.
fn added(
    call: &mut Call<'_>,
    txn: &mut Txn<'_>,
    options: &TrimOptions,
    id: StreamId,
    trimmed: &Trimmed,
) -> Done {
    let key = call.key(0);
    if call.effects.enabled() {
        log(call, txn, options, id, trimmed)?;
    } else {
        call.wrote();
    }
    call.notify(EventClass::Stream, "xadd", &key);
    if trimmed.count > 0 {
        call.notify(EventClass::Stream, "xtrim", &key);
    }
    reply::id(call.out, id);
    Ok(())
}

/// Adds the entries of several requests without options to a stream that exists.
fn xadd_joined<'a>(
    call: &mut Call<'a>,
    txn: &mut Txn<'_>,
    requests: &[Words<'a>],
) -> Result<usize, Failure> {
    let is_plain = |args: &&Words<'_>| args[2] == b"*" && args.len() % 2 == 1;
    let plain = requests.iter().take_while(is_plain).count();
    if plain < 2 {
        return Ok(0);
    }
    let (db, key) = (call.db(), call.key(0));
    let Some(entry) = txn.peek(db, &key) else { return Ok(0) };
    txn.stream(&entry)?;
    let limits = call.engine.config().stream_limits();
    let mut ids = Vec::with_capacity(requests.len());
    txn.streams().edit(db, &key, |edit| {
        for args in &requests[..plain] {
            let Ok(id) = next(call, Wanted::Any, &edit.head()) else { break };
            edit.append(id, &args[3..], limits)?;
            ids.push(id);
        }
        Ok(())
    })?;
    for (args, id) in requests.iter().zip(&ids) {
        call.begin_joined(args);
        let options = TrimOptions::parse(call, true)?;
        added(call, txn, &options, *id, &Trimmed::default())?;
    }
    Ok(ids.len())
}

/// Returns the ID of the next entry.
fn next(call: &Call<'_>, wanted: Wanted, head: &StreamHead) -> Result<StreamId, Failure> {
    const SMALL: &str =
        "ERR The ID specified in XADD is equal or smaller than the target stream top item";
    if head.last == StreamId::MAX {
        return Err(
            "ERR The stream has exhausted the last possible ID, unable to add more items".into()
        );
    }
    let id = match wanted {
        Wanted::Any if call.now_ms() > head.last.ms => Some(StreamId { ms: call.now_ms(), seq: 0 }),
        Wanted::Any => head.last.next(),
        Wanted::Within(ms) if ms == head.last.ms => {
            // Redis checks the sequence number last, and has only one text for its errors.
            Some(StreamId { ms, seq: head.last.seq.checked_add(1).ok_or(TOO_LARGE)? })
        }
        Wanted::Within(ms) => Some(StreamId { ms, seq: 0 }),
        Wanted::Exactly(id) => Some(id),
    };
    id.filter(|&id| id > head.last).ok_or(SMALL.into())
}

/// Logs the command with the actual ID, and with a trim that does not depend on nodes.
fn log(
    call: &mut Call<'_>,
    txn: &mut Txn<'_>,
    options: &TrimOptions,
    id: StreamId,
    trimmed: &Trimmed,
) -> Done {
    let mut words = Vec::new();
    if let Some(trim) = options.trim
        && trimmed.is_whole()
        && let Some(stream) = stream_mut(call, txn)?
    {
        words = exact(trim, &stream)?;
    }
    let id = reply::text(id);
    let mut args: Vec<&[u8]> = call.args[..2].to_vec();
    if !options.make {
        args.push(b"NOMKSTREAM");
    }
    args.extend(words.iter().map(Vec::as_slice));
    args.push(id.as_bytes());
    args.extend_from_slice(&call.args[options.id_at + 1..]);
    call.wrote_as(&args);
    trimmed.log(call);
    Ok(())
}
