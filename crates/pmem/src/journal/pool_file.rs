//! The pool's file: pages go to it past the page cache where that is possible.
//!
//! The working memory has a copy of all pages, so one in the page cache would serve nobody but the
//! next start. A write that is refused, or that does not succeed, is made through the page cache:
//! a failure of the disk is reported by the next sync then.

use super::aio::{DirectFile, Write};
use super::storage::Storage;
use crate::calls::{self, Call};
use crate::mapping::PAGE;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::{Mutex, OnceLock, PoisonError};

/// The pool's file.
pub(crate) struct PoolFile {
    file: File,
    /// The same file, opened for writes past the page cache when the first is made; `None` if that
    /// is impossible.
    direct: OnceLock<Option<Mutex<DirectFile>>>,
}

impl PoolFile {
    pub(crate) fn new(file: File) -> PoolFile {
        PoolFile { file, direct: OnceLock::new() }
    }
}

impl Storage for PoolFile {
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        Storage::read_at(&self.file, bytes, at)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        Storage::write_at(&self.file, bytes, at)
    }

    fn write_runs(&self, runs: &[Write<'_>]) -> io::Result<()> {
        let mut cached = |(at, bytes): Write<'_>| Storage::write_at(&self.file, bytes, at);
        let open = || DirectFile::of(&self.file).map(Mutex::new);
        let Some(direct) = self.direct.get_or_init(open) else {
            return runs.iter().try_for_each(|run| cached(*run));
        };
        let (mut whole, mut others) = (Vec::new(), Vec::new());
        for (at, bytes) in runs {
            // A region may end within a page.
            let (pages, rest) = bytes.split_at(bytes.len() / PAGE as usize * PAGE as usize);
            match DirectFile::takes((*at, pages)) {
                true => {
                    whole.push((*at, pages));
                    others.push((*at + pages.len() as u64, rest));
                }
                false => others.push((*at, *bytes)),
            }
        }
        whole.retain(|(_, bytes)| !bytes.is_empty());
        others.retain(|(_, bytes)| !bytes.is_empty());
        calls::make::<io::Error>(Call::Write, || Ok(()))?;
        direct.lock().unwrap_or_else(PoisonError::into_inner).write(&whole, &mut cached)?;
        others.into_iter().try_for_each(cached)
    }

    fn sync(&self) -> io::Result<()> {
        Storage::sync(&self.file)
    }

    fn size(&self) -> io::Result<u64> {
        Storage::size(&self.file)
    }

    fn written_up_to(&self, from: u64) -> io::Result<u64> {
        Storage::written_up_to(&self.file, from)
    }

    fn allocate(&self, from: u64, to: u64) -> io::Result<()> {
        Storage::allocate(&self.file, from, to)
    }

    fn allocate_parts(&self, parts: &[Range<u64>], len: u64) -> io::Result<()> {
        Storage::allocate_parts(&self.file, parts, len)
    }

    fn available(&self) -> Option<u64> {
        Storage::available(&self.file)
    }

    fn cut(&self, len: u64) -> io::Result<()> {
        Storage::cut(&self.file, len)
    }

    fn will_read(&self, from: u64, to: u64) {
        Storage::will_read(&self.file, from, to);
    }

    fn will_overwrite(&self, from: u64, to: u64) {
        Storage::will_overwrite(&self.file, from, to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::iter;

    /// Bytes that begin a page.
    fn pages(count: u64, fill: impl Fn(u64) -> u8) -> (Vec<u8>, usize) {
        let mut bytes: Vec<u8> = Vec::with_capacity(((count + 1) * PAGE) as usize);
        let from = bytes.as_ptr().align_offset(PAGE as usize);
        bytes.resize(from, 0);
        (0..count).for_each(|page| bytes.extend(iter::repeat_n(fill(page), PAGE as usize)));
        (bytes, from)
    }

    #[test]
    fn runs_of_any_length_and_place_are_written_and_nothing_around_them() {
        let page = PAGE as usize;
        let file = PoolFile::new(tempfile::tempfile().unwrap());
        let (bytes, from) = pages(400, |page| (page % 251) as u8 + 1);
        let bytes = &bytes[from..];
        file.allocate(0, 1000 * PAGE).unwrap();
        file.write_at(&[0xee; 7], 3 * PAGE + 9).unwrap();
        // More than are under way at once, some of them not of whole pages.
        let mut expected = vec![0; 1000 * page];
        expected[3 * page + 9..][..7].fill(0xee);
        let mut runs: Vec<Write<'_>> = Vec::new();
        for n in 0..200 {
            let (at, len) = match n {
                7 => (5 * n * page + 64, page - 64),
                9 => (5 * n * page, 640),
                11 => (5 * n * page, page + 640),
                _ => (5 * n * page, (1 + n % 3) * page),
            };
            let run = &bytes[n * page..n * page + len];
            expected[at..at + len].copy_from_slice(run);
            runs.push((at as u64, run));
        }
        file.write_runs(&runs).unwrap();
        file.sync().unwrap();
        let mut found = vec![1; expected.len()];
        file.read_at(&mut found, 0).unwrap();
        assert!(found == expected);
        // Written again, after the page cache had them.
        file.write_runs(&[(0, &bytes[page..3 * page])]).unwrap();
        expected[..2 * page].copy_from_slice(&bytes[page..3 * page]);
        file.read_at(&mut found, 0).unwrap();
        assert!(found == expected);
        assert!(file.write_runs(&[]).is_ok());
    }

    #[test]
    fn a_write_that_is_refused_goes_through_the_page_cache_and_its_failure_is_reported() {
        let path = tempfile::NamedTempFile::new().unwrap();
        path.as_file().set_len(PAGE).unwrap();
        let file = PoolFile::new(File::open(path.path()).unwrap());
        let (bytes, from) = pages(1, |_| 7);
        let refused = file.write_runs(&[(0, &bytes[from..])]);
        // Opened for reading alone: the first one is opened for both.
        assert_eq!(refused.is_err(), file.direct.get().is_none_or(Option::is_none));
    }
}
