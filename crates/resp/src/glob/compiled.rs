//! A compiled long pattern: adjacent stars are one, and a class is a set of bytes, however long it
//! is written. Strings that are too short to match are refused by their length.

use std::collections::HashMap;

use super::{ClassItem, MOST_STARS, class_items};

/// An item of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    /// Any bytes.
    Star,
    Any,
    Byte(u8),
    /// A byte of the class with this number.
    Class(u32),
}

/// A set of bytes.
type Class = [u64; 4];

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(super) struct Compiled {
    tokens: Vec<Token>,
    classes: Vec<Class>,
    /// The length of the shortest string that it matches.
    least: usize,
    /// Whether it has more stars than Redis follows.
    never: bool,
    /// Whether only its begin was compiled: possible matches are to be compared with the pattern as
    /// it is written.
    is_cut: bool,
}

/// Maximum number of items that are compiled: eight bytes each.
const MOST_PLACES: usize = 16 << 20;

impl Compiled {
    pub(super) fn new(pattern: &[u8], fold: impl Fn(u8) -> u8 + Copy) -> Compiled {
        let (mut tokens, mut classes, mut known) = (Vec::new(), Vec::new(), HashMap::new());
        let (mut stars, mut at) = (0, 0);
        while let [first, rest @ ..] = &pattern[at..]
            && tokens.len() < MOST_PLACES
        {
            at += 1;
            let token = match (first, rest) {
                (b'*', _) => {
                    stars += usize::from(rest.first().is_some_and(|&next| next != b'*'));
                    if tokens.last() == Some(&Token::Star) {
                        continue;
                    }
                    Token::Star
                }
                (b'?', _) => Token::Any,
                (b'[', _) => {
                    let (class, len) = class(rest, fold);
                    at += len;
                    let number = *known.entry(class).or_insert_with(|| {
                        classes.push(class);
                        classes.len() as u32 - 1
                    });
                    Token::Class(number)
                }
                (b'\\', [escaped, ..]) => {
                    at += 1;
                    Token::Byte(fold(*escaped))
                }
                (plain, _) => Token::Byte(fold(*plain)),
            };
            tokens.push(token);
        }
        let least = tokens.iter().filter(|token| **token != Token::Star).count();
        Compiled { tokens, classes, least, never: stars > MOST_STARS, is_cut: at < pattern.len() }
    }

    /// Returns true if only the pattern as it is written can decide whether a string matches.
    pub(super) fn leaves_open(&self, string: &[u8]) -> bool {
        self.is_cut && !self.never && string.len() >= self.least
    }

    /// Returns true if all of `string`, which is not empty, matches.
    pub(super) fn matches(&self, string: &[u8], fold: impl Fn(u8) -> u8) -> bool {
        if self.never || string.len() < self.least {
            return false;
        }
        let (mut p, mut s) = (0, 0);
        // The position after the last star, and that of the first byte that the star was not yet
        // tried on.
        let mut star = None;
        loop {
            let token = self.tokens.get(p);
            if token == Some(&Token::Star) {
                p += 1;
                star = Some((p, s));
                continue;
            }
            let Some(&byte) = string.get(s) else { return p == self.tokens.len() };
            let fits = match token {
                None | Some(Token::Star) => false,
                Some(Token::Any) => true,
                Some(Token::Byte(plain)) => *plain == fold(byte),
                Some(Token::Class(number)) => has(&self.classes[*number as usize], byte),
            };
            match star {
                _ if fits => (p, s) = (p + 1, s + 1),
                Some((after_star, next)) => {
                    (p, s) = (after_star, next + 1);
                    star = Some((after_star, s));
                }
                None => return false,
            }
        }
    }
}

fn has(class: &Class, byte: u8) -> bool {
    class[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
}

/// Returns the bytes of the class that starts after `[`, and its length with its `]`.
fn class(text: &[u8], fold: impl Fn(u8) -> u8 + Copy) -> (Class, usize) {
    let (mut plain, mut escaped) = ([false; 256], [false; 256]);
    // For the first byte of a range, as a signed number, the last byte of the longest range that
    // begins there.
    let mut ranges = [None; 256];
    let (is_negated, len) = class_items(text, |item| match item {
        ClassItem::Plain(byte) => plain[usize::from(fold(byte))] = true,
        ClassItem::Escaped(byte) => escaped[usize::from(byte)] = true,
        ClassItem::Range(low, high) => {
            let last = &mut ranges[rank(fold(low))];
            *last = (*last).max(Some(rank(fold(high))));
        }
    });
    let (mut in_range, mut end) = ([false; 256], None);
    for (at, last) in ranges.into_iter().enumerate() {
        end = end.max(last);
        in_range[at] = end.is_some_and(|end| at <= end);
    }
    let mut class = Class::default();
    for byte in 0..=u8::MAX {
        let folded = fold(byte);
        let found =
            plain[usize::from(folded)] || escaped[usize::from(byte)] || in_range[rank(folded)];
        if found != is_negated {
            class[usize::from(byte >> 6)] |= 1 << (byte & 63);
        }
    }
    (class, len)
}

/// Returns the rank of a byte among all, with those above 127 as negative numbers.
fn rank(byte: u8) -> usize {
    usize::from(byte ^ 0x80)
}
