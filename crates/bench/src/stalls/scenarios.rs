//! The scenarios: long commands by name, what they need, and how often they are sent.
//!
//! The keys of commands that need one shard are all in one hash slot, so that they occupy one shard
//! of Perdura, whatever the number of shards; with two or more, a key of the next slot is in
//! another shard. Sizes follow from the number of members: 300,000 gives a JSON document of 17 MB,
//! a transaction of 20,000 commands and a value of 64 MiB.

use crate::server::command;
use redis::{Cmd, cmd};

/// A key in the shard of the long commands.
pub(super) const THERE: &str = "{06S}probe";

/// A key in another shard.
pub(super) const ELSEWHERE: &str = "{Qi}probe";

/// Elements per command while data is loaded.
const TOGETHER: u64 = 100;

/// Makes the commands of one repetition, from the number of members and the number of the
/// repetition.
type Make = fn(u64, u64) -> Vec<Cmd>;

/// The disturbance while the probes send their requests.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    Nothing,
    /// A thread of this program that computes.
    Compute,
    /// Commands that end by themselves.
    Ask(Make),
    /// Commands that SCRIPT KILL ends.
    Kill(Make),
}

/// The commands that load data: their count for a number of members, and a function of that number
/// and the command's own number that makes each.
pub(super) type Data = (fn(u64) -> u64, fn(u64, u64) -> Cmd);

/// A disturbance, and the data that it needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) data: &'static [Data],
    pub(super) act: Act,
    /// The maximum number of repetitions.
    pub(super) times: u64,
    /// The number of probes of the disturbed shard; 0 for as many as in the other groups.
    pub(super) readers: u32,
}

impl Scenario {
    const fn new(name: &'static str, about: &'static str, act: Act) -> Scenario {
        let (data, times) = (&[] as &[Data], u64::MAX);
        Scenario { name, about, data, act, times, readers: 0 }
    }

    const fn asks(
        name: &'static str,
        about: &'static str,
        data: &'static [Data],
        make: Make,
    ) -> Scenario {
        Scenario { data, ..Scenario::new(name, about, Act::Ask(make)) }
    }

    const fn times(self, times: u64) -> Scenario {
        Scenario { times, ..self }
    }

    const fn readers(self, readers: u32) -> Scenario {
        Scenario { readers, ..self }
    }
}

fn member(number: u64) -> String {
    format!("member:{number:012}")
}

/// Returns a command that adds the next elements to a value.
fn add(to: &str, number: u64, element: impl Fn(u64) -> String) -> Cmd {
    let numbers = number * TOGETHER..(number + 1) * TOGETHER;
    let elements: Vec<String> = numbers.map(element).collect();
    command(&format!("{to} {}", elements.join(" ")))
}

/// Returns a command for each line, with words separated by spaces.
fn lines(text: &str) -> Vec<Cmd> {
    text.lines().map(command).collect()
}

/// Returns EVAL of a script with a key in the disturbed shard.
fn eval(script: &str, argument: u64) -> Vec<Cmd> {
    let mut made = cmd("EVAL");
    made.arg(script).arg(1).arg("{06S}a").arg(argument);
    vec![made]
}

const CHUNKS: fn(u64) -> u64 = |members| members.div_ceil(TOGETHER);

const SET: Data = (CHUNKS, |_, n| add("SADD {06S}a", n, member));

/// A set of which half the members are in the other set.
const SET_2: Data = (CHUNKS, |_, n| add("SADD {06S}b", n, |n| member(2 * n)));

const FOUR_SETS: Data = (
    |members| 4 * CHUNKS(members),
    |members, n| {
        let number = n / CHUNKS(members);
        add(&format!("SADD {{06S}}set:{number}"), n % CHUNKS(members), member)
    },
);

/// A list in no order.
const LIST: Data = (CHUNKS, |_, n| add("RPUSH {06S}list", n, |n| member(n * 7919 % 1_000_003)));

const HASH: Data = (CHUNKS, |_, n| add("HSET {06S}hash", n, |n| format!("{} {n}", member(n))));

const SORTED_SET: Data =
    (CHUNKS, |_, n| add("ZADD {06S}zset", n, |n| format!("{n} {}", member(n))));

