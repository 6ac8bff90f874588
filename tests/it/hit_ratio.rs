//! The hit ratio of a cache, compared with redis-server's, under each policy that depends on use.
//!
//! Keys are read by Zipf's law (exponent 0.99, as in YCSB), and missing ones are written. A tenth
//! of the keys has space: `maxmemory` is what the server takes for that many. `HIT_RATIO_REQUESTS`
//! makes a longer run, whose table is printed with `--nocapture`; Redis's LRU clock ticks once a
//! second, so a short run says little about it.

use testkit::{Client, Launch, Reply};

const KEYS: usize = 20_000;
const RESIDENT: usize = KEYS / 10;
const ROUND: usize = 50;

/// The allowed difference from Redis's hit ratio: both are estimates of a random process.
const MARGIN: f64 = 0.03;

struct Zipf(Vec<f64>);

impl Zipf {
    fn new() -> Zipf {
        let mut sum = 0.0;
        Zipf(
            (1..=KEYS)
                .map(|rank| {
                    sum += 1.0 / (rank as f64).powf(0.99);
                    sum
                })
                .collect(),
        )
    }

    /// Draws a key; its number does not reveal its frequency.
    fn draw(&self, random: &mut fastrand::Rng) -> String {
        let at = random.f64() * self.0[KEYS - 1];
        let rank = self.0.partition_point(|sum| *sum < at);
        name(rank * 7919 % KEYS)
    }
}

fn name(key: usize) -> String {
    format!("key:{key:06}")
}

fn set(key: &str, policy: &str) -> Vec<Vec<u8>> {
    let mut words = vec![b"SET".to_vec(), key.into(), vec![b'v'; 200]];
    if policy.starts_with("volatile") {
        words.extend([b"EX".to_vec(), b"100000".to_vec()]);
    }
    words
}

/// Returns the hit ratio of the second half of the requests, and the number of keys at the end.
fn hit_ratio(launch: Launch, policy: &str, requests: usize) -> (f64, i64) {
    let server = launch.start();
    let mut client = Client::connect(server.address()).expect("a connection");
    client.check(&format!("CONFIG SET maxmemory-policy {policy}"), "OK");
    let fill: Vec<_> = (0..RESIDENT).map(|n| set(&name(n), policy)).collect();
    client.pipeline(&fill).expect("replies");
    let used = &client.info("memory")["used_memory"];
    client.check(&format!("CONFIG SET maxmemory {used}"), "OK");
    let (zipf, mut random) = (Zipf::new(), fastrand::Rng::with_seed(1));
    let mut hits = 0;
    for done in (0..requests).step_by(ROUND) {
        let keys: Vec<String> = (0..ROUND).map(|_| zipf.draw(&mut random)).collect();
        let gets: Vec<_> = keys.iter().map(|key| vec!["GET", key]).collect();
        let replies = client.pipeline(&gets).expect("replies");
        let missed = keys.iter().zip(&replies).filter(|(_, reply)| **reply == Reply::Nil);
        let sets: Vec<_> = missed.map(|(key, _)| set(key, policy)).collect();
        hits += if done >= requests / 2 { ROUND - sets.len() } else { 0 };
        for reply in client.pipeline(&sets).expect("replies") {
            assert_eq!(reply.to_string(), "OK");
        }
    }
    let Reply::Int(keys) = client.run("DBSIZE") else { panic!("DBSIZE is a number") };
    (hits as f64 / (requests / 2) as f64, keys)
}

#[test]
fn a_cache_finds_as_much_as_redis_does() {
    let requests = std::env::var("HIT_RATIO_REQUESTS").ok().and_then(|text| text.parse().ok());
    let requests = requests.unwrap_or(60_000);
    for policy in ["allkeys-lru", "volatile-lru", "allkeys-lfu", "volatile-lfu"] {
        let [(theirs, their_keys), (ours, our_keys)] =
            [Launch::redis(), Launch::perdura_volatile()]
                .map(|launch| hit_ratio(launch, policy, requests));
        println!(
            "{policy}: redis-server {theirs:.3} ({their_keys} keys), perdura {ours:.3} ({our_keys})"
        );
        assert!(ours >= theirs - MARGIN, "{policy}: {ours:.3} of {theirs:.3}");
    }
}
