//! What one client does to its keys, and what each step must make of them.
//!
//! A step is what a client sends and gets acknowledged as a whole: a command, or a transaction from MULTI to EXEC. The
//! model gives the reply that Redis gives, so that wrong replies are noticed before any crash. Expiry times lie so far
//! ahead that none is reached: they are compared as part of the state.

use fastrand::Rng;
use std::collections::BTreeMap;

/// Keys of one client, each with its value and the time at which it expires, in milliseconds.
pub(crate) type State = BTreeMap<String, (Vec<u8>, Option<i64>)>;

/// A command as it is sent.
pub(crate) type Words = Vec<Vec<u8>>;

/// The time from which expiry times count: the year 2100.
const FAR_AHEAD: i64 = 4_102_444_800_000;

/// Keys per client: few enough that they are rewritten often.
const KEYS: usize = 40;

/// One thing that a client does.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Set(String, Vec<u8>),
    Incr(String),
    Append(String, Vec<u8>),
    SetRange(String, usize, Vec<u8>),
    Del(Vec<String>),
    GetDel(String),
    ExpireAt(String, i64),
    Persist(String),
    Rename(String, String),
    MSet(Vec<(String, Vec<u8>)>),
    Exec(Vec<Step>),
}

/// Names of the keys that client `client` owns.
pub(crate) fn keys(client: usize) -> Vec<String> {
    let values = (0..KEYS).map(|n| format!("client{client}:key{n}"));
    values.chain([counter(client)]).collect()
}

fn counter(client: usize) -> String {
    format!("client{client}:counter")
}

fn key(client: usize, random: &mut Rng) -> String {
    format!("client{client}:key{}", random.usize(..KEYS))
}

fn value(random: &mut Rng) -> Vec<u8> {
    let length = match random.u8(..) {
        0..2 => random.usize(..200_000),
        2..20 => random.usize(..6_000),
        20..80 => random.usize(..600),
        _ => random.usize(..60),
    };
    let seed = random.u64(..).to_le_bytes();
    seed.into_iter().cycle().take(length).collect()
}

impl Step {
    /// A random step of client `client`.
    pub(crate) fn random(client: usize, random: &mut Rng) -> Step {
        match random.u8(..16) {
            0..4 => Step::Incr(counter(client)),
            4 => {
                let pairs = (0..random.usize(1..6)).map(|_| (key(client, random), value(random)));
                Step::MSet(pairs.collect())
            }
            5 => {
                let steps = (0..random.usize(1..6)).map(|_| Step::single(client, random));
                Step::Exec(steps.chain([Step::Incr(counter(client))]).collect())
            }
            6 => Step::Rename(key(client, random), key(client, random)),
            _ => Step::single(client, random),
        }
    }

    fn single(client: usize, random: &mut Rng) -> Step {
        let key = key(client, random);
        match random.u8(..12) {
            0 => Step::Append(key, value(random)),
            1 => Step::SetRange(key, random.usize(..300), value(random)),
            2 => Step::Del((0..random.usize(1..4)).map(|_| self::key(client, random)).collect()),
            3 => Step::GetDel(key),
            4 => Step::ExpireAt(key, FAR_AHEAD + i64::from(random.u32(..))),
            5 => Step::Persist(key),
            _ => Step::Set(key, value(random)),
        }
    }

    /// The commands to send.
    pub(crate) fn commands(&self) -> Vec<Words> {
        fn words<const N: usize>(words: [&[u8]; N]) -> Words {
            words.map(<[u8]>::to_vec).to_vec()
        }
        let one = match self {
            Step::Set(k, v) => words([b"SET", k.as_bytes(), v]),
            Step::Incr(k) => words([b"INCR", k.as_bytes()]),
            Step::Append(k, v) => words([b"APPEND", k.as_bytes(), v]),
            Step::SetRange(k, at, v) => {
                words([b"SETRANGE", k.as_bytes(), at.to_string().as_bytes(), v])
            }
            Step::GetDel(k) => words([b"GETDEL", k.as_bytes()]),
            Step::ExpireAt(k, at) => words([b"PEXPIREAT", k.as_bytes(), at.to_string().as_bytes()]),
            Step::Persist(k) => words([b"PERSIST", k.as_bytes()]),
            Step::Rename(from, to) => words([b"RENAME", from.as_bytes(), to.as_bytes()]),
            Step::Del(keys) => {
                [b"DEL".to_vec()].into_iter().chain(keys.iter().map(|k| k.clone().into())).collect()
            }
            Step::MSet(pairs) => {
                let pairs = pairs.iter().flat_map(|(k, v)| [k.clone().into_bytes(), v.clone()]);
                [b"MSET".to_vec()].into_iter().chain(pairs).collect()
            }
            Step::Exec(steps) => {
                let multi = [words([b"MULTI"])].into_iter();
                return multi
                    .chain(steps.iter().flat_map(Step::commands))
                    .chain([words([b"EXEC"])])
                    .collect();
            }
        };
        vec![one]
    }

    /// Changes the state as Redis would and gives Redis's replies to the step's commands, in redis-cli's notation.
    pub(crate) fn apply(&self, state: &mut State) -> Vec<String> {
        let integer = |n: usize| format!("(integer) {n}");
        let ok = || "OK".to_owned();
        let one = match self {
            Step::Set(k, v) => {
                state.insert(k.clone(), (v.clone(), None));
                ok()
            }
            Step::Incr(k) => {
                let (value, _) = state.entry(k.clone()).or_default();
                let n = String::from_utf8_lossy(value).parse().unwrap_or(0) + 1;
                *value = n.to_string().into_bytes();
                integer(n)
            }
            Step::Append(k, v) => {
                let (value, _) = state.entry(k.clone()).or_default();
                value.extend_from_slice(v);
                integer(value.len())
            }
            Step::SetRange(k, at, v) => integer(set_range(state, k, *at, v)),
            Step::Del(keys) => integer(keys.iter().filter(|k| state.remove(*k).is_some()).count()),
            Step::GetDel(k) => match state.remove(k) {
                Some((value, _)) => format!("\"{}\"", value.escape_ascii()),
                None => "(nil)".into(),
            },
            Step::ExpireAt(k, at) => {
                integer(state.get_mut(k).map(|(_, expires)| *expires = Some(*at)).iter().count())
            }
            Step::Persist(k) => {
                integer(state.get_mut(k).and_then(|(_, expires)| expires.take()).iter().count())
            }
            Step::Rename(from, to) => match state.remove(from) {
                Some(value) => {
                    state.insert(to.clone(), value);
                    ok()
                }
                None => "(error) ERR no such key".into(),
            },
            Step::MSet(pairs) => {
                state.extend(pairs.iter().map(|(k, v)| (k.clone(), (v.clone(), None))));
                ok()
            }
            Step::Exec(steps) => {
                let replies: Vec<String> =
                    steps.iter().flat_map(|step| step.apply(state)).collect();
                let queued = steps.iter().map(|_| "QUEUED".to_owned());
                return [ok()]
                    .into_iter()
                    .chain(queued)
                    .chain([format!("[{}]", replies.join(", "))])
                    .collect();
            }
        };
        vec![one]
    }
}

fn set_range(state: &mut State, key: &str, at: usize, bytes: &[u8]) -> usize {
    if bytes.is_empty() {
        return state.get(key).map_or(0, |(value, _)| value.len());
    }
    let (value, _) = state.entry(key.to_owned()).or_default();
    let end = at + bytes.len();
    if value.len() < end {
        value.resize(end, 0);
    }
    value[at..end].copy_from_slice(bytes);
    value.len()
}
