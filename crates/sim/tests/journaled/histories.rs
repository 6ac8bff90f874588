//! Histories of a journal that are too rare for a short exploration: each returns true if the
//! journal does what it must.

#![allow(unsafe_code, reason = "stores into a region are unsafe")]

use pmem::{JournalId, Region};
use sim::{FileEvent, FilesState, Named, SimulatedClock, SimulatedFiles, run_scheduled, yield_now};
use std::sync::Arc;
use std::time::Duration;

const ID: JournalId = JournalId { pool: [7; 16], journal: 1 };
const RING: u64 = 64 << 10;
const LEN: u64 = 64 << 10;
/// Where the pool records its journal's progress.
const PROGRESS_AT: u64 = LEN - 64;

fn open(files: &SimulatedFiles) -> Region {
    open_with(files, RING)
}

fn open_with(files: &SimulatedFiles, ring: u64) -> Region {
    let storage = |name| files.storage(name);
    Region::simulated_journaled(LEN as usize, storage(Named::Pool), storage(Named::Journal), ring)
}

fn begun(files: &SimulatedFiles) -> Region {
    begin(open(files))
}

fn begin(region: Region) -> Region {
    region.grow(LEN).expect("space");
    region.begin_journal(ID, PROGRESS_AT).expect("a journal");
    // Where a pool would name the journal.
    region.flush(0, 8);
    region.fence();
    region.start_journal();
    region
}

/// Returns the state after everything written has arrived, or nothing that was not synced.
fn left(files: &SimulatedFiles, arrives: bool) -> SimulatedFiles {
    SimulatedFiles::new(files.state().after_power_loss(|| arrives))
}

/// Tears each write of a superblock: the disk writes a part of the sector.
pub(crate) fn one_copy_of_the_superblock_stays_whole() -> bool {
    let files = SimulatedFiles::default();
    let region = begun(&files);
    put(&region, 0, 1);
    region.sync_up_to(region.appended()).expect("a sync");
    let mut torn = 0;
    region.checkpoint().expect("applied");
    drop(region);
    // Each write of a superblock, torn at any word.
    let mut state = FilesState::default();
    for event in files.take_events() {
        if let FileEvent::Write(Named::Journal, at, bytes) = &event
            && *at <= 4096
            && bytes.len() == 128
            && torn_is_refused(&state, *at, bytes, &mut torn)
        {
            return false;
        }
        state.apply(&event);
    }
    torn > 0
}

/// Keeps only the second of two batches, and begins another incarnation.
pub(crate) fn an_older_incarnation_does_not_count_after_a_newer_one() -> bool {
    let files = SimulatedFiles::default();
    let region = begun(&files);
    // Two batches that are not synced; the first one fills a block, and its header does not arrive.
    (2..57).chain([0]).for_each(|n| put(&region, n, 1));
    region.write_up_to(region.appended()).expect("a write");
    put(&region, 1, 1);
    region.write_up_to(region.appended()).expect("a write");
    drop(region);
    let mut parts = 0;
    let second_alone = files.state().after_power_loss(|| {
        parts += 1;
        // The lengths of both files, then the first sectors of both batches.
        parts != 3
    });
    let files = SimulatedFiles::new(second_alone);
    let region = open(&files);
    let found = region.recover_journal(ID, PROGRESS_AT).expect("a journal");
    assert_eq!(found.batches, 0, "the first batch is torn");
    put(&region, 0, 2);
    region.sync_up_to(region.appended()).expect("a sync");
    drop(region);
    let region = open(&left(&files, false));
    region.recover_journal(ID, PROGRESS_AT).is_ok_and(|found| found.batches == 1)
        && (region.load(0), region.load(64)) == (2, 0)
}

