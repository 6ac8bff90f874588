//! The place of the data in a stream for replicas: a history of what a primary sent, of other
//! changes, of places that are kept, made void and left, and of crashes. The next opening finds a
//! place that is true for the data, or none; and none after another change, until all data was
//! replaced.
//!
//! A primary's own place, with its ring, has histories of its own: on persistent memory
//! ([`lines`]), and with a journal ([`journaled`]).
//!
//! An offset of these histories says which keys there are at it.

#![allow(unsafe_code, reason = "stores into a region are unsafe")]
#![allow(dead_code, reason = "no program uses all of it")]

pub(crate) mod journaled;
pub(crate) mod lines;
mod primary;
mod replicas;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use heap::{CreateOptions, Geometry, Heap};
use keyspace::{Db, Expire, Keyspace, StreamPosition};
use pmem::Region;
use sim::{Incarnation, Promise, Promises, Workload};

const NOW: u64 = 1_700_000_000_000;
const SHARDS: usize = 3;
/// Names of keys, spread over the shards.
const KEYS: usize = 12;

/// The keys, the offset that was found with them, and whether they are not a primary's any more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    keys: BTreeSet<usize>,
    offset: Option<u64>,
    is_lost: bool,
}

impl State {
    /// Returns an offset, the `number`th of its history, at which the data is this.
    fn offset(&self, number: u64) -> u64 {
        number << KEYS | self.keys.iter().map(|key| 1 << key).sum::<u64>()
    }

    fn is_at(&self, offset: u64) -> bool {
        self.offset(offset >> KEYS) == offset
    }
}

/// Histories of a keyspace's place.
#[derive(Default)]
pub(crate) struct Positions {
    /// How many places were found, in whatever state.
    pub(crate) found: AtomicU64,
}

enum Action {
    /// What a primary has sent, if a place is kept.
    Received(usize),
    Own(usize),
    /// A place is kept from here on, its history beginning at this number.
    Keep(u64),
    Forget,
    /// Data of a primary begins to arrive, and is complete.
    Sync,
    /// The end leaves a place.
    Leave,
    /// The end leaves none.
    End,
}

/// Bytes of a zone's spans: the pool has one zone.
const ZONE: usize = 20 * 65536;

fn geometry() -> Geometry {
    Geometry { shards: SHARDS, ring_parts: 3, ring_part: 512, zone_spans: ZONE / 65536 }
}

fn position(offset: u64) -> StreamPosition {
    let second = Some(([7; 20], 5));
    StreamPosition {
        id: std::array::from_fn(|n| n as u8),
        offset,
        db: Some(3),
        second,
        is_replica: true,
    }
}

fn db(number: usize) -> Db {
    Db::new(number).expect("a database")
}

/// Adds or deletes a key, and commits; as what a primary sent up to `offset`, if that is given.
fn toggle(ks: &Keyspace, state: &State, number: usize, offset: Option<u64>) -> Result<(), String> {
    let name = format!("key:{number}");
    let mut txn = ks.begin_all(NOW);
    let key = txn.key(name.as_bytes());
    if state.keys.contains(&number) {
        let set = txn.strings().set(db(0), &key, b"value", Expire::Clear);
        set.map_err(|error| error.to_string())?;
    } else {
        txn.keys().delete(db(0), &key).map_err(|error| error.to_string())?;
    }
    if let Some(offset) = offset {
        txn.set_stream_position(offset, db(3));
    }
    txn.commit().map_err(|error| error.to_string())
}

impl Workload for Positions {
    type State = State;
    type Store = Keyspace;

    fn reserve(&self) -> usize {
        ZONE * 2 - 1
    }

    fn empty(&self) -> State {
        State::default()
    }

    fn open(&self, region: Region) -> Result<Keyspace, String> {
        let heap = if Heap::is_blank(&region) {
            let options = CreateOptions { geometry: geometry(), ..CreateOptions::default() };
            Heap::create(region, &options).map_err(|error| error.to_string())?
        } else {
            Heap::open(region, [0; 16]).map_err(|error| error.to_string())?.0
        };
        Ok(Keyspace::new(heap, NOW))
    }

