//! Lists the blocks that wait in a shard's free queue, for the check and the salvage of a pool.

use heap::{Ptr, View};
use structures::Damaged;
use structures::dict::Member;
use structures::list::List;
use structures::reclaim::{Owned, Part, Queue};
use structures::stream::Stream;

use crate::entry;
use crate::layout::{OWNER_KEYS, OWNER_LIST, OWNER_MEMBERS, STREAM_OWNERS};

/// Returns every block of the free queue whose root word is at `root` and of what the queue owns,
/// and an error if the queue is damaged. `hash` hashes a key or a member's field.
pub(crate) fn blocks<V: View>(
    view: &V,
    root: Ptr,
    hash: impl Fn(&[u8]) -> u64,
) -> (Vec<Ptr>, Result<(), Damaged>) {
    let (mut blocks, mut entries, mut members) = (Vec::new(), Vec::new(), Vec::new());
    let checked = Queue::at(root).check(
        view,
        |owner, at| match owner {
            OWNER_MEMBERS => hash(&Member::at(at).field(view)),
            _ => hash(&entry::key(view, at)),
        },
        |owner, part| match part {
            Part::Block(at) => blocks.push(at),
            Part::Owned(Owned::Entry(at)) if owner == OWNER_KEYS => entries.push(at),
            Part::Owned(Owned::Entry(at)) if owner == OWNER_MEMBERS => members.push(Member::at(at)),
            Part::Owned(Owned::Entry(_)) => {}
            Part::Owned(Owned::Item(item)) if owner == OWNER_LIST => {
                List::item_blocks(view, item, |at| blocks.push(at));
            }
            Part::Owned(Owned::Item(item)) => {
                Stream::item_blocks(view, STREAM_OWNERS, owner, item, |at| blocks.push(at));
            }
        },
    );
    for at in entries {
        blocks.push(at);
        entry::owned(view, at, |block| blocks.push(block));
    }
    for member in members {
        blocks.push(member.ptr());
        member.blobs(view, |block| blocks.push(block));
    }
    (blocks, checked)
}
