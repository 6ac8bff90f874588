//! The new files, at the server's end, for the data of a pool whose file was removed meanwhile.
//!
//! The file and its journal, if it has one, are copied as they are: nothing is applied or written
//! meanwhile, so that the two match. They get their own names if these are free, so that the next
//! start finds them; otherwise other names, and existing files stay.

use std::path::{Path, PathBuf};

use pmem::{FilePlace, JournalFile, Region};

/// The files to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rescue {
    pool: PathBuf,
    /// None if the pool has no journal, or the journal's file is still in its place.
    journal: Option<PathBuf>,
    /// Whether they have their own names.
    is_in_place: bool,
}

impl Rescue {
    /// Chooses the new files for a pool that was opened at `pool`.
    pub(crate) fn choose(pool: &Path, journal: Option<&JournalFile>) -> Rescue {
        let lost = journal.filter(|file| file.place != FilePlace::There);
        let lost = lost.map(|file| file.path.clone());
        if is_free(pool) && lost.as_deref().is_none_or(is_free) {
            return Rescue { pool: pool.to_owned(), journal: lost, is_in_place: true };
        }
        let named = |n: u64| {
            let end = if n == 1 { ".rescued".to_owned() } else { format!(".rescued-{n}") };
            let pool = with_end(pool, &end);
            let journal = journal.map(|_| with_end(&pool, ".journal"));
            Rescue { pool, journal, is_in_place: false }
        };
        let are_free = |rescue: &Rescue| {
            is_free(&rescue.pool) && rescue.journal.as_deref().is_none_or(is_free)
        };
        (1..1000).map(named).find(are_free).unwrap_or_else(|| named(1000))
    }

    /// Writes them, durably. After a failure, what was written of them is removed.
    pub(crate) fn write(&self, region: &Region) -> Result<(), String> {
        if let Some(journal) = &self.journal {
            region.copy_journal(journal).map_err(|error| error.to_string())?;
        }
        region.copy_file(&self.pool).map_err(|error| {
            if let Some(journal) = &self.journal {
                let _ = std::fs::remove_file(journal);
            }
            error.to_string()
        })
    }

    /// Returns the names of the files, in words.
    pub(crate) fn files(&self) -> String {
        match &self.journal {
            Some(journal) => format!("{} and {}", self.pool.display(), journal.display()),
            None => self.pool.display().to_string(),
        }
    }

    /// Returns how to start the server over them, after "start it".
    pub(crate) fn how_to_start(&self) -> String {
        match (&self.journal, self.is_in_place) {
            (_, true) => "again".into(),
            (None, false) => format!("with --pool {}", self.pool.display()),
            (Some(journal), false) => {
                format!("with --pool {} --journal {}", self.pool.display(), journal.display())
            }
        }
    }
}

fn is_free(path: &Path) -> bool {
    path.symlink_metadata().is_err()
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn files_go_back_to_names_that_are_free_and_to_others_elsewhere() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let check = |journal: Option<(FilePlace, &str)>, expect: &[&str], start: &str| {
            let journal =
                journal.map(|(place, name)| JournalFile { path: at(name), place, cut_short: None });
            let found = Rescue::choose(&at("pool"), journal.as_ref());
            let files: Vec<PathBuf> =
                [&found.pool].into_iter().chain(&found.journal).cloned().collect();
            assert_eq!(files, expect.iter().map(|name| at(name)).collect::<Vec<_>>());
            let start = start.replace('@', &format!("{}/", folder.path().display()));
            assert_eq!(found.how_to_start(), start);
        };
        let (there, gone) = (Some((FilePlace::There, "j")), Some((FilePlace::Removed, "j")));
        check(None, &["pool"], "again");
        check(there, &["pool"], "again");
        check(gone, &["pool", "j"], "again");
        fs::write(at("j"), "another").expect("a file");
        let pair = ["pool.rescued", "pool.rescued.journal"];
        let start = "with --pool @pool.rescued --journal @pool.rescued.journal";
        check(gone, &pair, start);
        fs::write(at("pool"), "another").expect("a file");
        check(there, &pair, start);
        check(None, &pair[..1], "with --pool @pool.rescued");
        fs::write(at("pool.rescued.journal"), "of before").expect("a file");
        check(None, &pair[..1], "with --pool @pool.rescued");
        check(
            there,
            &["pool.rescued-2", "pool.rescued-2.journal"],
            "with --pool @pool.rescued-2 --journal @pool.rescued-2.journal",
        );
    }
}
