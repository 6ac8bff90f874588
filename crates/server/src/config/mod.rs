//! The configuration: every directive's value, and the ways to change it.
//!
//! Each directive is a row of `table`, which binds its name, the field of [`Values`] that has its
//! value, the default, and what a change does. Values are guarded by one lock that no command's
//! path takes: what is needed often is copied into atomics when it changes (see `apply`). A change
//! is all or nothing: new values are parsed first, then handed to an `apply` function of the
//! caller, and only what it accepts stays.
//!
//! Nothing here knows sockets, stores or commands. Where another crate obeys a directive, the
//! default is taken from there.

#[macro_use]
mod cluster_table;
#[macro_use]
mod directives;

pub mod choice;
pub mod file;
pub mod kind;
pub mod page;
pub mod rewrite;
pub mod row;
pub mod special;
pub mod table;
pub mod value;

use std::path::PathBuf;
use std::sync::{LazyLock, Mutex, RwLock};

use commands::Primary;
use row::{Change, Effect, Row, Usage};
pub use table::Values;

/// A `user` or `rename-command` line: what it says is for whoever knows commands.
#[derive(Clone, Debug)]
pub struct CommandLine {
    /// The file that has it; none for the command line alone.
    pub file: Option<PathBuf>,
    /// Its number in the file, from 1.
    pub line: usize,
    /// All of it.
    pub text: String,
    /// What follows the directive's name.
    pub words: Vec<Vec<u8>>,
}

impl CommandLine {
    /// Returns the error that refuses the line.
    pub fn refused(&self, reason: String) -> file::ReadError {
        let (file, line, text) = (self.file.clone(), self.line, self.text.clone());
        file::ReadError::Command { file, line, text, reason }
    }
}

/// Returns the values of a configuration that says nothing.
fn defaults() -> &'static Values {
    static DEFAULTS: LazyLock<Values> = LazyLock::new(Values::default);
    &DEFAULTS
}

impl Values {
    /// Sets `name` from the words of a line; says what is wrong in Redis's words.
    pub fn set(&mut self, name: &[u8], words: &[&[u8]]) -> Result<(), String> {
        let row = Row::find(name).ok_or("Bad directive or wrong number of arguments")?;
        self.set_row(row, words)
    }

    fn set_row(&mut self, row: &Row, words: &[&[u8]]) -> Result<(), String> {
        let text = row.kind.parse(row.name, &row.text(self), words)?;
        let is_put = (row.field.put)(self, row.kind, &text);
        assert!(is_put, "{} can have every value of its kind", row.name);
        *(row.field.given)(&mut self.given) = true;
        Ok(())
    }

    /// Returns all directives with their values in canonical form.
    fn pairs(&self) -> impl Iterator<Item = (&'static Row, Vec<u8>)> {
        Row::all().map(|row| (row, row.text(self)))
    }
}

/// The configuration of a running server.
pub struct Config {
    values: RwLock<Values>,
    changing: Mutex<()>,
    file: Option<PathBuf>,
}

impl Config {
    /// Returns a configuration that starts with `values`, read from `file` if there is one.
    pub fn new(values: Values, file: Option<PathBuf>) -> Config {
        Config { values: RwLock::new(values), changing: Mutex::new(()), file }
    }

    /// The file it was read from.
    pub fn file(&self) -> Option<&PathBuf> {
        self.file.as_ref()
    }

    /// Returns a copy of all values.
    pub fn values(&self) -> Values {
        self.values.read().unwrap_or_else(|e| e.into_inner()).clone()
    }

    /// Returns the directives that match any of the patterns, with their values, each name once.
    pub fn matching(&self, patterns: &[&[u8]]) -> Vec<(String, Vec<u8>)> {
        let values = self.values.read().unwrap_or_else(|e| e.into_inner());
        let mut found: Vec<(String, Vec<u8>)> = Vec::new();
        for pattern in patterns {
            let pattern = pattern.to_ascii_lowercase();
            let is_glob = pattern.iter().any(|b| b"[*?".contains(b));
            for row in Row::all() {
                for name in std::iter::once(row.name).chain(row.alias) {
                    let matches = if is_glob {
                        !row.hidden && resp::glob::matches(&pattern, name.as_bytes())
                    } else {
                        pattern == name.as_bytes()
                    };
                    if matches && !found.iter().any(|(known, _)| known == name) {
                        found.push((name.to_owned(), row.text(&values)));
                    }
                }
            }
        }
        found
    }

    /// Sets `replicaof`, which CONFIG SET cannot change.
    pub fn set_primary(&self, primary: Option<&Primary>) {
        let _one_at_a_time = self.changing.lock().unwrap_or_else(|e| e.into_inner());
        let text = primary.map_or(String::new(), |Primary { host, port }| format!("{host} {port}"));
        let mut values = self.values.write().unwrap_or_else(|e| e.into_inner());
        values.replicaof = text.into_bytes().as_slice().into();
    }

