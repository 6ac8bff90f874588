//! Dumps that are loaded at the start, and append-only files that begin with one: from this server
//! and from redis-server, complete and damaged.

use std::fs;

use testkit::{Launch, Server};

use crate::save::{check_rdb, digest, populate, populate_large, redis_with_dump_of, wait_for};

const LAUNCH: [&str; 2] = ["--enable-debug-command", "yes"];

fn memory() -> Launch {
    Launch::perdura_volatile().args(LAUNCH)
}

/// Returns a server of the same program in whose directory another one has left its data.
fn with_data_of(server: &Server, launch: Launch, names: &[&str]) -> Server {
    let folder = testkit::Medium::Disk.scratch();
    for name in names {
        copy(&server.folder().join(name), &folder.path().join(name));
    }
    launch.start_in(folder)
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    if from.is_dir() {
        fs::create_dir(to).expect("a directory");
        for entry in fs::read_dir(from).expect("a directory") {
            let name = entry.expect("an entry").file_name();
            copy(&from.join(&name), &to.join(&name));
        }
    } else {
        fs::copy(from, to).expect("a copy");
    }
}

#[test]
fn what_was_saved_comes_back() {
    let mut server = memory().start();
    let mut client = server.client();
    populate(&mut client);
    populate_large(&mut client);
    client.check("SET gone soon PX 20", "OK");
    let pending = client.run("XPENDING stream group - + 20").to_string();
    client.check("SAVE", "OK");
    std::thread::sleep(std::time::Duration::from_millis(30));
    let (before, keys) = (digest(&mut client), client.run("DBSIZE").int().expect("a number"));
    server.crash();
    let mut client = server.client();
    assert_eq!(digest(&mut client), before);
    client.check("FCALL f 0", "(integer) 7");
    client.check("GET gone", "(nil)");
    let without_idle =
        |text: &str| text.split(", ").step_by(4).map(String::from).collect::<Vec<_>>();
    let again = client.run("XPENDING stream group - + 20").to_string();
    assert_eq!(without_idle(&again), without_idle(&pending));
    let info = client.info("persistence");
    assert_eq!(info["rdb_last_load_keys_expired"], "1");
    assert_eq!(info["rdb_changes_since_last_save"], "0");
    let loaded: i64 = info["rdb_last_load_keys_loaded"].parse().expect("a number");
    // There is one key in another database, and one that has expired may still be counted.
    assert!((keys..=keys + 1).contains(&loaded), "{loaded} of {keys}");
    for line in ["OBJECT ENCODING intset", "OBJECT ENCODING hash", "OBJECT ENCODING skiplist"] {
        assert!(!client.run(line).is_error());
    }
}

#[test]
fn a_dump_of_redis_is_loaded_and_saved_for_it_again() {
    let redis = Launch::redis().start();
    let mut of_redis = redis.client();
    populate(&mut of_redis);
    populate_large(&mut of_redis);
    of_redis.check("SAVE", "OK");
    let server = with_data_of(&redis, memory(), &["dump.rdb"]);
    let mut client = server.client();
    let keys = of_redis.run("DBSIZE").to_string();
    client.check("DBSIZE", &keys);
    client.check("FCALL f 0", "(integer) 7");
    client.check("SAVE", "OK");
    check_rdb(&server.folder().join("dump.rdb"));
    let again = redis_with_dump_of(&server);
    assert_eq!(digest(&mut again.client()), digest(&mut of_redis));
    let here = client.run("XINFO GROUPS stream").to_string();
    assert_eq!(here, of_redis.run("XINFO GROUPS stream").to_string());
}

#[test]
fn debug_reload_brings_memory_back_from_the_dump() {
    let server = memory().start();
    let mut client = server.client();
    populate(&mut client);
    populate_large(&mut client);
    let before = digest(&mut client);
    client.check("DEBUG RELOAD", "OK");
    assert_eq!(digest(&mut client), before);
    client.check("FCALL f 0", "(integer) 7");
    client.check("SET later 1", "OK");
    client.check("DEBUG RELOAD NOSAVE", "OK");
    client.check("EXISTS later", "(integer) 0");
    assert_eq!(digest(&mut client), before);
}

/// A base that is a dump, written by each server and read by the other.
#[test]
fn a_log_begins_with_a_dump_that_both_servers_read() {
    let redis_launch = || Launch::redis().args(["--appendonly", "yes", "--appendfsync", "always"]);
    let server = Launch::perdura_aof("always").args(LAUNCH).start();
    let redis = redis_launch().start();
    let (mut client, mut of_redis) = (server.client(), redis.client());
    for client in [&mut client, &mut of_redis] {
        populate(client);
        client.check("SET gone x PXAT 1000", "OK");
        assert!(!client.run("BGREWRITEAOF").is_error());
        wait_for(client, "aof_rewrite_in_progress", "0");
        wait_for(client, "aof_last_bgrewrite_status", "ok");
        client.check("APPEND text more", "(integer) 9");
        client.check("SELECT 3", "OK");
        client.check("SET after rewrite", "OK");
        client.check("SELECT 0", "OK");
    }
    wait_for(&mut client, "aof_rewrites", "1");
    let base = fs::read_dir(server.folder().join("appendonlydir")).expect("a directory");
    let names: Vec<_> = base.map(|entry| entry.expect("an entry").file_name()).collect();
    assert!(names.iter().any(|name| name == "appendonly.aof.2.base.rdb"), "{names:?}");
    let of_perdura = with_data_of(&server, redis_launch(), &["appendonlydir"]);
    assert_eq!(digest(&mut of_perdura.client()), digest(&mut of_redis));
    let launch = Launch::perdura_aof("always").args(LAUNCH);
    let mut of_base = with_data_of(&redis, launch, &["appendonlydir"]);
    let pending = |text: String| text.matches("alice").count() + text.matches("bob").count();
    let line = "XPENDING stream group - + 20";
    let there = pending(of_base.client().run(line).to_string());
    assert_eq!((there, pending(client.run(line).to_string())), (8, 8));
    // The delivery times of entries differ, and are in the digest here.
    for client in [&mut client, &mut of_base.client()] {
        client.check("DEL stream", "(integer) 1");
    }
    assert_eq!(digest(&mut of_base.client()), digest(&mut client));
    of_base.client().check("DEBUG LOADAOF", "OK");
    assert_eq!(digest(&mut of_base.client()), digest(&mut client));
    // Loaded data can be appended to.
    of_base.client().check("SET more data", "OK");
    of_base.crash();
    of_base.client().check("MGET more text", "[\"data\", \"hellomore\"]");
}

