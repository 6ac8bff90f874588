//! Glob patterns of KEYS, SCAN, PSUBSCRIBE and CONFIG GET.
//!
//! `*` matches any bytes, `?` one byte, `[abc]` `[a-z]` `[^a]` one byte of a class, `\` the next
//! byte literally. The special cases are Redis's: an unclosed class ends with the pattern, a range
//! may be written backwards, bytes above 127 are ordered like negative numbers, and the empty
//! string matches the empty pattern and `*`, but not `**`.
//!
//! Only the last `*` is ever worth going back to, so matching needs no recursion and at most
//! (pattern x string) steps, whatever a client sends. Redis recurses, and matches nothing if that
//! would go deeper than a thousand stars; so does this.
//!
//! A pattern may be as long as a request, and be matched with millions of keys. One that is not
//! short is compiled once, up to sixteen million positions; if it is matched with one string only,
//! it is compiled when the first steps have not decided.

mod compiled;

use compiled::Compiled;

/// Returns true if all of `string` matches `pattern`.
pub fn matches(pattern: &[u8], string: &[u8]) -> bool {
    match_once(pattern, string, |byte| byte)
}

/// As [`matches()`], ignoring the case of ASCII letters.
pub fn matches_ignoring_case(pattern: &[u8], string: &[u8]) -> bool {
    match_once(pattern, string, |byte| byte.to_ascii_lowercase())
}

/// A pattern that is matched with many strings.
#[derive(Clone, Debug)]
pub struct Pattern<'p> {
    text: &'p [u8],
    /// Set if it is not short.
    compiled: Option<Compiled>,
}

impl<'p> Pattern<'p> {
    /// Compiles a pattern, if it is long.
    pub fn new(text: &'p [u8]) -> Pattern<'p> {
        let compiled = (text.len() > SHORT).then(|| Compiled::new(text, |byte| byte));
        Pattern { text, compiled }
    }

    /// Returns true if all of `string` matches.
    pub fn matches(&self, string: &[u8]) -> bool {
        match &self.compiled {
            Some(compiled) if !string.is_empty() && !compiled.leaves_open(string) => {
                compiled.matches(string, |byte| byte)
            }
            _ => matches(self.text, string),
        }
    }
}

/// Length up to which a pattern is matched as it is written.
const SHORT: usize = 64;

/// Steps after which a pattern that is not short is compiled.
const FEW_STEPS: usize = 4096;

/// Maximum number of stars in a pattern that may match, without one at its end; adjacent ones count
/// as one.
const MOST_STARS: usize = 1000;

fn match_once(pattern: &[u8], string: &[u8], fold: impl Fn(u8) -> u8 + Copy) -> bool {
    if string.is_empty() {
        return matches!(pattern, [] | [b'*']);
    }
    let steps = if pattern.len() > SHORT { FEW_STEPS } else { usize::MAX };
    match_bytes(pattern, string, fold, steps).unwrap_or_else(|| {
        let compiled = Compiled::new(pattern, fold);
        if compiled.leaves_open(string) {
            return match_bytes(pattern, string, fold, usize::MAX).unwrap_or(false);
        }
        compiled.matches(string, fold)
    })
}

/// Returns whether a non-empty string matches; `None` if that takes more than this many steps.
fn match_bytes(
    pattern: &[u8],
    string: &[u8],
    fold: impl Fn(u8) -> u8 + Copy,
    mut steps: usize,
) -> Option<bool> {
    let (mut p, mut s) = (0, 0);
    let mut stars = 0;
    // The position after the last star, and that of the first byte that the star was not yet tried
    // on.
    let mut star = None;
    loop {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            steps = steps.checked_sub(1)?;
            star = Some((p, s));
            if pattern.get(p).is_some_and(|&next| next != b'*') {
                stars += 1;
                if stars > MOST_STARS {
                    return Some(false);
                }
            }
            continue;
        }
        let (fits, len) = match string.get(s) {
            None => return Some(p == pattern.len()),
            Some(&byte) => one(&pattern[p..], byte, fold),
        };
        steps = steps.checked_sub(len)?;
        match star {
            _ if fits => (p, s) = (p + len, s + 1),
            Some((after_star, next)) => {
                (p, s) = (after_star, next + 1);
                star = Some((after_star, s));
            }
            None => return Some(false),
        }
    }
}

/// Returns whether the byte matches the first item of the pattern, and the length of that item.
fn one(pattern: &[u8], byte: u8, fold: impl Fn(u8) -> u8) -> (bool, usize) {
    let equal = |a: u8| fold(a) == fold(byte);
    match *pattern {
        [] => (false, 0),
        [b'?', ..] => (true, 1),
        [b'[', ..] => {
            let (found, len) = class(&pattern[1..], byte, fold);
            (found, 1 + len)
        }
        [b'\\', escaped, ..] => (equal(escaped), 2),
        [plain, ..] => (equal(plain), 1),
    }
}

/// Returns whether `byte` is in the class that starts after `[`, and the class's length with its
/// `]`.
fn class(text: &[u8], byte: u8, fold: impl Fn(u8) -> u8) -> (bool, usize) {
    let signed = |b: u8| fold(b) as i8;
    let mut found = false;
    let (is_negated, len) = class_items(text, |item| {
        found |= match item {
            ClassItem::Plain(plain) => fold(plain) == fold(byte),
            ClassItem::Escaped(escaped) => escaped == byte,
            ClassItem::Range(low, high) => (signed(low)..=signed(high)).contains(&signed(byte)),
        }
    });
    (found != is_negated, len)
}

/// An item of a class.
enum ClassItem {
    Plain(u8),
    /// Literal, whatever the case.
    Escaped(u8),
    /// From the lower to the higher, as signed numbers.
    Range(u8, u8),
}