    /// Returns `CONFIG SET`: all of the pairs or none. `protected` says whether protected
    /// directives may change; `apply` puts the change into effect, given the new values and the
    /// directives that change, and names the directive for which that is not possible.
    pub fn set(
        &self,
        pairs: &[(&[u8], &[u8])],
        protected: bool,
        apply: impl Fn(&Values, &[&'static Row]) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let _one_at_a_time = self.changing.lock().unwrap_or_else(|e| e.into_inner());
        let before = self.values();
        let rows = changeable(&before, pairs, protected)?;
        let mut after = before.clone();
        for (row, (name, value)) in rows.iter().zip(pairs) {
            let words: Vec<&[u8]> = if row.kind.takes_many_arguments() {
                value.split(|b| *b == b' ').collect()
            } else {
                vec![value]
            };
            // The name that was given, in the table's spelling.
            let alias = row.alias.filter(|alias| name.eq_ignore_ascii_case(alias.as_bytes()));
            let name = alias.unwrap_or(row.name).to_owned();
            let set = after.set_row(row, &words);
            set.map_err(|why| Refusal::Value { name, why })?;
        }
        if let Some((name, why)) = refused(&after).into_iter().next() {
            return Err(Refusal::Value { name: name.into(), why: why.into() });
        }
        let is_change = |row: &&Row| row.text(&before) != row.text(&after) || row.external;
        let mut changed: Vec<&'static Row> = rows.into_iter().filter(is_change).collect();
        if let Err(refusal) = apply(&after, &changed) {
            // The old values were in effect before, so they can be again. A password was not put
            // into effect yet: that comes last, and nothing refuses it. Nor can it go back, as ACL
            // SETUSER may have given the default user other passwords meanwhile.
            changed.retain(|row| row.effect != Effect::SetPassword);
            for row in changed {
                let _ = apply(&before, &[row]);
            }
            return Err(refusal);
        }
        *self.values.write().unwrap_or_else(|e| e.into_inner()) = after;
        Ok(())
    }
}

/// Why `CONFIG SET` changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such directive.
    Unknown(String),
    /// This directive cannot have this value, or not now.
    Value {
        /// The directive.
        name: String,
        /// Redis's words for it.
        why: String,
    },
}

fn changeable(
    values: &Values,
    pairs: &[(&[u8], &[u8])],
    protected: bool,
) -> Result<Vec<&'static Row>, Refusal> {
    let named = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    let mut rows: Vec<&'static Row> = Vec::new();
    for (at_pair, (name, value)) in pairs.iter().enumerate() {
        let is_again = pairs[..at_pair].iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
        let Some(row) = Row::find(name) else {
            return Err(Refusal::Unknown(named(name)));
        };
        let why = match row.change {
            Change::Fixed => "can't set immutable config",
            Change::Pinned if row.text(values) != *value => "can't set immutable config",
            Change::Protected if !protected => "can't set protected config",
            _ if is_again => "duplicate parameter",
            _ => {
                rows.push(row);
                continue;
            }
        };
        return Err(Refusal::Value { name: named(name), why: why.into() });
    }
    Ok(rows)
}

/// Returns the directives that were set away from their defaults and have no effect, with the
/// reason.
pub fn without_effect(values: &Values) -> Vec<(&'static str, &'static str)> {
    values
        .pairs()
        .filter(|(row, value)| *value != row.default())
        .filter_map(|(row, _)| match row.usage {
            Usage::Ignored(why) => Some((row.name, why.words())),
            Usage::Used => None,
        })
        .collect()
}

/// The highest port for clients of a node whose bus has the port that follows from it.
const LAST_PORT_OF_NODE: u16 = u16::MAX - 10_000;

