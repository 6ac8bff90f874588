//! Glob patterns as KEYS, SCAN, PSUBSCRIBE and CONFIG GET take them.
//!
//! `*` any bytes, `?` one byte, `[abc]` `[a-z]` `[^a]` one byte of a class, `\` takes the next byte
//! as it is. The odd corners are Redis's: an unclosed class ends with the pattern, a range may be
//! written backwards, bytes above 127 order as negative numbers, and the empty string matches the
//! empty pattern and `*`, but not `**`.
//!
//! Only the last `*` is ever worth going back to, so matching needs no recursion and at most
//! (pattern x string) steps, whatever a client sends. Redis's needs recursion, and finds nothing
//! where that would go deeper than a thousand stars: so does this.

/// Returns true if all of `string` matches `pattern`.
pub fn matches(pattern: &[u8], string: &[u8]) -> bool {
    match_bytes(pattern, string, |byte| byte)
}

/// As [`matches()`], without regard to the case of ASCII letters.
pub fn matches_ignoring_case(pattern: &[u8], string: &[u8]) -> bool {
    match_bytes(pattern, string, |byte| byte.to_ascii_lowercase())
}

/// Stars of a pattern that may match, one at its end not counted; those side by side are one.
const MOST_STARS: usize = 1000;

fn match_bytes(pattern: &[u8], string: &[u8], fold: impl Fn(u8) -> u8 + Copy) -> bool {
    if string.is_empty() {
        return matches!(pattern, [] | [b'*']);
    }
    let (mut p, mut s) = (0, 0);
    let mut stars = 0;
    // After the last star, and the first byte that it has not been tried to swallow.
    let mut star = None;
    loop {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            star = Some((p, s));
            if pattern.get(p).is_some_and(|&next| next != b'*') {
                stars += 1;
                if stars > MOST_STARS {
                    return false;
                }
            }
            continue;
        }
        let step = match string.get(s) {
            None if p == pattern.len() => return true,
            None => return false,
            Some(&byte) => one(&pattern[p..], byte, fold),
        };
        if let Some(len) = step {
            p += len;
            s += 1;
        } else if let Some((after_star, next)) = star {
            p = after_star;
            s = next + 1;
            star = Some((after_star, s));
        } else {
            return false;
        }
    }
}

/// Returns how many bytes of `pattern` match the one byte, if they do.
fn one(pattern: &[u8], byte: u8, fold: impl Fn(u8) -> u8) -> Option<usize> {
    let equal = |a: u8| fold(a) == fold(byte);
    match *pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'[', ..] => {
            let (found, len) = class(&pattern[1..], byte, fold);
            found.then_some(1 + len)
        }
        [b'\\', escaped, ..] => equal(escaped).then_some(2),
        [plain, ..] => equal(plain).then_some(1),
    }
}

/// Returns whether `byte` is in the class that starts after `[`, and the class's length with its
/// `]`.
fn class(class: &[u8], byte: u8, fold: impl Fn(u8) -> u8) -> (bool, usize) {
    let signed = |b: u8| fold(b) as i8;
    let negated = class.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut found = false;
    loop {
        match class[at..] {
            [] => return (found != negated, at),
            [b']', ..] => return (found != negated, at + 1),
            [b'\\', escaped, ..] => {
                found |= escaped == byte;
                at += 2;
            }
            [first, b'-', last, ..] => {
                let (low, high) =
                    if first as i8 > last as i8 { (last, first) } else { (first, last) };
                found |= (signed(low)..=signed(high)).contains(&signed(byte));
                at += 3;
            }
            [plain, ..] => {
                found |= fold(plain) == fold(byte);
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{matches, matches_ignoring_case};

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
}
