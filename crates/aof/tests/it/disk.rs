//! On a real file system, a log is written and read again, and a log of the old form is taken over.

use std::fs;
use std::path::Path;

use crate::medium::{Words, number, numbers};
use aof::{Entry, Fsync, Loader, Options};

fn load(dir: &Path) -> (Loader, Vec<Words>) {
    let options = Options { fsync: Fsync::Always, ..Options::new(dir) };
    let mut loader = Loader::open(options).expect("it opens");
    let mut commands = Vec::new();
    while let Some(entry) = loader.next().expect("it is whole") {
        if let Entry::Command(command) = entry {
            commands.push(command.words().map(<[u8]>::to_vec).collect());
        }
    }
    assert_eq!(loader.progress().done, loader.progress().total);
    (loader, commands)
}

#[track_caller]
fn check_holds(dir: &Path, count: u64) {
    let expected: Vec<u64> = (0..count).collect();
    assert_eq!(numbers(&load(dir).1), expected);
}

fn append(dir: &Path, n: u64) {
    let log = load(dir).0.into_log().expect("it opens");
    let end = log.append(0, 0, &number(n));
    log.sync_up_to(end).expect("the disk works");
    assert!(log.durable() >= end);
}

#[test]
fn a_log_is_read_as_it_was_written_and_rewritten() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    (0..5).for_each(|n| append(dir.path(), n));
    check_holds(dir.path(), 5);
    let log = load(dir.path()).0.into_log().expect("it opens");
    let mut rewrite = log.begin_rewrite().expect("there is no other");
    rewrite.cut();
    for n in 0..5_u64 {
        rewrite.write(0, &[b"SET", n.to_string().as_bytes()]).expect("the disk works");
    }
    log.append(0, 0, &number(5));
    rewrite.finish().expect("the disk works");
    drop(log);
    check_holds(dir.path(), 6);
    let files = fs::read_dir(dir.path().join("appendonlydir")).expect("a directory").count();
    assert_eq!(files, 3, "manifest, base, increment");
}

#[test]
fn a_log_in_one_file_is_taken_over_also_after_a_crash_half_way() {
    for half_way in [false, true] {
        let dir = tempfile::tempdir().expect("a scratch directory");
        let old = dir.path().join("appendonly.aof");
        let folder = dir.path().join("appendonlydir");
        fs::write(&old, [number(0), number(1)].concat()).expect("the disk works");
        if half_way {
            fs::create_dir(&folder).expect("the disk works");
            let listed = "file appendonly.aof seq 1 type b\n";
            fs::write(folder.join("appendonly.aof.manifest"), listed).expect("the disk works");
        }
        check_holds(dir.path(), 2);
        assert!(!old.exists() && folder.join("appendonly.aof").exists());
        append(dir.path(), 2);
        check_holds(dir.path(), 3);
        let manifest = fs::read_to_string(folder.join("appendonly.aof.manifest")).expect("text");
        let expected = "file appendonly.aof seq 1 type b\n\
                        file appendonly.aof.1.incr.aof seq 1 type i\n";
        assert_eq!(manifest, expected);
    }
}

#[test]
fn a_rewrite_that_was_killed_leaves_nothing() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    append(dir.path(), 0);
    let begun = dir.path().join("appendonlydir/temp-rewriteaof-bg.aof");
    fs::write(&begun, b"*3\r\n").expect("the disk works");
    append(dir.path(), 1);
    assert!(!begun.exists());
    check_holds(dir.path(), 2);
}
