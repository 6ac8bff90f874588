//! Lua's patterns, matched in countable steps.
//!
//! Lua's own matcher runs in C, where no hook reaches it, and a short pattern can keep it busy for
//! years (`.-.-.-.-b`). This one counts its steps and asks at intervals whether to go on. Matches
//! and error texts are those of Lua 5.1: a pattern ends at a zero byte, and backtracking is
//! recursion, whose depth is bounded by the pattern's items.

use crate::arguments::Raise;

/// Maximum number of captures, as in Lua.
const MOST_CAPTURES: usize = 32;

/// Maximum number of items that may wait for the rest of a match.
const DEEPEST: usize = 500;

/// Steps between two checks whether to go on.
const STEPS_PER_QUESTION: u32 = 100_000;

/// Bytes that are compared or copied in the time of a step, when many are processed at a time.
const BYTES_PER_STEP: usize = 128;

/// The extent of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    Unfinished,
    Position,
    Bytes(usize),
}

#[derive(Clone, Copy)]
struct Capture {
    start: usize,
    extent: Extent,
}

/// A capture, or the whole match if there are no captures.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Captured<'a> {
    Text(&'a [u8]),
    /// A position in the subject, from 1.
    Position(usize),
}

/// A subject and a pattern, and the captures of the last match.
pub(crate) struct Matcher<'a, 'q> {
    subject: &'a [u8],
    pattern: &'a [u8],
    captures: [Capture; MOST_CAPTURES],
    level: usize,
    depth: usize,
    steps: u32,
    /// Returns an error if the script is to end.
    ask: &'q dyn Fn() -> Result<(), Raise>,
}

/// The end of a match in the subject, if it matches.
type Matched = Result<Option<usize>, Raise>;

/// Returns true if a pattern is more than plain bytes.
pub(crate) fn has_specials(pattern: &[u8]) -> bool {
    until_zero(pattern).iter().any(|byte| b"^$*+?.([%-".contains(byte))
}

fn until_zero(text: &[u8]) -> &[u8] {
    &text[..memchr::memchr(0, text).unwrap_or(text.len())]
}

impl<'a, 'q> Matcher<'a, 'q> {
    /// Makes a matcher. `pattern` is without the `^` that anchors it.
    pub(crate) fn new(
        subject: &'a [u8],
        pattern: &'a [u8],
        steps: u32,
        ask: &'q dyn Fn() -> Result<(), Raise>,
    ) -> Matcher<'a, 'q> {
        let unused = Capture { start: 0, extent: Extent::Unfinished };
        let pattern = until_zero(pattern);
        let steps = steps.saturating_add((pattern.len() / BYTES_PER_STEP) as u32);
        let captures = [unused; MOST_CAPTURES];
        Matcher { subject, pattern, captures, level: 0, depth: 0, steps, ask }
    }

    /// Returns the steps since the last check, from which the next matcher goes on.
    pub(crate) fn steps(&self) -> u32 {
        self.steps
    }

    /// Matches at a position. Returns the end.
    pub(crate) fn match_at(&mut self, at: usize) -> Matched {
        self.level = 0;
        self.depth = 0;
        self.run(at, 0)
    }

    /// Returns how many values a match has: the whole match if it has no captures.
    pub(crate) fn count(&self) -> usize {
        self.level.max(1)
    }

    /// Returns how many captures the last match has.
    pub(crate) fn captures(&self) -> usize {
        self.level
    }