/// Returns the directives that have a value which is refused next to those of others, with the
/// reason.
pub fn refused(values: &Values) -> Vec<(&'static str, &'static str)> {
    let has_no_bus =
        values.cluster_port == 0 && values.port.max(values.tls_port) > LAST_PORT_OF_NODE;
    let reasons = [
        (has_no_bus, "port", "it is too high for a node whose cluster-port is 0"),
        (
            !values.replicaof.is_empty(),
            "replicaof",
            "a node of a cluster is told by CLUSTER REPLICATE",
        ),
        (
            values.tls_cluster,
            "tls-cluster",
            "the nodes of a cluster do not speak TLS with each other yet",
        ),
    ];
    let refused =
        reasons.into_iter().filter(|(is_refused, ..)| values.cluster_enabled && *is_refused);
    refused.map(|(_, name, why)| (name, why)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(config: &Config, pairs: &[(&str, &str)]) -> Result<(), Refusal> {
        let pairs: Vec<(&[u8], &[u8])> =
            pairs.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes())).collect();
        config.set(&pairs, false, |_, _| Ok(()))
    }

    fn refused(name: &str, why: &str) -> Result<(), Refusal> {
        Err(Refusal::Value { name: name.into(), why: why.into() })
    }

    #[test]
    fn every_default_is_in_canonical_form() {
        for (row, default) in defaults().pairs().filter(|(_, default)| !default.is_empty()) {
            let words: Vec<&[u8]> = if row.kind.takes_many_arguments() {
                default.split(|byte| *byte == b' ').collect()
            } else {
                vec![&default]
            };
            let value = row.kind.parse(row.name, b"", &words);
            assert_eq!(value.as_ref(), Ok(&default), "{}", row.name);
        }
    }

    #[test]
    fn a_change_is_all_or_nothing() {
        let config = Config::new(Values::default(), None);
        let both = set(&config, &[("timeout", "5"), ("maxclients", "x")]);
        assert_eq!(both, refused("maxclients", "argument couldn't be parsed into an integer"));
        assert_eq!(config.values().timeout, 0);
        assert_eq!(set(&config, &[("timeout", "5"), ("MAXCLIENTS", "7")]), Ok(()));
        assert_eq!(config.values().maxclients, 7);
    }

    #[test]
    fn what_cannot_be_applied_is_taken_back() {
        let config = Config::new(Values::default(), None);
        let calls = std::cell::RefCell::new(Vec::new());
        let pairs: [(&[u8], &[u8]); 2] = [(b"port", b"1"), (b"requirepass", b"x")];
        let result = config.set(&pairs, false, |after, rows| {
            let names: Vec<&str> = rows.iter().map(|row| row.name).collect();
            calls.borrow_mut().push((after.port, names));
            Err(Refusal::Value { name: "port".into(), why: "no".into() })
        });
        assert_eq!(result, refused("port", "no"));
        let there = (1, vec!["port", "requirepass"]);
        assert_eq!(*calls.borrow(), [there, (6379, vec!["port"])]);
        assert_eq!(config.values().port, 6379);
        assert!(config.values().requirepass.is_empty());
    }

    #[test]
    fn refusals_are_worded_as_redis_words_them() {
        let config = Config::new(Values::default(), None);
        let check = |pairs: &[(&str, &str)], name: &str, why: &str| {
            assert_eq!(set(&config, pairs), refused(name, why));
        };
        check(&[("databases", "3")], "databases", "can't set immutable config");
        check(&[("dir", "/tmp")], "dir", "can't set protected config");
        check(&[("hz", "1"), ("HZ", "2")], "HZ", "duplicate parameter");
        let old = "hash-max-ziplist-entries";
        let range = "argument must be between 0 and 9223372036854775807 inclusive";
        check(&[("HASH-max-ziplist-entries", "-1")], old, range);
        let beyond = "argument couldn't be parsed into an integer";
        for value in ["9223372036854775808", "-9223372036854775809", "99999999999999999999"] {
            check(&[(old, value)], old, beyond);
        }
        assert_eq!(set(&config, &[("no", "1")]), Err(Refusal::Unknown("no".into())));
        // The first mistake is the one that is reported.
        check(&[("databases", "3"), ("no", "1")], "databases", "can't set immutable config");
        check(&[("hz", "1"), ("hz", "2"), ("no", "1")], "hz", "duplicate parameter");
        let unknown = set(&config, &[("no", "1"), ("databases", "3")]);
        assert_eq!(unknown, Err(Refusal::Unknown("no".into())));
    }

    #[test]
    fn unknown_events_are_refused() {
        let config = Config::new(Values::default(), None);
        let events = |value| set(&config, &[("notify-keyspace-events", value)]);
        assert_eq!((events(""), events("KEA")), (Ok(()), Ok(())));
        let wrong = "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.";
        assert_eq!(events("?"), refused("notify-keyspace-events", wrong));
    }

    #[test]
    fn of_two_names_of_a_directive_the_last_wins() {
        let config = Config::new(Values::default(), None);
        let (old, new) = ("hash-max-ziplist-entries", "hash-max-listpack-entries");
        assert_eq!(set(&config, &[(new, "1"), (old, "2")]), Ok(()));
        assert_eq!(config.values().hash_max_listpack_entries, 2);
        assert_eq!(set(&config, &[(old, "3"), (new, "4")]), Ok(()));
        assert_eq!(config.values().hash_max_listpack_entries, 4);
    }

    #[test]
    fn patterns_find_names_and_aliases_once() {
        let config = Config::new(Values::default(), None);
        let names = |patterns: &[&[u8]]| {
            let mut names: Vec<String> =
                config.matching(patterns).into_iter().map(|(name, _)| name).collect();
            names.sort();
            names
        };
        assert_eq!(names(&[b"hash-max-*-entries"]).len(), 2);
        assert_eq!(names(&[b"TIMEOUT", b"timeo*"]), ["timeout"]);
        assert_eq!(names(&[b"watchdog*"]), Vec::<String>::new());
        assert_eq!(names(&[b"watchdog-period"]), ["watchdog-period"]);
    }
}
