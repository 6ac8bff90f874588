//! The block of one member: a field and its value.
//!
//! ```text
//! 0    field length in bits 0 to 13, value length in bits 14 to 27, bit 30 is set, bit 31: it has
//!      a time
//! 4    crc32c of these lengths, of the time, of the field, of the value
//! 8    time u64, if it has one
//! .    bytes of the field
//! .    bytes of the value
//! ```
//!
//! If field or value has more than 8192 bytes, and in members that were written before there was
//! the shorter header:
//!
//! ```text
//! 0    field length u32; bit 31: it has a time
//! 4    value length u32
//! 8    crc32c of these lengths, of the time, of the field, of the value
//! 12   time u64, if it has one
//! .    field; one of more than 8192 bytes: the word of a blob that holds it
//! .    value; likewise
//! ```
//!
//! A member never changes: another value or another time makes a new block. Only the caller knows
//! what a time means.

use std::borrow::Cow;

use heap::{Full, Ptr, View};

use crate::blob::{Blob, MAX_LEN};
use crate::reclaim::Queue;
use crate::{Damaged, Error, Fill, Store};

/// Bytes before the checksum, in either header.
const SHORT_LENS: usize = 4;
const LONG_LENS: usize = 8;
const CHECKSUM: usize = 4;
/// Maximum length of a field or value that is stored in the block itself.
pub const INLINE: usize = 8 << 10;
const WORD: usize = 8;
const _: () = assert!(LONG_LENS + CHECKSUM + WORD + 2 * INLINE <= heap::MAX_BLOCK);
/// Set in the first four bytes: a time precedes the field.
const TIMED: u32 = 1 << 31;
/// Set in the first four bytes: both lengths are there.
const SHORT: u32 = 1 << 30;
const _: () = assert!(MAX_LEN < SHORT as u64);
/// Bits of each of these lengths.
const LEN_BITS: u32 = 14;
const LEN: u32 = (1 << LEN_BITS) - 1;
const _: () = assert!(INLINE as u64 <= LEN as u64 && 2 * LEN_BITS <= 30);
// A member of 16 bytes without a value takes a block of 24 bytes.
const _: () = assert!(SHORT_LENS + CHECKSUM + 16 == 24);

/// A member, known by its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member(Ptr);

/// The places in a member's block: offsets of the checksum and of the field, and the lengths of
/// field and value. Damaged lengths are cut to the maximum of a blob.
#[derive(Clone, Copy)]
struct Shape {
    checksum: usize,
    begin: usize,
    field: usize,
    value: usize,
}

impl Shape {
    /// Returns the offset of the time, if there is one.
    #[inline]
    fn time(self) -> Option<usize> {
        let at = self.checksum + CHECKSUM;
        (at != self.begin).then_some(at)
    }
}

/// Returns how many bytes a field or value of `len` takes in the block.
const fn padded(len: usize) -> usize {
    if len > INLINE { WORD } else { len }
}

impl Member {
    /// The minimum size of a member's block.
    pub(super) const LEAST: usize = SHORT_LENS + CHECKSUM;

    /// Returns the member whose block is at `at`.
    pub const fn at(at: Ptr) -> Member {
        Member(at)
    }

    /// Returns the place of its block.
    pub const fn ptr(self) -> Ptr {
        self.0
    }

    /// Prefetches its first line, which is the whole of most members.
    #[inline]
    pub fn prefetch<V: View>(self, view: &V) {
        view.prefetch(self.0);
        view.prefetch(self.0.add(64));
    }

    #[inline]
    fn shape<V: View>(self, view: &V) -> Shape {
        let lens = view.bytes(self.0, LONG_LENS).try_into().map_or(0, u64::from_le_bytes);
        let (first, second) = (lens as u32, (lens >> 32) as u32);
        let time = if first & TIMED == 0 { 0 } else { WORD };
        if first & SHORT != 0 {
            let (field, value) = ((first & LEN) as usize, (first >> LEN_BITS & LEN) as usize);
            let begin = SHORT_LENS + CHECKSUM + time;
            return Shape { checksum: SHORT_LENS, begin, field, value };
        }
        let cut = |len: u32| (len as usize).min(MAX_LEN as usize);
        let begin = LONG_LENS + CHECKSUM + time;
        Shape { checksum: LONG_LENS, begin, field: cut(first & !TIMED), value: cut(second) }
    }

    /// Returns its time, if it has one.
    #[inline]
    pub fn time<V: View>(self, view: &V) -> Option<u64> {
        self.shape(view).time().map(|at| {
            let bytes = view.bytes(self.0.add(at as u64), WORD);
            bytes.try_into().map_or(0, u64::from_le_bytes)
        })
    }

    /// Returns how many bytes of its block are in use.
    pub fn size<V: View>(self, view: &V) -> usize {
        let shape = self.shape(view);
        shape.begin + padded(shape.field) + padded(shape.value)
    }

