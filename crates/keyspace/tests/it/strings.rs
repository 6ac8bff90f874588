//! Strings of every size, and integers, read back as written, in the encodings of Redis.

use crate::common::{NOW, check, db, geometry, get, set, set_until, volatile, write, write_at};
use keyspace::{Encoding, Error, Expire, Keyspace};

fn keyspace() -> Keyspace {
    volatile(geometry(4).shards, 256 << 20)
}

fn append(ks: &Keyspace, key: &str, bytes: &str) -> usize {
    write(ks, &[key], |txn| {
        let key = txn.key(key.as_bytes());
        txn.strings().append(db(0), &key, bytes.as_bytes()).expect("free memory")
    })
}

fn set_range(ks: &Keyspace, key: &str, at: usize, bytes: &str) -> usize {
    write(ks, &[key], |txn| {
        let key = txn.key(key.as_bytes());
        txn.strings().set_range(db(0), &key, at, bytes.as_bytes()).expect("free memory")
    })
}

fn encoding(ks: &Keyspace, key: &str) -> Encoding {
    let key = ks.key(key.as_bytes());
    let txn = ks.begin_one(key.shard(), NOW);
    let entry = txn.peek(db(0), &key).expect("the key");
    txn.properties(&entry).encoding()
}

#[test]
fn a_value_reads_back_at_every_size_around_a_limit() {
    let ks = keyspace();
    for len in [0, 1, 19, 20, 44, 45, 4095, 4096, 4097, 65_535, 65_536, 65_537, 300_000, 5 << 20] {
        let value = "v".repeat(len);
        set(&ks, "k", &value);
        check(&ks, "k", Some(&value));
    }
    set(&ks, "k", "short again");
    check(&ks, "k", Some("short again"));
}

#[test]
fn a_key_may_be_as_long_as_a_value() {
    let ks = keyspace();
    for len in [0, 1, 32 << 10, (32 << 10) + 1, 70_000, 1 << 20] {
        let key = "k".repeat(len);
        set(&ks, &key, "1");
        set(&ks, &key, "two");
        check(&ks, &key, Some("two"));
        assert_eq!(ks.count(db(0)).0, 1);
        write(&ks, &[&key], |txn| {
            let key = txn.key(key.as_bytes());
            assert_eq!(txn.keys().delete(db(0), &key), Ok(true));
        });
        check(&ks, &key, None);
        ks.check().expect("an intact keyspace");
    }
}

#[test]
fn encodings_are_those_of_redis() {
    let ks = keyspace();
    set(&ks, "k", "123");
    assert_eq!(encoding(&ks, "k"), Encoding::Int);
    append(&ks, "k", "4");
    check(&ks, "k", Some("1234"));
    assert_eq!(encoding(&ks, "k"), Encoding::Raw);
    set(&ks, "k", "short");
    assert_eq!(encoding(&ks, "k"), Encoding::Embstr);
    set_range(&ks, "k", 0, "S");
    assert_eq!(encoding(&ks, "k"), Encoding::Raw);
    set(&ks, "k", &"x".repeat(44));
    assert_eq!(encoding(&ks, "k"), Encoding::Embstr);
    set(&ks, "k", &"x".repeat(45));
    assert_eq!(encoding(&ks, "k"), Encoding::Raw);
    assert_eq!(append(&ks, "new", "77"), 2);
    assert_eq!(encoding(&ks, "new"), Encoding::Int);
}

#[test]
fn appending_grows_a_value_through_every_form() {
    let ks = keyspace();
    let mut model = String::new();
    for round in 0..600 {
        let piece = "abcdefghij".repeat(1 + round % 37);
        model.push_str(&piece);
        assert_eq!(append(&ks, "k", &piece), model.len());
        if round % 50 == 0 {
            check(&ks, "k", Some(&model));
        }
    }
    check(&ks, "k", Some(&model));
}