    fn read(&self, ks: &mut Keyspace) -> Result<State, String> {
        let txn = ks.begin_all(NOW);
        let is_there = |key: &usize| {
            let name = format!("key:{key}");
            txn.peek(db(0), &txn.key(name.as_bytes())).is_some()
        };
        let keys: BTreeSet<usize> = (0..KEYS).filter(is_there).collect();
        drop(txn);
        let checked = ks.check().map_err(|error| error.to_string())?;
        assert_eq!(checked.keys, keys.len() as u64);
        let found = ks.position().take();
        if let Some(found) = found {
            assert_eq!(found, position(found.offset));
            self.found.fetch_add(1, Relaxed);
        }
        Ok(State { keys, offset: found.map(|found| found.offset), is_lost: false })
    }

    fn accept(&self, found: &State, promised: &State) -> Option<State> {
        let is_true = found.offset.is_none_or(|offset| found.is_at(offset) && !promised.is_lost);
        (found.keys == promised.keys && is_true).then(|| found.clone())
    }

    fn run_incarnation(
        &self,
        ks: &mut Keyspace,
        mut state: State,
        incarnation: &Incarnation<'_>,
    ) -> Result<Promises<State>, String> {
        let text = |error: heap::CommitError| error.to_string();
        let mut promises = Vec::new();
        // The number of the last offset, if a place is kept.
        let mut last = state.offset.map(|offset| offset >> KEYS);
        for n in (0..incarnation.actions).filter(|n| incarnation.has(*n)) {
            let before = state.clone();
            let mut rng = incarnation.rng_of(n);
            let number = rng.usize(..KEYS);
            let action = match rng.usize(..24) {
                kind if n + 1 == incarnation.actions && kind < 12 => Action::Leave,
                _ if n + 1 == incarnation.actions => Action::End,
                0..6 => Action::Keep(rng.u64(..4)),
                6 => Action::Forget,
                7 => Action::Sync,
                8..11 => Action::Own(number),
                _ => Action::Received(number),
            };
            if let Action::Own(number) | Action::Received(number) = action
                && !state.keys.remove(&number)
            {
                state.keys.insert(number);
            }
            match action {
                Action::Own(_) => state.is_lost |= last.is_some(),
                Action::Sync | Action::Forget => state.is_lost = false,
                _ => {}
            }
            incarnation.record(n, || match action {
                Action::Received(number) => format!("received {number}"),
                Action::Own(number) => format!("own {number}"),
                Action::Keep(number) => format!("keep from {number}"),
                Action::Forget => "forget".into(),
                Action::Sync => "sync".into(),
                Action::Leave => "leave".into(),
                Action::End => "end".into(),
            });
            let allowed = vec![before, state.clone()];
            promises.push((incarnation.mark(), Promise { allowed, doing: Vec::new() }));
            match action {
                Action::Received(number) => {
                    last = last.map(|last| last + 1);
                    toggle(ks, &state, number, last.map(|last| state.offset(last)))?;
                }
                Action::Own(number) => toggle(ks, &state, number, None)?,
                Action::Keep(number) => {
                    let at = state.offset(number);
                    let keeps = ks.position().keep(|| Some(position(at)), NOW).map_err(text)?;
                    last = if keeps { Some(number) } else { last };
                }
                Action::Forget => {
                    ks.position().forget(NOW).map_err(text)?;
                    last = None;
                }
                Action::Sync => {
                    ks.set_syncing(true, NOW).map_err(text)?;
                    ks.set_syncing(false, NOW).map_err(text)?;
                    last = None;
                }
                Action::Leave => {
                    let at = state.offset(last.unwrap_or_default());
                    ks.position().leave(|| Some(position(at)), NOW).map_err(text)?;
                }
                Action::End => {
                    ks.position().leave(|| None, NOW).map_err(text)?;
                }
            }
            promises.push((incarnation.mark(), Promise::exactly(state.clone())));
        }
        if incarnation.rng.clone().usize(..2) == 0 {
            ks.heap().close().map_err(|error| error.to_string())?;
        }
        Ok(promises)
    }
}