/// Keeps one of a batch's two sectors, and completes it with a sector of the next batch.
pub(crate) fn what_an_opening_found_torn_is_not_whole_later() -> bool {
    let write = |region: &Region, value: u64| {
        // The first sector has the first line, the second sector has the last one.
        (0..8).for_each(|line| put(region, line, if line == 0 { value } else { 1 }));
        region.write_up_to(region.appended()).expect("a write");
    };
    // The lengths of both files arrive, and one unsynced sector.
    let left = |files: &SimulatedFiles, arrives: usize| {
        let mut part = 0;
        SimulatedFiles::new(files.state().after_power_loss(|| {
            part += 1;
            part <= 2 || part == 2 + arrives
        }))
    };
    let files = SimulatedFiles::default();
    let region = begun(&files);
    write(&region, 1);
    drop(region);
    let files = left(&files, 1);
    let region = open(&files);
    let found = region.recover_journal(ID, PROGRESS_AT).expect("a journal");
    assert_eq!(found.batches, 0, "it is torn");
    write(&region, 2);
    drop(region);
    let region = open(&left(&files, 2));
    region.recover_journal(ID, PROGRESS_AT).is_ok_and(|found| found.batches == 0)
        && region.load(0) == 0
}

/// Damages a batch that was synced.
pub(crate) fn what_was_synced_and_is_damaged_is_no_end() -> bool {
    let files = SimulatedFiles::default();
    let region = begun(&files);
    for n in 0..3 {
        put(&region, n, 1);
        region.sync_up_to(region.appended()).expect("a sync");
    }
    drop(region);
    files.storage(Named::Journal).write_at(&[1], 8192 + 100).expect("a write");
    open(&files).recover_journal(ID, PROGRESS_AT).is_err()
}

/// Damages each of the synced batches except the last: they fill more than the ring.
pub(crate) fn a_damaged_batch_is_found_however_far_the_ring_was_written_to() -> bool {
    let files = SimulatedFiles::default();
    let region = begun(&files);
    for n in 0..24 {
        put(&region, n, 1);
        region.sync_up_to(region.appended()).expect("a sync");
        if n == 11 {
            region.checkpoint().expect("applied");
        }
    }
    drop(region);
    (12..23).all(|n| {
        let damaged = SimulatedFiles::new(files.state());
        let at = 8192 + n * 4096 % RING;
        damaged.storage(Named::Journal).write_at(&[0xff], at + 100).expect("a write");
        open(&damaged).recover_journal(ID, PROGRESS_AT).is_err()
    })
}

/// Lowers the limit at rest while a writer begins again. The process ends at each event, and each
/// of the synced batches but the last is damaged.
fn lowers_its_limit_beside_a_writer(seed: u64) -> bool {
    let (files, clock) = (SimulatedFiles::default(), SimulatedClock::default());
    let region = Arc::new(begin(open(&files).with_clock(Arc::new(clock.clone()))));
    let write = |region: &Region, n: u64| {
        put(region, n, 1);
        region.sync_up_to(region.appended()).expect("a sync");
    };
    const RESTED: u64 = 9;
    const END: u64 = 14;
    let (_, mut applies) = region.background_steps().expect("a journal");
    for n in 0..RESTED {
        write(&region, n);
        applies.look(&region).expect("the limit is raised");
    }
    region.checkpoint().expect("applied");
    clock.pass(Duration::from_secs(1));
    let mut state = files.state();
    files.take_events();
    let (writer, applier, marks) = (Arc::clone(&region), Arc::clone(&region), files.clone());
    run_scheduled(
        seed,
        vec![
            Box::new(move || {
                for n in RESTED..END {
                    write(&writer, n);
                    marks.mark(n as usize);
                }
            }) as Box<dyn FnOnce() + Send>,
            Box::new(move || applies.look(&applier).expect("a journal")),
        ],
    );
    let mut newest = RESTED;
    files.take_events().iter().all(|event| {
        state.apply(event);
        if let FileEvent::Mark(n) = event {
            newest = *n as u64;
        }
        (RESTED..newest).all(|n| {
            let damaged = SimulatedFiles::new(state.clone());
            let at = 8192 + n * 4096 % RING;
            damaged.storage(Named::Journal).write_at(&[0xff], at + 100).expect("a write");
            open(&damaged).recover_journal(ID, PROGRESS_AT).is_err()
        })
    })
}