#[test]
fn a_range_is_written_with_zeros_before_it() {
    let ks = keyspace();
    assert_eq!(set_range(&ks, "k", 5, "xy"), 7);
    check(&ks, "k", Some("\0\0\0\0\0xy"));
    assert_eq!(set_range(&ks, "k", 0, ""), 7);
    assert_eq!(set_range(&ks, "k", 100_000, "end"), 100_003);
    let value = get(&ks, NOW, 0, "k").expect("the key");
    assert_eq!((value.len(), &value[5..7], &value[100_000..]), (100_003, "xy", "end"));
    assert_eq!(set_range(&ks, "k", 50_000, "middle"), 100_003);
    assert_eq!(&get(&ks, NOW, 0, "k").expect("the key")[50_000..50_006], "middle");
}

#[test]
fn a_string_has_a_longest_length() {
    let ks = keyspace();
    set(&ks, "k", "v");
    let key = ks.key(b"k");
    let mut txn = ks.begin_one(key.shard(), NOW);
    assert_eq!(
        txn.strings().set_range(db(0), &key, Keyspace::MAX_STRING, b"x"),
        Err(Error::TooLong)
    );
    assert_eq!(txn.strings().set_range(db(0), &key, usize::MAX, b"x"), Err(Error::TooLong));
}

#[test]
fn an_integer_over_an_integer_keeps_its_entry() {
    let ks = keyspace();
    set(&ks, "n", "1");
    let used = ks.heap().used();
    for n in ["-9223372036854775808", "0", "17"] {
        set(&ks, "n", n);
        check(&ks, "n", Some(n));
        assert_eq!(ks.heap().used(), used);
    }
}

#[test]
fn the_expiry_time_stays_goes_or_changes_as_asked() {
    let ks = keyspace();
    let at = |key: &str| {
        let key = ks.key(key.as_bytes());
        let txn = ks.begin_one(key.shard(), NOW);
        let entry = txn.peek(db(0), &key).expect("the key");
        txn.properties(&entry).expiry()
    };
    for (value, other) in [("text", "other"), ("1", "2"), ("1", "text"), ("text", "1")] {
        set_until(&ks, "k", value, Expire::At(NOW + 10));
        assert_eq!((at("k"), ks.count(db(0))), (Some(NOW + 10), (1, 1)));
        set_until(&ks, "k", other, Expire::Keep);
        assert_eq!(at("k"), Some(NOW + 10));
        set_until(&ks, "k", value, Expire::At(NOW + 20));
        assert_eq!((at("k"), ks.count(db(0))), (Some(NOW + 20), (1, 1)));
        set_until(&ks, "k", other, Expire::Clear);
        assert_eq!((at("k"), ks.count(db(0))), (None, (1, 0)));
    }
    let long = "x".repeat(100_000);
    set_until(&ks, "k", &long, Expire::At(NOW + 10));
    set_until(&ks, "k", &long.to_uppercase(), Expire::Keep);
    append(&ks, "k", "tail");
    assert_eq!((at("k"), ks.count(db(0))), (Some(NOW + 10), (1, 1)));
}

#[test]
fn a_writer_begins_again_where_a_key_has_expired() {
    let ks = keyspace();
    set_until(&ks, "k", "old", Expire::At(NOW));
    check(&ks, "k", None);
    assert_eq!(append(&ks, "k", "new"), 3);
    check(&ks, "k", Some("new"));
    set_until(&ks, "k", "old", Expire::At(NOW + 1));
    check(&ks, "k", Some("old"));
    let deleted = write_at(&ks, NOW + 1, &["k"], |txn| {
        let key = txn.key(b"k");
        let found = txn.keys().delete(db(0), &key);
        let events: Vec<_> = txn.changes().map(|change| change.event).collect();
        (found, events)
    });
    assert_eq!(deleted, (Ok(false), vec![keyspace::Event::Expired]));
    assert_eq!(ks.count(db(0)), (0, 0));
    assert_eq!(ks.stats().expired, 2);
}
