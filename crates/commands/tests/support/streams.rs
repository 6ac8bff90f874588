//! Replies about streams, to be compared with those of another server: every number exactly, and no
//! time.

use super::wire::{Reply, describe};

/// A key that names a time, or what differs by how nodes are kept.
const MASKED: &[&str] =
    &["idle", "inactive", "seen-time", "active-time", "radix-tree-keys", "radix-tree-nodes"];
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
                let is_masked = is_pending && n == 2
                    || before.is_some_and(|name| {
                        MASKED.iter().any(|m| describe(name) == format!("\"{m}\""))
                    });
                described.push(if is_masked { "(masked)".to_owned() } else { masked(item) });
            }
            format!("[{}]", described.join(", "))
        }
        other => describe(other),
    }
}