/// A writer comes to a limit while it is lowered, in many orders.
pub(crate) fn nothing_is_written_past_a_limit_that_is_lowered() -> bool {
    (0..40).all(lowers_its_limit_beside_a_writer)
}

/// Fails a sync, and continues in another process.
pub(crate) fn what_is_not_known_to_be_synced_is_written_again() -> bool {
    let files = SimulatedFiles::default();
    let region = begun(&files);
    put(&region, 3, 1);
    files.fail_after(1);
    assert!(region.sync_up_to(region.appended()).is_err(), "the sync fails");
    drop(region);
    // The process ends. The next one finds the batch in the page cache, and continues from it.
    let files = SimulatedFiles::new(files.state());
    let region = open(&files);
    assert_eq!(region.recover_journal(ID, PROGRESS_AT).expect("a journal").batches, 1);
    put(&region, 4, 2);
    region.sync_up_to(region.appended()).expect("a sync");
    drop(region);
    let region = open(&left(&files, false));
    region.recover_journal(ID, PROGRESS_AT).is_ok()
        && (region.load(192), region.load(256)) == (1, 2)
}

/// A ring grows when its writer comes to the end of a lap whose start was applied: it is held until
/// then. The power is lost at each event. Returns whether all of it was found each time; `None` if
/// the writer came to the end before the ring began to grow.
fn grows_at_the_end_of_a_lap(seed: u64) -> Option<bool> {
    let files = SimulatedFiles::default();
    let region = Arc::new(begin(open_with(&files, 4 * RING)));
    let write = |region: &Region, value: u64| {
        put(region, 1, value);
        region.sync_up_to(region.appended()).expect("a sync");
    };
    (1..=3).for_each(|value| write(&region, value));
    region.checkpoint().expect("applied");
    region.hold_journal(true);
    let (_, mut applies) = region.background_steps().expect("a journal");
    (4..=15).for_each(|value| write(&region, value));
    applies.look(&region).expect("the limit is raised");
    region.hold_journal(false);
    let mut state = files.state();
    files.take_events();
    let (writer, applier) = (Arc::clone(&region), Arc::clone(&region));
    let marks = files.clone();
    run_scheduled(
        seed,
        vec![
            Box::new(move || {
                for value in 16..=20 {
                    write(&writer, value);
                    marks.mark(value as usize);
                }
            }) as Box<dyn FnOnce() + Send>,
            Box::new(move || applies.look(&applier).expect("a journal")),
        ],
    );
    if region.journal_counts().expect("a journal").capacity != 4 * RING {
        return None;
    }
    let mut acknowledged = 15;
    Some(files.take_events().iter().all(|event| {
        state.apply(event);
        if let FileEvent::Mark(value) = event {
            acknowledged = *value as u64;
        }
        let left = SimulatedFiles::new(state.after_power_loss(|| false));
        let region = open_with(&left, 4 * RING);
        region.recover_journal(ID, PROGRESS_AT).is_ok() && region.load(64) >= acknowledged
    }))
}

/// A writer comes to the end of a lap while the ring grows, in many orders.
pub(crate) fn nothing_is_written_past_the_lap_of_a_ring_that_grows() -> bool {
    let found: Vec<bool> = (0..60).filter_map(grows_at_the_end_of_a_lap).collect();
    assert!(found.len() > 5, "it grew {} times", found.len());
    found.into_iter().all(|all| all)
}

