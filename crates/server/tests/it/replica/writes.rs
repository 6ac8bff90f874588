//! Random writes to a primary, of every kind that its stream carries.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use fastrand::Rng;
use testkit::{Client, Server};

use super::{info, wait_until};

/// The writes: `K` is a key, `V` a value. Some fail, since the key has another type.
const WRITES: &[&str] = &[
    "SET K V",
    "SET K V EX 100",
    "SET K V PX 30",
    "GETEX K EX 70",
    "APPEND K V",
    "INCR K",
    "INCRBYFLOAT K 1.25",
    "SETRANGE K 5 V",
    "SETBIT K 77 1",
    "GETDEL K",
    "MSET K V K V",
    "BITOP XOR K K K",
    "BITFIELD K SET u8 0 7 INCRBY i5 100 1",
    "PFADD K V V",
    "PFMERGE K K",
    "HSET K f1 V f2 V",
    "HINCRBY K n 3",
    "HINCRBYFLOAT K n 0.5",
    "HDEL K f1 n",
    "RPUSH K V V V",
    "LPUSH K V",
    "LPOP K 2",
    "LTRIM K 0 5",
    "LREM K 1 V",
    "LINSERT K BEFORE V V",
    "LMOVE K K LEFT RIGHT",
    "BLPOP K K 0.001",
    "SADD K V V V",
    "SREM K V",
    "SPOP K",
    "SPOP K 2",
    "SMOVE K K V",
    "SUNIONSTORE K K K",
    "SDIFFSTORE K K K",
    "ZADD K 1.5 V 2 V",
    "ZADD K GT CH 7 V",
    "ZINCRBY K 2.25 V",
    "ZREM K V",
    "ZPOPMIN K",
    "ZUNIONSTORE K 2 K K",
    "ZRANGESTORE K K 0 2",
    "GEOADD K 13.36 38.11 V",
    "GEOSEARCHSTORE K K FROMLONLAT 13 38 BYRADIUS 500 km",
    "XADD K * f V",
    "XADD K MAXLEN ~ 10 * f V",
    "XTRIM K MAXLEN 3",
    "XGROUP CREATE K g 0 MKSTREAM",
    "XREADGROUP GROUP g c COUNT 2 STREAMS K >",
    "XAUTOCLAIM K g d 0 0 COUNT 1",
    "XGROUP DELCONSUMER K g c",
    "DEL K",
    "UNLINK K K",
    "EXPIRE K 100",
    "PEXPIRE K 20",
    "PERSIST K",
    "EXPIREAT K 1",
    "RENAME K K",
    "COPY K K REPLACE",
    "MOVE K 3",
    "SORT K ALPHA STORE K",
    "SELECT 3",
    "SELECT 0",
    "SELECT 0",
    "PUBLISH channel V",
    "EVAL",
];

/// The writes that are rare.
const RARE: &[&str] = &["SWAPDB 0 3", "FLUSHDB", "FLUSHALL", "FUNCTION"];

const SCRIPT: &str = "redis.call('set', KEYS[1], ARGV[1]) redis.call('incr', 'script:n') \
                      return redis.call('sadd', 'script:s', math.random(100))";

fn value(random: &mut Rng) -> String {
    match random.u8(..6) {
        0 => random.i32(..).to_string(),
        1 => "x".repeat(random.usize(..300)),
        2 => "\u{e4}\r\n\0".repeat(random.usize(..3)),
        _ => format!("v{}", random.u32(..8)),
    }
}

/// Returns a random write.
fn write(random: &mut Rng) -> Vec<String> {
    let key = |random: &mut Rng| format!("key:{}", random.u32(..60));
    let template = match random.u16(..300) {
        0 => RARE[random.usize(..RARE.len())],
        _ => WRITES[random.usize(..WRITES.len())],
    };
    if template == "EVAL" {
        return ["EVAL", SCRIPT, "1", &key(random), &value(random)].map(str::to_owned).into();
    }
    if template == "FUNCTION" {
        let number = random.u8(..);
        let code =
            format!("#!lua name=l\nredis.register_function('g', function() return {number} end)");
        return ["FUNCTION", "LOAD", "REPLACE", &code].map(str::to_owned).into();
    }
    let word = |word: &str| match word {
        "K" => key(random),
        "V" => value(random),
        _ => word.to_owned(),
    };
    template.split(' ').map(word).collect()
}

/// Sends some random writes in a pipeline, of which some are a transaction.
pub(super) fn write_some(client: &mut Client, random: &mut Rng) {
    assert!(try_to_write_some(client, random), "no replies");
}

/// Does the same, and returns false if the connection has ended.
pub(super) fn try_to_write_some(client: &mut Client, random: &mut Rng) -> bool {
    let count = random.usize(1..20);
    let mut requests = Vec::new();
    for _ in 0..count {
        let request = write(random);
        if request[0].starts_with("FLUSH") && random.bool() {
            // The second removes nothing.
            requests.push(request.clone());
        }
        requests.push(request);
    }
    if random.u8(..3) == 0 {
        requests.insert(0, vec!["MULTI".to_owned()]);
        requests.push(vec!["EXEC".to_owned()]);
    }
    client.pipeline(&requests).is_ok()
}

/// Runs `then` while three clients write to the server.
pub(super) fn while_writing<T>(server: &Server, then: impl FnOnce() -> T) -> T {
    let seed = Rng::new().u64(..1 << 40);
    println!("seed {seed}");
    let writers = (0..3).map(|number| {
        let (mut client, mut random) = (server.client(), Rng::with_seed(seed + number));
        move || write_some(&mut client, &mut random)
    });
    while_running(writers, then)
}

/// Runs `then` while others repeat something.
pub(super) fn while_running<T>(
    others: impl IntoIterator<Item = impl FnMut() + Send>,
    then: impl FnOnce() -> T,
) -> T {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for mut other in others {
            let stop = &stop;
            scope.spawn(move || {
                while !stop.load(Relaxed) {
                    other();
                }
            });
        }
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(then));
        stop.store(true, Relaxed);
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Waits until the stream has this many more bytes.
#[track_caller]
pub(super) fn wait_for_bytes(client: &mut Client, bytes: u64) {
    let mut end =
        || info(client, "master_repl_offset").parse::<u64>().expect("an offset of the stream");
    let until = end() + bytes;
    wait_until("nothing is written", || end() >= until);
}
