//! The bounds of ranges: `(5`, `-inf`, `[name`, `+`.

use std::ops::Range;

use engine::failure::Failure;
use keyspace::{Error, SortedSetRef};
use resp::number::parse_f64;

/// A range of scores, each bound included or not.
pub(super) struct ScoreRange {
    min: ScoreBound,
    max: ScoreBound,
}

struct ScoreBound {
    score: f64,
    excluded: bool,
}

impl ScoreRange {
    /// Parses both bounds.
    pub(super) fn parse(min: &[u8], max: &[u8]) -> Result<ScoreRange, Failure> {
        let bounds = ScoreBound::parse(min).zip(ScoreBound::parse(max));
        let (min, max) = bounds.ok_or("ERR min or max is not a float")?;
        Ok(ScoreRange { min, max })
    }

    /// Returns the ranks of the members in the range.
    pub(super) fn ranks(&self, sorted_set: &SortedSetRef<'_>) -> Result<Range<u64>, Error> {
        let start = sorted_set.count_below(self.min.score, self.min.excluded)?;
        let end = sorted_set.count_below(self.max.score, !self.max.excluded)?;
        Ok(start..end.max(start))
    }
}

impl ScoreBound {
    fn parse(text: &[u8]) -> Option<ScoreBound> {
        match text {
            [b'(', rest @ ..] => Some(ScoreBound { score: number(rest)?, excluded: true }),
            _ => Some(ScoreBound { score: number(text)?, excluded: false }),
        }
    }
}

/// Parses a number as C's `strtod` does with a text that it reads to the end, which accepts more
/// than a score may be: an empty text is 0, leading white space is skipped, and too large a number
/// is infinite.
fn number(text: &[u8]) -> Option<f64> {
    if text.is_empty() {
        return Some(0.0);
    }
    let digits = text.trim_ascii_start();
    let is_decimal =
        digits.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
    let beyond = || std::str::from_utf8(digits).ok()?.parse().ok();
    parse_f64(digits).or_else(|| if is_decimal { beyond() } else { None })
}

/// A range of names.
pub(super) struct LexRange<'a> {
    min: LexBound<'a>,
    max: LexBound<'a>,
}

enum LexBound<'a> {
    /// `-`
    Lowest,
    /// `+`
    Highest,
    Name {
        name: &'a [u8],
        excluded: bool,
    },
}

impl<'a> LexRange<'a> {
    /// Parses both bounds.
    pub(super) fn parse(min: &'a [u8], max: &'a [u8]) -> Result<LexRange<'a>, Failure> {
        let bounds = LexBound::parse(min).zip(LexBound::parse(max));
        let (min, max) = bounds.ok_or("ERR min or max not valid string range item")?;
        Ok(LexRange { min, max })
    }

    /// Returns the ranks of the members in the range, searched from the given side.
    pub(super) fn ranks(
        &self,
        sorted_set: &SortedSetRef<'_>,
        backwards: bool,
    ) -> Result<Range<u64>, Error> {
        let below = |member: &[u8]| match self.min {
            LexBound::Lowest => false,
            LexBound::Highest => true,
            LexBound::Name { name, excluded } => member < name || excluded && member == name,
        };
        let above = |member: &[u8]| match self.max {
            LexBound::Lowest => true,
            LexBound::Highest => false,
            LexBound::Name { name, excluded } => member > name || excluded && member == name,
        };
        sorted_set.between(below, above, backwards)
    }
}

impl<'a> LexBound<'a> {
    fn parse(text: &'a [u8]) -> Option<LexBound<'a>> {
        match text {
            b"-" => Some(LexBound::Lowest),
            b"+" => Some(LexBound::Highest),
            [b'(', name @ ..] => Some(LexBound::Name { name, excluded: true }),
            [b'[', name @ ..] => Some(LexBound::Name { name, excluded: false }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<f64>) {
        let bits = |score: Option<f64>| score.map(f64::to_bits);
        assert_eq!(bits(number(text.as_bytes())), bits(expected), "{text:?}");
    }

    #[test]
    fn ends_of_ranges_are_read_as_c_reads_them() {
        check("", Some(0.0));
        check(" 1.5", Some(1.5));
        check("1e400", Some(f64::INFINITY));
        check("-1e400", Some(f64::NEG_INFINITY));
        check("1e-400", Some(0.0));
        check("+inf", Some(f64::INFINITY));
        check("0x10", Some(16.0));
        for text in [" ", "1 ", "nan", "x", "1e", "--1", "(1"] {
            check(text, None);
        }
    }
}
