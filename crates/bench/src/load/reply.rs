//! What a server answered, as far as a generator of load cares: an error, nothing, or something.
//!
//! Replies are decoded by the crate `redis-protocol`, in place. It calls itself for each level of
//! arrays in arrays, so how deep a reply goes is looked at first: a server that answers nonsense
//! must not end this program.

use std::borrow::Cow;

use redis_protocol::resp2::{decode as resp2, types::RangeFrame as Frame2};
use redis_protocol::resp3::decode::complete as resp3;
use redis_protocol::resp3::types::RangeFrame as Frame3;

/// The protocol that replies come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Resp2,
    Resp3,
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply<'a> {
    /// An error's text.
    Error(Cow<'a, str>),
    /// Anything else. A single value counts as one element.
    Value { elements: u64, nulls: u64 },
    /// Something that the server says unasked.
    Push,
}

/// Arrays in arrays deeper than this are taken as nonsense: no command replies so.
const DEEPEST: usize = 32;

/// Returns the first reply and its length in bytes; `None` while it is not all there.
///
/// # Errors
/// Bytes that are no reply.
pub(crate) fn decode(bytes: &[u8], version: Version) -> Result<Option<(Reply<'_>, usize)>, String> {
    let nonsense = |why: String| {
        let shown = &bytes[..bytes.len().min(40)];
        format!("what the server sends is no reply ({why}): \"{}\"", shown.escape_ascii())
    };
    if is_nested(bytes.first()) {
        is_shallow(bytes).then_some(()).ok_or_else(|| nonsense("nested too deep".into()))?;
    }
    match version {
        Version::Resp2 => {
            let decoded = resp2::decode_range(bytes).map_err(|e| nonsense(e.to_string()))?;
            Ok(decoded.map(|(frame, length)| (from_resp2(&frame, bytes), length)))
        }
        Version::Resp3 => {
            let decoded = resp3::decode_range(bytes).map_err(|e| nonsense(e.to_string()))?;
            Ok(decoded.map(|(frame, length)| (from_resp3(&frame, bytes), length)))
        }
    }
}

fn from_resp2<'a>(frame: &Frame2, bytes: &'a [u8]) -> Reply<'a> {
    match frame {
        Frame2::Error((from, to)) => Reply::Error(String::from_utf8_lossy(&bytes[*from..*to])),
        Frame2::Null => Reply::Value { elements: 1, nulls: 1 },
        Frame2::Array(elements) => {
            let nulls = elements.iter().filter(|element| **element == Frame2::Null).count();
            Reply::Value { elements: elements.len() as u64, nulls: nulls as u64 }
        }
        Frame2::SimpleString(_) | Frame2::Integer(_) | Frame2::BulkString(_) => {
            Reply::Value { elements: 1, nulls: 0 }
        }
    }
}

fn from_resp3<'a>(frame: &Frame3, bytes: &'a [u8]) -> Reply<'a> {
    match frame {
        Frame3::SimpleError { data, .. } | Frame3::BlobError { data, .. } => {
            Reply::Error(String::from_utf8_lossy(&bytes[data.0..data.1]))
        }
        Frame3::Null => Reply::Value { elements: 1, nulls: 1 },
        Frame3::Push { .. } => Reply::Push,
        Frame3::Array { data, .. } => {
            let nulls = data.iter().filter(|element| **element == Frame3::Null).count();
            Reply::Value { elements: data.len() as u64, nulls: nulls as u64 }
        }
        Frame3::Map { data, .. } => Reply::Value { elements: data.len() as u64, nulls: 0 },
        Frame3::Set { data, .. } => Reply::Value { elements: data.len() as u64, nulls: 0 },
        _ => Reply::Value { elements: 1, nulls: 0 },
    }
}

fn is_nested(sign: Option<&u8>) -> bool {
    matches!(sign, Some(b'*' | b'%' | b'~' | b'>' | b'|'))
}