const KEYS: Data = (|members| members, |_, n| command(&format!("SET key:{n:012} value")));

const JSON: Data = (
    |_| 1,
    |members, _| command(&format!("SET {{06S}}a [{}0]", "1234567,".repeat(7 * members as usize))),
);

const LARGE: Data = (|_| 1, |members, _| large(members));

fn large(members: u64) -> Cmd {
    let mut set = cmd("SET");
    set.arg("{06S}a").arg(vec![b'v'; 224 * members as usize]);
    set
}

/// Returns a script that takes long to compile, a different one each time.
fn conditions(members: u64, repetition: u64) -> Vec<Cmd> {
    let mut script = format!("local x = {repetition} if x == -1 then return 1\n");
    for number in 0..members / 30 {
        script += &format!("elseif x == -{number} then return 2\n");
    }
    eval(&(script + "end"), 0)
}

fn transaction(members: u64) -> Vec<Cmd> {
    let sets = (0..members / 15).map(|n| format!("SET {{06S}}key:{n} value\n"));
    lines(&format!("MULTI\n{}EXEC", sets.collect::<String>()))
}

/// All scenarios, in the order in which they run.
pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new("nothing", "what the machine does by itself", Act::Nothing),
    Scenario::new(
        "compute",
        "a thread of the generator computes: what sharing cores costs",
        Act::Compute,
    ),
    Scenario::asks("sunionstore", "SUNIONSTORE of two sets", &[SET, SET_2], |_, _| {
        lines("SUNIONSTORE {06S}c {06S}a {06S}b")
    }),
    Scenario::asks(
        "sunionstore+readers",
        "the same, 64 clients read its shard",
        &[SET, SET_2],
        |_, _| lines("SUNIONSTORE {06S}c {06S}a {06S}b"),
    )
    .readers(64),
    Scenario::asks(
        "zunionstore",
        "ZUNIONSTORE of a sorted set and a set",
        &[SORTED_SET, SET],
        |_, _| lines("ZUNIONSTORE {06S}c 2 {06S}zset {06S}a"),
    ),
    Scenario::asks("sort", "SORT ALPHA of a list", &[LIST], |_, _| lines("SORT {06S}list ALPHA")),
    Scenario::asks("sort-nosort", "SORT BY nosort of a list", &[LIST], |_, _| {
        lines("SORT {06S}list BY nosort")
    }),
    Scenario::asks("smembers", "SMEMBERS of a set", &[SET], |_, _| lines("SMEMBERS {06S}a")),
    Scenario::asks("hgetall", "HGETALL of a hash", &[HASH], |_, _| lines("HGETALL {06S}hash")),
    Scenario::asks("lrange", "LRANGE of a whole list", &[LIST], |_, _| {
        lines("LRANGE {06S}list 0 -1")
    }),
    Scenario::asks("srandmember", "SRANDMEMBER of ten times the members", &[SET], |members, _| {
        lines(&format!("SRANDMEMBER {{06S}}a -{}", 10 * members))
    }),
    Scenario::asks("dump", "DUMP of a set", &[SET], |_, _| lines("DUMP {06S}a")),
    Scenario::asks("copy", "COPY REPLACE of a set", &[SET], |_, _| {
        lines("COPY {06S}a {06S}c REPLACE")
    }),
    Scenario::asks("del", "DEL of a set, of four in a row", &[FOUR_SETS], |_, n| {
        lines(&format!("DEL {{06S}}set:{n}"))
    })
    .times(4),
    Scenario::asks("exec", "MULTI, a fifteenth of the members in SET, EXEC", &[], |members, _| {
        transaction(members)
    }),
    Scenario::asks(
        "script",
        "a script that counts to a hundred times the members",
        &[],
        |members, _| eval("for i = 1, ARGV[1] do end", members * 100),
    ),
    Scenario::new(
        "script-kill",
        "MULTI, SELECT 0, an endless script, EXEC; SCRIPT KILL after a second: the time from then on",
        Act::Kill(|_, _| {
            let mut commands = lines("MULTI\nSELECT 0");
            commands.extend(eval("while true do end", 0));
            commands.extend(lines("EXEC"));
            commands
        }),
    ),
    Scenario::asks(
        "compile",
        "a script with a thirtieth of the members in elseif",
        &[],
        conditions,
    ),
    Scenario::asks("decode", "cjson.decode of 56 bytes a member", &[JSON], |_, _| {
        eval("return #cjson.decode(redis.call('GET', KEYS[1]))", 0)
    }),
    Scenario::asks("rep", "string.rep to 200 bytes a member, in a script", &[], |members, _| {
        eval("return #string.rep('abcdefgh', ARGV[1])", members * 25)
    }),
    Scenario::asks("set-large", "SET of 224 bytes a member", &[], |members, _| {
        vec![large(members)]
    }),
    Scenario::asks("get-large", "GET of the same", &[LARGE], |_, _| lines("GET {06S}a")),
    Scenario::asks("keys", "KEYS of all keys", &[KEYS], |_, _| lines("KEYS *")),
    Scenario::asks("save", "SAVE", &[KEYS], |_, _| lines("SAVE")),
    Scenario::asks("bgsave", "BGSAVE, once", &[KEYS], |_, _| lines("BGSAVE")).times(1),
    Scenario::asks("flushall", "FLUSHALL SYNC, once", &[KEYS], |_, _| lines("FLUSHALL SYNC"))
        .times(1),
    Scenario::asks("flushall-async", "FLUSHALL ASYNC, once", &[KEYS], |_, _| {
        lines("FLUSHALL ASYNC")
    })
    .times(1),
];

