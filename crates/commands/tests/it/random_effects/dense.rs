//! Requests about few keys with few elements, so that the options of a command find what they
//! matter for: an expiry time that is kept, a member that is in both sets, an entry that was
//! deleted while it was pending.
//!
//! The documented arguments of a command are its grammar, as in `generate`; each option is given
//! half of the time, and the numbers that announce keys, fields or IDs are right.

use commands::spec::{Arg, ArgKind, CommandSpec, Group};
use fastrand::Rng;

use super::requests::Words;

/// Two keys of each type, in different shards, and one of any type.
const KEYS: &[(Group, [&str; 2])] = &[
    (Group::String, ["a", "b"]),
    (Group::Bitmap, ["a", "b"]),
    (Group::Hyperloglog, ["c", "e"]),
    (Group::Hash, ["h1", "h2"]),
    (Group::Set, ["t1", "t2"]),
    (Group::List, ["l1", "l2"]),
    (Group::SortedSet, ["z1", "z2"]),
    (Group::Geo, ["g1", "g2"]),
    (Group::Stream, ["x1", "x2"]),
];
const MEMBERS: &[&str] = &["a", "b", "c", "d", "1", "2"];
const VALUES: &[&str] = &["1", "10.5", "hello", "", "-3", "v"];
const SCORES: &[&str] = &["1", "2", "3", "1", "2.5", "-1", "inf", "0"];
const IDS: &[&str] = &["5-1", "5-2", "5-3", "5-4", "5-5", "5-6", "5-2", "5-3", "0", "6-1"];
const NEW_IDS: &[&str] = &["5-*", "5-*", "5-*", "5-*", "5-*", "5-*", "5-4", "5-7", "6-*", "*"];
const COUNTS: &[&str] = &["1", "2", "3", "5", "1", "2", "100"];
const INDEXES: &[&str] = &["0", "1", "2", "-1", "-2", "3"];
const OFFSETS: &[&str] = &["0", "1", "2", "3"];
const RANKS: &[&str] = &["0", "1", "2", "-1", "-2"];
const SCORE_BOUNDS: &[&str] = &["-inf", "+inf", "1", "2", "(1", "(2", "3"];
const NAME_BOUNDS: &[&str] = &["-", "+", "[a", "[b", "(b", "(c", "[d"];

/// Makes requests of the grammar.
pub(super) struct Dense<'a> {
    group: Group,
    /// The time, unix ms.
    now: u64,
    random: &'a mut Rng,
    /// How often the next repeated argument is to be given.
    number: Option<usize>,
    /// How many keys were given last.
    keys: usize,
    /// The bounds of the request's range.
    bounds: &'static [&'static str],
}

/// A request for a command, about keys of the group if the command takes any.
pub(super) fn request(
    (container, spec): (Option<&CommandSpec>, &CommandSpec),
    focus: Group,
    now: u64,
    random: &mut Rng,
) -> Words {
    let group = match spec.group {
        Group::Generic => focus,
        group => group,
    };
    let bounds = match spec.name {
        "zremrangebyrank" => RANKS,
        "zremrangebyscore" => SCORE_BOUNDS,
        "zremrangebylex" => NAME_BOUNDS,
        _ => [RANKS, SCORE_BOUNDS, NAME_BOUNDS][random.usize(..3)],
    };
    let mut words: Words = container.iter().map(|spec| spec.name.into()).collect();
    words.push(spec.name.into());
    let mut dense = Dense { group, now, random, number: None, keys: 0, bounds };
    match spec.name {
        "bitfield" => dense.fields_of_bits(&mut words),
        _ => spec.args.iter().for_each(|arg| dense.add(&mut words, arg)),
    }
    // The bounds of ZRANGESTORE are of the kind that its option says.
    if spec.name == "zrangestore" {
        words.retain(|word| word != b"BYSCORE" && word != b"BYLEX");
        let by: &[&[u8]] = match bounds {
            SCORE_BOUNDS => &[b"BYSCORE"],
            NAME_BOUNDS => &[b"BYLEX"],
            _ => &[],
        };
        words.splice(5..5, by.iter().map(|word| word.to_vec()));
    }
    words
}

/// A key that usually has the group's type.
pub(super) fn key(group: Group, random: &mut Rng) -> &'static str {
    let own = KEYS.iter().find(|(of, _)| *of == group).filter(|_| random.u8(..16) > 0);
    let (_, names) = own.unwrap_or_else(|| &KEYS[random.usize(..KEYS.len())]);
    names[random.usize(..2)]
}

