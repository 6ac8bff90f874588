//! The keys and channels that a user may name: all of them, or those that match a pattern.

/// The use of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Its value is read.
    pub reads: bool,
    /// It is changed.
    pub writes: bool,
}

impl Access {
    /// Reading and writing.
    pub const BOTH: Access = Access { reads: true, writes: true };

    fn includes(self, other: Access) -> bool {
        (self.reads || !other.reads) && (self.writes || !other.writes)
    }
}

/// A pattern of keys, and the allowed uses of those that match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPattern {
    /// The glob pattern.
    pub pattern: Box<[u8]>,
    /// The allowed uses.
    pub access: Access,
}

/// Allowed names: all, or those that match one of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patterns<P> {
    /// Everything is allowed.
    pub all: bool,
    /// Otherwise only these are.
    pub some: Vec<P>,
}

impl<P> Default for Patterns<P> {
    fn default() -> Patterns<P> {
        Patterns { all: false, some: Vec::new() }
    }
}

impl<P> Patterns<P> {
    /// Returns all names, or none.
    pub fn every(all: bool) -> Patterns<P> {
        Patterns { all, some: Vec::new() }
    }
}

impl Patterns<KeyPattern> {
    /// Adds a pattern, or widens the allowed uses of one that is there.
    pub fn add(&mut self, pattern: &[u8], access: Access) {
        match self.some.iter_mut().find(|known| *known.pattern == *pattern) {
            Some(known) => {
                known.access.reads |= access.reads;
                known.access.writes |= access.writes;
            }
            None => self.some.push(KeyPattern { pattern: pattern.into(), access }),
        }
    }

    /// Returns true if this use of a key is allowed.
    pub(crate) fn admits(&self, key: &[u8], access: Access) -> bool {
        let admits =
            |known: &KeyPattern| known.access.includes(access) && fits(&known.pattern, key);
        self.all || self.some.iter().any(admits)
    }

    /// Returns true if this use of every key is allowed.
    pub(crate) fn admits_every(&self, access: Access) -> bool {
        let is_every =
            |known: &KeyPattern| *known.pattern == *b"*" && known.access.includes(access);
        self.all || self.some.iter().any(is_every)
    }
}

impl Patterns<Box<[u8]>> {
    /// Adds a pattern of channels.
    pub fn add_channel(&mut self, pattern: &[u8]) {
        if !self.some.iter().any(|known| **known == *pattern) {
            self.some.push(pattern.into());
        }
    }

    /// Returns true if a channel may be used; a pattern of channels only if it is one of these.
    pub fn admits_channel(&self, name: &[u8], is_pattern: bool) -> bool {
        let admits = |known: &[u8]| match is_pattern {
            true => known == name,
            false => fits(known, name),
        };
        self.all || self.some.iter().any(|known| admits(known))
    }
}

/// Returns true if a name matches a pattern. As in Redis, no star matches the empty name.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    match name {
        [] => pattern.is_empty(),
        _ => resp::glob::matches(pattern, name),
    }
}
