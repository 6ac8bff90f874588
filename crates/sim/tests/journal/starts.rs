//! What a start may find: nothing, a closed pool, a pool that a crash left, and a pool whose
//! journal is in an older format. Also starts over what crashed starts left, three deep.

use crate::overlap::crashes::{check_image, guarded};
use crate::overlap::model::Contents;
use crate::overlap::pool;
use crate::overlap::threads::{Done, Required};
use crate::uses::{RING, User};
use sim::{FileEvent, FilesState, Named, SimulatedClock, SimulatedFiles};

const RING_AT: usize = 8192;
const LINE: usize = 64;

/// What a start finds, and what it must contain.
#[derive(Clone)]
pub(crate) struct Start {
    pub(crate) name: &'static str,
    pub(crate) state: FilesState,
    pub(crate) done: Done,
    pub(crate) required: Required,
}

/// Returns all of them; the seed determines which fences have which policy.
pub(crate) fn all(seed: u64) -> Vec<Start> {
    let nothing = Start {
        name: "a new pool",
        state: FilesState::default(),
        done: Done::nothing(Contents::empty()),
        required: Required::default(),
    };
    let (clean, crashed) = (used("a closed pool", seed, true), used("a crash", seed, false));
    let older = Start { name: "an older format", state: as_format_3(&crashed.state), ..crashed };
    let crashed = used("a crash", seed, false);
    // All of it was synced when it was written in the older format.
    let mut required = older.required;
    required.after_power_loss = required.after_process_end;
    vec![nothing, clean, crashed, Start { required, ..older }]
}

/// Returns what a second crash leaves: batches of two processes.
pub(crate) fn crashed_twice(seed: u64) -> Start {
    let crashed = used("a crash", seed, false);
    let (files, clock) = (SimulatedFiles::new(crashed.state), SimulatedClock::default());
    let region = pool::map(&files, RING, &clock);
    pool::open(&region).expect("a pool");
    let mut user = User::new(&region, &clock, Contents::read(&region));
    user.go(seed as usize, 2);
    let User { done, required, .. } = user;
    let state = files.state().after_process_end();
    Start { name: "a crash after a crash", state, done, required }
}

fn used(name: &'static str, seed: u64, closes: bool) -> Start {
    let (files, clock) = (SimulatedFiles::default(), SimulatedClock::default());
    let region = pool::map(&files, RING, &clock);
    pool::open(&region).expect("a pool");
    let mut user = User::new(&region, &clock, Contents::empty());
    // The last ones are in the ring, and some of them are not synced.
    user.go(seed as usize + 1, 14 + (seed % 3) as usize);
    if closes {
        user.close();
    }
    assert_eq!(user.said, [""; 0]);
    let User { done, required, .. } = user;
    Start { name, state: files.state().after_process_end(), done, required }
}

/// Returns the CRC-32C of some parts.
fn crc32c(parts: &[&[u8]]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0x82f6_3b78 * (crc & 1)))
    };
    !parts.iter().flat_map(|part| part.iter()).fold(!0, step)
}

/// Returns files whose journal is in format 3: superblocks with fewer fields, batches whose headers
/// have no check, and no progress line in the pool's file. Only the ranges are still of words;
/// those of lines are in a journal of an older server (`tests/it/older_journal.rs`).
fn as_format_3(state: &FilesState) -> FilesState {
    let files = SimulatedFiles::new(state.clone());
    let (pool, journal) = (files.storage(Named::Pool), files.storage(Named::Journal));
    let mut bytes = vec![0; journal.size().expect("its length") as usize];
    journal.read_at(&mut bytes, 0).expect("the journal");
    for copy in [0, 4096] {
        let superblock = &mut bytes[copy..copy + 128];
        superblock[8..12].copy_from_slice(&3_u32.to_le_bytes());
        superblock[104..120].fill(0);
        let crc = crc32c(&[&superblock[16..]]);
        superblock[12..16].copy_from_slice(&crc.to_le_bytes());
    }
    let ring = &mut bytes[RING_AT..];
    let len = ring.len();
    for at in (0..len)
        .step_by(LINE)
        .filter(|at| ring[*at..].starts_with(b"PJBATCH\0"))
        .collect::<Vec<_>>()
    {
        let batch_len =
            u32::from_le_bytes(ring[at + 12..at + 16].try_into().expect("four")) as usize;
        ring[at + 40..at + 48].fill(0);
        let batch: Vec<u8> = ring.iter().cycle().skip(at).take(batch_len).copied().collect();
        let crc = crc32c(&[&[7; 16], &batch[12..]]);
        ring[at + 8..at + 12].copy_from_slice(&crc.to_le_bytes());
    }
    journal.write_at(&bytes, 0).expect("the journal");
    pool.write_at(&[0; LINE], pool::PROGRESS_AT).expect("the line");
    [pool, journal].iter().for_each(|file| file.sync().expect("a sync"));
    files.state().after_process_end()
}

