//! A node of a list: packed elements in one block, of which a window is in use.
//!
//! ```text
//! 0   length of all bytes u32 | their crc32c u32                         logged
//! 8   window, self-checksummed: begin u16 | end u16 | elements u15 |     logged
//!     reversed u1
//! 16  elements
//! ```
//!
//! An element that is pushed at the end of the bytes is written after them; popping at either end
//! narrows the window. Bytes that a reader may have seen are never overwritten: a new element goes
//! after the length, not after the window's end.
//!
//! A node has a direction. In a node that was begun at the head of a list, the elements are
//! reversed, so that pushing at the head also writes after the bytes.

use std::iter::Peekable;

use heap::{Full, Ptr, View};

use super::entry;
use super::{Limits, Side};
use crate::blob::Checksum;
use crate::listpack::Item;
use crate::{Damaged, Store, self_checksummed};

pub(super) const HEADER: usize = 16;
const WINDOW: u64 = 8;
/// Maximum number of bytes of a node's elements: offsets have 16 bits.
pub const MAX_BYTES: usize = (64 << 10) - LESS;
/// Eight blocks of 8128 bytes fill a span, or four of 16320, and so on.
pub(super) const LESS: usize = 64 + HEADER;
/// Maximum number of elements of a node: their number has 15 bits.
pub const MAX_COUNT: usize = 0x7fff;
/// A node with at most this many bytes of elements is copied if it cannot grow in place; a larger
/// one is left as it is, and another is begun.
pub const SMALL: usize = 512;

/// Capacity, in bytes of elements, of a node that will get many: eight such nodes fill a span of
/// the heap.
pub const NODE_CAPACITY: usize = 8128 - HEADER;

const _: () = assert!(HEADER + MAX_BYTES <= heap::MAX_BLOCK && MAX_BYTES <= u16::MAX as usize);

/// The bytes that are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) begin: usize,
    pub(super) end: usize,
    pub(super) count: usize,
    pub(super) reversed: bool,
}

impl Window {
    fn word(self) -> u64 {
        let (begin, end, count) = (self.begin as u64, self.end as u64, self.count as u64);
        self_checksummed::encode(begin | end << 16 | count << 32 | u64::from(self.reversed) << 47)
    }

    fn from_word(word: u64) -> Option<Window> {
        let word = self_checksummed::decode(word)?;
        Some(Window {
            begin: usize::from(word as u16),
            end: usize::from((word >> 16) as u16),
            count: (word >> 32) as usize & MAX_COUNT,
            reversed: word >> 47 & 1 != 0,
        })
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) at: Ptr,
    checksum: Checksum,
    pub(super) window: Window,
}

/// How elements were added to a node.
pub(super) enum Pushed {
    /// At least one, after the bytes that were there.
    InPlace,
    /// One, with the others in a new block; the old block is freed.
    Copied(Ptr),
    /// None.
    NoSpace,
}

impl Node {
    pub(super) fn read<V: View>(view: &V, at: Ptr) -> Result<Node, Damaged> {
        let checksum = Checksum::from_word(view.word(at));
        let checksum = checksum.ok_or(Damaged::new("list node's length", at, 0, view.word(at)))?;
        let word = view.word(at.add(WINDOW));
        let fits = |window: &Window| {
            window.begin <= window.end && window.end <= checksum.len as usize && window.count > 0
        };
        let window = Window::from_word(word).filter(fits);
        let window = window.filter(|_| checksum.len as usize <= MAX_BYTES);
        let window = window.ok_or(Damaged::new("list node", at, 0, word))?;
        Ok(Node { at, checksum, window })
    }

