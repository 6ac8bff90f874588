//! The library's calls, their durability, and what they refuse.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use perdura::prelude::*;
use perdura::{Domain, DomainRequest, Error, OpenError, Options, Order, Perdura, StreamId};

fn volatile() -> Perdura {
    Perdura::open(Options::volatile().limit(64 << 20)).expect("a store in memory")
}

fn check(store: &Perdura, key: &str, expect: Option<&str>) {
    let value = store.get(key).expect("a string");
    assert_eq!(value.as_deref(), expect.map(str::as_bytes), "{key}");
}

#[test]
fn strings_are_set_appended_counted_and_deleted() {
    let store = volatile();
    store.set("k", "v").expect("free memory");
    assert_eq!(store.append("k", "w"), Ok(2));
    check(&store, "k", Some("vw"));
    assert_eq!(store.increment("n", 5), Ok(5));
    assert_eq!(store.increment("n", -7), Ok(-2));
    assert_eq!(store.increment("k", 1), Err(Error::NotAnInteger));
    store.set("n", i64::MAX.to_string()).expect("free memory");
    assert_eq!(store.increment("n", 1), Err(Error::Overflow));
    assert_eq!((store.exists("k"), store.len()), (Ok(true), 2));
    assert_eq!((store.delete("k"), store.delete("k")), (Ok(true), Ok(false)));
    check(&store, "k", None);
}

#[test]
fn a_purge_gives_back_what_deletes_left() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options::new(folder.path().join("pool")).limit(256 << 20);
    let store = Perdura::open(options.domain(DomainRequest::Process)).expect("a store");
    // So few that the background has no reason to grow the pool meanwhile.
    let value = vec![7; 1 << 20];
    (0..20).for_each(|n| store.set(n.to_string(), &value).expect("free memory"));
    let full = store.usage();
    assert!((0..20).all(|n| store.delete(n.to_string()) == Ok(true)));
    assert!(store.purge() > 16 << 20);
    let usage = store.usage();
    assert!(usage.space + (16 << 20) < full.space && usage.size == full.size, "{usage:?}");
    store.set("k", &value).expect("free memory");
    assert_eq!(store.get("k"), Ok(Some(value)));
    let inside = store.transaction(&["k"], |_| Ok(store.purge()));
    assert_eq!(inside, Ok(0));
}

#[test]
fn a_value_is_shown_in_place() {
    let store = volatile();
    let lengths = [0, 1, 100, 4096, 20_000, 40_000, 1 << 20];
    let values = lengths.map(|len| (0..len).map(|i| (i % 251) as u8).collect::<Vec<u8>>());
    for value in values.into_iter().chain([b"-42".to_vec()]) {
        store.set("k", &value).expect("free memory");
        let mut seen = Vec::new();
        let found = store.get_with("k", |piece| seen.extend_from_slice(piece));
        assert_eq!((found, seen.len()), (Ok(true), value.len()));
        assert_eq!(seen, value);
    }
    assert_eq!(store.get_with("absent", |_| panic!("shown")), Ok(false));
}

#[test]
fn keys_expire_by_the_clock_that_the_store_is_given() {
    static NOW: AtomicU64 = AtomicU64::new(1_700_000_000_000);
    let options = Options::volatile().limit(64 << 20).clock(|| NOW.load(Ordering::Relaxed));
    let store = Perdura::open(options.background(false)).expect("a store in memory");
    let second = Duration::from_secs(1);
    store.set_for("k", "v", 2 * second).expect("free memory");
    store.set("stays", "v").expect("free memory");
    assert_eq!(store.ttl("k"), Ok(Some(2 * second)));
    assert_eq!((store.expire("k", second), store.expire("absent", second)), (Ok(true), Ok(false)));
    assert_eq!(store.ttl("k"), Ok(Some(second)));
    assert_eq!((store.expire("stays", second), store.persist("stays")), (Ok(true), Ok(true)));
    NOW.fetch_add(1000, Ordering::Relaxed);
    check(&store, "k", None);
    check(&store, "stays", Some("v"));
    assert_eq!(store.len(), 2);
    while store.maintain() {}
    assert_eq!(store.len(), 1);
}

