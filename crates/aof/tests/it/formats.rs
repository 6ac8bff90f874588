//! Logs that are loaded, tails that are cut off, and logs that are refused.

use crate::medium::{Medium, number, numbers};
use aof::{EXEC, Fsync, LoadError, MULTI, encode};
use proptest::prelude::*;

const BASE: &str = "appendonly.aof.1.base.aof";
const INCREMENT: &str = "appendonly.aof.1.incr.aof";
const MANIFEST: &str = "appendonly.aof.manifest";

fn log_of(files: &[(&str, &str, &[u8])]) -> Medium {
    let medium = Medium::default();
    let mut manifest = String::new();
    for (seq, (name, kind, bytes)) in files.iter().enumerate() {
        medium.put(name, bytes);
        manifest += &format!("file {name} seq {} type {kind}\n", seq + 1);
    }
    medium.put(MANIFEST, manifest.as_bytes());
    medium
}

fn check_loads(medium: &Medium, expected: &[u64]) {
    match medium.load(Fsync::Always) {
        Ok((_, commands)) => assert_eq!(numbers(&commands), expected),
        Err(error) => panic!("{error}"),
    }
}

fn check_refused(medium: &Medium, expected: &str) {
    match medium.load(Fsync::Always) {
        Ok((_, commands)) => panic!("{} commands were loaded", commands.len()),
        Err(error) => assert_eq!(error.to_string(), expected),
    }
}

/// Returns three commands, then a transaction of two, then one more; with the ends of what must be
/// complete.
fn tail() -> (Vec<u8>, Vec<(usize, u64)>) {
    let mut bytes = Vec::new();
    let mut ends = vec![(0, 0)];
    for n in 0..3 {
        bytes.extend(number(n));
        ends.push((bytes.len(), n + 1));
    }
    bytes.extend([MULTI, &number(3), &number(4), EXEC].concat());
    ends.push((bytes.len(), 5));
    bytes.extend(number(5));
    ends.push((bytes.len(), 6));
    (bytes, ends)
}

#[test]
fn a_log_cut_at_any_byte_loads_its_whole_commands_and_goes_on() {
    let (bytes, ends) = tail();
    for cut in 0..=bytes.len() {
        let medium = log_of(&[(BASE, "b", b""), (INCREMENT, "i", &bytes[..cut])]);
        let (end, count) = *ends.iter().rev().find(|(end, _)| *end <= cut).expect("0 is one");
        let (loader, commands) = medium.load(Fsync::Always).expect("a short tail is cut off");
        // Commands of a transaction without its end were given, but its EXEC was not.
        let executed = commands.iter().rposition(|words| words[0] != b"MULTI");
        assert!(executed.is_none() || numbers(&commands).len() as u64 >= count, "cut at {cut}");
        assert_eq!(loader.loaded().cut_off, (cut - end) as u64, "cut at {cut}");
        assert_eq!(medium.file(INCREMENT), &bytes[..end], "cut at {cut}");
        let log = loader.into_log().expect("it opens");
        log.append(0, 0, &number(count));
        drop(log);
        let expected: Vec<u64> = (0..=count).collect();
        check_loads(&medium, &expected);
    }
}

#[test]
fn a_cut_log_is_refused_when_aof_load_truncated_says_so() {
    let (bytes, ends) = tail();
    for cut in 0..bytes.len() {
        let whole = ends.iter().any(|(end, _)| *end == cut);
        let medium = log_of(&[(BASE, "b", b""), (INCREMENT, "i", &bytes[..cut])]);
        let options = aof::Options { load_truncated: false, ..medium.options(Fsync::Always) };
        let mut loader = aof::Loader::open(options).expect("it opens");
        let refused = loop {
            match loader.next() {
                Ok(Some(_)) => {}
                Ok(None) => break false,
                Err(LoadError::UnexpectedEnd { .. }) => break true,
                Err(error) => panic!("{error}"),
            }
        };
        assert_eq!(refused, !whole, "cut at {cut}");
        assert_eq!(medium.file(INCREMENT), &bytes[..cut], "nothing is cut off");
    }
}

#[test]
fn what_redis_refuses_is_refused_in_its_words() {
    let cut = &number(1)[..9];
    let second = "appendonly.aof.2.incr.aof";
    check_refused(
        &log_of(&[(BASE, "b", b""), (INCREMENT, "i", cut), (second, "i", &number(2))]),
        "the truncated file appendonly.aof.1.incr.aof is not the last file",
    );
    let bad = [number(1), b"*1\r\n$x\r\n".to_vec()].concat();
    check_refused(
        &log_of(&[(BASE, "b", &bad)]),
        "Bad file format reading the append only file appendonly.aof.1.base.aof: make a backup of \
         your AOF file, then use ./redis-check-aof --fix <filename.manifest> (at offset 25: '$' and \
         a number expected)",
    );
    let medium = log_of(&[(BASE, "b", b"")]);
    medium.put(MANIFEST, b"file gone seq 1 type b\n");
    check_refused(&medium, "The append log file gone doesn't exist: No such file or directory");
    medium.put(MANIFEST, b"");
    check_refused(&medium, "Found an empty AOF manifest (AOF manifest, line 0: '')");
}

#[test]
fn annotations_are_skipped_and_files_are_read_in_order() {
    let base = [b"#TS:1700000000\r\n".to_vec(), number(0), b"#TS:1\r\n".to_vec()].concat();
    let second = "appendonly.aof.3.incr.aof";
    check_loads(
        &log_of(&[(BASE, "b", &base), (INCREMENT, "i", &number(1)), (second, "i", &number(2))]),
        &[0, 1, 2],
    );
    check_loads(&Medium::default(), &[]);
}

#[test]
fn a_command_longer_than_the_window_is_loaded() {
    let long = vec![b'x'; 5 << 20];
    let mut bytes = number(0);
    encode(&mut bytes, &[b"SET", b"1", &long]);
    bytes.extend(number(2));
    check_loads(&log_of(&[(BASE, "b", &bytes)]), &[0, 1, 2]);
}

#[test]
fn a_length_that_claims_the_world_takes_no_memory() {
    let medium = log_of(&[(BASE, "b", b"*2\r\n$3\r\nSET\r\n$9223372036854775807\r\nx")]);
    let (loader, commands) = medium.load(Fsync::Always).expect("it is a short read");
    assert!(commands.is_empty());
    assert_eq!(loader.loaded().cut_off, 36);
}

proptest! {
    #[test]
    fn no_bytes_in_any_file_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 0..200),
        at in 0..120_usize,
        whole: bool,
    ) {
        let (mut log, _) = tail();
        if whole {
            let end = (at + bytes.len()).min(log.len());
            log.splice(at.min(end)..end, bytes.drain(..));
        } else {
            log = bytes;
        }
        let medium = log_of(&[(BASE, "b", b""), (INCREMENT, "i", &log)]);
        if let Ok((loader, commands)) = medium.load(Fsync::Always) {
            let cut_off = loader.loaded().cut_off;
            prop_assert!(cut_off <= log.len() as u64);
            drop(loader);
            let again = medium.load(Fsync::Always);
            prop_assert!(again.is_ok_and(|(_, again)| again.len() <= commands.len()));
        }
    }
}
