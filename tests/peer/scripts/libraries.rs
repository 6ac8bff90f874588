//! Libraries of functions: loaded, listed, called, dumped, restored by the other server, deleted.

use super::programs::body;
use super::values::of;
use crate::steps::{ADMIN, Act, Alike, CLIENT, Case, Words, with, words};
use fastrand::Rng;
use testkit::Reply;

const LIBRARIES: &[&str] = &["one", "two", "One", "three"];
const FUNCTIONS: &[&str] = &["f", "g", "h", "k"];
/// Names of functions in valid libraries. Those that differ only by case are not neighbours, since
/// redis-server crashes if both are in one library.
const NAMES: &[&str] = &["f", "g", "h", "k", "G"];
/// Names by which functions are called, in any case.
const CALLED: &[&str] = &["f", "g", "h", "k", "F", "K"];
/// First lines; `*` is the library's name.
const HEADS: &[&str] = &[
    "#!lua name=*",
    "#!lua name=*",
    "#!lua name=*",
    "#!lua name=*",
    "#!lua name=*",
    "#!LUA NAME=*",
    "#!lua",
    "#!lua name=* name=*",
    "#!lua name=* engine=x",
    "#!js name=*",
    "lua name=*",
    "#!lua name=a-b",
    "#!lua name=",
    "#!lua name=\"*\"",
    "#!lua flags=no-writes name=*",
    "#! name=*",
];
/// How a function is registered: `*` is its name, `%` its body.
const REGISTERED: &[&str] = &[
    "redis.register_function('*', %)",
    "redis.register_function('*', %)",
    "redis.register_function{function_name='*', callback=%}",
    "redis.register_function{function_name='*', callback=%, description='of *'}",
    "redis.register_function{function_name='*', callback=%, description=''}",
    "redis.register_function{function_name='*', callback=%, flags={'no-writes'}}",
    "redis.register_function{function_name='*', callback=%, flags={'no-writes', 'allow-oom', 'allow-stale', 'no-cluster', 'allow-cross-slot-keys'}}",
    "redis.register_function{function_name='*', callback=%, flags={'no-writes'}, description='reads'}",
    "redis.register_function{FUNCTION_NAME='*', Callback=%, Flags={'NO-WRITES'}}",
    "redis.register_function{function_name='*', callback=%, flags={}}",
];
/// Statements that are refused while a library is loaded, or that log something.
const REFUSED: &[&str] = &[
    "redis.register_function('*')",
    "redis.register_function('*', 1)",
    "redis.register_function('a b', %)",
    "redis.register_function('', %)",
    "redis.register_function(5, %)",
    "redis.register_function{function_name='*'}",
    "redis.register_function{callback=%}",
    "redis.register_function{function_name='*', callback=%, flags='x'}",
    "redis.register_function{function_name='*', callback=%, flags={'x'}}",
    "redis.register_function{function_name='*', callback=5}",
    "redis.register_function{function_name='*', callback=%, nothing=1}",
    "redis.register_function{function_name={}, callback=%}",
    "redis.register_function{function_name='*', callback=%, description={}}",
    "redis.register_function()",
    "redis.register_function('*', %, 1)",
    "redis.call('GET', 'a')",
    "redis.pcall('GET', 'a')",
    "error('while loading')",
    "x = 1",
    "local y = undefined",
    "redis.setresp(3)",
    "redis.log(3, 'loading')",
    "redis.register_function{[1]='*'}",
    "error({err = 'MY loading'})",
    "return 5",
    "syntax error",
    "redis.sha1hex('x')",
    "redis.acl_check_cmd('get', 'a')",
    "redis.register_function{function_name='*', callback=%, flags={'no-writes', 5}}",
    "error()",
    "redis.breakpoint()",
];
/// Short functions.
const FUNCTIONS_OF: &[&str] = &[
    "function(KEYS, ARGV) return {KEYS, ARGV} end",
    "function() return redis.call('SET', 'new', 'x') end",
    "function() return redis.call('GET', 'a') end",
    "function(...) return select('#', ...) end",
    "redis.call",
    "function(K, A) return redis.call(unpack(A)) end",
    "function() return KEYS end",
    "function() x = 1 end",
    "function() return redis.register_function('z', function() end) end",
    "tostring",
    "function() error('of a function') end",
    "function() redis.setresp(3) return redis.call('HGETALL', 'h1') end",
    "function(K) return K[1] or false end",
    "function() return redis.call('PUBLISH', 'c', 'm') end",
    "function() return redis.pcall('INCR', 'b') end",
    "function() return redis.call('INCR', 'b') end",
    "function() return {double = 3} end",
    "function() return nothing end",
];

fn code(random: &mut Rng) -> String {
    let mut text = of(HEADS, random).replace('*', of(LIBRARIES, random));
    text.push_str(if random.u8(..24) == 0 { "" } else { "\n" });
    for _ in 0..random.usize(..4) {
        let how = if random.u8(..8) == 0 { of(REFUSED, random) } else { of(REGISTERED, random) };
        let function = match random.u8(..6) {
            0 => format!("function(KEYS, ARGV)\n{}\nend", body("function", random)),
            _ => of(FUNCTIONS_OF, random).to_owned(),
        };
        text.push_str(&how.replace('*', of(FUNCTIONS, random)).replace('%', &function));
        text.push('\n');
    }
    text
}