    /// Returns all bytes of the block.
    fn all<'v, V: View>(&self, view: &'v V) -> &'v [u8] {
        view.bytes(self.at.add(HEADER as u64), self.checksum.len as usize)
    }

    /// Returns the bytes in use.
    pub(super) fn bytes<'v, V: View>(&self, view: &'v V) -> &'v [u8] {
        let from = (HEADER + self.window.begin) as u64;
        view.bytes(self.at.add(from), self.window.end - self.window.begin)
    }

    pub(super) fn len(&self) -> usize {
        self.window.end - self.window.begin
    }

    /// Verifies the bytes against their checksum.
    pub(super) fn verify<V: View>(&self, view: &V) -> Result<(), Damaged> {
        let found = Checksum::of(self.all(view));
        Damaged::unless_equal("list node's bytes", self.at, self.checksum.word(), found.word())
    }

    pub(super) fn stored(&self) -> usize {
        self.checksum.len as usize
    }

    pub(super) fn damaged(&self, what: &'static str) -> Damaged {
        Damaged::new(what, self.at, self.window.count as u64, self.len() as u64)
    }

    /// Returns the elements in the order of the list, or in reverse.
    pub(super) fn elements<'v, V: View>(&self, view: &'v V, from: Side) -> Elements<'v> {
        self.elements_of(self.bytes(view), from)
    }

    /// Like [`Node::elements`], for a copy of the node's bytes.
    pub(super) fn elements_of<'b>(&self, bytes: &'b [u8], from: Side) -> Elements<'b> {
        let left_to_right = (from == Side::Head) != self.window.reversed;
        Elements { bytes, left: self.window.count, left_to_right }
    }

    /// Shows elements from one side on, without the first `skipped`, until `visit` returns `false`.
    /// Returns whether it did, or an error if there are not as many as there should be.
    #[inline]
    pub(super) fn visit<'v, V: View>(
        &self,
        view: &'v V,
        from: Side,
        skipped: usize,
        mut visit: impl FnMut(Item<'v>) -> bool,
    ) -> Result<bool, Damaged> {
        let mut elements = self.elements(view, from);
        let missing = || self.damaged("list node's elements");
        for _ in 0..skipped {
            elements.step().ok_or_else(missing)?;
        }
        for _ in skipped..self.window.count {
            let goes_on = match elements.step_short() {
                Some(text) => visit(Item::Bytes(text)),
                None => visit(elements.step().ok_or_else(missing)?.0),
            };
            if !goes_on {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Takes elements from the front of `items` and adds them at one side of the node, one after
    /// the other: all that fit in place, or else the first.
    pub(super) fn push<'i, S: Store>(
        &self,
        store: &mut S,
        side: Side,
        items: &mut Peekable<impl Iterator<Item = Item<'i>>>,
        limits: Limits,
    ) -> Result<Pushed, Full> {
        let outward = (side == Side::Head) == self.window.reversed;
        let is_open = outward && self.window.end == self.stored();
        if is_open && self.push_in_place(store, items, limits) {
            return Ok(Pushed::InPlace);
        }
        let (window, live) = (self.window, self.len());
        // Popped elements count: offsets cover all of a node's bytes, of which the window may be
        // only the last few.
        let grows = |new| is_open && self.stored() + new <= limits.bytes;
        let is_taken = |item: &Item<'_>| {
            let new = entry::len_of(*item);
            window.count < limits.count
                && live + new <= limits.bytes
                && (grows(new) || live <= SMALL)
        };
        let Some(item) = items.next_if(is_taken) else { return Ok(Pushed::NoSpace) };
        let mut bytes = Vec::with_capacity(live + entry::len_of(item));
        if outward {
            bytes.extend_from_slice(self.bytes(store));
        } else {
            self.elements(store, side.other()).for_each(|item| entry::encode(item, &mut bytes));
        }
        entry::encode(item, &mut bytes);
        let capacity = (2 * bytes.len()).min(limits.bytes).max(bytes.len());
        let at = create(store, &bytes, window.count + 1, side == Side::Head, capacity)?;
        store.free(self.at);
        Ok(Pushed::Copied(at))
    }

    /// Writes as many elements after the node's bytes as fit there, with one change of its words.
    /// Returns false if not even the first does.
    fn push_in_place<'i, S: Store>(
        &self,
        store: &mut S,
        items: &mut Peekable<impl Iterator<Item = Item<'i>>>,
        limits: Limits,
    ) -> bool {
        let most = limits.bytes.min(store.capacity(self.at).saturating_sub(HEADER));
        let (mut bytes, mut count) = (Vec::new(), self.window.count);
        while let Some(item) = items.next_if(|item| {
            let len = bytes.len() + entry::len_of(*item);
            count < limits.count && self.stored() + len <= most
        }) {
            entry::encode(item, &mut bytes);
            count += 1;
        }
        if bytes.is_empty() {
            return false;
        }
        store.append(self.at, HEADER + self.stored(), &bytes);
        store.set(self.at, self.checksum.and(&bytes).word());
        let window = Window { end: self.window.end + bytes.len(), count, ..self.window };
        store.set(self.at.add(WINDOW), window.word());
        true
    }

    /// Removes `count` elements, which take this many bytes and are not all, from one side.
    pub(super) fn narrow<S: Store>(&self, store: &mut S, side: Side, count: usize, bytes: usize) {
        let Window { begin, end, .. } = self.window;
        let at_begin = (side == Side::Head) != self.window.reversed;
        let (begin, end) = if at_begin { (begin + bytes, end) } else { (begin, end - bytes) };
        let window = Window { begin, end, count: self.window.count - count, ..self.window };
        store.set(self.at.add(WINDOW), window.word());
    }

    /// Writes the elements in use to another block, and frees the old one.
    pub(super) fn rewrite<S: Store>(&self, store: &mut S) -> Result<Ptr, Full> {
        let bytes = self.bytes(store).to_vec();
        let Window { count, reversed, .. } = self.window;
        let at = create(store, &bytes, count, reversed, bytes.len())?;
        store.free(self.at);
        Ok(at)
    }

    /// Verifies the bytes and the elements in them.
    pub(super) fn check<V: View>(&self, view: &V) -> Result<(), Damaged> {
        self.verify(view)?;
        let mut bytes = self.bytes(view);
        let mut count = 0;
        while let Some((_, len)) = entry::first(bytes) {
            (count, bytes) = (count + 1, &bytes[len..]);
        }
        let whole = bytes.is_empty() && count == self.window.count;
        whole.then_some(()).ok_or(self.damaged("list node's elements"))
    }
}

