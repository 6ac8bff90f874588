//! Strings combined bit by bit. The shorter ones are continued with zeros.

use crate::{Db, Error, Expire, Key, Txn};

/// How strings are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitOperation {
    /// Bits that are set in all of them.
    And,
    /// Bits that are set in any of them.
    Or,
    /// Bits that are set in an odd number of them.
    Xor,
    /// Bits that are clear in the first one; the others must not be there.
    Not,
}

impl Txn<'_> {
    /// Makes a key hold what an operation makes of the strings at others: its length in bytes, and
    /// whether anything was written. Where that is empty, the key is deleted.
    pub fn combine_bits(
        &mut self,
        db: Db,
        target: &Key<'_>,
        operation: BitOperation,
        sources: &[Key<'_>],
    ) -> Result<(usize, bool), Error> {
        let result = self.combined(db, operation, sources)?;
        if result.is_empty() {
            return Ok((0, self.delete(db, target)?));
        }
        self.set_built(db, target, &result, Expire::Clear)?;
        Ok((result.len(), true))
    }

    fn combined(
        &mut self,
        db: Db,
        operation: BitOperation,
        sources: &[Key<'_>],
    ) -> Result<Vec<u8>, Error> {
        let mut result: Option<Vec<u8>> = None;
        for key in sources {
            // As for a write: one that has expired is deleted first, so that a replay, for which
            // nothing expires, reads the same.
            let bytes = match self.find_mut(db, key)? {
                Some(entry) => self.string(&entry)?.to_vec()?,
                None => Vec::new(),
            };
            result = Some(match result {
                None => bytes,
                Some(before) => merge(operation, before, bytes),
            });
        }
        let mut result = result.unwrap_or_default();
        if operation == BitOperation::Not {
            result.iter_mut().for_each(|byte| *byte = !*byte);
        }
        Ok(result)
    }
}

fn merge(operation: BitOperation, a: Vec<u8>, b: Vec<u8>) -> Vec<u8> {
    let (mut long, short) = if a.len() >= b.len() { (a, b) } else { (b, a) };
    let (head, rest) = long.split_at_mut(short.len());
    let pairs = head.iter_mut().zip(&short);
    match operation {
        BitOperation::And => {
            pairs.for_each(|(to, with)| *to &= with);
            rest.fill(0);
        }
        BitOperation::Or => pairs.for_each(|(to, with)| *to |= with),
        BitOperation::Xor => pairs.for_each(|(to, with)| *to ^= with),
        BitOperation::Not => {}
    }
    long
}
