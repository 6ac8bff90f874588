//! Verifies a blob: its self-checksummed words, and its bytes against their checksums.

use heap::{Ptr, View};

use super::checksum::Checksum;
use super::table::{CHUNK, chunks};
use super::{Blob, Form, block};
use crate::Damaged;

pub(super) fn check<V: View>(view: &V, blob: Blob) -> Result<(), Damaged> {
    match blob.form() {
        Form::Empty => Ok(()),
        Form::Block(at) => block::verified(view, at).map(drop),
        Form::Table(_) => {
            let mut first = Ok(());
            checksums(view, blob, |at, len, crc| {
                if first.is_ok() {
                    first = matches(at, Checksum { len: len as u32, crc }, view.bytes(at, len));
                }
            })?;
            first
        }
    }
}

/// Verifies the words of a table, and visits each of its chunks with its place, the number of bytes
/// that it stores, and their checksum.
pub(super) fn checksums<V: View>(
    view: &V,
    blob: Blob,
    mut visit: impl FnMut(Ptr, usize, u32),
) -> Result<(), Damaged> {
    let Form::Table(table) = blob.form() else { return Ok(()) };
    table.check_spare(view)?;
    let len = table.len(view)?;
    for number in 0..chunks(len) {
        let chunk = table.chunk(view, number)?;
        if chunk.at.is_null() {
            continue;
        }
        let most = (len - number * CHUNK).min(CHUNK);
        let stored = u64::from(chunk.checksum.len);
        Damaged::unless_equal("blob chunk length", chunk.at, stored.min(most), stored)?;
        visit(chunk.at, chunk.checksum.len as usize, chunk.checksum.crc);
    }
    Ok(())
}

fn matches(at: Ptr, checksum: Checksum, bytes: &[u8]) -> Result<(), Damaged> {
    Damaged::unless_equal("blob chunk", at, checksum.word(), Checksum::of(bytes).word())
}
