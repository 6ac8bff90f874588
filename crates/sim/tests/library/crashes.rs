//! Random calls of the library on a tiny pool, crashed at every fence and between: each call is
//! whole or absent afterwards, and the allocated blocks are the reachable ones. Snapshots are open
//! meanwhile, each of which must show the content at its cut.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use heap::{CreateOptions, Geometry, Heap};
use perdura::{Error, KeyIter, Perdura, Snapshot, Strings, Table, Tables, WriteBatch};
use pmem::Region;
use sim::{Crash, Effort, Subject, explore};

/// Rings that wrap often, and little space: some calls are refused.
fn geometry() -> Geometry {
    Geometry { shards: 2, ring_parts: 3, ring_part: 512, zone_spans: 24 }
}

const TABLES: [&str; 3] = ["a", "b", "c"];
const KEYS: [&str; 4] = ["s1", "s2", "s3", "s4"];

/// The rows of each table, and the strings.
#[derive(Clone, Debug, Default, PartialEq)]
struct State {
    rows: BTreeMap<(&'static str, u16), Vec<u8>>,
    strings: BTreeMap<&'static str, Vec<u8>>,
}

#[derive(Debug)]
enum Plan {
    Insert(&'static str, u16, Vec<u8>),
    Remove(&'static str, u16),
    RemoveRange(&'static str, u16, u16),
    PopLast(&'static str),
    /// Moves a row from one table to another, and a string records which: no key is declared.
    Move(&'static str, &'static str, &'static str),
    /// Like `Move`, undone at its end.
    Undo(&'static str, &'static str, &'static str),
    /// Like `FetchUpdate`, on a row.
    UpdateRow(&'static str, u16, u8),
    /// Like `CompareAndSet`, on a row.
    CompareAndSetRow(&'static str, u16, Option<Vec<u8>>, Option<Vec<u8>>),
    FetchUpdate(&'static str, u8),
    CompareAndSet(&'static str, Option<Vec<u8>>, Option<Vec<u8>>),
    Write(Vec<(&'static str, Option<Vec<u8>>)>),
    Clear,
}

type Rows<'s, S = Perdura> = Table<'s, u16, Vec<u8>, S>;

fn table<'s, S: Tables>(on: &'s S, name: &str) -> Rows<'s, S> {
    on.table(name)
}

fn move_last(tx: &perdura::Transaction<'_>, from: &str, to: &str, key: &str) -> Result<(), Error> {
    if let Some((id, value)) = table(tx, from).pop_last()? {
        table(tx, to).insert(id, &value)?;
        tx.set(key, to)?;
    }
    Ok(())
}

fn draw(rng: &mut fastrand::Rng) -> Plan {
    let name = |rng: &mut fastrand::Rng| TABLES[rng.usize(..TABLES.len())];
    let key = |rng: &mut fastrand::Rng| KEYS[rng.usize(..KEYS.len())];
    // Some end the listpack encoding, most do not.
    let value = |rng: &mut fastrand::Rng| vec![rng.u8(..); [0, 5, 30, 100][rng.usize(..4)]];
    let id = |rng: &mut fastrand::Rng| rng.u16(..200);
    match rng.usize(..38) {
        0..14 => Plan::Insert(name(rng), id(rng), value(rng)),
        14..17 => Plan::Remove(name(rng), id(rng)),
        17 => {
            let from = id(rng);
            Plan::RemoveRange(name(rng), from, from + rng.u16(..60))
        }
        18 => Plan::PopLast(name(rng)),
        19..23 => Plan::Move(name(rng), name(rng), key(rng)),
        23 => Plan::Undo(name(rng), name(rng), key(rng)),
        24..26 => Plan::FetchUpdate(key(rng), rng.u8(..)),
        26..28 => {
            let some = |rng: &mut fastrand::Rng| rng.bool().then(|| TABLES[rng.usize(..3)].into());
            Plan::CompareAndSet(key(rng), some(rng), some(rng))
        }
        28..31 => {
            let write = |rng: &mut fastrand::Rng| (key(rng), rng.bool().then(|| value(rng)));
            Plan::Write((0..rng.usize(1..5)).map(|_| write(rng)).collect())
        }
        31..34 => Plan::UpdateRow(name(rng), id(rng), rng.u8(..)),
        34..37 => {
            let some = |rng: &mut fastrand::Rng| rng.bool().then(|| value(rng));
            Plan::CompareAndSetRow(name(rng), id(rng), some(rng).filter(Vec::is_empty), some(rng))
        }
        _ => Plan::Clear,
    }
}

impl State {
    fn last(&self, name: &'static str) -> Option<u16> {
        self.rows.range((name, 0)..=(name, u16::MAX)).next_back().map(|(key, _)| key.1)
    }

    fn put(&mut self, key: &'static str, value: Option<Vec<u8>>) {
        match value {
            Some(value) => drop(self.strings.insert(key, value)),
            None => drop(self.strings.remove(key)),
        }
    }

    fn put_row(&mut self, key: (&'static str, u16), value: Option<Vec<u8>>) {
        match value {
            Some(value) => drop(self.rows.insert(key, value)),
            None => drop(self.rows.remove(&key)),
        }
    }

    fn apply(&mut self, plan: &Plan) {
        match plan {
            Plan::Insert(name, id, value) => drop(self.rows.insert((name, *id), value.clone())),
            Plan::Remove(name, id) => drop(self.rows.remove(&(*name, *id))),
            Plan::RemoveRange(name, from, to) => {
                self.rows.retain(|(own, id), _| own != name || !(*from..*to).contains(id));
            }
            Plan::PopLast(name) => {
                self.last(name).and_then(|id| self.rows.remove(&(*name, id)));
            }
            Plan::Move(from, to, key) => {
                let Some(id) = self.last(from) else { return };
                let value = self.rows.remove(&(*from, id)).unwrap_or_default();
                self.rows.insert((to, id), value);
                self.put(key, Some(to.as_bytes().to_vec()));
            }
            Plan::Undo(..) => {}
            Plan::UpdateRow(name, id, byte) => {
                let new = updated(self.rows.get(&(*name, *id)).map(Vec::as_slice), *byte);
                self.put_row((name, *id), new);
            }
            Plan::CompareAndSetRow(name, id, expected, new) => {
                if self.rows.get(&(*name, *id)) == expected.as_ref() {
                    self.put_row((name, *id), new.clone());
                }
            }
            Plan::FetchUpdate(key, byte) => {
                let old = self.strings.get(key).cloned();
                self.put(key, updated(old.as_deref(), *byte));
            }
            Plan::CompareAndSet(key, expected, new) => {
                if self.strings.get(key) == expected.as_ref() {
                    self.put(key, new.clone());
                }
            }
            Plan::Write(writes) => {
                writes.iter().for_each(|(key, value)| self.put(key, value.clone()));
            }
            Plan::Clear => *self = State::default(),
        }
    }
}

/// Returns the updated value; nothing for a long one.
fn updated(old: Option<&[u8]>, byte: u8) -> Option<Vec<u8>> {
    let old = old.unwrap_or_default();
    (old.len() < 40).then(|| [old, &[byte; 7]].concat())
}

fn run(store: &Perdura, plan: &Plan) -> Result<(), Error> {
    match plan {
        Plan::Insert(name, id, value) => table(store, name).insert(*id, value).map(drop),
        Plan::Remove(name, id) => table(store, name).remove(*id).map(drop),
        Plan::RemoveRange(name, from, to) => {
            table(store, name).remove_range(*from..*to).map(|_| ())
        }
        Plan::PopLast(name) => table(store, name).pop_last().map(drop),
        Plan::Move(from, to, key) => store.transact(|tx| move_last(tx, from, to, key)),
        Plan::Undo(from, to, key) => {
            let undone = store.transact(|tx| {
                move_last(tx, from, to, key)?;
                Err::<(), Error>(Error::Overflow)
            });
            match undone {
                Err(Error::Overflow) => Ok(()),
                other => other,
            }
        }
        Plan::UpdateRow(name, id, byte) => {
            let update = |old: Option<&Vec<u8>>| updated(old.map(Vec::as_slice), *byte);
            table(store, name).fetch_update(*id, update).map(drop)
        }
        Plan::CompareAndSetRow(name, id, expected, new) => {
            let rows = table(store, name);
            rows.compare_and_set(*id, expected.as_deref(), new.as_deref()).map(drop)
        }
        Plan::FetchUpdate(key, byte) => {
            store.fetch_update(key, |old| updated(old, *byte)).map(drop)
        }
        Plan::CompareAndSet(key, expected, new) => {
            store.compare_and_set(key, expected.as_deref(), new.as_deref()).map(|_| ())
        }
        Plan::Write(writes) => {
            let mut batch = WriteBatch::new();
            for (key, value) in writes {
                match value {
                    Some(value) => batch.set(*key, value.clone()),
                    None => batch.delete(*key),
                };
            }
            store.write(&batch)
        }
        Plan::Clear => store.clear().map(|_| ()),
    }
}

/// The number of snapshots at a time, and of calls between two of them.
const SNAPSHOTS: usize = 3;
const EVERY: usize = 3;

/// A store with snapshots that stay open over calls, each with the content at its cut.
struct Open {
    store: Arc<Perdura>,
    snapshots: Vec<(Snapshot<Arc<Perdura>>, State)>,
    calls: usize,
}

impl Open {
    /// Reads all snapshots, drops the oldest if there are the maximum number, and takes one.
    fn go_on_with_snapshots(&mut self) -> Result<(), String> {
        self.calls += 1;
        if self.calls.is_multiple_of(EVERY) {
            if self.snapshots.len() == SNAPSHOTS {
                self.snapshots.remove(0);
            }
            let state = read(&*self.store, self.store.keys())?;
            let snapshot = self.store.shared_snapshot().map_err(|error| error.to_string())?;
            self.snapshots.push((snapshot, state));
        }
        let mut failed = Ok(());
        self.snapshots.retain(|(snapshot, state)| match read(snapshot, snapshot.keys()) {
            Ok(found) if found == *state => {
                READ.fetch_add(1, Relaxed);
                true
            }
            Ok(found) => {
                failed = Err(format!("a snapshot shows {found:?}, at its cut there was {state:?}"));
                false
            }
            // The store is small: a call needed what it held.
            Err(error) if error == Error::SnapshotExpired.to_string() => {
                EXPIRED.fetch_add(1, Relaxed);
                false
            }
            Err(error) => {
                failed = Err(error);
                false
            }
        });
        failed
    }
}

/// Snapshots that were read completely, and those that expired.
static READ: AtomicUsize = AtomicUsize::new(0);
static EXPIRED: AtomicUsize = AtomicUsize::new(0);

/// Reads all of a store, or of a snapshot.
fn read(on: &(impl Strings + Tables), keys: KeyIter<'_>) -> Result<State, String> {
    let mut state = State::default();
    let failed = |error: Error| error.to_string();
    for name in TABLES {
        for row in table(on, name).iter() {
            let (id, value) = row.map_err(failed)?;
            state.rows.insert((name, id), value);
        }
    }
    for key in KEYS {
        state.put(key, on.get(key).map_err(failed)?);
    }
    let keys: Result<Vec<_>, _> = keys.collect();
    let tables = TABLES.iter().filter(|name| state.last(name).is_some()).count();
    if keys.map_err(failed)?.len() != tables + state.strings.len() {
        return Err("other keys are shown than there are".into());
    }
    Ok(state)
}

struct Library;

impl Subject for Library {
    type State = State;
    type Plan = Plan;
    type Store = Open;

    fn reserve(&self) -> usize {
        geometry().zone_spans * 65536 * 2 - 1
    }

    fn empty(&self) -> State {
        State::default()
    }

    fn open(&self, region: Region) -> Result<Open, String> {
        let heap = if Heap::is_blank(&region) {
            let options = CreateOptions { geometry: geometry(), ..CreateOptions::default() };
            Heap::create(region, &options).map_err(|error| error.to_string())?
        } else {
            Heap::open(region, [0; 16]).map_err(|error| error.to_string())?.0
        };
        Ok(Open { store: Arc::new(super::store(heap)), snapshots: Vec::new(), calls: 0 })
    }

    fn read(&self, open: &mut Open) -> Result<State, String> {
        let state = read(&*open.store, open.store.keys())?;
        open.store.verify()?;
        Ok(state)
    }

    fn plan(&self, state: &State, rng: &mut fastrand::Rng) -> (Plan, State) {
        let (plan, mut after) = (draw(rng), state.clone());
        after.apply(&plan);
        (plan, after)
    }

    fn close(&self, open: &mut Open) -> Result<(), String> {
        open.snapshots.clear();
        open.store.close_heap()
    }

    fn run(&self, open: &mut Open, plan: &Plan) -> Result<bool, String> {
        let done = match run(&open.store, plan) {
            Ok(()) => {
                // Like the background thread.
                open.store.maintain();
                true
            }
            Err(Error::Full) => false,
            Err(error) => return Err(error.to_string()),
        };
        open.go_on_with_snapshots()?;
        Ok(done)
    }
}

fn check(crash: Crash, seed: u64) {
    let _alone = super::alone();
    let effort = Effort { transactions: 50, images: 6, ..Effort::new(crash, seed) };
    match explore(&Library, effort) {
        Ok(counts) => {
            let (read, expired) = (READ.load(Relaxed), EXPIRED.load(Relaxed));
            println!("{crash:?} {seed}: {counts:?}, snapshots: {read} read, {expired} expired");
            assert!(read > 200, "hardly any snapshot was read: {read}");
            assert!(counts.images > 200 && counts.refused < counts.crashes / 4, "{counts:?}");
        }
        Err(failure) => panic!("{failure}"),
    }
}

#[test]
fn a_crash_leaves_whole_calls_in_the_strict_model() {
    check(Crash::Strict, 1);
}

#[test]
fn a_crash_leaves_whole_calls_in_the_x86_model() {
    check(Crash::X86, 2);
}