    fn part<V: View>(self, view: &V, at: usize, len: usize) -> Part<'_> {
        let bytes = view.bytes(self.0.add(at as u64), padded(len));
        match len {
            0..=INLINE => Part::Bytes(bytes),
            _ => Part::Blob(Blob::from_word(bytes.try_into().map_or(0, u64::from_le_bytes))),
        }
    }

    fn parts<V: View>(self, view: &V, shape: Shape) -> (Part<'_>, Part<'_>) {
        let field = self.part(view, shape.begin, shape.field);
        (field, self.part(view, shape.begin + padded(shape.field), shape.value))
    }

    /// Returns the field.
    pub fn field<V: View>(self, view: &V) -> Cow<'_, [u8]> {
        let shape = self.shape(view);
        self.part(view, shape.begin, shape.field).read(view)
    }

    /// Returns the value.
    pub fn value<V: View>(self, view: &V) -> Cow<'_, [u8]> {
        let shape = self.shape(view);
        self.part(view, shape.begin + padded(shape.field), shape.value).read(view)
    }

    /// Returns the length of the value without reading it.
    pub fn value_len<V: View>(self, view: &V) -> usize {
        self.shape(view).value
    }

    /// Returns true if this member has the field `wanted`.
    #[inline]
    pub fn has_field<V: View>(self, view: &V, wanted: &[u8]) -> bool {
        let shape = self.shape(view);
        shape.field == wanted.len()
            && *self.part(view, shape.begin, shape.field).read(view) == *wanted
    }

    /// Verifies that its bytes are those that were written, including large fields and values.
    pub fn check<V: View>(self, view: &V) -> Result<(), Damaged> {
        self.checked_parts(view).map(drop)
    }

    /// Returns field and value, if their bytes are those that were written.
    pub fn read_checked<V: View>(self, view: &V) -> Result<FieldAndValue<'_>, Damaged> {
        let (field, value) = self.checked_parts(view)?;
        Ok((field.read(view), value.read(view)))
    }

    fn checked_parts<V: View>(self, view: &V) -> Result<(Part<'_>, Part<'_>), Damaged> {
        let shape = self.shape(view);
        let (field, value) = self.parts(view, shape);
        for blob in [field, value].into_iter().filter_map(Part::blob) {
            blob.check(view)?;
        }
        let stored = view.bytes(self.0.add(shape.checksum as u64), CHECKSUM);
        let stored = stored.try_into().map_or(0, u32::from_le_bytes);
        let mut own = heap::crc32c(view.bytes(self.0, shape.checksum));
        if let Some(at) = shape.time() {
            own = heap::crc32c_append(own, view.bytes(self.0.add(at as u64), WORD));
        }
        for part in [field, value] {
            own = part.add_to(view, own)?;
        }
        Damaged::unless_equal("member", self.0, u64::from(stored), u64::from(own))?;
        Ok((field, value))
    }

    /// Visits the blocks of its blobs.
    pub fn blobs<V: View>(self, view: &V, mut visit: impl FnMut(Ptr)) {
        let (field, value) = self.parts(view, self.shape(view));
        for blob in [field, value].into_iter().filter_map(Part::blob) {
            blob.blocks(view, &mut visit);
        }
    }

    /// Creates a member, with a time if there is one.
    pub fn create<F: Fill>(
        fill: &mut F,
        field: &[u8],
        value: &[u8],
        time: Option<u64>,
    ) -> Result<Member, Full> {
        let long = |fill: &mut F, bytes: &[u8]| match bytes.len() {
            0..=INLINE => Ok(None),
            _ => Blob::create(fill, bytes).map(|blob| Some(blob.word().to_le_bytes())),
        };
        let (long_field, long_value) = (long(fill, field)?, long(fill, value)?);
        let head = Head::new(field.len() as u32, value.len() as u32, time);
        let checksum = [field, value].into_iter().fold(head.checksum(), heap::crc32c_append);
        let field = long_field.as_ref().map_or(field, |word| word.as_slice());
        let value = long_value.as_ref().map_or(value, |word| word.as_slice());
        Member::write(fill, &head, checksum, field, value)
    }

    /// Writes a block of these parts.
    fn write<F: Fill>(
        fill: &mut F,
        head: &Head,
        checksum: u32,
        field: &[u8],
        value: &[u8],
    ) -> Result<Member, Full> {
        let (lens, time) = (head.lens(), head.time());
        let len = lens.len() + CHECKSUM + time.len() + field.len() + value.len();
        let fresh = fill.reserve(len)?;
        fill.write_with(&fresh, 0, len, |bytes| {
            let (first, rest) = bytes.split_at_mut(lens.len());
            first.copy_from_slice(lens);
            let (first, rest) = rest.split_at_mut(CHECKSUM);
            first.copy_from_slice(&checksum.to_le_bytes());
            let (to, rest) = rest.split_at_mut(time.len());
            to.copy_from_slice(time);
            let (to, rest) = rest.split_at_mut(field.len());
            to.copy_from_slice(field);
            rest.copy_from_slice(value);
        });
        Ok(Member(fill.publish(fresh, len)))
    }

    /// Returns the same member with another time or none, in a new block, which takes over the
    /// blobs; frees this one.
    pub(super) fn retime<S: Store>(
        self,
        store: &mut S,
        time: Option<u64>,
    ) -> Result<Member, Error> {
        let shape = self.shape(store);
        let middle = padded(shape.field);
        let len = middle + padded(shape.value);
        let bytes = store.bytes(self.0.add(shape.begin as u64), len).to_vec();
        let head = Head::new(shape.field as u32, shape.value as u32, time);
        let parts = <[Part<'_>; 2]>::from(self.parts(store, shape));
        let checksum = parts
            .into_iter()
            .try_fold(head.checksum(), |checksum, part| part.add_to(store, checksum))?;
        let member = Member::write(store, &head, checksum, &bytes[..middle], &bytes[middle..])?;
        store.free(self.0);
        Ok(member)
    }

    /// Frees the member; its blobs go onto the queue. Returns how many blocks were freed.
    pub fn release<S: Store>(self, store: &mut S, queue: Queue) -> Result<usize, Full> {
        let (field, value) = self.parts(store, self.shape(store));
        let blobs = [field.blob(), value.blob()];
        let mut freed = 1;
        // The blobs of a damaged member are not trusted: their space is lost.
        if blobs != [None, None] && self.check(store).is_ok() {
            for blob in blobs.into_iter().flatten() {
                freed += queue.release_blob(store, blob)?;
            }
        }
        store.free(self.0);
        Ok(freed)
    }

    /// Moves its small blocks out of sparse spans; `None` if it stays.
    pub fn relocate<S: Store>(self, store: &mut S) -> Result<Option<Member>, Full> {
        if !store.is_sparse(self.0) {
            return Ok(None);
        }
        let len = self.size(store);
        let bytes = store.bytes(self.0, len).to_vec();
        let fresh = store.reserve(len)?;
        store.write(&fresh, 0, &bytes);
        let moved = store.publish(fresh, len);
        store.free(self.0);
        Ok(Some(Member(moved)))
    }
}

