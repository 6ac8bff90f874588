//! Writes and syncs of calls: none if a call changes nothing, and enough if it changed something.

use perdura::{Durability, JournalStatistics};

use super::session::{Medium, Session};
use super::state::{Checked, Db};

/// Calls that write only changes: if the model stays the same, so does the medium. Others store the
/// same bytes again, or record when a consumer was seen.
const WRITE_CHANGES_ONLY: &[&str] = &[
    "exists",
    "value_type",
    "delete",
    "ttl",
    "set_if_absent",
    "set_if_absent_for",
    "get",
    "get_bit",
    "bit_count",
    "bit_position",
    "bit_field_get",
    "pop_front",
    "pop_back",
    "list_len",
    "list_iter",
    "elements",
    "hash_ttl",
    "hash_get",
    "hash_delete",
    "hash_len",
    "hash_iter",
    "hash_entries",
    "set_add",
    "set_remove",
    "set_contains",
    "set_len",
    "set_iter",
    "set_members",
    "sort",
    "sorted_set_remove",
    "sorted_set_pop",
    "sorted_set_iter",
    "sorted_set_by_rank",
    "sorted_set_by_score",
    "sorted_set_by_name",
    "sorted_set_score",
    "sorted_set_rank",
    "sorted_set_len",
    "sorted_set_ranks",
    "sorted_set_members",
    "geo_position",
    "geo_distance",
    "stream_len",
    "stream_iter",
    "entries",
    "delete_entry",
    "trim_stream",
    "create_group",
    "destroy_group",
    "pending",
    "pending_iter",
    "acknowledge",
    "insert",
    "insert_if_absent",
    "remove",
    "pop_first",
    "pop_last",
    "remove_range",
    "remove_prefix",
    "iter",
    "range",
    "prefix",
    "a row of",
];

pub(crate) struct Watch {
    journal: Option<JournalStatistics>,
    counters: pmem::Counters,
    commits: u64,
    db: Db,
    calls: usize,
}

impl Watch {
    /// Begins, if the medium counts and it is this call's turn.
    pub(crate) fn begin(session: &mut Session, n: usize) -> Option<Watch> {
        let is_watched = match session.medium {
            Medium::Memory => false,
            Medium::Process | Medium::Clwb => session.draw.one_in(3),
            Medium::Journal(_) => true,
        };
        is_watched.then(|| {
            let statistics = session.store.statistics();
            Watch {
                journal: statistics.journal,
                commits: statistics.commits,
                counters: pmem::counters(),
                db: session.dbs[n].clone(),
                calls: session.draw.trace.len(),
            }
        })
    }

    pub(crate) fn end(self, session: &Session, n: usize) -> Checked {
        let fences = pmem::counters().since(&self.counters).fences;
        let calls = &session.draw.trace[self.calls.min(session.draw.trace.len())..];
        let Some(last) = calls.last() else { return Ok(()) };
        let after = &session.dbs[n];
        let has_changed = self.db.keys != after.keys;
        let name = last.split(['(', '[']).next().unwrap_or_default();
        let is_silent = calls.len() == 1
            && !has_changed
            && after.gone.is_empty()
            && WRITE_CHANGES_ONLY.contains(&name);
        let statistics = session.store.statistics();
        let commits = statistics.commits - self.commits;
        if has_changed && commits == 0 {
            return Err(format!("{last} changed something and committed nothing"));
        }
        if is_silent && (commits, fences) != (0, 0) {
            return Err(format!("{last} changed nothing: {commits} commits, {fences} fences"));
        }
        if has_changed && session.medium == Medium::Clwb && fences == 0 {
            return Err(format!("{last} returned without a fence"));
        }
        let (Some(before), Some(after)) = (self.journal, statistics.journal) else { return Ok(()) };
        let syncs = after.sync_times.count() - before.sync_times.count();
        let batches = after.batches - before.batches;
        // A thread may sync data that no call waits for at any time.
        let is_synced = before.bytes_unsynced == 0;
        if is_silent && (batches > 0 || is_synced && syncs > 0) {
            return Err(format!("{last} changed nothing: {syncs} syncs, {batches} batches"));
        }
        if has_changed && batches == 0 {
            return Err(format!("{last} returned before its batch was written"));
        }
        if session.medium == Medium::Journal(Durability::Immediate) {
            // No call waits for the writes of upkeep and of opening.
            let known = if has_changed { 0 } else { before.bytes_unsynced };
            if after.bytes_unsynced > known {
                return Err(format!("{last} returned before it was synced"));
            }
            if has_changed && syncs == 0 {
                return Err(format!("{last} returned without a sync"));
            }
            // The thread's own sync may come in between.
            if is_synced && syncs > batches + 1 {
                return Err(format!("{last} synced {batches} batches {syncs} times"));
            }
        }
        Ok(())
    }
}
