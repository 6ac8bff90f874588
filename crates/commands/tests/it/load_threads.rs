//! A dump loaded by several threads gives the same data, counts and errors as by one.

use std::io::Cursor;
use std::sync::Arc;

use commands::{
    Engine, EngineOptions, LoadDumpError, LoadOptions, LoadedDump, SaveError, SaveOptions,
};
use rdb::{FileWriter, Kind};

use crate::support::{Client, volatile};

/// The number of keys in a dump: more than a few batches.
const KEYS: usize = 10_000;
/// More bytes than fit into a batch.
const LARGE: usize = 9 << 20;
const THREADS: [usize; 3] = [1, 2, 5];

type File = FileWriter<Vec<u8>>;

fn engine(threads: usize) -> Arc<Engine> {
    let keyspace = volatile(4, 512 << 20);
    Arc::new(Engine::new(EngineOptions { threads, ..EngineOptions::new(keyspace) }))
}

fn file(keys: impl FnOnce(&mut File) -> std::io::Result<()>) -> Vec<u8> {
    let mut file = FileWriter::new(Vec::new(), true, true);
    file.begin().and_then(|()| keys(&mut file)).expect("memory takes everything");
    file.end().expect("memory takes everything")
}

fn load(engine: &Engine, bytes: &[u8]) -> Result<LoadedDump, LoadDumpError> {
    let mut last = LoadedDump::default();
    let report = &mut |loaded: LoadedDump| {
        assert!(loaded.bytes >= last.bytes && loaded.keys >= last.keys, "progress");
        last = loaded;
    };
    let mut options = LoadOptions { verifies: true, keeps_expired: false, report };
    let loaded = commands::load_dump(engine, bytes, &mut options)?;
    assert_eq!(last, loaded, "the last report");
    Ok(loaded)
}

/// Saves the data, or gives up after some keys.
fn save(engine: &Engine, keys: u64) -> Result<Vec<u8>, SaveError> {
    let options = SaveOptions {
        stream: &|| None,
        compresses: true,
        has_checksum: true,
        is_base: false,
        is_for_valkey: false,
        is_background: false,
        backend: "test",
        spool: &|| Ok(Box::new(Cursor::new(Vec::new()))),
        go_on: &|saved| saved < keys,
    };
    commands::save(engine, Vec::new(), &options, || ())
}

fn key(file: &mut File, name: &str, expires: Option<u64>) -> std::io::Result<()> {
    file.key(name.as_bytes(), expires, None, Kind::String)?;
    file.value().string(name.as_bytes())
}

/// Keys in three databases, some of which have expired, an empty hash, large values of two types.
fn mixed() -> Vec<u8> {
    file(|file| {
        for n in 0..KEYS {
            if n % 3000 == 0 {
                file.database(n as u64 / 3000)?;
            }
            let expires = match n % 10 {
                7 => Some(1),
                8 => Some(u64::MAX >> 1),
                _ => None,
            };
            key(file, &format!("key:{n}"), expires)?;
            if n % 100 == 0 {
                file.key(format!("set:{n}").as_bytes(), None, None, Kind::Set)?;
                file.value().length(3)?;
                for member in ["a", "b", "12"] {
                    file.value().string(member.as_bytes())?;
                }
            }
            if n == KEYS / 2 {
                file.key(b"empty", None, None, Kind::Hash)?;
                file.value().length(0)?;
                file.key(b"large-set", None, None, Kind::Set)?;
                file.value().length(100)?;
                for member in 0..100 {
                    let member = format!("{member}").repeat(LARGE / 100);
                    file.copy(
                        &mut &[&[0x80][..], &(member.len() as u32).to_be_bytes()].concat()[..],
                    )?;
                    file.copy(&mut member.as_bytes())?;
                }
                file.key(b"large-string", None, None, Kind::String)?;
                file.value().string("ab".repeat(LARGE).as_bytes())?;
            }
        }
        Ok(())
    })
}

