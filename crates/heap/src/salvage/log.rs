//! Applies the logs of a salvaged pool as far as they are sound.
//!
//! A pool that was closed needs none of them. If only the process ended, every word that a record
//! changed is in place, except perhaps those of the newest record, whose reply had not been sent;
//! damage further back in a log then costs nothing. If the machine was restarted, the changes of a
//! lost record are missing, and so may be whatever followed from them.
//!
//! Words that are in place already are not stored again: a record that is lost may have changed
//! them since. So nothing is stored of records before the tail, as in a pool that was at rest, nor,
//! where only the process ended, of those that are known to have been stored. If the tail is lost
//! as well, retired records look like any others: their words are left out at least where other
//! shards have got the span since. Otherwise a sound record that is known to have been fenced is
//! stored in any case: what it published is verified by whoever reads it, and may have been written
//! over for a later record that is lost.

use super::note::SalvageNote;
use crate::error::OpenError;
use crate::layout::Geometry;
use crate::layout::header::Header;
use crate::layout::span::split_span_word;
use crate::log::record::Entry;
use crate::recovery::scan::{Rescued, ShardLog};
use crate::recovery::{lost_logs, replay, scan, validate};
use pmem::Region;

pub(super) fn recover(
    region: &Region,
    header: &Header,
    boot_id: [u8; 16],
    notes: &mut Vec<SalvageNote>,
) {
    if header.clean {
        return;
    }
    // Bytes that a journal did not have were lost with the process.
    let in_place = header.boot_id == boot_id && header.journal == 0;
    if !in_place && !header.power_safe {
        notes.push(SalvageNote::OtherBoot);
    }
    let geometry = &header.geometry;
    let mut note = |error: Option<OpenError>, costs| {
        notes.extend(error.map(|error| SalvageNote::Log { error, costs }));
    };
    let (mut logs, mut has_error): (Vec<ShardLog>, Vec<bool>) = Default::default();
    for shard in 0..geometry.shards {
        let Rescued { log, error, has_newest } =
            scan::rescue(region, geometry, shard, header.epoch, in_place);
        let lost = lost_logs::refuse_lost_log(region, geometry, &log).err();
        has_error.push(error.is_some() || lost.is_some());
        // Else the newest record, whose words need not be in place, may be among the lost ones.
        note(error, !in_place || !has_newest);
        note(lost, true);
        logs.push(log);
    }
    let accepted = validate::accepted(region, &logs);
    let fenced = validate::fenced(&logs);
    for ((log, accepted), is_fenced) in logs.iter_mut().zip(accepted).zip(fenced) {
        let Some(newest) = log.records.last().filter(|_| !accepted) else { continue };
        let (seq, is_sound) = (newest.header.seq, newest.has_whole_body(region));
        if is_fenced {
            note(Some(log.damaged(seq, seq)), true);
        } else {
            note(lost_logs::refuse_lost_newest(region, log).err(), true);
        }
        if !is_fenced || !is_sound {
            log.drop_newest(geometry);
        }
    }
    let (damaged, sound): (Vec<&ShardLog>, Vec<&ShardLog>) =
        logs.iter().partition(|log| has_error[log.shard]);
    for log in sound {
        replay::store_words(region, replay::changes(log));
    }
    store_damaged(region, geometry, &damaged);
}

/// A change of a word that a damaged log asks for.
struct Change {
    lsn: u64,
    shard: usize,
    entry: Entry,
    /// The word was not another shard's before any damaged log was applied.
    was_own: bool,
}

/// Stores what is left of damaged logs, in the order of the commits. Which shard has which span
/// comes first: the rest depends on it. A shard may have got a span whose word in the pool is older
/// than its release, or whose release is lost.
fn store_damaged(region: &Region, geometry: &Geometry, logs: &[&ShardLog]) {
    let is_own = |shard, at| !is_anothers(region, geometry, shard, at);
    let is_of_table = |at: u64| geometry.span_of(at).is_some_and(|span| geometry.is_table(span));
    let changes = logs.iter().flat_map(|log| {
        replay::changes(log).map(|(lsn, entry)| {
            let was_own = is_own(log.shard, entry.at);
            Change { lsn, shard: log.shard, entry, was_own }
        })
    });
    let (mut spans, mut rest): (Vec<Change>, Vec<Change>) =
        changes.partition(|change| is_of_table(change.entry.at));
    spans.sort_by_key(|change| change.lsn);
    rest.sort_by_key(|change| change.lsn);
    for Change { lsn, shard, entry, was_own } in spans {
        if was_own || is_own(shard, entry.at) {
            replay::store_words(region, [(lsn, entry)].into_iter());
        }
    }
    let own = rest.into_iter().filter(|change| is_own(change.shard, change.entry.at));
    replay::store_words(region, own.map(|change| (change.lsn, change.entry)));
}

/// Returns true if a word is in a span of another shard, or says that it is. A shard gets a span
/// only when the log of its former owner is retired past the release, durably.
fn is_anothers(region: &Region, geometry: &Geometry, shard: usize, at: u64) -> bool {
    let Some(mut span) = geometry.span_of(at) else { return false };
    if geometry.is_table(span) {
        let zone = span / geometry.zone_spans as u32 * geometry.zone_spans as u32;
        span = zone + ((at - geometry.span_at(zone)) / 8) as u32;
    }
    let owner = split_span_word(region.load(geometry.span_word(span)), geometry.shards);
    owner.is_some_and(|(_, owner)| owner != shard)
}