/// Returns true if half a superblock's write makes a journal unusable that was usable before.
fn torn_is_refused(state: &FilesState, at: u64, bytes: &[u8], torn: &mut usize) -> bool {
    let opens = |state: &FilesState| {
        let files = SimulatedFiles::new(state.clone());
        open(&files).recover_journal(ID, PROGRESS_AT).is_ok()
    };
    if !opens(state) {
        return false;
    }
    *torn += 1;
    let half = FileEvent::Write(Named::Journal, at, bytes[..64].to_vec());
    let mut after = state.clone();
    after.apply(&half);
    !opens(&after)
}

fn put(region: &Region, line: u64, value: u64) {
    store(region, line * 64, value);
    region.flush(line * 64, 64);
    region.fence();
}

/// Stores a word.
fn store(region: &Region, off: u64, value: u64) {
    // SAFETY: no slice of the region is held by these tests.
    unsafe { region.store(off, value) };
}

/// One thread writes to a journal in persistent memory, and another one considers that durable.
fn one_writes_to_lines(streams: bool) -> bool {
    let files = SimulatedFiles::default().with_lines(streams);
    let region = Arc::new(begun(&files));
    let (writer, syncer) = (Arc::clone(&region), Arc::clone(&region));
    let write = move || {
        put(&writer, 3, 1);
        writer.write_up_to(writer.appended()).expect("a write");
    };
    std::thread::spawn(write).join().expect("no panic");
    let sync = move || syncer.sync_up_to(syncer.appended()).expect("a sync");
    std::thread::spawn(sync).join().expect("no panic");
    drop(region);
    let region = open(&left(&files, false));
    region.recover_journal(ID, PROGRESS_AT).is_ok_and(|found| found.batches == 1)
        && region.load(192) == 1
}

/// Loses everything that no fence made durable, on both kinds of processors.
pub(crate) fn what_is_written_to_lines_is_durable() -> bool {
    one_writes_to_lines(true) && one_writes_to_lines(false)
}

/// Two threads store, flush and fence words next to each other: those of one are on both sides of
/// the other's, which is journaled with them.
fn words_side_by_side(seed: u64) -> bool {
    let files = SimulatedFiles::default();
    let region = Arc::new(begun(&files));
    let body = |words: &'static [u64]| {
        let region = Arc::clone(&region);
        move || {
            for value in 1..=20 {
                for word in words {
                    store(&region, word * 8, value);
                    region.flush(word * 8, 8);
                }
                yield_now();
                region.fence();
            }
        }
    };
    run_scheduled(seed, vec![body(&[0, 2]), body(&[1])]);
    region.sync_up_to(region.appended()).expect("a sync");
    drop(region);
    let region = open(&left(&files, false));
    region.recover_journal(ID, PROGRESS_AT).expect("a journal");
    [0, 8, 16].map(|off| region.load(off)) == [20; 3]
}

/// Two threads flush words side by side, in many orders.
pub(crate) fn of_each_word_the_newest_content_comes_last() -> bool {
    (0..60).all(words_side_by_side)
}

/// A thread stores into a page that another one copies for the file. Then the ring gives up the
/// batch, since a checkpoint that writes another page is over.
fn stored_while_its_page_is_copied(seed: u64) -> bool {
    let files = SimulatedFiles::default();
    let region = Arc::new(begun(&files));
    put(&region, 8, 1);
    let body = |copies: bool| {
        let region = Arc::clone(&region);
        move || match copies {
            true => region.checkpoint().expect("applied"),
            false => {
                (0..seed % 32).for_each(|_| yield_now());
                put(&region, 8, 2);
            }
        }
    };
    run_scheduled(seed, vec![body(true), body(false)]);
    put(&region, 200, 1);
    region.checkpoint().expect("applied");
    drop(region);
    let region = open(&left(&files, false));
    region.recover_journal(ID, PROGRESS_AT).expect("a journal");
    region.load(8 * 64) == 2
}

/// One thread copies a page while another one stores into it, in many orders.
pub(crate) fn what_is_stored_while_its_page_is_copied_is_kept() -> bool {
    (0..160).all(stored_while_its_page_is_copied)
}
