//! Scripts and functions: generated Lua programs, compared reply by reply.
//!
//! [`edges`] makes many short expressions, [`sweeps`] covers small domains completely, [`values`]
//! makes expressions, [`programs`] the statements around them, [`libraries`] libraries of functions
//! and commands on them. Each case is a few programs over the same data, which is compared at its
//! end, with the counters of errors.

mod edges;
mod libraries;
mod programs;
mod sweeps;
mod values;

use crate::request;
use crate::steps::{ADMIN, Act, Alike, CLIENT, Case, Words, with, words};
use commands::spec::{CommandSpec, Group};
use commands::{Engine, Run};
use fastrand::Rng;
use values::of;

/// The requests that each case begins with.
const SETUP: &[&str] = &[
    "CONFIG SET maxmemory 0",
    "CONFIG SET busy-reply-threshold 5000",
    "FLUSHALL",
    "FUNCTION FLUSH",
    "SCRIPT FLUSH",
    "SET a 10",
    "SET b hello",
    "SET c 3.25",
    "HSET h1 f 1 hello v",
    "SADD t1 1 2 3",
    "SADD t2 only",
    "RPUSH l1 a b c a",
    "ZADD z1 1 a 2.5 b inf c",
    "ZADD z2 0.1 m",
    "XADD x1 5-1 f v g w",
    "XGROUP CREATE x1 g 0",
    "GEOADD g1 13.361389 38.115556 palermo",
    "PFADD e 1 2 3",
    "CONFIG RESETSTAT",
];
/// Commands about each key at the end.
const SHOWN: &[&str] = &[
    "TYPE *",
    "GET *",
    "LRANGE * 0 -1",
    "HGETALL *",
    "SMEMBERS *",
    "ZRANGE * 0 -1 WITHSCORES",
    "XRANGE * - +",
];
const KEYS: &[&str] = &["a", "b", "c", "h1", "t1", "l1", "z1", "x1", "d", "new"];
/// Commands whose replies in a script must differ: they depend on chance, a clock, the order of a
/// table, or later versions of Redis.
const LEFT_OUT: &[&str] = &[
    "randomkey",
    "dbsize",
    "object",
    "refcount",
    "idletime",
    "freq",
    "dump",
    "scan",
    "hscan",
    "hrandfield",
    "sscan",
    "srandmember",
    "spop",
    "zrandmember",
    "zscan",
    "hello",
    "quit",
    "shutdown",
    "lolwut",
    "wait",
    "migrate",
    "info",
    "debug",
    "ttl",
    "pttl",
    "expiretime",
    "pexpiretime",
    "stream",
    "groups",
    "consumers",
    "xpending",
    "keys",
    "time",
    "swapdb",
    "eval",
    "encoding",
    "pfdebug",
    "pfselftest",
    "xautoclaim",
    "xclaim",
];

type Spec = (Option<&'static CommandSpec>, &'static CommandSpec);

/// Makes cases.
pub(crate) struct Generator {
    specs: Vec<Spec>,
}

impl Generator {
    /// `peer` is the list of redis-server's commands.
    pub(crate) fn new(engine: &Engine, peer: &[String]) -> Generator {
        let all = engine.table().all().iter();
        let known = all
            .filter(|command| !matches!(command.spec.run, Run::Container))
            .filter(|command| peer.contains(&command.full_name()))
            .filter(|command| !LEFT_OUT.contains(&command.spec.name))
            .filter(|command| command.spec.group != Group::Server)
            .filter(|c| {
                c.parent.is_none_or(|of| !["client", "script", "function"].contains(&of.name))
            })
            .map(|command| (command.parent, command.spec));
        Generator { specs: known.collect() }
    }

    /// The case of a seed.
    pub(crate) fn case(&self, seed: u64) -> Case {
        let mut random = Rng::with_seed(seed);
        let mut case = Case::new(if random.bool() { 2 } else { 3 }, SETUP);
        match random.u8(..48) {
            0..10 => self.calls(&mut case, &mut random),
            10..26 => self.scripts(&mut case, seed, &mut random),
            26..38 => libraries::add(&mut case, &mut random),
            38..41 => over_limit(&mut case, &mut random),
            41..44 => edges::add(&mut case, &mut random),
            44 => endless(&mut case, &mut random),
            _ => sweeps::add(&mut case, &mut random),
        }
        for key in KEYS {
            for line in SHOWN {
                case.client(words(&line.replace('*', key)), Alike::Unordered);
            }
        }
        case.admin("INFO errorstats", Alike::Counters);
        case
    }

