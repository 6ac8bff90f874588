//! Copies the files of a region that no longer have a name.
//!
//! A file without links cannot get a name again (`linkat` refuses it), but it is intact while it is
//! open. A copy shares its blocks if the file system can do that; otherwise it is written without
//! its holes. It gets its name only when it is complete and synced, and replaces nothing
//! ([`NewFile`]).
//!
//! The caller makes sure that nobody writes meanwhile.

use crate::new_file::{NewFile, NewFileError};
use crate::preload::data;
use crate::region::Region;
use rustix::fs::ioctl_ficlone;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// How a file may begin that a killed process left half copied: a pool, a journal, nothing.
const BEGINS: [&[u8]; 3] = [b"PERDURA\0", b"PERDURAJ", &[0; 8]];

/// Bytes that are read at once.
const CHUNK: u64 = 1 << 20;

impl Region {
    /// Copies the region's file as it is to a path where nothing exists. If the region has a
    /// journal, that is without what has not been applied.
    pub fn copy_file(&self, to: &Path) -> Result<(), NewFileError> {
        copy(self.file.as_deref(), to)
    }

    /// Copies the file of the journal in use to a path where nothing exists.
    pub fn copy_journal(&self, to: &Path) -> Result<(), NewFileError> {
        let opened = self.journal.as_ref().and_then(|journal| journal.open_file());
        copy(opened.as_ref().map(|file| file.file()), to)
    }
}

fn copy(from: Option<&File>, to: &Path) -> Result<(), NewFileError> {
    let failed = |error| NewFileError::System { path: to.to_owned(), error };
    let from = from.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
    let new = NewFile::new(to, &BEGINS)?;
    copy_bytes(from, &new.create()?).map_err(failed)?;
    new.publish()
}

fn copy_bytes(from: &File, to: &File) -> io::Result<()> {
    let metadata = from.metadata()?;
    // If the file system refuses that, the copy stays private to its owner.
    let _ = to.set_permissions(metadata.permissions());
    if ioctl_ficlone(to, from).is_ok() {
        return Ok(());
    }
    let len = metadata.len();
    to.set_len(len)?;
    let mut buffer = vec![0; CHUNK as usize];
    let mut at = 0;
    while let Some((start, end)) = data(from, at, len)? {
        for at in (start..end).step_by(CHUNK as usize) {
            let chunk = &mut buffer[..(end - at).min(CHUNK) as usize];
            from.read_exact_at(chunk, at)?;
            to.write_all_at(chunk, at)?;
        }
        at = end;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_without_a_name_is_copied_with_its_holes_and_replaces_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let [path, to] = ["file", "copy"].map(|name| folder.path().join(name));
        let file = File::options().create_new(true).read(true).write(true).open(&path).unwrap();
        file.set_len(64 << 20).unwrap();
        file.write_all_at(&[7; 5000], (2 << 20) - 100).unwrap();
        file.write_all_at(&[8; 10], (64 << 20) - 10).unwrap();
        let expected = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        copy(Some(&file), &to).unwrap();
        assert!(fs::read(&to).unwrap() == expected);
        let blocks = |file: &File| {
            use std::os::unix::fs::MetadataExt;
            file.metadata().unwrap().blocks()
        };
        assert!(blocks(&File::open(&to).unwrap()) <= blocks(&file) + 64);
        assert!(matches!(copy(Some(&file), &to), Err(NewFileError::Exists(_))));
        assert!(copy(None, &path).is_err() && !path.exists());
    }
}