#[test]
fn a_base_of_commands_is_written_where_that_is_asked_for() {
    let launch = Launch::perdura_aof("always").args(["--aof-use-rdb-preamble", "no"]);
    let mut server = launch.start();
    let mut client = server.client();
    populate(&mut client);
    assert!(!client.run("BGREWRITEAOF").is_error());
    wait_for(&mut client, "aof_rewrites", "1");
    let base = server.folder().join("appendonlydir/appendonly.aof.2.base.aof");
    assert!(fs::read(base).expect("the base").starts_with(b"*"));
    let keys = client.run("DBSIZE").to_string();
    server.crash();
    server.client().check("DBSIZE", &keys);
}

/// Logs of Redis before version 7: one file that begins with a dump.
#[test]
fn an_old_log_that_begins_with_a_dump_is_taken_over() {
    let redis = Launch::redis().start();
    redis.client().check("SET key value", "OK");
    redis.client().check("SAVE", "OK");
    let folder = testkit::Medium::Disk.scratch();
    let mut bytes = fs::read(redis.folder().join("dump.rdb")).expect("a dump");
    bytes
        .extend(b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*3\r\n$6\r\nAPPEND\r\n$3\r\nkey\r\n$1\r\n!\r\n");
    fs::write(folder.path().join("appendonly.aof"), bytes).expect("written");
    let server = Launch::perdura_aof("always").start_in(folder);
    server.client().check("GET key", "\"value!\"");
}

fn check_refused(change: impl FnOnce(&mut Vec<u8>), texts: &[&str]) {
    let mut server = memory().start();
    let mut client = server.client();
    populate(&mut client);
    client.check("SAVE", "OK");
    server.kill();
    let path = server.folder().join("dump.rdb");
    let mut bytes = fs::read(&path).expect("a dump");
    change(&mut bytes);
    fs::write(&path, &bytes).expect("written");
    let ended = memory().run_to_end_in(server.folder());
    assert_eq!(ended.status.code(), Some(1), "{}", ended.log);
    for text in texts {
        assert!(ended.log.contains(text), "{text}:\n{}", ended.log);
    }
    assert_eq!(fs::read(&path).expect("still there"), bytes);
}

#[test]
fn a_damaged_dump_ends_the_start_and_stays() {
    let fatal = "Fatal error loading the DB";
    check_refused(|bytes| bytes.truncate(bytes.len() / 2), &[fatal, "Short read"]);
    check_refused(|bytes| bytes[0] = b'x', &[fatal, "Wrong signature trying to load DB from file"]);
    check_refused(|bytes| bytes[6] = b'9', &[fatal, "Can't handle RDB format version 910"]);
    let last = |bytes: &mut Vec<u8>| *bytes.last_mut().expect("a byte") ^= 1;
    check_refused(last, &[fatal, "CRC error"]);
    let module = |bytes: &mut Vec<u8>| {
        bytes.truncate(9);
        bytes.extend(b"\xfe\x00\x07\x03key\x81\x50\xa5\x0a\x15\x82\x9f\x0c\x01");
    };
    check_refused(module, &[fatal, "module data I can't load"]);
    let twice = |bytes: &mut Vec<u8>| {
        bytes.truncate(9);
        bytes.extend(b"\xfe\x00\x00\x01k\x01v\x00\x01k\x01w\xff");
        bytes.extend([0; 8]);
    };
    check_refused(twice, &[fatal, "RDB has duplicated key 'k' in DB 0"]);
    let far = |bytes: &mut Vec<u8>| {
        bytes.truncate(9);
        bytes.extend(b"\xfe\x14\x00\x01k\x01v\xff");
        bytes.extend([0; 8]);
    };
    check_refused(far, &[fatal, "more than 16 databases"]);
}

#[test]
fn without_rdbchecksum_nothing_is_verified() {
    let mut server = memory().args(["--rdbchecksum", "no"]).start();
    let mut client = server.client();
    client.check("SET key value", "OK");
    client.check("SAVE", "OK");
    let path = server.folder().join("dump.rdb");
    let mut bytes = fs::read(&path).expect("a dump");
    assert_eq!(bytes[bytes.len() - 8..], [0; 8]);
    server.kill();
    *bytes.last_mut().expect("a byte") = 1;
    fs::write(&path, &bytes).expect("written");
    server.start_again();
    server.client().check("GET key", "\"value\"");
}

#[test]
fn empty_collections_are_left_out() {
    let folder = testkit::Medium::Disk.scratch();
    let mut bytes = b"REDIS0010\xfe\x00\x02\x05empty\x00\x00\x01k\x01v\xff".to_vec();
    bytes.extend([0; 8]);
    fs::write(folder.path().join("dump.rdb"), bytes).expect("written");
    let server = memory().start_in(folder);
    server.client().check("KEYS *", "[\"k\"]");
    assert!(server.log().contains("empty keys skipped: 1"), "{}", server.log());
}
