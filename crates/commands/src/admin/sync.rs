//! SYNC: a dump of the data over the connection, as `redis-cli --rdb` and `perdura backup` ask for
//! it.
//!
//! There is no replication. In Redis a replica says `REPLCONF rdb-only 1` if it wants the dump and
//! nothing after it. Only such a SYNC is answered here; every other one is refused, since a replica
//! would wait for a stream that never comes. The dump's length is not known when it begins, so it
//! ends with a mark (`$EOF:`), which the client must say it knows (`REPLCONF capa eof`).

use engine::call::{Call, Next, Run};
use engine::failure::{Done, Failure, SYNTAX};
use engine::session::DumpRequest;
use engine::spec::*;

pub(crate) const SYNC: CommandSpec = CommandSpec {
    name: "sync",
    summary: "Internal command used for replication",
    since: "1.0.0",
    group: Group::Server,
    arity: 1,
    flags: ADMIN | NOSCRIPT | NO_ASYNC_LOADING | NO_MULTI,
    run: Run::Session(sync),
    ..CommandSpec::EMPTY
};

pub(crate) const REPLCONF: CommandSpec = CommandSpec {
    name: "replconf",
    summary: "An internal command for configuring the replication stream",
    complexity: "O(1)",
    since: "3.0.0",
    group: Group::Server,
    arity: -1,
    flags: ADMIN | NOSCRIPT | LOADING | STALE | ALLOW_BUSY,
    doc_flags: &["syscmd"],
    run: Run::Session(replconf),
    ..CommandSpec::EMPTY
};

const NO_REPLICATION: &str = "ERR there is no replication: SYNC sends a dump to a client that has \
     said REPLCONF rdb-only 1 and REPLCONF capa eof";

fn sync(call: &mut Call<'_>) -> Done {
    let DumpRequest { is_only, knows_mark } = call.session.dump_request;
    if !is_only || !knows_mark || !call.session.can_block {
        return Err(NO_REPLICATION.into());
    }
    call.next = Next::SendDump;
    Ok(())
}

fn replconf(call: &mut Call<'_>) -> Done {
    let (pairs, rest) = call.args[1..].as_chunks::<2>();
    if !rest.is_empty() {
        return Err(SYNTAX.into());
    }
    for (at, [option, value]) in pairs.iter().enumerate() {
        let is = |word: &str| option.eq_ignore_ascii_case(word.as_bytes());
        if is("capa") {
            call.session.dump_request.knows_mark |= value.eq_ignore_ascii_case(b"eof");
        } else if is("rdb-only") {
            call.session.dump_request.is_only = match call.int(2 * at + 2)? {
                0 => false,
                1 => true,
                _ => return Err("ERR value is out of range, value must between 0 and 1".into()),
            };
        } else {
            let option = String::from_utf8_lossy(option);
            return Err(Failure::text(format!("ERR Unrecognized REPLCONF option: {option}")));
        }
    }
    call.out.ok();
    Ok(())
}