/// The group's keys among the words.
pub(super) fn keys_of(group: Group, words: &Words) -> Vec<&'static str> {
    let names = KEYS.iter().filter(|(of, _)| *of == group).flat_map(|(_, names)| names);
    names.copied().filter(|name| words.iter().any(|word| word == name.as_bytes())).collect()
}

/// Requests that make a key's value anew, with a few elements and often with expiry times.
pub(super) fn made(group: Group, now: u64, random: &mut Rng) -> Vec<Words> {
    let key = key(group, random);
    let lines: &[&str] = match group {
        Group::String => &["SET k hello", "SET k 5", "SET k 10.5"],
        Group::Bitmap => &["SETBIT k 7 1", "SETBIT k 100 1", "SET k hello"],
        Group::Hyperloglog => &["PFADD k a b c", "PFADD k 1"],
        Group::Hash => &["HSET k a 1 b 2 c 3", "HSET k a 1", "HSET k a 1 b 10.5 c 3 d v 1 x"],
        Group::Set => &["SADD k a b c", "SADD k a", "SADD k 1 2", "SADD k a b c d 1 2"],
        Group::List => &["RPUSH k a b c b", "RPUSH k a", "RPUSH k 1 2 a b c d"],
        Group::SortedSet => &["ZADD k 1 a 2 b 3 c", "ZADD k 1 a", "ZADD k 1 a 1 b 1 c 1 d"],
        Group::Geo => &["GEOADD k 13.36 38.11 a 15.08 37.5 b", "GEOADD k 13.36 38.11 a"],
        Group::Stream => return stream(key, random),
        _ => return made(KEYS[random.usize(..KEYS.len())].0, now, random),
    };
    let mut made = vec![words("DEL k", key), words(lines[random.usize(..lines.len())], key)];
    if group == Group::Hash && random.bool() {
        let at = now + random.u64(..200_000);
        made.push(words(&format!("HPEXPIREAT k {at} FIELDS 2 a b"), key));
    }
    if random.bool() {
        let at = now + [2, 60, 2000, 200_000][random.usize(..4)];
        made.push(words(&format!("PEXPIREAT k {at}"), key));
    }
    made
}

/// Requests that make a stream with groups, some of whose entries are pending and some gone.
fn stream(key: &str, random: &mut Rng) -> Vec<Words> {
    let mut made = vec![words("DEL k", key)];
    for n in 1..=random.usize(1..8) {
        made.push(words(&format!("XADD k 5-{n} f v"), key));
    }
    made.push(words("XGROUP CREATE k g 0", key));
    if random.bool() {
        made.push(words("XGROUP CREATE k h 5-1", key));
        made.push(words("XREADGROUP GROUP h bob COUNT 3 STREAMS k >", key));
    }
    made.push(words("XREADGROUP GROUP g alice COUNT 4 STREAMS k >", key));
    for _ in 0..random.usize(..3) {
        made.push(words(&format!("XDEL k 5-{}", random.u8(1..5)), key));
    }
    made
}

/// The words of a line in which `k` is this key.
pub(super) fn words(line: &str, key: &str) -> Words {
    line.split(' ').map(|word| if word == "k" { key.into() } else { word.into() }).collect()
}

