//! Prefetching finds what a lookup will read, and reads nothing that is not there.

use keyspace::{Error, Expire, Key, Keyspace, Limits, Txn};

use crate::common::{db, volatile, write};

const SMALL: usize = 3;
const LARGE: usize = 100;
const LIMITS: Limits = Limits { entries: 16, value: 20 };

fn member(number: usize) -> String {
    format!("member:{number}")
}

fn filled(shards: usize) -> Keyspace {
    let ks = volatile(shards, 64 << 20);
    for (name, count) in [("small", SMALL), ("large", LARGE)] {
        let members: Vec<String> = (0..count).map(member).collect();
        let bytes = || members.iter().map(|member| member.as_bytes());
        let fill = |what: &str, fill: &dyn Fn(&mut Txn<'_>, &Key<'_>) -> Result<(), Error>| {
            let name = format!("{what}:{name}");
            let filled = write(&ks, &[&name], |txn| fill(txn, &ks.key(name.as_bytes())));
            filled.expect("free memory");
        };
        fill("set", &|txn, key| txn.sets().add(db(0), key, bytes(), LIMITS).map(drop));
        fill("hash", &|txn, key| {
            let pairs = bytes().map(|field| (field, &b"v"[..]));
            txn.hashes().put(db(0), key, pairs, LIMITS).map(drop)
        });
        fill("zset", &|txn, key| {
            let mut edit = txn.sorted_sets().edit(db(0), key, LIMITS)?;
            for (score, member) in bytes().enumerate() {
                edit.change(txn, member, |_| Some(score as f64))?;
            }
            edit.finish(txn, db(0), key).map(drop)
        });
        let value = vec![b'v'; 10 * count];
        fill("string", &|txn, key| txn.strings().set(db(0), key, &value, Expire::Clear).map(drop));
    }
    ks
}

/// Prefetches a key and a member. Returns true if there are buckets for the member.
fn prefetch(ks: &Keyspace, key: &mut Key<'_>, member: Option<&[u8]>) -> bool {
    if let Some(bucket) = ks.prefetch_key_bucket(db(0), key) {
        ks.prefetch_key_entry(&bucket, key);
    }
    let found = ks.prefetch_value(key, member);
    found.iter().for_each(|bucket| ks.prefetch_member(bucket));
    found.is_some()
}

#[test]
fn the_buckets_of_members_are_found_for_tables() {
    for shards in [1, 4] {
        let ks = filled(shards);
        for what in ["set", "hash", "zset", "string", "nothing"] {
            for name in ["small", "large"] {
                let name = format!("{what}:{name}");
                let mut key = ks.key(name.as_bytes());
                let is_table = name.ends_with("large") && what != "string" && what != "nothing";
                for member in [member(1), "absent".to_owned(), String::new()] {
                    assert_eq!(
                        prefetch(&ks, &mut key, Some(member.as_bytes())),
                        is_table,
                        "{name}"
                    );
                }
                assert!(!prefetch(&ks, &mut key, None), "{name}");
            }
        }
        assert_eq!(ks.heap().region().faults(), 0);
    }
}

#[test]
fn a_hint_to_an_entry_that_is_gone_does_no_harm() {
    let ks = filled(1);
    let names: Vec<String> =
        ["set", "hash", "zset", "string"].map(|what| format!("{what}:large")).into();
    let mut keys: Vec<Key<'_>> = names.iter().map(|name| ks.key(name.as_bytes())).collect();
    keys.iter_mut().for_each(|key| {
        prefetch(&ks, key, None);
    });
    write(&ks, &["any"], |txn| txn.databases().flush(db(0))).expect("a shard");
    for round in 0..200 {
        let name = format!("other:{round}");
        let value = vec![round as u8; 8 * round];
        let key = ks.key(name.as_bytes());
        write(&ks, &[&name], |txn| txn.strings().set(db(0), &key, &value, Expire::Clear).map(drop))
            .expect("free memory");
        for key in &keys {
            let found = ks.prefetch_value(key, Some(b"member:1"));
            found.iter().for_each(|bucket| ks.prefetch_member(bucket));
        }
    }
    assert_eq!(ks.heap().region().faults(), 0);
}