#[test]
fn a_transaction_is_all_or_nothing() {
    let store = volatile();
    store.set("a", "1").expect("free memory");
    let failed = store.transaction(&["a", "b"], |tx| {
        tx.set("a", "2")?;
        tx.set("b", "not a number")?;
        tx.increment("b", 1)
    });
    assert_eq!(failed, Err(Error::NotAnInteger));
    check(&store, "a", Some("1"));
    check(&store, "b", None);
    let undeclared = store
        .transaction(&["a"], |tx| ["x", "y", "z", "w"].iter().try_for_each(|key| tx.set(key, "v")));
    assert_eq!(undeclared, Err(Error::Undeclared));
    let moved = store.transaction(&["a", "c"], |tx| tx.rename("a", "c"));
    assert_eq!(moved, Ok(true));
    check(&store, "c", Some("1"));
    store
        .transaction(&["c"], |tx| {
            tx.select(15)?;
            assert_eq!(tx.get("c")?, None);
            tx.set("c", "elsewhere")
        })
        .expect("free memory");
    check(&store, "c", Some("1"));
    assert_eq!(store.transaction(&["c"], |tx| tx.select(16)), Err(Error::NoSuchDatabase));
}

/// Even a key whose shard is locked for another one.
#[test]
fn a_key_that_was_not_declared_is_always_refused() {
    let store = volatile();
    let many: Vec<String> = (0..100).map(|n| format!("declared:{n}")).collect();
    for declared in [&many[..1], &many[..5], &many] {
        for n in 0..1000 {
            let key = format!("key:{n}");
            let undeclared = store.transaction(declared, |tx| tx.set(&key, "v"));
            assert_eq!(undeclared, Err(Error::Undeclared), "{key}");
        }
        let all =
            store.transaction(declared, |tx| declared.iter().try_for_each(|k| tx.set(k, "v")));
        assert_eq!(all, Ok(()));
    }
    let two = store.transaction(&["a"], |tx| tx.rename("a", "b"));
    assert_eq!(two, Err(Error::Undeclared));
    assert_eq!(store.len(), 100);
}

#[test]
fn large_values_are_values_like_any_other() {
    let store = volatile();
    for len in [10, 40_000, 3 << 20, 0] {
        let value = "v".repeat(len);
        store.set("k", &value).expect("free memory");
        check(&store, "k", Some(&value));
        store.set_for("k", &value, Duration::from_secs(60)).expect("free memory");
        check(&store, "k", Some(&value));
        assert!(store.ttl("k").expect("a key").is_some());
    }
}