/// Starts that are interrupted, one after the other.
struct Chain<'s> {
    start: &'s Start,
    rng: fastrand::Rng,
    images: u64,
}

impl Chain<'_> {
    /// Interrupts a start at each event, or at some, in each way; then the starts over what it
    /// left.
    fn go(&mut self, state: FilesState, has_power: bool, depth: usize) -> Result<(), String> {
        let files = SimulatedFiles::new(state.clone());
        let region = pool::map(&files, RING, &SimulatedClock::default());
        guarded(|| pool::open(&region)).map_err(|what| format!("it does not open: {what}"))?;
        let found = Contents::read(&region);
        drop(region);
        let mut state = state;
        let events = files.take_events();
        for (n, event) in events.iter().enumerate() {
            self.interrupt(&state, Some(event), has_power, depth).map_err(|what| {
                format!("{what}\nstart {depth}, before event {n} of {}", events.len())
            })?;
            state.apply(event);
        }
        self.interrupt(&state, None, has_power, depth)
            .map_err(|what| format!("{what}\nafter start {depth}"))?;
        // The state that was found is durable.
        self.images += 1;
        let (image, done) = (state.after_power_loss(|| false), Done::nothing(found));
        check_image(image, RING, &done, &[0; 3])
            .map(drop)
            .map_err(|what| format!("{what}\nwhat start {depth} had found is lost with the power"))
    }

    fn interrupt(
        &mut self,
        state: &FilesState,
        next: Option<&FileEvent>,
        has_power: bool,
        depth: usize,
    ) -> Result<(), String> {
        for way in ["the process ends", "nothing", "everything", "half"] {
            if self.rng.usize(..[2, 10, 60][depth]) > 0 {
                continue;
            }
            let mut rng = self.rng.fork();
            let arrives = || match way {
                "half" => rng.bool(),
                way => way == "everything",
            };
            let mut left = match way {
                "the process ends" => state.after_process_end(),
                _ => state.after_power_loss(arrives),
            };
            if let Some(FileEvent::Write(name, at, bytes)) = next
                && bytes.len() > 512
            {
                // A part of the write that was interrupted.
                left.apply(&FileEvent::Write(*name, *at, bytes[..bytes.len() / 2].to_vec()));
            }
            let has_power = has_power && way == "the process ends";
            let Required { after_process_end, after_power_loss } = self.start.required;
            let required = if has_power { after_process_end } else { after_power_loss };
            self.images += 1;
            let checked = check_image(left.clone(), RING, &self.start.done, &required).map(drop);
            let gone_on = match depth {
                0 | 1 => checked.and_then(|()| self.go(left, has_power, depth + 1)),
                _ => checked,
            };
            gone_on.map_err(|what| format!("{what}\n{way}"))?;
        }
        Ok(())
    }
}

#[test]
fn a_start_over_what_crashed_starts_left_finds_all_that_was_acknowledged() {
    let mut images = 0;
    for seed in crate::seeds(0..1) {
        for start in all(seed) {
            let rng = fastrand::Rng::with_seed(seed);
            let mut chain = Chain { start: &start, rng, images: 0 };
            chain
                .go(start.state.clone(), true, 0)
                .unwrap_or_else(|what| panic!("{what}\nseed {seed}, {}", start.name));
            println!("seed {seed}, {}: {} images", start.name, chain.images);
            images += chain.images;
        }
    }
    assert!(images > 1000, "{images}");
}
