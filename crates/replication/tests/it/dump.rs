//! The dump's reader: where it ends, wherever reads are cut.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};

use proptest::prelude::*;
use replication::dump::{DumpError, DumpReader};

use crate::pieces::{Pieces, cuts, wait};

const MARK: &[u8; 40] = b"abababcababababcababababcabababababcabab";
const AFTER: &[u8] = b"*1\r\n$4\r\nPING\r\n";

/// Returns a transcript with a mark at the end of the data.
fn marked(mark: &[u8], data: &[u8]) -> Vec<u8> {
    [b"\n\n$EOF:", mark, b"\r\n", data, mark, AFTER].concat()
}

/// Reads a dump through a buffer of this size. Returns it, and what follows it.
fn read(input: Pieces<'_>, size: usize) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let (mut dump, mut buffer) = (Vec::new(), vec![0; size]);
    let mut reader = DumpReader::new(input);
    loop {
        let count = wait(|| reader.read(&mut buffer))?;
        dump.extend_from_slice(&buffer[..count]);
        assert_eq!(reader.received(), dump.len() as u64);
        if count == 0 {
            assert!(reader.is_complete());
            return Ok((dump, reader.into_inner().rest()));
        }
    }
}

/// Returns the error of a dump that begins like this.
fn error(input: &[u8]) -> String {
    let mut reader = DumpReader::new(input);
    let error = reader.begin().unwrap_err().to_string();
    let again = reader.read(&mut [0; 8]).unwrap_err();
    assert_eq!(again.to_string(), error, "the error stays");
    error
}

#[test]
fn it_does_not_matter_where_a_sized_dump_is_cut() {
    let input = [&b"\n\r\n$9\r\n123\r\n6789"[..], AFTER].concat();
    for at in cuts(input.len()) {
        for size in [1, 4, 100] {
            let read = read(Pieces::cut(&input, &at, true), size).unwrap();
            assert_eq!(read, (b"123\r\n6789".to_vec(), AFTER.to_vec()), "{at:?} {size}");
        }
    }
}

#[test]
fn it_does_not_matter_where_a_marked_dump_is_cut() {
    let data = [&MARK[..39], b"x", &MARK[..7], MARK[30..].as_ref(), &MARK[..16]].concat();
    let input = marked(MARK, &data);
    for at in cuts(input.len()) {
        for size in [1, 39, 41, 1000] {
            let read = read(Pieces::cut(&input, &at, true), size).unwrap();
            assert_eq!(read, (data.clone(), AFTER.to_vec()), "{at:?} {size}");
        }
    }
}

#[test]
fn a_dump_that_ends_early_is_an_error() {
    let sized = [b"$60\r\n", &[b'x'; 60][..]].concat();
    let marked = marked(MARK, b"data");
    for input in [&sized[..], &marked[..marked.len() - AFTER.len()]] {
        for end in 0..input.len() {
            let result = read(Pieces::cut(&input[..end], &[], false), 16);
            let kind = result.map_err(|error| error.kind());
            assert_eq!(kind, Err(ErrorKind::UnexpectedEof), "{end}");
        }
        let whole = read(Pieces::cut(input, &[], false), 16);
        assert!(whole.is_ok(), "{whole:?}");
    }
}

#[test]
fn empty_dumps_are_read() {
    for input in [marked(MARK, b""), [b"$0\r\n", AFTER].concat()] {
        let read = read(Pieces::cut(&input, &[], false), 16).unwrap();
        assert_eq!(read, (Vec::new(), AFTER.to_vec()));
    }
}

#[test]
fn the_size_is_known_once_the_dump_begins_if_the_primary_says_it() {
    let mut sized = DumpReader::new(&b"\n$3\r\nabc"[..]);
    assert_eq!((sized.total(), sized.received()), (None, 0));
    sized.begin().unwrap();
    assert_eq!((sized.total(), sized.received(), sized.is_complete()), (Some(3), 0, false));
    let mut dump = String::new();
    sized.read_to_string(&mut dump).unwrap();
    assert_eq!((sized.total(), sized.received(), sized.is_complete()), (Some(3), 3, true));
    let input = marked(MARK, b"abc");
    let mut marked = DumpReader::new(&input[..]);
    marked.read_to_string(&mut dump).unwrap();
    assert_eq!((marked.total(), marked.received(), marked.is_complete()), (None, 3, true));
    assert_eq!(dump, "abcabc");
}

