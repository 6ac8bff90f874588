//! What a node is, as a set of flags: the same bits in memory and on the bus.
//!
//! The bits are those of `cluster_legacy.h` of Valkey 9.1; Redis 7.0 knows the first ten, and
//! ignores the others.

use std::fmt;

/// A set of flags of a node.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Flags(u16);

/// The flags that texts show, in the order in which they are shown.
const SHOWN: [(Flags, &str); 8] = [
    (Flags::MYSELF, "myself"),
    (Flags::PRIMARY, "master"),
    (Flags::REPLICA, "slave"),
    (Flags::PFAIL, "fail?"),
    (Flags::FAIL, "fail"),
    (Flags::HANDSHAKE, "handshake"),
    (Flags::NO_ADDRESS, "noaddr"),
    (Flags::NO_FAILOVER, "nofailover"),
];

impl Flags {
    /// No flag.
    pub const NONE: Flags = Flags(0);
    /// It is a primary.
    pub const PRIMARY: Flags = Flags(1);
    /// It is a replica.
    pub const REPLICA: Flags = Flags(1 << 1);
    /// This node does not reach it.
    pub const PFAIL: Flags = Flags(1 << 2);
    /// Most primaries do not reach it.
    pub const FAIL: Flags = Flags(1 << 3);
    /// It is the node that has this table.
    pub const MYSELF: Flags = Flags(1 << 4);
    /// Its ID is not known yet.
    pub const HANDSHAKE: Flags = Flags(1 << 5);
    /// Its address is not known.
    pub const NO_ADDRESS: Flags = Flags(1 << 6);
    /// It is to be told to meet this node.
    pub const MEET: Flags = Flags(1 << 7);
    /// It is a primary that had replicas: others may migrate to it.
    pub const MIGRATE_TO: Flags = Flags(1 << 8);
    /// It is a replica that does not try to become a primary by itself.
    pub const NO_FAILOVER: Flags = Flags(1 << 9);
    /// It understands extensions.
    pub const EXTENSIONS: Flags = Flags(1 << 10);
    /// It understands published messages with the short header.
    pub const LIGHT_PUBLISH: Flags = Flags(1 << 11);
    /// It understands modules' messages with the short header, and more than one MEET.
    pub const MULTI_MEET: Flags = Flags(1 << 12);
    /// It is a replica and sees that its primary has failed.
    pub const PRIMARY_FAILED: Flags = Flags(1 << 13);

    /// Returns the set with these bits.
    pub const fn from_bits(bits: u16) -> Flags {
        Flags(bits)
    }

    /// Returns its bits.
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Returns the flags that are in either set.
    #[must_use]
    pub const fn with(self, others: Flags) -> Flags {
        Flags(self.0 | others.0)
    }

    /// Returns the flags that are in both sets.
    #[must_use]
    pub const fn only(self, others: Flags) -> Flags {
        Flags(self.0 & others.0)
    }

    /// Returns true if the sets have a flag in common.
    pub const fn has(self, others: Flags) -> bool {
        self.0 & others.0 != 0
    }

    /// Adds flags.
    pub fn add(&mut self, others: Flags) {
        self.0 |= others.0;
    }

    /// Removes flags.
    pub fn remove(&mut self, others: Flags) {
        self.0 &= !others.0;
    }

    /// Adds or removes flags.
    pub fn set(&mut self, flags: Flags, is_set: bool) {
        if is_set {
            self.add(flags);
        } else {
            self.remove(flags);
        }
    }

    /// Returns the flag with this name; the newer names of roles are understood, too.
    pub fn parse(name: &str) -> Option<Flags> {
        match name {
            "noflags" => Some(Flags::NONE),
            "primary" => Some(Flags::PRIMARY),
            "replica" => Some(Flags::REPLICA),
            _ => SHOWN.iter().find(|(_, shown)| *shown == name).map(|(flag, _)| *flag),
        }
    }
}

impl fmt::Display for Flags {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (flag, name) in SHOWN {
            if self.has(flag) {
                write!(out, "{separator}{name}")?;
                separator = ",";
            }
        }
        if separator.is_empty() { out.write_str("noflags") } else { Ok(()) }
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Flags({self}, {:#06x})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_shown_as_redis_shows_them() {
        assert_eq!(Flags::NONE.to_string(), "noflags");
        let flags = Flags::PRIMARY.with(Flags::MYSELF).with(Flags::EXTENSIONS);
        assert_eq!(flags.to_string(), "myself,master");
        for (flag, name) in SHOWN {
            assert_eq!(Flags::parse(name), Some(flag));
        }
        assert_eq!(Flags::parse("odd"), None);
    }
}