    /// Returns a capture, counted from 0, of the match from `start` to `end`; the whole match if
    /// there are no captures.
    pub(crate) fn capture(
        &self,
        at: usize,
        start: usize,
        end: usize,
    ) -> Result<Captured<'a>, Raise> {
        if at >= self.level {
            return match at {
                0 => Ok(Captured::Text(&self.subject[start..end])),
                _ => Err("invalid capture index".into()),
            };
        }
        let capture = self.captures[at];
        match capture.extent {
            Extent::Unfinished => Err("unfinished capture".into()),
            Extent::Position => Ok(Captured::Position(capture.start + 1)),
            Extent::Bytes(length) => {
                Ok(Captured::Text(&self.subject[capture.start..capture.start + length]))
            }
        }
    }

    /// Returns the whole match.
    pub(crate) fn whole(&self, start: usize, end: usize) -> Captured<'a> {
        Captured::Text(&self.subject[start..end])
    }

    fn step(&mut self) -> Result<(), Raise> {
        self.take(1)
    }

    /// Counts work that takes as long as this many steps.
    fn take(&mut self, steps: usize) -> Result<(), Raise> {
        self.steps = self.steps.saturating_add(u32::try_from(steps).unwrap_or(u32::MAX));
        if self.steps < STEPS_PER_QUESTION {
            return Ok(());
        }
        self.steps = 0;
        (self.ask)()
    }

    /// Returns the byte of the pattern at a position, 0 after the end.
    fn item(&self, at: usize) -> u8 {
        self.pattern.get(at).copied().unwrap_or(0)
    }

    /// Matches the rest of the pattern inside another item.
    fn rest(&mut self, s: usize, p: usize) -> Matched {
        if self.depth == DEEPEST {
            return Err("pattern too complex".into());
        }
        self.depth += 1;
        let matched = self.run(s, p)?;
        self.depth -= 1;
        Ok(matched)
    }

    fn run(&mut self, mut s: usize, mut p: usize) -> Matched {
        loop {
            self.step()?;
            match (self.item(p), self.item(p + 1)) {
                (0, _) => return Ok(Some(s)),
                (b'(', b')') => return self.start_capture(s, p + 2, Extent::Position),
                (b'(', _) => return self.start_capture(s, p + 1, Extent::Unfinished),
                (b')', _) => return self.end_capture(s, p + 1),
                (b'$', 0) => return Ok((s == self.subject.len()).then_some(s)),
                (b'%', b'b') => {
                    let Some(end) = self.balance(s, p + 2)? else { return Ok(None) };
                    (s, p) = (end, p + 4);
                }
                (b'%', b'f') => {
                    let Some(end) = self.frontier(s, p + 2)? else { return Ok(None) };
                    p = end;
                }
                (b'%', digit @ b'0'..=b'9') => {
                    let Some(end) = self.back_reference(s, digit)? else { return Ok(None) };
                    (s, p) = (end, p + 2);
                }
                _ => {
                    let end = self.class_end(p)?;
                    self.take(end - p - 1)?;
                    let fits = self.fits(s, p, end);
                    match self.item(end) {
                        b'?' => {
                            if fits && let Some(whole) = self.rest(s + 1, end + 1)? {
                                return Ok(Some(whole));
                            }
                            p = end + 1;
                        }
                        b'*' => return self.most(s, p, end),
                        b'+' if fits => return self.most(s + 1, p, end),
                        b'-' => return self.fewest(s, p, end),
                        _ if !fits => return Ok(None),
                        _ => (s, p) = (s + 1, end),
                    }
                }
            }
        }
    }

    fn start_capture(&mut self, s: usize, p: usize, extent: Extent) -> Matched {
        if self.level >= MOST_CAPTURES {
            return Err("too many captures".into());
        }
        self.captures[self.level] = Capture { start: s, extent };
        self.level += 1;
        let matched = self.rest(s, p)?;
        if matched.is_none() {
            self.level -= 1;
        }
        Ok(matched)
    }

    fn end_capture(&mut self, s: usize, p: usize) -> Matched {
        let open = self.captures[..self.level]
            .iter()
            .rposition(|capture| capture.extent == Extent::Unfinished)
            .ok_or_else(|| Raise::from("invalid pattern capture"))?;
        self.captures[open].extent = Extent::Bytes(s - self.captures[open].start);
        let matched = self.rest(s, p)?;
        if matched.is_none() {
            self.captures[open].extent = Extent::Unfinished;
        }
        Ok(matched)
    }

    /// Matches `%bxy`, whose two bytes are at `p`.
    fn balance(&mut self, s: usize, p: usize) -> Matched {
        let (open, close) = (self.item(p), self.item(p + 1));
        if open == 0 || close == 0 {
            return Err("unbalanced pattern".into());
        }
        if self.subject.get(s) != Some(&open) {
            return Ok(None);
        }
        let mut level = 1;
        for at in s + 1..self.subject.len() {
            self.step()?;
            let byte = self.subject[at];
            if byte == close {
                level -= 1;
                if level == 0 {
                    return Ok(Some(at + 1));
                }
            } else if byte == open {
                level += 1;
            }
        }
        Ok(None)
    }

    /// Matches `%f[set]`, whose set is at `p`. Returns the end of the set.
    fn frontier(&mut self, s: usize, p: usize) -> Matched {
        if self.item(p) != b'[' {
            return Err("missing '[' after '%f' in pattern".into());
        }
        let end = self.class_end(p)?;
        self.take(3 * (end - p))?;
        let before = if s == 0 { 0 } else { self.subject[s - 1] };
        let here = self.subject.get(s).copied().unwrap_or(0);
        let is_frontier = !self.is_in_set(before, p, end - 1) && self.is_in_set(here, p, end - 1);
        Ok(is_frontier.then_some(end))
    }

    /// Matches `%1`: the text of a capture.
    fn back_reference(&mut self, s: usize, digit: u8) -> Matched {
        let at = usize::from(digit).wrapping_sub(usize::from(b'1'));
        let capture = self.captures[..self.level].get(at).copied();
        match capture {
            None | Some(Capture { extent: Extent::Unfinished, .. }) => {
                Err("invalid capture index".into())
            }
            Some(Capture { extent: Extent::Position, .. }) => Ok(None),
            Some(Capture { start, extent: Extent::Bytes(length) }) => {
                self.take(length / BYTES_PER_STEP)?;
                let text = &self.subject[start..start + length];
                Ok(self.subject[s..].starts_with(text).then_some(s + length))
            }
        }
    }

    /// Matches as many repetitions as possible, then fewer.
    fn most(&mut self, s: usize, p: usize, end: usize) -> Matched {
        let mut count = 0;
        while self.fits(s + count, p, end) {
            self.take(end - p)?;
            count += 1;
        }
        loop {
            if let Some(whole) = self.rest(s + count, end + 1)? {
                return Ok(Some(whole));
            }
            if count == 0 {
                return Ok(None);
            }
            count -= 1;
        }
    }

    /// Matches as few repetitions as possible, then more.
    fn fewest(&mut self, mut s: usize, p: usize, end: usize) -> Matched {
        loop {
            if let Some(whole) = self.rest(s, end + 1)? {
                return Ok(Some(whole));
            }
            self.take(end - p)?;
            if !self.fits(s, p, end) {
                return Ok(None);
            }
            s += 1;
        }
    }

    /// Returns the position after the single-character class at `p`.
    fn class_end(&self, p: usize) -> Result<usize, Raise> {
        match self.item(p) {
            b'%' if self.item(p + 1) == 0 => Err("malformed pattern (ends with '%')".into()),
            b'%' => Ok(p + 2),
            b'[' => {
                let mut at = p + 1;
                if self.item(at) == b'^' {
                    at += 1;
                }
                loop {
                    let byte = self.item(at);
                    if byte == 0 {
                        return Err("malformed pattern (missing ']')".into());
                    }
                    at += 1;
                    if byte == b'%' && self.item(at) != 0 {
                        at += 1;
                    }
                    if self.item(at) == b']' {
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(p + 1),
        }
    }

    /// Returns true if the byte at `s` is of the class from `p` to `end`.
    fn fits(&self, s: usize, p: usize, end: usize) -> bool {
        let Some(&byte) = self.subject.get(s) else { return false };
        match self.pattern[p] {
            b'.' => true,
            b'%' => is_of_class(byte, self.pattern[p + 1]),
            b'[' => self.is_in_set(byte, p, end - 1),
            literal => literal == byte,
        }
    }

    /// Returns true if a byte is in the set from `[` at `p` to `]` at `last`.
    fn is_in_set(&self, byte: u8, mut p: usize, last: usize) -> bool {
        let mut found = true;
        if self.item(p + 1) == b'^' {
            found = false;
            p += 1;
        }
        p += 1;
        while p < last {
            let item = self.item(p);
            if item == b'%' {
                p += 1;
                if is_of_class(byte, self.item(p)) {
                    return found;
                }
            } else if self.item(p + 1) == b'-' && p + 2 < last {
                p += 2;
                if (item..=self.item(p)).contains(&byte) {
                    return found;
                }
            } else if item == byte {
                return found;
            }
            p += 1;
        }
        !found
    }
}

/// Returns true if a byte is of a class such as `%a`.
fn is_of_class(byte: u8, class: u8) -> bool {
    let is_in = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => matches!(byte, b' ' | b'\t'..=b'\r'),
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    is_in == class.is_ascii_lowercase()
}
