//! The positions of a command's keys among its arguments, and the use of the keys.
//!
//! The positions serve twice: to lock the shards of a command's keys before it runs, and for
//! COMMAND GETKEYS and INFO. A spec is a beginning (a fixed index, or after a keyword) and a way
//! on from there (a range with a step, or a count given as an argument), as in Redis 7.

/// The value is read, and the key stays.
pub const KEY_RO: u16 = 1 << 0;
/// The value is read and changed.
pub const KEY_RW: u16 = 1 << 1;
/// The value is overwritten.
pub const KEY_OW: u16 = 1 << 2;
/// The key is removed.
pub const KEY_RM: u16 = 1 << 3;
/// User data is returned or used.
pub const KEY_ACCESS: u16 = 1 << 4;
/// User data is changed.
pub const KEY_UPDATE: u16 = 1 << 5;
/// User data is added.
pub const KEY_INSERT: u16 = 1 << 6;
/// User data is removed.
pub const KEY_DELETE: u16 = 1 << 7;
/// It is not a key, but routed like one.
pub const KEY_NOT_KEY: u16 = 1 << 8;
/// The spec may miss keys.
pub const KEY_INCOMPLETE: u16 = 1 << 9;
/// The flags depend on the arguments.
pub const KEY_VARIABLE: u16 = 1 << 10;

/// Names of the flags as COMMAND INFO prints them, in its order.
pub const KEY_FLAG_NAMES: &[(u16, &str)] = &[
    (KEY_RO, "RO"),
    (KEY_RW, "RW"),
    (KEY_OW, "OW"),
    (KEY_RM, "RM"),
    (KEY_ACCESS, "access"),
    (KEY_UPDATE, "update"),
    (KEY_INSERT, "insert"),
    (KEY_DELETE, "delete"),
    (KEY_NOT_KEY, "not_key"),
    (KEY_INCOMPLETE, "incomplete"),
    (KEY_VARIABLE, "variable_flags"),
];

/// Returns the use of a request's keys, from its words.
pub type KeyFlags = fn(&[&[u8]]) -> u16;

/// Returns the positions of a request's keys, from its words.
pub type OwnKeys = fn(&[&[u8]]) -> std::ops::Range<usize>;

/// Returns the position of a request's key, if it has one, from its words.
pub type KeyPlace = fn(&[&[u8]]) -> Option<usize>;

/// The place at which the keys begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// The argument with this index (the command's name is 0).
    Index(usize),
    /// After this word, searched from the given argument on (from the end when negative).
    Keyword(&'static str, i32),
    /// Not known from the description.
    Unknown,
}

/// How the keys continue from the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Find {
    /// To `last` (relative to the beginning; negative: from the end of the arguments), every
    /// `step`th; with `last` -1 and `limit` > 1 only that fraction of the rest.
    Range {
        /// Relative index of the last key, or negative from the end.
        last: i32,
        /// Distance between keys.
        step: usize,
        /// Fraction of the remaining arguments, 0 and 1 for all.
        limit: usize,
    },
    /// As many as the argument `at` (relative) says, the first at `first` (relative).
    KeyNum {
        /// Relative index of the count.
        at: usize,
        /// Relative index of the first key.
        first: usize,
        /// Distance between keys.
        step: usize,
    },
    /// Not known from the description.
    Unknown,
}

/// One group of keys of a command.
#[derive(Clone, Copy, Debug)]
pub struct KeySpec {
    /// Where they begin.
    pub begin: Begin,
    /// How they go on.
    pub find: Find,
    /// The use of them.
    pub flags: u16,
    /// A remark for COMMAND INFO, or empty.
    pub notes: &'static str,
    /// Finds the key among the words of a request, if the description cannot.
    pub locate: Option<KeyPlace>,
}

impl KeySpec {
    /// Returns a spec from its parts.
    pub const fn new(begin: Begin, find: Find, flags: u16) -> KeySpec {
        KeySpec { begin, find, flags, notes: "", locate: None }
    }
    /// Returns keys of which the description says nothing.
    pub const fn unknown(flags: u16) -> KeySpec {
        KeySpec::new(Begin::Unknown, Find::Unknown, flags)
    }
    /// Returns one key at `index`.
    pub const fn one(index: usize, flags: u16) -> KeySpec {
        KeySpec::range(index, 0, 1, flags)
    }
    /// Returns every `step`th argument from `index` to the end.
    pub const fn rest(index: usize, step: usize, flags: u16) -> KeySpec {
        KeySpec::range(index, -1, step, flags)
    }
    /// Describes keys from `index` to `index + last`, or from the end when `last` is negative.
    pub const fn range(index: usize, last: i32, step: usize, flags: u16) -> KeySpec {
        KeySpec::new(Begin::Index(index), Find::Range { last, step, limit: 0 }, flags)
    }
    /// Adds a remark.
    pub const fn notes(mut self, notes: &'static str) -> KeySpec {
        self.notes = notes;
        self
    }
    /// Adds a function that finds where the key is.
    pub const fn located_by(mut self, place: KeyPlace) -> KeySpec {
        self.locate = Some(place);
        self
    }

