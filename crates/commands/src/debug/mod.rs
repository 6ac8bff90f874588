//! DEBUG: the subcommands that Redis's own test suite needs.
//!
//! The command locks all shards, whatever its subcommand: DEBUG SLEEP stops all clients, as in
//! Redis. Subcommands that control something which does not exist here (quicklists, reply buffers
//! of a fixed size) answer OK and change nothing.

mod digest;
mod faults;
mod populate;
mod reload;

use std::time::Duration;

use ::replication::Id;
use engine::call::{Call, Run};
use engine::failure::{Done, Failure, NO_SUCH_KEY, SYNTAX};
use engine::spec::*;
use keyspace::{Db, Encoding, Txn, Type};

use crate::admin::{Host, help, with_host};
use crate::names::encoding_name;

/// The group's commands.
pub(crate) const COMMANDS: &[&CommandSpec] = &[&DEBUG];

const DEBUG: CommandSpec = CommandSpec {
    name: "debug",
    summary: "A container for debugging commands",
    complexity: "Depends on subcommand.",
    since: "1.0.0",
    group: Group::Server,
    doc_flags: &["syscmd"],
    arity: -2,
    flags: ADMIN | NOSCRIPT | LOADING | STALE,
    run: Run::All(debug),
    ..CommandSpec::EMPTY
};

/// Subcommands that show or change data.
const SHOWS_DATA: [&[u8]; 9] = [
    b"object",
    b"digest",
    b"digest-value",
    b"populate",
    b"listpack",
    b"quicklist",
    b"loadaof",
    b"reload",
    b"htstats",
];

const FORBIDDEN: &str = "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a local connection, otherwise you need to set this option in the configuration file, and then restart the server.";

fn debug(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let local = call.session.client.peer.local;
    let allowed = call.engine.host().is_none_or(|host| host.allows_debug(local));
    if !allowed {
        return Err(FORBIDDEN.into());
    }
    let name = call.args[1].to_ascii_lowercase();
    call.shows_data = SHOWS_DATA.contains(&name.as_slice());
    match (name.as_slice(), call.args.len()) {
        (b"help", 2) => debug_help(call),
        (b"sleep", 3) => sleep(call),
        (b"object", 3) => object(call, txn),
        (b"digest", 2) => simple(call, digest::of_all(txn)),
        (b"digest", 3) if call.is(2, "full") => simple(call, digest::full(txn)),
        (b"digest-value", 2..) => digest_value(call, txn),
        (b"populate", 3..=5) => populate::populate(call, txn),
        (b"protocol", 3) => protocol(call),
        (b"htstats", 3) => table_stats(call, txn),
        (b"error", 3) => Err(Failure::text(call.args[2])),
        (b"log", 3) => {
            let line = String::from_utf8_lossy(call.args[2]);
            ok_after(call, |host| host.log(&format!("DEBUG LOG: {line}")))
        }
        (b"set-active-expire", 3) => {
            let yes = flag(call);
            ok_after(call, |host| host.set_active_expire(yes))
        }
        (b"pause-cron", 3) => {
            let yes = flag(call);
            ok_after(call, |host| host.set_cron(!yes))
        }
        (b"change-repl-id", 2) => {
            let random = std::array::from_fn(|_| call.session.random.u8(..));
            call.engine.replication().stream().set_id(Id::from_random(random));
            ok(call)
        }
        (b"replicate", 3..) => {
            let mut command = Vec::new();
            aof::encode(&mut command, &call.args[2..]);
            call.engine.replication().append_free(&command);
            ok(call)
        }
        (b"config-rewrite-force-all", 2) => match call.engine.host() {
            Some(host) => host.config_rewrite(true).and_then(|()| ok(call)),
            None => Err("ERR The server is running without a config file".into()),
        },
        (b"stringmatch-len", 4) => {
            let matches = resp::glob::matches(call.args[2], call.args[3]);
            call.out.integer(i64::from(matches));
            Ok(())
        }
        (b"set-disable-deny-scripts", 3) => {
            call.engine.config().set_calls_any_from_script(flag(call));
            ok(call)
        }
        (b"set-skip-checksum-validation", 3) => {
            call.engine.config().set_skips_checksums(flag(call));
            ok(call)
        }
        (b"quicklist-packed-threshold", 3) => packed_threshold(call),
        (b"listpack", 3) => packed(call, txn),
        (b"quicklist", 3 | 4) => list(call, txn),
        (b"replybuffer", 4) => reply_buffer(call),
        (b"drop-cluster-packet-filter", 3) => faults::drop_messages(call),
        (b"close-cluster-link-on-packet-drop", 3) => faults::close_on_drop(call),
        (b"disable-cluster-reconnection", 3) => faults::make_no_links(call),
        (b"clusterlink", 5) if call.is(2, "kill") => faults::kill_links(call),
        (b"loadaof", 2) => reload::load_log(call, txn),
        (b"reload", 2..) => reload::with_options(call, txn),
        (b"restart" | b"crash-and-recover", _) => {
            let name = call.args[1].to_ascii_uppercase();
            let name = String::from_utf8_lossy(&name);
            Err(Failure::text(format!("ERR DEBUG {name} is not supported")))
        }
        _ => Err(Failure::text(format!(
            "ERR unknown subcommand or wrong number of arguments for '{}'. Try DEBUG HELP.",
            String::from_utf8_lossy(call.args[1])
        ))),
    }
}

