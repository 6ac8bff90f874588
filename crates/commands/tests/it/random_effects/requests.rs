//! Requests that write: generated from the documented arguments of every command of the table, and
//! from the rows of `writes`, about whatever keys there are.
//!
//! The grammar knows every option and no purpose; the rows have a purpose and few options. Words of
//! both are then changed alike: a near expiry time, a negative count, a key that is the target too.

use crate::generate;
use crate::writes::{self, BLOCKED, WAIT, WRITES, Write};
use commands::spec::{CommandSpec, Group, WRITE};
use commands::{Engine, Run};
use fastrand::Rng;

use super::world::NOW;

pub(super) type Words = Vec<Vec<u8>>;

/// Commands that would leave little data if they were as frequent as the others.
const RARE: &[&str] = &["flushall", "flushdb", "swapdb", "select", "move"];
/// Expiry times, which are soon reached.
const TIMES: &[&str] = &["100", "70", "200", "50", "100000", "86400000", "9000"];
/// Words that may replace a number.
const ODD: &[&str] = &[
    "0",
    "-1",
    "1",
    "2",
    "-2",
    "1000000",
    "9223372036854775807",
    "-9223372036854775808",
    "4294967296",
    "1.5",
    "x",
    "",
];
/// Libraries: each registers a function that calls the commands in its arguments.
const LIBRARIES: &[&str] = &["one", "two", "three"];

/// A request that waits, the requests before it that make it wait, and the one that unblocks it.
pub(super) struct Wait {
    pub(super) before: Vec<Words>,
    pub(super) request: Words,
    pub(super) fill: Words,
}

/// A command that writes, with its container.
type Writes = (Option<&'static CommandSpec>, &'static CommandSpec);

/// Makes requests.
pub(super) struct Requests {
    writes: Vec<Writes>,
    reads: Vec<&'static CommandSpec>,
    /// The group of each row of `writes`.
    groups: Vec<Group>,
}

impl Requests {
    pub(super) fn new(engine: &Engine) -> Requests {
        let table = engine.table();
        let runs = table.all().iter().filter(|c| !matches!(c.spec.run, Run::Container));
        // MIGRATE needs another server, FUNCTION code.
        let writes = runs
            .filter(|c| c.spec.has(WRITE) && c.spec.name != "migrate")
            .filter(|c| c.parent.is_none_or(|parent| parent.name != "function"))
            .map(|c| (c.parent, c.spec));
        let of_data = |spec: &&CommandSpec| {
            let away = [
                Group::Server,
                Group::Connection,
                Group::Pubsub,
                Group::Scripting,
                Group::Transactions,
                Group::Cluster,
            ];
            !away.contains(&spec.group) && !spec.has(WRITE) && !spec.name.starts_with("wait")
        };
        let top = table.top().iter().map(|c| c.spec);
        let reads = top.filter(|spec| !matches!(spec.run, Run::Container)).filter(of_data);
        let group = |name| table.by_full_name(name).expect("a command").spec.group;
        Requests {
            writes: writes.collect(),
            reads: reads.collect(),
            groups: WRITES.iter().map(|write| group(write.name.as_bytes())).collect(),
        }
    }

    /// Any request about data, usually one of the group.
    pub(super) fn any(&self, focus: Group, random: &mut Rng) -> Words {
        loop {
            let mut words = match random.u8(..80) {
                79 => return large(random),
                n if n % 20 == 0 => {
                    generate::request(self.reads[random.usize(..self.reads.len())], random)
                }
                n if n % 20 == 1 => {
                    vec![b"SELECT".to_vec(), random.u8(..3).to_string().into_bytes()]
                }
                n if n % 20 < 12 => self.row(focus, random),
                _ => self.grammatical(focus, random),
            };
            let name = words[0].to_ascii_lowercase();
            let is_rare = RARE.iter().any(|rare| rare.as_bytes() == name);
            if is_rare && random.u8(..) > 24 {
                continue;
            }
            distort(&mut words, random);
            return words;
        }
    }

