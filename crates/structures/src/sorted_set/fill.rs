//! Creates a sorted set from all its members at once.
//!
//! If members are added one by one, each goes to a segment of the index and a leaf of the tree that
//! are in no cache, the segments split again and again, and each place in the order is searched
//! for. So the members are entered in the order of their hashes, one segment after the other, and
//! the tree is written leaf by leaf.

use heap::Full;

use super::{SortedSet, compare, item, member_of, score_at};
use crate::Store;
use crate::dict::Hashed;
use crate::index::Index;
use crate::tree::Item;

/// The number of members whose names are read before any is written.
pub const AT_ONCE: usize = 32;

impl SortedSet {
    /// Creates a sorted set of these members, each once, in their order: by score, then by name.
    /// `hash` returns the hash of any member.
    pub fn create_of<S: Store>(
        store: &mut S,
        hash: impl Fn(&[u8]) -> u64,
        members: &[(&[u8], f64)],
    ) -> Result<SortedSet, Full> {
        let set = SortedSet::create(store)?;
        let depth = Index::depth_for(members.len() as u64);
        let mut by_hash: Vec<(u64, usize)> =
            members.iter().enumerate().map(|(rank, (name, _))| (hash(name), rank)).collect();
        by_hash.sort_unstable();
        let mut items = vec![Item::default(); members.len()];
        let mut names = Vec::new();
        for some in by_hash.chunks(AT_ONCE) {
            // Names are scattered: they are read together, not each just before its block is
            // written.
            names.clear();
            some.iter().for_each(|&(_, rank)| names.extend_from_slice(members[rank].0));
            let mut names = &names[..];
            for &(own, rank) in some {
                let (name, rest) = names.split_at(members[rank].0.len());
                let score = members[rank].1;
                let (field, value) = (Hashed { bytes: name, hash: own }, score.to_le_bytes());
                let member = set.dict.insert_expecting(store, field, &value, None, depth, &hash)?;
                (items[rank], names) = (item(member, score), rest);
            }
        }
        debug_assert!(items.is_sorted_by(|one, other| {
            let name = member_of(*other).field(store);
            compare(store, *one, score_at(other.first), &name).is_lt()
        }));
        set.tree().fill(store, &items)?;
        Ok(set)
    }
}
