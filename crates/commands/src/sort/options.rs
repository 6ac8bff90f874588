//! The arguments of SORT after its key.

use std::ops::Range;

use engine::failure::{Done, Failure, NOT_INTEGER, SYNTAX};
use keyspace::Type;
use smallvec::SmallVec;

use super::pattern::Pattern;

const NO_BY: &str = "ERR BY option of SORT denied due to insufficient ACL permissions.";
const NO_GET: &str = "ERR GET option of SORT denied due to insufficient ACL permissions.";

/// The options of SORT.
pub(super) struct SortOptions<'a> {
    /// Sorts by the values of the keys that this pattern names, and not by the elements themselves.
    pub(super) by: Option<Pattern<'a>>,
    /// Does not sort: a BY had no place for an element.
    pub(super) as_they_are: bool,
    /// Sorts by bytes, not by numbers.
    pub(super) alpha: bool,
    pub(super) descending: bool,
    pub(super) gets: SmallVec<[Pattern<'a>; 4]>,
    /// True if there is a STORE: the key after it is the last of the request's keys.
    pub(super) stores: bool,
    offset: i64,
    count: i64,
}

impl<'a> SortOptions<'a> {
    /// Parses the arguments, with the command's name. SORT_RO knows no STORE. A user who may not
    /// read all keys may not use key patterns.
    pub(super) fn parse(
        args: &[&'a [u8]],
        may_store: bool,
        reads_all: bool,
    ) -> Result<SortOptions<'a>, Failure> {
        let mut options = SortOptions {
            by: None,
            as_they_are: false,
            alpha: false,
            descending: false,
            gets: SmallVec::new(),
            stores: false,
            offset: 0,
            count: -1,
        };
        let mut words = args.get(2..).unwrap_or(&[]);
        while let [word, rest @ ..] = words {
            words = options.take(word, rest, may_store, reads_all)?;
        }
        Ok(options)
    }

    /// Parses an option, and returns the remaining arguments.
    fn take<'w>(
        &mut self,
        word: &[u8],
        rest: &'w [&'a [u8]],
        may_store: bool,
        reads_all: bool,
    ) -> Result<&'w [&'a [u8]], Failure> {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        match rest {
            _ if is("ASC") => self.descending = false,
            _ if is("DESC") => self.descending = true,
            _ if is("ALPHA") => self.alpha = true,
            [offset, count, rest @ ..] if is("LIMIT") => {
                let number = |word| resp::number::parse_i64(word).ok_or(NOT_INTEGER);
                (self.offset, self.count) = (number(offset)?, number(count)?);
                return Ok(rest);
            }
            [_, rest @ ..] if may_store && is("STORE") => {
                self.stores = true;
                return Ok(rest);
            }
            [by, rest @ ..] if is("BY") => {
                let by = Pattern::of(by);
                if by.looks_up() && !reads_all {
                    return Err(NO_BY.into());
                }
                self.as_they_are |= !by.looks_up();
                self.by = Some(by);
                return Ok(rest);
            }
            [_, ..] if is("GET") && !reads_all => return Err(NO_GET.into()),
            [get, rest @ ..] if is("GET") => {
                self.gets.push(Pattern::of(get));
                return Ok(rest);
            }
            _ => return Err(SYNTAX.into()),
        }
        Ok(rest)
    }

    /// Returns true if other keys are looked up.
    pub(super) fn looks_up(&self) -> bool {
        !self.as_they_are && self.by.is_some() || self.gets.iter().any(Pattern::looks_up)
    }

    /// Refuses to look up keys that other nodes of a cluster may have.
    pub(super) fn check_in_cluster(&self) -> Done {
        if !self.as_they_are && self.by.is_some() {
            return Err("ERR BY option of SORT denied in cluster mode.".into());
        }
        if !self.gets.is_empty() {
            return Err("ERR GET option of SORT denied in cluster mode.".into());
        }
        Ok(())
    }

    /// Sorts a set after all if its order matters, for STORE or in a script, since a set has none.
    pub(super) fn fit(&mut self, kind: Type, needs_order: bool) {
        if kind == Type::Set && self.as_they_are && needs_order {
            (self.as_they_are, self.alpha, self.by) = (false, true, None);
        }
    }

    /// Returns the range of `len` elements that is wanted.
    pub(super) fn range(&self, len: u64) -> Range<u64> {
        let first = u64::try_from(self.offset).unwrap_or(0).min(len);
        match u64::try_from(self.count) {
            Ok(count) => first..first.saturating_add(count).min(len),
            Err(_) => first..len,
        }
    }
}

/// Returns the position of the key after a request's last STORE.
pub(super) fn target(args: &[&[u8]]) -> Option<usize> {
    let (mut at, mut found) = (2, None);
    while let Some(word) = args.get(at) {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        at += match () {
            () if is("LIMIT") => 3,
            () if is("GET") || is("BY") => 2,
            () if is("STORE") && at + 1 < args.len() => {
                found = Some(at + 1);
                1
            }
            () => 1,
        };
    }
    found
}
