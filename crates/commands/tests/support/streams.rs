//! Replies about streams in a form that can be compared with another server's: with every number,
//! and without times.

use super::wire::{Reply, describe};

/// Names of fields with times, or that depend on how nodes are stored.
const MASKED: &[&str] = &["idle", "seen-time", "radix-tree-keys", "radix-tree-nodes"];
/// Fields of consumers that Redis has from 7.2 on.
const LATER: &[&str] = &["inactive", "active-time"];

fn is_any(reply: &Reply, names: &[&str]) -> bool {
    names.iter().any(|name| describe(reply) == format!("\"{name}\""))
}

/// The reply with its times taken out, in words.
pub fn masked(reply: &Reply) -> String {
    let is_time = |line: &[u8]| line.len() > 11;
    match reply {
        Reply::Line(b':', line) if is_time(line) => "(time)".to_owned(),
        Reply::Many(_, Some(items)) => {
            let mut described: Vec<String> = Vec::new();
            let is_pending = matches!(
                &items[..],
                [Reply::Bulk(..), Reply::Bulk(..), Reply::Line(b':', _), Reply::Line(b':', _)]
            );
            for (n, item) in items.iter().enumerate() {
                let before = n.checked_sub(1).map(|n| &items[n]);
                if is_any(item, LATER) || before.is_some_and(|name| is_any(name, LATER)) {
                    continue;
                }
                let is_masked =
                    is_pending && n == 2 || before.is_some_and(|name| is_any(name, MASKED));
                described.push(if is_masked { "(masked)".to_owned() } else { masked(item) });
            }
            format!("[{}]", described.join(", "))
        }
        other => describe(other),
    }
}