/// Creates a node of elements that are already in their order, with space for this many bytes in
/// all if there is such a block.
pub(super) fn create<S: Store>(
    store: &mut S,
    bytes: &[u8],
    count: usize,
    reversed: bool,
    capacity: usize,
) -> Result<Ptr, Full> {
    let exact = HEADER + bytes.len();
    let fresh = match store.reserve(HEADER + capacity.max(bytes.len())) {
        Err(Full) if capacity > bytes.len() => store.reserve(exact)?,
        fresh => fresh?,
    };
    let window = Window { begin: 0, end: bytes.len(), count, reversed };
    store.write_word(&fresh, 0, Checksum::of(bytes).word());
    store.write_word(&fresh, WINDOW as usize, window.word());
    store.write(&fresh, HEADER, bytes);
    Ok(store.publish(fresh, exact))
}

/// The elements of a node from one side on. Ends early if the bytes are no elements.
#[derive(Clone)]
pub(super) struct Elements<'v> {
    bytes: &'v [u8],
    left: usize,
    left_to_right: bool,
}

impl<'v> Elements<'v> {
    /// Returns the next element if it is a short string; otherwise does nothing.
    #[inline(always)]
    fn step_short(&mut self) -> Option<&'v [u8]> {
        let left = self.left.checked_sub(1)?;
        let (text, rest);
        if self.left_to_right {
            text = entry::first_short(self.bytes)?;
            rest = &self.bytes[text.len() + 2..];
        } else {
            text = entry::last_short(self.bytes)?;
            rest = &self.bytes[..self.bytes.len() - text.len() - 2];
        }
        (self.left, self.bytes) = (left, rest);
        Some(text)
    }

    /// Returns the next element, and its bytes.
    #[inline]
    pub(super) fn step(&mut self) -> Option<(Item<'v>, usize)> {
        self.left = self.left.checked_sub(1)?;
        if self.left_to_right {
            let (item, len) = entry::first(self.bytes)?;
            self.bytes = &self.bytes[len..];
            return Some((item, len));
        }
        let (item, len) = entry::last(self.bytes)?;
        self.bytes = &self.bytes[..self.bytes.len() - len];
        Some((item, len))
    }
}

impl<'v> Iterator for Elements<'v> {
    type Item = Item<'v>;

    #[inline]
    fn next(&mut self) -> Option<Item<'v>> {
        self.step().map(|(item, _)| item)
    }
}
