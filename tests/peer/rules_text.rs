//! The meaning of rules, in terms of redis-server's commands and categories.
//!
//! Perdura has commands that redis-server does not have, so it may describe the same rules by other
//! categories, and with commands that redis-server refuses.

use std::collections::{BTreeMap, BTreeSet};
use testkit::{Client, Reply};

/// The commands of redis-server.
pub(crate) struct Peer {
    /// Their full names.
    pub(crate) commands: Vec<String>,
    /// Those that Perdura has, too.
    shared: Vec<String>,
    /// Those of each category.
    categories: BTreeMap<String, Vec<String>>,
}

impl Peer {
    pub(crate) fn of(ours: &mut Client, client: &mut Client) -> Peer {
        let texts = |reply: Reply| reply.items().iter().map(Reply::text).collect::<Vec<_>>();
        let commands = texts(client.run("COMMAND LIST"));
        let own = texts(ours.run("COMMAND LIST"));
        let shared = own.into_iter().filter(|name| commands.contains(name)).collect();
        let names = texts(client.run("ACL CAT"));
        let members = |name: String| (name.clone(), texts(client.run(&format!("ACL CAT {name}"))));
        Peer { commands, shared, categories: names.into_iter().map(members).collect() }
    }

    fn has(&self, name: &str) -> bool {
        self.commands.iter().any(|known| known == name)
    }

    fn is_container(&self, name: &str) -> bool {
        self.commands
            .iter()
            .any(|known| known.strip_prefix(name).is_some_and(|rest| rest.starts_with('|')))
    }

    /// Returns true if redis-server knows the command that a word of a rule is about.
    fn knows(&self, word: &str) -> bool {
        let Some(name) = word.strip_prefix(['+', '-']) else { return true };
        let base = name.split('|').next().unwrap_or_default();
        name.starts_with('@') || self.has(name) || self.has(base) && !self.is_container(base)
    }

    /// Returns the text of rules without commands that redis-server does not know.
    pub(crate) fn known(&self, text: &str) -> String {
        let word = |word: &str| {
            let (name, end) = word.strip_suffix(')').map_or((word, ""), |name| (name, ")"));
            if self.knows(name) { word.to_owned() } else { end.to_owned() }
        };
        text.split(' ').map(word).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
    }

    /// Returns the meaning of rules: for each selector the rules about keys and channels, allowed
    /// first arguments, and allowed commands, of those that both servers have.
    pub(crate) fn meaning(&self, text: &str) -> String {
        let selector = |text: &str| {
            let words = text.split(' ').map(|word| word.trim_end_matches(')'));
            let (commands, others): (Vec<&str>, Vec<&str>) =
                words.partition(|word| word.starts_with(['+', '-']));
            format!("{others:?} {:?}", self.allowed(&commands))
        };
        text.split(" (").map(selector).collect::<Vec<_>>().join("\n")
    }

    fn allowed<'w>(&self, words: &[&'w str]) -> (BTreeSet<&'w str>, BTreeSet<&str>) {
        let (mut first, mut allowed) = (BTreeSet::new(), BTreeSet::new());
        for &word in words {
            let (is_added, name) = (word.starts_with('+'), &word[1..]);
            let members: Vec<&str> = match name.strip_prefix('@') {
                Some("all") => {
                    // It means different commands in later releases.
                    first.insert(word);
                    self.commands.iter().map(String::as_str).collect()
                }
                Some(category) => {
                    let all = self.categories.get(category).into_iter().flatten();
                    all.map(String::as_str).collect()
                }
                None if self.has(name) => vec![name],
                None if self.knows(word) => {
                    first.insert(word);
                    Vec::new()
                }
                None => Vec::new(),
            };
            let is_meant = |known: &str| {
                members.iter().any(|member| {
                    known
                        .strip_prefix(member)
                        .is_some_and(|rest| rest.is_empty() || rest.starts_with('|'))
                })
            };
            for known in self.shared.iter().map(String::as_str).filter(|known| is_meant(known)) {
                if is_added {
                    allowed.insert(known);
                } else {
                    allowed.remove(known);
                }
            }
        }
        (first, allowed)
    }

    /// Returns the names of a list that both servers know, in order.
    pub(crate) fn of_list(&self, list: &Reply) -> Vec<String> {
        let names = list.items().iter().map(Reply::text);
        let mut names: Vec<String> = names.filter(|name| self.shared.contains(name)).collect();
        names.sort();
        names
    }
}