/// Returns a library that is usually valid, with unique names of functions.
fn sound(random: &mut Rng) -> String {
    let library = of(LIBRARIES, random);
    let mut text = format!("#!lua name={library}\n");
    let first = random.usize(..NAMES.len());
    for at in 0..random.usize(1..3) {
        let name = NAMES[(first + at) % NAMES.len()];
        let function = of(FUNCTIONS_OF, random);
        text.push_str(&of(REGISTERED, random).replace('*', name).replace('%', function));
        text.push('\n');
    }
    text
}

/// Adds steps that load, change and call libraries.
pub(super) fn add(case: &mut Case, random: &mut Rng) {
    for _ in 0..random.usize(8..24) {
        match random.u8(..32) {
            // This dump is restored later.
            28..30 => case.add(ADMIN, Act::Keep(words("FUNCTION DUMP")), Alike::Same),
            30.. => case.add(ADMIN, Act::Give(restored(random)), Alike::Conflict),
            0..8 => load(case, random),
            8..14 => call(case, random),
            14..17 => list(case, random),
            17 => case.admin("FUNCTION STATS", Alike::Unordered),
            18..22 => case.add(
                ADMIN,
                Act::Exchange(words("FUNCTION DUMP"), restored(random)),
                Alike::Conflict,
            ),
            22 => case.admin(&format!("FUNCTION DELETE {}", of(LIBRARIES, random)), Alike::Same),
            23 => {
                let line = of(
                    &[
                        "FUNCTION FLUSH",
                        "FUNCTION FLUSH ASYNC",
                        "FUNCTION FLUSH SYNC",
                        "FUNCTION FLUSH x",
                    ],
                    random,
                );
                case.admin(line, Alike::Same);
            }
            24 => refused(case, random),
            25 => queued(case, random),
            _ => case.admin("FUNCTION LIST WITHCODE", Alike::Unordered),
        }
    }
    case.admin("FUNCTION LIST", Alike::Unordered);
    case.admin("FUNCTION STATS", Alike::Unordered);
}

fn load(case: &mut Case, random: &mut Rng) {
    let code = if random.u8(..3) == 0 { code(random) } else { sound(random) };
    let line = of(
        &[
            "FUNCTION LOAD",
            "FUNCTION LOAD REPLACE",
            "FUNCTION LOAD",
            "function load replace",
            "FUNCTION LOAD REPLACE replace",
        ],
        random,
    );
    case.client(with(line, &[code.as_bytes()]), Alike::Conflict);
}

fn call(case: &mut Case, random: &mut Rng) {
    let name = of(&["FCALL", "FCALL", "FCALL_RO"], random);
    let line = format!("{name} {}", of(CALLED, random));
    let arguments: &[&str] = match random.u8(..8) {
        0 => &["-1"],
        1 => &["x"],
        2 => &["2", "a"],
        3 => &["1", "a", "GET", "b"],
        4 => &["0", "SET", "new", "y"],
        5 => &["2", "a", "b", "INCR", "b"],
        6 => &["1", "a"],
        _ => &["0"],
    };
    let arguments: Vec<&[u8]> = arguments.iter().map(|word| word.as_bytes()).collect();
    case.client(with(&line, &arguments), Alike::Unordered);
}

fn list(case: &mut Case, random: &mut Rng) {
    let pattern = of(&["one", "ONE", "o*", "O*", "t??", "[OT]*", "*", "nothing", "", "T*"], random);
    let line = match random.u8(..8) {
        0 => "FUNCTION LIST WITHCODE WITHCODE".to_owned(),
        1 => "FUNCTION LIST LIBRARYNAME".to_owned(),
        2 => format!("FUNCTION LIST WITHCODE LIBRARYNAME {pattern}"),
        3 => format!("FUNCTION LIST libraryname {pattern} withcode"),
        _ => format!("FUNCTION LIST LIBRARYNAME {pattern}"),
    };
    case.client(words(&line), Alike::Unordered);
}

/// Restores the other server's dump.
fn restored(random: &mut Rng) -> fn(&Reply) -> Option<Words> {
    fn request(dump: &Reply, policy: &str) -> Option<Words> {
        let mut words = with("FUNCTION RESTORE", &[dump.bytes()?]);
        words.extend(policy.split(' ').filter(|word| !word.is_empty()).map(|word| word.into()));
        Some(words)
    }
    match random.u8(..5) {
        0 => |dump| request(dump, ""),
        1 => |dump| request(dump, "APPEND"),
        2 => |dump| request(dump, "flush"),
        3 => |dump| request(dump, "x"),
        _ => |dump| request(dump, "REPLACE"),
    }
}

/// Invalid payloads.
fn refused(case: &mut Case, random: &mut Rng) {
    let payloads: &[&[u8]] = &[b"", b"x", b"\xf5\x01a\x0a\x00\x01\x02\x03\x04\x05\x06\x07\x08"];
    let payload = payloads[random.usize(..payloads.len())];
    case.add(ADMIN, Act::Call(with("FUNCTION RESTORE", &[payload])), Alike::Same);
    case.admin("FUNCTION DELETE nothing", Alike::Same);
    case.admin("FUNCTION KILL", Alike::Same);
    case.admin("FUNCTION LOAD x y", Alike::Same);
}

/// Libraries change within a transaction.
fn queued(case: &mut Case, random: &mut Rng) {
    case.add(CLIENT, Act::Call(words("MULTI")), Alike::Same);
    load(case, random);
    call(case, random);
    case.client(words("FUNCTION STATS"), Alike::Same);
    load(case, random);
    call(case, random);
    case.client(words("EXEC"), Alike::Conflict);
}
