//! A blob in one block: a word of length and checksum, then the bytes.

use std::ops::Range;

use heap::{Full, MAX_BLOCK, Ptr, View};

use super::checksum::Checksum;
use crate::fault_points::FaultPoint;
use crate::{Damaged, Error, Fill, Store};

/// Offset of the bytes.
pub(super) const HEADER: usize = 8;
/// The maximum number of bytes in a block.
pub(super) const MAX: usize = MAX_BLOCK - HEADER;

/// Returns the size of the block for a blob of this length.
pub(super) const fn size(len: usize) -> usize {
    HEADER + len
}

/// Returns the length and the checksum of a block, which is never empty.
pub(super) fn checksum<V: View>(view: &V, block: Ptr) -> Result<Checksum, Damaged> {
    let word = view.word(block);
    let checksum =
        Checksum::from_word(word).filter(|checksum| (1..=MAX).contains(&(checksum.len as usize)));
    checksum.ok_or(Damaged::new("blob length", block, 0, word))
}

pub(super) fn len<V: View>(view: &V, block: Ptr) -> Result<usize, Damaged> {
    checksum(view, block).map(|checksum| checksum.len as usize)
}

pub(super) fn bytes<V: View>(view: &V, block: Ptr, range: Range<usize>) -> &[u8] {
    view.bytes(block.add((HEADER + range.start) as u64), range.len())
}

/// Returns all bytes, verified against their checksum.
pub(super) fn verified<V: View>(view: &V, block: Ptr) -> Result<(Checksum, &[u8]), Damaged> {
    let checksum = checksum(view, block)?;
    let bytes = bytes(view, block, 0..checksum.len as usize);
    Damaged::unless_equal("blob block", block, checksum.word(), Checksum::of(bytes).word())?;
    Ok((checksum, bytes))
}

/// Writes a block of these bytes with space for `spare` more, if the heap has a block of that size.
pub(super) fn create<F: Fill>(fill: &mut F, bytes: &[u8], spare: usize) -> Result<Ptr, Full> {
    let exact = size(bytes.len());
    let roomy = (exact + spare).min(MAX_BLOCK);
    let fresh = fill.reserve(roomy).or_else(|full| match spare {
        0 => Err(full),
        _ => fill.reserve(exact),
    })?;
    fill.write_word(&fresh, 0, Checksum::of(bytes).word());
    fill.write(&fresh, HEADER, bytes);
    Ok(fill.publish(fresh, exact))
}

/// Appends bytes that fit into one block, in place or in a new block with space for as many again.
pub(super) fn append<S: Store>(
    store: &mut S,
    block: Ptr,
    old: Checksum,
    bytes: &[u8],
) -> Result<Ptr, Error> {
    let len = old.len as usize;
    if HEADER + len + bytes.len() <= store.capacity(block) {
        store.append(block, HEADER + len, bytes);
        let checksum = old.and(bytes);
        let crc = if FaultPoint::ChecksumWithLength.is_enabled() { checksum.crc } else { old.crc };
        store.set(block, Checksum { crc, ..checksum }.word());
        return Ok(block);
    }
    let content = [verified(store, block)?.1, bytes].concat();
    Ok(replace(store, block, &content, content.len())?)
}

/// Overwrites a range, and extends the blob with zeros if necessary, within the limit of one block.
pub(super) fn set_range<S: Store>(
    store: &mut S,
    block: Ptr,
    at: usize,
    bytes: &[u8],
) -> Result<Ptr, Error> {
    let checksum = checksum(store, block)?;
    let (len, end) = (checksum.len as usize, at + bytes.len());
    if at == len {
        return append(store, block, checksum, bytes);
    }
    let mut content = verified(store, block)?.1.to_vec();
    content.resize(len.max(end), 0);
    content[at..end].copy_from_slice(bytes);
    let spare = if end > len { end } else { spare(store, block, len) };
    Ok(replace(store, block, &content, spare)?)
}

/// Replaces a block's bytes, and keeps some of the spare space after them.
pub(super) fn rewrite<S: Store>(store: &mut S, block: Ptr, bytes: &[u8]) -> Result<Ptr, Full> {
    let spare = store.capacity(block).saturating_sub(size(bytes.len())).min(bytes.len());
    replace(store, block, bytes, spare)
}

/// Copies a block; a damaged one stays where it is.
pub(super) fn relocate<S: Store>(store: &mut S, block: Ptr) -> Result<Option<Ptr>, Full> {
    let Ok((checksum, bytes)) = verified(store, block) else { return Ok(None) };
    let content = bytes.to_vec();
    let spare = spare(store, block, checksum.len as usize);
    replace(store, block, &content, spare).map(Some)
}

/// Returns the number of spare bytes after the length.
fn spare<S: Store>(store: &S, block: Ptr, len: usize) -> usize {
    store.capacity(block).saturating_sub(size(len))
}

fn replace<S: Store>(store: &mut S, old: Ptr, bytes: &[u8], spare: usize) -> Result<Ptr, Full> {
    let new = create(store, bytes, spare)?;
    store.free(old);
    Ok(new)
}
