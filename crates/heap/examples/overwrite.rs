//! Overwrites entries, as SET does, and reports the cost of one in time, fences and lines: a small
//! program to count instructions in.
//!
//! ```text
//! overwrite volatile|durable COMMANDS-PER-TRANSACTION SHARDS
//! valgrind --tool=callgrind --toggle-collect='*measured*' overwrite durable 16 16
//! ```
//!
//! A durable heap is in `/dev/shm`, with every flush and fence executed.

use heap::{CreateOptions, Geometry, Heap, Ptr, Shard, View};
use pmem::{DomainRequest, MapOptions, Region};
use std::io;
use std::time::Instant;

const LIMIT: u64 = 256 << 20;
const SLOTS: u64 = 20_000;
const COMMANDS: u64 = 64_000;
const ENTRY: usize = 72;

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let usage = || io::Error::other("overwrite volatile|durable COMMANDS SHARDS");
    let [kind, commands, shards] = words.as_slice() else { return Err(usage()) };
    let commands: u64 = commands.parse().map_err(|_| usage())?;
    let shards: usize = shards.parse().map_err(|_| usage())?;
    let options = CreateOptions {
        geometry: Geometry { shards, ..Geometry::default() },
        ..CreateOptions::default()
    };
    let folder = tempfile::tempdir_in("/dev/shm")?;
    let heap = match kind.as_str() {
        "volatile" => Heap::volatile(LIMIT, &options),
        _ => {
            let how =
                MapOptions { domain: DomainRequest::Clwb, emulate: true, ..MapOptions::new(LIMIT) };
            let region = Region::open(folder.path().join("pool"), &how);
            Heap::create(region.map_err(io::Error::other)?, &options)
        }
    };
    let heap = heap.map_err(io::Error::other)?;
    let tables: Vec<Ptr> = (0..shards).map(|shard| table(&heap, shard)).collect();
    let mut random = 1u64;
    for _ in 0..COMMANDS / commands {
        transaction(&heap, &tables, commands, &mut random);
    }
    let (before, begin) = (pmem::counters(), Instant::now());
    measured(&heap, &tables, commands, &mut random);
    let counted = pmem::counters().since(&before);
    let per_command = |n: u64| n as f64 / COMMANDS as f64;
    let nanoseconds = per_command(begin.elapsed().as_nanos() as u64);
    let (fences, lines) = (per_command(counted.fences), per_command(counted.lines));
    println!("{nanoseconds:.0} ns, {fences:.3} fences, {lines:.3} lines");
    Ok(())
}

#[inline(never)]
fn measured(heap: &Heap, tables: &[Ptr], commands: u64, random: &mut u64) {
    for _ in 0..COMMANDS / commands {
        transaction(heap, tables, commands, random);
    }
}

fn transaction(heap: &Heap, tables: &[Ptr], commands: u64, random: &mut u64) {
    let mut next = || {
        *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        {
            let key = (*random >> 30) % SLOTS;
            (key as usize % tables.len(), key / tables.len() as u64)
        }
    };
    if commands == 1 {
        let (number, slot) = next();
        let mut shard = heap.lock(number);
        overwrite(&mut shard, tables[number], slot);
        return shard.commit().expect("a commit");
    }
    let keys: Vec<(usize, u64)> = (0..commands).map(|_| next()).collect();
    let mut numbers: Vec<usize> = keys.iter().map(|key| key.0).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let mut shards: Vec<Shard<'_>> = numbers.iter().map(|&number| heap.lock(number)).collect();
    for &(number, slot) in &keys {
        let at = numbers.binary_search(&number).expect("a locked shard");
        overwrite(&mut shards[at], tables[number], slot);
    }
    heap.commit_all(&mut shards).expect("a commit");
}

/// Does to the heap what a SET over an existing key does.
fn overwrite(shard: &mut Shard<'_>, table: Ptr, slot: u64) {
    let at = place(shard, table, slot);
    let old = Ptr::from_raw(shard.word(at));
    let block = shard.reserve(ENTRY).expect("free memory");
    shard.write_with(&block, 0, ENTRY, |bytes| bytes.fill(slot as u8));
    let new = shard.publish(block, ENTRY);
    shard.set(at, new.raw());
    if !old.is_null() {
        shard.free(old);
    }
}

const PIECE: u64 = 4096;

/// Returns a table of slots in pieces, like an index.
fn table(heap: &Heap, shard: usize) -> Ptr {
    let mut shard = heap.lock(shard);
    let block = shard.reserve(1024).expect("free memory");
    shard.write(&block, 0, &[0; 1024]);
    for piece in 0..SLOTS.div_ceil(PIECE) {
        let slots = shard.reserve(PIECE as usize * 8).expect("free memory");
        shard.write(&slots, 0, &[0; PIECE as usize * 8]);
        let slots = shard.publish(slots, PIECE as usize * 8);
        shard.write_word(&block, piece as usize * 8, slots.raw());
    }
    let table = shard.publish(block, 1024);
    shard.commit().expect("a commit");
    table
}

fn place(shard: &Shard<'_>, table: Ptr, slot: u64) -> Ptr {
    Ptr::from_raw(shard.word(table.add(slot / PIECE * 8))).add(slot % PIECE * 8)
}
