//! Replies that wait until replicas have what they show (`repl-acknowledge`).
//!
//! A reply of a command that reads or changes data leaves when so many replicas have everything
//! that the data had when it was executed. So what a client was told is on these replicas, the
//! writes of others that it has read included, and no failover to one of them takes it back.
//!
//! A connection that has to wait asks the replicas how far they are, once for all connections that
//! were served in the same turn, and is woken by the acknowledgement that suffices. A server that
//! becomes a replica meanwhile never confirms: the write may be lost, and the connection ends.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use super::Replication;

/// The replicas that must have what a reply shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quorum {
    /// Their number; 0 if replies do not wait.
    pub replicas: u32,
    /// Whether they must have it durably.
    pub durable: bool,
}

/// The quorum of connections that have none of their own, and the replies that wait.
#[derive(Default)]
pub(super) struct Quorums {
    /// Twice the number of replicas, plus one if durably.
    usual: AtomicU64,
    /// The longest wait, ms; 0 for no limit.
    timeout_ms: AtomicU64,
    waiting: Mutex<BTreeMap<Place, Waker>>,
    places: AtomicU64,
}

/// A reply's place among those that wait: those for the same quorum are in the order of their
/// offsets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    replicas: usize,
    durable: bool,
    offset: u64,
    number: u64,
}

impl Quorum {
    /// Returns a quorum that both are part of.
    pub fn and(self, other: Quorum) -> Quorum {
        Quorum {
            replicas: self.replicas.max(other.replicas),
            durable: self.durable || other.durable,
        }
    }
}

impl Quorums {
    fn waiting(&self) -> MutexGuard<'_, BTreeMap<Place, Waker>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A reply that waits until replicas have what it shows. It waits no more when this is dropped.
pub struct Confirmation<'r> {
    replication: &'r Replication,
    place: Place,
}

impl Confirmation<'_> {
    /// Returns true if replicas have what the reply shows; else `waker` is called when they may
    /// have, and when this server's role changes.
    pub fn poll(&self, waker: &Waker) -> bool {
        if self.is_confirmed() {
            return true;
        }
        self.replication.quorums.waiting().insert(self.place, waker.clone());
        // An acknowledgement may have come before the entry was there.
        self.is_confirmed()
    }

    /// Asks the replicas how far they are, unless they were asked after the reply was made.
    pub fn ask(&self) {
        if self.replication.replicas.count() > 0 {
            self.replication.ask(self.place.offset);
        }
    }

    fn is_confirmed(&self) -> bool {
        let confirmed = self.replication.confirmed(self.place.replicas, self.place.durable);
        confirmed.is_some_and(|confirmed| confirmed >= self.place.offset)
    }
}

impl Drop for Confirmation<'_> {
    fn drop(&mut self) {
        self.replication.quorums.waiting().remove(&self.place);
    }
}

impl Replication {
    /// Sets the quorum of connections that have none of their own, and the longest wait of a reply
    /// in milliseconds (0 for no limit).
    pub fn set_quorum(&self, quorum: Quorum, timeout_ms: u64) {
        self.quorums.timeout_ms.store(timeout_ms, Relaxed);
        let packed = u64::from(quorum.replicas) << 1 | u64::from(quorum.durable);
        self.quorums.usual.store(packed, Relaxed);
    }

    /// Returns the quorum of connections that have none of their own.
    #[inline]
    pub fn quorum(&self) -> Quorum {
        let packed = self.quorums.usual.load(Relaxed);
        Quorum { replicas: (packed >> 1) as u32, durable: packed & 1 == 1 }
    }

    /// Returns how long a reply may wait for replicas; none if there is no limit.
    pub fn confirmation_timeout(&self) -> Option<Duration> {
        let ms = self.quorums.timeout_ms.load(Relaxed);
        (ms > 0).then(|| Duration::from_millis(ms))
    }

    /// Begins to wait until a quorum has all data that is here now. None if nothing is asked for,
    /// or it has them; a replica leaves that to its primary.
    pub fn confirm(&self, quorum: Quorum) -> Option<Confirmation<'_>> {
        if quorum.replicas == 0 || self.is_replica() {
            return None;
        }
        // What was changed without a stream is in the dumps that replicas get from now on.
        self.switch_on();
        let place = Place {
            replicas: quorum.replicas as usize,
            durable: quorum.durable,
            offset: self.stream.changed(),
            number: self.quorums.places.fetch_add(1, Relaxed),
        };
        let confirmation = Confirmation { replication: self, place };
        (!confirmation.is_confirmed()).then_some(confirmation)
    }

    /// Returns how many replies wait for replicas.
    pub fn unconfirmed(&self) -> usize {
        self.quorums.waiting().len()
    }

    /// Wakes the connections whose replies replicas have confirmed.
    pub(super) fn wake_confirmed(&self) {
        let mut waiting = self.quorums.waiting();
        let mut next = waiting.first_key_value().map(|(place, _)| *place);
        while let Some(Place { replicas, durable, .. }) = next {
            let place = |offset, number| Place { replicas, durable, offset, number };
            let confirmed = self.confirmed(replicas, durable);
            let is_confirmed = |place: &Place| {
                (place.replicas, place.durable) == (replicas, durable)
                    && confirmed.is_some_and(|confirmed| confirmed >= place.offset)
            };
            while let Some((first, _)) = waiting.range(place(0, 0)..).next()
                && is_confirmed(first)
            {
                let first = *first;
                waiting.remove(&first).into_iter().for_each(Waker::wake);
            }
            next = waiting.range(place(u64::MAX, u64::MAX)..).next().map(|(place, _)| *place);
        }
    }

    /// Returns the offset up to which so many replicas have the stream.
    fn confirmed(&self, replicas: usize, durable: bool) -> Option<u64> {
        self.replicas.confirmed(replicas, durable, self.stream.end())
    }

    /// Wakes all connections whose replies wait: this server's role has changed.
    pub(super) fn wake_unconfirmed(&self) {
        let waiting = std::mem::take(&mut *self.quorums.waiting());
        waiting.into_values().for_each(Waker::wake);
    }
}
