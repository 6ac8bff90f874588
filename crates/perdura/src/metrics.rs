//! Statistics as metrics of the package `metrics`, with the feature of that name: under the
//! server's names for them, so that the same dashboard shows both.

use metrics::{counter, gauge};

use crate::{JournalStatistics, Statistics};

impl Statistics {
    /// Sets the metrics `perdura_*` of the recorder in force to these values. Nothing is recorded
    /// between two calls: call it periodically, or before an exporter answers. With several stores
    /// in one process, the last call counts.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use perdura::{Options, Perdura};
    ///
    /// let store = Perdura::open(Options::volatile())?;
    /// store.statistics().record();
    /// # Ok(())
    /// # }
    /// ```
    pub fn record(&self) {
        gauge!("perdura_keys").set(self.keys as f64);
        gauge!("perdura_keys_expiring").set(self.keys_with_ttl as f64);
        gauge!("perdura_memory_used_bytes").set(self.usage.used as f64);
        gauge!("perdura_heap_size_bytes").set(self.usage.size as f64);
        gauge!("perdura_heap_space_bytes").set(self.usage.space as f64);
        gauge!("perdura_heap_limit_bytes").set(self.usage.limit as f64);
        counter!("perdura_commits_total").absolute(self.commits);
        counter!("perdura_heap_fences_total").absolute(self.medium.fences);
        counter!("perdura_heap_lines_flushed_total").absolute(self.medium.lines);
        counter!("perdura_heap_streamed_bytes_total").absolute(self.medium.streamed_bytes);
        counter!("perdura_keyspace_hits_total").absolute(self.hits);
        counter!("perdura_keyspace_misses_total").absolute(self.misses);
        counter!("perdura_expired_keys_total").absolute(self.expired_keys);
        gauge!("perdura_lock_hold_max_seconds").set(self.longest_lock_hold.as_secs_f64());
        gauge!("perdura_media_errors").set(self.media_errors as f64);
        gauge!("perdura_damaged_keys").set(self.damaged_keys as f64);
        gauge!("perdura_writes_stopped").set(f64::from(self.is_read_only));
        if let Some(journal) = &self.journal {
            journal.record();
        }
    }
}

impl JournalStatistics {
    fn record(&self) {
        counter!("perdura_journal_batches_total").absolute(self.batches);
        counter!("perdura_journal_written_bytes_total").absolute(self.bytes_written);
        counter!("perdura_journal_applied_bytes_total").absolute(self.bytes_applied);
        gauge!("perdura_journal_unapplied_bytes").set(self.bytes_unapplied as f64);
        gauge!("perdura_journal_size_bytes").set(self.capacity as f64);
        gauge!("perdura_journal_unsynced_bytes").set(self.bytes_unsynced as f64);
        gauge!("perdura_journal_unsynced_age_seconds").set(self.unsynced_age.as_secs_f64());
        counter!("perdura_journal_full_waits_total").absolute(self.full_waits);
        counter!("perdura_journal_syncs_total").absolute(self.sync_times.count());
        // Counters are integers in that package: so the sum is a gauge, and the buckets have their
        // bound as a label and include all shorter times, as in Prometheus.
        gauge!("perdura_journal_sync_seconds_total").set(self.sync_time.as_secs_f64());
        let mut up_to = 0;
        for (bound, count) in self.sync_times.buckets() {
            up_to += count;
            let bound = bound.as_secs_f64().to_string();
            counter!("perdura_journal_sync_seconds_bucket", "le" => bound).absolute(up_to);
        }
    }
}
