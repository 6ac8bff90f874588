//! Keys with values in the tree.

use heap::{Full, Ptr, Shard};
use structures::tree::{self, Item, Kind, Tree};

use super::TREE;
use super::keys::write_entry;

/// Items of (key, block of key and value), by key.
#[derive(Clone, Copy)]
pub struct ByKey;

impl Kind for ByKey {
    const SORTED: bool = true;

    fn weight(_: Item) -> u64 {
        1
    }
}

pub fn tree(shard: &Shard<'_>) -> Tree<ByKey> {
    Tree::at(shard.root(TREE))
}

/// Returns the place of a key in the tree, and the item if it is there.
pub fn find(shard: &Shard<'_>, key: u64) -> (tree::Cursor, Option<Item>) {
    let at = tree(shard).seek(shard, |item| item.first < key);
    let item = at.item(shard).filter(|item| item.first == key);
    (at, item)
}

pub fn add(shard: &mut Shard<'_>, key: u64, value: u64) -> Result<(), Full> {
    let entry = write_entry(shard, key, value)?;
    let item = Item { first: key, second: entry.raw() };
    match find(shard, key) {
        (at, Some(old)) => {
            shard.free(Ptr::from_raw(old.second));
            tree(shard).replace(shard, &at, item);
            Ok(())
        }
        (at, None) => tree(shard).insert(shard, &at, item),
    }
}

pub fn take(shard: &mut Shard<'_>, key: u64) {
    if let (at, Some(item)) = find(shard, key) {
        shard.free(Ptr::from_raw(item.second));
        tree(shard).remove(shard, &at);
    }
}

pub fn take_run(shard: &mut Shard<'_>, from: usize, most: usize) {
    let mut left = most;
    while left > 0 {
        let (at, _) = tree(shard).seek_weight(shard, from as u64);
        let mut taken = Vec::new();
        left -= match tree(shard).remove_run(shard, &at, left, |item| taken.push(item)) {
            0 => break,
            some => some,
        };
        taken.into_iter().for_each(|item| shard.free(Ptr::from_raw(item.second)));
    }
}
