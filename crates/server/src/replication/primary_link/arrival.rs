//! A dump that arrives while this server has data: it is received into a file first, and replaces
//! the data when all of it is there and its checksum is right. A primary that goes away meanwhile,
//! or sends a dump that is damaged, costs nothing.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read, Seek, Write};
use std::path::Path;

use commands::{Engine, LoadDumpError};
use keyspace::Db;

use super::wire::{PrimaryWire, is_stopped};
use crate::config::Values;
use crate::config::choice::DisklessLoad;
use crate::process::disks;

/// Maximum of bytes that are written to the file at once.
const CHUNK: usize = 256 << 10;

/// Why a dump was not received.
#[derive(Debug, thiserror::Error)]
pub(super) enum ArrivalError {
    #[error(transparent)]
    Dump(io::Error),
    #[error(
        "its dump cannot be received into a file in this server's `dir` ({0}): the data is dropped \
         for the next one before that arrives"
    )]
    File(io::Error),
    #[error("its dump is damaged, and this server's data stays as it is: {0}")]
    Damaged(LoadDumpError),
}

/// Returns true if there is data that a dump must not replace before it is complete.
pub(super) fn keeps_data(engine: &Engine, values: &Values) -> bool {
    let keyspace = engine.keyspace();
    let has_data = || Db::all().any(|db| keyspace.count(db).0 > 0) || keyspace.libraries() > 0;
    values.repl_diskless_load != DisklessLoad::FlushBeforeLoad && has_data()
}

/// Receives a dump into an unnamed file in `folder`. It takes half of the free space there at most,
/// since the data may need the other half. `total`: its length in bytes, if that is known.
/// `report` is called with the bytes so far.
pub(super) fn receive(
    dump: &mut impl Read,
    total: Option<u64>,
    folder: &Path,
    report: &mut dyn FnMut(u64),
) -> Result<File, ArrivalError> {
    let most = disks::free(folder).map_or(u64::MAX, |free| free / 2);
    let check = |len: u64| match len <= most {
        true => Ok(()),
        false => Err(ArrivalError::File(ErrorKind::StorageFull.into())),
    };
    check(total.unwrap_or(0))?;
    let mut file = pmem::unnamed_file(folder).map_err(ArrivalError::File)?;
    let (mut bytes, mut len) = (vec![0; CHUNK], 0);
    loop {
        let count = dump.read(&mut bytes).map_err(ArrivalError::Dump)?;
        if count == 0 {
            file.rewind().map_err(ArrivalError::File)?;
            return Ok(file);
        }
        len += count as u64;
        check(len)?;
        file.write_all(&bytes[..count]).map_err(ArrivalError::File)?;
        report(len);
    }
}

/// Verifies a file with a dump, and rewinds it.
pub(super) fn verify(
    file: File,
    engine: &Engine,
    wire: &PrimaryWire,
) -> Result<File, ArrivalError> {
    let mut reader = Reader { file: Some(file), wire };
    let verified = commands::verify_dump(engine, BufReader::with_capacity(CHUNK, &mut reader));
    match verified.map_err(LoadDumpError::into_io) {
        Ok(()) => {}
        Err(Ok(error)) if is_stopped(&error) => return Err(ArrivalError::Dump(error)),
        Err(Ok(error)) => return Err(ArrivalError::File(error)),
        Err(Err(error)) => return Err(ArrivalError::Damaged(error)),
    }
    let mut file = reader.file.ok_or(ErrorKind::NotFound.into()).map_err(ArrivalError::File)?;
    file.rewind().map_err(ArrivalError::File)?;
    Ok(file)
}

/// Reads a file with a dump, if there is one. The primary is shown meanwhile that this replica
/// lives, and not blamed for its silence; if it is gone, the dump is not the worse for that.
pub(super) struct Reader<'w> {
    pub(super) file: Option<File>,
    pub(super) wire: &'w PrimaryWire,
}

impl Read for Reader<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let Some(file) = &mut self.file else { return Ok(0) };
        self.wire.was_not_read();
        match self.wire.check() {
            Err(error) if is_stopped(&error) => Err(error),
            _ => file.read(bytes).map_err(|error| {
                io::Error::new(error.kind(), format!("its file in this server's `dir`: {error}"))
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_is_received_if_there_is_space() {
        let folder = tempfile::tempdir().expect("a folder");
        let whole = vec![7; 3 * CHUNK + 5];
        let receive = |total, folder| {
            let (mut dump, mut last) = (&whole[..], 0);
            let file = receive(&mut dump, total, folder, &mut |bytes| last = bytes);
            (file, last, dump.len())
        };
        for total in [None, Some(whole.len() as u64)] {
            let (file, last, left) = receive(total, folder.path());
            let mut read = Vec::new();
            file.expect("a file").read_to_end(&mut read).expect("its bytes");
            assert!(read == whole && last == whole.len() as u64 && left == 0);
        }
        let (none, _, left) = receive(Some(u64::MAX), folder.path());
        assert!(matches!(none, Err(ArrivalError::File(_))) && left == whole.len());
        let (none, _, left) = receive(None, &folder.path().join("none"));
        assert!(matches!(none, Err(ArrivalError::File(_))) && left == whole.len());
    }
}
