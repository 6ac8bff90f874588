//! The model.

use std::collections::BTreeMap;

use structures::list::Side;

use super::{BLOBS, Plan, bytes};

/// The content of the store: keys with values in an index and in a tree, some byte strings, and a
/// list of others.
#[derive(Clone, Default, PartialEq)]
pub struct State {
    pub keys: BTreeMap<u64, u64>,
    pub blobs: [Vec<u8>; BLOBS],
    pub items: BTreeMap<u64, u64>,
    pub list: Vec<Vec<u8>>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sum = |of: &BTreeMap<u64, u64>| {
            of.iter().map(|(key, value)| key ^ value << 32).fold(0, u64::wrapping_add)
        };
        write!(f, "{} keys ({:x})", self.keys.len(), sum(&self.keys))?;
        write!(f, "{} items ({:x})", self.items.len(), sum(&self.items))?;
        write!(f, "{} elements ({:x})", self.list.len(), crc32c::crc32c(&self.list.concat()))?;
        let blobs = self.blobs.iter().map(|blob| (blob.len(), crc32c::crc32c(blob)));
        f.debug_list().entries(blobs).finish()
    }
}

impl State {
    /// Applies a plan.
    pub fn apply(&mut self, plan: &Plan) {
        match *plan {
            Plan::Put { ref keys, value } => self.keys.extend(keys.iter().map(|&key| (key, value))),
            Plan::Remove(ref keys) => self.keys.retain(|key, _| !keys.contains(key)),
            Plan::RemoveAll => self.keys.clear(),
            Plan::Create { blob, len, seed, .. } => self.blobs[blob] = bytes(seed, len),
            Plan::Append { blob, len, seed } => self.blobs[blob].extend(bytes(seed, len)),
            Plan::SetRange { blob, at, len, seed } => {
                let content = &mut self.blobs[blob];
                content.resize(content.len().max(at + len), 0);
                content[at..at + len].copy_from_slice(&bytes(seed, len));
            }
            Plan::Drop(blob) => self.blobs[blob].clear(),
            Plan::Add { ref keys, value } => {
                self.items.extend(keys.iter().map(|&key| (key, value)))
            }
            Plan::Take(ref keys) => self.items.retain(|key, _| !keys.contains(key)),
            Plan::TakeRun { from, most } => {
                let keys: Vec<u64> = self.items.keys().copied().skip(from).take(most).collect();
                self.items.retain(|key, _| !keys.contains(key));
            }
            Plan::TakeAll => self.items.clear(),
            Plan::Push { side, count, len, seed } => {
                for number in 0..count {
                    let at = if side == Side::Head { 0 } else { self.list.len() };
                    self.list.insert(at, bytes(seed + number as u64, len));
                }
            }
            Plan::Pop { side, count } | Plan::Trim { side, count } => {
                let (count, len) = (count.min(self.list.len()), self.list.len());
                let gone = if side == Side::Head { 0..count } else { len - count..len };
                self.list.drain(gone);
            }
            Plan::Change { at, len, seed, insert: true } => self.list.insert(at, bytes(seed, len)),
            Plan::Change { at, len, seed, insert: false } => self.list[at] = bytes(seed, len),
            Plan::Thin(from) => {
                let len = self.list.len();
                let mut number = 0;
                self.list.retain(|_| {
                    number += 1;
                    let place = if from == Side::Head { number - 1 } else { len - number };
                    place % 2 == 1
                });
            }
            Plan::DropList => self.list.clear(),
            Plan::Defragment(_) | Plan::Reclaim(_) | Plan::Relocate(_) | Plan::MoveNode(_) => {}
        }
    }
}
