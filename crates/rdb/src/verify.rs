//! Verifies a dump without reading what it says, for whoever has something to lose by loading it.

use std::io::Read;

use crate::checksum;
use crate::reader::{END, FIRST_CHECKSUM, head};
use crate::{Error, Source};

const HEAD: usize = 9;
const CHECKSUM: usize = 8;
/// Bytes that are read at once.
const CHUNK: usize = 128 << 10;

/// Reads a dump, after which nothing follows: verifies its head, and from the version on that has
/// them, its end and its checksum (not without `has_checksum`).
pub fn verify(mut from: impl Read, has_checksum: bool) -> Result<(), Error> {
    let mut bytes = Vec::new();
    append(&mut from, HEAD, &mut bytes)?;
    let (_, version) = head(&mut Source::new(&bytes[..], 0, 0))?;
    let mut found = checksum::begin();
    let (mut last, mut at) = (0, bytes.len() as u64);
    loop {
        // The last bytes are the checksum of those before them.
        let kept = bytes.len();
        append(&mut from, CHUNK, &mut bytes)?;
        if bytes.len() == kept {
            break;
        }
        at += (bytes.len() - kept) as u64;
        let sum_at = bytes.len().saturating_sub(CHECKSUM);
        found.update(&bytes[..sum_at]);
        last = bytes[..sum_at].last().copied().unwrap_or(last);
        bytes.drain(..sum_at);
    }
    let Ok(expected) = bytes.try_into().map(u64::from_le_bytes) else {
        return Err(Error::Cut { at });
    };
    if version < FIRST_CHECKSUM {
        return Ok(());
    }
    if last != END {
        return Err(Error::Cut { at });
    }
    let found = found.finalize();
    match has_checksum && expected != 0 && expected != found {
        true => Err(Error::Checksum { expected, found }),
        false => Ok(()),
    }
}

/// Appends the next bytes, `most` of them unless there are fewer.
fn append(from: &mut impl Read, most: usize, to: &mut Vec<u8>) -> Result<(), Error> {
    from.take(most as u64).read_to_end(to).map(drop).map_err(Error::Io)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FileWriter, Kind, Writer};

    fn dump(keys: usize, has_checksum: bool) -> Vec<u8> {
        let mut file = FileWriter::new(Vec::new(), false, has_checksum);
        file.begin().expect("memory");
        for number in 0..keys {
            let key = format!("key:{number}");
            file.key(key.as_bytes(), None, None, Kind::String).expect("memory");
            let value: &mut Writer<Vec<u8>> = file.value();
            value.string(&[b'v'; 1000]).expect("memory");
        }
        file.end().expect("memory")
    }

    #[test]
    fn a_sound_dump_of_any_length_is_accepted() {
        for keys in [0, 1, 127, 128, 129, 300] {
            for has_checksum in [false, true] {
                verify(&dump(keys, has_checksum)[..], true).expect("a sound dump");
            }
        }
    }

    #[test]
    fn each_changed_byte_is_noticed_and_each_cut() {
        let sound = dump(2, true);
        for at in 0..sound.len() {
            let mut changed = sound.clone();
            changed[at] ^= 0x55;
            let error = verify(&changed[..], true).expect_err("a changed byte");
            let is_named = match (at, &error) {
                (..5, Error::Magic { .. }) | (5..9, Error::Version { .. }) => true,
                (9.., Error::Checksum { .. }) => true,
                (9.., Error::Cut { .. }) => at == sound.len() - CHECKSUM - 1,
                _ => false,
            };
            assert!(is_named, "{at}: {error}");
            assert!(verify(&sound[..at], true).is_err(), "cut at {at}");
        }
        let mut changed = sound.clone();
        changed[20] ^= 1;
        verify(&changed[..], false).expect("nobody wants to know");
    }
}
