//! A dump in Valkey's own version of the format: Valkey 9 has its own type for a hash whose fields
//! expire, and refuses that of Redis 7.4.
//!
//! Values are copied unchanged from any source: the types that Redis 7.0 writes mean the same
//! there. Only such a hash is decoded and rebuilt.

use std::io::{self, Write};

use rdb::{FileWriter, Kind, Part, Writer};

use super::{Key, Record, Source, TransferError, WriteError, export};
use crate::dump::LONGEST;
use crate::progress::Watched;

/// Writes all data of a source as a dump for Valkey 9. Returns how many keys that was.
pub(super) fn write_dump(
    source: &mut dyn Source,
    out: &mut dyn Write,
    quiet: bool,
) -> Result<u64, TransferError> {
    let mut watched = Watched::new(source.progress().total, source.counts_bytes(), quiet);
    let mut file = FileWriter::new(out, true, true);
    file.begin_valkey()?;
    let (mut database, mut keys) = (None, 0);
    while let Some(record) = source.next()? {
        match record {
            Record::Library(code) => file.function(&code)?,
            Record::Key(key) => {
                if database != Some(key.database) {
                    file.database(key.database)?;
                    database = Some(key.database);
                }
                write_key(&mut file, &key).map_err(|error| export::failure(&key, error))?;
                keys += 1;
            }
        }
        file.flush_full()?;
        watched.set(source.progress().done);
    }
    file.end()?;
    watched.finish();
    Ok(keys)
}

fn write_key<W: Write>(file: &mut FileWriter<W>, key: &Key) -> Result<(), WriteError> {
    let (kind, mut source) = rdb::payload::open(&key.payload, LONGEST)?;
    let has_times = matches!(
        kind,
        Kind::HashExpiring
            | Kind::HashExpiringOld
            | Kind::HashListpackExpiring
            | Kind::HashListpackExpiringOld
    );
    if !has_times {
        file.key(&key.name, key.expires, None, kind)?;
        let value = &key.payload[1..key.payload.len() - rdb::payload::FOOTER];
        return Ok(file.copy(&mut &*value)?);
    }
    let (mut body, mut fields) = (Writer::new(Vec::new(), true), 0);
    rdb::read_value(&mut source, kind, |part| {
        if let Part::Field(field, value, time) = part {
            fields += 1;
            add_field(&mut body, field, value, time)?;
        }
        Ok::<_, WriteError>(())
    })?;
    file.key(&key.name, key.expires, None, Kind::HashValkey)?;
    file.value().length(fields)?;
    Ok(file.copy(&mut &*body.into_inner())?)
}

/// Writes a field, its value, and when it expires: all bits are set for never.
fn add_field(
    body: &mut Writer<Vec<u8>>,
    field: &[u8],
    value: &[u8],
    time: Option<u64>,
) -> io::Result<()> {
    body.string(field)?;
    body.string(value)?;
    body.millis(time.unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::super::Progress;
    use super::*;

    struct Given(Vec<Record>);

    impl Source for Given {
        fn next(&mut self) -> Result<Option<Record>, TransferError> {
            Ok(self.0.pop())
        }

        fn progress(&self) -> Progress {
            Progress::default()
        }

        fn counts_bytes(&self) -> bool {
            false
        }
    }

    fn payload(kind: Kind, version: u16, value: &[u8]) -> Vec<u8> {
        let mut payload = vec![kind.number()];
        payload.extend_from_slice(value);
        rdb::payload::append_footer(&mut payload, version);
        payload
    }

    fn key(name: &[u8], expires: Option<u64>, payload: Vec<u8>) -> Record {
        Record::Key(Key { database: 3, name: name.to_vec(), expires, payload })
    }

    /// Compares with the bytes that Valkey 9 loads.
    #[test]
    fn a_hash_whose_fields_expire_has_the_type_of_valkey() {
        let mut hash = Writer::new(Vec::new(), false);
        // As Redis 7.4 writes it: the earliest time, and for each field the difference from it plus
        // one, or 0.
        hash.millis(5000).expect("memory");
        hash.length(2).expect("memory");
        for (offset, field, value) in [(2, b"f", b"v"), (0, b"g", b"w")] {
            hash.length(offset).expect("memory");
            hash.string(field).expect("memory");
            hash.string(value).expect("memory");
        }
        let hash = payload(Kind::HashExpiring, 12, &hash.into_inner());
        let text = payload(Kind::String, 10, b"\x01t");
        let mut source = Given(vec![key(b"h", None, hash), key(b"s", Some(9000), text)]);
        let mut out = Vec::new();
        let keys = write_dump(&mut source, &mut out, true).expect("memory");
        assert_eq!(keys, 2);
        let mut expected = b"VALKEY080\xfe\x03".to_vec();
        expected.extend_from_slice(b"\xfc\x28\x23\0\0\0\0\0\0\x00\x01s\x01t");
        expected.extend_from_slice(b"\x16\x01h\x02");
        expected.extend_from_slice(b"\x01f\x01v\x89\x13\0\0\0\0\0\0");
        expected.extend_from_slice(b"\x01g\x01w\xff\xff\xff\xff\xff\xff\xff\xff\xff");
        assert_eq!(out[..out.len() - 8], expected);
    }
}