/// The bytes before the field, except the checksum.
struct Head {
    lens: [u8; LONG_LENS],
    is_short: bool,
    time: Option<[u8; 8]>,
}

impl Head {
    fn new(field: u32, value: u32, time: Option<u64>) -> Head {
        let timed = if time.is_some() { TIMED } else { 0 };
        let is_short = field.max(value) as usize <= INLINE;
        let lens = match is_short {
            true => u64::from(field | value << LEN_BITS | SHORT | timed),
            false => u64::from(field | timed) | u64::from(value) << 32,
        };
        Head { lens: lens.to_le_bytes(), is_short, time: time.map(u64::to_le_bytes) }
    }

    fn lens(&self) -> &[u8] {
        if self.is_short { &self.lens[..SHORT_LENS] } else { &self.lens }
    }

    fn time(&self) -> &[u8] {
        self.time.as_ref().map_or(&[], |time| time.as_slice())
    }

    fn checksum(&self) -> u32 {
        let checksum = heap::crc32c(self.lens());
        self.time.map_or(checksum, |time| heap::crc32c_append(checksum, &time))
    }
}

/// The bytes of a field and of its value.
type FieldAndValue<'v> = (Cow<'v, [u8]>, Cow<'v, [u8]>);

/// A field or a value, in the block or in a blob.
#[derive(Clone, Copy)]
enum Part<'v> {
    Bytes(&'v [u8]),
    Blob(Blob),
}

impl<'v> Part<'v> {
    fn blob(self) -> Option<Blob> {
        match self {
            Part::Bytes(_) => None,
            Part::Blob(blob) => Some(blob),
        }
    }

    /// Reads the bytes. The caller has verified the member: damaged bytes read as none.
    fn read<V: View>(self, view: &'v V) -> Cow<'v, [u8]> {
        match self {
            Part::Bytes(bytes) => Cow::Borrowed(bytes),
            Part::Blob(blob) => Cow::Owned(blob.to_vec(view).unwrap_or_default()),
        }
    }

    fn add_to<V: View>(self, view: &V, checksum: u32) -> Result<u32, Damaged> {
        match self {
            Part::Bytes(bytes) => Ok(heap::crc32c_append(checksum, bytes)),
            Part::Blob(blob) => {
                let mut checksum = checksum;
                blob.read(view, 0..u64::MAX, |piece| {
                    checksum = heap::crc32c_append(checksum, piece)
                })?;
                Ok(checksum)
            }
        }
    }
}
