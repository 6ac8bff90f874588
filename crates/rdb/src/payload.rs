//! The replies of DUMP, which RESTORE takes: a type, a value, the version of the format and a
//! checksum. A reply of FUNCTION DUMP ends in the same way; its records are libraries.

use crate::reader::FUNCTION;
use crate::{Error, Kind, Source, checksum, is_known_version};

/// Bytes after the value: the version and the checksum.
pub const FOOTER: usize = 2 + 8;

/// Verifies a payload. Returns its type and the source of its value. Strings of more than `longest`
/// bytes are refused.
pub fn open(payload: &[u8], longest: u64) -> Result<(Kind, Source<&[u8]>), Error> {
    open_verified(payload, longest, true)
}

/// Does the same; without `verifies` the checksum is ignored.
pub fn open_verified(
    payload: &[u8],
    longest: u64,
    verifies: bool,
) -> Result<(Kind, Source<&[u8]>), Error> {
    let (body, version) = verify(payload, verifies)?;
    let mut source = Source::new(body, version, longest);
    let kind = source.byte().map_err(|_| Error::Empty { at: 0 })?;
    let kind = Kind::of(kind, version).ok_or(Error::Type { kind, at: 0 })?;
    Ok((kind, source))
}

/// Verifies a reply of FUNCTION DUMP, and shows the source of each library in it. Code of more than
/// `longest` bytes is refused, and so is any other record, by its number ([`Error::Type`]).
pub fn functions<E: From<Error>>(
    payload: &[u8],
    longest: u64,
    mut show: impl FnMut(Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    let (body, version) = verify(payload, true)?;
    let mut source = Source::new(body, version, longest);
    loop {
        let at = source.at();
        match source.byte() {
            Ok(FUNCTION) => show(source.string()?)?,
            Ok(kind) => return Err(Error::Type { kind, at }.into()),
            Err(Error::Cut { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Verifies the version and, with `verifies`, the checksum. Returns the bytes before them, and the
/// version.
fn verify(payload: &[u8], verifies: bool) -> Result<(&[u8], u16), Error> {
    let at = payload.len() as u64;
    let (rest, expected) = payload.split_last_chunk().ok_or(Error::Cut { at })?;
    let (body, version) = rest.split_last_chunk().ok_or(Error::Cut { at })?;
    let version = u16::from_le_bytes(*version);
    if !is_known_version(version) {
        return Err(Error::Version { version });
    }
    let (expected, found) = (u64::from_le_bytes(*expected), checksum::of(rest));
    if verifies && expected != found {
        return Err(Error::Checksum { expected, found });
    }
    Ok((body, version))
}

/// Returns true if [`open`] refused the payload itself with this error, and not its content.
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
