//! The page of directives in the documentation, made from the table.
//!
//! A test compares it with `docs/configuration.md`, so that the page cannot fall behind.

use super::kind::Kind;
use super::table::{self, Change, Row, Usage};

/// The page in Markdown.
pub fn page() -> String {
    let mut page = String::from(
        "# Configuration directives\n\n\
         Made from the table in `crates/server/src/config/table.rs`; to renew it after a change:\n\
         `PERDURA_RENEW_DOCS=1 cargo test -p perdura-server configuration_page`.\n\n\
         Directives stand in a `redis.conf` or on the command line (`--name value`). Those marked\n\
         live change with `CONFIG SET`, protected ones only if `enable-protected-configs` allows.\n",
    );
    for (title, rows) in table::groups() {
        page.push_str(&format!(
            "\n## {title}\n\n| directive | value | default | change | effect |\n|---|---|---|---|---|\n"
        ));
        for row in rows {
            page.push_str(&line(row));
        }
    }
    page
}

fn line(row: &Row) -> String {
    let alias = row.alias.map(|a| format!(" (`{a}`)")).unwrap_or_default();
    let default = if row.default.is_empty() { String::new() } else { format!("`{}`", row.default) };
    let change = match row.change {
        Change::Fixed | Change::Pinned => "at start",
        Change::Live => "live",
        Change::Protected => "protected",
    };
    let effect = match row.usage {
        Usage::Used => "yes",
        Usage::Ignored(why) => why.words(),
    };
    let kind = values(row.kind);
    format!("| `{}`{alias} | {kind} | {default} | {change} | {effect} |\n", row.name)
}

fn values(kind: Kind) -> String {
    match kind {
        Kind::Bool => "yes, no".into(),
        Kind::Enum(names) => names.join(", "),
        Kind::Flags(names) => format!("some of {}", names.join(", ")),
        Kind::Int(low, high) => format!("{low} to {high}"),
        Kind::Octal(low, high) => format!("{low:o} to {high:o} (octal)"),
        Kind::Memory(low, _) => format!("bytes, at least {low}"),
        Kind::MemoryOrPercent => "bytes or percent".into(),
        Kind::Text => "text".into(),
        Kind::FileName | Kind::FileNameSet => "file name".into(),
        Kind::Dir => "folder".into(),
        Kind::Save => "seconds and changes, repeated".into(),
        Kind::OutputLimits => "class, hard, soft, seconds, repeated".into(),
        Kind::OomValues => "three numbers".into(),
        Kind::Events => "letters of `Ag$lshzxeKEtmdn`".into(),
        Kind::Bind => "addresses".into(),
        Kind::ReplicaOf => "host and port".into(),
        Kind::Percentiles => "numbers from 0 to 100".into(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn configuration_page_is_that_of_the_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
        let page = super::page();
        if std::env::var_os("PERDURA_RENEW_DOCS").is_some() {
            std::fs::write(path, &page).expect("writable");
        }
        let stored = std::fs::read_to_string(path).unwrap_or_default();
        assert!(stored == page, "docs/configuration.md is not that of the table");
    }
}
