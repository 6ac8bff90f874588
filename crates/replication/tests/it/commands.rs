//! The stream's reader: items and their bytes, wherever the stream is cut and however it is
//! released.

use std::io::{self, ErrorKind, Read};

use proptest::prelude::*;
use replication::commands::{StreamError, StreamReader};
use resp::ProtocolError;

use crate::pieces::{Pieces, cuts, wait};

const LIMIT: usize = 1 << 20;

fn encode(words: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.as_ref().len()).as_bytes());
        out.extend_from_slice(word.as_ref());
        out.extend_from_slice(b"\r\n");
    }
    out
}

/// What a reader gave: the words of each command, and all bytes.
#[derive(Debug, Default, PartialEq)]
struct Given {
    commands: Vec<Vec<Vec<u8>>>,
    bytes: Vec<u8>,
}

impl Given {
    /// Takes the first `count` items of the reader, and checks what it says of them.
    fn take(&mut self, reader: &mut StreamReader, count: usize) {
        let (offset, received) = (reader.offset(), reader.received());
        let mut bytes = Vec::new();
        for item in reader.items().take(count) {
            let words: Vec<Vec<u8>> = item.words().map(<[u8]>::to_vec).collect();
            if !words.is_empty() {
                assert_eq!(encode(&words), item.bytes());
                self.commands.push(words);
            }
            bytes.extend_from_slice(item.bytes());
            assert_eq!(item.offset(), offset + bytes.len() as u64);
        }
        assert_eq!(reader.bytes(count), bytes);
        reader.release(count);
        assert_eq!(reader.offset(), offset + bytes.len() as u64);
        assert_eq!(reader.received(), received);
        self.bytes.extend_from_slice(&bytes);
    }
}

/// Reads a whole stream that arrives in pieces; each time it takes as many of the items as
/// `release` says, and at last all.
fn read(mut input: Pieces<'_>, mut release: impl FnMut(usize) -> usize) -> Given {
    let (mut reader, mut given) = (StreamReader::new(1000, LIMIT), Given::default());
    loop {
        while reader.parse().unwrap() {}
        let count = release(reader.len()).min(reader.len());
        given.take(&mut reader, count);
        if wait(|| reader.read_from(&mut input)).unwrap() == 0 {
            let rest = reader.len();
            given.take(&mut reader, rest);
            assert_eq!(reader.received(), reader.offset(), "all of the stream is items");
            return given;
        }
    }
}