/// Shows the items of the class that starts after `[`. Returns whether it is negated, and its
/// length with its `]`.
fn class_items(class: &[u8], mut show: impl FnMut(ClassItem)) -> (bool, usize) {
    let is_negated = class.first() == Some(&b'^');
    let mut at = usize::from(is_negated);
    loop {
        match class[at..] {
            [] => return (is_negated, at),
            [b']', ..] => return (is_negated, at + 1),
            [b'\\', escaped, ..] => {
                show(ClassItem::Escaped(escaped));
                at += 2;
            }
            [first, b'-', last, ..] => {
                let is_backwards = first as i8 > last as i8;
                let (low, high) = if is_backwards { (last, first) } else { (first, last) };
                show(ClassItem::Range(low, high));
                at += 3;
            }
            [plain, ..] => {
                show(ClassItem::Plain(plain));
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Compiled, Pattern, match_bytes, matches, matches_ignoring_case};
    use std::time::{Duration, Instant};

    #[track_caller]
    fn check(pattern: &str, yes: &[&str], no: &[&str]) {
        for string in yes {
            assert!(matches(pattern.as_bytes(), string.as_bytes()), "{pattern} {string}");
        }
        for string in no {
            assert!(!matches(pattern.as_bytes(), string.as_bytes()), "{pattern} {string}");
        }
    }

    #[test]
    fn patterns_of_the_documentation() {
        check("h?llo", &["hello", "hallo", "hxllo"], &["hllo", "heello"]);
        check("h*llo", &["hllo", "heeeello"], &["hell"]);
        check("h[ae]llo", &["hello", "hallo"], &["hillo"]);
        check("h[^e]llo", &["hallo", "hbllo"], &["hello"]);
        check("h[a-b]llo", &["hallo", "hbllo"], &["hcllo"]);
        check(r"h\*llo\?", &["h*llo?"], &["hello?", "h*llox"]);
    }

    #[test]
    fn stars() {
        check("*", &["", "a", "ab"], &[]);
        check("", &[""], &["a"]);
        check("a**", &["a", "ab"], &["", "b"]);
        check("*a*b*", &["ab", "xaxbx", "aab"], &["ba", "a", "b"]);
        check("**", &["a"], &[""]);
    }

    #[test]
    fn classes_in_odd_shape() {
        check("[a", &["a"], &["b", "["]);
        check("[", &[], &["[", "a"]);
        check("[^", &["a"], &[]);
        check("[b-a]", &["a", "b"], &["c"]);
        check(r"[\]a]", &["]", "a"], &["\\"]);
        check("a\\", &["a\\"], &["a"]);
    }

    #[test]
    fn case_can_be_ignored() {
        assert!(matches_ignoring_case(b"MAX*[A-C]", b"maxmemoryB"));
        assert!(!matches(b"MAX*", b"maxmemory"));
    }

    #[test]
    fn nothing_fits_after_a_thousand_stars() {
        let fits = |stars: usize, end: &str| {
            matches(("*?".repeat(stars) + end).as_bytes(), "a".repeat(3000).as_bytes())
        };
        assert!(fits(1000, "") && fits(1000, "*") && fits(1000, "**"));
        assert!(!fits(1001, "") && !fits(1000, "*a"));
    }

    #[test]
    fn many_stars_take_no_more_than_the_product_of_the_lengths() {
        let pattern = "*a".repeat(50_000) + "b";
        assert!(!matches(pattern.as_bytes(), "a".repeat(10_000).as_bytes()));
        let pattern = "a*".repeat(20) + "b";
        assert!(!matches(pattern.as_bytes(), "a".repeat(10_000).as_bytes()));
    }

    #[test]
    fn a_pattern_that_was_read_matches_the_same() {
        let mut random = 7_u64;
        let mut draw = |from: &[u8], most: usize| -> Vec<u8> {
            let mut next = || {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (random >> 33) as usize
            };
            (0..next() % most).map(|_| from[next() % from.len()]).collect()
        };
        let mut matched = 0;
        for _ in 0..200_000 {
            let pattern = draw(b"aAbB**??[]^-\\\x7f\x80\xff", 9);
            let string = [draw(b"aAbBcC]^-\\\x7f\x80\xff", 5), b"a".to_vec()].concat();
            let lower = |byte: u8| byte.to_ascii_lowercase();
            for (plain, read) in [
                (
                    match_bytes(&pattern, &string, |byte| byte, usize::MAX),
                    Compiled::new(&pattern, |byte| byte).matches(&string, |byte| byte),
                ),
                (
                    match_bytes(&pattern, &string, lower, usize::MAX),
                    Compiled::new(&pattern, lower).matches(&string, lower),
                ),
            ] {
                assert_eq!(plain, Some(read), "{pattern:?} {string:?}");
                matched += u32::from(read);
            }
        }
        assert!(matched > 10_000, "{matched}");
    }

    #[test]
    fn a_long_pattern_is_read_once() {
        let begin = Instant::now();
        let class = [b"*[".as_slice(), &b"ab".repeat(1 << 17), b"]x"].concat();
        let ranges = [b"*[".as_slice(), &b"\x00-\xff".repeat(1 << 17), b"]x"].concat();
        let stars = [b"*".repeat(1 << 19), b"x".to_vec()].concat();
        let long = b"[a]?".repeat(1 << 17);
        for text in [&class, &ranges, &stars, &long] {
            let pattern = Pattern::new(text);
            for key in 0..100_000 {
                assert!(!pattern.matches(format!("key:{key}").as_bytes()));
            }
            assert!(!matches(text, &b"a".repeat(50_000)));
        }
        assert!(Pattern::new(&class).matches(b"key:ax") && matches(&class, b"bx"));
        assert!(Pattern::new(&stars).matches(b"key:x"));
        assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    }
}
