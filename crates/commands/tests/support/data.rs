//! All data of a keyspace, to be compared with another one's.

use std::collections::BTreeMap;

use keyspace::{Content, Db, Keyspace};

/// Databases and keys, with values and expiry times.
pub type Data = BTreeMap<(usize, Vec<u8>), (Content, Option<u64>)>;

/// The data at a given time, read without side effects: expired keys are not deleted.
pub fn data(ks: &Keyspace, now: u64) -> Data {
    let mut data = Data::new();
    let txn = ks.begin_all(now);
    for (number, db) in (0..16).filter_map(|number| Some((number, Db::new(number)?))) {
        txn.database(db).for_each(&mut |key, entry| {
            let value = without_seen_times(txn.content(entry).expect("a value").sorted());
            let expiry = txn.properties(entry).expiry();
            if expiry.is_none_or(|at| at > now) {
                data.insert((number, key.to_vec()), (value, expiry));
            }
        });
    }
    data
}

/// Clears the times when consumers were last seen and active, which no log contains, as in Redis.
fn without_seen_times(mut value: Content) -> Content {
    if let Content::Stream(parts) = &mut value {
        for part in parts {
            if let keyspace::StreamPart::Consumer { seen, active, .. } = part {
                (*seen, *active) = (0, None);
            }
        }
    }
    value
}

/// Describes how two differ, in a readable line for each key.
pub fn differences(expected: &Data, found: &Data) -> Vec<String> {
    let mut places: Vec<_> = expected.keys().chain(found.keys()).collect();
    places.sort_unstable();
    places.dedup();
    let differing = places.into_iter().filter(|place| expected.get(place) != found.get(place));
    differing
        .map(|place| {
            if let Some(parts) = first_differing_parts(expected.get(place), found.get(place)) {
                return parts;
            }
            let (expected, found) = (size(expected.get(place)), size(found.get(place)));
            let name = place.1[..place.1.len().min(24)].escape_ascii();
            format!(
                "{name} ({} bytes) in database {}: {found}, not {expected}",
                place.1.len(),
                place.0
            )
        })
        .collect()
}

/// The first parts in which two streams differ.
fn first_differing_parts(
    expected: Option<&(Content, Option<u64>)>,
    found: Option<&(Content, Option<u64>)>,
) -> Option<String> {
    let (Some((Content::Stream(expected), _)), Some((Content::Stream(found), _))) =
        (expected, found)
    else {
        return None;
    };
    let (expected, found) = expected.iter().zip(found).find(|(a, b)| a != b)?;
    Some(format!("{found:?}, not {expected:?}"))
}

/// The size and the beginning of a value, to compare two that differ.
fn size(value: Option<&(Content, Option<u64>)>) -> String {
    let Some((content, expiry)) = value else { return "nothing".to_owned() };
    let described = match content {
        Content::String(bytes) => format!("{} bytes", bytes.len()),
        Content::Elements(what, elements) => format!("{} words of a {what:?}", elements.len()),
        Content::Fields(fields) => {
            let timed = fields.iter().filter(|field| field.time.is_some()).count();
            format!("{} fields, {timed} of them with a time", fields.len())
        }
        Content::Stream(parts) => {
            let head = parts.iter().find(|part| matches!(part, keyspace::StreamPart::Head { .. }));
            format!("{} parts of a stream, {head:?}", parts.len())
        }
    };
    let begins: String = format!("{content:?}").chars().take(60).collect();
    format!("{described}, expiry {expiry:?}, {begins}")
}
