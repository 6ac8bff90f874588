//! Verifies a blob: its lengths are possible, its bytes match their checksums.

use heap::{Ptr, View};

use super::sum::Sum;
use super::table::{CHUNK, chunks};
use super::{Blob, Form, MAX_BLOCK_LEN, MAX_LEN, block};
use crate::Damaged;

pub(super) fn check<V: View>(view: &V, blob: Blob) -> Result<(), Damaged> {
    match blob.form() {
        Form::Empty => Ok(()),
        Form::Block(at) => {
            let sum = block::sum(view, at);
            at_most("blob length", at, MAX_BLOCK_LEN, u64::from(sum.len))?;
            let bytes = block::bytes(view, at, 0..sum.len as usize);
            matches("blob block", at, sum, bytes)
        }
        Form::Table(table) => {
            at_most("blob length", table.top, MAX_LEN, view.word(table.top))?;
            for number in 0..chunks(table.len(view)) {
                let chunk = table.chunk(view, number);
                if chunk.at.is_null() {
                    Damaged::unless_equal("blob hole", table.top, 0, chunk.sum.word())?;
                    continue;
                }
                let len = u64::from(chunk.sum.len);
                let whole = (table.len(view) - number * CHUNK).min(CHUNK);
                at_most("blob chunk length", chunk.at, whole, len)?;
                matches("blob chunk", chunk.at, chunk.sum, view.bytes(chunk.at, len as usize))?;
            }
            Ok(())
        }
    }
}

/// Visits each chunk of a table: where it lies, how many bytes it stores, and their checksum.
pub(super) fn sums<V: View>(view: &V, blob: Blob, mut visit: impl FnMut(Ptr, usize, u32)) {
    let Form::Table(table) = blob.form() else { return };
    for number in 0..chunks(table.len(view)) {
        let chunk = table.chunk(view, number);
        if !chunk.at.is_null() {
            visit(chunk.at, (u64::from(chunk.sum.len)).min(CHUNK) as usize, chunk.sum.crc);
        }
    }
}

fn at_most(what: &'static str, at: Ptr, most: u64, found: u64) -> Result<(), Damaged> {
    Damaged::unless_equal(what, at, found.min(most), found)
}

fn matches(what: &'static str, at: Ptr, sum: Sum, bytes: &[u8]) -> Result<(), Damaged> {
    Damaged::unless_equal(what, at, sum.word(), Sum::of(bytes).word())
}
