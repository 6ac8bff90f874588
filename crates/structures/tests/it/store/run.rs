//! Runs a transaction on the structures themselves.

use heap::{Full, Ptr, Shard, View};
use structures::Error;
use structures::blob::Blob;
use structures::index::Index;
use structures::list::List;
use structures::reclaim::{Owned, Queue};
use structures::tree::{Item, empty_root};

use super::blobs::{create_detached, replace};
use super::items::{add, take, take_run, tree};
use super::keys::{put, remove, write_entry};
use super::lists::change_list;
use super::{INDEX, OWNER_LIST, OWNER_TREE, Plan, QUEUE, TREE, bytes};

/// A sound blob can only fail with `Full`.
fn full(changed: Result<Blob, Error>) -> Result<Blob, Full> {
    changed.map_err(|error| match error {
        Error::Full(full) => full,
        Error::Damaged(damage) => panic!("{damage}"),
    })
}

/// Stages the changes of a plan; neither commits nor rolls back.
pub fn run(shard: &mut Shard<'_>, plan: &Plan) -> Result<(), Full> {
    let queue = Queue::at(shard.root(QUEUE));
    let index = Index::at(shard.root(INDEX));
    let root = shard.root(TREE);
    if shard.word(root) == 0 {
        shard.set(root, empty_root());
    }
    match *plan {
        Plan::Put { ref keys, value } => {
            keys.iter().try_for_each(|&key| put(shard, index, key, value))
        }
        Plan::Remove(ref keys) => {
            keys.iter().for_each(|&key| remove(shard, index, key));
            Ok(())
        }
        Plan::RemoveAll => queue.push_index(shard, shard.root(INDEX), 1),
        Plan::Defragment(cursor) => {
            let moved = |shard: &mut Shard<'_>, old: Ptr| {
                let new = write_entry(shard, shard.word(old), shard.word(old.add(8)))?;
                shard.free(old);
                Ok(Some(new))
            };
            index.defragment(shard, cursor, 10, moved).map(|_| ())
        }
        Plan::Create { blob, len, seed, detached } => {
            let content = bytes(seed, len);
            let new = if detached {
                create_detached(shard, &content)?
            } else {
                Blob::create(shard, &content)?
            };
            replace(shard, blob, |shard, old| {
                if old.is_large() {
                    queue.push_blob(shard, old)?;
                } else {
                    old.free_step(shard, 1);
                }
                Ok(new)
            })
        }
        Plan::Append { blob, len, seed } => {
            replace(shard, blob, |shard, old| full(old.append(shard, &bytes(seed, len))))
        }
        Plan::SetRange { blob, at, len, seed } => replace(shard, blob, |shard, old| {
            full(old.set_range(shard, at as u64, &bytes(seed, len)))
        }),
        Plan::Drop(blob) => {
            replace(shard, blob, |shard, old| queue.push_blob(shard, old).map(|()| Blob::EMPTY))
        }
        Plan::Reclaim(budget) => {
            let free_owned = |shard: &mut Shard<'_>, owner, owned| {
                match owned {
                    Owned::Item(item) if owner == OWNER_LIST => {
                        return List::free_item(shard, queue, item);
                    }
                    Owned::Item(item) => shard.free(Ptr::from_raw(item.second)),
                    Owned::Entry(entry) => shard.free(entry),
                }
                Ok(1)
            };
            queue.step(shard, budget, free_owned).map(|_| ())
        }
        Plan::Add { ref keys, value } => keys.iter().try_for_each(|&key| add(shard, key, value)),
        Plan::Take(ref keys) => {
            keys.iter().for_each(|&key| take(shard, key));
            Ok(())
        }
        Plan::TakeRun { from, most } => {
            take_run(shard, from, most);
            Ok(())
        }
        Plan::TakeAll => queue.push_tree(shard, shard.root(TREE), OWNER_TREE),
        Plan::Relocate(at) => {
            let moved = |shard: &mut Shard<'_>, item: Item| {
                let old = Ptr::from_raw(item.second);
                let new = write_entry(shard, shard.word(old), shard.word(old.add(8)))?;
                shard.free(old);
                Ok(Some(Item { second: new.raw(), ..item }))
            };
            tree(shard).relocate(shard, at, moved).map(|_| ())
        }
        ref of_list => change_list(shard, queue, of_list),
    }
}
