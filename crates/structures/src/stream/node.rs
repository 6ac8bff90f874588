//! A node of a stream: entries in one block, of which those after some offset are in use.
//!
//! ```text
//! 0   length of all bytes u32 | their crc32c u32                         logged
//! 8   window, self-checksummed: begin u16 | entries in use u16 |         logged
//!     entries ever u15 | apart u1
//! 16  bytes: milliseconds u64, sequence number u64 of the first entry it had; then its content
//! ```
//!
//! The content is the shared fields, then the entries. If an entry is too long for a block, the
//! content is *apart*: it is in a blob, and the block has the blob's word. New entries are written
//! after the bytes; old ones are removed by moving the window's begin; entries removed in between
//! are left out of a copy.

use std::borrow::Cow;
use std::ops::Range;

use heap::{Full, Ptr, View};

use super::entry::{self, Entries, Shared};
use super::{Id, Limits};
use crate::blob::{Blob, Checksum};
use crate::listpack::Item;
use crate::reclaim::Queue;
use crate::{Damaged, Store, self_checksummed};

pub(super) const HEADER: usize = 16;
const WINDOW: u64 = 8;
/// Bytes of the ID before the content.
const BASE: usize = 16;
/// Bytes that most entries do not exceed.
const USUAL: usize = 128;
/// A node is this much smaller than a power of two, so that nodes fill spans of the heap.
pub(super) const LESS: usize = 64 + HEADER;
/// Maximum number of bytes of a node: offsets have 16 bits.
pub const MAX_BYTES: usize = (64 << 10) - LESS;
/// Maximum number of entries of a node: their number has 15 bits.
pub const MAX_COUNT: usize = 0x7fff;

const _: () = assert!(HEADER + MAX_BYTES <= heap::MAX_BLOCK && MAX_BYTES <= u16::MAX as usize);

/// The entries that are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    /// Offset in the content of the first one; 0 if nothing was removed from the front, and if the
    /// content is apart.
    begin: usize,
    live: usize,
    /// The number of entries, including removed ones.
    ever: usize,
    apart: bool,
}

impl Window {
    fn word(self) -> u64 {
        let (begin, live, ever) = (self.begin as u64, self.live as u64, self.ever as u64);
        self_checksummed::encode(begin | live << 16 | ever << 32 | u64::from(self.apart) << 47)
    }

    fn from_word(word: u64) -> Option<Window> {
        let word = self_checksummed::decode(word)?;
        Some(Window {
            begin: usize::from(word as u16),
            live: usize::from((word >> 16) as u16),
            ever: (word >> 32) as usize & MAX_COUNT,
            apart: word >> 47 & 1 != 0,
        })
    }
}

/// A node, by its block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) at: Ptr,
    checksum: Checksum,
    window: Window,
    /// The smallest ID that an entry of the node may have.
    pub(super) base: Id,
}

/// The content of a node, and the part that is in use.
pub(super) struct Content<'v> {
    node: Node,
    bytes: Cow<'v, [u8]>,
}

/// A node without its place.
#[derive(Clone, Debug)]
pub(super) struct Export {
    pub(super) base: Id,
    bytes: Vec<u8>,
    window: Window,
    apart: Option<Vec<u8>>,
}

impl Export {
    /// Returns the number of entries in use.
    pub(super) fn live(&self) -> u64 {
        self.window.live as u64
    }
}

impl Node {
    pub(super) fn read<V: View>(view: &V, at: Ptr) -> Result<Node, Damaged> {
        let checksum = Checksum::from_word(view.word(at));
        let checksum =
            checksum.ok_or(Damaged::new("stream node's length", at, 0, view.word(at)))?;
        let word = view.word(at.add(WINDOW));
        let len = checksum.len as usize;
        let fits = |window: &Window| {
            (BASE..=MAX_BYTES).contains(&len)
                && BASE + window.begin <= len
                && (1..=window.ever).contains(&window.live)
                && (!window.apart || len == BASE + 8)
        };
        let window = Window::from_word(word).filter(fits);
        let window = window.ok_or(Damaged::new("stream node", at, 0, word))?;
        Ok(Node { at, checksum, window, base: Node::base_of(view, at) })
    }

    /// Returns the base of the node at a place.
    pub(super) fn base_of<V: View>(view: &V, at: Ptr) -> Id {
        let word = |number: u64| view.word(at.add(HEADER as u64 + 8 * number));
        Id { ms: word(0), seq: word(1) }
    }

    /// Creates a node of one entry, with space for this many bytes in all if there is such a block.
    pub(super) fn create<S: Store>(
        store: &mut S,
        id: Id,
        pairs: &[(Item<'_>, Item<'_>)],
        capacity: usize,
    ) -> Result<Ptr, Full> {
        let mut bytes = id.to_bytes().to_vec();
        Shared::encode(pairs, &mut bytes);
        entry::encode_first(pairs, &mut bytes);
        let apart = bytes.len() > MAX_BYTES;
        if apart {
            let blob = Blob::create(store, &bytes[BASE..])?;
            bytes.truncate(BASE);
            bytes.extend(blob.word().to_le_bytes());
        }
        write(store, &bytes, Window { begin: 0, live: 1, ever: 1, apart }, capacity)
    }

