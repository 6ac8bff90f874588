//! The replicas of a primary, as its administration sees them.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How far a replica is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage {
    /// Its dump is being prepared.
    WaitsForDump,
    /// Its dump is being sent.
    ReceivesDump,
    /// It receives the stream.
    Online,
}

/// A connected replica.
#[derive(Debug)]
pub struct Replica {
    /// The number of its client.
    pub client: u64,
    /// Its address, as others reach it.
    pub host: String,
    /// The port that it listens on; 0 if it did not say.
    pub port: u16,
    stage: AtomicU8,
    gets_marked: AtomicBool,
    has_acknowledged: AtomicBool,
    acknowledged: AtomicU64,
    durable: AtomicU64,
    says_durable: AtomicBool,
    heard_ms: AtomicU64,
}

impl Replica {
    /// Returns a replica whose dump is being prepared, at `now_ms` (unix).
    pub fn new(client: u64, host: String, port: u16, now_ms: u64) -> Replica {
        Replica {
            client,
            host,
            port,
            stage: AtomicU8::new(Stage::WaitsForDump as u8),
            gets_marked: AtomicBool::new(false),
            has_acknowledged: AtomicBool::new(false),
            acknowledged: AtomicU64::new(0),
            durable: AtomicU64::new(0),
            says_durable: AtomicBool::new(false),
            heard_ms: AtomicU64::new(now_ms),
        }
    }

    /// Notes whether its dump is sent while it is made, with a mark at its end.
    pub fn set_gets_marked(&self, yes: bool) {
        self.gets_marked.store(yes, Relaxed);
    }

    /// Returns Redis's name for how far it is. A dump that is sent while it is made is one for
    /// which it still waits.
    pub fn state(&self) -> &'static str {
        match self.stage() {
            Stage::WaitsForDump => "wait_bgsave",
            Stage::ReceivesDump if self.gets_marked.load(Relaxed) => "wait_bgsave",
            Stage::ReceivesDump => "send_bulk",
            Stage::Online => "online",
        }
    }

    /// Returns how far it is.
    pub fn stage(&self) -> Stage {
        match self.stage.load(Relaxed) {
            0 => Stage::WaitsForDump,
            1 => Stage::ReceivesDump,
            _ => Stage::Online,
        }
    }

    /// Notes how far it is, at `now_ms` (unix).
    pub fn set_stage(&self, stage: Stage, now_ms: u64) {
        self.stage.store(stage as u8, Relaxed);
        self.heard_ms.store(now_ms, Relaxed);
    }

    /// Notes that it has executed the stream up to `offset`, and made it durable up to `durable`.
    /// An offset never goes back.
    pub fn acknowledge(&self, offset: u64, durable: Option<u64>, now_ms: u64) {
        self.has_acknowledged.store(true, Relaxed);
        self.acknowledged.fetch_max(offset, Relaxed);
        if let Some(durable) = durable {
            self.durable.fetch_max(durable, Relaxed);
            self.says_durable.store(true, Relaxed);
        }
        self.heard_ms.store(now_ms, Relaxed);
    }

    /// Returns true if it has acknowledged anything: with the first time it says that it has loaded
    /// its dump.
    pub fn has_acknowledged(&self) -> bool {
        self.has_acknowledged.load(Relaxed)
    }

    /// Returns the offset up to which it has executed the stream.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Relaxed)
    }

    /// Returns the offset up to which it has the stream durably.
    pub fn durable(&self) -> u64 {
        self.durable.load(Relaxed)
    }

    /// Notes that it said anything, at `now_ms` (unix).
    pub fn hear(&self, now_ms: u64) {
        self.heard_ms.store(now_ms, Relaxed);
    }

    /// Returns when it was heard last, in unix ms.
    pub fn heard_ms(&self) -> u64 {
        self.heard_ms.load(Relaxed)
    }

    /// Returns how many seconds ago it was heard, at `now_ms` (unix).
    pub fn lag_s(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.heard_ms()) / 1000
    }
}

/// All connected replicas.
#[derive(Debug, Default)]
pub struct Replicas {
    list: Mutex<Vec<Arc<Replica>>>,
    /// How replicas began, since the start of the server.
    pub begun: Begun,
}

/// How replicas began.
#[derive(Debug, Default)]
pub struct Begun {
    /// With a dump.
    pub full: AtomicU64,
    /// Where they were before.
    pub partial: AtomicU64,
    /// With a dump, though they had asked to continue.
    pub refused: AtomicU64,
}

impl Replicas {
    fn list(&self) -> MutexGuard<'_, Vec<Arc<Replica>>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a replica.
    pub fn enter(&self, replica: Replica) -> Arc<Replica> {
        let replica = Arc::new(replica);
        self.list().push(Arc::clone(&replica));
        replica
    }

