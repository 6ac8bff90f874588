//! Compares the structures with the model.

use heap::{Ptr, Shard, View};
use structures::blob::Blob;
use structures::index::{self, Index};
use structures::list::List;
use structures::reclaim::{Owned, Part, Queue};
use structures::tree::{self, Item};

use super::items::tree;
use super::keys::hash;
use super::lists::read_list;
use super::{BLOBS, FIRST_BLOB, INDEX, OWNER_LIST, QUEUE, State, TREE};

/// Returns the state and every reachable block; runs all checks that the structures have.
pub fn read(shard: &Shard<'_>) -> Result<(State, Vec<Ptr>), String> {
    let mut state = State::default();
    let mut reachable = Vec::new();
    let mut entries = Vec::new();
    let rehash = |entry| hash(shard.word(entry));
    let index = Index::at(shard.root(INDEX));
    let visit = |part| match part {
        index::Part::Block(block) => reachable.push(block),
        index::Part::Entry(entry) => entries.push(entry),
    };
    index.check(shard, rehash, visit).map_err(|damage| damage.to_string())?;
    state.keys.extend(entries.iter().map(|&at| (shard.word(at), shard.word(at.add(8)))));
    reachable.extend(entries);
    let visit = |owner, part| match part {
        Part::Owned(Owned::Item(item)) if owner == OWNER_LIST => {
            List::item_blocks(shard, item, |block| reachable.push(block));
        }
        Part::Block(block) | Part::Owned(Owned::Entry(block)) => reachable.push(block),
        Part::Owned(Owned::Item(item)) => reachable.push(Ptr::from_raw(item.second)),
    };
    let queue = Queue::at(shard.root(QUEUE));
    queue.check(shard, |_, entry| rehash(entry), visit).map_err(|damage| damage.to_string())?;
    let rises = |a: Item, b: Item| a.first < b.first;
    let visit = |part| match part {
        tree::Part::Block(block) => reachable.push(block),
        tree::Part::Item(item) => {
            let entry = Ptr::from_raw(item.second);
            state.items.insert(shard.word(entry), shard.word(entry.add(8)));
            reachable.push(entry);
        }
    };
    // The first transaction creates the tree.
    if shard.word(shard.root(TREE)) != 0 {
        tree(shard).check(shard, rises, visit).map_err(|damage| damage.to_string())?;
    }
    state.list = read_list(shard, &mut reachable)?;
    for number in 0..BLOBS {
        let blob = Blob::from_word(shard.word(shard.root(FIRST_BLOB + number)));
        blob.check(shard).map_err(|damage| damage.to_string())?;
        blob.blocks(shard, |block| reachable.push(block));
        state.blobs[number] = blob.to_vec(shard).expect("sound");
    }
    Ok((state, reachable))
}