fn ok(call: &mut Call<'_>) -> Done {
    call.out.ok();
    Ok(())
}

fn ok_after(call: &mut Call<'_>, what: impl FnOnce(&dyn Host)) -> Done {
    with_host(call, what);
    ok(call)
}

/// Returns true unless the argument is `0` or empty.
fn flag(call: &Call<'_>) -> bool {
    !matches!(call.args[2], b"0" | b"")
}

fn sleep(call: &mut Call<'_>) -> Done {
    let seconds: f64 =
        std::str::from_utf8(call.args[2]).ok().and_then(|s| s.parse().ok()).unwrap_or(0.0);
    let time = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    ok_after(call, |host| host.sleep(time))
}

fn object(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let key = txn.key(call.args[2]);
    // An expired key that was not deleted yet is shown, too.
    let now = txn.now();
    txn.set_now(0);
    let entry = txn.peek(call.db(), &key);
    txn.set_now(now);
    let entry = entry.ok_or(NO_SUCH_KEY)?;
    let properties = txn.properties(&entry);
    let encoding = encoding_name(properties.encoding());
    let length = match properties.value_type() {
        Type::String => txn.string(&entry)?.len(),
        _ => properties.memory() as usize,
    };
    let idle = properties.idle_ms() / 1000;
    let clock = (call.now_ms() / 1000).saturating_sub(idle) & 0xff_ffff;
    call.out.simple(format!(
        "Value at:0x0 refcount:1 encoding:{encoding} serializedlength:{} lru:{clock} lru_seconds_idle:{idle}",
        length + 1
    ));
    Ok(())
}

fn simple(call: &mut Call<'_>, text: String) -> Done {
    call.out.simple(text);
    Ok(())
}

fn digest_value(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    call.out.array(call.args.len() - 2);
    for name in &call.args[2..] {
        let key = txn.key(name);
        call.out.simple(digest::of_value(txn, call.session.db, &key));
    }
    Ok(())
}

fn table_stats(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let number = usize::try_from(call.int(2)?).ok();
    let db = number.and_then(Db::new).ok_or("ERR Out of range database")?;
    let part = |count: u64| match count {
        0 => "No stats available for empty dictionaries\n".to_owned(),
        _ => format!("Hash table 0 stats (main hash table):\n number of elements: {count}\n"),
    };
    let text = format!(
        "[Dictionary HT]\n{}[Expires HT]\n{}",
        part(txn.database(db).count()),
        part(txn.database(db).count_expiring())
    );
    call.out.verbatim(*b"txt", text);
    Ok(())
}

/// Accepts the values that Redis accepts, without effect.
fn packed_threshold(call: &mut Call<'_>) -> Done {
    const MOST: u64 = (4 << 30) - (1 << 20);
    let size = resp::number::parse_memory(call.args[2]).filter(|size| *size <= MOST);
    size.ok_or("ERR argument must be a memory value bigger than 1 and smaller than 4gb")?;
    ok(call)
}

/// Checks the encoding. Redis prints the listpack in memory to its standard output; there is none
/// here, and the reply is the same.
fn packed(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let entry = txn.peek(call.db(), &txn.key(call.args[2])).ok_or(NO_SUCH_KEY)?;
    if txn.properties(&entry).encoding() != Encoding::Listpack {
        return Err("ERR Not a listpack encoded object.".into());
    }
    call.out.simple("Listpack structure printed on stdout");
    Ok(())
}

fn list(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let entry = txn.peek(call.db(), &txn.key(call.args[2])).ok_or(NO_SUCH_KEY)?;
    if txn.properties(&entry).value_type() != Type::List {
        return Err("ERR Not a quicklist encoded object.".into());
    }
    call.out.simple("Quicklist structure printed on stdout");
    Ok(())
}

fn reply_buffer(call: &mut Call<'_>) -> Done {
    match () {
        () if call.is(2, "peak-reset-time") => {
            if !call.is(3, "never") && !call.is(3, "reset") {
                call.int(3)?;
            }
            ok(call)
        }
        () if call.is(2, "resizing") => ok(call),
        () => Err(SYNTAX.into()),
    }
}

