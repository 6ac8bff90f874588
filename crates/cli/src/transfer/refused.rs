//! Keys that the target server refuses, each by itself: they are named and counted, and at the end
//! a remedy is suggested.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::shown;

/// Maximum number of keys that are named: enough to tell a server that takes none of millions from
/// one that refuses some.
const NAMED: usize = 1000;

/// The error of a server without a database of that number.
pub(super) const NO_DATABASE: &str = "ERR DB index is out of range";

/// Errors that concern all keys, or almost all: the server, or the user, can take none.
const OF_ALL: [&str; 9] = [
    "OOM",
    "NOAUTH",
    "READONLY",
    "LOADING",
    "MISCONF",
    "MASTERDOWN",
    "CLUSTERDOWN",
    "NOREPLICAS",
    "BUSY ",
];

/// Returns true if a refusal concerns more than the one key.
pub(super) fn concerns_all(reply: &str) -> bool {
    OF_ALL.iter().any(|code| reply.starts_with(code))
        || reply.starts_with("NOPERM") && reply.contains("command")
        || reply.contains("unknown command")
}

/// A remedy for a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Help {
    /// The server does not know the encoding of the value.
    OlderServer,
    /// It has fewer databases.
    MoreDatabases,
    /// Its user lacks the permission for the key.
    Rights,
}

impl Help {
    fn of(reply: &str) -> Option<Help> {
        match () {
            () if reply.contains("DUMP payload version") || reply.contains("Bad data format") => {
                Some(Help::OlderServer)
            }
            () if reply.contains("DB index") => Some(Help::MoreDatabases),
            () if reply.starts_with("NOPERM") => Some(Help::Rights),
            () => None,
        }
    }

    fn text(self, from: &str) -> String {
        match self {
            Help::OlderServer => format!(
                "the server does not know the form of these values, which is that of another \
                 version: `perdura export {from} --format resp | redis-cli -h HOST -p PORT --pipe` \
                 makes the keys by commands (times of single fields need a server that has them)"
            ),
            Help::MoreDatabases => "the server has fewer databases: raise its directive \
                 `databases`, or name one database in both addresses (redis://HOST:PORT/0)"
                .to_owned(),
            Help::Rights => "the user may not write these keys: name another one in the address \
                 (redis://USER:PASSWORD@HOST:PORT), or widen its rights with ACL SETUSER"
                .to_owned(),
        }
    }
}

/// A key that was refused.
#[derive(Debug)]
struct RefusedKey {
    database: u64,
    /// Its name, escaped.
    key: String,
    reply: String,
}

/// All refused keys.
#[derive(Debug, Default)]
pub(super) struct RefusedKeys {
    count: u64,
    named: Vec<RefusedKey>,
    help: BTreeSet<Help>,
}

impl RefusedKeys {
    /// Counts a key, and names it on standard error.
    pub(super) fn add(&mut self, database: u64, key: &[u8], reply: &str) {
        self.count += 1;
        self.help.extend(Help::of(reply));
        if self.named.len() < NAMED {
            let refused = RefusedKey { database, key: shown(key), reply: reply.to_owned() };
            eprintln!("refused: database {database}, key \"{}\": {reply}", refused.key);
            self.named.push(refused);
        }
    }

    /// Returns how many keys were refused.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the named ones.
    pub(super) fn as_json(&self) -> Value {
        let row = |one: &RefusedKey| json!({ "database": one.database, "key": one.key, "error": one.reply });
        self.named.iter().map(row).collect()
    }

    /// Prints how many were refused, and the remedies, if there were any.
    pub(super) fn say_what_helps(&self, from: &str) {
        if self.count == 0 {
            return;
        }
        let more = self.count - self.named.len() as u64;
        let unnamed = if more > 0 { format!(", {more} of them not named") } else { String::new() };
        eprintln!("not complete: the server refused {} keys{unnamed}", self.count);
        for help in &self.help {
            eprintln!("{}", help.text(from));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Help, RefusedKeys, concerns_all};

    #[test]
    fn what_would_befall_every_key_differs_from_what_is_one_keys_own() {
        for (reply, of_all, help) in [
            ("ERR DUMP payload version or checksum are wrong", false, Some(Help::OlderServer)),
            ("ERR Bad data format", false, Some(Help::OlderServer)),
            ("NOPERM No permissions to access a key", false, Some(Help::Rights)),
            (
                "NOPERM User u has no permissions to run the 'restore' command",
                true,
                Some(Help::Rights),
            ),
            ("OOM command not allowed when used memory > 'maxmemory'.", true, None),
            ("READONLY You can't write against a read only replica.", true, None),
        ] {
            assert_eq!((concerns_all(reply), Help::of(reply)), (of_all, help), "{reply}");
        }
    }

    #[test]
    fn all_are_counted_and_the_first_are_named() {
        let mut refused = RefusedKeys::default();
        (0..1500)
            .for_each(|n| refused.add(0, format!("key:{n}").as_bytes(), "ERR Bad data format"));
        assert_eq!((refused.count(), refused.named.len(), refused.help.len()), (1500, 1000, 1));
        assert_eq!(refused.as_json()[999]["key"], "key:999");
    }
}
