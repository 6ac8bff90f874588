//! A dump as a source, wherever its bytes come from.

use rdb::Reader;

use super::origin::{DumpStream, Origin};
use super::{Key, Progress, Record, Source, TransferError, unix_ms};
use crate::dump::LONGEST;

/// A dump that is being read.
pub(super) struct RdbFile {
    reader: Reader<DumpStream>,
    database: u64,
    keys: u64,
    total: u64,
    counts_bytes: bool,
}

impl RdbFile {
    pub(super) fn open(origin: &Origin) -> Result<RdbFile, TransferError> {
        let stream = DumpStream::open(origin)?;
        let DumpStream { total, counts_bytes, .. } = stream;
        let reader = Reader::open(stream, LONGEST);
        let reader = reader.map_err(|(error, mut stream)| stream.why(error))?;
        Ok(RdbFile { reader, database: 0, keys: 0, total, counts_bytes })
    }

    fn read(&mut self) -> Result<Option<Record>, rdb::Error> {
        let now = unix_ms();
        loop {
            match self.reader.next()? {
                rdb::Record::Function(source) => return Ok(Some(Record::Library(source))),
                rdb::Record::Database(number) => self.database = number,
                // Its value is verified and skipped.
                rdb::Record::Key { expires: Some(time), .. } if time <= now => self.keys += 1,
                rdb::Record::Key { key, expires, .. } => {
                    self.keys += 1;
                    let payload = self.reader.payload()?.unwrap_or_default();
                    let database = self.database;
                    return Ok(Some(Record::Key(Key { database, name: key, expires, payload })));
                }
                rdb::Record::End => return Ok(None),
                _ => {}
            }
        }
    }
}

impl Source for RdbFile {
    fn next(&mut self) -> Result<Option<Record>, TransferError> {
        match self.read() {
            Ok(None) => self.reader.get_mut().finish().map(|()| None),
            Ok(record) => Ok(record),
            Err(error) => Err(self.reader.get_mut().why(error)),
        }
    }

    fn progress(&self) -> Progress {
        let done = if self.counts_bytes { self.reader.at() } else { self.keys };
        Progress { done, total: self.total }
    }

    fn counts_bytes(&self) -> bool {
        self.counts_bytes
    }
}
