//! Members that a command has read and will show or store: stored one after the other in one
//! buffer, since a command may gather millions.

use engine::failure::Failure;
use keyspace::Members;

/// The number of members that are read before they are processed.
pub const AT_ONCE: usize = 1024;

/// Members in the order of their arrival.
#[derive(Default)]
pub(crate) struct Gathered {
    bytes: Vec<u8>,
    /// The end of each member in `bytes`.
    ends: Vec<usize>,
}

impl Gathered {
    pub(crate) fn push(&mut self, member: &[u8]) {
        self.bytes.extend_from_slice(member);
        self.ends.push(self.bytes.len());
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Keeps the first members only, at most this many.
    pub(crate) fn truncate(&mut self, most: usize) {
        self.ends.truncate(most);
        self.bytes.truncate(self.ends.last().copied().unwrap_or(0));
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    pub(crate) fn get(&self, at: usize) -> &[u8] {
        let begin = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.bytes[begin..self.ends[at]]
    }

    /// Returns the members in their order.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> + Clone {
        (0..self.len()).map(|at| self.get(at))
    }

    /// Adds all members of a set.
    pub(crate) fn add_all(&mut self, set: &Members<'_>) -> Result<(), Failure> {
        self.ends.reserve(set.len() as usize);
        Ok(set.visit(|member, _| self.push(member))?)
    }
}

/// Passes the members of a set to `f`, some at a time, until it returns false.
pub(crate) fn in_pieces(
    set: &Members<'_>,
    mut f: impl FnMut(&Gathered) -> Result<bool, Failure>,
) -> Result<(), Failure> {
    let (mut piece, mut cursor) = (Gathered::default(), 0);
    loop {
        piece.clear();
        cursor = set.scan(cursor, AT_ONCE, |member, _| piece.push(member))?;
        if !f(&piece)? || cursor == 0 {
            return Ok(());
        }
    }
}
