//! Dumps that are loaded as they were saved, and with what other programs or later times put into
//! them; and what is counted of it.

use std::sync::Arc;

use commands::{Engine, LoadOptions, LoadedDump};
use testkit::Reply;

use crate::dumps::{self, Done};
use crate::engine::{self, Smallness};
use crate::state::State;
use crate::walk::{Key, Walked};

/// One key in this many of those that expire has expired.
const EXPIRED: usize = 3;
/// How long ago, in milliseconds.
const BEFORE: u64 = 60_000;
/// How long before it was seen a consumer was active, in milliseconds.
const ACTIVE: u64 = 7;
/// The kinds of a stream, without and with the times at which consumers were active.
const STREAM_KINDS: (u8, u8) = (19, 21);
/// An empty set, with its name.
const EMPTY: &[u8] = b"\x02\x05empty\x00";

/// How a dump is loaded.
#[derive(Clone, Copy)]
pub(crate) struct Loaded {
    pub(crate) threads: usize,
    pub(crate) smallness: Smallness,
}

impl Loaded {
    /// Loads a dump, and compares the counts.
    pub(crate) fn load(
        self,
        bytes: &[u8],
        verifies: bool,
        expected: LoadedDump,
    ) -> Result<Arc<Engine>, String> {
        let there = engine::in_memory(self.threads, None, self.smallness);
        let mut reported = Vec::new();
        let report = &mut |so_far: LoadedDump| reported.push(so_far);
        let mut options = LoadOptions { verifies, keeps_expired: false, report };
        let loaded = commands::load_dump(&there, bytes, &mut options)
            .map_err(|error| format!("loading what was saved: {error}"))?;
        let is_growing = reported.is_sorted_by_key(|one| (one.bytes, one.keys))
            && reported.last() == Some(&loaded);
        match loaded == expected && is_growing {
            true => Ok(there),
            false => Err(format!("{loaded:?} came of {expected:?}, after {reported:?}")),
        }
    }
}

/// Returns what is counted of a dump that was saved.
pub(crate) fn counts(bytes: &[u8], walked: &Walked) -> LoadedDump {
    LoadedDump {
        bytes: bytes.len() as u64,
        keys: walked.keys.len() as u64,
        expired: 0,
        empty: 0,
        stream_db: Some(9),
    }
}

/// Compares the keys of a dump with the data.
pub(crate) fn check_walked(expected: &State, walked: &Walked) -> Done {
    if walked.keys.len() != expected.keys.len() || walked.libraries != expected.libraries.len() {
        return Err(format!("{} keys are {} in a dump", expected.keys.len(), walked.keys.len()));
    }
    for (name, fields) in &expected.keys {
        let shown = || name.1.escape_ascii().to_string();
        let key = walked.keys.get(name).ok_or_else(|| format!("{} is not saved", shown()))?;
        let expires = key.expires.map_or(-1, |(at, _)| at as i64);
        let elements = match (fields.get("value"), fields.get("length")) {
            (Some(Reply::Array(items)), _) if key.kind == 5 || key.kind == 17 => items.len() / 2,
            (Some(Reply::Array(items)), _) => items.len(),
            (_, Some(length)) => length.int().unwrap_or(0) as usize,
            _ => 1,
        };
        if fields["expires"].int() != Some(expires) || elements != key.elements {
            return Err(format!("{}, of {elements} elements, is saved as {key:?}", shown()));
        }
    }
    Ok(())
}

/// Returns a dump with another stream format, of whose keys some have expired and one is empty;
/// what it contains; and what is counted of it.
pub(crate) fn changed(
    bytes: &[u8],
    walked: &Walked,
    expected: &State,
) -> (Vec<u8>, State, LoadedDump) {
    let (mut bytes, mut expected) = (bytes.to_vec(), expected.clone());
    let is_expiring = |(_, key): &(_, &Key)| key.expires.is_some();
    let gone: Vec<_> = walked.keys.iter().filter(is_expiring).step_by(EXPIRED).collect();
    for (name, key) in &gone {
        let at = key.expires.map_or(0, |(_, at)| at);
        let before = dumps::now() - BEFORE;
        bytes[at..at + 8].copy_from_slice(&before.to_le_bytes());
        expected.keys.remove(*name);
    }
    let mut more = vec![(walked.end, EMPTY.to_vec())];
    for key in walked.keys.values().filter(|key| key.kind == STREAM_KINDS.0) {
        bytes[key.kind_at] = STREAM_KINDS.1;
        more.extend(key.seen.iter().map(|at| {
            let seen = bytes[at - 8..*at].try_into().map_or(0, u64::from_le_bytes);
            (*at, (seen - ACTIVE).to_le_bytes().to_vec())
        }));
    }
    for fields in expected.keys.values_mut() {
        let seen: Vec<_> = fields.iter().filter(|(path, _)| path.ends_with("seen-time")).collect();
        let active = seen.into_iter().map(|(path, seen)| {
            let active = seen.int().unwrap_or(0) - ACTIVE as i64;
            (path.replace("seen-time", "active-time"), Reply::Int(active))
        });
        let active: Vec<_> = active.collect();
        fields.extend(active);
    }
    more.sort();
    let (mut whole, mut from) = (Vec::with_capacity(bytes.len()), 0);
    for (at, some) in more {
        whole.extend_from_slice(&bytes[from..at]);
        whole.extend(some);
        from = at;
    }
    whole.extend_from_slice(&bytes[from..]);
    let loaded = LoadedDump {
        bytes: whole.len() as u64,
        keys: (walked.keys.len() - gone.len()) as u64,
        expired: gone.len() as u64,
        empty: 1,
        stream_db: Some(9),
    };
    (whole, expected, loaded)
}