    /// Calls commands, and shows the replies as Lua values, or returns them.
    fn calls(&self, case: &mut Case, random: &mut Rng) {
        for _ in 0..24 {
            let (container, spec) = self.specs[random.usize(..self.specs.len())];
            let request = match container {
                Some(container) => request::sub_request(container, spec, random),
                None => request::request(spec, random),
            };
            let script = programs::call(spec.name, random);
            let name = if random.u8(..8) == 0 { "EVAL_RO" } else { "EVAL" };
            let head = [name.as_bytes().to_vec(), script.into_bytes(), b"0".to_vec()];
            case.client(head.into_iter().chain(request).collect(), Alike::Unordered);
        }
    }

    /// Runs programs, by their text or their SHA-1.
    fn scripts(&self, case: &mut Case, seed: u64, random: &mut Rng) {
        for n in 0..8 {
            let program = programs::script(&format!("{seed}-{n}"), random);
            if random.u8(..4) == 0 {
                by_sha(case, &program, random);
                continue;
            }
            let name = if random.u8(..5) == 0 { "EVAL_RO" } else { "EVAL" };
            let mut request = vec![name.as_bytes().to_vec(), program.into_bytes()];
            request.extend(arguments(random));
            let is_queued = random.u8(..8) == 0;
            if is_queued {
                case.client(words("MULTI"), Alike::Same);
            }
            case.client(request, Alike::Unordered);
            if is_queued {
                case.client(words("EXEC"), Alike::Unordered);
            }
        }
    }
}

/// Makes the number of keys, keys and other arguments.
fn arguments(random: &mut Rng) -> Words {
    let count = of(&["0", "1", "2", "2", "3", "1", "-1", "x", "", "4", "+1"], random);
    let given: &[&[u8]] = &[b"a", b"b", b"10", b"3.25", b"\0\xff\r\n", b"", b"l1", b"-0", b"1e3"];
    let mut words = vec![count.as_bytes().to_vec()];
    let most = count.parse::<usize>().unwrap_or(1) + 3;
    for _ in 0..random.usize(..most) {
        words.push(given[random.usize(..given.len())].to_vec());
    }
    words
}

/// Runs a program by its SHA-1 from SCRIPT LOAD, in lower and upper case.
fn by_sha(case: &mut Case, program: &str, random: &mut Rng) {
    case.add(CLIENT, Act::Call(with("SCRIPT LOAD", &[program.as_bytes()])), Alike::Same);
    let name = of(&["EVALSHA", "EVALSHA_RO"], random);
    let sha = |text: &str| sha1_smol::Sha1::from(text).digest().to_string();
    let sha = match random.u8(..4) {
        0 => sha(program).to_uppercase(),
        1 => of(&["", "abc", "0123456789012345678901234567890123456789"], random).to_owned(),
        _ => sha(program),
    };
    let mut request = with(name, &[sha.as_bytes()]);
    request.extend(arguments(random));
    let is_queued = random.bool();
    if is_queued {
        case.client(words("MULTI"), Alike::Same);
    }
    case.client(request, Alike::Unordered);
    if is_queued {
        case.client(words("EXEC"), Alike::Unordered);
    }
    case.add(CLIENT, Act::Call(with("SCRIPT EXISTS x", &[sha.as_bytes(), b""])), Alike::Same);
    if random.u8(..6) == 0 {
        let how = of(&["SCRIPT FLUSH", "SCRIPT FLUSH ASYNC", "SCRIPT FLUSH x"], random);
        case.client(words(how), Alike::Same);
        let mut again = with("EVALSHA", &[sha.as_bytes()]);
        again.push(b"0".to_vec());
        case.client(again, Alike::Unordered);
        case.add(CLIENT, Act::Call(with("SCRIPT EXISTS", &[sha.as_bytes()])), Alike::Same);
    }
}

