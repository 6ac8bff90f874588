//! The benefit of the read cache on a slower medium: reads of 4 KiB values by Zipf's law, with and
//! without it, on emulated Optane and on this machine's own memory. Every figure is emulated.
//!
//! `cargo run --release -p perdura --features emulate-media --example read_cache [ROUNDS]`
//!
//! All arms take turns in one process, on one thread. The figures are the thread's CPU time for one
//! GET, including the wait for the emulated medium: medians of the rounds, and of the ratios of the
//! arms in one round.

use heap::{CreateOptions, Geometry, Heap};
use keyspace::{Db, Expire, Keyspace};
use pmem::{DomainRequest, Emulation, MapOptions, Media, Region};
use std::error::Error;
use std::hint::black_box;

const KEYS: usize = 32 << 10;
const VALUE: usize = 4096;
/// GETs of one arm in one round.
const GETS: usize = 20_000;
/// Zipf's exponent, as in YCSB.
const SKEW: f64 = 0.99;
/// A quarter of the values.
const CACHE: u64 = (KEYS * VALUE) as u64 / 4;

struct Arm {
    name: &'static str,
    keyspace: Keyspace,
    nanos: Vec<f64>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let rounds = std::env::args().nth(1).map_or(Ok(15), |text| text.parse())?;
    let dir = tempfile_in_memory()?;
    let mut arms = Vec::new();
    for (name, media, cache) in [
        ("memory, no cache", None, 0),
        ("memory, cache", None, CACHE),
        ("optane, no cache", Some(Media::Optane), 0),
        ("optane, cache", Some(Media::Optane), CACHE),
    ] {
        let keyspace = open(&dir.join(name), media)?;
        keyspace.heap().set_read_cache(cache);
        fill(&keyspace)?;
        arms.push(Arm { name, keyspace, nanos: Vec::new() });
    }
    let draws = Zipf::new();
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    for round in 0..=rounds {
        let keys: Vec<usize> = (0..GETS).map(|_| draws.draw(&mut random)).collect();
        for arm in &mut arms {
            let took = reads(&arm.keyspace, &keys)?;
            // The first round fills the caches.
            if round > 0 {
                arm.nanos.push(took);
            }
        }
    }
    std::fs::remove_dir_all(&dir)?;
    print_results(&arms);
    Ok(())
}

fn tempfile_in_memory() -> std::io::Result<std::path::PathBuf> {
    let dir =
        std::path::PathBuf::from(format!("/dev/shm/perdura-read-cache-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    Ok(dir)
}

fn open(pool: &std::path::Path, media: Option<Media>) -> Result<Keyspace, Box<dyn Error>> {
    let map = MapOptions { domain: DomainRequest::Clwb, emulate: true, ..MapOptions::new(1 << 30) };
    let mut region = Region::open(pool, &map)?;
    if let Some(media) = media {
        let emulation = Emulation::new(media.model(), 0);
        println!("{}", emulation.summary());
        region = region.emulating(emulation);
    }
    let geometry = Geometry::fitting(2, 1 << 30);
    let heap = Heap::create(region, &CreateOptions { geometry, ..CreateOptions::default() })?;
    Ok(Keyspace::new(heap, 0))
}

fn name(n: usize) -> String {
    format!("key:{n:012}")
}

fn fill(keyspace: &Keyspace) -> Result<(), Box<dyn Error>> {
    let value = vec![b'v'; VALUE];
    for n in 0..KEYS {
        let name = name(n);
        let key = keyspace.key(name.as_bytes());
        let mut txn = keyspace.begin_one(key.shard(), 0);
        txn.strings().set(Db::default(), &key, &value, Expire::Clear)?;
        txn.commit()?;
    }
    Ok(())
}

/// Returns the CPU time in nanoseconds of a GET whose reply is copied, as in a server.
fn reads(keyspace: &Keyspace, keys: &[usize]) -> Result<f64, Box<dyn Error>> {
    let mut reply = Vec::with_capacity(VALUE);
    let begin = cpu_ns();
    for &n in keys {
        let name = name(n);
        let key = keyspace.key(name.as_bytes());
        let mut txn = keyspace.begin_one(key.shard(), 0);
        let entry = txn.find(Db::default(), &key).ok_or("a key is missing")?;
        reply.clear();
        txn.strings().read(&entry)?.append_to(&mut reply)?;
        black_box(&reply);
    }
    Ok((cpu_ns() - begin) as f64 / keys.len() as f64)
}

fn cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Ranks by Zipf's law, spread over the keys.
struct Zipf(Vec<f64>);

impl Zipf {
    fn new() -> Zipf {
        let mut sum = 0.0;
        let mut sums: Vec<f64> = (1..=KEYS)
            .map(|rank| {
                sum += (rank as f64).powf(-SKEW);
                sum
            })
            .collect();
        sums.iter_mut().for_each(|at| *at /= sum);
        Zipf(sums)
    }

    fn draw(&self, random: &mut u64) -> usize {
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        let at = (*random >> 11) as f64 / (1u64 << 53) as f64;
        let rank = self.0.partition_point(|sum| *sum < at).min(KEYS - 1);
        // An odd factor, so that each rank is another key.
        rank.wrapping_mul(0x9e37_79b1) % KEYS
    }
}

fn median(values: impl Iterator<Item = f64>) -> (f64, f64, f64) {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values[values.len() / 4], values[values.len() * 3 / 4])
}

fn print_results(arms: &[Arm]) {
    println!("{KEYS} values of {VALUE} bytes, Zipf {SKEW}, cache of {} MiB", CACHE >> 20);
    println!("{:<18} {:>10} {:>22} {:>8}", "emulated", "ns a GET", "by memory, no cache", "hits");
    for arm in arms {
        let (middle, ..) = median(arm.nanos.iter().copied());
        let ratios = arm.nanos.iter().zip(&arms[0].nanos).map(|(this, base)| this / base);
        let (ratio, low, high) = median(ratios);
        let stats = arm.keyspace.heap().read_cache_stats();
        let share = stats.hits as f64 / (stats.hits + stats.misses).max(1) as f64;
        println!(
            "{:<18} {middle:>10.0} {ratio:>8.2} ({low:.2} to {high:.2}) {share:>8.2}",
            arm.name
        );
    }
}