    fn grammatical(&self, focus: Group, random: &mut Rng) -> Words {
        let group = |(_, spec): &Writes| spec.group;
        let (container, spec) = *one_of(&self.writes, group, focus, random);
        let mut words = generate::latest_request(spec, random);
        words.splice(0..0, container.map(|container| container.name.as_bytes().to_vec()));
        words.iter_mut().for_each(|word| generate::lengthen(word, random));
        if spec.name.starts_with("restore") && words.len() > 3 && random.u8(..8) > 0 {
            words[3] = [b"^", key(Group::Generic, random)].concat();
        }
        words
    }

    /// A row, usually of the group.
    fn any_row(&self, focus: Group, random: &mut Rng) -> (&'static Write, Group) {
        let rows: Vec<(&Write, Group)> = WRITES.iter().zip(self.groups.iter().copied()).collect();
        *one_of(&rows, |(_, group)| *group, focus, random)
    }

    /// A request of a row, with other keys.
    fn row(&self, focus: Group, random: &mut Rng) -> Words {
        let (write, group) = self.any_row(focus, random);
        about(write.requests[random.usize(..write.requests.len())], group, random)
    }

    /// Requests that create or extend a value.
    pub(super) fn made(&self, focus: Group, random: &mut Rng) -> Vec<Words> {
        let (write, group) = self.any_row(focus, random);
        let (states, names) = (writes::states(write.of), names(group, random));
        let state = &states[random.usize(..states.len())];
        let lines = state.iter().filter(|line| *line != WAIT && *line != "~x");
        lines.map(|line| spelled(&line.replace('@', "k"), &names)).collect()
    }

    /// The entries of a stream of several nodes, grouped as they are sent.
    pub(super) fn long_stream(random: &mut Rng) -> Vec<Words> {
        let key = key(Group::Stream, random);
        let count = random.usize(90..260);
        let words = |n| ["XADD", "", &format!("6-{}", n + 1), "f", "v"].map(|word| word.into());
        let about = |mut words: [Vec<u8>; 5]| {
            words[1] = key.to_vec();
            words.into()
        };
        (0..count).map(words).map(about).collect()
    }

    /// A request that waits for a key.
    pub(super) fn waiting(&self, random: &mut Rng) -> Wait {
        let (name, _, made, request, fill) = BLOCKED[random.usize(..BLOCKED.len())];
        let row = WRITES.iter().position(|write| write.name == name).expect("a row");
        let names = names(self.groups[row], random);
        let mut before = Vec::new();
        if random.u8(..4) > 0 {
            before.push(spelled("UNLINK k", &names));
        }
        before.extend(made.map(|line| spelled(&line.replace('@', "k"), &names)));
        Wait { before, request: spelled(request, &names), fill: spelled(fill, &names) }
    }

    /// A request about function libraries; `dump` is the result of FUNCTION DUMP.
    pub(super) fn of_libraries(&self, dump: &[u8], random: &mut Rng) -> Words {
        let name = LIBRARIES[random.usize(..LIBRARIES.len())];
        let word = |text: &str| text.as_bytes().to_vec();
        let policy = ["APPEND", "REPLACE", "FLUSH", "x"][random.usize(..4)];
        match random.u8(..8) {
            0 => vec![word("FUNCTION"), word("DELETE"), word(name)],
            1 => vec![word("FUNCTION"), word("FLUSH")],
            2 => vec![word("FUNCTION"), word("RESTORE"), dump.to_vec()],
            3 => vec![word("FUNCTION"), word("RESTORE"), dump.to_vec(), word(policy)],
            4 => vec![word("FUNCTION"), word("LOAD"), library(name, random)],
            _ => vec![word("FUNCTION"), word("LOAD"), word("REPLACE"), library(name, random)],
        }
    }
}

/// The code of a library, whose function has its own name or another library's.
fn library(name: &str, random: &mut Rng) -> Vec<u8> {
    let function = match random.u8(..5) {
        0 => LIBRARIES[random.usize(..LIBRARIES.len())],
        _ => name,
    };
    let body = super::history::CALLS;
    let mut code = format!("#!lua name={name}\n-- {}\n", random.u8(..));
    code += &format!("redis.register_function('{function}', function(KEYS, ARGV) {body} end)");
    code.into_bytes()
}

