//! A dump as a source, wherever its bytes come from.

use std::cell::RefCell;
use std::io::{self, Read};
use std::rc::Rc;

use rdb::Reader;

use super::origin::{DumpStream, Origin};
use super::{Key, Progress, Record, Source, TransferError, unix_ms};
use crate::dump::LONGEST;

/// The stream, for the reader and for what is asked of it after an error.
struct Shared(Rc<RefCell<DumpStream>>);

impl Read for Shared {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.borrow_mut().read(into)
    }
}

/// A dump that is read.
pub(super) struct RdbFile {
    stream: Rc<RefCell<DumpStream>>,
    reader: Reader<Shared>,
    database: u64,
    keys: u64,
    total: u64,
    counts_bytes: bool,
}

impl RdbFile {
    pub(super) fn open(origin: &Origin) -> Result<RdbFile, TransferError> {
        let stream = DumpStream::open(origin)?;
        let DumpStream { total, counts_bytes, .. } = stream;
        let stream = Rc::new(RefCell::new(stream));
        let reader = Reader::new(Shared(Rc::clone(&stream)), LONGEST);
        let reader = reader.map_err(|error| stream.borrow_mut().why(error))?;
        Ok(RdbFile { stream, reader, database: 0, keys: 0, total, counts_bytes })
    }

    fn read(&mut self) -> Result<Option<Record>, rdb::Error> {
        let now = unix_ms();
        loop {
            match self.reader.next()? {
                rdb::Record::Function(source) => return Ok(Some(Record::Library(source))),
                rdb::Record::Database(number) => self.database = number,
                // Its value is passed over, and verified.
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
            Ok(None) => self.stream.borrow_mut().finish().map(|()| None),
            Ok(record) => Ok(record),
            Err(error) => Err(self.stream.borrow_mut().why(error)),
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
