//! The failures that an acknowledged write survives on an ordinary disk, and waiting for its
//! durability.
//!
//! On a disk, a commit appends to the pool's journal and does not wait. Its position in the journal
//! is stored for each shard that it changed, while their locks are held. A call waits for it after
//! it has released them, so that others go on, and share its write and its sync. A call that only
//! reads waits for the last position of the shards that it looked at: so what it saw is durable,
//! and a read of shards that nobody writes to waits for nothing.
//!
//! On persistent memory there is none of this, and a call tests one pointer.

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use keyspace::{Keyspace, Txn};
use pmem::{ChargedClient, Counters, Domain, JournalThread, Region};

use crate::Error;

/// When a call returns, if the pool is on an ordinary disk and has a journal ([`Domain::Journal`]).
/// On persistent memory this has no effect: every call is durable there when it returns.
///
/// Whichever is chosen, a power loss leaves the state of some moment: all calls before it, and none
/// after it, each completely. A killed process loses no call that returned.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// use perdura::prelude::*;
/// use perdura::{Durability, Options, Perdura};
/// use std::time::Duration;
///
/// let options = Options::new(dir.path().join("cache.pool"))
///     .durability(Durability::Interval(Duration::from_millis(200)));
/// let store = Perdura::open(options)?;
/// store.set("page", "<html>")?; // a power loss may cost the last 200 ms
/// store.flush()?; // ... but not this
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// A call returns when its writes, and the data that it read, are on the disk. Threads that
    /// wait at the same time share one sync.
    #[default]
    Immediate,
    /// A call returns when the kernel has its writes; a thread syncs them this often. A power loss
    /// costs the writes since the last completed sync: those of the interval and one second at
    /// most, since calls wait for a sync that is later than that.
    Interval(Duration),
    /// A call returns when the kernel has its writes. They are synced when they leave the journal,
    /// when it is idle, and by [`crate::Perdura::flush`].
    Os,
}

/// How late a sync may be under [`Durability::Interval`] before calls wait for it.
const LATE: Duration = Duration::from_secs(1);

impl Durability {
    /// Returns how often lines are synced that no call waits for: under `Immediate`, those of
    /// expired keys.
    fn sync_every(self) -> Option<Duration> {
        match self {
            Durability::Immediate => Some(Duration::from_secs(1)),
            Durability::Interval(every) => Some(every),
            Durability::Os => None,
        }
    }
}

/// A store with a journal.
pub(crate) struct Journaled {
    durability: Durability,
    /// For each shard, the position after its last commit.
    committed: Box<[Position]>,
    /// Syncs writes that no call waits for, and applies batches to the pool's file.
    _thread: JournalThread,
}

/// In a cache line of its own, since shards are used by different threads.
#[derive(Default)]
#[repr(align(64))]
struct Position(AtomicU64);

impl Journaled {
    /// Starts the journal's thread; none if the store has no journal.
    pub(crate) fn start(
        keyspace: &Arc<Keyspace>,
        durability: Durability,
    ) -> io::Result<Option<Box<Journaled>>> {
        if keyspace.heap().region().domain() != Domain::Journal {
            return Ok(None);
        }
        let region: fn(&Keyspace) -> &Region = |keyspace| keyspace.heap().region();
        let thread = JournalThread::start(Arc::clone(keyspace), region, durability.sync_every())?;
        let committed = (0..keyspace.shards()).map(|_| Position::default()).collect();
        Ok(Some(Box::new(Journaled { durability, committed, _thread: thread })))
    }

    /// Commits, and stores the position of the changes. The transaction keeps its locks.
    pub(crate) fn commit(&self, region: &Region, txn: &mut Txn<'_>) -> Result<(), Error> {
        if !txn.is_dirty() {
            return Ok(txn.commit()?);
        }
        txn.commit()?;
        OWES.set(true);
        let position = region.appended();
        txn.locked().for_each(|shard| self.committed(shard, position));
        Ok(())
    }

    /// Stores the position after a commit of a shard.
    pub(crate) fn committed(&self, shard: usize, position: u64) {
        if let Some(committed) = self.committed.get(shard) {
            committed.0.fetch_max(position, Ordering::AcqRel);
        }
    }

    /// Returns the position after everything that can be seen in these shards.
    pub(crate) fn seen(&self, shards: impl Iterator<Item = usize>) -> u64 {
        let position = |shard: usize| {
            self.committed.get(shard).map_or(0, |committed| committed.0.load(Ordering::Acquire))
        };
        shards.map(position).max().unwrap_or(0)
    }

