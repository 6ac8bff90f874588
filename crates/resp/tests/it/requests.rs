//! The request parser: accepted and refused requests, and independence of where the stream is cut.

use proptest::prelude::*;
use redis_protocol::resp2::decode::decode;
use redis_protocol::resp2::types::OwnedFrame;
use resp::{BIG_BULK, Limits, Next, Parser, ProtocolError};

/// The commands in a stream, and how it ends.
type Outcome = (Vec<Vec<Vec<u8>>>, Result<Next, ProtocolError>);

/// Feeds the pieces one after another through a buffer that drops parsed bytes, like a connection.
fn parse(pieces: &[&[u8]], limits: &Limits) -> Outcome {
    let (mut parser, mut buffer, mut commands) = (Parser::new(), Vec::new(), Vec::new());
    let mut last = Ok(Next::Partial { missing: 1 });
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            last = parser.next(&buffer, limits);
            if !matches!(last, Ok(Next::Command | Next::Empty)) {
                break;
            }
        }
        for command in parser.commands(&buffer) {
            commands.push(command.arguments().map(<[u8]>::to_vec).collect());
        }
        buffer.drain(..parser.release());
        if last.is_err() {
            break;
        }
    }
    (commands, last)
}

fn parse_whole(input: &[u8]) -> Outcome {
    parse(&[input], &Limits::default())
}

#[track_caller]
fn check(input: &[u8], expected: &[&[&str]]) {
    let (commands, end) = parse_whole(input);
    let shown: Vec<Vec<_>> =
        commands.iter().map(|c| c.iter().map(|a| String::from_utf8_lossy(a)).collect()).collect();
    assert_eq!(shown, expected, "{}", input.escape_ascii());
    assert_eq!(end, Ok(Next::Partial { missing: 1 }));
}

#[track_caller]
fn refused(input: &[u8], limits: &Limits, expected: ProtocolError) {
    let (commands, end) = parse(&[input], limits);
    assert_eq!((commands.len(), end), (0, Err(expected)), "{}", input.escape_ascii());
}

fn encode(command: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", command.len()).into_bytes();
    for argument in command {
        out.extend_from_slice(format!("${}\r\n", argument.as_ref().len()).as_bytes());
        out.extend_from_slice(argument.as_ref());
        out.extend_from_slice(b"\r\n");
    }
    out
}

#[test]
fn arrays_and_lines_may_alternate() {
    check(
        b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\nPING\r\nSET a \"b c\"\n*1\r\n$4\r\nPING\r\n",
        &[&["GET", "k"], &["PING"], &["SET", "a", "b c"], &["PING"]],
    );
}

#[test]
fn empty_commands_are_skipped() {
    check(b"*0\r\n*-1\r\n*-99\r\n\r\n\n   \r\nPING\r\n", &[&["PING"]]);
}

#[test]
fn empty_commands_are_given_back_and_a_call_skips_few() {
    let limits = Limits::default();
    for empty in ["\n", "\r\n", "      \n", "*0\r\n", "*-1\r\n"] {
        let (mut parser, mut input) = (Parser::new(), empty.repeat(100_000).into_bytes());
        input.extend_from_slice(b"*1\r\n$4");
        let mut calls = 0;
        while parser.next(&input, &limits) == Ok(Next::Empty) {
            calls += 1;
            let gone = parser.release();
            assert!((4096..4096 + 8).contains(&gone), "{gone} bytes by one call");
            input.drain(..gone);
        }
        assert!(calls >= 20, "{calls} calls");
        input.drain(..parser.release());
        assert_eq!(input, b"*1\r\n$4");
    }
}

#[test]
fn a_length_is_refused_when_the_rights_are_lost_after_it() {
    let (mut parser, input) = (Parser::new(), b"*1\r\n$20000\r\n");
    assert!(parser.next(input, &Limits::default()).is_ok());
    let stranger = Limits { authenticated: false, ..Limits::default() };
    assert_eq!(parser.next(input, &stranger), Err(ProtocolError::UnauthenticatedLength));
}

#[test]
fn an_argument_may_hold_anything() {
    check(b"*3\r\n$0\r\n\r\n$2\r\n\r\n\r\n$4\r\n*1\r\n\r\n", &[&["", "\r\n", "*1\r\n"]]);
    check(b"\"\"\r\n", &[&[""]]);
}

#[test]
fn a_long_argument_says_how_much_is_missing() {
    let limits = Limits::default();
    let (mut parser, mut input) = (Parser::new(), format!("*1\r\n${BIG_BULK}\r\n").into_bytes());
    assert_eq!(parser.next(&input, &limits), Ok(Next::Partial { missing: BIG_BULK + 2 }));
    input.resize(input.len() + BIG_BULK, b'x');
    assert_eq!(parser.next(&input, &limits), Ok(Next::Partial { missing: 2 }));
    input.extend_from_slice(b"\r\n");
    assert_eq!(parser.next(&input, &limits), Ok(Next::Command));
    assert_eq!(parser.command(0, &input)[0].len(), BIG_BULK);
    assert_eq!(parser.release(), input.len());
}

#[test]
fn release_gives_back_complete_commands_only() {
    let limits = Limits::default();
    let (mut parser, input) = (Parser::new(), b"PING\r\n*2\r\n$3\r\nGET\r\n$1\r\nk");
    assert_eq!(parser.next(input, &limits), Ok(Next::Command));
    assert_eq!(parser.next(input, &limits), Ok(Next::Partial { missing: 2 }));
    assert_eq!((parser.complete(), parser.pending(input)), (1, input.len() - 6));
    assert_eq!(parser.release(), 6);
    assert_eq!(parser.release(), 0);
    let rest = [&input[6..], b"\r\n"].concat();
    assert_eq!(parser.next(&rest, &limits), Ok(Next::Command));
    assert_eq!(parser.command(0, &rest).arguments().collect::<Vec<_>>(), [&b"GET"[..], b"k"]);
}

