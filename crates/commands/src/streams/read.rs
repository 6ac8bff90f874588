//! XREAD.

use keyspace::{StreamId, Txn};
use resp::Protocol;

use super::{id, reply, stream};
use crate::call::{Call, Run};
use crate::failure::{Done, Failure, SYNTAX};
use crate::spec::*;

pub(crate) const XREAD: CommandSpec = CommandSpec {
    name: "xread",
    summary: "Return never seen elements in multiple streams, with IDs greater than the ones reported by the caller for each stream. Can block.",
    complexity: "For each stream mentioned: O(N) with N being the number of elements being returned, it means that XREAD-ing with a fixed COUNT is O(1). Note that when the BLOCK option is used, XADD will pay O(M) time in order to serve the M clients blocked on the stream getting new data.",
    since: "5.0.0",
    group: Group::Stream,
    arity: -4,
    flags: READONLY | BLOCKING,
    acl: ACL_STREAM,
    keys: &[KeySpec::new(
        Begin::Keyword("STREAMS", 1),
        Find::Range { last: -1, step: 1, limit: 2 },
        KEY_RO | KEY_ACCESS,
    )],
    args: &[
        integer("count").token("COUNT").optional(),
        integer("milliseconds").token("BLOCK").optional(),
        block("streams", &[key("key", 0).multiple(), string("id").multiple()]).token("STREAMS"),
    ],
    run: Run::Keys(xread),
    ..CommandSpec::EMPTY
};

fn xread(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let options = Options::parse(call)?;
    let mut after = Vec::with_capacity(options.streams);
    for n in 0..options.streams {
        let last = stream(call, txn, n)?.map_or(StreamId::MIN, |stream| stream.head().last);
        after.push(match call.args[options.first + options.streams + n] {
            b"$" => last,
            b">" => return Err("ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.".into()),
            word => id::strict(word, 0)?,
        });
    }
    let (mark, start, mut shown) = (call.out.mark(), call.out.deferred(), 0);
    for (n, after) in after.into_iter().enumerate() {
        let Some(stream) = stream(call, txn, n)? else { continue };
        let Some(from) = after.next() else { continue };
        let mut any = false;
        stream.visit(from..=StreamId::MAX, false, |_| {
            any = true;
            false
        })?;
        if any {
            shown += 1;
            if call.out.protocol() == Protocol::Resp2 {
                call.out.array(2);
            }
            call.out.bulk(call.key(n).bytes());
            reply::entries(call.out, &stream, (from, StreamId::MAX), options.most, false)?;
        }
    }
    match (shown, call.out.protocol()) {
        (0, _) => {
            call.out.truncate(mark);
            call.out.null_array();
        }
        (_, Protocol::Resp2) => call.out.finish_array(start, shown),
        _ => call.out.finish_map(start, shown),
    }
    Ok(())
}

/// What stands before the IDs.
struct Options {
    /// The most entries of each stream; 0 for all.
    most: u64,
    /// Where the first key stands.
    first: usize,
    streams: usize,
}

impl Options {
    fn parse(call: &Call<'_>) -> Result<Options, Failure> {
        let (mut most, mut at) = (0, 1);
        while at < call.args.len() {
            let more = call.args.len() - 1 - at;
            if more > 0 && call.is(at, "COUNT") {
                at += 1;
                most = call.int(at)?.max(0) as u64;
            } else if more > 0 && call.is(at, "STREAMS") {
                if !more.is_multiple_of(2) || call.keys.len() < more / 2 {
                    return Err("ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.".into());
                }
                return Ok(Options { most, first: at + 1, streams: more / 2 });
            } else {
                return Err(SYNTAX.into());
            }
            at += 1;
        }
        Err(SYNTAX.into())
    }
}
