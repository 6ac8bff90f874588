//! The request parser never panics, gives the same commands however the stream is cut, and reads
//! flat arrays as the `redis-protocol` crate does.
//!
//! The first byte of the input says how to cut the rest, which is the stream. The oracle sees no
//! nested array, since nesting overflows its stack; and it may refuse more than we do, since Redis
//! skips two bytes after an argument unseen.

use redis_protocol::resp2::decode::decode;
use redis_protocol::resp2::types::OwnedFrame;
use resp::{Limits, Next, Parser, ProtocolError};

type Words = Vec<Vec<u8>>;

/// The body of the target.
pub(crate) fn check(data: &[u8]) {
    let Some((&seed, stream)) = data.split_first() else { return };
    let limits = Limits { authenticated: seed & 1 == 0, ..Limits::default() };
    let (commands, error) = parse(&[stream], &limits);
    let in_pieces = parse(&pieces(stream, seed), &limits);
    assert_eq!((&commands, error), (&in_pieces.0, in_pieces.1), "cutting the stream matters");

    for command in &commands {
        let encoded = encode(command);
        let frame = decode(&encoded).expect("a canonical array is read");
        assert_eq!(frame.as_ref().and_then(|(frame, _)| words(frame)).as_ref(), Some(command));
        assert_eq!(frame.map(|(_, len)| len), Some(encoded.len()));
    }
    if limits.authenticated {
        compare_first(stream, &commands);
    }
}

/// What the oracle takes for an array of bulk strings in the usual form must be our first command.
fn compare_first(stream: &[u8], commands: &[Words]) {
    if stream.first() != Some(&b'*') || stream[1..].contains(&b'*') {
        return;
    }
    let Ok(Some((frame, len))) = decode(stream) else { return };
    let Some(expected) = words(&frame).filter(|words| !words.is_empty()) else { return };
    if encode(&expected) == stream[..len] {
        assert_eq!(commands.first(), Some(&expected));
    }
}

/// Returns all commands that the pieces hold, and the error that ends them.
fn parse(pieces: &[&[u8]], limits: &Limits) -> (Vec<Words>, Option<ProtocolError>) {
    let (mut parser, mut buffer, mut commands) = (Parser::new(), Vec::new(), Vec::new());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        let end = loop {
            match parser.next(&buffer, limits) {
                Ok(Next::Command | Next::Empty) => {}
                Ok(Next::Partial { missing }) => {
                    assert!(missing > 0);
                    break None;
                }
                Err(error) => break Some(error),
            }
        };
        commands.extend(
            parser.commands(&buffer).map(|c| c.arguments().map(<[u8]>::to_vec).collect::<Words>()),
        );
        assert!(commands.iter().all(|words| !words.is_empty()));
        buffer.drain(..parser.release());
        if end.is_some() {
            return (commands, end);
        }
    }
    (commands, None)
}

/// Pieces of one byte to some dozens, as the seed says.
fn pieces(stream: &[u8], seed: u8) -> Vec<&[u8]> {
    let (mut rest, mut state, mut pieces) = (stream, u32::from(seed), Vec::new());
    while !rest.is_empty() {
        state = state.wrapping_mul(1_103_515_245).wrapping_add(12_345);
        let most = 1 << (seed >> 5);
        let (piece, following) = rest.split_at((1 + (state >> 16) as usize % most).min(rest.len()));
        pieces.push(piece);
        rest = following;
    }
    pieces
}

fn words(frame: &OwnedFrame) -> Option<Words> {
    let OwnedFrame::Array(items) = frame else { return None };
    let word = |item: &OwnedFrame| match item {
        OwnedFrame::BulkString(bytes) => Some(bytes.clone()),
        _ => None,
    };
    items.iter().map(word).collect()
}

fn encode(command: &[Vec<u8>]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", command.len()).into_bytes();
    for word in command {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
    out
}