fn words(text: &str) -> Vec<Vec<u8>> {
    text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

/// Returns the error of a stream, and how many items come before it.
fn error(input: &[u8]) -> (usize, StreamError) {
    let mut reader = StreamReader::new(0, LIMIT);
    reader.push(input);
    loop {
        match reader.parse() {
            Ok(true) => {}
            Ok(false) => panic!("{} is no error", input.escape_ascii()),
            Err(error) => {
                reader.push(b"*1\r\n$4\r\nPING\r\n");
                assert_eq!(reader.parse(), Err(error), "the error stays");
                return (reader.len(), error);
            }
        }
    }
}

#[test]
fn it_does_not_matter_where_the_stream_is_cut() {
    let commands =
        [words("SELECT 0"), words("SET k v"), vec![b"PING".to_vec(), b"\r\n*1\r\n".to_vec()]];
    let mut stream = b"\n".to_vec();
    for command in &commands {
        stream.extend_from_slice(&encode(command));
        stream.extend_from_slice(b"\r\n\n*0\r\n");
    }
    for at in cuts(stream.len()) {
        for release in [0, 1, 2, 100] {
            let given = read(Pieces::cut(&stream, &at, true), |_| release);
            let expected = Given { commands: commands.to_vec(), bytes: stream.clone() };
            assert_eq!(given, expected, "{at:?} {release}");
        }
    }
}

#[test]
fn bare_newlines_are_items_without_words() {
    let mut reader = StreamReader::new(7, LIMIT);
    reader.push(b"\n\r\n\r");
    assert_eq!(reader.parse(), Ok(true));
    assert_eq!(reader.parse(), Ok(false));
    reader.push(b"\n*1\r\n$4\r\nPING\r\n");
    assert_eq!(reader.parse(), Ok(true));
    assert_eq!(reader.parse(), Ok(true));
    assert_eq!(reader.parse(), Ok(false));
    let items: Vec<_> = reader.items().map(|item| (format!("{item:?}"), item.offset())).collect();
    let expected = [("[]", 10), ("[]", 12), ("[\"PING\"]", 26)];
    assert_eq!(items, expected.map(|(words, offset)| (words.to_owned(), offset)));
    assert_eq!((reader.offset(), reader.received()), (7, 26));
    reader.release(2);
    assert_eq!((reader.offset(), reader.len(), reader.item(0).bytes().len()), (12, 1, 14));
}

#[test]
fn what_is_no_command_is_an_error() {
    assert_eq!(error(b"PING\r\n"), (0, StreamError::ExpectedArray(b'P')));
    assert_eq!(error(b"\n\rx"), (1, StreamError::ExpectedArray(b'\r')));
    assert_eq!(error(b"*1\r\n$1\r\na\r\n+OK\r\n"), (1, StreamError::ExpectedArray(b'+')));
    assert_eq!(error(b" \n"), (0, StreamError::ExpectedArray(b' ')));
    assert_eq!(error(b"*0\r\nPING\r\n"), (1, StreamError::ExpectedArray(b'P')));
    let count = StreamError::Protocol(ProtocolError::InvalidCount);
    for line in ["*-1\r\n", "*x\r\n", "*2147483648\r\n", "*00\r\n", "*\r\n"] {
        assert_eq!(error(line.as_bytes()), (0, count), "{line}");
    }
    let bulk = StreamError::Protocol(ProtocolError::ExpectedBulk(b':'));
    assert_eq!(error(b"*2\r\n$1\r\na\r\n:1\r\n"), (0, bulk));
    let length = StreamError::Protocol(ProtocolError::InvalidLength);
    assert_eq!(error(b"*1\r\n$-1\r\n"), (0, length));
    assert_eq!(error(b"*1\r\n$9223372036854775807\r\n"), (0, length));
}

#[test]
fn a_command_longer_than_the_limit_is_an_error() {
    let too_long = StreamError::TooLong { limit: LIMIT };
    let padding = |length: usize| encode(&[vec![b'x'; length]]);
    let fitting = padding(LIMIT - 16);
    assert_eq!(fitting.len(), LIMIT);
    assert_eq!(read(Pieces::cut(&fitting, &[LIMIT / 2], false), |_| 0).bytes.len(), LIMIT);
    assert_eq!(error(&[b"\n", &padding(LIMIT - 15)[..]].concat()), (1, too_long));
    assert_eq!(error(b"*1\r\n$1048561\r\n"), (0, too_long));
    assert_eq!(error(b"*1\r\n$4611686018427387903\r\n"), (0, too_long));
}

#[test]
fn a_length_that_lies_takes_no_memory() {
    for line in ["*1\r\n$999999999\r\nabc", "*2147483647\r\n$1\r\na\r\n"] {
        let mut reader = StreamReader::new(0, usize::MAX);
        reader.push(line.as_bytes());
        assert_eq!(reader.parse(), Ok(false));
        while reader.received() < 200_000 {
            reader.read_from(&mut io::repeat(b'x')).unwrap();
            let _ = reader.parse();
        }
        assert!(reader.memory() < 1 << 20, "{}", reader.memory());
    }
}

#[test]
fn endless_lines_end_at_the_limit_of_a_line() {
    for begin in ["*", "*1", "*1\r\n$", "*1\r\n$1"] {
        let mut reader = StreamReader::new(0, LIMIT);
        reader.push(begin.as_bytes());
        let error = loop {
            if let Err(error) = reader.parse() {
                break error;
            }
            reader.read_from(&mut io::repeat(b'1')).unwrap();
        };
        assert!(matches!(error, StreamError::Protocol(_)), "{error}");
        assert!(reader.memory() < 1 << 19, "{}", reader.memory());
    }
}

#[test]
fn memory_follows_what_is_held_and_is_given_back() {
    let big = encode(&[vec![b'x'; 10 << 20]]);
    let many = encode(&vec![b"x"; 200_000]);
    let small = encode(&[b"PING"]).repeat(1000);
    let mut input = big.chain(&many[..]).chain(&small[..]);
    let (mut reader, mut most) = (StreamReader::new(0, usize::MAX), 0);
    while reader.read_from(&mut input).unwrap() > 0 {
        while reader.parse().unwrap() {}
        most = reader.memory().max(most);
        reader.release(reader.len());
    }
    assert!(most <= 11 << 20, "{most}");
    reader.push(&small.repeat(100));
    while reader.parse().unwrap() {}
    reader.release(reader.len());
    reader.push(b"\n");
    assert!(reader.memory() < 1 << 19, "{}", reader.memory());
}

/// Input whose every second read is interrupted by a signal.
struct Interrupted<'a>(&'a [u8], bool);

