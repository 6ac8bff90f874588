//! The file of the results. It is rewritten completely after every run, so that the measurements
//! survive any end of the tool.

use super::{FORMAT, Results};
use serde::Deserialize;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::Builder;
use thiserror::Error;

/// A file could not be written or read.
#[derive(Debug, Error)]
#[error("{}: {why}", path.display())]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub why: String,
}

impl FileError {
    /// Returns a function that turns a cause into an error about this path.
    pub(crate) fn of<E: ToString>(path: &Path) -> impl Fn(E) -> FileError + use<'_, E> {
        |why| FileError { path: path.to_owned(), why: why.to_string() }
    }

    /// Returns a function that turns a system error in this step into an error about this path.
    pub(crate) fn step<'a, E: Into<io::Error>>(
        path: &'a Path,
        step: &'static str,
    ) -> impl Fn(E) -> FileError + use<'a, E> {
        move |cause| FileError::of(path)(format!("{step}: {}", cause.into()))
    }
}

/// The part that all formats have in common.
#[derive(Deserialize)]
struct Head {
    format: u32,
}

impl Results {
    /// Writes the results to a file, atomically: a concurrent reader sees the old file or the new
    /// one.
    pub fn save(&self, path: &Path) -> Result<(), FileError> {
        let text = serde_json::to_string_pretty(self).map_err(FileError::of(path))?;
        let folder = path.parent().filter(|folder| *folder != Path::new(""));
        let folder = folder.unwrap_or(Path::new("."));
        let write = || -> io::Result<()> {
            let readable = fs::Permissions::from_mode(0o644);
            let mut file = Builder::new().permissions(readable).tempfile_in(folder)?;
            file.write_all(text.as_bytes())?;
            file.write_all(b"\n")?;
            file.as_file().sync_data()?;
            file.persist(path).map_err(|e| e.error)?;
            Ok(())
        };
        write().map_err(FileError::of(path))
    }

    /// Reads results from a file.
    ///
    /// # Errors
    /// The file cannot be read, is not a file of results, or has another format.
    pub fn load(path: &Path) -> Result<Results, FileError> {
        let text = fs::read_to_string(path).map_err(FileError::of(path))?;
        let other = |cause: serde_json::Error| {
            FileError::of(path)(format!("not the results of a comparison: {cause}"))
        };
        let Head { format } = serde_json::from_str(&text).map_err(other)?;
        if format != FORMAT {
            let why = format!("format {format}; this tool reads format {FORMAT}");
            return Err(FileError::of(path)(why));
        }
        serde_json::from_str(&text).map_err(other)
    }
}

#[cfg(test)]
const SAMPLE: &str = "tests/sample/results.json";

/// Returns the results that the tests use.
#[cfg(test)]
pub(crate) fn sample() -> Results {
    Results::load(Path::new(SAMPLE)).expect("the sample is read")
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
        let error = Results::load(&path).expect_err("nonsense").to_string();
        assert!(error.contains("not the results of a comparison"), "{error}");
        fs::remove_file(&path).expect("removed");
        let error = Results::load(&path).expect_err("nothing").to_string();
        assert!(error.contains("No such file"), "{error}");
    }

    /// The sample that other tests use is in the current format.
    #[test]
    fn the_sample_is_in_the_format_of_today() {
        let sample = sample();
        let text = fs::read_to_string(SAMPLE).expect("the sample is read");
        let again = serde_json::to_string_pretty(&sample).expect("it can be written");
        assert!(text.trim_end() == again, "the sample is not what would be written");
        assert!(sample.key_ratios().iter().all(|row| row.found.is_some()));
    }
}