#[test]
fn by_any_number_of_threads_it_is_the_same_data() {
    let bytes = mixed();
    let mut digests = Vec::new();
    for threads in THREADS {
        let engine = engine(threads);
        let loaded = load(&engine, &bytes).expect("a dump");
        let expired = KEYS as u64 / 10;
        assert_eq!(loaded.keys, KEYS as u64 - expired + KEYS as u64 / 100 + 2);
        assert_eq!((loaded.expired, loaded.empty), (expired, 1));
        assert_eq!(loaded.bytes, bytes.len() as u64);
        let mut client = Client::new(&engine);
        client.check("GET key:0", "\"key:0\"");
        client.check("SCARD set:0", "(integer) 3");
        client.check("SELECT 1", "OK");
        client.check("GET key:3001", "\"key:3001\"");
        client.check("TTL key:3001", "(integer) -1");
        client.check("PEXPIRETIME key:3008", &format!("(integer) {}", u64::MAX >> 1));
        client.check("EXISTS key:3007", "(integer) 0");
        client.check("SCARD large-set", "(integer) 100");
        client.check("STRLEN large-string", &format!("(integer) {}", 2 * LARGE));
        digests.push(client.run("DEBUG DIGEST FULL"));
        let saved = save(&engine, u64::MAX).expect("a dump");
        let again = self::engine(threads);
        assert_eq!(load(&again, &saved).expect("a dump").keys, loaded.keys);
        digests.push(Client::new(&again).run("DEBUG DIGEST FULL"));
    }
    assert!(digests.windows(2).all(|pair| pair[0] == pair[1]), "{digests:?}");
}

#[test]
fn a_save_that_is_given_up_ends_its_threads_and_the_next_one_goes_well() {
    let bytes = mixed();
    for threads in THREADS {
        let engine = engine(threads);
        let keys = load(&engine, &bytes).expect("a dump").keys;
        for after in [1, 100, keys] {
            assert!(matches!(save(&engine, after), Err(SaveError::GivenUp)), "after {after} keys");
            assert!(!engine.keyspace().heap().snapshot_stats().is_taken);
        }
        assert!(save(&engine, keys + 1).is_ok());
    }
}

#[test]
fn the_first_error_of_the_dump_counts() {
    let bytes = file(|file| {
        for n in 0..KEYS {
            match n {
                // An invalid intset; a duplicate field of a hash.
                4000 => {
                    file.key(b"first", None, None, Kind::SetIntset)?;
                    file.value().string(b"no intset")?;
                }
                6000.. if n % 1000 == 0 => {
                    file.key(format!("later:{n}").as_bytes(), None, None, Kind::Set)?;
                    file.value().length(2)?;
                    file.value().string(b"twice")?;
                    file.value().string(b"twice")?;
                }
                _ => key(file, &format!("key:{n}"), None)?,
            }
        }
        Ok(())
    });
    let cut = &bytes[..bytes.len() - 100];
    let alone = load(&engine(1), &bytes).expect_err("a damaged dump").to_string();
    assert!(alone.contains("Intset integrity check failed"), "{alone}");
    for _ in 0..10 {
        for dump in [&bytes[..], cut] {
            let error = load(&engine(4), dump).expect_err("a damaged dump").to_string();
            assert_eq!(error, alone);
        }
    }
}

#[test]
fn a_key_that_comes_twice_is_found_in_whatever_batch() {
    for (one, other) in [(10, 11), (0, KEYS - 1), (3000, 7000)] {
        let name = |n| if n == other { one } else { n };
        let bytes = file(|file| (0..KEYS).try_for_each(|n| key(file, &name(n).to_string(), None)));
        for threads in THREADS {
            match load(&engine(threads), &bytes) {
                Err(LoadDumpError::Duplicate { key, db: 0 }) => assert_eq!(key, one.to_string()),
                other => panic!("{other:?}"),
            }
        }
    }
}