impl Dense<'_> {
    fn any(&mut self, of: &[&'static str]) -> Vec<u8> {
        of[self.random.usize(..of.len())].into()
    }

    /// Adds what an argument stands for.
    fn add(&mut self, words: &mut Words, arg: &Arg) {
        if arg.is_optional && self.random.bool() || arg.token == "BLOCK" {
            return;
        }
        let is_announced = arg.is_multiple && arg.token.is_empty();
        let given = if is_announced { self.number.take() } else { None };
        let times = match (arg.name, given) {
            (_, Some(number)) => number,
            // As many as there are keys.
            ("weight" | "id", _) if arg.is_multiple && self.keys > 0 => self.keys,
            _ if arg.is_multiple => self.random.usize(1..4),
            _ => 1,
        };
        if arg.is_multiple && matches!(arg.kind, ArgKind::Key(_)) {
            self.keys = times;
        }
        for n in 0..times {
            if !arg.token.is_empty() && (n == 0 || arg.is_multiple_token) {
                words.push(arg.token.into());
            }
            match arg.kind {
                ArgKind::PureToken => {}
                ArgKind::OneOf(_) if arg.name == "id_or_auto" => words.push(self.any(NEW_IDS)),
                ArgKind::OneOf(of) => {
                    let mut chosen = of[self.random.usize(..of.len())];
                    chosen.is_optional = false;
                    self.add(words, &chosen);
                }
                ArgKind::Block(of) => of.iter().for_each(|inner| self.add(words, inner)),
                _ => {
                    let value = self.value(arg);
                    words.push(value);
                }
            }
        }
    }

    fn value(&mut self, arg: &Arg) -> Vec<u8> {
        let of: &[&'static str] = match (arg.kind, arg.name) {
            (ArgKind::Key(_), _) => return key(self.group, self.random).into(),
            (_, "numkeys" | "numfields" | "numids") => {
                let number = self.random.usize(1..4);
                self.number = Some(number);
                return number.to_string().into();
            }
            (ArgKind::UnixTime, name) => return self.time(name),
            (_, "seconds") => &["1", "100", "0", "100", "-1", "5000"],
            (_, "milliseconds" | "ttl") => &["1", "50", "1500", "100000", "0", "90000"],
            (_, "ms" | "min-idle-time") => &["0", "0", "0", "1", "50", "1000"],
            (_, "timeout") => &["9"],
            (_, "serialized-value") => {
                return [b"^", key(self.group, self.random).as_bytes()].concat();
            }
            (_, "min" | "max") => self.bounds,
            (_, "start" | "stop") if self.group == Group::Stream => IDS,
            (_, "start" | "stop") => RANKS,
            (_, "member" | "field" | "element" | "pivot") => MEMBERS,
            (_, "score" | "weight") => SCORES,
            (_, "increment") => &["1", "2", "0", "-1"],
            (_, "longitude") => &["13.36", "15.08", "14"],
            (_, "latitude") => &["38.11", "37.5", "38"],
            (_, "radius" | "width" | "height") => &["500", "1", "100000"],
            (_, "group" | "groupname") => &["g", "g", "h"],
            (_, "consumer" | "consumername") => &["alice", "bob", "carol"],
            (_, "id") if self.keys > 0 => &[">", ">", ">", "0", "5-1"],
            (_, "id" | "last-id" | "max_deleted_entry_id") => IDS,
            (_, "threshold") => &["1", "2", "0", "3", "5-2", "5-4", "6-1"],
            (_, "entries_read" | "entries_added") => &["0", "3", "9", "-1"],
            (_, "count") if self.group == Group::List => &["1", "2", "0", "3", "-1", "-2"],
            (_, "count") => COUNTS,
            (_, "index" | "index1" | "index2" | "destination-db" | "db") => {
                &["0", "1", "0", "1", "-1"]
            }
            (_, "offset") => OFFSETS,
            (_, "value") if self.group == Group::Bitmap => &["0", "1"],
            (_, "operation") => {
                &["AND", "OR", "XOR", "NOT", "DIFF", "DIFF1", "ANDOR", "ONE", "DIFF"]
            }
            (_, "subcommand") => &["TODENSE"],
            (ArgKind::Integer, _) => INDEXES,
            (ArgKind::Pattern | ArgKind::KeyPattern(_), _) => &["nosort", "#", "w_*"],
            _ => VALUES,
        };
        self.any(of)
    }

    /// A point in time: the present moment, and some before and after it.
    fn time(&mut self, name: &str) -> Vec<u8> {
        if name.contains("milli") {
            let after = [-1, 0, 0, 1, 50, 1234, 100_000][self.random.usize(..7)];
            return self.now.saturating_add_signed(after).to_string().into();
        }
        let after = [-1, 0, 1, 2, 100, 5000][self.random.usize(..6)];
        (self.now / 1000).saturating_add_signed(after).to_string().into()
    }

    fn fields_of_bits(&mut self, words: &mut Words) {
        words.push(key(self.group, self.random).into());
        for _ in 0..self.random.usize(1..4) {
            let operations =
                ["GET u8 0", "SET u8 8 7", "INCRBY u4 4 9", "OVERFLOW FAIL", "SET i5 #2 1"];
            let operation = operations[self.random.usize(..operations.len())];
            words.extend(operation.split(' ').map(Into::into));
        }
    }
}
