//! The names of groups and consumers: blobs, whose words are in the records, found by their bytes.

use std::cmp::Ordering;

use heap::{Ptr, View};

use super::Records;
use crate::Damaged;
use crate::blob::Blob;
use crate::tree::{Cursor, Item, Tree};

/// Returns the first eight bytes, which distinguish most names.
fn prefix(name: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let len = name.len().min(8);
    bytes[..len].copy_from_slice(&name[..len]);
    u64::from_be_bytes(bytes)
}

/// Returns the item for the record of a name.
pub(super) fn item(name: &[u8], at: Ptr) -> Item {
    Item { first: prefix(name), second: at.raw() }
}

/// Returns the bytes of a name, verified.
pub(super) fn read<V: View>(view: &V, name: Blob) -> Result<Vec<u8>, Damaged> {
    name.check(view)?;
    name.to_vec(view)
}

/// Returns a cursor before the first record whose name is not less than this one, and its item if
/// it has this name. The name is in word `word` of each record, whose checksum is word 0.
pub(super) fn find<V: View>(
    view: &V,
    tree: Tree<Records>,
    word: usize,
    name: &[u8],
) -> Result<(Cursor, Option<Item>), Damaged> {
    let (first, mut damaged) = (prefix(name), Ok(()));
    let mut compare = |item: Item| match item.first.cmp(&first) {
        Ordering::Equal => {
            let blob = view.word(Ptr::from_raw(item.second).add(8 * word as u64));
            match read(view, Blob::from_word(blob)) {
                Ok(own) => own.as_slice().cmp(name),
                Err(damage) => {
                    damaged = Err(damage);
                    Ordering::Greater
                }
            }
        }
        order => order,
    };
    let cursor = tree.seek(view, |item| compare(item).is_lt());
    let found = tree.item_at(view, &cursor)?.filter(|item| compare(*item).is_eq());
    damaged.map(|()| (cursor, found))
}
