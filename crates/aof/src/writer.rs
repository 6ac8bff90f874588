//! The file that is appended to: the last incremental file, with the manifest that lists it.
//!
//! A write that fails or is cut short is undone, so that the file ends with a whole command.

use std::io;
use std::sync::Arc;

use crate::directory::write_all;
use crate::error::{Failure, OpenError, Operation};
use crate::manifest::Manifest;
use crate::options::Options;
use crate::storage::LogFile;

/// The state that only one thread at a time may use.
pub(crate) struct Writer {
    pub(crate) manifest: Manifest,
    pub(crate) file: Arc<dyn LogFile>,
    /// The file's length.
    pub(crate) len: u64,
    /// Bytes of all files before it.
    pub(crate) before: u64,
    /// The file that follows at the buffer's cut.
    pub(crate) next: Option<NextFile>,
    /// Whether the next file is listed when it is begun. It is not while the log is being switched
    /// on again, since until there is a new base there is a gap between the files of the
    /// directory's manifest and the next one.
    pub(crate) is_listed: bool,
    /// Whether the file ends with a part of a write that could not be undone.
    pub(crate) is_torn: bool,
    /// Why the rewrite that is to switch the log on has failed.
    pub(crate) stays_off: Option<Failure>,
    pub(crate) spare: Vec<u8>,
}

/// The file of a log that is switched off and was not opened: nothing is written to it.
struct NoFile;

impl LogFile for NoFile {
    fn append(&self, _: &[u8]) -> io::Result<usize> {
        Err(io::Error::other("the append-only file is switched off"))
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn truncate(&self, _: u64) -> io::Result<()> {
        Ok(())
    }
}

/// A file that is not yet listed.
pub(crate) struct NextFile {
    pub(crate) manifest: Manifest,
    pub(crate) file: Arc<dyn LogFile>,
}

impl Writer {
    /// Opens the last increment for appending. A new log gets an empty base and an increment.
    pub(crate) fn open(
        options: &Options,
        mut manifest: Manifest,
        size: u64,
    ) -> Result<Writer, OpenError> {
        options.make_folder()?;
        if manifest.is_empty() {
            let base = manifest.add_base(options, false);
            options
                .make_file(&base.file)?
                .sync()
                .map_err(|source| OpenError { path: options.path(&base.file), source })?;
            tracing::info!("Creating AOF base file {} on server start", base.file);
        }
        let (name, file) = match manifest.increments.last() {
            Some(last) => {
                let name = last.file.clone();
                tracing::info!("Opening AOF incr file {name} on server start");
                (name.clone(), options.at(&name, |path| options.storage.append_to(path))?)
            }
            None => {
                let name = manifest.add_increment(options).file;
                tracing::info!("Creating AOF incr file {name} on server start");
                (name.clone(), options.make_file(&name)?)
            }
        };
        options.sync_names()?;
        options.persist_manifest(&manifest)?;
        options.delete_history(&mut manifest);
        options.delete_unfinished();
        let len = options.at(&name, |path| options.storage.len(path))?.unwrap_or(0);
        let before = size.saturating_sub(len);
        let spare = Vec::new();
        Ok(Writer {
            manifest,
            file,
            len,
            before,
            next: None,
            is_listed: true,
            is_torn: false,
            stays_off: None,
            spare,
        })
    }

    /// Returns the writer of a log that is switched off, with the files that its directory lists.
    pub(crate) fn off(manifest: Manifest) -> Writer {
        Writer {
            manifest,
            file: Arc::new(NoFile),
            len: 0,
            before: 0,
            next: None,
            is_listed: false,
            is_torn: false,
            stays_off: None,
            spare: Vec::new(),
        }
    }

    /// Stops writing to the present file, which is listed nowhere.
    pub(crate) fn leave_file(&mut self, failure: Failure) {
        self.file = Arc::new(NoFile);
        (self.len, self.next, self.is_torn) = (0, None, false);
        self.stays_off = Some(failure);
    }

    /// Returns the bytes of all files.
    pub(crate) fn size(&self) -> u64 {
        self.before + self.len
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if bytes.is_empty() {
            return Ok(());
        }
        match write_all(&*self.file, bytes) {
            Ok(()) => {
                self.len += bytes.len() as u64;
                Ok(())
            }
            Err(error) => {
                if let Err(error) = self.file.truncate(self.len) {
                    self.is_torn = true;
                    tracing::warn!(
                        "Could not remove short write from the append-only file.  The server may \
                         refuse to load the AOF the next time it starts.  ftruncate: {error}"
                    );
                }
                Err(Failure::new(Operation::Write, &error))
            }
        }
    }
}
