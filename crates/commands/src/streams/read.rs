//! XREAD.

use engine::call::{Call, Run};
use engine::failure::{Done, Failure, SYNTAX};
use engine::spec::*;
use keyspace::{Key, StreamId, StreamRef, Txn, Type};
use resp::{Protocol, Writer};

use super::{id, reply, stream};
use crate::blocking::{BlockedOperation, Serving, milliseconds};

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
    let options = Options::parse(call, false)?;
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
    for (n, after) in after.iter().enumerate() {
        let Some(stream) = stream(call, txn, n)? else { continue };
        let key = call.key(n);
        shown += usize::from(newer(call.out, key.bytes(), &stream, *after, options.most)?);
    }
    match (shown, call.out.protocol()) {
        (0, _) => {
            call.out.truncate(mark);
            let Some(until) = options.until else {
                call.out.null_array();
                return Ok(());
            };
            let names = call.keys.iter().map(|key| key.bytes().into());
            let most = if options.most == 0 { BLOCKED } else { options.most };
            let operation = Newer { after: names.zip(after).collect(), most };
            call.block(Type::Stream, call.keys, Box::new(operation), until);
        }
        (_, Protocol::Resp2) => call.out.finish_array(start, shown),
        _ => call.out.finish_map(start, shown),
    }
    Ok(())
}

/// Replies with the name of a stream and its entries after an ID. Returns false if there are none.
fn newer(
    out: &mut Writer,
    name: &[u8],
    stream: &StreamRef<'_>,
    after: StreamId,
    most: u64,
) -> Result<bool, Failure> {
    let Some(from) = after.next() else { return Ok(false) };
    let mut any = false;
    stream.visit(from..=StreamId::MAX, false, |_| {
        any = true;
        false
    })?;
    if any {
        if out.protocol() == Protocol::Resp2 {
            out.array(2);
        }
        out.bulk(name);
        reply::entries(out, stream, from, StreamId::MAX, most, false)?;
    }
    Ok(any)
}

/// Waits for entries after an ID, of the first stream that gets any.
struct Newer {
    after: Vec<(Box<[u8]>, StreamId)>,
    most: u64,
}

impl BlockedOperation for Newer {
    fn serve(
        &self,
        serving: &mut Serving<'_>,
        txn: &mut Txn<'_>,
        key: &Key<'_>,
    ) -> Result<bool, Failure> {
        let waits = self.after.iter().find(|(name, _)| **name == *key.bytes());
        let (Some((_, after)), Some(entry)) = (waits, txn.find(serving.db, key)) else {
            return Ok(false);
        };
        let stream = txn.stream(&entry)?;
        let (mark, start) = (serving.out.mark(), serving.out.deferred());
        let any = newer(serving.out, key.bytes(), &stream, *after, self.most)?;
        match serving.out.protocol() {
            _ if !any => serving.out.truncate(mark),
            Protocol::Resp2 => serving.out.finish_array(start, 1),
            _ => serving.out.finish_map(start, 1),
        }
        Ok(any)
    }
}

/// Returns the error for BLOCK in a script, where only XREAD itself is allowed.
fn blocks_in_script(call: &Call<'_>) -> Failure {
    let name = call.args[0];
    let rest = b" command is not allowed with BLOCK option from scripts";
    Failure::text([b"ERR ", name, rest].concat())
}

/// The maximum number of entries for a client that waited and gave no COUNT.
pub(super) const BLOCKED: u64 = 1000;

/// The options before the keys and IDs.
pub(super) struct Options<'a> {
    /// The maximum number of entries of each stream; 0 for all.
    pub(super) most: u64,
    /// Whether to wait, and until when (unix ms).
    pub(super) until: Option<Option<u64>>,
    /// The names of group and consumer.
    pub(super) group: Option<(&'a [u8], &'a [u8])>,
    /// True if delivered entries do not become pending.
    pub(super) no_ack: bool,
    /// The time in ms for which an entry must have been pending to be claimed from other consumers.
    pub(super) claim: Option<u64>,
    /// The position of the first key.
    pub(super) first: usize,
    pub(super) streams: usize,
}

impl<'a> Options<'a> {
    /// Parses the options of XREAD, or of XREADGROUP.
    pub(super) fn parse(call: &Call<'a>, of_group: bool) -> Result<Options<'a>, Failure> {
        let (mut most, mut until, mut group, mut no_ack, mut at) = (0, None, None, false, 1);
        let mut claim = None;
        while at < call.args.len() {
            let more = call.args.len() - 1 - at;
            if more > 0 && call.is(at, "BLOCK") {
                if call.is_from_script() {
                    return Err(blocks_in_script(call));
                }
                at += 1;
                until = Some(milliseconds(call, at)?);
            } else if more > 0 && call.is(at, "COUNT") {
                at += 1;
                most = call.int(at)?.max(0) as u64;
            } else if more > 0 && call.is(at, "STREAMS") {
                if !more.is_multiple_of(2) || call.keys.len() < more / 2 {
                    return Err("ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.".into());
                }
                let (first, streams) = (at + 1, more / 2);
                return Ok(Options { most, until, group, no_ack, claim, first, streams });
            } else if more >= 2 && call.is(at, "GROUP") {
                if !of_group {
                    return Err("ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.".into());
                }
                group = Some((call.args[at + 1], call.args[at + 2]));
                at += 2;
            } else if more > 0 && of_group && call.is(at, "CLAIM") {
                at += 1;
                let least = call.int(at).map_err(|_| "ERR min-idle-time is not an integer")?;
                let least = u64::try_from(least);
                claim = Some(least.map_err(|_| "ERR min-idle-time must be a positive integer")?);
            } else if call.is(at, "NOACK") {
                if !of_group {
                    return Err("ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.".into());
                }
                no_ack = true;
            } else {
                return Err(SYNTAX.into());
            }
            at += 1;
        }
        Err(SYNTAX.into())
    }
}
