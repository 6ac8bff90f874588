//! INFO: sections of `name:value` lines, in Redis's order and with Redis's names.
//!
//! Fields about things that do not exist here (forks) have the value that an idle Redis
//! gives them, since monitoring tools read them. The section on persistence has fields of its own.

mod data;
mod replication;
mod server;

use engine::call::{Call, Run};
use engine::failure::Done;
use engine::line_text::in_line;
use engine::spec::*;
use keyspace::Txn;

use super::Facts;

pub(crate) const INFO: CommandSpec = CommandSpec {
    name: "info",
    summary: "Get information and statistics about the server",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::Server,
    arity: -1,
    flags: LOADING | STALE,
    acl: ACL_DANGEROUS,
    tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
    history: &[("7.0.0", "Added support for taking multiple section arguments.")],
    args: &[string("section").optional().multiple()],
    run: Run::All(info),
    ..CommandSpec::EMPTY
};

/// A section: its name, its title, whether it is shown by default, and the function that writes it.
type Section = (&'static str, &'static str, bool, fn(&mut Page<'_, '_>));

const SECTIONS: &[Section] = &[
    ("server", "Server", true, server::server),
    ("clients", "Clients", true, server::clients),
    ("memory", "Memory", true, data::memory),
    ("persistence", "Persistence", true, data::persistence),
    ("stats", "Stats", true, server::stats),
    ("replication", "Replication", true, replication::replication),
    ("cpu", "CPU", true, server::cpu),
    ("modules", "Modules", true, |_| {}),
    ("commandstats", "Commandstats", false, server::commandstats),
    ("errorstats", "Errorstats", true, server::errorstats),
    ("latencystats", "Latencystats", false, server::latencystats),
    ("cluster", "Cluster", true, |page| {
        let is_on = page.call.engine.cluster().is_on();
        page.line("cluster_enabled", u8::from(is_on));
    }),
    ("keyspace", "Keyspace", true, data::keyspace),
];

/// The page that sections are written to, and the facts that they show.
struct Page<'a, 'b> {
    text: String,
    call: &'a Call<'a>,
    txn: &'a Txn<'b>,
    facts: Facts,
}

impl Page<'_, '_> {
    fn line(&mut self, name: &str, value: impl std::fmt::Display) {
        use std::fmt::Write;
        let value = value.to_string();
        let _ = write!(self.text, "{name}:{}\r\n", in_line(value.as_bytes()));
    }

    fn flag(&mut self, name: &str, value: bool) {
        self.line(name, u8::from(value));
    }

    /// Writes a number of bytes, and the same in a readable unit.
    fn bytes(&mut self, name: &str, bytes: u64) {
        self.line(name, bytes);
        self.line(&format!("{name}_human"), human(bytes));
    }
}

fn info(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let facts = call.engine.host().map(|host| host.facts()).unwrap_or_default();
    let mut page = Page { text: String::new(), call, txn, facts };
    let asked = &page.call.args[1..];
    let asks = |name: &str| asked.iter().any(|word| word.eq_ignore_ascii_case(name.as_bytes()));
    let everything = asks("all") || asks("everything");
    let defaults = asked.is_empty() || asks("default");
    let chosen: Vec<&Section> = SECTIONS
        .iter()
        .filter(|(name, _, by_default, _)| everything || (defaults && *by_default) || asks(name))
        .collect();
    for (_, title, _, write) in chosen {
        if !page.text.is_empty() {
            page.text.push_str("\r\n");
        }
        page.text.push_str(&format!("# {title}\r\n"));
        write(&mut page);
    }
    let text = page.text;
    call.out.verbatim(*b"txt", text);
    Ok(())
}

/// Returns a number of bytes in a readable unit.
fn human(bytes: u64) -> String {
    let (mut value, mut units) = (bytes as f64, ["K", "M", "G", "T", "P"].iter());
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let mut unit = "";
    while value >= 1024.0 {
        let Some(next) = units.next() else { break };
        value /= 1024.0;
        unit = next;
    }
    format!("{value:.2}{unit}")
}

#[cfg(test)]
mod tests {
    use super::human;

    #[test]
    fn bytes_are_written_for_people() {
        let check = |bytes, expect: &str| assert_eq!(human(bytes), expect);
        check(0, "0B");
        check(1023, "1023B");
        check(941_192, "919.13K");
        check(5 << 30, "5.00G");
    }
}
