//! The packed form of a sorted set: each member followed by its score, lower scores first.
//!
//! A score that is a whole number is an integer item; any other score is a string of its eight
//! bytes. As in Redis's small form, a negative zero becomes zero if it is stored as an integer.

use std::cmp::Ordering;

use structures::listpack::{Item, Items};

use super::Text;

/// A member with its score, and the bytes that both take.
#[derive(Clone, Copy)]
pub(crate) struct ScoredItem<'b> {
    pub(crate) member: Item<'b>,
    pub(crate) score: f64,
    /// The offset at which the member begins.
    pub(crate) at: usize,
    /// The offset at which the score ends.
    pub(crate) end: usize,
}

/// Returns the members of packed bytes, in their order.
pub(crate) fn pairs(bytes: &[u8]) -> impl Iterator<Item = ScoredItem<'_>> {
    let mut items = Items::of(bytes);
    std::iter::from_fn(move || {
        let (at, member) = items.next()?;
        let (_, score) = items.next()?;
        Some(ScoredItem { member, score: score_of(score), at, end: items.offset() })
    })
}

fn score_of(item: Item<'_>) -> f64 {
    match item {
        Item::Int(int) => int as f64,
        Item::Bytes(bytes) => bytes.try_into().map_or(0.0, f64::from_le_bytes),
    }
}

/// Returns a score as text that parses as the same number.
pub(super) fn score_text(score: f64) -> String {
    score.to_string()
}

/// The greatest absolute value of a whole number that is stored as an integer.
const WHOLE: f64 = (1u64 << 53) as f64;

/// Writes a member with its score; with `keep_sign`, a negative zero stays negative.
pub(crate) fn encode(member: Item<'_>, score: f64, keep_sign: bool, out: &mut Vec<u8>) {
    member.encode(out);
    let is_whole = score.abs() <= WHOLE && (score as i64) as f64 == score;
    if is_whole && !(keep_sign && score == 0.0 && score.is_sign_negative()) {
        Item::Int(score as i64).encode(out);
    } else {
        Item::Bytes(&score.to_le_bytes()).encode(out);
    }
}

/// Compares a pair with a score and a member, in the order of the set.
fn compare(pair: &ScoredItem<'_>, score: f64, member: &[u8]) -> Ordering {
    let by_score = pair.score.partial_cmp(&score).unwrap_or(Ordering::Equal);
    by_score.then_with(|| Text::of(pair.member).as_ref().cmp(member))
}

/// Returns the offset of the member with this score in packed bytes, or of where it would be
/// inserted.
pub(crate) fn offset(bytes: &[u8], score: f64, member: &[u8]) -> usize {
    let mut after = pairs(bytes).filter(|pair| compare(pair, score, member).is_ge());
    after.next().map_or(bytes.len(), |pair| pair.at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(score: f64, keep_sign: bool, expected: f64, len: usize) {
        let mut bytes = Vec::new();
        encode(Item::Bytes(b"m"), score, keep_sign, &mut bytes);
        let all: Vec<ScoredItem<'_>> = pairs(&bytes).collect();
        assert_eq!(all[0].score.to_bits(), expected.to_bits(), "{score}");
        assert_eq!((all.len(), all[0].end, bytes.len()), (1, bytes.len(), 2 + len), "{score}");
    }

    #[test]
    fn scores_read_back_as_written() {
        check(7.0, false, 7.0, 1);
        check(-3000.0, false, -3000.0, 2);
        check(9_007_199_254_740_992.0, false, 9_007_199_254_740_992.0, 9);
        check(1e300, false, 1e300, 9);
        check(0.1, false, 0.1, 9);
        check(f64::NEG_INFINITY, false, f64::NEG_INFINITY, 9);
        check(-0.0, false, 0.0, 1);
        check(-0.0, true, -0.0, 9);
    }
}
