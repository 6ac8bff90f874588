//! The memory of a key: 16 bytes of key and 32 of value take at most 100 bytes of heap, including
//! the index.

use crate::common::{NOW, check, db, volatile};
use keyspace::Expire;

#[test]
fn a_key_of_16_and_a_value_of_32_bytes_take_at_most_100_bytes() {
    let keys: u64 =
        std::env::var("PERDURA_KEYS").ok().and_then(|n| n.parse().ok()).unwrap_or(300_000);
    let ks = volatile(16, 1 << 30);
    let before = ks.heap().used();
    for i in 0..keys {
        let name = format!("key:{i:012}");
        let key = ks.key(name.as_bytes());
        let mut txn = ks.begin_one(key.shard(), NOW);
        txn.strings().set(db(0), &key, &[b'v'; 32], Expire::Clear).expect("free memory");
        txn.commit().expect("a commit");
    }
    let per_key = (ks.heap().used() - before) as f64 / keys as f64;
    let taken = ks.heap().size() as f64 / keys as f64;
    println!("{keys} keys: {per_key:.1} bytes a key in blocks, {taken:.1} of the pool's length");
    check(&ks, "key:000000000007", Some(&"v".repeat(32)));
    assert!(per_key <= 100.0, "{per_key:.1} bytes a key");
}
