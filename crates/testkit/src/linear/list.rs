//! Lists to which calls append elements that are all different.
//!
//! Nothing is ever removed, so that the longest list that was read has the order of all appends,
//! and every other read is one of its beginnings. An append stands in this order at its element,
//! a read after its last one; the calls are linearizable if none ended before one began that
//! stands earlier.

use super::Call;
use std::collections::BTreeMap;

/// What a call did with a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListCall {
    /// It appended an element that no other call appends. The number of elements is that of the
    /// reply; 0 if there was none.
    Append(u64, usize),
    /// It read all elements.
    Read(Vec<u64>),
}

/// Returns why the calls to one list, which was empty before, are not linearizable. The last call
/// must be a read that began when all others had ended, or will never take effect any more.
///
/// # Errors
///
/// The elements and calls that contradict each other.
pub fn check_list(calls: &[Call<ListCall>]) -> Result<(), String> {
    let Some(Call { what: ListCall::Read(all), .. }) = calls.last() else {
        return Err("the last call is no read".into());
    };
    let mut places = BTreeMap::new();
    for (at, value) in all.iter().enumerate() {
        if places.insert(*value, at + 1).is_some() {
            return Err(format!("{value} is in the list twice"));
        }
    }
    let mut appended = BTreeMap::new();
    let mut ordered: Vec<(usize, &Call<ListCall>)> = Vec::with_capacity(calls.len());
    for call in calls {
        match &call.what {
            ListCall::Append(value, count) => {
                appended.insert(*value, ());
                match places.get(value) {
                    Some(place) if *count == 0 || count == place => ordered.push((2 * place, call)),
                    Some(place) => {
                        return Err(format!("{call}, but the element stands at {place}"));
                    }
                    None if call.ended == Call::<ListCall>::OPEN => {}
                    None => return Err(format!("{call}, but the element is lost")),
                }
            }
            ListCall::Read(_) if call.ended == Call::<ListCall>::OPEN => {}
            ListCall::Read(found) if all.starts_with(found) => {
                ordered.push((2 * found.len() + 1, call));
            }
            ListCall::Read(found) => {
                let same = found.iter().zip(all).take_while(|(one, other)| one == other).count();
                return Err(format!(
                    "a read from {} to {} found {} elements; in the end there are {}, of which \
                     the first {same} are the same",
                    call.began,
                    call.ended,
                    found.len(),
                    all.len()
                ));
            }
        }
    }
    if let Some(value) = all.iter().find(|value| !appended.contains_key(value)) {
        return Err(format!("{value} is in the list, but nobody appended it, or it was refused"));
    }
    check_order(ordered)
}

/// Returns an error if a call ended before one began whose place is earlier.
fn check_order(mut calls: Vec<(usize, &Call<ListCall>)>) -> Result<(), String> {
    calls.sort_by_key(|(place, _)| *place);
    let mut latest: Option<&Call<ListCall>> = None;
    for of_place in calls.chunk_by(|one, other| one.0 == other.0) {
        for (place, call) in of_place {
            if let Some(before) = latest
                && call.is_before(before)
            {
                return Err(format!(
                    "the call from {} to {} stands at {place}/2 of the list, after one that began \
                     at {}",
                    call.began, call.ended, before.began
                ));
            }
        }
        let begins = |call: &&Call<ListCall>| call.began;
        latest =
            latest.into_iter().chain(of_place.iter().map(|(_, call)| *call)).max_by_key(begins);
    }
    Ok(())
}