/// Functions with each of the flags.
const OVER_LIMIT: &str = "#!lua name=limits
local function set() return redis.call('SET', 'new', 'x') end
redis.register_function('f', set)
redis.register_function{function_name='g', callback=set, flags={'allow-oom'}}
redis.register_function{function_name='h', callback=set, flags={'no-writes'}}
redis.register_function{function_name='k', callback=function() return redis.call('GET', 'a') end}";

/// Runs programs while no memory is left, alone and within transactions.
fn over_limit(case: &mut Case, random: &mut Rng) {
    case.add(ADMIN, Act::Call(with("FUNCTION LOAD", &[OVER_LIMIT.as_bytes()])), Alike::Same);
    case.admin("CONFIG SET maxmemory 1", Alike::Same);
    for _ in 0..8 {
        let flags = programs::shebang(random);
        let body = of(
            &[
                "return redis.call('SET', 'new', 'x')",
                "return redis.pcall('SET', 'new', 'x')",
                "redis.call('DEL', 'a') return redis.call('SET', 'new', 'x')",
                "return redis.call('GET', 'b')",
                "return redis.pcall('DEL', 'b')",
            ],
            random,
        );
        let script = format!("{flags}{body}").into_bytes();
        let request = match random.u8(..4) {
            0 => vec![b"EVAL_RO".to_vec(), script, b"0".to_vec()],
            1 => words(of(
                &["FCALL f 0", "FCALL g 0", "FCALL h 0", "FCALL k 0", "FCALL_RO h 0"],
                random,
            )),
            _ => vec![b"EVAL".to_vec(), script, b"0".to_vec()],
        };
        match random.u8(..4) {
            0 => {
                // The limit may be exceeded before the transaction is executed, or not.
                case.admin("CONFIG SET maxmemory 0", Alike::Same);
                case.client(words("MULTI"), Alike::Same);
                case.client(request, Alike::Same);
                if random.bool() {
                    case.admin("CONFIG SET maxmemory 1", Alike::Same);
                }
                case.client(words("EXEC"), Alike::Same);
                case.admin("CONFIG SET maxmemory 1", Alike::Same);
            }
            1 => {
                case.client(words("MULTI"), Alike::Same);
                case.client(request, Alike::Same);
                case.client(words("EXEC"), Alike::Same);
            }
            _ => case.client(request, Alike::Same),
        }
    }
    case.admin("CONFIG SET maxmemory 0", Alike::Same);
}

/// A script that does not end by itself.
fn endless(case: &mut Case, random: &mut Rng) {
    let writes = random.bool();
    let before = if writes { "redis.call('GET', 'a')" } else { "local x = 1" };
    let catching = random.bool();
    let body = match catching {
        true => format!("{before} while true do pcall(function() while true do end end) end"),
        false => format!("{before} while true do end"),
    };
    case.admin("CONFIG SET busy-reply-threshold 5", Alike::Same);
    let is_function = random.bool();
    if is_function {
        let library =
            format!("#!lua name=endless\nredis.register_function('run', function() {body} end)");
        case.add(ADMIN, Act::Call(with("FUNCTION LOAD", &[library.as_bytes()])), Alike::Same);
        case.add(CLIENT, Act::Send(words("FCALL run 0")), Alike::Same);
    } else {
        case.add(CLIENT, Act::Send(with("EVAL", &[body.as_bytes(), b"0"])), Alike::Same);
    }
    case.add(ADMIN, Act::AwaitBusy, Alike::Same);
    case.admin("PING", Alike::Same);
    let kills = ["SCRIPT KILL", "FUNCTION KILL"];
    case.admin(kills[usize::from(!is_function)], Alike::Same);
    case.admin("GET a", Alike::Same);
    case.admin(kills[usize::from(is_function)], Alike::Same);
    case.add(CLIENT, Act::Receive, Alike::Same);
    case.admin("SCRIPT KILL", Alike::Same);
    case.admin("FUNCTION KILL", Alike::Same);
}
