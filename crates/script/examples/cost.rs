//! Runs a cached script many times with a host that does nearly nothing, to measure the cost of the
//! interpreter itself: `valgrind --tool=callgrind cost set 10000`. The cost of one run is the
//! difference between two counts of runs.

#![forbid(unsafe_code)]

use script::{Continue, Host, Interpreter, Invocation, LogLevel};

const SET: &str = "return redis.call('set', KEYS[1], ARGV[1])";
const GET: &str = "return redis.call('get', KEYS[1])";
const LOOP: &str = "for i = 1, 1000 do redis.call('set', KEYS[1], ARGV[1]) end";
const LOOP_GET: &str = "for i = 1, 1000 do redis.call('get', KEYS[1]) end";
const NOTHING: &str = "return 1";

struct Nothing;

impl Host for Nothing {
    fn call(&mut self, arguments: &[&[u8]], _resp3: bool, reply: &mut Vec<u8>) -> bool {
        let bytes: &[u8] = if arguments.len() == 2 { b"$10\r\n0123456789\r\n" } else { b"+OK\r\n" };
        reply.extend_from_slice(bytes);
        false
    }

    fn log(&mut self, _level: LogLevel, _message: &[u8]) {}

    fn acl_check(&mut self, _arguments: &[&[u8]]) -> Option<bool> {
        None
    }

    fn set_replication(&mut self, _flags: u8) {}

    fn poll(&mut self) -> Continue {
        Continue::Yes
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let source = match arguments.next().as_deref() {
        Some("set") => SET,
        Some("get") => GET,
        Some("loop") => LOOP,
        Some("loop-get") => LOOP_GET,
        Some("nothing") => NOTHING,
        other => panic!("set, get, loop, loop-get or nothing, not {other:?}"),
    };
    let runs: u64 = arguments.next().map_or(100_000, |runs| runs.parse().expect("a number"));
    let mut interpreter = Interpreter::new(512 << 20).expect("an interpreter");
    let sha = interpreter.load(source.as_bytes()).expect("a script").sha().to_owned();
    let invocation = Invocation { keys: &[b"key:000001"], arguments: &[b"0123456789"] };
    for _ in 0..runs {
        let script = interpreter.cached(&sha).expect("a cached script");
        let outcome = interpreter.run(&script, invocation, &mut Nothing);
        assert!(!outcome.has_failed, "{:?}", outcome.reply);
    }
}
