//! REPLCONF: what a replica says about itself, and what it acknowledges.

use engine::call::{Call, Run};
use engine::failure::{Done, Failure, SYNTAX};
use engine::session::replica::AsReplica;
use engine::spec::*;

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

/// Maximum length of an address that a replica gives.
const MAX_HOST: usize = 255;

fn replconf(call: &mut Call<'_>) -> Done {
    let (pairs, rest) = call.args[1..].as_chunks::<2>();
    if !rest.is_empty() {
        return Err(SYNTAX.into());
    }
    for (at, [option, value]) in pairs.iter().enumerate() {
        let value_at = 2 * at + 2;
        match option.to_ascii_lowercase().as_slice() {
            b"listening-port" => {
                let port = call.int(value_at)?;
                let port = u16::try_from(port).map_err(|_| "ERR Invalid port")?;
                wants(call).port = port;
            }
            b"ip-address" if value.len() <= MAX_HOST => {
                wants(call).host = Some(String::from_utf8_lossy(value).into_owned());
            }
            b"ip-address" => {
                return Err(
                    "ERR REPLCONF ip-address provided by replica instance is too long".into()
                );
            }
            b"capa" if value.eq_ignore_ascii_case(b"eof") => wants(call).knows_mark = true,
            b"capa" if value.eq_ignore_ascii_case(b"psync2") => wants(call).knows_new_id = true,
            b"capa" if value.eq_ignore_ascii_case(b"perdura") => wants(call).is_perdura = true,
            // Of other servers: what they know besides.
            b"capa" => {}
            b"version" => wants(call).reads_valkey = reads_valkey(value),
            // redis-cli says so if it wants all data.
            b"rdb-filter-only" if value.is_empty() => {}
            b"rdb-only" => {
                wants(call).wants_dump_only = match call.int(value_at)? {
                    0 => false,
                    1 => true,
                    _ => {
                        return Err("ERR value is out of range, value must between 0 and 1".into());
                    }
                }
            }
            // Nobody waits for a reply to these.
            b"ack" => return acknowledge(call),
            b"getack" => return Ok(()),
            _ => {
                let option = String::from_utf8_lossy(option);
                return Err(Failure::text(format!("ERR Unrecognized REPLCONF option: {option}")));
            }
        }
    }
    call.out.ok();
    Ok(())
}

/// Returns true if a Valkey of this version, such as `9.1.2`, reads dumps of Valkey's own version
/// of the format. Redis says no version.
fn reads_valkey(version: &[u8]) -> bool {
    let major = version.split(|byte| *byte == b'.').next().unwrap_or_default();
    let major: Option<u32> = str::from_utf8(major).ok().and_then(|major| major.parse().ok());
    major.is_some_and(|major| major >= 9)
}

fn wants<'c>(call: &'c mut Call<'_>) -> &'c mut AsReplica {
    call.session.replica.get_or_insert_default()
}

/// Notes how far a replica is: `REPLCONF ACK offset [FACK offset]`.
fn acknowledge(call: &mut Call<'_>) -> Done {
    let replica = call.session.replica.as_ref().and_then(|replica| replica.entry.as_ref());
    let Some(replica) = replica else { return Ok(()) };
    let offset = |at: usize| call.int(at).ok().and_then(|offset| u64::try_from(offset).ok());
    let Some(executed) = offset(2) else { return Ok(()) };
    let durable = (call.args.len() > 4 && call.is(3, "fack")).then(|| offset(4)).flatten();
    replica.acknowledge(executed, durable, call.now_ms());
    call.engine.end_waits_for_replicas();
    Ok(())
}
