//! What it costs to take a pipelined SET out of a read buffer: our parser compared with the
//! `redis-protocol` crate, which reads frames in general and is the right tool wherever a request
//! path is not in question.
//!
//! `cargo bench --bench parser` gives times. `benches/parser-instructions.sh` counts instructions
//! under callgrind, for which this program runs a fixed number of rounds when `PARSER_ROUNDS` is
//! set.

#![forbid(unsafe_code)]

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput};
use redis_protocol::resp2::decode::{decode, decode_range};
use resp::{Limits, Next, Parser, Writer};

const COMMANDS: usize = 64;

/// Pipelined SETs of a 16-byte key and a value of `len` bytes.
fn pipeline(len: usize) -> Vec<u8> {
    let mut input = Vec::new();
    for n in 0..COMMANDS {
        let value = "v".repeat(len);
        input.extend_from_slice(
            format!("*3\r\n$3\r\nSET\r\n$16\r\nkey:{n:012}\r\n${len}\r\n{value}\r\n").as_bytes(),
        );
    }
    input
}

/// Parses a whole read, looks at every argument, gives the buffer back.
fn parse(parser: &mut Parser, limits: &Limits, input: &[u8]) -> usize {
    while let Ok(Next::Command) = parser.next(input, limits) {}
    let looked_at = parser.commands(input).map(|c| c[0].len() + c[1].len() + c[2].len()).sum();
    parser.release();
    looked_at
}

fn parse_frames(input: &[u8]) -> usize {
    let mut at = 0;
    while let Ok(Some((frame, len))) = decode(&input[at..]) {
        black_box(frame);
        at += len;
    }
    at
}

fn parse_ranges(input: &[u8]) -> usize {
    let mut at = 0;
    while let Ok(Some((frame, len))) = decode_range(&input[at..]) {
        black_box(frame);
        at += len;
    }
    at
}

fn requests(criterion: &mut Criterion) {
    for len in [32, 4096] {
        let input = pipeline(len);
        let mut group =
            criterion.benchmark_group(format!("{COMMANDS} pipelined SETs of {len} bytes"));
        group.throughput(Throughput::Elements(COMMANDS as u64));
        let (mut parser, limits) = (Parser::new(), Limits::default());
        group.bench_function("resp", |b| b.iter(|| parse(&mut parser, &limits, black_box(&input))));
        group.bench_function("redis-protocol, ranges", |b| {
            b.iter(|| parse_ranges(black_box(&input)));
        });
        group.bench_function("redis-protocol, owned frames", |b| {
            b.iter(|| parse_frames(black_box(&input)));
        });
    }
}

fn replies(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group(format!("{COMMANDS} replies"));
    group.throughput(Throughput::Elements(COMMANDS as u64));
    let value = vec![b'v'; 32];
    let mut write = |name: &str, reply: &dyn Fn(&mut Writer)| {
        group.bench_function(name, |b| {
            let fresh = || Writer::append_to(Vec::with_capacity(COMMANDS * 64), Default::default());
            let all = |out: &mut Writer| (0..COMMANDS).for_each(|_| reply(out));
            b.iter_batched_ref(fresh, all, BatchSize::SmallInput);
        });
    };
    write("OK", &|out| out.ok());
    write("bulk of 32 bytes", &|out| out.bulk(black_box(&value)));
    write("integer", &|out| out.integer(black_box(1_234_567)));
    write("double", &|out| out.double(black_box(0.1)));
}

/// Parses the same pipeline over and over, and says how many commands that were.
fn count(rounds: usize) {
    let (input, mut parser, limits) = (pipeline(32), Parser::new(), Limits::default());
    for _ in 0..rounds {
        black_box(parse(&mut parser, &limits, black_box(&input)));
    }
    println!("{}", rounds * COMMANDS);
}

fn main() {
    if let Some(rounds) = std::env::var("PARSER_ROUNDS").ok().and_then(|n| n.parse().ok()) {
        return count(rounds);
    }
    let mut criterion = Criterion::default().configure_from_args();
    requests(&mut criterion);
    replies(&mut criterion);
    criterion.final_summary();
}