#[test]
fn threads_share_a_store() {
    let store = Arc::new(volatile());
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let store = Arc::clone(&store);
            std::thread::spawn(move || {
                for _ in 0..500 {
                    store
                        .transaction(&["from", "to"], |tx| {
                            tx.increment("from", -1)?;
                            tx.increment("to", 1)
                        })
                        .expect("free memory");
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    check(&store, "from", Some("-2000"));
    check(&store, "to", Some("2000"));
}

#[test]
fn a_store_on_a_file_is_there_again_closed_or_not() {
    let dir = tempfile::tempdir().expect("a directory");
    let options =
        Options::new(dir.path().join("pool")).limit(256 << 20).domain(DomainRequest::Process);
    let store = Perdura::open(options.clone()).expect("a new pool");
    assert_eq!((store.domain(), store.is_emulated()), (Domain::Process, false));
    store.set("dropped", "v").expect("free memory");
    drop(store);
    let store = Perdura::open(options.clone()).expect("the same pool");
    check(&store, "dropped", Some("v"));
    store.set("closed", "v").expect("free memory");
    let twice = Perdura::open(options.clone()).map(drop).expect_err("it is open");
    assert!(twice.to_string().contains("this process has it open already"), "{twice}");
    store.close().expect("a clean close");
    check(&Perdura::open(options).expect("the same pool"), "closed", Some("v"));
}

#[test]
fn a_file_that_is_no_persistent_memory_is_refused_by_its_domains() {
    let dir = tempfile::tempdir().expect("a directory");
    let options = Options::new(dir.path().join("pool")).domain(DomainRequest::Clwb);
    let error = Perdura::open(options.clone()).expect_err("a refusal");
    assert!(error.to_string().contains("MAP_SYNC"), "{error}");
    let store = Perdura::open(options.emulate_pmem(true)).expect("an emulated pool");
    assert!(store.is_emulated());
}

#[test]
fn a_full_store_says_so_and_loses_nothing() {
    let options = Options::volatile().limit(1).background(false);
    let store = Perdura::open(options).expect("the smallest store");
    store.set("first", "v").expect("free memory");
    let value = vec![b'x'; 1 << 20];
    let full = (0..10_000).find_map(|i| store.set(format!("k{i}"), &value).err());
    assert_eq!(full, Some(Error::Full));
    check(&store, "first", Some("v"));
    for i in 0..10_000 {
        store.delete(format!("k{i}")).expect("room for a delete");
    }
    store.set("again", &value).expect("the room that the deletes left");
    let usage = store.usage();
    assert!(usage.used <= usage.limit && usage.limit <= usage.size, "{usage:?}");
}

#[test]
fn hashes_and_sets_hold_fields_and_members() {
    let store = volatile();
    assert_eq!(store.hash_set("h", "name", "first"), Ok(true));
    assert_eq!(store.hash_set("h", "name", "second"), Ok(false));
    assert_eq!(store.hash_get("h", "name"), Ok(Some(b"second".to_vec())));
    assert_eq!((store.hash_get("h", "x"), store.hash_get("x", "x")), (Ok(None), Ok(None)));
    assert_eq!(store.hash_increment("h", "n", 5), Ok(5));
    assert_eq!(store.hash_increment("h", "n", -7), Ok(-2));
    assert_eq!(store.hash_increment("h", "name", 1), Err(Error::NotAnInteger));
    assert_eq!(store.hash_len("h"), Ok(2));
    let entries = store.hash_entries("h").expect("a hash");
    assert_eq!(entries.len(), 2);
    assert!(entries.contains(&(b"n".to_vec(), b"-2".to_vec())));
    assert_eq!((store.hash_delete("h", "n"), store.hash_delete("h", "n")), (Ok(true), Ok(false)));
    assert_eq!((store.set_add("s", "a"), store.set_add("s", "a")), (Ok(true), Ok(false)));
    assert_eq!((store.set_contains("s", "a"), store.set_contains("s", "b")), (Ok(true), Ok(false)));
    assert_eq!(store.set_members("s"), Ok(vec![b"a".to_vec()]));
    assert_eq!((store.set_len("s"), store.set_len("nothing")), (Ok(1), Ok(0)));
    assert_eq!(
        (store.set_add("h", "a"), store.get("s")),
        (Err(Error::WrongType), Err(Error::WrongType))
    );
    assert_eq!((store.set_remove("s", "a"), store.exists("s")), (Ok(true), Ok(false)));
}

#[test]
fn the_longest_ttl_damages_nothing() {
    let store = volatile();
    store.hash_set("hash", "field", "value").expect("free memory");
    store.set("string", "value").expect("free memory");
    for key in ["hash", "string"] {
        assert_eq!(store.expire(key, Duration::MAX), Ok(true));
    }
    store.set_for("set for", "value", Duration::MAX).expect("free memory");
    assert_eq!(store.set_if_absent_for("absent", "value", Duration::MAX), Ok(true));
    let sound_keys = || store.check().expect("no open transaction").map(|checked| checked.keys);
    assert_eq!(sound_keys(), Ok(4));
    assert_eq!(store.hash_expire("hash", "field", Duration::MAX), Ok(true));
    assert_eq!(sound_keys(), Ok(4));
    for key in ["hash", "string", "set for", "absent"] {
        let ttl = store.ttl(key).expect("a key").expect("an expiry time");
        assert!(ttl > Duration::from_secs(1 << 50), "{key}: {ttl:?}");
        assert_eq!((store.persist(key), store.ttl(key)), (Ok(true), Ok(None)), "{key}");
    }
    assert_eq!(store.hash_persist("hash", "field"), Ok(true));
    assert_eq!(sound_keys(), Ok(4));
}

#[test]
fn fields_expire_and_stay() {
    static NOW: AtomicU64 = AtomicU64::new(1_700_000_000_000);
    let options = Options::volatile().limit(64 << 20).clock(|| NOW.load(Ordering::Relaxed));
    let store = Perdura::open(options).expect("a store");
    let long = Duration::from_secs(1000);
    store.hash_set("h", "a", "1").expect("free memory");
    store.hash_set("h", "b", "2").expect("free memory");
    assert_eq!(store.hash_expire("h", "a", long), Ok(true));
    assert_eq!(store.hash_expire("h", "nothing", long), Ok(false));
    assert_eq!(store.hash_increment("h", "a", 1), Ok(2));
    let ttl = store.hash_ttl("h", "a").expect("a hash").expect("a time");
    assert_eq!(ttl, long);
    assert_eq!((store.hash_ttl("h", "b"), store.hash_ttl("x", "b")), (Ok(None), Ok(None)));
    assert_eq!(store.hash_persist("h", "a"), Ok(true));
    assert_eq!(store.hash_ttl("h", "a"), Ok(None));
    assert_eq!(store.hash_expire("h", "a", Duration::from_millis(1)), Ok(true));
    NOW.fetch_add(1, Ordering::Relaxed);
    assert_eq!((store.hash_get("h", "a"), store.hash_len("h")), (Ok(None), Ok(1)));
}

#[test]
fn hashes_and_sets_take_part_in_transactions() {
    let store = volatile();
    let failed = store.transaction(&["account", "changes"], |tx| {
        tx.hash_increment("account", "balance", -5)?;
        tx.set_add("changes", "first")?;
        Err::<(), _>(Error::Overflow)
    });
    assert_eq!(failed, Err(Error::Overflow));
    assert_eq!((store.hash_len("account"), store.set_len("changes")), (Ok(0), Ok(0)));
}

#[test]
fn sorted_sets_know_scores_and_ranks() {
    let store = volatile();
    for n in 0..300 {
        assert_eq!(store.sorted_set_add("z", format!("m{n}"), f64::from(n % 100)), Ok(true));
    }
    assert_eq!(store.sorted_set_add("z", "m7", 99.5), Ok(false));
    assert_eq!(store.sorted_set_score("z", "m7"), Ok(Some(99.5)));
    assert_eq!(
        (store.sorted_set_rank("z", "m7"), store.sorted_set_len("z")),
        (Ok(Some(299)), Ok(300))
    );
    assert_eq!(store.sorted_set_increment("z", "m7", -100.0), Ok(-0.5));
    assert_eq!(
        store.sorted_set_members("z", 0, 2),
        Ok(vec![(b"m7".into(), -0.5), (b"m0".into(), 0.0)])
    );
    let ranks = store.transaction(&["z"], |tx| tx.sorted_set_ranks("z", 0.0, 2.0));
    assert_eq!(ranks, Ok(1..7));
    assert_eq!(store.sorted_set_pop("z"), Ok(Some((b"m7".into(), -0.5))));
    assert_eq!(
        (store.sorted_set_remove("z", "m7"), store.sorted_set_remove("z", "m8")),
        (Ok(false), Ok(true))
    );
    assert_eq!(store.sorted_set_add("z", "m8", f64::NAN), Err(Error::NotANumber));
    store.sorted_set_add("z", "m8", f64::INFINITY).expect("free memory");
    assert_eq!(store.sorted_set_increment("z", "m8", f64::NEG_INFINITY), Err(Error::NotANumber));
    assert_eq!(store.sorted_set_score("z", "m8"), Ok(Some(f64::INFINITY)));
    store.set("s", "v").expect("free memory");
    assert_eq!(store.sorted_set_add("s", "m", 1.0), Err(Error::WrongType));
    assert_eq!(
        (store.sorted_set_pop("none"), store.sorted_set_rank("none", "m")),
        (Ok(None), Ok(None))
    );
}

#[test]
fn elements_are_sorted_as_numbers_or_as_bytes() {
    let store = volatile();
    let sorted = |order| -> Result<Vec<String>, Error> {
        let elements = store.sort("l", order)?;
        Ok(elements.into_iter().map(|e| String::from_utf8(e).expect("text")).collect())
    };
    assert_eq!(sorted(Order::Numbers), Ok(Vec::new()));
    for element in ["10", "9", "-2.5", "09"] {
        store.push_back("l", element).expect("free memory");
    }
    assert_eq!(sorted(Order::Numbers), Ok(["-2.5", "09", "9", "10"].map(String::from).into()));
    assert_eq!(
        sorted(Order::NumbersDescending),
        Ok(["10", "9", "09", "-2.5"].map(String::from).into())
    );
    assert_eq!(sorted(Order::Bytes), Ok(["-2.5", "09", "10", "9"].map(String::from).into()));
    assert_eq!(store.sort_into("l", Order::BytesDescending, "sorted"), Ok(4));
    assert_eq!(store.elements("sorted", 0, 2), Ok(vec![b"9".into(), b"10".into()]));

    store.push_back("l", "word").expect("free memory");
    assert_eq!(store.sort_into("l", Order::Numbers, "sorted"), Err(Error::NotANumber));
    assert_eq!(store.list_len("sorted"), Ok(4));
    assert_eq!(store.sort_into("nothing", Order::Numbers, "sorted"), Ok(0));
    assert_eq!(store.exists("sorted"), Ok(false));
    store.set("s", "text").expect("free memory");
    assert_eq!(store.sort("s", Order::Bytes), Err(Error::WrongType));
}

#[test]
fn groups_share_entries_out_and_keep_what_is_pending() {
    let store = volatile();
    assert_eq!(store.read_group("s", "g", "ada", 9), Ok(None));
    assert_eq!(store.create_group("s", "g", StreamId::MIN), Ok(true));
    assert_eq!(store.create_group("s", "g", StreamId::MIN), Ok(false));
    let add = |n: u64| store.append_entry("s", [("n", n.to_string())]).expect("free memory");
    let ids: Vec<StreamId> = (0..5).filter_map(add).collect();
    let given = |consumer: &str, count| {
        let given = store.read_group("s", "g", consumer, count).expect("sound");
        given.expect("a group").iter().map(|entry| entry.id).collect::<Vec<_>>()
    };
    assert_eq!(given("ada", 3), ids[..3]);
    assert_eq!(given("grace", 0), []);
    assert_eq!(given("grace", 9), ids[3..]);
    assert_eq!(store.acknowledge("s", "g", [ids[0], ids[0]]), Ok(1));
    assert_eq!(store.transaction(&["s"], |tx| tx.delete_entry("s", ids[1])), Ok(true));
    let hour = Duration::from_secs(3600);
    assert_eq!(store.claim("s", "g", "grace", hour, 9), Ok(Some(Vec::new())));
    let claimed = store.claim("s", "g", "grace", Duration::ZERO, 2).expect("sound");
    assert_eq!(
        claimed.expect("a group").iter().map(|entry| entry.id).collect::<Vec<_>>(),
        [ids[2]]
    );
    let pending = store.pending("s", "g", 9).expect("sound");
    let reported = pending.iter().map(|one| (one.id, one.count, one.consumer.as_slice()));
    let grace: &[u8] = b"grace";
    assert!(reported.eq([(ids[2], 2, grace), (ids[3], 1, grace), (ids[4], 1, grace)]));
    assert_eq!(
        (store.destroy_group("s", "g"), store.destroy_group("s", "g")),
        (Ok(true), Ok(false))
    );
    assert_eq!((store.pending("s", "g", 9), store.stream_len("s")), (Ok(Vec::new()), Ok(4)));
}

#[test]
fn what_a_failed_read_of_a_group_began_is_not_committed() {
    let store = Perdura::open(Options::volatile().limit(8 << 20)).expect("a store in memory");
    store.create_group("s", "g", StreamId::MIN).expect("free memory");
    let body = "x".repeat(100);
    while store.append_entry("s", [("f", &body)]).is_ok() {}
    let read = |count| {
        store.transaction(&["s"], |tx| {
            // The error is handled, and the transaction committed.
            let read = tx.read_group("s", "g", "ada", count).map(|_| ());
            Ok::<_, Error>(read)
        })
    };
    let mut counts = (1..2000).rev();
    let refused = counts.find_map(|count| read(count).expect("a commit").err());
    assert_eq!(refused, Some(Error::Full));
    for pending in store.pending("s", "g", usize::MAX).expect("sound") {
        assert_eq!(store.acknowledge("s", "g", [pending.id]), Ok(1));
    }
}

#[test]
fn an_error_of_opening_says_which_kind_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let refused = |options: Options| Perdura::open(options).expect_err("a refusal");
    let process =
        |name: &str| Options::new(path(name)).limit(64 << 20).domain(DomainRequest::Process);

    let store = Perdura::open(process("pool")).expect("a new pool");
    let locked = refused(process("pool"));
    let OpenError::Locked { path: locked_path, process: holder } = &locked else {
        panic!("{locked}")
    };
    assert_eq!((locked_path, *holder), (&path("pool"), Some(std::process::id())));
    assert!(locked.to_string().ends_with("this process has it open already"), "{locked}");
    store.close().expect("a clean close");

    let missing = refused(process("nowhere").create(false));
    assert!(matches!(missing, OpenError::NotFound(_)), "{missing:?}");
    std::fs::write(path("notes"), vec![b'x'; 100_000]).expect("a file");
    let notes = refused(process("notes"));
    assert!(matches!(notes, OpenError::NotAPool(_)), "{notes:?}");
    let unsupported = refused(Options::new(path("new")).domain(DomainRequest::Clwb));
    assert!(matches!(unsupported, OpenError::Unsupported(_)), "{unsupported:?}");

    let mut bytes = std::fs::read(path("pool")).expect("the pool");
    bytes.truncate(1 << 20);
    std::fs::write(path("short"), &bytes).expect("a file");
    let short = refused(process("short"));
    assert!(matches!(short, OpenError::Damaged(_)), "{short:?}");
    assert!(short.to_string().contains("perdura salvage"), "{short}");
}

#[test]
fn the_pool_of_a_replica_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("pool");
    let options = || Options::new(&path).domain(DomainRequest::Process);
    Perdura::open(options()).expect("a new pool").close().expect("a clean close");
    let at = |is_replica| keyspace::StreamPosition {
        id: [b'a'; 20],
        offset: 70,
        db: None,
        second: None,
        is_replica,
    };
    let map = || {
        let options =
            pmem::MapOptions { domain: DomainRequest::Process, ..pmem::MapOptions::new(1 << 30) };
        let region = pmem::Region::open(&path, &options).expect("the pool");
        let (heap, _) = heap::Heap::open(region, pmem::boot_id()).expect("the pool");
        keyspace::Keyspace::new(heap, 0)
    };
    let refused = || {
        let Err(error) = Perdura::open(options()) else { panic!("it opened") };
        assert!(matches!(error, OpenError::Replica { .. }), "{error}");
        assert!(error.to_string().contains("replicaof"), "{error}");
    };
    // After a crash of the replica, and after a clean end; a refusal changes nothing.
    let ks = map();
    assert!(ks.position().keep(|| Some(at(true)), 0).expect("a commit"));
    drop(ks);
    (0..3).for_each(|_| refused());
    let ks = map();
    assert_eq!(ks.position().take(), Some(at(true)));
    ks.position().leave(|| Some(at(true)), 0).expect("a commit");
    ks.heap().close().expect("a clean close");
    drop(ks);
    (0..2).for_each(|_| refused());

    // That of a primary, whose replicas get all data afterwards.
    let ks = map();
    ks.position().leave(|| Some(at(false)), 0).expect("a commit");
    ks.heap().close().expect("a clean close");
    drop(ks);
    let store = Perdura::open(options()).expect("the pool of a primary");
    store.set("key", "value").expect("a write");
    store.close().expect("a clean close");
}

#[test]
fn values_of_another_size_find_space_in_a_full_store() {
    let store = Perdura::open(Options::volatile().limit(16 << 20)).expect("a store");
    let fill = |prefix: &str, len: usize| {
        let value = vec![b'v'; len];
        let is_stored = |n: &usize| match store.set(format!("{prefix}{n}"), &value) {
            Ok(()) => true,
            Err(Error::Full) => false,
            Err(error) => panic!("{error}"),
        };
        (0..1_000_000).take_while(is_stored).count()
    };
    let share = || store.usage().used * 100 / store.usage().limit;
    for (prefix, len) in [("a", 100), ("b", 200), ("c", 1000)] {
        let stored = fill(prefix, len);
        assert!(share() >= 85, "{len} bytes: {} %", share());
        for n in (0..stored).filter(|n| n % 4 != 0) {
            store.delete(format!("{prefix}{n}")).expect("a delete");
        }
    }
    // A closure is run once: its space is made before.
    for n in 0..1000 {
        let key = format!("large{n}");
        let done = store.transaction(&[&key], |tx| tx.set(&key, vec![b'v'; 3000]));
        assert!(done.is_ok(), "transaction {n}: {done:?}");
    }
}
