//! A host that knows a few commands, and a helper that runs a script.

use script::{Continue, Host, Interpreter, Invocation, LogLevel, Reply};
use std::collections::BTreeMap;

pub(crate) const MEMORY: usize = 64 << 20;

/// Records the actions of a script.
#[derive(Default)]
pub(crate) struct TestHost {
    pub(crate) log: Vec<(LogLevel, String)>,
    pub(crate) keys: BTreeMap<Vec<u8>, Vec<u8>>,
    /// How many polls pass before the script is killed.
    pub(crate) polls_left: Option<u64>,
    pub(crate) polls: u64,
    pub(crate) replication: Option<u8>,
}

impl TestHost {
    fn reply_to(&mut self, arguments: &[&[u8]]) -> Reply {
        let name = String::from_utf8_lossy(arguments[0]).to_ascii_lowercase();
        let error = |text: &str| Reply::Error { message: text.into(), is_counted: true };
        match (name.as_str(), &arguments[1..]) {
            ("ping", []) => Reply::status("PONG"),
            ("echo", [text]) => Reply::bulk(*text),
            ("set", [key, value]) => {
                self.keys.insert(key.to_vec(), value.to_vec());
                Reply::status("OK")
            }
            ("get", [key]) => self.keys.get(*key).map_or(Reply::Nil, |value| Reply::bulk(&**value)),
            ("fail", []) => error("WRONGTYPE Operation against a key"),
            ("types", []) => Reply::Array(vec![
                Reply::Map(vec![(Reply::bulk("k"), Reply::Integer(1))]),
                Reply::Set(vec![Reply::bulk("m")]),
                Reply::Double(0.5),
                Reply::Bool(true),
                Reply::BigNumber(b"123".to_vec()),
                Reply::Verbatim { format: b"txt".to_vec(), text: b"t".to_vec() },
                Reply::Nil,
            ]),
            ("ping" | "echo" | "set" | "get", _) => {
                error("ERR Wrong number of args calling Redis command from script")
            }
            _ => error("ERR Unknown Redis command called from script"),
        }
    }
}

impl Host for TestHost {
    fn call(&mut self, arguments: &[&[u8]], _resp3: bool, reply: &mut Vec<u8>) -> bool {
        let value = self.reply_to(arguments);
        value.append_to(reply);
        matches!(value, Reply::Error { is_counted: true, .. })
    }

    fn log(&mut self, level: LogLevel, message: &[u8]) {
        self.log.push((level, String::from_utf8_lossy(message).into_owned()));
    }

    fn acl_check(&mut self, arguments: &[&[u8]]) -> Option<bool> {
        match arguments[0] {
            b"get" => Some(true),
            b"set" => Some(false),
            _ => None,
        }
    }

    fn set_replication(&mut self, flags: u8) {
        self.replication = Some(flags);
    }

    fn poll(&mut self) -> Continue {
        self.polls += 1;
        match &mut self.polls_left {
            Some(0) => return Continue::Kill,
            Some(left) => *left -= 1,
            None => (),
        }
        Continue::Yes
    }
}

/// Runs a script with a fresh interpreter, and shows its reply.
pub(crate) fn eval(source: &str) -> String {
    let mut interpreter = Interpreter::new(MEMORY).expect("an interpreter");
    eval_in(&mut interpreter, source, &mut TestHost::default())
}

/// Runs a script, and shows its reply.
pub(crate) fn eval_in(interpreter: &mut Interpreter, source: &str, host: &mut TestHost) -> String {
    match interpreter.load(source.as_bytes()) {
        Err(error) => format!("-{error}"),
        Ok(script) => {
            let invocation = Invocation { keys: &[b"k"], arguments: &[b"a", b"b"] };
            show(&interpreter.run(&script, invocation, host).reply, script.sha())
        }
    }
}

/// Returns the reply on one line; `sha` is shown as SHA.
pub(crate) fn show(reply: &Reply, sha: &str) -> String {
    let all = |items: &[Reply]| items.iter().map(|item| show(item, sha)).collect::<Vec<_>>();
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(sha, "SHA");
    match reply {
        Reply::Nil => "nil".to_owned(),
        Reply::Status(text) => format!("+{}", lossy(text)),
        Reply::Error { message, .. } => format!("-{}", lossy(message)),
        Reply::Integer(number) => number.to_string(),
        Reply::Bulk(bytes) => format!("{:?}", lossy(bytes)),
        Reply::Array(items) => format!("[{}]", all(items).join(" ")),
        Reply::Set(items) => format!("~[{}]", all(items).join(" ")),
        Reply::Map(entries) => {
            let entries = entries.iter();
            let entries =
                entries.map(|(key, value)| format!("{}={}", show(key, sha), show(value, sha)));
            format!("%[{}]", entries.collect::<Vec<_>>().join(" "))
        }
        Reply::Double(number) => format!(",{number}"),
        Reply::Bool(flag) => format!("#{flag}"),
        Reply::BigNumber(digits) => format!("({}", lossy(digits)),
        Reply::Verbatim { format, text } => format!("={}:{}", lossy(format), lossy(text)),
    }
}
