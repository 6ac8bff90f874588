//! The comparison of two replies.

use crate::both::USERS;
use crate::rules_text::Peer;
use crate::steps::Alike;
use testkit::Reply;

/// A case takes less than this many seconds: an entry of ACL LOG is younger, in the unit of the
/// field.
const YOUNG: f64 = 10.0;
/// Fields of ACL LOG that must differ between two servers.
const OWN: [&str; 2] = ["age-seconds", "client-info"];
/// Fields of a client's line in ACL LOG that both servers show alike.
const OF_CLIENT: [&str; 6] = ["name", "db", "sub", "psub", "cmd", "user"];

/// Compares two replies; `is_denied` is the result of redis-server's last DRYRUN.
pub(crate) fn alike(
    (how, is_denied): (Alike, bool),
    peer: &Peer,
    ours: &Reply,
    theirs: &Reply,
) -> bool {
    if let Some(text) = overflow(ours)
        && Some(text) == overflow(theirs)
    {
        return true;
    }
    match how {
        Alike::Any => true,
        Alike::Same => ours == theirs,
        Alike::Unordered => unordered(ours) == unordered(theirs),
        Alike::Refusal => refusals(ours) == refusals(theirs),
        Alike::Served if is_denied => refusal(ours).is_some(),
        Alike::Served => ours == theirs,
        Alike::Conflict => conflict(ours) == conflict(theirs),
        Alike::Length => ours.text().len() == theirs.text().len(),
        Alike::Log => log(ours) == log(theirs),
        Alike::Logged => {
            let ours = log(ours);
            let is_of_client = |entry: &Vec<(String, String)>| {
                entry.iter().any(|(name, value)| name == "user" && value == "u")
            };
            ours.get(usize::from(is_denied)..) == Some(&log(theirs))
                && ours.iter().take(usize::from(is_denied)).all(is_of_client)
        }
        Alike::Rules => rules(peer, ours) == rules(peer, theirs),
        Alike::Known => peer.of_list(ours) == peer.of_list(theirs),
        Alike::InFile => in_file(ours) == in_file(theirs),
        Alike::Counters => counters(ours) == counters(theirs),
    }
}

/// Returns a reply that tells of Lua's full stack without the lines of the program that were
/// reached: they depend on the size of the frames of pcall.
fn overflow(reply: &Reply) -> Option<String> {
    let text = reply.to_string();
    let is_digit = |c: char| c.is_ascii_digit();
    text.contains("stack overflow").then(|| text.split(is_digit).collect())
}

/// Returns the reason of a refusal, if the reply is one.
fn refusal(reply: &Reply) -> Option<String> {
    let Reply::Error(text) = reply else { return None };
    let is_refusal = ["NOPERM", "NOAUTH", "WRONGPASS", "EXECABORT", "the connection"]
        .iter()
        .any(|code| text.starts_with(code));
    (is_refusal || text.contains("ACL")).then(|| text.clone())
}

/// Returns the refusals in a reply, or in each of the replies of an EXEC.
fn refusals(reply: &Reply) -> Vec<Option<String>> {
    match reply {
        Reply::Array(items) => {
            let all: Vec<_> = items.iter().map(refusal).collect();
            if all.iter().any(Option::is_some) { all } else { vec![None] }
        }
        other => vec![refusal(other)],
    }
}

/// Returns the reply as text, with its elements in a canonical order.
pub(crate) fn unordered(reply: &Reply) -> String {
    let sorted = |mut items: Vec<String>| {
        items.sort();
        items.join(", ")
    };
    match reply {
        Reply::Array(items) => format!("[{}]", sorted(items.iter().map(unordered).collect())),
        Reply::Set(items) => format!("~[{}]", sorted(items.iter().map(unordered).collect())),
        Reply::Map(pairs) => {
            let pair = |(key, value): &(Reply, Reply)| {
                format!("{} => {}", unordered(key), unordered(value))
            };
            format!("{{{}}}", sorted(pairs.iter().map(pair).collect()))
        }
        Reply::Double(text) => match text.parse::<f64>() {
            Ok(number) => format!("(double) {number:?}"),
            Err(_) => reply.to_string(),
        },
        other => other.to_string(),
    }
}

/// The reply without the names of libraries and functions that exist.
fn conflict(reply: &Reply) -> String {
    let text = unordered(reply);
    let mut words: Vec<&str> = text.split(' ').collect();
    for at in 1..words.len().saturating_sub(1) {
        if matches!(words[at - 1], "Function" | "Library") && words[at + 1] == "already" {
            words[at] = "of this name";
        }
    }
    words.join(" ")
}

fn log(reply: &Reply) -> Vec<Vec<(String, String)>> {
    let entry = |entry: &Reply| {
        let Reply::Map(fields) = entry else { return vec![(String::new(), entry.to_string())] };
        let text = |(name, value): &(Reply, Reply)| (name.text(), value.to_string());
        let mut all: Vec<_> =
            fields.iter().map(text).filter(|(name, _)| !OWN.contains(&name.as_str())).collect();
        let client = fields.iter().find(|(name, _)| name.text() == "client-info");
        let line = client.map(|(_, value)| value.text()).unwrap_or_default();
        let of_client = line.split_whitespace().filter_map(|field| field.split_once('='));
        let age = fields.iter().find(|(name, _)| name.text() == "age-seconds");
        let is_young =
            age.is_some_and(|(_, age)| age.text().parse().is_ok_and(|age: f64| age < YOUNG));
        all.push(("is young".to_owned(), is_young.to_string()));
        all.extend(
            of_client
                .filter(|(name, _)| OF_CLIENT.contains(name))
                .map(|(name, value)| (name.to_owned(), value.to_owned())),
        );
        all
    };
    reply.items().iter().map(entry).collect()
}

/// Compares GETUSER and LIST, in which the choice of words for commands is undefined.
fn rules(peer: &Peer, reply: &Reply) -> String {
    match reply {
        Reply::Array(items) => {
            items.iter().map(|item| rules(peer, item)).collect::<Vec<_>>().join("\n")
        }
        Reply::Map(pairs) => {
            let pair =
                |(name, value): &(Reply, Reply)| format!("{}: {}", name.text(), rules(peer, value));
            pairs.iter().map(pair).collect::<Vec<_>>().join("\n")
        }
        Reply::Bulk(text) => peer.meaning(&String::from_utf8_lossy(text)),
        other => unordered(other),
    }
}

/// The words of a reply without the folder of the ACL file.
fn in_file(reply: &Reply) -> Vec<String> {
    let text = reply.to_string();
    let word = |word: &str| word.find(USERS).map_or(word, |at| &word[at..]).to_owned();
    text.split(' ').map(word).collect()
}

/// The lines of INFO, without times.
fn counters(reply: &Reply) -> Vec<String> {
    let text = reply.text();
    let line = |line: &str| {
        let fields = line.trim().split(',').filter(|field| !field.starts_with("usec"));
        fields.map(|field| field.replace(":usec=", ":")).collect::<Vec<_>>().join(",")
    };
    let mut lines: Vec<String> = text.lines().map(line).collect();
    lines.sort();
    lines
}
