//! Consumer groups of a stream: what was delivered to whom, and not acknowledged yet.

use std::ops::ControlFlow;

use structures::stream;

use crate::Error;
use crate::layout::STREAM_OWNERS;
use crate::streams::progress::StreamProgress;
use crate::streams::{
    StreamConsumer, StreamEdit, StreamEntry, StreamGroup, StreamId, StreamPending, StreamRef,
};

/// What a consumer was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupRead {
    /// Whether the consumer was made for it.
    pub made_consumer: bool,
    /// The entries' IDs.
    pub ids: Vec<StreamId>,
}

impl StreamRef<'_> {
    /// Returns the group of a name.
    pub fn group(&self, name: &[u8]) -> Result<Option<StreamGroup>, Error> {
        self.stream.group(self.shard, name).map_err(|_| self.damaged())
    }

    /// Returns how many groups there are.
    pub fn group_count(&self) -> u64 {
        self.stream.group_count(self.shard)
    }

    /// Returns all groups with their names, in the order of these.
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

    /// Returns the consumer of a name.
    pub fn consumer(
        &self,
        group: &StreamGroup,
        name: &[u8],
    ) -> Result<Option<StreamConsumer>, Error> {
        group.consumer(self.shard, name).map_err(|_| self.damaged())
    }

    /// Returns how many consumers a group has.
    pub fn consumer_count(&self, group: &StreamGroup) -> u64 {
        group.consumer_count(self.shard)
    }

    /// Returns all consumers of a group with their names, in the order of these.
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

    /// Returns how many entries are pending of a group.
    pub fn pending_count(&self, group: &StreamGroup) -> u64 {
        group.pending_count(self.shard)
    }

    /// Returns how many entries are pending of a consumer.
    pub fn pending_count_of(&self, consumer: &StreamConsumer) -> u64 {
        consumer.pending_count(self.shard)
    }

    /// Returns what is pending of an ID.
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

    /// Shows what is pending from an ID on, of one consumer or of all, until `visit` answers
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

    /// Returns the name of the consumer that has a pending entry.
    pub fn owner_name(
        &self,
        group: &StreamGroup,
        pending: &StreamPending,
    ) -> Result<Vec<u8>, Error> {
        let owner = group.owner(self.shard, pending);
        owner.and_then(|owner| owner.name(self.shard)).map_err(|_| self.damaged())
    }

    /// Returns whether there is an entry of this ID.
    pub fn contains(&self, id: StreamId) -> Result<bool, Error> {
        let verify = self.shard.heap().is_durable();
        self.stream.contains(self.shard, id, verify).map_err(|_| self.damaged())
    }
}

impl StreamEdit<'_, '_> {
    /// Returns a change of groups that was tried: an error as the caller knows it.
    fn tried<T>(&mut self, done: Result<T, stream::Error>) -> Result<T, Error> {
        self.changed_metadata = true;
        done.map_err(|error| self.error(error))
    }

    /// Makes a group; none if there is one of this name.
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

    /// Takes a group out; whether there was one.
    pub fn drop_group(&mut self, name: &[u8]) -> Result<bool, Error> {
        self.shard.allow_reserve(true);
        let done = self.stream.drop_group(self.shard, self.queue, STREAM_OWNERS, name);
        self.shard.allow_reserve(false);
        self.tried(done)
    }

    /// Writes what was changed of a group's `last` and `read`.
    pub fn save_group(&mut self, group: &mut StreamGroup) {
        group.save(self.shard);
        self.changed_metadata = true;
    }

    /// Makes a consumer, last seen and last active then (unix ms), if there is none of this name.
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

    /// Returns the consumer of a name, seen now (unix ms) and active if entries become pending of
    /// it; it is made where there is none, and then the second answer is `true`.
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

    /// Takes a consumer out with all that is pending of it; how many entries that were, if there
    /// was such a consumer.
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

    /// Delivers up to `most` entries (0: all) after a group's last ID to a consumer, which is made
    /// where there is none, and shows each. They are pending from now (unix ms) on, if `keeps` says
    /// so.
    pub fn read_group(
        &mut self,
        group: &mut StreamGroup,
        consumer: &[u8],
        (most, keeps): (u64, bool),
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
            ids.iter().try_for_each(|id| self.deliver(group, &consumer, *id, (now, 1)))?;
        }
        self.save_group(group);
        Ok(GroupRead { made_consumer, ids })
    }

    /// Says that an entry was delivered to a consumer, whoever had it before: when (unix ms), and
    /// how often.
    pub fn deliver(
        &mut self,
        group: &StreamGroup,
        consumer: &StreamConsumer,
        id: StreamId,
        delivery: (u64, u64),
    ) -> Result<(), Error> {
        let done = match self.read().pending(group, id)? {
            Some(pending) => group.redeliver(self.shard, &pending, consumer, delivery),
            None => group.deliver(self.shard, consumer, id, delivery),
        };
        self.tried(done)
    }

    /// Takes a pending entry out; whether it was there.
    pub fn acknowledge(&mut self, group: &StreamGroup, id: StreamId) -> Result<bool, Error> {
        let Some(pending) = self.read().pending(group, id)? else { return Ok(false) };
        self.shard.allow_reserve(true);
        let done = group.acknowledge(self.shard, &pending);
        self.shard.allow_reserve(false);
        self.tried(done).map(|()| true)
    }
}
