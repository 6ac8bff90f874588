//! Keyspace notifications: which events of keys are published (`notify-keyspace-events`).
//!
//! A command notes its events with the other effects of its transaction; they are lost with it, or
//! published when it is committed, to `__keyspace@<db>__:<key>` and `__keyevent@<db>__:<event>`.
//! The names of the events, and their order, are Redis's.

use keyspace::Db;

/// A class of events, by its letter in `notify-keyspace-events`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum EventClass {
    /// `K`: events are published by key.
    Keyspace = 1 << 0,
    /// `E`: events are published by their name.
    Keyevent = 1 << 1,
    /// `g`
    Generic = 1 << 2,
    /// `$`
    String = 1 << 3,
    /// `l`
    List = 1 << 4,
    /// `s`
    Set = 1 << 5,
    /// `h`
    Hash = 1 << 6,
    /// `z`
    SortedSet = 1 << 7,
    /// `x`
    Expired = 1 << 8,
    /// `e`
    Evicted = 1 << 9,
    /// `t`
    Stream = 1 << 10,
    /// `m`: a reader did not find a key; not part of `A`.
    Miss = 1 << 11,
    /// `n`: a key is new; not part of `A`.
    New = 1 << 12,
}

const LETTERS: [(u8, EventClass); 13] = [
    (b'K', EventClass::Keyspace),
    (b'E', EventClass::Keyevent),
    (b'g', EventClass::Generic),
    (b'$', EventClass::String),
    (b'l', EventClass::List),
    (b's', EventClass::Set),
    (b'h', EventClass::Hash),
    (b'z', EventClass::SortedSet),
    (b'x', EventClass::Expired),
    (b'e', EventClass::Evicted),
    (b't', EventClass::Stream),
    (b'm', EventClass::Miss),
    (b'n', EventClass::New),
];

/// The classes that are published; none without `K` or `E`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventClasses(u32);

impl EventClasses {
    /// Reads the letters of `notify-keyspace-events`; `A` means all but `K`, `E`, `m` and
    /// `n`.
    pub fn parse(letters: &[u8]) -> EventClasses {
        let has = |letter: u8| {
            letters.contains(&letter) || !b"KEmn".contains(&letter) && letters.contains(&b'A')
        };
        let chosen = LETTERS.iter().filter(|(letter, _)| has(*letter));
        let bits = chosen.fold(0, |bits, (_, class)| bits | *class as u32);
        let both = EventClass::Keyspace as u32 | EventClass::Keyevent as u32;
        EventClasses(if bits & both == 0 { 0 } else { bits })
    }

    /// Returns true if events of this class are published.
    #[inline]
    pub(crate) fn has(self, class: EventClass) -> bool {
        self.0 & class as u32 != 0
    }

    /// Returns true if any event is published.
    #[inline]
    pub(crate) fn is_any(self) -> bool {
        self.0 != 0
    }

    pub(crate) fn bits(self) -> u32 {
        self.0
    }

    pub(crate) fn from_bits(bits: u32) -> EventClasses {
        EventClasses(bits)
    }
}

/// An event of a key.
pub struct KeyEvent {
    pub(crate) db: Db,
    pub(crate) name: &'static str,
    pub(crate) key: Box<[u8]>,
}

impl KeyEvent {
    /// Returns the channel of the key.
    pub(crate) fn keyspace_channel(&self) -> Vec<u8> {
        [format!("__keyspace@{}__:", self.db.number()).as_bytes(), &self.key].concat()
    }

    /// Returns the channel of the event's name.
    pub(crate) fn keyevent_channel(&self) -> String {
        format!("__keyevent@{}__:{}", self.db.number(), self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_choose_classes() {
        let has = |letters: &str, class| EventClasses::parse(letters.as_bytes()).has(class);
        assert!(has("KA", EventClass::Stream) && has("AE", EventClass::Expired));
        assert!(has("K$", EventClass::String) && !has("K$", EventClass::Keyevent));
        assert!(!has("K$", EventClass::Generic));
        assert!(has("Kn", EventClass::New) && !has("KEA", EventClass::New));
        for without_channel in ["", "A", "g$"] {
            assert!(!EventClasses::parse(without_channel.as_bytes()).is_any(), "{without_channel}");
        }
    }
}
