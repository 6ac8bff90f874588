//! The bodies of the fuzz targets over their committed corpora, on the stable toolchain.
//!
//! Every input that once found something stays in `fuzz/corpus`, so that it cannot come back
//! unnoticed. Small changes of these inputs follow, the same in each run: a search without
//! guidance, for where `fuzz/run.sh` is not run.

use fastrand::Rng;
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

/// Changed inputs of each target.
const CHANGED: usize = 400;
/// Bytes of the longest of them, as `fuzz/one.sh` has it.
const LONGEST: usize = 16384;

fn replay(target: &str, check: fn(&[u8])) {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus")).join(target);
    let mut paths: Vec<_> = fs::read_dir(&folder)
        .expect("the target's corpus")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    let inputs: Vec<_> = paths.iter().map(|path| fs::read(path).expect("an input")).collect();
    assert!(!inputs.is_empty(), "{} is empty", folder.display());
    let fails = |input: &[u8]| catch_unwind(|| check(input)).is_err();
    let failed: Vec<_> =
        paths.iter().zip(&inputs).filter(|(_, input)| fails(input)).map(|(path, _)| path).collect();
    assert!(failed.is_empty(), "of {} inputs these fail: {failed:#?}", paths.len());
    let mut rng = Rng::with_seed(0);
    for _ in 0..CHANGED {
        let input = change(&mut rng, &inputs);
        assert!(!fails(&input), "{target} fails with {}", input.escape_ascii());
    }
}

/// Returns an input with a few bytes changed, inserted, cut out, or taken from another input.
fn change(rng: &mut Rng, inputs: &[Vec<u8>]) -> Vec<u8> {
    let mut input = rng.choice(inputs).expect("no empty corpus").clone();
    for _ in 0..rng.usize(1..5) {
        let (at, len) = (rng.usize(..=input.len()), rng.usize(1..9));
        let until = input.len().min(at + len);
        match rng.u8(..5) {
            0 => input[at..until].iter_mut().for_each(|byte| *byte = rng.u8(..)),
            1 => input[at..until].iter_mut().for_each(|byte| *byte ^= 1 << rng.u8(..8)),
            2 => drop(input.splice(at..at, std::iter::repeat_with(|| rng.u8(..)).take(len))),
            3 => drop(input.drain(at..until)),
            _ => {
                let other = rng.choice(inputs).expect("no empty corpus");
                let from = rng.usize(..=other.len());
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
        }
    }
    input.truncate(LONGEST);
    input
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
