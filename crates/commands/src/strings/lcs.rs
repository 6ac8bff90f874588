//! LCS: the longest common subsequence of two strings.
//!
//! A table of the lengths for all prefixes is filled, and walked back from its end. The walk is
//! Redis's step for step, since it decides which of several longest subsequences is returned and
//! how it is cut into ranges (a match that does not continue the current range ends it and is not
//! part of the next).

use engine::call::{Call, Run};
use engine::failure::{Done, Failure, SYNTAX};
use engine::spec::*;
use keyspace::{Entry, Error, Txn};
use resp::Writer;

pub(crate) const LCS: CommandSpec = CommandSpec {
    name: "lcs",
    summary: "Find longest common substring",
    complexity: "O(N*M) where N and M are the lengths of s1 and s2, respectively",
    since: "7.0.0",
    group: Group::String,
    arity: -3,
    flags: READONLY,
    acl: ACL_STRING,
    keys: &[KeySpec::range(1, 1, 1, KEY_RO | KEY_ACCESS)],
    args: &[
        key("key1", 0),
        key("key2", 0),
        token("len", "LEN").optional(),
        token("idx", "IDX").optional(),
        integer("len").token("MINMATCHLEN").optional(),
        token("withmatchlen", "WITHMATCHLEN").optional(),
    ],
    weigh: Some(weights::compares),
    run: Run::Keys(lcs),
    ..CommandSpec::EMPTY
};

#[derive(Default)]
struct Options {
    len: bool,
    ranges: bool,
    with_len: bool,
    min_len: i64,
}

fn lcs(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let found = [0, 1].map(|n| txn.find(call.db(), &call.key(n)));
    let [a, b] = found.map(|entry| string(txn, entry));
    let (a, b) = (a?, b?);
    let options = parse(call)?;
    if options.len && options.ranges {
        return Err("ERR If you want both the length and indexes, please just use IDX.".into());
    }
    let cells = (a.len() as u64 + 1).checked_mul(b.len() as u64 + 1);
    let bytes = cells.and_then(|cells| cells.checked_mul(size_of::<u32>() as u64));
    if bytes.is_none_or(|bytes| bytes > call.engine.config().proto_max_bulk_len()) {
        return Err("ERR Insufficient memory, transient memory for LCS exceeds \
                    proto-max-bulk-len"
            .into());
    }
    let table = Lengths::new(&a, &b);
    if options.ranges {
        reply_ranges(call.out, &table, &options);
    } else if options.len {
        call.out.integer(i64::from(table.total()));
    } else {
        call.out.bulk(table.subsequence());
    }
    Ok(())
}

fn string(txn: &Txn<'_>, entry: Option<Entry>) -> Result<Vec<u8>, Failure> {
    let Some(entry) = entry else { return Ok(Vec::new()) };
    match txn.string(&entry) {
        Ok(value) => Ok(value.to_vec()?),
        Err(Error::WrongType) => Err("ERR The specified keys must contain string values".into()),
        Err(error) => Err(error.into()),
    }
}

fn parse(call: &Call<'_>) -> Result<Options, Failure> {
    let mut options = Options::default();
    let mut at = 3;
    while at < call.args.len() {
        if call.is(at, "IDX") {
            options.ranges = true;
        } else if call.is(at, "LEN") {
            options.len = true;
        } else if call.is(at, "WITHMATCHLEN") {
            options.with_len = true;
        } else if call.is(at, "MINMATCHLEN") && at + 1 < call.args.len() {
            options.min_len = call.int(at + 1)?.max(0);
            at += 1;
        } else {
            return Err(SYNTAX.into());
        }
        at += 1;
    }
    Ok(options)
}

/// Lengths of the longest common subsequences of all prefixes of two strings.
struct Lengths<'a> {
    a: &'a [u8],
    b: &'a [u8],
    cells: Vec<u32>,
}

/// A range of matching bytes in both strings: first and last positions, both included.
#[derive(Clone, Copy)]
struct Range {
    a: (usize, usize),
    b: (usize, usize),
}

impl<'a> Lengths<'a> {
    fn new(a: &'a [u8], b: &'a [u8]) -> Lengths<'a> {
        let mut table = Lengths { a, b, cells: vec![0; (a.len() + 1) * (b.len() + 1)] };
        for i in 1..=a.len() {
            for j in 1..=b.len() {
                let length = if a[i - 1] == b[j - 1] {
                    table.at(i - 1, j - 1) + 1
                } else {
                    table.at(i - 1, j).max(table.at(i, j - 1))
                };
                table.cells[i * (b.len() + 1) + j] = length;
            }
        }
        table
    }

    fn at(&self, i: usize, j: usize) -> u32 {
        self.cells[i * (self.b.len() + 1) + j]
    }

    fn total(&self) -> u32 {
        self.at(self.a.len(), self.b.len())
    }

    fn subsequence(&self) -> Vec<u8> {
        let mut reversed = Vec::with_capacity(self.total() as usize);
        self.walk(|byte| reversed.push(byte), |_| {});
        reversed.reverse();
        reversed
    }

    /// Walks back from the end, and reports each matching byte and each complete range.
    fn walk(&self, mut byte: impl FnMut(u8), mut complete: impl FnMut(Range)) {
        let (mut i, mut j) = (self.a.len(), self.b.len());
        let mut open: Option<Range> = None;
        while i > 0 && j > 0 {
            let mut ends = false;
            if self.a[i - 1] == self.b[j - 1] {
                byte(self.a[i - 1]);
                let range = match open {
                    None => Range { a: (i - 1, i - 1), b: (j - 1, j - 1) },
                    Some(range) if range.a.0 == i && range.b.0 == j => {
                        Range { a: (i - 1, range.a.1), b: (j - 1, range.b.1) }
                    }
                    Some(range) => {
                        ends = true;
                        range
                    }
                };
                ends |= range.a.0 == 0 || range.b.0 == 0;
                open = Some(range);
                i -= 1;
                j -= 1;
            } else {
                if self.at(i - 1, j) > self.at(i, j - 1) {
                    i -= 1;
                } else {
                    j -= 1;
                }
                ends = open.is_some();
            }
            if ends {
                open.take().into_iter().for_each(&mut complete);
            }
        }
    }
}

fn reply_ranges(out: &mut Writer, table: &Lengths<'_>, options: &Options) {
    let mut ranges = Vec::new();
    table.walk(|_| {}, |range| ranges.push(range));
    let length = |range: &Range| (range.a.1 - range.a.0 + 1) as i64;
    ranges.retain(|range| options.min_len == 0 || length(range) >= options.min_len);
    out.map(2);
    out.bulk("matches");
    out.array(ranges.len());
    for range in &ranges {
        out.array(if options.with_len { 3 } else { 2 });
        for (from, to) in [range.a, range.b] {
            out.array(2);
            out.integer(from as i64);
            out.integer(to as i64);
        }
        if options.with_len {
            out.integer(length(range));
        }
    }
    out.bulk("len");
    out.integer(i64::from(table.total()));
}
