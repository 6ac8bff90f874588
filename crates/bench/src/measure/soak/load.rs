//! The load of a long run: commands on all types, with TTLs and deletes, over keys that do not grow
//! in number or in length, so that whatever does grow is the server's.

use crate::compare::server::Failure;
use crate::histogram::Histogram;
use fastrand::Rng;
use redis::{Cmd, Connection};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Members that a collection may have, and elements of a list or a stream.
const MEMBERS: u64 = 200;

/// Bytes of the longest string.
const LONGEST: usize = 4096;

/// Bits of a bitmap.
const BITS: u64 = 1 << 15;

/// Returns the next command over this many keys of each type.
pub(super) fn command(rng: &mut Rng, keys: u64) -> Cmd {
    let number = rng.u64(0..keys);
    let key = |kind: &str| format!("{kind}:{number}");
    let member = format!("member:{}", rng.u64(0..MEMBERS));
    let value = "v".repeat(rng.usize(8..64));
    match rng.u32(0..100) {
        0..12 => cmd("SET").arg(key("string")).arg(text(rng)).take(),
        12..22 => {
            let seconds = rng.u32(1..120);
            cmd("SET").arg(key("string")).arg(text(rng)).arg("EX").arg(seconds).take()
        }
        22..32 => cmd("GET").arg(key("string")).take(),
        32..36 => cmd("SETRANGE").arg(key("string")).arg(rng.usize(0..LONGEST)).arg("patch").take(),
        36..40 => cmd("INCR").arg(key("counter")).take(),
        40..46 => cmd("HSET").arg(key("hash")).arg(member).arg(value).take(),
        46..48 => cmd("HDEL").arg(key("hash")).arg(member).take(),
        48..51 => cmd("HGETALL").arg(key("hash")).take(),
        51..56 => cmd("LPUSH").arg(key("list")).arg(value).take(),
        56..58 => cmd("LTRIM").arg(key("list")).arg(0).arg(MEMBERS / 4).take(),
        58..60 => cmd("RPOP").arg(key("list")).take(),
        60..65 => cmd("SADD").arg(key("set")).arg(member).take(),
        65..67 => cmd("SREM").arg(key("set")).arg(member).take(),
        67..73 => cmd("ZADD").arg(key("zset")).arg(rng.u32(..)).arg(member).take(),
        73..75 => cmd("ZREM").arg(key("zset")).arg(member).take(),
        75..78 => cmd("ZRANGE").arg(key("zset")).arg(0).arg(10).take(),
        78..83 => {
            let mut add = cmd("XADD");
            add.arg(key("stream")).arg("MAXLEN").arg(MEMBERS).arg("*").arg("field").arg(value);
            add
        }
        83..85 => cmd("SETBIT").arg(key("bitmap")).arg(rng.u64(0..BITS)).arg(1).take(),
        85..87 => cmd("PFADD").arg(key("hll")).arg(member).take(),
        87..93 => {
            let kind = KINDS[rng.usize(..KINDS.len())];
            cmd("EXPIRE").arg(key(kind)).arg(rng.u32(1..300)).take()
        }
        _ => {
            let delete = if rng.bool() { "DEL" } else { "UNLINK" };
            cmd(delete).arg(key(KINDS[rng.usize(..KINDS.len())])).take()
        }
    }
}

/// The types that keys have, by the beginning of their names.
const KINDS: [&str; 9] =
    ["string", "counter", "hash", "list", "set", "zset", "stream", "bitmap", "hll"];

fn cmd(name: &str) -> Cmd {
    redis::cmd(name)
}

/// Returns a string: most are short, some have up to 4 KiB.
fn text(rng: &mut Rng) -> String {
    let longest = if rng.u32(0..4) == 0 { LONGEST } else { 256 };
    "x".repeat(rng.usize(1..longest))
}

/// What all clients found since it was taken last, and when to stop.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) latencies: Mutex<Histogram>,
    pub(super) stops: AtomicBool,
    /// The first failure of a client.
    pub(super) failure: Mutex<Option<Failure>>,
}

impl Shared {
    /// Takes what was found since the last call.
    pub(super) fn take(&self) -> Histogram {
        std::mem::take(&mut *self.latencies.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn has_ended(&self) -> bool {
        self.stops.load(Ordering::Relaxed)
    }
}

/// How often a client adds what it found.
const EVERY: u64 = 256;

/// Sends commands, one after the other, until the end; `pause` is the time between the beginnings
/// of two. A reply that comes late counts from when its command was due.
pub(super) fn send(
    shared: &Shared,
    mut connection: Connection,
    (seed, keys): (u64, u64),
    pause: Option<Duration>,
) {
    let mut rng = Rng::with_seed(seed);
    let mut own = Histogram::new();
    let mut due = Instant::now();
    while !shared.has_ended() {
        match pause {
            Some(pause) => {
                due += pause;
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
            }
            None => due = Instant::now(),
        }
        let sent = command(&mut rng, keys).query::<redis::Value>(&mut connection);
        own.record(due.elapsed());
        if let Err(error) = sent {
            let mut failure = shared.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(error.into());
            shared.stops.store(true, Ordering::Relaxed);
        }
        if own.count() >= EVERY {
            shared.latencies.lock().unwrap_or_else(PoisonError::into_inner).add(&own);
            own.clear();
        }
    }
    shared.latencies.lock().unwrap_or_else(PoisonError::into_inner).add(&own);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_type_is_written_read_given_a_ttl_and_deleted() {
        let mut rng = Rng::with_seed(1);
        let mut seen = BTreeSet::new();
        for _ in 0..5000 {
            let command = command(&mut rng, 10);
            let words: Vec<String> = command
                .args_iter()
                .take(2)
                .map(|word| match word {
                    redis::Arg::Simple(word) => String::from_utf8_lossy(word).into_owned(),
                    _ => String::new(),
                })
                .collect();
            let kind = words[1].split(':').next().unwrap_or_default();
            assert!(KINDS.contains(&kind), "{words:?}");
            seen.insert(format!("{} {kind}", words[0]));
        }
        for kind in KINDS {
            for command in ["EXPIRE", "DEL", "UNLINK"] {
                assert!(seen.contains(&format!("{command} {kind}")), "{command} {kind}");
            }
            assert!(seen.iter().filter(|words| words.ends_with(kind)).count() > 3, "{kind}");
        }
    }
}
