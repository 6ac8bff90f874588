//! The log's directory: writing the manifest, moving an old-style log into it, deleting history.
//!
//! A manifest is written next to the old one and renamed over it; after the directory was synced
//! the switch is durable. The names of the files that it lists are made durable before: a file
//! system need not keep the order of names. A failure before the rename changes nothing. After one
//! that follows it, a crash may leave either manifest: both name files that exist, since history is
//! deleted only later.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{LoadError, ManifestError, OpenError};
use crate::fault_points::FaultPoint;
use crate::manifest::{Listed, Manifest};
use crate::options::Options;
use crate::storage::LogFile;

/// The name of the new base until its rewrite is finished.
pub(crate) const TEMPORARY_BASE: &str = "temp-rewriteaof-bg.aof";

impl Options {
    fn manifest_name(&self) -> String {
        format!("{}.manifest", self.filename)
    }

    fn staged_manifest_name(&self) -> String {
        format!("temp-{}.manifest", self.filename)
    }

    /// Runs a step on a file of the log; an error names the file.
    pub(crate) fn at<T>(
        &self,
        name: &str,
        step: impl FnOnce(&Path) -> io::Result<T>,
    ) -> Result<T, OpenError> {
        let path = self.path(name);
        step(&path).map_err(|source| OpenError { path, source })
    }

    /// Returns the manifest; an empty one if there is none.
    pub(crate) fn read_manifest(&self) -> Result<Manifest, ManifestError> {
        let path = self.path(&self.manifest_name());
        let read = || -> io::Result<Option<Vec<u8>>> {
            if self.storage.len(&path)?.is_none() {
                return Ok(None);
            }
            let mut text = Vec::new();
            self.storage.read(&path)?.read_to_end(&mut text)?;
            Ok(Some(text))
        };
        match read() {
            Ok(Some(text)) => Manifest::parse(&text),
            Ok(None) => Ok(Manifest::default()),
            Err(source) => Err(ManifestError::Read { path, source }),
        }
    }

    /// Writes the manifest next to the one in force, durably.
    pub(crate) fn stage_manifest(&self, manifest: &Manifest) -> Result<(), OpenError> {
        self.at(&self.staged_manifest_name(), |path| {
            let file = self.storage.create(path)?;
            write_all(&*file, &manifest.to_bytes())?;
            if FaultPoint::SyncManifest.is_enabled() { file.sync() } else { Ok(()) }
        })
    }

    /// Puts the staged manifest into force.
    pub(crate) fn switch_manifest(&self) -> Result<(), OpenError> {
        self.at(&self.manifest_name(), |path| {
            self.storage.rename(&self.path(&self.staged_manifest_name()), path)?;
            if FaultPoint::SyncNames.is_enabled() {
                self.storage.sync_dir(&self.folder())
            } else {
                Ok(())
            }
        })
    }

    /// Writes the manifest and puts it into force.
    pub(crate) fn persist_manifest(&self, manifest: &Manifest) -> Result<(), OpenError> {
        self.stage_manifest(manifest)?;
        self.switch_manifest()
    }

    /// Makes the log's directory.
    pub(crate) fn make_folder(&self) -> Result<(), OpenError> {
        let path = self.folder();
        let make = || {
            self.storage.create_dir(&path)?;
            self.storage.sync_dir(&self.dir)
        };
        make().map_err(|source| OpenError { path: path.clone(), source })
    }

    /// Makes the names of files durable, before a manifest lists them.
    pub(crate) fn sync_names(&self) -> Result<(), OpenError> {
        match FaultPoint::SyncListed.is_enabled() {
            true => self.at("", |_| self.storage.sync_dir(&self.folder())),
            false => Ok(()),
        }
    }

    /// Makes an empty file. [`Options::sync_names`] makes its name durable.
    pub(crate) fn make_file(&self, name: &str) -> Result<Arc<dyn LogFile>, OpenError> {
        self.at(name, |path| self.storage.create(path))
    }

    /// Deletes the manifest's history files, and removes them from the manifest. Files that cannot
    /// be deleted are tried again at the next opening.
    pub(crate) fn delete_history(&self, manifest: &mut Manifest) {
        if manifest.history.is_empty() {
            return;
        }
        let gone = |listed: &Listed| {
            let path = self.path(&listed.file);
            let removed = self.storage.remove(&path);
            removed.is_ok() || matches!(self.storage.len(&path), Ok(None))
        };
        manifest.history.retain(|listed| !gone(listed));
        if let Err(error) = self.persist_manifest(manifest) {
            tracing::warn!("{error}");
        }
    }

    /// Returns a missing file of the log, or the last increment if that is not `file`.
    pub(crate) fn misplaced(&self, manifest: &Manifest, file: &dyn LogFile) -> Option<PathBuf> {
        let last = manifest.increments.last();
        let last = last.map(|last| self.path(&last.file)).filter(|last| !file.is_at(last));
        let mut files = vec![self.path(&self.manifest_name())];
        files.extend(manifest.to_load().iter().map(|(_, listed)| self.path(&listed.file)));
        let is_gone = |path: &PathBuf| matches!(self.storage.len(path), Ok(None));
        last.or_else(|| files.into_iter().find(is_gone))
    }

    /// Deletes the files of a rewrite that a kill interrupted.
    pub(crate) fn delete_unfinished(&self) {
        let path = self.path(TEMPORARY_BASE);
        if let Ok(Some(_)) = self.storage.len(&path)
            && let Err(error) = self.storage.remove(&path)
        {
            tracing::warn!("Can't remove {}: {error}", path.display());
        }
    }

    /// Takes over a log in a single file, as Redis before version 7 wrote it, if there is one and
    /// no newer log.
    pub(crate) fn upgrade(&self, manifest: &mut Manifest) -> Result<(), LoadError> {
        let old = self.dir.join(&self.filename);
        let length = |path: &Path| self.storage.len(path).ok().flatten();
        let begun = manifest.increments.is_empty()
            && manifest.base.as_ref().is_some_and(|base| base.file == self.filename)
            && length(&self.path(&self.filename)).is_none();
        if length(&old).is_none() || !(manifest.is_empty() || begun) {
            return Ok(());
        }
        manifest.adopt_base(&self.filename);
        let take = || -> Result<(), OpenError> {
            self.make_folder()?;
            self.persist_manifest(manifest)?;
            self.at(&self.filename, |path| {
                self.storage.rename(&old, path)?;
                self.storage.sync_dir(&self.folder())?;
                self.storage.sync_dir(&self.dir)
            })
        };
        take().map_err(|error| LoadError::Upgrade {
            file: self.filename.clone(),
            dir: self.dirname.clone(),
            source: error.source,
        })?;
        tracing::info!(
            "Successfully migrated an old-style AOF file ({}) into the AOF directory ({}).",
            self.filename,
            self.dirname
        );
        Ok(())
    }
}

/// Appends all of `bytes`, in as many writes as it takes.
pub(crate) fn write_all(file: &dyn LogFile, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.append(bytes) {
            Ok(0) => return Err(io::ErrorKind::StorageFull.into()),
            Ok(taken) => bytes = bytes.get(taken..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
