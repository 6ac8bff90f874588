//! The states of keys that a request may find, each as the requests that create it.

use super::Of::{self, Any, Hash, List, Places, Set, Sketch, Sortable, SortedSet, Stream, Text};

/// The requests that create a value of each kind: with one element, with a few, and with more than
/// fit the listpack encodings.
fn values(of: Of) -> &'static [&'static [&'static str]] {
    match of {
        Text => &[&["SET @ 5"], &["SET @ hello"], &["SET @ ~v*40000"]],
        Sketch => &[&["PFADD @ a"], &["PFADD @ a b c"], &["PFADD @ ~e*3000"]],
        Hash => &[
            &["HSET @ a 1"],
            &["HSET @ a 1 b 2 c 3"],
            &["HSET @ a 1 b 2 c 3", "HSET @ ~e*200"],
            &["HSETEX @ EX 70 FIELDS 2 a 1 b 2"],
            &["HSET @ a 1 b 2 c 3", "HSET @ ~e*200", "HEXPIRE @ 70 FIELDS 2 a b"],
        ],
        Set => &[&["SADD @ a"], &["SADD @ a b c"], &["SADD @ a b c", "SADD @ ~e*200"]],
        List => &[
            &["RPUSH @ a"],
            &["RPUSH @ a b c b"],
            &["RPUSH @ a ~v*3000 ~v*3000 ~v*3000 ~v*3000 b", "RPUSH @ ~e*200"],
        ],
        SortedSet => {
            &[&["ZADD @ 1 a"], &["ZADD @ 1 a 2 b 3 c"], &["ZADD @ 1 a 2 b 3 c", "ZADD @ ~e*200"]]
        }
        Places => &[&["GEOADD @ 13.36 38.11 a"], &["GEOADD @ 13.36 38.11 a 15.08 37.5 b"]],
        Stream => &[
            &["XADD @ 5-1 f v", "XGROUP CREATE @ g 0"],
            &[
                "XADD @ 5-1 f v",
                "XADD @ 5-2 f v",
                "XADD @ 5-3 f v",
                "XADD @ 5-4 f v",
                "XGROUP CREATE @ g 5-1",
                "XREADGROUP GROUP g alice COUNT 1 STREAMS @ >",
            ],
            // Pending entries that no longer exist.
            &[
                "XADD @ 5-1 f v",
                "XADD @ 5-2 f v",
                "XADD @ 5-3 f v",
                "XGROUP CREATE @ g 0",
                "XREADGROUP GROUP g alice COUNT 2 STREAMS @ >",
                "XDEL @ 5-2",
            ],
            // Two nodes in Redis, more here.
            &["XADD @ 5-1 f v", "XADD @ 5-2 f v", "XGROUP CREATE @ g 0", "~x"],
            // An empty stream.
            &["XADD @ 5-3 f v", "XDEL @ 5-3"],
        ],
        Any => &[
            &["SET @ hello"],
            &["SET @ ~v*40000"],
            &["HSET @ a 1 b 2"],
            &["SADD @ a b c"],
            &["RPUSH @ a b c b"],
            &["ZADD @ ~e*200"],
            &[
                "XADD @ 5-1 f v",
                "XADD @ 5-2 f v",
                "XGROUP CREATE @ g 0",
                "XREADGROUP GROUP g alice COUNT 1 STREAMS @ >",
                "XDEL @ 5-1",
            ],
        ],
        Sortable => &[&["RPUSH @ b a c"], &["SADD @ 3 1"], &["ZADD @ 1 c 2 b"]],
    }
}

/// The state of a key before a request.
pub(crate) type State = Vec<String>;
/// In a state: lets the keys' time pass.
pub(crate) const WAIT: &str = "(wait)";

fn made(of: Of, which: usize, more: &[&str]) -> State {
    values(of)[which].iter().chain(more).map(|&line| line.to_owned()).collect()
}

/// The states of the key that a command works on.
pub(crate) fn states(of: Of) -> Vec<State> {
    let all = values(of).len();
    let another = if of == Set { List } else { Set };
    let mut states = vec![State::new()];
    states.extend((0..all).map(|which| made(of, which, &[])));
    states.push(made(of, 1, &["PEXPIRE @ 100000"]));
    states.push(made(of, 1, &["PEXPIRE @ 1", WAIT]));
    if !matches!(of, Any | Sortable) {
        states.push(made(another, 1, &[]));
    }
    states
}

/// The states of a destination, or of another source.
pub(crate) fn other_states(of: Of) -> Vec<State> {
    let another = if of == Set { List } else { Set };
    vec![
        State::new(),
        made(of, 1, &[]),
        made(of, 0, &["PEXPIRE @ 100000"]),
        made(of, 1, &["PEXPIRE @ 1", WAIT]),
        made(another, 0, &["PEXPIRE @ 100000"]),
    ]
}

/// The words of a line, with abbreviations of many words expanded.
pub(crate) fn words(line: &str) -> Vec<Vec<u8>> {
    let mut words: Vec<Vec<u8>> = Vec::new();
    let name = line.split(' ').next().unwrap_or_default().to_owned();
    for word in line.split(' ') {
        let short = word.strip_prefix('~').and_then(|word| word.split_once('*'));
        let Some((what, count)) = short else {
            words.push(if word == "\"\"" { Vec::new() } else { word.into() });
            continue;
        };
        let count: usize = count.parse().expect("a number");
        if what != "e" {
            words.push(what.repeat(count).into_bytes());
            continue;
        }
        for n in 0..count {
            let element = format!("e{n}");
            let pair: &[String] = match name.as_str() {
                "HSET" => &[element, n.to_string()],
                // After the few that exist already.
                "ZADD" => &[(n + 4).to_string(), element],
                _ => &[element],
            };
            words.extend(pair.iter().map(|word| word.clone().into_bytes()));
        }
    }
    words
}
