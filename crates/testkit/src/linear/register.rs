//! Registers whose values are all different.
//!
//! A write and the reads of its value belong together: in a linear order nothing else stands
//! between them. From the earliest end to the latest beginning of such a group the register has its
//! value throughout, if the end is earlier (a *forward* zone); otherwise one moment between them
//! suffices (a *backward* zone, from the latest beginning to the earliest end). So a history is
//! linearizable if no two forward zones overlap, no backward zone is within a forward one, and no
//! read ends before its write begins.

use super::Call;
use std::collections::BTreeMap;

/// What a call did with a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It wrote a value that no other call writes.
    Write(u64),
    /// It read a value; none if nothing was written yet.
    Read(Option<u64>),
}

/// A write with all reads of its value.
struct Group<'c> {
    value: Option<u64>,
    /// None for the value at the beginning.
    write: Option<&'c Call<Access>>,
    reads: Vec<&'c Call<Access>>,
    /// The latest beginning, and the earliest end.
    latest: u64,
    earliest: u64,
}

impl Group<'_> {
    fn is_forward(&self) -> bool {
        self.earliest < self.latest
    }

    fn shown(&self) -> String {
        let name = self.value.map_or("nothing".to_owned(), |value| value.to_string());
        // The first and the last of the reads say why.
        let mut calls: Vec<String> = self.write.iter().map(|call| call.to_string()).collect();
        let ends = self.reads.iter().min_by_key(|call| call.ended);
        calls.extend(ends.map(|call| call.to_string()));
        let begins = self.reads.iter().max_by_key(|call| call.began);
        calls.extend(begins.map(|call| call.to_string()));
        format!("{name} ({})", calls.join(", "))
    }
}

/// Returns why the calls to one register are not linearizable. At moment 0 it has no value, or
/// the one that is written by a call from 0 to 0.
///
/// # Errors
///
/// The values and calls that contradict each other.
pub fn check_register(calls: &[Call<Access>]) -> Result<(), String> {
    let mut groups: Vec<Group<'_>> = groups(calls)?.into_values().collect();
    groups.sort_by_key(|group| group.earliest.min(group.latest));
    // The forward zone that ends last, of those that began before.
    let mut last: Option<&Group<'_>> = None;
    for group in &groups {
        if let Some(before) = last {
            let is_within = group.earliest.max(group.latest) < before.latest;
            let overlaps = group.is_forward() && group.earliest < before.latest;
            if overlaps || is_within {
                return Err(format!(
                    "no order of these values explains what was read: {}; {}",
                    before.shown(),
                    group.shown()
                ));
            }
        }
        if group.is_forward() {
            last = Some(group);
        }
    }
    Ok(())
}

/// Returns the groups by value. A read without a write, or before it, is an error.
fn groups(calls: &[Call<Access>]) -> Result<BTreeMap<Option<u64>, Group<'_>>, String> {
    let mut groups = BTreeMap::new();
    let is_set_before = |call: &Call<Access>| call.ended == 0;
    if !calls.iter().any(is_set_before) {
        let group = Group { value: None, write: None, reads: vec![], latest: 0, earliest: 0 };
        groups.insert(None, group);
    }
    for call in calls {
        if let Access::Write(value) = call.what {
            let group = Group {
                value: Some(value),
                write: Some(call),
                reads: vec![],
                latest: call.began,
                earliest: call.ended,
            };
            if groups.insert(Some(value), group).is_some() {
                return Err(format!("{value} was written twice"));
            }
        }
    }
    for call in calls {
        let Access::Read(value) = call.what else { continue };
        if call.ended == Call::<Access>::OPEN {
            continue;
        }
        let Some(group) = groups.get_mut(&value) else {
            return Err(format!("{call}, which nobody wrote, or whose write was refused"));
        };
        if let Some(write) = group.write
            && call.is_before(write)
        {
            return Err(format!("{call}, before {write}"));
        }
        group.reads.push(call);
        group.latest = group.latest.max(call.began);
        group.earliest = group.earliest.min(call.ended);
    }
    Ok(groups)
}