    /// Returns the number of entries in use.
    pub(super) fn live(&self) -> u64 {
        self.window.live as u64
    }

    /// Returns the number of stored bytes, without those of the header.
    pub(super) fn stored(&self) -> usize {
        self.checksum.len as usize
    }

    fn all<'v, V: View>(&self, view: &'v V) -> &'v [u8] {
        view.bytes(self.at.add(HEADER as u64), self.stored())
    }

    /// Returns the blob of the content, if the content is apart.
    pub(super) fn blob<V: View>(&self, view: &V) -> Option<Blob> {
        let word = view.word(self.at.add((HEADER + BASE) as u64));
        self.window.apart.then(|| Blob::from_word(word))
    }

    fn verify<V: View>(&self, view: &V) -> Result<(), Damaged> {
        let found = Checksum::of(self.all(view));
        Damaged::unless_equal("stream node's bytes", self.at, self.checksum.word(), found.word())
    }

    /// Returns the content; with `verify`, verified against its checksum. A blob is not verified,
    /// since it is long.
    pub(super) fn content<'v, V: View>(
        &self,
        view: &'v V,
        verify: bool,
    ) -> Result<Content<'v>, Damaged> {
        let all = self.all(view);
        if verify {
            self.verify(view)?;
        }
        let bytes = match self.blob(view) {
            Some(blob) => Cow::Owned(blob.to_vec(view)?),
            None => Cow::Borrowed(all.get(BASE..).unwrap_or_default()),
        };
        Ok(Content { node: *self, bytes })
    }

    /// Writes an entry after the others; returns the node that then has it, or `None` if it does
    /// not fit.
    pub(super) fn append<S: Store>(
        &self,
        store: &mut S,
        id: Id,
        pairs: &[(Item<'_>, Item<'_>)],
        limits: Limits,
    ) -> Result<Option<Ptr>, super::Error> {
        if self.window.apart || self.window.ever >= limits.count {
            return Ok(None);
        }
        let mut new = Vec::with_capacity(USUAL);
        let content = self.content(store, false)?;
        entry::encode(self.base, content.shared()?, id, pairs, &mut new);
        if !limits.admit(self.stored(), self.window.ever, new.len()) {
            return Ok(None);
        }
        let (live, ever) = (self.window.live + 1, self.window.ever + 1);
        drop(content);
        if HEADER + self.stored() + new.len() <= store.capacity(self.at) {
            store.append(self.at, HEADER + self.stored(), &new);
            store.set(self.at, self.checksum.and(&new).word());
            store.set(self.at.add(WINDOW), Window { live, ever, ..self.window }.word());
            return Ok(Some(self.at));
        }
        let mut bytes = self.in_use(store)?;
        bytes.extend_from_slice(&new);
        let capacity = (2 * bytes.len()).min(limits.bytes);
        let window = Window { begin: 0, live, ever, apart: false };
        let at = write(store, &bytes, window, capacity)?;
        store.free(self.at);
        Ok(Some(at))
    }

    /// Returns the bytes without the entries that were removed from the front.
    fn in_use<V: View>(&self, view: &V) -> Result<Vec<u8>, Damaged> {
        // The new checksum must not cover bytes that the old one does not confirm.
        let content = self.content(view, true)?;
        Ok([&self.base.to_bytes(), content.shared()?.all, content.used()?].concat())
    }

    /// Removes the first `count` entries, which are not all; the rest begins at an offset of the
    /// content.
    pub(super) fn narrow<S: Store>(&self, store: &mut S, count: u64, begin: usize) {
        let live = self.window.live - count as usize;
        store.set(self.at.add(WINDOW), Window { live, begin, ..self.window }.word());
    }

    /// Removes this many entries, and keeps those in these ranges of the content, in order; returns
    /// the new node.
    pub(super) fn with_only<S: Store>(
        &self,
        store: &mut S,
        gone: u64,
        kept: &[Range<usize>],
    ) -> Result<Ptr, super::Error> {
        let content = self.content(store, true)?;
        let mut bytes = self.base.to_bytes().to_vec();
        bytes.extend_from_slice(content.shared()?.all);
        for kept in kept {
            bytes.extend_from_slice(&content.bytes[kept.clone()]);
        }
        drop(content);
        let capacity = bytes.len().max(store.capacity(self.at) - HEADER);
        let live = self.window.live - gone as usize;
        let window = Window { begin: 0, live, ever: self.window.ever, apart: false };
        let at = write(store, &bytes, window, capacity)?;
        store.free(self.at);
        Ok(at)
    }

    /// Moves the node, and its blob if it has one, out of sparse spans; returns its new place if it
    /// moved.
    pub(super) fn relocate<S: Store>(&self, store: &mut S) -> Result<Option<Ptr>, Full> {
        if self.verify(store).is_err() {
            // A damaged node stays as it is, to be found.
            return Ok(None);
        }
        let mut bytes = self.all(store).to_vec();
        let mut moved = store.is_sparse(self.at);
        if let Some(blob) = self.blob(store)
            && let Some(blob) = blob.relocate(store)?
        {
            bytes.truncate(BASE);
            bytes.extend(blob.word().to_le_bytes());
            moved = true;
        }
        if !moved {
            return Ok(None);
        }
        let capacity = store.capacity(self.at) - HEADER;
        let at = write(store, &bytes, self.window, capacity)?;
        store.free(self.at);
        Ok(Some(at))
    }

    /// Returns everything that is needed to recreate the node elsewhere.
    pub(super) fn export<V: View>(&self, view: &V) -> Result<Export, Damaged> {
        self.check(view)?;
        let apart = self.blob(view).map(|blob| blob.to_vec(view)).transpose()?;
        let bytes = self.all(view).to_vec();
        Ok(Export { base: self.base, bytes, window: self.window, apart })
    }

    /// Creates a node from an exported one.
    pub(super) fn import<S: Store>(store: &mut S, export: &Export) -> Result<Ptr, Full> {
        let Some(apart) = &export.apart else {
            return write(store, &export.bytes, export.window, 0);
        };
        let blob = Blob::create(store, apart)?;
        let bytes = [&export.bytes[..BASE], &blob.word().to_le_bytes()].concat();
        write(store, &bytes, export.window, 0)
    }

    /// Frees the node; returns how many blocks were freed immediately.
    pub(super) fn release<S: Store>(&self, store: &mut S, queue: Queue) -> Result<usize, Full> {
        let apart = match self.blob(store) {
            Some(blob) => queue.release_blob(store, blob)?,
            None => 0,
        };
        store.free(self.at);
        Ok(apart + 1)
    }

    /// Returns the error for a node of which only `found` entries can be read.
    pub(super) fn lacks_entries(&self, found: u64) -> Damaged {
        Damaged::new("stream node's entries", self.at, self.live(), found)
    }

    /// Verifies bytes and entries; returns the ID of the last entry.
    pub(super) fn check<V: View>(&self, view: &V) -> Result<Id, Damaged> {
        if let Some(blob) = self.blob(view) {
            blob.check(view)?;
        }
        let content = self.content(view, true)?;
        let mut entries = content.entries()?;
        let (mut count, mut last) = (0, None);
        for entry in entries.by_ref() {
            let rises = last.is_none_or(|last| entry.id > last) && entry.id >= self.base;
            if !rises {
                return Err(Damaged::new("order of a stream's IDs", self.at, 0, entry.id.ms));
            }
            (count, last) = (count + 1, Some(entry.id));
        }
        match last {
            Some(last) if count == self.window.live && entries.rest().is_empty() => Ok(last),
            _ => Err(content.damaged()),
        }
    }
}

