//! A dump reads the same whatever pieces its bytes come in, and the bytes after it stay.

use std::io::{self, BufRead, BufReader, Read};

use rdb::{Error, FileWriter, Reader, Record};

use crate::bad_input::samples;

const LONGEST: u64 = 16 << 20;
const AFTER: &[u8] = b"*1\r\n$4\r\nPING\r\n";

/// Returns a dump of all samples that Redis's format can contain, with its checksum, and commands
/// after it.
fn dump() -> Vec<u8> {
    let mut file = FileWriter::new(Vec::new(), true, true);
    let mut write = || {
        file.begin()?;
        file.aux(b"name", &[b'x'; 300])?;
        for (number, (kind, value)) in samples().iter().enumerate() {
            if rdb::Kind::of(kind.number(), rdb::VERSION) == Some(*kind) {
                file.key(format!("key:{number}").as_bytes(), Some(1), None, *kind)?;
                file.copy(&mut &value[..])?;
            }
        }
        Ok::<_, io::Error>(())
    };
    write().expect("memory takes everything");
    [&file.end().expect("memory takes everything")[..], AFTER].concat()
}

/// The ways in which the values of a dump are read.
#[derive(Clone, Copy, Debug)]
enum Way {
    Parts,
    Payload,
    Frame,
    /// Framed in part, and then read.
    LargeFrame,
    PassedOver,
}

/// Reads a dump, and the bytes after it.
fn read(mut from: impl BufRead, way: Way) -> Result<Vec<String>, Error> {
    let mut reader = Reader::new(&mut from, LONGEST)?;
    let mut found = Vec::new();
    loop {
        let record = reader.next()?;
        found.push(format!("{record:?} until {}", reader.at()));
        if record == Record::End {
            break;
        }
        let mut bytes = Vec::new();
        match way {
            Way::Parts => {}
            Way::Payload => found.push(format!("{:?}", reader.payload()?)),
            Way::Frame => {
                let frame = reader.frame(&mut bytes, usize::MAX)?;
                found.push(format!("{frame:?} {bytes:?}"));
            }
            Way::LargeFrame => assert!(reader.frame(&mut bytes, 2)?.is_none() || bytes.len() <= 2),
            Way::PassedOver => continue,
        }
        reader.value(|part| {
            found.push(format!("{part:?}"));
            Ok::<_, Error>(())
        })?;
    }
    let mut after = Vec::new();
    from.read_to_end(&mut after).map_err(Error::Io)?;
    assert_eq!(after, AFTER, "{way:?}");
    Ok(found)
}

/// Returns one byte at a time, and is interrupted before each.
struct Slow<'b>(&'b [u8], bool);

impl Read for Slow<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.1 = !self.1;
        if self.1 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let len = into.len().min(1);
        self.0.read(&mut into[..len])
    }
}

#[test]
fn the_size_of_the_buffer_does_not_matter() {
    let dump = dump();
    for way in [Way::Parts, Way::Payload, Way::Frame, Way::LargeFrame, Way::PassedOver] {
        let expected = read(&dump[..], way).expect("a dump");
        assert!(expected.len() > 10);
        for capacity in (1..40).chain([64, 255, 256, 257, 1000]) {
            let buffer = BufReader::with_capacity(capacity, &dump[..]);
            assert_eq!(read(buffer, way).expect("a dump"), expected, "{way:?}, {capacity} bytes");
        }
        let slow = BufReader::new(Slow(&dump, false));
        assert_eq!(read(slow, way).expect("a dump"), expected, "{way:?}, slowly");
    }
}

/// Fails after some bytes.
struct Failing<'b>(&'b [u8]);

impl Read for Failing<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.0.read(into)? {
            0 => Err(io::ErrorKind::TimedOut.into()),
            read => Ok(read),
        }
    }
}

#[test]
fn a_source_that_fails_is_an_error_of_its_own() {
    let dump = dump();
    for end in (0..dump.len() - AFTER.len()).step_by(7) {
        for capacity in [1, 8, 1 << 20] {
            let failing = BufReader::with_capacity(capacity, Failing(&dump[..end]));
            let read = read(failing, Way::Parts);
            let is_timeout = |error: &io::Error| error.kind() == io::ErrorKind::TimedOut;
            assert!(matches!(&read, Err(Error::Io(error)) if is_timeout(error)), "{read:?}");
        }
    }
}

#[test]
fn what_has_no_head_comes_back_whole() {
    let (error, mut from) = Reader::open(&b"REDIX0011 and more"[..], LONGEST).expect_err("none");
    assert!(matches!(error, Error::Magic { .. }), "{error:?}");
    let mut left = Vec::new();
    from.read_to_end(&mut left).expect("memory");
    assert_eq!(left, b"REDIX0011 and more");
}
