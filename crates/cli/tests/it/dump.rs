//! `perdura rdb` on dumps that redis-server wrote, intact and damaged.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use testkit::Launch;

fn perdura(arguments: &[&str], file: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_perdura"));
    command.arg("rdb").args(arguments).arg(file).output().expect("the program runs")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_dump_of_redis_is_reported_by_database_and_type() {
    let server = Launch::redis().start();
    let mut client = server.client();
    for line in [
        "SET a hello",
        "SET b 5 EX 1000",
        "RPUSH list a b c",
        "HSET hash f v g w",
        "SELECT 3",
        "SADD set 1 2 3",
        "ZADD sorted 1 a",
        "XADD stream 1-1 f v",
        "XGROUP CREATE stream g 0",
        "SAVE",
    ] {
        assert!(!client.run(line).is_error(), "{line}");
    }
    let file = server.folder().join("dump.rdb");
    let done = perdura(&[], &file);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done));
    for line in [
        "database 0 hash: keys=1 expiring=0 elements=2 bytes=4",
        "database 0 list: keys=1 expiring=0 elements=3 bytes=3",
        "database 0 string: keys=2 expiring=1 elements=2 bytes=6",
        "database 3 set: keys=1 expiring=0 elements=3 bytes=3",
        "database 3 stream: keys=1 expiring=0 elements=1 bytes=2",
        "database 3 zset: keys=1 expiring=0 elements=1 bytes=1",
        "whole: Redis version 10, keys=7",
    ] {
        assert!(text(&done).contains(line), "{line} in {}", text(&done));
    }
    let json = text(&perdura(&["--json"], &file));
    assert!(json.contains("\"verdict\": \"whole\"") && json.contains("\"redis-ver\": \"7.0.15\""));

    let whole = fs::read(&file).expect("the dump");
    let half = server.folder().join("half.rdb");
    fs::write(&half, &whole[..whole.len() - 30]).expect("a shorter one");
    let done = perdura(&[], &half);
    assert_eq!(done.status.code(), Some(1));
    assert!(text(&done).contains("the data is cut off at byte"), "{}", text(&done));

    let mut changed = whole;
    let last = changed.len() - 1;
    changed[last] ^= 1;
    fs::write(&half, &changed).expect("a changed one");
    let done = perdura(&[], &half);
    assert_eq!(done.status.code(), Some(1));
    assert!(text(&done).contains("the checksum is"), "{}", text(&done));
}

#[test]
fn what_is_no_dump_is_not_called_damaged() {
    let folder = testkit::Medium::Disk.scratch();
    let file = folder.path().join("other");
    assert_eq!(perdura(&[], &file).status.code(), Some(2));
    fs::write(&file, "something else, of some length").expect("a file");
    let done = perdura(&[], &file);
    assert_eq!(done.status.code(), Some(2));
    assert!(text(&done).contains("this is no RDB file"), "{}", text(&done));
}