    /// Waits until all before a position is as durable as configured. The caller holds no lock of a
    /// shard.
    pub(crate) fn wait(&self, region: &Region, position: u64) -> Result<(), Error> {
        let done = match self.durability {
            Durability::Immediate => region.sync_up_to(position),
            Durability::Interval(every) => region.write_within(position, every + LATE),
            Durability::Os => region.write_up_to(position),
        };
        if OWES.take() {
            give_way(region);
        }
        done.map_err(|_| Error::JournalFailed)
    }
}

thread_local! {
    /// Whether the thread has committed, and has not given way to others since.
    static OWES: Cell<bool> = const { Cell::new(false) };
    /// Its counters when it last did.
    static COUNTED: Cell<Counters> = Cell::new(pmem::counters());
    static CHARGED: Cell<ChargedClient> = Cell::default();
}

/// The pause between two looks whether the journal has space.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Lets a call that wrote take longer while the journal fills up: a commit that finds it full
/// waits for a part of the checkpoint with its shards locked, and readers of those wait with
/// it.
fn give_way(region: &Region) {
    let bytes = pmem::counters().since(&COUNTED.replace(pmem::counters())).appended;
    let mut charged = CHARGED.get();
    let turn = Instant::now() + region.charge(bytes, &mut charged);
    CHARGED.set(charged);
    loop {
        let now = Instant::now();
        let wait = match region.is_nearly_full() {
            true => POLL_INTERVAL,
            false if now < turn && region.is_half_full() => {
                POLL_INTERVAL.max(turn - now).min(POLL_INTERVAL * 10)
            }
            false => break,
        };
        std::thread::sleep(wait);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prelude::*;
    use crate::{DomainRequest, Options, Perdura};
    use keyspace::{Db, Expire};

    fn open(folder: &tempfile::TempDir, durability: Durability) -> Perdura {
        let options = Options::new(folder.path().join("pool"))
            .domain(DomainRequest::Journal)
            .limit(64 << 20)
            .journal_size(8 << 20)
            .durability(durability)
            .background(false);
        Perdura::open(options).expect("a store")
    }

    fn journaled(store: &Perdura) -> &Journaled {
        store.journaled.as_ref().expect("a journal")
    }

    /// Returns the syncs that made batches durable: background work adds others when nothing was
    /// written for a while.
    fn syncs(store: &Perdura) -> u64 {
        store.region().journal_counts().expect("a journal").batch_syncs
    }

    /// Commits like another thread that does not wait yet.
    fn commit_without_waiting(store: &Perdura, keys: &[&str]) {
        let keys: Vec<_> = keys.iter().map(|key| store.keyspace.key(key.as_bytes())).collect();
        let shards: Vec<usize> = keys.iter().map(|key| key.shard()).collect();
        let mut txn = store.keyspace.begin(&shards, 0);
        for key in &keys {
            txn.strings().set(Db::default(), key, b"seen", Expire::Clear).expect("free memory");
        }
        journaled(store).commit(store.region(), &mut txn).expect("a disk that does not fail");
    }

    #[test]
    fn an_immediate_call_returns_when_what_it_wrote_or_read_is_synced() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = open(&folder, Durability::Immediate);
        let region = store.region();
        let all_synced = |what: &str| assert_eq!(region.synced(), region.appended(), "{what}");
        store.set("a", "1").expect("free memory");
        all_synced("a short value");
        store.set("a", vec![1; 1 << 20]).expect("free memory");
        all_synced("a large value");
        store.push_back("list", "x").expect("free memory");
        all_synced("a list");
        store
            .transaction(&["a", "b"], |tx| {
                tx.set("a", "1")?;
                tx.set("b", "1")
            })
            .expect("free memory");
        all_synced("a transaction");

        let database = |store: &Perdura| -> usize {
            let database = store.database(0).expect("a database");
            database.keys().collect::<Result<Vec<_>, _>>().map_or(0, |keys| keys.len())
        };
        // Each way in which a call of its own looks at a key or at all of them.
        let read: [&dyn Fn(&Perdura) -> bool; 19] = [
            &|store| store.get("c") == Ok(Some(b"seen".to_vec())),
            &|store| store.get_with("c", |_| ()) == Ok(true),
            &|store| store.exists("c") == Ok(true),
            &|store| store.push_back("c", "x") == Err(Error::WrongType),
            &|store| store.keys().count() == 4,
            &|store| database(store) == 4,
            &|store| {
                let mut cursor = store.keys().prefix("c").into_cursor();
                cursor.next(store) == Some(Ok(b"c".to_vec())) && cursor.next(store).is_none()
            },
            &|store| store.remove_prefix("cc") == Ok(0),
            &|store| store.transact(|tx| tx.get("c")) == Ok(Some(b"seen".to_vec())),
            &|store| {
                let fails = |tx: &mut crate::Transaction<'_>| {
                    tx.exists("c").and(Err::<(), _>(Error::Overflow))
                };
                store.transact(fails) == Err(Error::Overflow)
            },
            &|store| store.transaction(&["a", "c"], |tx| tx.exists("c")) == Ok(true),
            &|store| store.list_iter("c").next() == Some(Err(Error::WrongType)),
            &|store| store.sorted_set_iter("c").next_back() == Some(Err(Error::WrongType)),
            &|store| store.hash_iter("c").next() == Some(Err(Error::WrongType)),
            &|store| store.table::<u8, u8>("c").iter().next() == Some(Err(Error::WrongType)),
            &|store| store.pop_front_wait("c", Duration::ZERO) == Err(Error::WrongType),
            &|store| store.set_if_absent("c", "x") == Ok(false),
            &|store| store.compare_and_set("c", None, Some(b"x")) == Ok(false),
            &|store| store.snapshot().and_then(|snapshot| snapshot.exists("c")) == Ok(true),
        ];
        for (n, read) in read.into_iter().enumerate() {
            commit_without_waiting(&store, &["c"]);
            let before = (region.appended(), syncs(&store));
            assert!(region.synced() < before.0);
            assert!(read(&store), "read {n}");
            assert_eq!((region.synced(), syncs(&store)), (before.0, before.1 + 1), "read {n}");
            assert!(read(&store));
            assert_eq!(syncs(&store), before.1 + 1, "nothing more to wait for");
        }
    }

    /// A commit that finds the journal full waits with its shards locked.
    #[test]
    fn calls_that_write_seldom_find_the_journal_full() {
        let folder = tempfile::tempdir().expect("a folder");
        let options = Options::new(folder.path().join("pool"))
            .domain(DomainRequest::Journal)
            .limit(64 << 20)
            .journal_size(1 << 20)
            .durability(Durability::Os);
        let store = Perdura::open(options).expect("a store");
        let counts = || store.region().journal_counts().expect("a journal");
        let before = counts();
        std::thread::scope(|scope| {
            for writer in 0..3 {
                let store = &store;
                scope.spawn(move || {
                    for n in 0..1500 {
                        store.set(format!("{writer}:{n}"), vec![1; 1000]).expect("free memory");
                    }
                });
            }
        });
        let after = counts();
        assert!(after.bytes_written - before.bytes_written > 4 << 20, "{after:?}");
        // Some may come while it grows.
        assert!(after.full_waits - before.full_waits <= 20, "{after:?}");
    }

    #[test]
    fn a_read_waits_for_no_other_shard() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = open(&folder, Durability::Immediate);
        let shard = |key: &str| store.keyspace.key(key.as_bytes()).shard();
        let keys: Vec<String> = (0..100).map(|n| format!("key{n}")).collect();
        let other = keys.iter().find(|key| shard(key) != shard("c")).expect("another shard");
        let other = other.as_str();
        // Each shard of a transaction counts.
        for key in ["c", other] {
            commit_without_waiting(&store, &["c", other]);
            assert_eq!(store.exists(key), Ok(true));
            assert_eq!(store.region().synced(), store.region().appended());
        }
        store.set(other, "1").expect("free memory");
        commit_without_waiting(&store, &["c"]);
        let before = syncs(&store);
        assert_eq!(store.get(other), Ok(Some(b"1".to_vec())));
        assert_eq!(store.exists(other), Ok(true));
        assert_eq!(syncs(&store), before);
        assert!(store.region().synced() < store.region().appended());
        store.flush().expect("a disk that does not fail");
        assert_eq!(store.region().synced(), store.region().appended());
    }

    #[test]
    fn other_durabilities_wait_for_the_kernel_alone() {
        for durability in [Durability::Os, Durability::Interval(Duration::from_secs(3600))] {
            let folder = tempfile::tempdir().expect("a folder");
            let store = open(&folder, durability);
            store.flush().expect("a disk that does not fail");
            let before = store.region().journal_counts().expect("a journal");
            store.set("a", "1").expect("free memory");
            store.push_back("list", "x").expect("free memory");
            let after = store.region().journal_counts().expect("a journal");
            let batches = after.batches - before.batches;
            assert_eq!((batches, after.batch_syncs), (2, before.batch_syncs));
        }
    }
}
