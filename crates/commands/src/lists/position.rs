//! LPOS.

use engine::call::{Call, Run};
use engine::failure::{Done, Failure, SYNTAX};
use engine::spec::*;
use keyspace::{ListRef, Side, Txn};
use resp::number::parse_i64;

use super::list;

pub(crate) const LPOS: CommandSpec = CommandSpec {
    name: "lpos",
    summary: "Return the index of matching elements on a list",
    complexity: "O(N) where N is the number of elements in the list, for the average case. When searching for elements near the head or the tail of the list, or when the MAXLEN option is provided, the command may run in constant time.",
    since: "6.0.6",
    group: Group::List,
    arity: -3,
    flags: READONLY,
    acl: ACL_LIST,
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    args: &[
        key("key", 0),
        string("element"),
        integer("rank").token("RANK").optional(),
        integer("num-matches").token("COUNT").optional(),
        integer("len").token("MAXLEN").optional(),
    ],
    weigh: Some(weights::reads_all),
    run: Run::Keys(lpos),
    ..CommandSpec::EMPTY
};

const RANK_ZERO: &str = "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list";

/// The options of the command.
struct Wanted {
    from: Side,
    /// The number of the first match to return, from 1.
    rank: u64,
    /// The number of matches to return; 0 for all.
    count: Option<u64>,
    /// Returns all matches, whatever COUNT is.
    without_end: bool,
    /// The number of elements to compare; 0 for all.
    most: u64,
}

fn lpos(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let wanted = parse(call)?;
    let found = match list(call, txn)? {
        Some(list) => search(&list, call.args[2], &wanted)?,
        None => Vec::new(),
    };
    if wanted.count.is_some() {
        call.out.array(found.len());
        found.iter().for_each(|&at| call.out.integer(at as i64));
        return Ok(());
    }
    match found.first() {
        Some(&at) => call.out.integer(at as i64),
        None => call.out.null(),
    }
    Ok(())
}

fn parse(call: &Call<'_>) -> Result<Wanted, Failure> {
    let mut wanted = Wanted { from: Side::Head, rank: 1, count: None, without_end: false, most: 0 };
    let not_negative = |at: usize, text: &'static str| -> Result<u64, Failure> {
        let number = parse_i64(call.arg(at)?).and_then(|number| u64::try_from(number).ok());
        number.ok_or_else(|| text.into())
    };
    for at in (3..call.args.len()).step_by(2) {
        call.arg(at + 1)?;
        match () {
            () if call.is(at, "RANK") => {
                let rank = call.int(at + 1)?;
                if rank == 0 {
                    return Err(RANK_ZERO.into());
                }
                wanted.from = if rank < 0 { Side::Tail } else { Side::Head };
                // The lowest number has no positive counterpart: Redis skips no match, and returns
                // all.
                wanted.without_end = rank == i64::MIN;
                wanted.rank = if wanted.without_end { 1 } else { rank.unsigned_abs() };
            }
            () if call.is(at, "COUNT") => {
                wanted.count = Some(not_negative(at + 1, "ERR COUNT can't be negative")?);
            }
            () if call.is(at, "MAXLEN") => {
                wanted.most = not_negative(at + 1, "ERR MAXLEN can't be negative")?;
            }
            () => return Err(SYNTAX.into()),
        }
    }
    Ok(wanted)
}

/// Returns the positions of the matches, counted from the head.
fn search(list: &ListRef<'_>, element: &[u8], wanted: &Wanted) -> Result<Vec<u64>, Failure> {
    let len = list.len()?;
    let (mut found, mut seen, mut matches) = (Vec::new(), 0, 0);
    let enough = match wanted.count {
        Some(_) if wanted.without_end => 0,
        count => count.unwrap_or(1),
    };
    let start = if wanted.from == Side::Head { 0 } else { len - 1 };
    list.compare(start, wanted.from, element, |equal| {
        if equal {
            matches += 1;
            if matches >= wanted.rank {
                found.push(if wanted.from == Side::Head { seen } else { len - 1 - seen });
            }
        }
        seen += 1;
        let found_all = enough != 0 && found.len() as u64 >= enough;
        !found_all && (wanted.most == 0 || seen < wanted.most)
    })?;
    Ok(found)
}