    /// Removes a replica.
    pub fn leave(&self, replica: &Arc<Replica>) {
        self.list().retain(|other| !Arc::ptr_eq(other, replica));
    }

    /// Returns all, in the order in which they came.
    pub fn all(&self) -> Vec<Arc<Replica>> {
        self.list().clone()
    }

    /// Returns how many there are.
    pub fn count(&self) -> usize {
        self.list().len()
    }

    /// Returns how many receive the stream and were heard at most `max_lag_s` seconds ago.
    pub fn good(&self, max_lag_s: u64, now_ms: u64) -> usize {
        let is_good = |replica: &&Arc<Replica>| {
            replica.stage() == Stage::Online && replica.lag_s(now_ms) <= max_lag_s
        };
        self.list().iter().filter(is_good).count()
    }

    /// Returns how many have executed the stream up to `offset`.
    pub fn with(&self, offset: u64) -> usize {
        self.online(|replica| replica.acknowledged() >= offset)
    }

    /// Returns how many have the stream durably up to `offset`.
    pub fn durable_with(&self, offset: u64) -> usize {
        self.online(|replica| replica.durable() >= offset)
    }

    /// Returns the offset up to which `count` of them have said that they have executed the stream,
    /// or have it durably, of which `end` is the end; none if there are fewer. A replica that has
    /// reconnected counts once, and one that claims more than there is does not count.
    pub fn confirmed(&self, count: usize, durable: bool, end: u64) -> Option<u64> {
        let list = self.list();
        let is_newest = |at: usize, replica: &Replica| {
            let is_same = |other: &Arc<Replica>| {
                replica.port != 0 && (&other.host, other.port) == (&replica.host, replica.port)
            };
            !list[at + 1..].iter().any(is_same)
        };
        let offset = |(at, replica): (usize, &Arc<Replica>)| {
            let counts = replica.stage() == Stage::Online && is_newest(at, replica);
            let said = match durable {
                true => replica.says_durable.load(Relaxed).then(|| replica.durable()),
                false => replica.has_acknowledged().then(|| replica.acknowledged()),
            };
            said.filter(|offset| counts && *offset <= end)
        };
        let offsets = || list.iter().enumerate().filter_map(offset);
        offsets().filter(|least| offsets().filter(|offset| offset >= least).count() >= count).max()
    }

    /// Removes all: they are being disconnected, and what they have acknowledged belongs to another
    /// history.
    pub fn forget(&self) {
        self.list().clear();
    }

    fn online(&self, has: impl Fn(&Replica) -> bool) -> usize {
        let counts = |replica: &&Arc<Replica>| replica.stage() == Stage::Online && has(replica);
        self.list().iter().filter(counts).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_counts_when_it_is_online_and_was_heard() {
        let replicas = Replicas::default();
        let one = replicas.enter(Replica::new(1, "h".into(), 1, 0));
        let two = replicas.enter(Replica::new(2, "h".into(), 2, 0));
        one.acknowledge(100, None, 0);
        assert_eq!((replicas.good(10, 0), replicas.with(0)), (0, 0), "they load");
        one.set_stage(Stage::Online, 1000);
        two.set_stage(Stage::Online, 1000);
        assert_eq!((replicas.good(10, 11_999), replicas.good(10, 12_000)), (2, 0));
        two.acknowledge(101, Some(90), 2000);
        two.acknowledge(99, Some(80), 2000);
        assert_eq!(two.acknowledged(), 101, "it does not go back");
        assert_eq!([100, 101, 102].map(|offset| replicas.with(offset)), [2, 1, 0]);
        assert_eq!([90, 91].map(|offset| replicas.durable_with(offset)), [1, 0]);
        let confirmed =
            |durable, end| [1, 2, 3].map(|count| replicas.confirmed(count, durable, end));
        assert_eq!(confirmed(false, 200), [Some(101), Some(100), None]);
        assert_eq!(confirmed(false, 100), [Some(100), None, None], "one claims too much");
        assert_eq!(confirmed(true, 200), [Some(90), None, None], "one says nothing of it");
        // The first reconnects before its old connection has ended.
        let again = replicas.enter(Replica::new(3, "h".into(), 1, 0));
        again.set_stage(Stage::Online, 2000);
        assert_eq!(confirmed(false, 200), [Some(101), None, None]);
        again.acknowledge(100, None, 2000);
        assert_eq!(confirmed(false, 200), [Some(101), Some(100), None]);
        replicas.leave(&again);
        replicas.leave(&one);
        assert_eq!(replicas.all().iter().map(|replica| replica.client).collect::<Vec<_>>(), [2]);
    }
}
