//! A blob of many chunks: a top block, leaves, chunks.
//!
//! The top has the blob's length and a word for each leaf; a leaf has two words for each chunk: its
//! place, and the length and checksum of its stored bytes. A chunk represents 64 KiB of the blob,
//! the last one the rest. A chunk's block may store fewer bytes; the remaining ones read as zeros,
//! as does a null chunk or a whole null leaf. So a far write costs no more than a near one.
//!
//! A leaf has space for a power of two of chunks: the smallest, at least four, that covers the
//! blob's chunks. Words after those of the last chunk are null, except in a blob that is being
//! freed.
//!
//! Every word is self-checksummed, including null words: a lost word reads as zeros, which must not
//! pass for a hole or for a blob without bytes.

use std::ops::Range;

use heap::{Full, MAX_BLOCK, Ptr, View};

use super::checksum::Checksum;
use super::{MAX_LEN, block};
use crate::{Damaged, Error, Fill, Store, self_checksummed};

/// Bytes of the blob that one chunk represents.
pub const CHUNK: u64 = MAX_BLOCK as u64;
/// Chunks of one leaf.
pub const LEAF_CHUNKS: u64 = 256;
/// Leaves of one top.
pub(super) const LEAVES: u64 = 32;

const LEAF_ENTRY: usize = 16;
/// Size of the top: the length, and a word for each leaf.
const TOP: usize = 8 + 8 * LEAVES as usize;
/// Number of chunks for which the smallest leaf has space.
pub const SMALLEST_LEAF: u64 = 4;

const _: () = assert!(CHUNK * LEAF_CHUNKS * LEAVES == MAX_LEN);
const _: () = assert!(LEAF_ENTRY as u64 * LEAF_CHUNKS == 4096 && TOP == 264);

/// A table, known by its top block.
#[derive(Clone, Copy)]
pub(super) struct Table {
    pub(super) top: Ptr,
}

/// A leaf's entry for a chunk.
#[derive(Clone, Copy, Default)]
pub(super) struct Chunk {
    pub(super) at: Ptr,
    pub(super) checksum: Checksum,
}

impl Chunk {
    /// Returns the stored bytes.
    fn bytes<V: View>(self, view: &V) -> &[u8] {
        if self.at.is_null() {
            return &[];
        }
        view.bytes(self.at, self.checksum.len as usize)
    }

    /// Returns the stored bytes, verified against their checksum.
    fn verified<V: View>(self, view: &V) -> Result<&[u8], Damaged> {
        let bytes = self.bytes(view);
        Damaged::unless_equal(
            "blob chunk",
            self.at,
            self.checksum.word(),
            Checksum::of(bytes).word(),
        )?;
        Ok(bytes)
    }

    /// Returns the words of a leaf.
    fn words(self) -> [u64; 2] {
        [self_checksummed::encode(self.at.raw()), self.checksum.word()]
    }
}

/// Returns the number of chunks of a blob of this length.
pub(super) fn chunks(len: u64) -> u64 {
    len.div_ceil(CHUNK)
}

/// Returns the capacity in chunks of the leaf that contains the last of `chunks` chunks.
fn leaf_capacity(chunks: u64) -> u64 {
    let used = chunks - (chunks - 1) / LEAF_CHUNKS * LEAF_CHUNKS;
    used.next_power_of_two().max(SMALLEST_LEAF)
}

/// Creates a table of these bytes, which are too many for one block.
pub(super) fn create<F: Fill>(fill: &mut F, bytes: &[u8]) -> Result<Table, Full> {
    let mut pieces = bytes.chunks(CHUNK as usize);
    build(fill, bytes.len() as u64, |fill| match pieces.next() {
        Some(piece) => write_chunk(fill, piece, piece.len()),
        None => Ok(Chunk::default()),
    })
}

/// Creates a table of `len` bytes from a source.
pub(super) fn create_with<F: Fill>(
    fill: &mut F,
    len: u64,
    mut source: impl FnMut(u64, &mut [u8]),
) -> Result<Table, Full> {
    let mut buffer = vec![0; CHUNK as usize];
    let mut at = 0;
    build(fill, len, |fill| {
        let piece = &mut buffer[..(len - at).min(CHUNK) as usize];
        source(at, piece);
        at += piece.len() as u64;
        write_chunk(fill, piece, piece.len())
    })
}

/// Creates a table of length 0, to be written to.
pub(super) fn empty<F: Fill>(fill: &mut F) -> Result<Table, Full> {
    build(fill, 0, |_| Ok(Chunk::default()))
}

