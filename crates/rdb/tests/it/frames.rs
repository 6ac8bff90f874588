//! Values that are framed first and read later: the same as values that are read at once.

use rdb::{Error, Kind, Reader, Record};

use crate::bad_input::samples;

const LONGEST: u64 = 16 << 20;

/// Returns a dump of this value twice, without a checksum.
fn file(kind: Kind, value: &[u8]) -> Vec<u8> {
    let version: &[u8] = match kind {
        Kind::HashValkey => b"VALKEY080",
        _ => b"REDIS0012",
    };
    let key = |name: &[u8]| [&[kind.number(), name.len() as u8], name, value].concat();
    [version, &key(b"one"), &key(b"other"), &[255], &[0; 8]].concat()
}

/// The parts of all values, and the end of each; an empty collection has none.
type Values = Vec<(Vec<String>, u64)>;

fn or_empty(read: Result<(), Error>) -> Result<(), Error> {
    match read {
        Err(Error::Empty { .. }) => Ok(()),
        read => read,
    }
}

/// Reads all values at once.
fn directly(file: &[u8]) -> Result<Values, Error> {
    let mut reader = Reader::new(file, LONGEST)?;
    let mut values = Values::new();
    while reader.next()? != Record::End {
        let mut parts = Vec::new();
        or_empty(reader.value(|part| {
            parts.push(format!("{part:?}"));
            Ok(())
        }))?;
        values.push((parts, reader.at()));
    }
    Ok(values)
}

/// Frames all values of up to `most` bytes, and reads them when all are framed.
fn framed(file: &[u8], most: usize) -> Result<(Values, usize), Error> {
    let mut reader = Reader::new(file, LONGEST)?;
    let (mut bytes, mut frames, mut values) = (b"before".to_vec(), Vec::new(), Values::new());
    while reader.next()? != Record::End {
        let mut parts = Vec::new();
        let frame = reader.frame(&mut bytes, most)?;
        if frame.is_none() {
            or_empty(reader.value(|part| {
                parts.push(format!("{part:?}"));
                Ok(())
            }))?;
        }
        frames.push(frame);
        values.push((parts, reader.at()));
    }
    for (frame, (parts, _)) in frames.iter().zip(&mut values) {
        let Some(frame) = frame else { continue };
        assert!(frame.len() <= most && !frame.is_empty());
        or_empty(reader.framing().read(frame, &bytes, &mut Vec::new(), |part| {
            parts.push(format!("{part:?}"));
            Ok(())
        }))?;
    }
    Ok((values, frames.iter().flatten().count()))
}

#[test]
fn a_frame_is_what_the_value_is() {
    for (kind, value) in samples() {
        let file = file(kind, &value);
        let expected = directly(&file).expect("a dump");
        for most in 0..=value.len() + 1 {
            let (values, count) = framed(&file, most).expect("a dump");
            assert_eq!(values, expected, "{kind:?} in {most} bytes");
            assert_eq!(count, if most < value.len() { 0 } else { 2 }, "{kind:?} in {most} bytes");
        }
    }
}

#[test]
fn what_is_changed_is_the_same_error_or_value() {
    for (kind, value) in samples() {
        for at in 0..value.len() {
            for byte in [0, 1, 2, 3, 64, 128, 129, 192, 193, 194, 195, 196, 254, 255] {
                let mut changed = value.clone();
                changed[at] = byte;
                let file = file(kind, &changed);
                let expected = directly(&file).ok();
                for most in [value.len() / 2, 2 * value.len(), LONGEST as usize] {
                    let values = framed(&file, most).ok().map(|(values, _)| values);
                    assert_eq!(values, expected, "{kind:?} with {byte} at {at}, {most} bytes");
                }
            }
        }
    }
}

#[test]
fn a_cut_frame_is_an_error_and_lengths_that_lie_take_no_memory() {
    for (kind, value) in samples() {
        let file = file(kind, &value);
        for end in 0..file.len() {
            for most in [0, value.len()] {
                let cut = framed(&file[..end], most);
                assert!(matches!(cut, Err(Error::Cut { .. })), "{kind:?} cut at {end}");
            }
        }
    }
    for number in 0..26 {
        let Some(kind) = Kind::of(number, rdb::NEWEST_REDIS) else { continue };
        let lie = [&[0x81, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff][..], &[0; 64]].concat();
        assert!(framed(&file(kind, &lie), usize::MAX).is_err(), "{kind:?}");
    }
}