/// A value of a kind, with two elements, or with one element twice.
fn collection(file: &mut File, name: &str, kind: Kind, has_twice: bool) -> std::io::Result<()> {
    file.key(name.as_bytes(), None, None, kind)?;
    file.value().length(2)?;
    for member in ["member", if has_twice { "member" } else { "other" }] {
        file.value().string(member.as_bytes())?;
        match kind {
            Kind::Hash => file.value().string(b"value")?,
            Kind::SortedSet => file.copy(&mut &1.5f64.to_le_bytes()[..])?,
            _ => {}
        }
    }
    Ok(())
}

#[test]
fn a_collection_that_comes_twice_is_found_and_so_is_a_member() {
    for kind in [Kind::Set, Kind::Hash, Kind::SortedSet, Kind::List] {
        for later in [Kind::Set, Kind::Hash, Kind::SortedSet, Kind::List, Kind::String] {
            let bytes = file(|file| {
                collection(file, "one", kind, false)?;
                key(file, "between", None)?;
                match later {
                    Kind::String => key(file, "one", None),
                    later => collection(file, "one", later, false),
                }
            });
            match load(&engine(1), &bytes) {
                Err(LoadDumpError::Duplicate { key, db: 0 }) => assert_eq!(key, "one"),
                other => panic!("{kind:?} and {later:?}: {other:?}"),
            }
        }
        let bytes = file(|file| collection(file, "one", kind, true));
        match (kind, load(&engine(1), &bytes)) {
            (Kind::List, loaded) => assert_eq!(loaded.expect("a list takes both").keys, 1),
            (_, Err(error)) => assert!(error.to_string().contains("Bad data format"), "{error}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_member_that_comes_twice_is_found_in_collections_of_any_size() {
    for (members, twice) in [(40, 0), (40, 38), (600, 1), (600, 598), (3000, 2500)] {
        for kind in [Kind::Set, Kind::Hash] {
            let of = |has_twice: bool| {
                file(|file| {
                    file.key(b"one", None, None, kind)?;
                    file.value().length(members)?;
                    for n in 0..members {
                        let is_other = has_twice && n == members - 1;
                        let member = format!("member:{}", if is_other { twice } else { n });
                        file.value().string(member.as_bytes())?;
                        if kind == Kind::Hash {
                            file.value().string(b"value")?;
                        }
                    }
                    Ok(())
                })
            };
            let engine = engine(1);
            assert_eq!(load(&engine, &of(false)).expect("a dump").keys, 1);
            let mut client = Client::new(&engine);
            let size = if kind == Kind::Set { "SCARD one" } else { "HLEN one" };
            client.check(size, &format!("(integer) {members}"));
            let error = load(&self::engine(1), &of(true)).expect_err("a member comes twice");
            assert!(error.to_string().contains("Bad data format"), "{members} {kind:?}: {error}");
        }
    }
}

#[test]
fn a_full_heap_ends_it() {
    let bytes = file(|file| {
        (0..100).try_for_each(|n| {
            file.key(format!("{n}").as_bytes(), None, None, Kind::String)?;
            file.copy(&mut &[&[0x80, 0, 0x10, 0, 0][..], &[b'x'; 1 << 20]].concat()[..])
        })
    });
    for threads in THREADS {
        let options = EngineOptions { threads, ..EngineOptions::new(volatile(4, 64 << 20)) };
        let engine = Engine::new(options);
        let error = load(&engine, &bytes).expect_err("too much").to_string();
        assert!(error.contains("OOM"), "{error}");
    }
}

#[test]
fn a_wrong_checksum_is_seen_at_the_end() {
    let mut bytes = mixed();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    for threads in THREADS {
        let loaded = load(&engine(threads), &bytes);
        assert!(matches!(loaded, Err(LoadDumpError::Checksum { .. })), "{loaded:?}");
    }
}
