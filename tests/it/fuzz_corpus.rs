//! The bodies of the fuzz targets over their committed corpora, on the stable toolchain.
//!
//! Every input that once found something stays in `fuzz/corpus`, so that it cannot come back
//! unnoticed.

use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

#[path = "../../fuzz/bodies/aof.rs"]
mod aof;
#[path = "../../fuzz/bodies/journal.rs"]
mod journal;
#[path = "../../fuzz/bodies/pool.rs"]
mod pool;
#[path = "../../fuzz/bodies/rdb.rs"]
mod rdb_target;
#[path = "../../fuzz/bodies/requests.rs"]
mod requests;
#[path = "../../fuzz/bodies/restore.rs"]
mod restore;

fn replay(target: &str, check: fn(&[u8])) {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus")).join(target);
    let (mut replayed, mut failed) = (0, Vec::new());
    for entry in fs::read_dir(&folder).expect("the target's corpus") {
        let path = entry.expect("an entry").path();
        let input = fs::read(&path).expect("an input");
        if catch_unwind(|| check(&input)).is_err() {
            failed.push(path);
        }
        replayed += 1;
    }
    assert!(failed.is_empty(), "of {replayed} inputs these fail: {failed:#?}");
    assert!(replayed > 0, "{} is empty", folder.display());
}

#[test]
fn requests_of_the_corpus() {
    replay("requests", requests::check);
}

#[test]
fn pools_of_the_corpus() {
    replay("pool", pool::check);
}

#[test]
fn journals_of_the_corpus() {
    replay("journal", journal::check);
}

#[test]
fn append_only_files_of_the_corpus() {
    replay("aof", aof::check);
}

#[test]
fn dumps_of_the_corpus() {
    replay("rdb", rdb_target::check);
}

#[test]
fn payloads_of_the_corpus() {
    replay("restore", restore::check);
}