impl<'v> Content<'v> {
    fn damaged(&self) -> Damaged {
        let Node { at, window, .. } = self.node;
        Damaged::new("stream node's entries", at, window.live as u64, self.bytes.len() as u64)
    }

    fn shared(&self) -> Result<Shared<'_>, Damaged> {
        Shared::decode(&self.bytes).ok_or(self.damaged())
    }

    /// Returns the offset of the entries in use.
    fn begin(&self) -> Result<usize, Damaged> {
        let shared = self.shared()?.all.len();
        let begin = self.node.window.begin;
        match begin {
            0 => Ok(shared),
            _ if (shared..=self.bytes.len()).contains(&begin) => Ok(begin),
            _ => Err(self.damaged()),
        }
    }

    fn used(&self) -> Result<&[u8], Damaged> {
        Ok(&self.bytes[self.begin()?..])
    }

    /// Returns the entries in use. Callers that go through all of them must count them: the
    /// iteration ends early in a damaged node.
    pub(super) fn entries(&self) -> Result<Entries<'_>, Damaged> {
        let (used, live) = (self.used()?, self.node.window.live);
        Ok(Entries::of(self.node.base, self.shared()?, used, live))
    }

    /// Returns the offset of `rest`, which is the end of the content.
    pub(super) fn offset(&self, rest: &[u8]) -> usize {
        self.bytes.len() - rest.len()
    }
}

fn write<S: Store>(
    store: &mut S,
    bytes: &[u8],
    window: Window,
    capacity: usize,
) -> Result<Ptr, Full> {
    let exact = HEADER + bytes.len();
    let fresh = match store.reserve(HEADER + capacity.max(bytes.len())) {
        Err(Full) if capacity > bytes.len() => store.reserve(exact)?,
        fresh => fresh?,
    };
    store.write_word(&fresh, 0, Checksum::of(bytes).word());
    store.write_word(&fresh, WINDOW as usize, window.word());
    store.write(&fresh, HEADER, bytes);
    Ok(store.publish(fresh, exact))
}
