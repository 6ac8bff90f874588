//! Consumer groups of a stream: the entries that were delivered to each consumer and are not
//! acknowledged yet.

use std::ops::ControlFlow;

use structures::stream;

use crate::Error;
use crate::layout::STREAM_OWNERS;
use crate::streams::progress::StreamProgress;
use crate::streams::{
    StreamConsumer, StreamDelivery, StreamEdit, StreamEntry, StreamGroup, StreamId, StreamPending,
    StreamRef,
};

/// The entries that were delivered to a consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupRead {
    /// Whether the consumer was created for this read.
    pub made_consumer: bool,
    /// The entries' IDs.
    pub ids: Vec<StreamId>,
}

impl StreamRef<'_> {
    /// Returns the group with this name.
    pub fn group(&self, name: &[u8]) -> Result<Option<StreamGroup>, Error> {
        self.stream.group(self.shard, name).map_err(|_| self.damaged())
    }

    /// Returns the number of groups.
    pub fn group_count(&self) -> u64 {
        self.stream.group_count(self.shard)
    }

    /// Returns all groups with their names, ordered by name.
    pub fn groups(&self) -> Result<Vec<(Vec<u8>, StreamGroup)>, Error> {
        let mut all = Vec::new();
        let done = self.stream.groups(self.shard, |group| {
            all.push(group);
            ControlFlow::<()>::Continue(())
        });
        done.map_err(|_| self.damaged())?;
        let named = |group: StreamGroup| Ok((group.name(self.shard)?, group));
        let all: Result<_, structures::Damaged> = all.into_iter().map(named).collect();
        all.map_err(|_| self.damaged())
    }

    /// Returns the consumer with this name.
    pub fn consumer(
        &self,
        group: &StreamGroup,
        name: &[u8],
    ) -> Result<Option<StreamConsumer>, Error> {
        group.consumer(self.shard, name).map_err(|_| self.damaged())
    }

    /// Returns the number of consumers of a group.
    pub fn consumer_count(&self, group: &StreamGroup) -> u64 {
        group.consumer_count(self.shard)
    }

    /// Returns all consumers of a group with their names, ordered by name.
    pub fn consumers(&self, group: &StreamGroup) -> Result<Vec<(Vec<u8>, StreamConsumer)>, Error> {
        let mut all = Vec::new();
        let done = group.consumers(self.shard, |consumer| {
            all.push(consumer);
            ControlFlow::<()>::Continue(())
        });
        done.map_err(|_| self.damaged())?;
        let named = |consumer: StreamConsumer| Ok((consumer.name(self.shard)?, consumer));
        let all: Result<_, structures::Damaged> = all.into_iter().map(named).collect();
        all.map_err(|_| self.damaged())
    }

    /// Returns the number of pending entries of a group.
    pub fn pending_count(&self, group: &StreamGroup) -> u64 {
        group.pending_count(self.shard)
    }

    /// Returns the number of pending entries of a consumer.
    pub fn pending_count_of(&self, consumer: &StreamConsumer) -> u64 {
        consumer.pending_count(self.shard)
    }

    /// Returns the pending entry with this ID.
    pub fn pending(
        &self,
        group: &StreamGroup,
        id: StreamId,
    ) -> Result<Option<StreamPending>, Error> {
        group.pending(self.shard, id).map_err(|_| self.damaged())
    }

    /// Returns the first and the last pending ID of a group.
    pub fn pending_ends(&self, group: &StreamGroup) -> Result<Option<(StreamId, StreamId)>, Error> {
        let mut first = None;
        self.visit_pending(group, None, StreamId::MIN, |pending| {
            first = Some(pending.id);
            false
        })?;
        let last = group.last_pending(self.shard).map_err(|_| self.damaged())?;
        Ok(first.zip(last))
    }

    /// Visits the pending entries from an ID on, of one consumer or of all, until `visit` returns
    /// `false`.
    pub fn visit_pending(
        &self,
        group: &StreamGroup,
        consumer: Option<&StreamConsumer>,
        from: StreamId,
        visit: impl FnMut(&StreamPending) -> bool,
    ) -> Result<(), Error> {
        let done = match consumer {
            Some(consumer) => consumer.visit_pending(self.shard, from, visit),
            None => group.visit_pending(self.shard, from, visit),
        };
        done.map_err(|_| self.damaged())
    }

    /// Returns the name of the consumer to which a pending entry belongs.
    pub fn owner_name(
        &self,
        group: &StreamGroup,
        pending: &StreamPending,
    ) -> Result<Vec<u8>, Error> {
        let owner = group.owner(self.shard, pending);
        owner.and_then(|owner| owner.name(self.shard)).map_err(|_| self.damaged())
    }

    /// Returns true if the stream has an entry with this ID.
    pub fn contains(&self, id: StreamId) -> Result<bool, Error> {
        let verify = self.shard.heap().is_durable();
        self.stream.contains(self.shard, id, verify).map_err(|_| self.damaged())
    }
}

impl StreamEdit<'_, '_> {
    /// Converts the error of an attempted change of groups, and records that groups may have
    /// changed.
    fn tried<T>(&mut self, done: Result<T, stream::Error>) -> Result<T, Error> {
        self.changed_metadata = true;
        done.map_err(|error| self.error(error))
    }