/// Creates a table with the bytes of a block, and frees the block.
pub(super) fn from_block<S: Store>(store: &mut S, block: Ptr) -> Result<Table, Error> {
    let bytes = block::verified(store, block)?.1.to_vec();
    let table =
        build(store, bytes.len() as u64, |store| write_chunk(store, &bytes, CHUNK as usize))?;
    store.free(block);
    Ok(table)
}

fn build<F: Fill>(
    fill: &mut F,
    len: u64,
    mut next: impl FnMut(&mut F) -> Result<Chunk, Full>,
) -> Result<Table, Full> {
    let chunks = chunks(len);
    let mut top = [self_checksummed::encode(0); TOP / 8];
    top[0] = self_checksummed::encode(len);
    for leaf in 0..chunks.div_ceil(LEAF_CHUNKS) {
        let last = chunks.min((leaf + 1) * LEAF_CHUNKS);
        let own = (leaf * LEAF_CHUNKS..last).map(|_| next(fill));
        let own: Vec<Chunk> = own.collect::<Result<_, _>>()?;
        top[1 + leaf as usize] =
            self_checksummed::encode(write_leaf(fill, &own, leaf_capacity(last))?.raw());
    }
    let fresh = fill.reserve(TOP)?;
    write_words(fill, &fresh, &top);
    Ok(Table { top: fill.publish(fresh, TOP) })
}

/// Visits the sizes of the blocks that `build` reserves for a blob of this length, in order.
pub(super) fn sizes(len: u64, mut each: impl FnMut(usize)) {
    let chunks = chunks(len);
    for leaf in 0..chunks.div_ceil(LEAF_CHUNKS) {
        let last = chunks.min((leaf + 1) * LEAF_CHUNKS);
        for number in leaf * LEAF_CHUNKS..last {
            each((len - number * CHUNK).min(CHUNK) as usize);
        }
        each(leaf_capacity(last) as usize * LEAF_ENTRY);
    }
    each(TOP);
}

fn write_leaf<F: Fill>(fill: &mut F, chunks: &[Chunk], capacity: u64) -> Result<Ptr, Full> {
    let null = std::iter::repeat(Chunk::default());
    let all = chunks.iter().copied().chain(null).take(capacity as usize);
    let words: Vec<u64> = all.flat_map(Chunk::words).collect();
    let fresh = fill.reserve(words.len() * 8)?;
    write_words(fill, &fresh, &words);
    Ok(fill.publish(fresh, words.len() * 8))
}

fn write_words<F: Fill>(fill: &mut F, fresh: &F::Fresh, words: &[u64]) {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    fill.write(fresh, 0, &bytes);
}

/// Stores a chunk's bytes in a block of this capacity, or in one without spare space if the heap
/// has none.
fn write_chunk<F: Fill>(fill: &mut F, bytes: &[u8], capacity: usize) -> Result<Chunk, Full> {
    let fresh = fill.reserve(capacity).or_else(|_| fill.reserve(bytes.len()))?;
    fill.write(&fresh, 0, bytes);
    Ok(Chunk { at: fill.publish(fresh, bytes.len()), checksum: Checksum::of(bytes) })
}

static ZEROS: [u8; CHUNK as usize] = [0; CHUNK as usize];

impl Table {
    pub(super) fn len<V: View>(self, view: &V) -> Result<u64, Damaged> {
        let len = open(view, self.top, "blob length")?;
        Damaged::unless_equal("blob length", self.top, len.min(MAX_LEN), len)?;
        Ok(len)
    }

    /// Returns the word of the top that refers to a leaf.
    fn leaf_word(self, leaf: u64) -> Ptr {
        self.top.add(8 * (1 + leaf))
    }

    fn leaf<V: View>(self, view: &V, leaf: u64) -> Result<Ptr, Damaged> {
        open(view, self.leaf_word(leaf), "leaf of a blob").map(Ptr::from_raw)
    }

    /// Returns the place of a chunk's entry in its leaf; `None` if the leaf is null.
    fn place<V: View>(self, view: &V, number: u64) -> Result<Option<Ptr>, Damaged> {
        let leaf = self.leaf(view, number / LEAF_CHUNKS)?;
        let offset = LEAF_ENTRY as u64 * (number % LEAF_CHUNKS);
        Ok((!leaf.is_null()).then(|| leaf.add(offset)))
    }

    pub(super) fn chunk<V: View>(self, view: &V, number: u64) -> Result<Chunk, Damaged> {
        let Some(place) = self.place(view, number)? else { return Ok(Chunk::default()) };
        let at = Ptr::from_raw(open(view, place, "chunk of a blob")?);
        let (word, most) = (view.word(place.add(8)), CHUNK as u32);
        let fits =
            |checksum: &Checksum| (checksum.len == 0) == at.is_null() && checksum.len <= most;
        let checksum = Checksum::from_word(word).filter(fits);
        Ok(Chunk {
            at,
            checksum: checksum.ok_or(Damaged::new("blob chunk length", place, 0, word))?,
        })
    }