/// Returns the scenarios with these names, or all if there are none.
pub(super) fn chosen(names: &[String]) -> Result<Vec<&'static Scenario>, String> {
    let one = |name: &String| {
        SCENARIOS.iter().find(|scenario| scenario.name == name.trim()).ok_or_else(|| {
            let all: Vec<_> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
            format!("no scenario {name}; there are: {}", all.join(", "))
        })
    };
    if names.is_empty() { Ok(SCENARIOS.iter().collect()) } else { names.iter().map(one).collect() }
}

/// Returns the list of scenarios for --help.
pub(super) fn help() -> String {
    let line = |scenario: &Scenario| format!("\n  {:<20} {}", scenario.name, scenario.about);
    let all: String = SCENARIOS.iter().map(line).collect();
    format!("Scenarios, with sizes that follow from --members:{all}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the hash slot of a key that begins with a hash tag.
    fn slot(key: &str) -> u16 {
        let tag = key[1..].split('}').next().expect("a tag");
        let bit = |sum: u16, _| if sum & 0x8000 == 0 { sum << 1 } else { sum << 1 ^ 0x1021 };
        let byte = |sum: u16, byte: u8| (0..8).fold(sum ^ u16::from(byte) << 8, bit);
        tag.bytes().fold(0, byte) % 16384
    }

    /// Consecutive slots belong to different shards.
    #[test]
    fn the_other_key_is_in_the_next_slot() {
        assert_eq!(slot("{123456789}"), 12739);
        assert_eq!((slot(THERE), slot(ELSEWHERE)), (0, 1));
    }

    #[test]
    fn scenarios_are_well_formed() {
        let mut names: Vec<_> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SCENARIOS.len());
        let of_all_shards = ["keys", "save", "bgsave", "flushall", "flushall-async"];
        for scenario in SCENARIOS {
            let (Act::Ask(make) | Act::Kill(make)) = scenario.act else { continue };
            let data = scenario.data.iter().map(|(count, make)| make(300, count(300) - 1));
            let commands = make(300, scenario.times.min(4) - 1);
            assert!(!commands.is_empty(), "{}", scenario.name);
            for command in commands.into_iter().chain(data) {
                let text = command.get_packed_command();
                let text = String::from_utf8_lossy(&text);
                // The probed shard must be the disturbed one.
                let has_no_key =
                    ["EXEC\r\n", "MULTI", "SELECT"].iter().any(|word| text.contains(word));
                let is_there = has_no_key || text.contains("{06S}");
                assert!(is_there || of_all_shards.contains(&scenario.name), "{text}");
            }
        }
        assert!(
            chosen(&["sort".into(), "no".into()])
                .expect_err("unknown")
                .contains("no scenario no; ")
        );
    }
}
