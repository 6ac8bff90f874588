//! Strings combined bit by bit. Shorter strings are extended with zeros.

use super::Bitmaps;
use crate::{Db, Error, Expire, Key};

/// How strings are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitOperation {
    /// Bits that are set in all of them.
    And,
    /// Bits that are set in any of them.
    Or,
    /// Bits that are set in an odd number of them.
    Xor,
    /// Bits that are clear in the first one, which must be the only one.
    Not,
    /// Bits that are set in the first one and in none of the others.
    Difference,
    /// Bits that are set in any of the others and not in the first one.
    ReverseDifference,
    /// Bits that are set in the first one and in any of the others.
    AndOr,
    /// Bits that are set in exactly one of them.
    One,
}

impl Bitmaps<'_, '_> {
    /// Stores the result of an operation on the strings at `sources` in the key `target`. Returns
    /// the result's length in bytes, and whether the key was written or deleted: an empty result
    /// deletes it.
    pub fn combine(
        &mut self,
        db: Db,
        target: &Key<'_>,
        operation: BitOperation,
        sources: &[Key<'_>],
    ) -> Result<(usize, bool), Error> {
        let result = self.combined(db, operation, sources)?;
        if result.is_empty() {
            return Ok((0, self.txn.keys().delete(db, target)?));
        }
        self.txn.strings().set_built(db, target, &result, Expire::Clear)?;
        Ok((result.len(), true))
    }

    fn combined(
        &mut self,
        db: Db,
        operation: BitOperation,
        sources: &[Key<'_>],
    ) -> Result<Vec<u8>, Error> {
        let [first, others @ ..] = sources else { return Ok(Vec::new()) };
        let mut result = self.bits(db, first)?;
        match operation {
            BitOperation::And | BitOperation::Or | BitOperation::Xor => {
                for key in others {
                    result = merge(operation, result, self.bits(db, key)?);
                }
            }
            BitOperation::Not => result.iter_mut().for_each(|byte| *byte = !*byte),
            BitOperation::One => {
                let mut several = Vec::new();
                for key in others {
                    result = add_once(result, self.bits(db, key)?, &mut several);
                }
                remove(&mut result, &several);
            }
            BitOperation::Difference | BitOperation::ReverseDifference | BitOperation::AndOr => {
                let mut any = Vec::new();
                for key in others {
                    any = merge(BitOperation::Or, any, self.bits(db, key)?);
                }
                result = against_others(operation, result, any);
            }
        }
        Ok(result)
    }

    fn bits(&mut self, db: Db, key: &Key<'_>) -> Result<Vec<u8>, Error> {
        // As for a write: a key that has expired is deleted first, so that a replay, for which
        // nothing expires, reads the same.
        match self.txn.find_mut_to_read(db, key)? {
            Some(entry) => Ok(self.txn.string(&entry)?.to_vec()?),
            None => Ok(Vec::new()),
        }
    }
}

/// Returns the first string combined with the bits that are set in any of the others; the result is
/// as long as the longest string.
fn against_others(operation: BitOperation, mut first: Vec<u8>, mut others: Vec<u8>) -> Vec<u8> {
    let len = first.len().max(others.len());
    first.resize(len, 0);
    others.resize(len, 0);
    match operation {
        BitOperation::AndOr => merge(BitOperation::And, first, others),
        BitOperation::ReverseDifference => {
            remove(&mut others, &first);
            others
        }
        _ => {
            remove(&mut first, &others);
            first
        }
    }
}

/// Clears the bits that are set in another string.
fn remove(from: &mut [u8], bits: &[u8]) {
    from.iter_mut().zip(bits).for_each(|(to, with)| *to &= !with);
}

/// Adds the bits of `b` to `a`, the bits that are set in any string so far, and to `several` those
/// that were set in both.
fn add_once(a: Vec<u8>, b: Vec<u8>, several: &mut Vec<u8>) -> Vec<u8> {
    let (mut long, short) = if a.len() >= b.len() { (a, b) } else { (b, a) };
    if let Some(more) = short.len().checked_sub(several.len()) {
        several.reserve_exact(more);
        several.resize(short.len(), 0);
    }
    for ((any, again), with) in long.iter_mut().zip(several).zip(&short) {
        *again |= *any & with;
        *any |= with;
    }
    long
}

/// Combines two strings by AND, XOR, or else OR.
fn merge(operation: BitOperation, a: Vec<u8>, b: Vec<u8>) -> Vec<u8> {
    let (mut long, short) = if a.len() >= b.len() { (a, b) } else { (b, a) };
    let (head, rest) = long.split_at_mut(short.len());
    let pairs = head.iter_mut().zip(&short);
    match operation {
        BitOperation::And => {
            pairs.for_each(|(to, with)| *to &= with);
            rest.fill(0);
        }
        BitOperation::Xor => pairs.for_each(|(to, with)| *to ^= with),
        _ => pairs.for_each(|(to, with)| *to |= with),
    }
    long
}