    /// Verifies the words after those of the last chunk, which matter when the blob grows.
    pub(super) fn check_spare<V: View>(self, view: &V) -> Result<(), Damaged> {
        (0..LEAVES).try_for_each(|leaf| self.leaf(view, leaf).map(drop))?;
        let chunks = chunks(self.len(view)?);
        let Some(last) = chunks.checked_sub(1) else { return Ok(()) };
        let end = last / LEAF_CHUNKS * LEAF_CHUNKS + leaf_capacity(chunks);
        (chunks..end).try_for_each(|number| self.chunk(view, number).map(drop))
    }

    /// Visits a range within the blob's length.
    pub(super) fn read<'v, V: View>(
        self,
        view: &'v V,
        range: Range<u64>,
        visit: &mut impl FnMut(&'v [u8]),
    ) -> Result<(), Damaged> {
        let mut at = range.start;
        while at < range.end {
            let number = at / CHUNK;
            let end = range.end.min((number + 1) * CHUNK);
            let (from, to) = ((at % CHUNK) as usize, (end - number * CHUNK) as usize);
            let stored = self.chunk(view, number)?.bytes(view);
            let cut = stored.len().clamp(from, to);
            if from < cut {
                visit(&stored[from..cut]);
            }
            if cut < to {
                visit(&ZEROS[cut..to]);
            }
            at = end;
        }
        Ok(())
    }

    /// Overwrites from `at` on, and extends the blob if necessary.
    pub(super) fn write<S: Store>(self, store: &mut S, at: u64, bytes: &[u8]) -> Result<(), Error> {
        let len = self.len(store)?;
        let end = at + bytes.len() as u64;
        debug_assert!(end <= MAX_LEN, "the caller checks the length");
        if end > len {
            self.reserve_space(store, len, end)?;
            store.set(self.top, self_checksummed::encode(end));
        }
        let mut rest = bytes;
        let mut at = at;
        while !rest.is_empty() {
            let from = (at % CHUNK) as usize;
            let (piece, after) = rest.split_at(rest.len().min(CHUNK as usize - from));
            self.write_piece(store, at / CHUNK, len, from, piece)?;
            at += piece.len() as u64;
            rest = after;
        }
        Ok(())
    }

    /// Writes within one chunk of a blob that was `len` bytes long: in place after the stored
    /// bytes, if there is space.
    fn write_piece<S: Store>(
        self,
        store: &mut S,
        number: u64,
        len: u64,
        from: usize,
        piece: &[u8],
    ) -> Result<(), Error> {
        let old = self.chunk(store, number)?;
        let to = from + piece.len();
        let stored = old.checksum.len as usize;
        if !old.at.is_null() && from == stored && to <= store.capacity(old.at) {
            store.append(old.at, from, piece);
            return self.set_chunk(
                store,
                number,
                Chunk { checksum: old.checksum.and(piece), ..old },
            );
        }
        let mut content = old.verified(store)?.to_vec();
        content.resize(stored.max(to), 0);
        content[from..to].copy_from_slice(piece);
        let at_the_end = number * CHUNK + to as u64 > len;
        let capacity = if at_the_end { CHUNK as usize } else { content.len() };
        let new = write_chunk(store, &content, capacity)?;
        if !old.at.is_null() {
            store.free(old.at);
        }
        self.set_chunk(store, number, new)
    }

    fn set_chunk<S: Store>(self, store: &mut S, number: u64, chunk: Chunk) -> Result<(), Error> {
        let place = match self.place(store, number)? {
            Some(place) => place,
            None => {
                let chunks = chunks(self.len(store)?).min((number / LEAF_CHUNKS + 1) * LEAF_CHUNKS);
                let leaf = write_leaf(store, &[], leaf_capacity(chunks))?;
                store.set(
                    self.leaf_word(number / LEAF_CHUNKS),
                    self_checksummed::encode(leaf.raw()),
                );
                leaf.add(LEAF_ENTRY as u64 * (number % LEAF_CHUNKS))
            }
        };
        let [at, checksum] = chunk.words();
        if store.word(place) != at {
            store.set(place, at);
        }
        store.set(place.add(8), checksum);
        Ok(())
    }

    /// Gives the last leaf space for more chunks; further leaves are null until they are written
    /// to.
    fn reserve_space<S: Store>(self, store: &mut S, len: u64, new_len: u64) -> Result<(), Error> {
        let (old, new) = (chunks(len), chunks(new_len));
        let leaves = old.div_ceil(LEAF_CHUNKS);
        match leaves.checked_sub(1) {
            Some(last) => self.grow_leaf(store, last, old, new.min(leaves * LEAF_CHUNKS)),
            None => Ok(()),
        }
    }

