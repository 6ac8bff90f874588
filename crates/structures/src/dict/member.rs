//! The block of one member: a field and its value.
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

const HEADER: usize = 12;
/// Maximum length of a field or value that is stored in the block itself.
pub const INLINE: usize = 8 << 10;
const WORD: usize = 8;
const _: () = assert!(HEADER + WORD + 2 * INLINE <= heap::MAX_BLOCK);
/// Set in the length of the field: a time precedes the field.
const TIMED: u32 = 1 << 31;
const _: () = assert!(MAX_LEN < TIMED as u64);

/// A member, known by its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member(Ptr);

/// Returns how many bytes a field or value of `len` takes in the block.
const fn padded(len: usize) -> usize {
    if len > INLINE { WORD } else { len }
}

impl Member {
    /// The minimum size of a member's block.
    pub(super) const LEAST: usize = HEADER;

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

    fn u32<V: View>(self, view: &V, at: u64) -> u32 {
        let bytes = view.bytes(self.0.add(at), 4);
        bytes.try_into().map_or(0, u32::from_le_bytes)
    }

    /// Returns the offset of the field, and the lengths of field and value; damaged lengths are cut
    /// to the maximum of a blob.
    #[inline]
    fn shape<V: View>(self, view: &V) -> (usize, usize, usize) {
        let lens = view.bytes(self.0, 8).try_into().map_or(0, u64::from_le_bytes);
        let cut = |len: u32| (len as usize).min(MAX_LEN as usize);
        let begin = if lens as u32 & TIMED == 0 { HEADER } else { HEADER + WORD };
        (begin, cut(lens as u32 & !TIMED), cut((lens >> 32) as u32))
    }

    /// Returns its time, if it has one.
    #[inline]
    pub fn time<V: View>(self, view: &V) -> Option<u64> {
        (self.u32(view, 0) & TIMED != 0).then(|| {
            let bytes = view.bytes(self.0.add(HEADER as u64), WORD);
            bytes.try_into().map_or(0, u64::from_le_bytes)
        })
    }

    /// Returns how many bytes of its block are in use.
    pub fn size<V: View>(self, view: &V) -> usize {
        let (begin, field, value) = self.shape(view);
        begin + padded(field) + padded(value)
    }

    fn part<V: View>(self, view: &V, at: usize, len: usize) -> Part<'_> {
        let bytes = view.bytes(self.0.add(at as u64), padded(len));
        match len {
            0..=INLINE => Part::Bytes(bytes),
            _ => Part::Blob(Blob::from_word(bytes.try_into().map_or(0, u64::from_le_bytes))),
        }
    }

    fn parts<V: View>(self, view: &V) -> (Part<'_>, Part<'_>) {
        let (begin, field, value) = self.shape(view);
        (self.part(view, begin, field), self.part(view, begin + padded(field), value))
    }

    /// Returns the field.
    pub fn field<V: View>(self, view: &V) -> Cow<'_, [u8]> {
        let (begin, field, _) = self.shape(view);
        self.part(view, begin, field).read(view)
    }

    /// Returns the value.
    pub fn value<V: View>(self, view: &V) -> Cow<'_, [u8]> {
        let (begin, field, value) = self.shape(view);
        self.part(view, begin + padded(field), value).read(view)
    }

    /// Returns the length of the value without reading it.
    pub fn value_len<V: View>(self, view: &V) -> usize {
        self.shape(view).2
    }

    /// Returns true if this member has the field `wanted`.
    #[inline]
    pub fn has_field<V: View>(self, view: &V, wanted: &[u8]) -> bool {
        let (begin, field, _) = self.shape(view);
        field == wanted.len() && *self.part(view, begin, field).read(view) == *wanted
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
        let (field, value) = self.parts(view);
        for blob in [field, value].into_iter().filter_map(Part::blob) {
            blob.check(view)?;
        }
        let (stored, own) = (self.u32(view, 8), self.checksum_of(view, field, value)?);
        Damaged::unless_equal("member", self.0, u64::from(stored), u64::from(own))?;
        Ok((field, value))
    }

    fn checksum_of<V: View>(
        self,
        view: &V,
        field: Part<'_>,
        value: Part<'_>,
    ) -> Result<u32, Damaged> {
        let mut checksum = heap::crc32c(view.bytes(self.0, 8));
        if let Some(time) = self.time(view) {
            checksum = heap::crc32c_append(checksum, &time.to_le_bytes());
        }
        [field, value].into_iter().try_fold(checksum, |checksum, part| part.add_to(view, checksum))
    }

    /// Visits the blocks of its blobs.
    pub fn blobs<V: View>(self, view: &V, mut visit: impl FnMut(Ptr)) {
        let (field, value) = self.parts(view);
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
        let time = head.time();
        let len = HEADER + time.len() + field.len() + value.len();
        let fresh = fill.reserve(len)?;
        fill.write_with(&fresh, 0, len, |bytes| {
            let (first, rest) = bytes.split_at_mut(HEADER);
            first[..8].copy_from_slice(&head.lens);
            first[8..].copy_from_slice(&checksum.to_le_bytes());
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
        let (begin, field, value) = self.shape(store);
        let middle = padded(field);
        let bytes = store.bytes(self.0.add(begin as u64), middle + padded(value)).to_vec();
        let head = Head::new(field as u32, value as u32, time);
        let parts = <[Part<'_>; 2]>::from(self.parts(store));
        let checksum = parts
            .into_iter()
            .try_fold(head.checksum(), |checksum, part| part.add_to(store, checksum))?;
        let member = Member::write(store, &head, checksum, &bytes[..middle], &bytes[middle..])?;
        store.free(self.0);
        Ok(member)
    }

    /// Frees the member; its blobs go onto the queue. Returns how many blocks were freed.
    pub fn release<S: Store>(self, store: &mut S, queue: Queue) -> Result<usize, Full> {
        let (field, value) = self.parts(store);
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
    lens: [u8; 8],
    time: Option<[u8; 8]>,
}

impl Head {
    fn new(field: u32, value: u32, time: Option<u64>) -> Head {
        let field = if time.is_some() { field | TIMED } else { field };
        let lens = u64::from(field) | u64::from(value) << 32;
        Head { lens: lens.to_le_bytes(), time: time.map(u64::to_le_bytes) }
    }

    fn time(&self) -> &[u8] {
        self.time.as_ref().map_or(&[], |time| time.as_slice())
    }

    fn checksum(&self) -> u32 {
        let checksum = heap::crc32c(&self.lens);
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
