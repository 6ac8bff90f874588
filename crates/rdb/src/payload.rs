//! What DUMP answers and RESTORE takes: a type, a value, the version of the format and a checksum.

use crate::{Error, Kind, Source, checksum, is_known_version};

/// Bytes behind the value: the version and the checksum.
const FOOTER: usize = 2 + 8;

/// Verifies a payload; its type, and where its value is read from. A string of more than `longest`
/// bytes is refused.
pub fn open(payload: &[u8], longest: u64) -> Result<(Kind, Source<&[u8]>), Error> {
    let at = payload.len() as u64;
    let (rest, expected) = payload.split_last_chunk().ok_or(Error::Cut { at })?;
    let (body, version) = rest.split_last_chunk().ok_or(Error::Cut { at })?;
    let version = u16::from_le_bytes(*version);
    if !is_known_version(version) {
        return Err(Error::Version { version });
    }
    let (expected, found) = (u64::from_le_bytes(*expected), checksum::of(rest));
    if expected != found {
        return Err(Error::Checksum { expected, found });
    }
    let mut source = Source::new(body, version, longest);
    let kind = source.byte().map_err(|_| Error::Empty { at: 0 })?;
    let kind = Kind::of(kind, version).ok_or(Error::Type { kind, at: 0 })?;
    Ok((kind, source))
}

/// Returns true if this is why [`open`] refused the payload itself, not what is in it.
pub fn is_refused(error: &Error) -> bool {
    matches!(error, Error::Version { .. } | Error::Checksum { .. } | Error::Cut { .. })
}

/// Completes the payload of a type and a value.
pub fn append_footer(payload: &mut Vec<u8>, version: u16) {
    payload.reserve(FOOTER);
    payload.extend_from_slice(&version.to_le_bytes());
    let checksum = checksum::of(payload);
    payload.extend_from_slice(&checksum.to_le_bytes());
}