    /// Calls `each` with the index of every key, in order. Returns false if the arguments do not
    /// fit the spec.
    #[inline]
    pub fn each(&self, args: &[&[u8]], mut each: impl FnMut(usize)) -> bool {
        if let (Begin::Index(at), Find::Range { last: 0, .. }) = (self.begin, self.find) {
            let is_there = at < args.len();
            if is_there {
                each(at);
            }
            return is_there;
        }
        self.each_of_many(args, each)
    }

    fn each_of_many(&self, args: &[&[u8]], mut each: impl FnMut(usize)) -> bool {
        let first = match self.begin {
            Begin::Index(at) => at,
            Begin::Keyword(word, from) => match find_keyword(args, word, from) {
                Some(at) => at + 1,
                None => return true,
            },
            Begin::Unknown => {
                self.locate.and_then(|place| place(args)).into_iter().for_each(each);
                return true;
            }
        };
        let (first, last, step) = match self.find {
            Find::Range { last, step, limit } => {
                let end = if last >= 0 {
                    first as i64 + i64::from(last)
                } else if limit <= 1 {
                    args.len() as i64 + i64::from(last)
                } else {
                    let span = args.len().saturating_sub(first) / limit;
                    (first + span) as i64 + i64::from(last)
                };
                (first, end, step)
            }
            Find::KeyNum { at, first: offset, step } => {
                let Some(count) = args.get(first + at).and_then(|a| count(a)) else {
                    return false;
                };
                let from = first + offset;
                (from, from as i64 + (count as i64 - 1) * step as i64, step)
            }
            Find::Unknown => return true,
        };
        if last >= args.len() as i64 {
            return false;
        }
        let mut at = first;
        while (at as i64) <= last {
            each(at);
            at += step.max(1);
        }
        true
    }
}

fn find_keyword(args: &[&[u8]], word: &str, from: i32) -> Option<usize> {
    let is_word = |at: &usize| args[*at].eq_ignore_ascii_case(word.as_bytes());
    if from >= 0 {
        (from as usize..args.len()).find(is_word)
    } else {
        let last = args.len().checked_sub(from.unsigned_abs() as usize)?;
        (1..=last).rev().find(is_word)
    }
}

fn count(arg: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(arg).ok()?;
    text.parse::<u32>().ok().filter(|n| *n > 0).map(|n| n as usize)
}

/// Returns the first key, last key and step of COMMAND INFO's old form; zeros if it cannot express
/// the keys.
pub fn legacy_range(keys: &[KeySpec]) -> (i32, i32, i32) {
    if let [KeySpec { begin: Begin::Index(first), find: Find::Range { last, step, .. }, .. }] = keys
    {
        return absolute(*first as i32, *last, *step as i32);
    }
    let (mut first, mut last, mut previous) = (i32::MAX, 0i32, 0i32);
    for spec in keys {
        let (Begin::Index(at), Find::Range { last: to, step, .. }) = (spec.begin, spec.find) else {
            continue;
        };
        if step != 1 || (previous != 0 && previous != at as i32 - 1) {
            return (0, 0, 0);
        }
        first = first.min(at as i32);
        let to = if to >= 0 { to + at as i32 } else { to };
        last = (last as u32).max(to as u32) as i32;
        previous = last;
    }
    if first == i32::MAX { (0, 0, 0) } else { (first, last, 1) }
}

fn absolute(first: i32, last: i32, step: i32) -> (i32, i32, i32) {
    (first, if last >= 0 { last + first } else { last }, step)
}

/// Returns true if a fixed range cannot describe the positions.
pub fn movable(keys: &[KeySpec]) -> bool {
    keys.iter().any(|k| {
        !matches!((k.begin, k.find), (Begin::Index(_), Find::Range { .. }))
            || k.flags & KEY_INCOMPLETE != 0
    })
}
