//! Entries and IDs in replies.

use engine::failure::Failure;
use keyspace::{StreamEntry, StreamId, StreamRef};
use resp::Writer;

/// The number of entries whose display takes about as long as other clients can wait.
const MANY: u64 = 3000;

/// Returns an ID as text.
pub(super) fn text(id: StreamId) -> String {
    format!("{}-{}", id.ms, id.seq)
}

pub(super) fn id(out: &mut Writer, id: StreamId) {
    let (mut ms, mut seq) = (itoa::Buffer::new(), itoa::Buffer::new());
    let (ms, seq) = (ms.format(id.ms).as_bytes(), seq.format(id.seq).as_bytes());
    let len = ms.len() + 1 + seq.len();
    if out.takes(len) {
        out.bulk_header(len);
        [ms, b"-", seq].into_iter().for_each(|part| out.raw(part));
        out.bulk_end();
    }
}

/// Writes an ID with the fields and values of its entry.
pub(super) fn entry(out: &mut Writer, entry: &StreamEntry<'_>) {
    out.array(2);
    fields(out, entry);
}

fn fields(out: &mut Writer, entry: &StreamEntry<'_>) {
    id(out, entry.id());
    out.array(2 * entry.len());
    for (field, value) in entry.pairs() {
        out.bulk(field);
        out.bulk(value);
    }
}

/// Writes an entry with the time since its last delivery (ms) and the number of deliveries.
pub(super) fn delivered_entry(out: &mut Writer, found: &StreamEntry<'_>, before: (u64, u64)) {
    out.array(4);
    fields(out, found);
    out.integer(before.0.min(i64::MAX as u64) as i64);
    out.integer(before.1.min(i64::MAX as u64) as i64);
}

/// Writes the entry with this ID. Returns false, without a reply, if there is none.
pub(super) fn entry_of(
    out: &mut Writer,
    stream: &StreamRef<'_>,
    id: StreamId,
) -> Result<bool, keyspace::Error> {
    let mut any = false;
    stream.visit(id..=id, false, |found| {
        entry(out, found);
        any = true;
        false
    })?;
    Ok(any)
}

/// Writes up to `most` entries of some IDs; 0 for all.
pub(super) fn entries(
    out: &mut Writer,
    stream: &StreamRef<'_>,
    start: StreamId,
    end: StreamId,
    most: u64,
    reversed: bool,
) -> Result<(), Failure> {
    let (array, mut count) = (out.deferred(), 0);
    if start <= end {
        stream.visit(start..=end, reversed, |found| {
            entry(out, found);
            count += 1;
            if count == MANY {
                out.exceed_limit();
            }
            count != most && !out.is_over_limit()
        })?;
    }
    out.finish_array(array, count as usize);
    Ok(())
}