/// Any of these, usually one of the group.
fn one_of<'a, T>(
    all: &'a [T],
    group: impl Fn(&T) -> Group,
    focus: Group,
    random: &mut Rng,
) -> &'a T {
    let of_group: Vec<&T> = all.iter().filter(|one| group(one) == focus).collect();
    match random.u8(..5) {
        0..3 if !of_group.is_empty() => of_group[random.usize(..of_group.len())],
        _ => &all[random.usize(..all.len())],
    }
}

fn key(group: Group, random: &mut Rng) -> &'static [u8] {
    let keys = generate::keys(group, random);
    keys[random.usize(..keys.len())].as_bytes()
}

/// A request that adds or takes about as many elements as one of the code's constants.
fn large(random: &mut Rng) -> Words {
    use commands::chunks::{COLLECTED_ELEMENTS, REWRITTEN_ELEMENTS, STORED_PARTS};
    let counts = [REWRITTEN_ELEMENTS, STORED_PARTS, COLLECTED_ELEMENTS];
    let count = counts[random.usize(..counts.len())];
    let count = [count - 1, count, count + 1, 2 * count + 1][random.usize(..4)];
    let (of, line) = match random.u8(..10) {
        0 => (Group::Set, format!("SADD k ~e*{count}")),
        1 => (Group::Hash, format!("HSET k ~e*{count}")),
        2 => (Group::List, format!("RPUSH k ~e*{count}")),
        3 => (Group::SortedSet, format!("ZADD k ~e*{count}")),
        4 => (Group::Set, format!("SREM k ~e*{count}")),
        5 => (Group::SortedSet, format!("ZPOPMIN k {count}")),
        6 => (Group::List, format!("LPOP k {count}")),
        7 => (Group::Hash, format!("HDEL k ~e*{}", count - 2)),
        _ => (Group::Set, format!("SPOP k {}", count.saturating_sub(random.usize(..3)))),
    };
    about(&line, of, random)
}

type Names = [Vec<u8>; 3];

fn names(group: Group, random: &mut Rng) -> Names {
    [(); 3].map(|()| key(group, random).to_vec())
}

/// The words of a line about any keys.
fn about(line: &str, group: Group, random: &mut Rng) -> Words {
    spelled(line, &names(group, random))
}

/// The words of a line in which `k`, `d` and `s` are these keys.
fn spelled(line: &str, names: &Names) -> Words {
    let mut words = writes::words(line);
    for word in &mut words {
        match &word[..] {
            b"k" => word.clone_from(&names[0]),
            b"d" => word.clone_from(&names[1]),
            b"s" => word.clone_from(&names[2]),
            b"^k" => *word = [b"^", &names[0][..]].concat(),
            b"^s" => *word = [b"^", &names[2][..]].concat(),
            _ => {}
        }
    }
    words
}

/// Changes words so that a request reaches other branches.
fn distort(words: &mut Words, random: &mut Rng) {
    for word in words.iter_mut().skip(1) {
        let is = |texts: &[&str]| texts.iter().any(|text| text.as_bytes() == &word[..]);
        if is(TIMES) && random.bool() {
            *word = random.u32(1..20_000).to_string().into_bytes();
        } else if is(&["9999999999999"]) && random.bool() {
            *word = (NOW + random.u64(..200_000)).to_string().into_bytes();
        } else if is(&["9999999999"]) && random.bool() {
            *word = (NOW / 1000 + random.u64(..200)).to_string().into_bytes();
        }
    }
    if words.len() < 2 || words.len() > 40 {
        return;
    }
    let at = random.usize(1..words.len());
    match random.u8(..40) {
        // Replaces a number.
        0..=3 if words[at].parses() => {
            words[at] = ODD[random.usize(..ODD.len())].as_bytes().to_vec();
        }
        // Repeats a word: the source is the target, an element is there twice.
        4..=6 => {
            let other = random.usize(1..words.len());
            words[at] = words[other].clone();
        }
        7 => drop(words.remove(at)),
        8 => {
            let other = random.usize(1..words.len());
            words.swap(at, other);
        }
        _ => {}
    }
}

/// Distinguishes numbers from other words.
trait Number {
    fn parses(&self) -> bool;
}

impl Number for Vec<u8> {
    fn parses(&self) -> bool {
        std::str::from_utf8(self).is_ok_and(|text| text.parse::<f64>().is_ok())
    }
}
