//! The range that ZRANGE and its relatives select: by rank, score or name, in ascending or
//! descending order, limited by an offset and a count.

use std::ops::Range;

use engine::call::Call;
use engine::failure::{Failure, SYNTAX};
use keyspace::{Error, SortedSetRef};

use super::bound::{LexRange, ScoreRange};

/// The kind of the bounds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    Rank,
    Score,
    Lex,
}

/// What a command's name determines.
#[derive(Clone, Copy)]
pub(super) struct Form {
    /// The position of the sorted set's key.
    pub(super) key: usize,
    /// The kind of the bounds; `None` if an option may choose it.
    pub(super) by: Option<By>,
    /// The direction; `None` if the option REV is allowed.
    pub(super) backwards: Option<bool>,
    /// True if the result is stored: scores cannot be asked for.
    pub(super) stores: bool,
}

enum Ends<'a> {
    Rank(i64, i64),
    Score(ScoreRange),
    Lex(LexRange<'a>),
}

/// A range of members.
pub(super) struct Selection<'a> {
    ends: Ends<'a>,
    pub(super) backwards: bool,
    pub(super) with_scores: bool,
    offset: i64,
    /// Negative for all.
    count: i64,
}

/// The options after the bounds.
struct Options {
    by: Option<By>,
    backwards: Option<bool>,
    with_scores: bool,
    offset: i64,
    count: i64,
}

impl<'a> Selection<'a> {
    /// Parses a request.
    pub(super) fn parse(call: &Call<'a>, form: Form) -> Result<Selection<'a>, Failure> {
        let options = Options::parse(call, form)?;
        let by = options.by.unwrap_or(By::Rank);
        let backwards = options.backwards.unwrap_or(false);
        if options.count != -1 && by == By::Rank {
            let text = "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX";
            return Err(text.into());
        }
        if options.with_scores && by == By::Lex {
            let text = "ERR syntax error, WITHSCORES not supported in combination with BYLEX";
            return Err(text.into());
        }
        let (first, second) = (form.key + 1, form.key + 2);
        let (min, max) = if backwards { (second, first) } else { (first, second) };
        let ends = match by {
            By::Rank => Ends::Rank(call.int(first)?, call.int(second)?),
            By::Score => Ends::Score(ScoreRange::parse(call.args[min], call.args[max])?),
            By::Lex => Ends::Lex(LexRange::parse(call.args[min], call.args[max])?),
        };
        let Options { with_scores, offset, count, .. } = options;
        Ok(Selection { ends, backwards, with_scores, offset, count })
    }

    /// Returns the first rank to show, and the number of members.
    pub(super) fn ranks(&self, sorted_set: &SortedSetRef<'_>) -> Result<(u64, u64), Error> {
        let len = sorted_set.len();
        let range = match &self.ends {
            Ends::Rank(start, stop) => {
                let range = span(*start, *stop, len);
                if self.backwards { len - range.end..len - range.start } else { range }
            }
            Ends::Score(range) => range.ranks(sorted_set)?,
            Ends::Lex(range) => range.ranks(sorted_set, self.backwards)?,
        };
        // As in Redis, a negative offset is beyond any range.
        let skipped = u64::try_from(self.offset).unwrap_or(u64::MAX).min(range.end - range.start);
        let most = u64::try_from(self.count).unwrap_or(u64::MAX);
        let count = most.min(range.end - range.start - skipped);
        Ok(match (count, self.backwards) {
            (0, _) => (0, 0),
            (_, true) => (range.end - 1 - skipped, count),
            (_, false) => (range.start + skipped, count),
        })
    }
}

impl Options {
    fn parse(call: &Call<'_>, form: Form) -> Result<Options, Failure> {
        let Form { key, by, backwards, stores } = form;
        let mut options = Options { by, backwards, with_scores: false, offset: 0, count: -1 };
        let mut at = key + 3;
        while at < call.args.len() {
            match () {
                () if !stores && call.is(at, "WITHSCORES") => options.with_scores = true,
                () if call.is(at, "LIMIT") && at + 2 < call.args.len() => {
                    options.offset = call.int(at + 1)?;
                    options.count = call.int(at + 2)?;
                    at += 2;
                }
                () if options.backwards.is_none() && call.is(at, "REV") => {
                    options.backwards = Some(true);
                }
                () if options.by.is_none() && call.is(at, "BYLEX") => options.by = Some(By::Lex),
                () if options.by.is_none() && call.is(at, "BYSCORE") => {
                    options.by = Some(By::Score);
                }
                () => return Err(SYNTAX.into()),
            }
            at += 1;
        }
        Ok(options)
    }
}

/// Returns the ranks from one index to another, both included; negative ones count from the end.
pub(super) fn span(start: i64, stop: i64, len: u64) -> Range<u64> {
    let place =
        |index: i64| -> i64 { if index < 0 { index.saturating_add_unsigned(len) } else { index } };
    let start = u64::try_from(place(start)).unwrap_or(0).min(len);
    let end = u64::try_from(place(stop).saturating_add(1)).unwrap_or(0).min(len);
    start..end.max(start)
}