#[test]
fn a_line_that_begins_no_dump_is_an_error() {
    assert_eq!(error(b"\n-ERR BGSAVE failed\r\n"), "the primary sends no dump: ERR BGSAVE failed");
    for line in [
        "+OK",
        "5",
        "$",
        "$-1",
        "$+5",
        "$ 5",
        "$5 ",
        "$5x",
        "$1e3",
        "$99999999999999999999",
        "$EOF",
        "$EOF:",
        "$EOF:abc",
        "$EOF:00000000000000000000000000000000000000000",
        "*1",
    ] {
        let expected = format!("the primary sent no dump, but: {line}");
        assert_eq!(error(format!("{line}\r\n$3\r\nabc").as_bytes()), expected);
    }
    let long = "x".repeat(500);
    let expected = format!("the primary sends no dump: {long}");
    assert_eq!(error(format!("-{long}\r\n").as_bytes()), expected);
    let mut endless = DumpReader::new(BufReader::new(io::repeat(b'$')));
    let result = endless.begin();
    assert!(matches!(result, Err(DumpError::LineTooLong)), "{result:?}");
}

#[test]
fn a_length_that_lies_takes_no_memory_and_ends_with_the_input() {
    let mut reader = DumpReader::new(&b"$9223372036854775807\r\nabc"[..]);
    let mut dump = Vec::new();
    let error = reader.read_to_end(&mut dump).unwrap_err();
    assert_eq!((error.kind(), &dump[..]), (ErrorKind::UnexpectedEof, &b"abc"[..]));
    assert_eq!(reader.total(), Some(i64::MAX as u64));
    assert!(dump.capacity() < 1 << 16);
}

#[test]
fn a_large_dump_is_read_whole() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut data: Vec<u8> = (0..3_000_000).map(|_| random.u8(..)).collect();
    for _ in 0..1000 {
        let (at, length) = (random.usize(..data.len() - 40), random.usize(1..40));
        data[at..at + length].copy_from_slice(&MARK[..length]);
    }
    let input = marked(MARK, &data);
    let mut input = BufReader::with_capacity(16 * 1024, &input[..]);
    let mut dump = Vec::new();
    DumpReader::new(&mut input).read_to_end(&mut dump).unwrap();
    assert!(dump == data);
    let mut after = Vec::new();
    input.read_to_end(&mut after).unwrap();
    assert_eq!(after, AFTER);
}

/// Text of two letters, so that much of it looks like the mark's beginning.
fn letters(size: impl Into<prop::collection::SizeRange>) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(&b"ab"[..]), size)
}

/// Marks of a short period, with one byte changed: most of them look like parts of themselves.
fn marks() -> impl Strategy<Value = Vec<u8>> {
    (letters(1..8), 0..40usize, any::<bool>()).prop_map(|(period, at, is_changed)| {
        let mut mark: Vec<u8> = period.into_iter().cycle().take(40).collect();
        if is_changed {
            mark[at] = b'c';
        }
        mark
    })
}

/// Data of pieces of the mark and of other text.
fn data() -> impl Strategy<Value = Vec<Result<(usize, usize), Vec<u8>>>> {
    let piece = (0..40usize, 0..40usize).prop_map(|(a, b)| (a.min(b), a.max(b)));
    prop::collection::vec(prop_oneof![piece.prop_map(Ok), letters(0..20).prop_map(Err)], 0..12)
}

proptest! {
    /// The dump ends before the first occurrence of the mark.
    #[test]
    fn the_mark_is_found_wherever_it_is_and_is_cut(
        mark in marks(),
        data in data(),
        cuts in prop::collection::vec(0..1000usize, 0..20),
        size in 1..100usize,
    ) {
        let data: Vec<u8> = data
            .into_iter()
            .flat_map(|piece| piece.map_or_else(|text| text, |(a, b)| mark[a..b].to_vec()))
            .collect();
        let input = marked(&mark, &data);
        let body = &input[input.len() - AFTER.len() - 40 - data.len()..];
        let end = body.windows(40).position(|window| window == mark).expect("the mark");
        let mut at: Vec<usize> = cuts.into_iter().filter(|at| *at <= input.len()).collect();
        at.sort_unstable();
        let (dump, after) = read(Pieces::cut(&input, &at, true), size).unwrap();
        prop_assert_eq!(&dump[..], &body[..end]);
        prop_assert_eq!(&after[..], &body[end + 40..]);
    }

    #[test]
    fn no_input_panics(input in prop::collection::vec(any::<u8>(), 0..200), begin in 0..3usize) {
        let begin = [&b""[..], b"$EOF:", b"$9"][begin];
        let input = [begin, &input].concat();
        let mut reader = DumpReader::new(&input[..]);
        let _ = reader.read_to_end(&mut Vec::new());
        let _ = reader.into_inner().fill_buf();
    }
}
