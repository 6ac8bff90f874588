//! The batches of ordered iterators, as their documentation states them: 64 items or 64 KiB, later
//! 256 items of a sorted set or a table, and none after the last item. Each batch looks its key up
//! once, which the statistics count.

use perdura::prelude::*;
use perdura::{Error, Options, Perdura};

use super::draw::{COUNTS, Draw};
use super::state::{Checked, same};
use super::tables;

const ITEMS: usize = 64;
const LATER_ITEMS: usize = 256;
const BYTES: usize = 64 << 10;
/// Sizes of elements, of which few or many make a batch.
const SIZES: &[usize] = &[8, 900, 1024, 4096, 20_000, BYTES - 1, BYTES, BYTES + 1];
const KEY: &str = "key";
/// Bytes of the key of a row whose second part is empty.
const ROW_KEY: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    List,
    Sorted,
    Ranks,
    Rows,
    Stream,
}

/// The rest of a range, and what was read of it and not shown.
struct Model<'s> {
    kind: Kind,
    rest: &'s [usize],
    front: usize,
    back: usize,
    batches: u64,
}

impl Model<'_> {
    /// Shows an item from an end.
    fn show(&mut self, from_back: bool) {
        let own = if from_back { self.back } else { self.front };
        if own == 0 && !self.rest.is_empty() {
            self.fetch(from_back);
        }
        let (own, other) = match from_back {
            true => (&mut self.back, &mut self.front),
            false => (&mut self.front, &mut self.back),
        };
        if *own > 0 { *own -= 1 } else { *other -= 1 }
    }

    fn fetch(&mut self, from_back: bool) {
        self.batches += 1;
        let is_later = self.batches > 2 && !matches!(self.kind, Kind::List | Kind::Stream);
        let most = if is_later { LATER_ITEMS } else { ITEMS };
        let (mut items, mut bytes) = (0, 0);
        while items < most && bytes < BYTES && !self.rest.is_empty() {
            let (rest, size) = match (from_back, self.rest) {
                (true, [rest @ .., size]) | (false, [size, rest @ ..]) => (rest, size),
                (_, []) => break,
            };
            (self.rest, items, bytes) = (rest, items + 1, bytes + size);
        }
        *(if from_back { &mut self.back } else { &mut self.front }) += items;
    }
}

fn fill(store: &Perdura, kind: Kind, sizes: &[usize]) -> Result<(), Error> {
    let value = vec![b'v'; BYTES + 1];
    for (n, size) in sizes.iter().enumerate() {
        let name = format!("{n:08}");
        let value = &value[..*size];
        match kind {
            Kind::List => store.push_back(KEY, value).map(drop)?,
            Kind::Stream => store.append_entry(KEY, [("", value)]).map(drop)?,
            Kind::Rows => {
                let rows = tables::rows(store, KEY.as_bytes());
                rows.insert((n as i16, &[]), value).map(drop)?;
            }
            // The size is that of the name.
            Kind::Sorted | Kind::Ranks => {
                let name = [name.as_bytes(), &value[8..]].concat();
                store.sorted_set_add(KEY, name, n as f64).map(drop)?;
            }
        }
    }
    Ok(())
}

fn count<T>(
    draw: &mut Draw,
    model: &mut Model<'_>,
    mut iter: impl DoubleEndedIterator<Item = Result<T, Error>>,
) -> Checked {
    let (way, items) = (draw.below(3), model.rest.len());
    // Not to the end, sometimes.
    let shown = if draw.one_in(4) { draw.below(items + 1) } else { items };
    for _ in 0..shown {
        let from_back = way == 1 || way == 2 && draw.rng.bool();
        let item = if from_back { iter.next_back() } else { iter.next() };
        match item {
            Some(Ok(_)) => model.show(from_back),
            Some(Err(error)) => return Err(error.to_string()),
            None => return Err(format!("{:?} of {items} items ends early", model.kind)),
        }
    }
    match shown == items && iter.next().is_some() {
        true => Err(format!("{:?} of {items} items has more", model.kind)),
        false => Ok(()),
    }
}

pub(crate) fn round(seed: u64) -> Checked {
    let store = Perdura::open(Options::volatile().limit(64 << 20).background(false));
    let store = store.map_err(|error| error.to_string())?;
    let mut draw = Draw::new(seed, true);
    let kind = draw.of(&[Kind::List, Kind::Sorted, Kind::Ranks, Kind::Rows, Kind::Stream]);
    let large = draw.of(SIZES);
    let count_of = draw.of(COUNTS);
    let items = draw.around(count_of).min(1 + (8 << 20) / large);
    let mixed = draw.rng.bool();
    let sizes: Vec<usize> =
        (0..items).map(|_| if mixed && draw.rng.bool() { 8 } else { large }).collect();
    fill(&store, kind, &sizes).map_err(|error| format!("filling {kind:?}: {error}"))?;
    let before = store.statistics().hits;
    // The key of a row is a part of its member.
    let sizes: Vec<usize> = match kind {
        Kind::Rows => sizes.iter().map(|size| size + ROW_KEY).collect(),
        _ => sizes,
    };
    let mut model = Model { kind, rest: &sizes, front: 0, back: 0, batches: 0 };
    match kind {
        Kind::List => count(&mut draw, &mut model, store.list_iter(KEY)),
        Kind::Sorted => count(&mut draw, &mut model, store.sorted_set_iter(KEY)),
        Kind::Ranks => count(&mut draw, &mut model, store.sorted_set_by_rank(KEY, 0..items as u64)),
        Kind::Rows => count(&mut draw, &mut model, tables::rows(&store, KEY.as_bytes()).iter()),
        Kind::Stream => count(&mut draw, &mut model, store.stream_iter(KEY, ..)),
    }?;
    let batches = store.statistics().hits - before;
    if kind == Kind::Rows {
        let removed = tables::rows(&store, KEY.as_bytes()).remove_range(..);
        same("rows removed as a range", removed, Ok(items as u64))?;
    }
    // A stream is asked once more whether it goes on.
    let is_one_more = kind == Kind::Stream && batches == model.batches + 1;
    if is_one_more {
        return Ok(());
    }
    same(
        &format!("the batches of {kind:?} of {items} items, {large} bytes"),
        batches,
        model.batches,
    )
}
