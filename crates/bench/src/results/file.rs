//! Results as a file: written whole after every run, so that whatever ends the tool leaves what was
//! measured.

use super::{FORMAT, Results};
use serde::Deserialize;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::Builder;
use thiserror::Error;

/// Results could not be written.
#[derive(Debug, Error)]
#[error("{}: {cause}", path.display())]
pub struct WriteError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub cause: io::Error,
}

/// A file does not hold results.
#[derive(Debug, Error)]
pub enum ReadError {
    /// It cannot be read.
    #[error("{}: {cause}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// It holds something else.
    #[error("{}: not the results of a comparison: {cause}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What was expected where.
        cause: serde_json::Error,
    },
    /// It has another format.
    #[error("{}: format {found}; this tool reads format {FORMAT}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
}

/// What every format has.
#[derive(Deserialize)]
struct Head {
    format: u32,
}

impl Results {
    /// Returns whether [`Results::save`] can write there: found out before a measurement, not after
    /// it.
    ///
    /// # Errors
    /// It cannot: its folder is not there or takes no files, or it is a folder itself.
    pub fn can_save(path: &Path) -> Result<(), WriteError> {
        let failed = |cause| WriteError { path: path.to_owned(), cause };
        if path.is_dir() {
            return Err(failed(io::ErrorKind::IsADirectory.into()));
        }
        let folder = folder_of(path);
        Builder::new().tempfile_in(folder).map(drop).map_err(|error| {
            let why = format!("no file can be made in {}: {}", folder.display(), error.kind());
            failed(io::Error::new(error.kind(), why))
        })
    }

    /// Writes a file. Whoever reads it meanwhile sees the old one or the new one, never a part of
    /// it.
    pub fn save(&self, path: &Path) -> Result<(), WriteError> {
        let failed = |cause| WriteError { path: path.to_owned(), cause };
        let text = serde_json::to_string_pretty(self).map_err(|e| failed(e.into()))?;
        let folder = folder_of(path);
        let write = || -> io::Result<()> {
            let readable = fs::Permissions::from_mode(0o644);
            let mut file = Builder::new().permissions(readable).tempfile_in(folder)?;
            file.write_all(text.as_bytes())?;
            file.write_all(b"\n")?;
            file.as_file().sync_data()?;
            file.persist(path).map_err(|e| e.error)?;
            Ok(())
        };
        write().map_err(failed)
    }

    /// Reads a file.
    pub fn load(path: &Path) -> Result<Results, ReadError> {
        let text = fs::read_to_string(path)
            .map_err(|cause| ReadError::File { path: path.to_owned(), cause })?;
        let wrong = |cause| ReadError::Content { path: path.to_owned(), cause };
        let Head { format } = serde_json::from_str(&text).map_err(wrong)?;
        if format != FORMAT {
            return Err(ReadError::Format { path: path.to_owned(), found: format });
        }
        serde_json::from_str(&text).map_err(wrong)
    }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_other_formats_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("results.json");
        let results = Results { format: FORMAT, ..Results::default() };
        results.save(&path).expect("it is written");
        results.save(&path).expect("it is written over");
        assert_eq!(Results::load(&path).expect("it is read"), results);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);

        fs::write(&path, r#"{"format": 9}"#).expect("written");
        let error = Results::load(&path).expect_err("another format").to_string();
        assert!(error.contains("format 9"), "{error}");
        fs::write(&path, "nonsense").expect("written");
        assert!(matches!(Results::load(&path), Err(ReadError::Content { .. })));
        fs::remove_file(&path).expect("removed");
        assert!(matches!(Results::load(&path), Err(ReadError::File { .. })));
    }

    #[test]
    fn a_place_that_takes_no_file_is_known_beforehand_and_not_made() {
        let folder = tempfile::tempdir().expect("a folder");
        let below = folder.path().join("deep/results.json");
        let error = Results::can_save(&below).expect_err("no folder").to_string();
        assert!(error.contains("no file can be made in") && error.contains("deep:"), "{error}");
        assert!(Results::can_save(folder.path()).is_err(), "a folder is no file");
        assert!(Results::default().save(&below).is_err());
        Results::can_save(&folder.path().join("results.json")).expect("it can");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
    }

    /// The file that other parts of the tool are tested with.
    #[test]
    fn the_sample_is_in_the_format_of_today() {
        let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sample/results.json"));
        let sample = Results::load(path).expect("the sample is read");
        let text = fs::read_to_string(path).expect("the sample is read");
        let again = serde_json::to_string_pretty(&sample).expect("it can be written");
        assert!(text.trim_end() == again, "the sample is not what would be written");
        assert!(sample.key_ratios().iter().all(|row| row.found.is_some()));
    }
}
