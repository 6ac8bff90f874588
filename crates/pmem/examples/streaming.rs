//! Measures a durable copy through the cache against one past it, by size, alone and when the bytes
//! are read soon after, to choose `STREAM_FROM`.
//!
//! `cargo run --release -p perdura-pmem --example streaming [FILE]`; without a file it uses
//! /dev/shm. Destinations rotate over 256 MiB, as new blocks do, so that they are not in the cache.

#![allow(unsafe_code, reason = "stores into a region are unsafe")]

use pmem::{DomainRequest, MapOptions, Region, STREAM_FROM};
use std::hint::black_box;
use std::time::Instant;

const LEN: u64 = 256 << 20;
const BYTES_PER_RUN: usize = 64 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "/dev/shm/perdura-streaming".into());
    let options = MapOptions { domain: DomainRequest::Clwb, emulate: true, ..MapOptions::new(LEN) };
    let region = Region::open(&path, &options)?;
    region.grow(LEN)?;
    println!("{} on {path}, emulated: {}", region.write_back(), region.emulated());
    println!("threshold: {STREAM_FROM} bytes; nanoseconds for a copy and its fence, medians of 7");
    println!("{:>8} {:>16} {:>16} {:>8}", "", "written", "and read once", "");
    println!(
        "{:>8} {:>8}{:>8} {:>8}{:>8} {:>8}",
        "bytes", "flush", "stream", "flush", "stream", "memcpy"
    );
    for size in [64, 128, 192, 256, 320, 384, 512, 768, 1024, 2048, 4096, 16384, 65536] {
        let source = vec![7u8; size];
        let flush = |off| {
            // SAFETY: nobody else uses the region.
            unsafe { region.write(off, &source) };
            region.flush(off, size);
            region.fence();
        };
        let stream = |off| {
            // SAFETY: nobody else uses the region, and the offset is that of a line.
            unsafe { region.stream_lines(off, &source) };
            region.fence();
        };
        let read = |off| {
            // SAFETY: nobody writes meanwhile.
            let bytes = unsafe { region.bytes(off, size) };
            black_box(bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>());
        };
        let flushed = median(&region, size, flush);
        let streamed = median(&region, size, stream);
        let flushed_read = median(&region, size, |off| (flush(off), read(off)).1);
        let streamed_read = median(&region, size, |off| (stream(off), read(off)).1);
        // SAFETY: nobody else uses the region.
        let copied = median(&region, size, |off| unsafe { region.write(off, &source) });
        println!(
            "{size:>8} {flushed:>8.0}{streamed:>8.0} {flushed_read:>8.0}{streamed_read:>8.0} {copied:>8.0}"
        );
    }
    drop(region);
    std::fs::remove_file(&path)?;
    Ok(())
}

fn median(region: &Region, size: usize, copy: impl Fn(u64)) -> f64 {
    let copies = (BYTES_PER_RUN / size).min(100_000);
    // A stride that is not a power of two, so that the sets of the cache are used evenly.
    let stride = (size as u64).next_multiple_of(64) + 192;
    let mut times: Vec<f64> = (0..7)
        .map(|_| {
            let mut off = 0;
            let start = Instant::now();
            for _ in 0..copies {
                copy(off);
                off += stride;
                if off + size as u64 > region.len() {
                    off = 0;
                }
            }
            start.elapsed().as_nanos() as f64 / copies as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[3]
}