/// Returns true if a reply, as far as it is there, is nested less deep than the limit. What is no
/// reply is left to the decoder.
fn is_shallow(bytes: &[u8]) -> bool {
    // How many elements are still to come at each level.
    let mut open: Vec<u64> = Vec::with_capacity(DEEPEST);
    let mut rest = bytes;
    while let Some((sign, line)) = rest.split_first() {
        let Some(end) = line.windows(2).position(|pair| pair == b"\r\n") else { return true };
        let number = std::str::from_utf8(&line[..end]).ok().and_then(|text| text.parse().ok());
        rest = &line[end + 2..];
        let length: u64 = number.unwrap_or(0);
        if is_nested(Some(sign)) {
            let pairs = matches!(sign, b'%' | b'|');
            // An attribute is before the reply that it speaks of.
            let extra = u64::from(*sign == b'|');
            open.push(length.saturating_mul(if pairs { 2 } else { 1 }).saturating_add(extra));
            if open.len() > DEEPEST {
                return false;
            }
        } else {
            let skipped = if matches!(sign, b'$' | b'!' | b'=') && number.is_some() {
                usize::try_from(length).unwrap_or(usize::MAX).saturating_add(2)
            } else {
                0
            };
            let Some(after) = rest.get(skipped..) else { return true };
            rest = after;
            if let Some(last) = open.last_mut() {
                *last = last.saturating_sub(1);
            }
        }
        while open.last() == Some(&0) {
            open.pop();
            if let Some(last) = open.last_mut() {
                *last = last.saturating_sub(1);
            }
        }
        if open.is_empty() {
            return true;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use Version::{Resp2, Resp3};

    #[track_caller]
    fn check(version: Version, bytes: &str, expected: &Reply<'_>) {
        let more = format!("{bytes}+NEXT\r\n");
        let decoded = decode(more.as_bytes(), version).expect("a reply");
        assert_eq!(decoded, Some((expected.clone(), bytes.len())), "{bytes:?}");
        for end in 0..bytes.len() {
            let part = decode(&bytes.as_bytes()[..end], version).expect("no nonsense");
            assert_eq!(part, None, "{:?}", &bytes[..end]);
        }
    }

    fn value(elements: u64, nulls: u64) -> Reply<'static> {
        Reply::Value { elements, nulls }
    }

    #[test]
    fn replies_are_distinguished() {
        for version in [Resp2, Resp3] {
            check(version, "+OK\r\n", &value(1, 0));
            check(version, ":12\r\n", &value(1, 0));
            check(version, "$5\r\nhe\r\no\r\n", &value(1, 0));
            check(version, "-ERR no\r\n", &Reply::Error("ERR no".into()));
            check(version, "*0\r\n", &value(0, 0));
            check(version, "*2\r\n*1\r\n:1\r\n$1\r\nx\r\n", &value(2, 0));
        }
        check(Resp2, "$-1\r\n", &value(1, 1));
        check(Resp2, "*3\r\n$-1\r\n$1\r\nx\r\n$-1\r\n", &value(3, 2));
        check(Resp3, "_\r\n", &value(1, 1));
        check(Resp3, "*2\r\n_\r\n+x\r\n", &value(2, 1));
        check(Resp3, "%1\r\n+a\r\n:1\r\n", &value(1, 0));
        check(Resp3, "~2\r\n:1\r\n:2\r\n", &value(2, 0));
        check(Resp3, ",1.5\r\n", &value(1, 0));
        check(Resp3, "#t\r\n", &value(1, 0));
        check(Resp3, "!6\r\nERR no\r\n", &Reply::Error("ERR no".into()));
        check(Resp3, ">2\r\n+message\r\n+x\r\n", &Reply::Push);
    }

    #[test]
    fn nonsense_is_named_with_what_came() {
        for bytes in ["HTTP/1.1 400 Bad Request\r\n", "$abc\r\n", "$-7\r\n", "\0\0"] {
            for version in [Resp2, Resp3] {
                let why = decode(bytes.as_bytes(), version).expect_err(bytes);
                let shown = bytes.escape_default().to_string().replace("\\u{0}", "\\x00");
                assert!(why.contains("no reply") && why.contains(&shown), "{why}");
            }
        }
    }

    #[test]
    fn what_nests_without_end_is_nonsense() {
        for part in ["*1\r\n", "*2\r\n:1\r\n"] {
            let bytes = part.repeat(20_000);
            for version in [Resp2, Resp3] {
                assert!(decode(bytes.as_bytes(), version).is_err());
            }
        }
        let deep = format!("{}:1\r\n", "*1\r\n".repeat(DEEPEST));
        check(Resp2, &deep, &value(1, 0));
    }
}