#[test]
fn commands_before_an_error_stand_and_the_error_stays() {
    let limits = Limits::default();
    let (mut parser, input) = (Parser::new(), b"PING\r\n*1\r\n+x\r\n");
    assert_eq!(parser.next(input, &limits), Ok(Next::Command));
    for _ in 0..2 {
        assert_eq!(parser.next(input, &limits), Err(ProtocolError::ExpectedBulk(b'+')));
    }
    assert_eq!(parser.complete(), 1);
}

#[test]
fn malformed_requests_are_refused() {
    let limits = Limits::default();
    let long = |start: &str| [start.as_bytes(), &[b'1'; 64 * 1024 + 1]].concat();
    for count in ["*abc\r\n", "*\r\n", "*1x\r\n", "*01\r\n", "*+1\r\n", "*2147483648\r\n"] {
        refused(count.as_bytes(), &limits, ProtocolError::InvalidCount);
    }
    for len in ["$-1", "$", "$x", "$01", "$536870913", "$99999999999999999999"] {
        let input = format!("*1\r\n{len}\r\n");
        refused(input.as_bytes(), &limits, ProtocolError::InvalidLength);
    }
    refused(b"*1\r\n:1\r\n", &limits, ProtocolError::ExpectedBulk(b':'));
    refused(b"*1\r\n*1\r\n", &limits, ProtocolError::ExpectedBulk(b'*'));
    refused(b"*1\r\n\r\n", &limits, ProtocolError::ExpectedBulk(b'\r'));
    refused(b"GET \"k\r\n", &limits, ProtocolError::UnbalancedQuotes);
    refused(&long("*"), &limits, ProtocolError::CountTooLong);
    refused(&long("*1\r\n$"), &limits, ProtocolError::LengthTooLong);
    refused(&long("GET "), &limits, ProtocolError::InlineTooLong);
}

#[test]
fn a_stranger_gets_little() {
    let stranger = Limits { authenticated: false, ..Limits::default() };
    refused(b"*11\r\n", &stranger, ProtocolError::UnauthenticatedCount);
    refused(b"*1\r\n$16385\r\n", &stranger, ProtocolError::UnauthenticatedLength);
    let (_, end) = parse(&[b"*10\r\n$16384\r\n"], &stranger);
    assert_eq!(end, Ok(Next::Partial { missing: 16386 }));
}

#[test]
fn the_limit_of_an_argument_can_be_moved() {
    let small = Limits { max_bulk: 10, ..Limits::default() };
    refused(b"*1\r\n$11\r\n", &small, ProtocolError::InvalidLength);
    assert_eq!(parse(&[b"*1\r\n$10\r\n"], &small).1, Ok(Next::Partial { missing: 12 }));
    let endless = Limits { max_bulk: usize::MAX, ..Limits::default() };
    assert!(parse(&[b"*1\r\n$9223372036854775807\r\n"], &endless).1.is_ok());
}

#[test]
fn nesting_is_no_recursion() {
    let nested = b"*1\r\n".repeat(100_000);
    refused(&nested, &Limits::default(), ProtocolError::ExpectedBulk(b'*'));
}

fn command() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let argument = prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..40),
        2 => "[*$\r\n0-9]{0,12}".prop_map(String::into_bytes),
        1 => (90usize..11_000).prop_map(|len| vec![b'v'; len]),
    ];
    prop::collection::vec(argument, 1..6)
}

/// Generates a stream of complete commands, empty ones, lines, and sometimes garbage.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        8 => command().prop_map(|command| encode(&command)),
        2 => "[a-c'\"\\\\x ]{0,12}\r?\n".prop_map(String::into_bytes),
        1 => "\\*(0|-1|00|12|x)\r\n".prop_map(String::into_bytes),
        1 => "\\*1\r\n[$:x]?[0-9]{0,3}\r\n".prop_map(String::into_bytes),
    ];
    prop::collection::vec(part, 0..8).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn commands_are_what_was_sent(commands in prop::collection::vec(command(), 0..8)) {
        let input: Vec<u8> = commands.iter().flat_map(|command| encode(command)).collect();
        prop_assert_eq!(parse_whole(&input).0, commands);
    }

    #[test]
    fn it_does_not_matter_where_the_stream_is_cut(
        input in stream(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(input.len() + 1)).collect();
        cuts.extend([0, input.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|w| &input[w[0]..w[1]]).collect();
        prop_assert_eq!(parse(&pieces, &Limits::default()), parse_whole(&input));
    }

    #[test]
    fn single_bytes_are_enough(input in stream()) {
        let pieces: Vec<&[u8]> = input.chunks(1).collect();
        let (commands, end) = parse(&pieces, &Limits::default());
        let whole = parse_whole(&input);
        prop_assert_eq!((commands, end.is_err()), (whole.0, whole.1.is_err()));
    }

    #[test]
    fn the_redis_protocol_crate_reads_flat_arrays_alike(command in command()) {
        let input = encode(&command);
        let (frame, len) = decode(&input).expect("well formed").expect("complete");
        let expected = command.iter().cloned().map(OwnedFrame::BulkString).collect();
        prop_assert_eq!((frame, len), (OwnedFrame::Array(expected), input.len()));
        prop_assert_eq!(parse_whole(&input).0, vec![command]);
    }

    #[test]
    fn any_bytes_come_to_an_end(input in prop::collection::vec(any::<u8>(), 0..600)) {
        let _ = parse_whole(&input);
        let _ = parse_whole(&[b"*2\r\n$3\r\nGET\r\n", &input[..]].concat());
    }
}