    fn grow_leaf<S: Store>(
        self,
        store: &mut S,
        leaf: u64,
        old: u64,
        new: u64,
    ) -> Result<(), Error> {
        let at = self.leaf(store, leaf)?;
        if at.is_null() || leaf_capacity(old) == leaf_capacity(new) {
            return Ok(());
        }
        let own = (leaf * LEAF_CHUNKS..old).map(|number| self.chunk(store, number));
        let own: Vec<Chunk> = own.collect::<Result<_, _>>()?;
        let grown = write_leaf(store, &own, leaf_capacity(new))?;
        store.set(self.leaf_word(leaf), self_checksummed::encode(grown.raw()));
        store.free(at);
        Ok(())
    }

    /// Frees `budget` blocks from the end, then the leaf and the top; returns whether something is
    /// left, and how many blocks were freed. Blocks that only damaged words led to are not found:
    /// their space is lost.
    pub(super) fn free_step<S: Store>(self, store: &mut S, budget: usize) -> (bool, usize) {
        let mut chunks = self.len(store).map_or(0, chunks);
        let mut freed = 0;
        while chunks > 0 && freed < budget {
            let number = chunks - 1;
            let first_of_leaf = number / LEAF_CHUNKS * LEAF_CHUNKS;
            let leaf = self.leaf(store, number / LEAF_CHUNKS).unwrap_or_default();
            if leaf.is_null() {
                chunks = first_of_leaf;
                continue;
            }
            let chunk = self.chunk(store, number).unwrap_or_default();
            if !chunk.at.is_null() {
                store.free(chunk.at);
                freed += 1;
            }
            if number == first_of_leaf {
                store.free(leaf);
                freed += 1;
            }
            chunks = number;
        }
        if chunks == 0 {
            store.free(self.top);
            return (false, freed + 1);
        }
        store.set(self.top, self_checksummed::encode(chunks * CHUNK));
        (true, freed)
    }

    /// Moves the top and the leaves out of sparse spans; chunks fill whole spans. A damaged table
    /// stays where it is.
    pub(super) fn relocate<S: Store>(self, store: &mut S) -> Result<Option<Table>, Full> {
        let Ok(len) = self.check_spare(store).and_then(|()| self.len(store)) else {
            return Ok(None);
        };
        let chunks = chunks(len);
        for leaf in 0..chunks.div_ceil(LEAF_CHUNKS) {
            let at = self.leaf(store, leaf).unwrap_or_default();
            if !at.is_null() && store.is_sparse(at) {
                let last = chunks.min((leaf + 1) * LEAF_CHUNKS);
                let own = (leaf * LEAF_CHUNKS..last).map(|number| self.chunk(store, number));
                let Ok(own) = own.collect::<Result<Vec<Chunk>, _>>() else { return Ok(None) };
                let moved = write_leaf(store, &own, leaf_capacity(last))?;
                store.set(self.leaf_word(leaf), self_checksummed::encode(moved.raw()));
                store.free(at);
            }
        }
        if !store.is_sparse(self.top) {
            return Ok(None);
        }
        let words: [u64; TOP / 8] = std::array::from_fn(|i| store.word(self.top.add(8 * i as u64)));
        let fresh = store.reserve(TOP)?;
        write_words(store, &fresh, &words);
        let top = store.publish(fresh, TOP);
        store.free(self.top);
        Ok(Some(Table { top }))
    }

    /// Visits the blocks that can be reached.
    pub(super) fn blocks<V: View>(self, view: &V, visit: &mut impl FnMut(Ptr)) {
        visit(self.top);
        let chunks = self.len(view).map_or(0, chunks);
        for leaf in 0..chunks.div_ceil(LEAF_CHUNKS) {
            let at = self.leaf(view, leaf).unwrap_or_default();
            if at.is_null() {
                continue;
            }
            visit(at);
            let own = leaf * LEAF_CHUNKS..chunks.min((leaf + 1) * LEAF_CHUNKS);
            own.filter_map(|number| self.chunk(view, number).ok())
                .map(|chunk| chunk.at)
                .filter(|at| !at.is_null())
                .for_each(&mut *visit);
        }
    }
}

/// Returns the number in a self-checksummed word.
fn open<V: View>(view: &V, at: Ptr, what: &'static str) -> Result<u64, Damaged> {
    let word = view.word(at);
    self_checksummed::decode(word).ok_or(Damaged::new(what, at, 0, word))
}
