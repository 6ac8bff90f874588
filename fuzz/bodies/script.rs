//! Whatever text a script or a library of functions has, it ends with a reply when the host kills
//! it, it does not panic, and the interpreter serves the next script as before.
//!
//! The first byte of the input says what the rest is: a script, a library, or a script of Lua's
//! string functions with the rest as subject and pattern.

use script::{Continue, Host, Interpreter, Invocation, LogLevel, Reply};

/// Bytes that the interpreter may use.
const MEMORY: usize = 16 << 20;

/// Runs string functions with a subject and a pattern of any bytes.
const PATTERNS: &str = "
    local s, p = ARGV[1], ARGV[2]
    pcall(string.find, s, p) pcall(string.match, s, p) pcall(string.gsub, s, p, p)
    pcall(string.gsub, s, p, function(a) return a end)
    pcall(string.gsub, s, p, { a = 'b' })
    pcall(function() for _ in string.gmatch(s, p) do end end)
    pcall(struct.pack, p, s, 1, 2) pcall(struct.unpack, p, s) pcall(struct.size, p)
    pcall(cjson.decode, s) pcall(cmsgpack.unpack, s) pcall(loadstring, s)
    pcall(string.format, p, s, 1, 2) pcall(redis.call, s, p)
    return s";

/// A host that knows no command, and kills after some polls.
struct Impatient {
    polls_left: u32,
}

impl Host for Impatient {
    fn call(&mut self, arguments: &[&[u8]], resp3: bool, reply: &mut Vec<u8>) -> bool {
        // The arguments as a reply: most are none that is complete.
        reply.extend_from_slice(&arguments.concat());
        resp3
    }

    fn log(&mut self, _level: LogLevel, _message: &[u8]) {}

    fn acl_check(&mut self, arguments: &[&[u8]]) -> Option<bool> {
        Some(arguments.len() > 1)
    }

    fn set_replication(&mut self, _flags: u8) {}

    fn poll(&mut self) -> Continue {
        self.polls_left = self.polls_left.saturating_sub(1);
        if self.polls_left == 0 { Continue::Kill } else { Continue::Yes }
    }
}

/// The body of the target.
pub(crate) fn check(data: &[u8]) {
    let Some((&kind, text)) = data.split_first() else { return };
    let mut interpreter = Interpreter::new(MEMORY).expect("an interpreter");
    let mut host = Impatient { polls_left: 5 };
    match kind % 4 {
        0 => {
            let source = [b"#!lua name=fuzz\n", text].concat();
            run_library(&mut interpreter, &source, &mut host);
        }
        1 => run_library(&mut interpreter, text, &mut host),
        2 => {
            let (subject, pattern) = text.split_at(text.len() / 2);
            run(&mut interpreter, PATTERNS.as_bytes(), &[subject, pattern], &mut host);
        }
        _ => run(&mut interpreter, text, &[b"a", b"1.5"], &mut host),
    }
    let script = interpreter.load(b"return string.gsub('ab', 'a', '1')").expect("a script");
    let mut patient = Impatient { polls_left: u32::MAX };
    let after = interpreter.run(&script, Invocation::default(), &mut patient);
    assert_eq!(after.reply, Reply::bulk("1b"), "after the script");
}

fn run(interpreter: &mut Interpreter, text: &[u8], arguments: &[&[u8]], host: &mut Impatient) {
    let Ok(script) = interpreter.load(text) else { return };
    let outcome = interpreter.run(&script, Invocation { keys: &[b"k"], arguments }, host);
    assert!(!outcome.was_killed || outcome.has_failed, "a kill was caught");
}

fn run_library(interpreter: &mut Interpreter, source: &[u8], host: &mut Impatient) {
    let Ok(library) = interpreter.load_library(source, host) else { return };
    let names: Vec<String> = library.functions().map(|function| function.name.clone()).collect();
    for name in names {
        host.polls_left = 5;
        let invocation = Invocation { keys: &[b"k"], arguments: &[b"a"] };
        let outcome = interpreter.call_function(&library, &name, invocation, host);
        assert!(outcome.is_some(), "a registered function is found");
    }
}