impl Read for Interrupted<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.1 = !self.1;
        if self.1 { Err(ErrorKind::Interrupted.into()) } else { self.0.read(out) }
    }
}

#[test]
fn an_interrupted_read_is_tried_again() {
    let mut reader = StreamReader::new(0, LIMIT);
    assert_eq!(reader.read_from(&mut Interrupted(b"*1\r\n", false)).unwrap(), 4);
}

#[test]
fn a_stream_that_is_released_behind_an_open_transaction_needs_little_memory() {
    let command = encode(&[b"SET".to_vec(), b"key".to_vec(), vec![b'v'; 500]]);
    let stream = command.repeat(20_000);
    let (mut input, mut reader) = (&stream[..], StreamReader::new(0, LIMIT));
    let (mut items, mut most) = (0, 0);
    while reader.read_from(&mut input).unwrap() > 0 {
        while reader.parse().unwrap() {}
        most = reader.memory().max(most);
        let count = reader.len() / 2;
        items += count;
        reader.release(count);
    }
    assert_eq!(items + reader.len(), 20_000);
    assert!(most < 1 << 20, "{most}");
}

fn command() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let word = prop_oneof![
        8 => prop::collection::vec(any::<u8>(), 0..20),
        1 => (0..40_000usize).prop_map(|length| vec![b'\n'; length]),
    ];
    prop::collection::vec(word, 1..12)
}

proptest! {
    #[test]
    fn a_stream_is_given_as_it_is(
        commands in prop::collection::vec((command(), "[\\n]{0,2}(\\r\\n)?"), 0..20),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        times_out in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let mut bytes = Vec::new();
        for (command, blank) in &commands {
            bytes.extend_from_slice(&encode(command));
            bytes.extend_from_slice(blank.as_bytes());
        }
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        at.sort_unstable();
        let mut random = fastrand::Rng::with_seed(seed);
        let input = Pieces::cut(&bytes, &at, times_out);
        let given = read(input, |held| random.usize(..=held));
        let commands = commands.into_iter().map(|(command, _)| command).collect();
        prop_assert_eq!(given, Given { commands, bytes: bytes.clone() });
    }

    #[test]
    fn no_input_panics(input in "[*$0-9\\r\\n a-]{0,60}", at in any::<prop::sample::Index>()) {
        let (first, second) = input.as_bytes().split_at(at.index(input.len() + 1));
        let mut reader = StreamReader::new(0, 50);
        for piece in [first, second] {
            reader.push(piece);
            while let Ok(true) = reader.parse() {}
        }
        let held: usize = reader.items().map(|item| item.bytes().len()).sum();
        prop_assert!(held <= input.len());
        reader.release(reader.len());
    }
}
