//! A dump of Redis or Valkey as a source.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use rdb::Reader;

use super::{Key, Progress, Record, Source, TransferError, unix_ms};
use crate::dump::{BUFFER, LONGEST};

/// A dump that is read from its file.
pub(super) struct RdbFile {
    path: PathBuf,
    reader: Reader<BufReader<File>>,
    database: u64,
    len: u64,
}

impl RdbFile {
    pub(super) fn open(path: &Path) -> Result<RdbFile, TransferError> {
        let failed = |error| TransferError::File { path: path.into(), error };
        let file = File::open(path).map_err(failed)?;
        let len = file.metadata().map_err(failed)?.len();
        let reader = Reader::new(BufReader::with_capacity(BUFFER, file), LONGEST)
            .map_err(|error| TransferError::Dump { path: path.into(), error })?;
        Ok(RdbFile { path: path.into(), reader, database: 0, len })
    }

    fn read(&mut self) -> Result<Option<Record>, rdb::Error> {
        let now = unix_ms();
        loop {
            match self.reader.next()? {
                rdb::Record::Function(source) => return Ok(Some(Record::Library(source))),
                rdb::Record::Database(number) => self.database = number,
                // Its value is passed over, and verified.
                rdb::Record::Key { expires: Some(time), .. } if time <= now => {}
                rdb::Record::Key { key, expires, .. } => {
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
        self.read().map_err(|error| TransferError::Dump { path: self.path.clone(), error })
    }

    fn progress(&self) -> Progress {
        Progress { done: self.reader.at(), total: self.len }
    }

    fn counts_bytes(&self) -> bool {
        true
    }
}
