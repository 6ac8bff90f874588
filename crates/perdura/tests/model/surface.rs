//! Checks that each public method of the library is called by one of these files: a new method
//! needs a case, or a line here that says why it has none.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::state::Checked;

/// Methods without a case here.
const ELSEWHERE: &[&str] = &[
    // Implemented by users for their own keys and values: tested next to their code, and in
    // tests/it/table.rs.
    "borrowed",
    "encode",
    "decode",
    "encode_prefix",
    "is_possible",
    // For the package `metrics`: tests/it/metrics.rs.
    "record",
    // In builds for simulation: crates/sim/tests/library.
    "over",
    "verify",
    "close_heap",
    // Settings that this program does not use: tests/it.
    "journal",
    "read_cache",
    "snapshot_limit",
    "domain",
    "is_emulated",
    // Internal to the crate.
    "on",
    "whole",
    "replace_lost",
    // Numbers of a machine: tests/it/statistics.rs.
    "bytes",
    "quantile",
    "buckets",
];

fn texts(folder: &Path, texts: &mut Vec<String>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            self::texts(&path, texts)?;
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            texts.push(fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

fn name_after<'t>(line: &'t str, begin: &str) -> Option<&'t str> {
    let rest = line.trim_start().strip_prefix(begin)?;
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

/// Returns the methods that are public, or belong to a public trait.
fn methods(text: &str) -> impl Iterator<Item = &str> {
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    let mut is_trait = false;
    text.lines().filter_map(move |line| {
        if !line.starts_with(' ') && !line.is_empty() {
            is_trait = line.starts_with("pub trait");
        }
        let of_trait = if is_trait { name_after(line, "fn ") } else { None };
        name_after(line, "pub fn ").or(of_trait).filter(|_| line.starts_with("    "))
    })
}

pub(crate) fn round(_: u64) -> Checked {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut sources, mut cases) = (Vec::new(), Vec::new());
    texts(&root.join("src"), &mut sources).map_err(|error| error.to_string())?;
    texts(&root.join("tests/model"), &mut cases).map_err(|error| error.to_string())?;
    let cases = cases.concat();
    let methods: BTreeSet<&str> = sources.iter().flat_map(|text| methods(text)).collect();
    if methods.len() < 150 {
        return Err(format!("only {} public methods were found in the sources", methods.len()));
    }
    let is_called = |name: &str| {
        [format!(".{name}("), format!(".{name}::<"), format!("::{name}(")]
            .iter()
            .any(|call| cases.contains(call))
    };
    let missing: Vec<&&str> =
        methods.iter().filter(|name| !ELSEWHERE.contains(name) && !is_called(name)).collect();
    if missing.is_empty() { Ok(()) } else { Err(format!("no case calls {missing:?}")) }
}
