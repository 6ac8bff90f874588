//! Logs the changes of a group.

use engine::notify::events::EventClass;
use keyspace::{StreamDelivery, StreamGroup, StreamId};

use crate::blocking::Serving;
use crate::streams::reply::text;

/// A group and its key.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) key: &'a [u8],
    pub(super) group: &'a [u8],
}

impl Place<'_> {
    /// Logs that a consumer was created.
    pub(super) fn made_consumer(&self, serving: &mut Serving<'_>, consumer: &[u8]) {
        serving.wrote_as(&[b"XGROUP", b"CREATECONSUMER", self.key, self.group, consumer]);
        let (db, name) = (serving.db, "xgroup-createconsumer");
        serving.effects.notify(EventClass::Stream, db, name, self.key);
    }

    /// Logs that an entry was delivered to a consumer.
    pub(super) fn delivered(
        &self,
        serving: &mut Serving<'_>,
        consumer: &[u8],
        id: StreamId,
        delivery: StreamDelivery,
        last: StreamId,
    ) {
        if !serving.has_log() {
            return serving.wrote_as(&[]);
        }
        let (id, last) = (text(id), text(last));
        let (at, count) = (delivery.at_ms.to_string(), delivery.count.to_string());
        let head: [&[u8]; 6] = [b"XCLAIM", self.key, self.group, consumer, b"0", id.as_bytes()];
        let times: [&[u8]; 4] = [b"TIME", at.as_bytes(), b"RETRYCOUNT", count.as_bytes()];
        let rest: [&[u8]; 4] = [b"FORCE", b"JUSTID", b"LASTID", last.as_bytes()];
        serving.wrote_as(&[&head[..], &times, &rest].concat());
    }

    /// Logs that a pending entry was removed.
    pub(super) fn taken_out(&self, serving: &mut Serving<'_>, id: StreamId) {
        serving.wrote_as(&[b"XACK", self.key, self.group, text(id).as_bytes()]);
    }

    /// Logs how far the group has read.
    pub(super) fn read_on(&self, serving: &mut Serving<'_>, group: &StreamGroup) {
        let (last, read) = (text(group.last), group.read.map_or("-1".into(), |n| n.to_string()));
        serving.wrote_as(&[
            b"XGROUP",
            b"SETID",
            self.key,
            self.group,
            last.as_bytes(),
            b"ENTRIESREAD",
            read.as_bytes(),
        ]);
    }
}