fn protocol(call: &mut Call<'_>) -> Done {
    let resp3 = call.out.protocol() == resp::Protocol::Resp3;
    let out = &mut *call.out;
    match call.args[2].to_ascii_lowercase().as_slice() {
        b"string" => out.bulk("Hello World"),
        b"integer" => out.integer(12345),
        b"double" => out.double_text(b"3.141"),
        b"null" => out.null(),
        b"bignum" => out.big_number(b"1234567999999999999999999999999999999"),
        b"true" => out.boolean(true),
        b"false" => out.boolean(false),
        b"verbatim" => out.verbatim(*b"txt", "This is a verbatim\nstring"),
        b"array" => {
            out.array(3);
            (0..3).for_each(|n| out.integer(n));
        }
        b"set" => {
            out.set(3);
            (0..3).for_each(|n| out.integer(n));
        }
        b"map" => {
            out.map(3);
            for n in 0..3 {
                out.integer(n);
                out.boolean(n == 1);
            }
        }
        b"push" if !resp3 => {
            return Err("ERR RESP2 is not supported by this command".into());
        }
        b"attrib" => {
            if resp3 {
                out.attribute(1);
                out.bulk("key-popularity");
                out.array(2);
                out.bulk("key:123");
                out.integer(90);
            }
            out.bulk("Some real reply following the attribute");
        }
        b"push" => {
            out.push(2);
            out.bulk("server-cpu-usage");
            out.integer(42);
            out.bulk("Some real reply following the push reply");
        }
        _ => {
            return Err("ERR Wrong protocol type name. Please use one of the following: string|integer|double|null|array|set|map|attrib|push|verbatim|true|false".into());
        }
    }
    Ok(())
}

fn debug_help(call: &mut Call<'_>) -> Done {
    help(
        call,
        &[
            "CHANGE-REPL-ID",
            "    Change the replication IDs of the instance.",
            "CLOSE-CLUSTER-LINK-ON-PACKET-DROP <0|1>",
            "    Close the link of the cluster on which a message is dropped.",
            "CLUSTERLINK KILL <to|from|all> <node-id>",
            "    Close the links to or from a node of the cluster.",
            "CONFIG-REWRITE-FORCE-ALL",
            "    Like CONFIG REWRITE but writes all configuration options, including",
            "    those that have their default values.",
            "DIGEST [FULL]",
            "    Output a hex signature representing the current DB content. FULL adds",
            "    consumer groups, and is not the signature of other servers.",
            "DIGEST-VALUE <key> [<key> ...]",
            "    Output a hex signature of the values of all the specified keys.",
            "DISABLE-CLUSTER-RECONNECTION <0|1>",
            "    Do not connect to other nodes of the cluster.",
            "DROP-CLUSTER-PACKET-FILTER <packet-type>",
            "    Drop the messages of this type that come on the bus; -1: none, -2: all.",
            "ERROR <string>",
            "    Return a Redis protocol error with <string> as message. Useful for clients",
            "    unit tests to simulate Redis errors.",
            "HTSTATS <dbid>",
            "    Return hash table statistics of the specified Redis database.",
            "LISTPACK <key>",
            "    Say whether <key> is a small collection. Nothing is printed.",
            "LOADAOF",
            "    Drop all data and load it from the append only file. A pool is served as it",
            "    lies on the medium: there is nothing to load.",
            "LOG <message>",
            "    Write <message> to the server log.",
            "OBJECT <key>",
            "    Show low level info about `key` and associated value.",
            "PAUSE-CRON <0|1>",
            "    Stop periodic cron job processing.",
            "POPULATE <count> [<prefix>] [<size>]",
            "    Create <count> string keys named key:<num>. If <prefix> is specified then",
            "    it is used instead of the 'key' prefix.",
            "PROTOCOL <type>",
            "    Reply with a test value of the specified type. <type> can be: string,",
            "    integer, double, bignum, null, array, set, map, attrib, push, verbatim,",
            "    true, false.",
            "QUICKLIST <key> [<0|1>]",
            "    Say whether <key> is a list. Nothing is printed.",
            "QUICKLIST-PACKED-THRESHOLD <size>",
            "    Accepted; there are no quicklists.",
            "RELOAD [option ...]",
            "    Save a dump and load it, or load the pool again.",
            "REPLICATE <command> [arg ...]",
            "    Send a command to the replicas without executing it.",
            "REPLYBUFFER PEAK-RESET-TIME <NEVER||RESET|time>",
            "    Accepted; reply buffers have no fixed size.",
            "REPLYBUFFER RESIZING <0|1>",
            "    Accepted; reply buffers have no fixed size.",
            "SET-ACTIVE-EXPIRE <0|1>",
            "    Setting it to 0 disables expiring keys in background when they are not",
            "    accessed (otherwise the Redis behavior). Setting it to 1 reenables back the",
            "    default.",
            "SET-DISABLE-DENY-SCRIPTS <0|1>",
            "    Allow or deny disabling scripts' commands that are not meant for them.",
            "SET-SKIP-CHECKSUM-VALIDATION <0|1>",
            "    Enables or disables checksum checks for RDB files and RESTORE's payload.",
            "SLEEP <seconds>",
            "    Stop the server for <seconds>. Decimals allowed.",
            "STRINGMATCH-LEN <pattern> <string>",
            "    Match <string> against a glob-like <pattern>.",
        ],
    )
}
