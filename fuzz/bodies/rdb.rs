//! Reading a dump from any bytes gives an error or values, never a panic, and no more bytes than
//! compression can account for; a value that was read reads the same from a payload that was made
//! again.
//!
//! An input that begins as a file does is one; any other is a type, a value, two bytes of version.

use rdb::{Error, Part, Reader, Record, payload, read_value};

/// Strings that are longer are refused.
const LONGEST: u64 = 1 << 20;
/// How much longer LZF can make its input, rounded up.
const LZF_MOST: usize = 100;

/// The body of the target.
pub(crate) fn check(data: &[u8]) {
    if data.starts_with(b"REDIS") || data.starts_with(b"VALKEY") {
        return drop(file(data));
    }
    let Some((body, version)) = data.split_last_chunk() else { return };
    let Ok(first) = value(body, u16::from_le_bytes(*version)) else { return };
    let again = value(body, u16::from_le_bytes(*version)).expect("what was read once");
    assert_eq!(first, again);
}

fn value(body: &[u8], version: u16) -> Result<Vec<String>, Error> {
    let mut payload_bytes = body.to_vec();
    payload::append_footer(&mut payload_bytes, version);
    let (kind, mut source) = payload::open(&payload_bytes, LONGEST)?;
    let (mut parts, mut size) = (Vec::new(), 0);
    read_value(&mut source, kind, |part| {
        size += size_of(&part);
        parts.push(format!("{part:?}"));
        Ok::<_, Error>(())
    })?;
    assert!(size <= 20 * parts.len() + LZF_MOST * body.len(), "{size} bytes out of {}", body.len());
    Ok(parts)
}

fn file(data: &[u8]) -> Result<(), Error> {
    let mut reader = Reader::new(data, LONGEST)?;
    while reader.next()? != Record::End {
        reader.value(|_| Ok::<_, Error>(()))?;
    }
    reader.ends_here().map(drop)
}

/// Bytes of strings in it. Fields of a stream's entries are stored once for a node.
fn size_of(part: &Part<'_>) -> usize {
    match part {
        Part::String(word) | Part::Element(word) | Part::Member(word) => word.len(),
        Part::Scored(member, score) => {
            assert!(!score.is_nan());
            member.len()
        }
        Part::Field(field, value, _) => field.len() + value.len(),
        _ => 0,
    }
}
