//! Requests that write: generated from the documented arguments of every command of the table, and
//! from the rows of `writes`, about whatever keys there are.
//!
//! Most are dense (`dense`): every option, on few keys with few elements. The grammar of `generate`
//! knows odd values; the rows have a purpose and few options. Words of both are then changed alike:
//! a near expiry time, a negative count, a key that is the target too.

use crate::generate;
use crate::writes::{self, BLOCKED, WAIT, WRITES, Write};
use commands::spec::{BLOCKING, CommandSpec, Group, WRITE};
use commands::{Engine, Run};
use fastrand::Rng;

use super::dense;
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
pub(super) type Writes = (Option<&'static CommandSpec>, &'static CommandSpec);

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

    /// The commands of a group that write, in random order.
    pub(super) fn shuffled(&self, group: Group, random: &mut Rng) -> Vec<Writes> {
        let of_group = self.writes.iter().filter(|(_, spec)| spec.group == group);
        let mut all: Vec<Writes> = of_group.copied().collect();
        random.shuffle(&mut all);
        all
    }

    /// Any command that writes.
    pub(super) fn any_of_all(&self, random: &mut Rng) -> Writes {
        self.writes[random.usize(..self.writes.len())]
    }

    /// Any request about data, usually one of the group. `next` is the command that most requests
    /// are for.
    pub(super) fn any(
        &self,
        focus: Group,
        now: u64,
        next: impl FnOnce(&mut Rng) -> Writes,
        random: &mut Rng,
    ) -> Words {
        if random.u8(..16) < 11 {
            let words = dense::request(next(random), focus, now, random);
            return if is_left_out(&words, random) { vec![b"DBSIZE".to_vec()] } else { words };
        }
        loop {
            let mut words = match random.u8(..20) {
                0 => generate::request(self.reads[random.usize(..self.reads.len())], random),
                1 => vec![b"SELECT".to_vec(), random.u8(..3).to_string().into_bytes()],
                2..12 => self.row(focus, random),
                _ => self.grammatical(focus, random),
            };
            if is_left_out(&words, random) {
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
        if random.bool() {
            return self.waiting_densely(random);
        }
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

    /// A request with any options that waits for any of its keys, of which one will be filled.
    fn waiting_densely(&self, random: &mut Rng) -> Wait {
        let blocking: Vec<Writes> =
            self.writes.iter().filter(|(_, spec)| spec.has(BLOCKING)).copied().collect();
        let (container, spec) = blocking[random.usize(..blocking.len())];
        let mut request = dense::request((container, spec), spec.group, NOW, random);
        let keys: Vec<&str> = dense::keys_of(spec.group, &request);
        let mut before: Vec<Words> = keys.iter().map(|key| dense::words("DEL k", key)).collect();
        if spec.group == Group::Stream {
            request.splice(4..4, [b"BLOCK".to_vec(), b"9000".to_vec()]);
            let made = "XGROUP CREATE k g $ MKSTREAM";
            before.extend(keys.iter().map(|key| dense::words(made, key)));
        }
        let fills = match spec.group {
            Group::List => ["RPUSH k a b c", "LPUSH k a b", "RPUSH k a"],
            Group::SortedSet => ["ZADD k 1 a 2 b 3 c", "ZADD k 1 b 1 a", "ZADD k 1 a"],
            _ => ["XADD k 9-1 f v", "XADD k 9-2 f v", "XADD k * f v"],
        };
        let key = keys.get(random.usize(..keys.len().max(1))).unwrap_or(&"a");
        Wait { before, request, fill: dense::words(fills[random.usize(..3)], key) }
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

/// Returns true for most requests that would leave little data.
fn is_left_out(words: &Words, random: &mut Rng) -> bool {
    let name = words[0].to_ascii_lowercase();
    RARE.iter().any(|rare| rare.as_bytes() == name) && random.u8(..) > 24
}

fn key(group: Group, random: &mut Rng) -> &'static [u8] {
    let keys = generate::keys(group, random);
    keys[random.usize(..keys.len())].as_bytes()
}

/// Requests that make a value of about as many elements as one of the code's constants, and that
/// take about as many of them.
pub(super) fn large(random: &mut Rng) -> Vec<Words> {
    use commands::chunks::{COLLECTED_ELEMENTS, GATHERED, REWRITTEN_ELEMENTS, STORED_PARTS};
    let constants = [REWRITTEN_ELEMENTS, STORED_PARTS, GATHERED, GATHERED, COLLECTED_ELEMENTS];
    let constant = constants[random.usize(..constants.len())];
    let mut about = |most: usize| {
        let count = [constant - 1, constant, constant + 1, 2 * constant, 3 * constant + 1];
        count[random.usize(..most)]
    };
    let (all, some) = (about(5), about(4));
    let elements = |count: usize, of: &str| -> String {
        (0..count).map(|n| of.replace('#', &n.to_string())).collect()
    };
    let name = [" d", ""][random.usize(..2)];
    let (key, make, take) = match random.u8(..7) {
        0 | 1 => ("t1", "SADD k # ", format!("SPOP k {some}")),
        2 => ("t1", "SADD k # ", format!("SREM k{}", elements(some, " #"))),
        3 => ("h1", "HSET k # #", format!("HDEL k{}", elements(some, " #"))),
        4 => ("l1", "RPUSH k #", format!("LPOP k {some}")),
        5 => ("z1", "ZADD k # #", format!("ZPOPMAX k {some}")),
        _ => ("t1", "SADD k #", format!("SUNIONSTORE t2 k{name}")),
    };
    let (head, element) = make.trim_end().split_once(" k").expect("a key");
    let make = format!("{head} k{}", elements(all, element));
    ["DEL k", &make, &take].map(|line| dense::words(line, key)).into()
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