    /// Creates a group. Returns `None` if there is one with this name.
    pub fn create_group(
        &mut self,
        name: &[u8],
        last: StreamId,
        read: Option<u64>,
    ) -> Result<Option<StreamGroup>, Error> {
        if self.read().group(name)?.is_some() {
            return Ok(None);
        }
        let done = self.stream.create_group(self.shard, name, last, read);
        self.tried(done).map(Some)
    }

    /// Deletes a group. Returns true if it existed.
    pub fn drop_group(&mut self, name: &[u8]) -> Result<bool, Error> {
        self.shard.allow_reserve(true);
        let done = self.stream.drop_group(self.shard, self.queue, STREAM_OWNERS, name);
        self.shard.allow_reserve(false);
        self.tried(done)
    }

    /// Writes a group's changed `last` and `read`.
    pub fn save_group(&mut self, group: &mut StreamGroup) {
        group.save(self.shard);
        self.changed_metadata = true;
    }

    /// Creates a consumer with these times (unix ms) at which it was last seen and last active.
    /// Returns `None` if there is one with this name.
    pub fn create_consumer(
        &mut self,
        group: &StreamGroup,
        name: &[u8],
        seen: u64,
        active: Option<u64>,
    ) -> Result<Option<StreamConsumer>, Error> {
        if self.read().consumer(group, name)?.is_some() {
            return Ok(None);
        }
        let done = group.create_consumer(self.shard, name, seen, active);
        self.tried(done).map(Some)
    }

    /// Returns the consumer with this name, which is created if there is none, and whether it was
    /// created. Records that it was seen now (unix ms), and, with `is_active`, that it was active.
    pub fn see_consumer(
        &mut self,
        group: &StreamGroup,
        name: &[u8],
        now: u64,
        is_active: bool,
    ) -> Result<(StreamConsumer, bool), Error> {
        match self.read().consumer(group, name)? {
            Some(mut consumer) => {
                consumer.see(self.shard, now, is_active);
                Ok((consumer, false))
            }
            None => {
                let active = is_active.then_some(now);
                let done = group.create_consumer(self.shard, name, now, active);
                Ok((self.tried(done)?, true))
            }
        }
    }

    /// Deletes a consumer with its pending entries. Returns how many entries were pending, or
    /// `None` if there is no such consumer.
    pub fn drop_consumer(
        &mut self,
        group: &StreamGroup,
        name: &[u8],
    ) -> Result<Option<u64>, Error> {
        let Some(consumer) = self.read().consumer(group, name)? else { return Ok(None) };
        self.shard.allow_reserve(true);
        let done = group.drop_consumer(self.shard, self.queue, STREAM_OWNERS, &consumer);
        self.shard.allow_reserve(false);
        self.tried(done).map(Some)
    }

    /// Delivers up to `most` entries (0: all) after a group's last ID to a consumer, which is
    /// created if there is none, and calls `show` with each. If `keeps`, the entries become
    /// pending, delivered now (unix ms).
    pub fn read_group(
        &mut self,
        group: &mut StreamGroup,
        consumer: &[u8],
        most: u64,
        keeps: bool,
        now: u64,
        mut show: impl FnMut(&StreamEntry<'_>),
    ) -> Result<GroupRead, Error> {
        let (stream, mut ids) = (self.read(), Vec::new());
        if let Some(from) = group.last.next() {
            stream.visit(from..=StreamId::MAX, false, |entry| {
                show(entry);
                ids.push(entry.id());
                ids.len() as u64 != most
            })?;
        }
        let progress = StreamProgress::of(&stream)?;
        ids.iter().for_each(|id| progress.read(group, *id));
        let is_active = keeps && !ids.is_empty();
        let (consumer, made_consumer) = self.see_consumer(group, consumer, now, is_active)?;
        if keeps {
            let delivery = StreamDelivery { at_ms: now, count: 1 };
            ids.iter().try_for_each(|id| self.deliver(group, &consumer, *id, delivery))?;
        }
        self.save_group(group);
        Ok(GroupRead { made_consumer, ids })
    }

    /// Records that an entry was delivered to a consumer. If the entry is already pending, it moves
    /// to this consumer.
    pub fn deliver(
        &mut self,
        group: &StreamGroup,
        consumer: &StreamConsumer,
        id: StreamId,
        delivery: StreamDelivery,
    ) -> Result<(), Error> {
        let done = match self.read().pending(group, id)? {
            Some(pending) => group.redeliver(self.shard, &pending, consumer, delivery),
            None => group.deliver(self.shard, consumer, id, delivery),
        };
        self.tried(done)
    }

    /// Acknowledges a pending entry. Returns true if it was pending.
    pub fn acknowledge(&mut self, group: &StreamGroup, id: StreamId) -> Result<bool, Error> {
        let Some(pending) = self.read().pending(group, id)? else { return Ok(false) };
        self.shard.allow_reserve(true);
        let done = group.acknowledge(self.shard, &pending);
        self.shard.allow_reserve(false);
        self.tried(done).map(|()| true)
    }
}
