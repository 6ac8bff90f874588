//! Reads a log: every command of the base and the increments, in order.
//!
//! An incomplete tail is cut off the last file, so that later commands follow a complete one. A
//! MULTI without its EXEC is such a tail, from the MULTI on, even if the cut is inside it (Redis
//! would keep its beginning, and lose what follows). In any other file an incomplete end is an
//! error.
//!
//! Memory is bounded by a window of some MiB or the longest command, and by the actual bytes, not
//! by the lengths that they claim.

use std::collections::VecDeque;
use std::io::{self, BufRead, Read};

use crate::error::{LoadError, OpenError};
use crate::log::Aof;
use crate::manifest::{Kind, Listed, Manifest};
use crate::options::Options;
use crate::parse::{Command, Parsed, Parser};

/// Bytes that are read at once.
pub const WINDOW: usize = 1 << 20;

/// An entry of a log, in order.
pub enum Entry<'a> {
    /// A file begins: database 0 is selected, no transaction is open.
    File(&'a str),
    /// A dump, with which a file may begin. It is to be read to its end; commands may follow.
    Dump(Dump<'a>),
    /// A command.
    Command(Command<'a>),
}

/// A dump in the log.
pub struct Dump<'a> {
    reading: &'a mut Reading,
    progress: &'a mut Progress,
}

impl Dump<'_> {
    /// Returns the progress of loading.
    pub fn progress(&self) -> Progress {
        *self.progress
    }
}

impl Read for Dump<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let rest = self.fill_buf()?;
        let len = rest.len().min(into.len());
        into[..len].copy_from_slice(&rest[..len]);
        self.consume(len);
        Ok(len)
    }
}

impl BufRead for Dump<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let reading = &mut *self.reading;
        if reading.at == reading.window.len() && !reading.at_end {
            reading.fill(1).map_err(|error| match error {
                LoadError::Read { source, .. } => source,
                error => io::Error::other(error.to_string()),
            })?;
        }
        Ok(&reading.window[reading.at..])
    }

    fn consume(&mut self, len: usize) {
        self.reading.advance(len);
        self.progress.done += len as u64;
    }
}

/// The progress of loading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes read.
    pub done: u64,
    /// Bytes of all files.
    pub total: u64,
}

/// The result of loading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Commands.
    pub commands: u64,
    /// Bytes of whole commands.
    pub bytes: u64,
    /// Bytes of a broken tail that were cut off.
    pub cut_off: u64,
}

/// Reads a log.
pub struct Loader {
    options: Options,
    manifest: Manifest,
    files: VecDeque<(Kind, Listed)>,
    current: Option<Reading>,
    parser: Parser,
    progress: Progress,
    loaded: Loaded,
    base_len: u64,
    finished: bool,
}

struct Reading {
    name: String,
    file: Box<dyn Read + Send>,
    window: Vec<u8>,
    /// The position of the next command in the window.
    at: usize,
    /// Its position in the file.
    offset: u64,
    at_end: bool,
    /// The position of the open MULTI.
    multi: Option<u64>,
    /// Whether a dump is to be read before the first command.
    begins_with_dump: bool,
}

enum Step {
    Command { start: usize },
    Dump,
    FileBegins,
    End,
}

impl Options {
    /// Returns the number of bytes that loading the log would read; changes nothing.
    pub fn stored(&self) -> Result<u64, LoadError> {
        let manifest = self.read_manifest()?;
        let old = self.dir.join(&self.filename);
        let old = self.storage.len(&old).ok().flatten().filter(|_| manifest.is_empty());
        let files = manifest.to_load();
        let lengths = files.iter().map(|(_, listed)| self.length(listed));
        Ok(lengths.sum::<Result<u64, LoadError>>()? + old.unwrap_or(0))
    }

    /// Returns the files to load. If there is no manifest, and none is to be written, that is the
    /// single file of an old log.
    fn files(&self, manifest: &Manifest) -> VecDeque<(Kind, Listed)> {
        let old = self.path(&self.filename);
        let is_there = || self.storage.len(&old).is_ok_and(|len| len.is_some());
        if self.is_read_only && manifest.is_empty() && is_there() {
            return [(Kind::Base, Listed { file: self.filename.clone(), seq: 1 })].into();
        }
        manifest.to_load().into()
    }

    fn length(&self, listed: &Listed) -> Result<u64, LoadError> {
        let file = listed.file.clone();
        match self.storage.len(&self.path(&file)) {
            Ok(Some(len)) => Ok(len),
            Ok(None) => Err(LoadError::Missing { file }),
            Err(source) => Err(LoadError::Open { file, source }),
        }
    }
}

impl Loader {
    /// Opens the log; an old single-file log is moved into the directory first. If there is no log
    /// at all, it is an empty one.
    pub fn open(options: Options) -> Result<Loader, LoadError> {
        let mut manifest = options.read_manifest()?;
        if !options.is_read_only {
            options.upgrade(&mut manifest)?;
        }
        let files = options.files(&manifest);
        let finished = files.is_empty();
        let mut loader = Loader {
            options,
            manifest,
            files,
            current: None,
            parser: Parser::default(),
            progress: Progress::default(),
            loaded: Loaded::default(),
            base_len: 0,
            finished,
        };
        loader.measure()?;
        Ok(loader)
    }

    fn measure(&mut self) -> Result<(), LoadError> {
        for (kind, listed) in &self.files {
            let len = self.options.length(listed)?;
            if *kind == Kind::Base {
                self.base_len = len;
            }
            self.progress.total += len;
        }
        Ok(())
    }

    /// Returns the next entry; `None` after the last one.
    #[expect(clippy::should_implement_trait, reason = "the entry borrows the loader's window")]
    pub fn next(&mut self) -> Result<Option<Entry<'_>>, LoadError> {
        let step = self.step()?;
        Ok(match (step, &mut self.current) {
            (Step::Dump, Some(reading)) => {
                Some(Entry::Dump(Dump { reading, progress: &mut self.progress }))
            }
            (Step::FileBegins, Some(reading)) => Some(Entry::File(&reading.name)),
            (Step::Command { start }, Some(reading)) => {
                Some(Entry::Command(self.parser.command(&reading.window[start..])))
            }
            _ => None,
        })
    }

    fn step(&mut self) -> Result<Step, LoadError> {
        loop {
            let Some(reading) = &mut self.current else {
                let Some((_, listed)) = self.files.pop_front() else {
                    self.finished = true;
                    return Ok(Step::End);
                };
                self.current = Some(Reading::open(&self.options, listed.file)?);
                return Ok(Step::FileBegins);
            };
            if std::mem::take(&mut reading.begins_with_dump) {
                return Ok(Step::Dump);
            }
            let start = reading.at;
            let len = match self.parser.parse(&reading.window[start..]) {
                Parsed::Command(len) => {
                    let command = self.parser.command(&reading.window[start..]);
                    if command.is(b"multi") {
                        reading.multi = Some(reading.offset);
                    } else if command.is(b"exec") {
                        reading.multi = None;
                    }
                    self.loaded.commands += 1;
                    self.loaded.bytes += len as u64;
                    reading.advance(len);
                    self.progress.done += len as u64;
                    return Ok(Step::Command { start });
                }
                Parsed::Annotation(len) => len,
                Parsed::Incomplete(need) if !reading.at_end => {
                    reading.fill(need)?;
                    continue;
                }
                Parsed::Incomplete(_) => {
                    self.end_of_file()?;
                    continue;
                }
                Parsed::Malformed { at, expected } => {
                    return Err(reading.malformed(at, expected));
                }
            };
            reading.advance(len);
            self.progress.done += len as u64;
        }
    }

    fn end_of_file(&mut self) -> Result<(), LoadError> {
        let Some(reading) = self.current.take() else { return Ok(()) };
        let file = reading.name;
        let rest = (reading.window.len() - reading.at) as u64;
        self.progress.done += rest;
        if rest == 0 && reading.multi.is_none() {
            tracing::debug!("read the append only file {file}");
            return Ok(());
        }
        if reading.multi.is_some() {
            tracing::warn!("Revert incomplete MULTI/EXEC transaction in AOF file {file}");
        }
        if !self.files.is_empty() {
            return Err(LoadError::TruncatedNotLast { file });
        }
        if !self.options.load_truncated {
            return Err(LoadError::UnexpectedEnd { file });
        }
        let keep = reading.multi.unwrap_or(reading.offset);
        self.loaded.cut_off = reading.offset + rest - keep;
        if self.options.is_read_only {
            return Ok(());
        }
        tracing::warn!("!!! Warning: short read while loading the AOF file {file}!!!");
        tracing::warn!("!!! Truncating the AOF {file} at offset {keep} !!!");
        let path = self.options.path(&file);
        let cut = self.options.storage.append_to(&path).and_then(|log| {
            log.truncate(keep)?;
            log.sync()
        });
        cut.map_err(|source| LoadError::Truncate { file: file.clone(), source })?;
        tracing::warn!("AOF {file} loaded anyway because aof-load-truncated is enabled");
        Ok(())
    }

    /// Returns the progress of loading.
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// Returns the result so far.
    pub fn loaded(&self) -> Loaded {
        self.loaded
    }

    /// Returns true if there is no log yet.
    pub fn is_new(&self) -> bool {
        self.options.files(&self.manifest).is_empty()
    }

    /// Opens the log that was read to its end for appending.
    pub fn into_log(self) -> Result<Aof, OpenError> {
        if !self.finished {
            let source = std::io::Error::other("it was not loaded to its end");
            return Err(OpenError { path: self.options.folder(), source });
        }
        let size = self.progress.total - self.loaded.cut_off;
        Aof::open(self.options, self.manifest, size, self.base_len)
    }
}

impl Reading {
    fn open(options: &Options, name: String) -> Result<Reading, LoadError> {
        let file = options.storage.read(&options.path(&name));
        let file = file.map_err(|source| LoadError::Open { file: name.clone(), source })?;
        let window = Vec::with_capacity(WINDOW);
        let mut reading = Reading {
            name,
            file,
            window,
            at: 0,
            offset: 0,
            at_end: false,
            multi: None,
            begins_with_dump: false,
        };
        reading.fill(1)?;
        let begins = |magic: &[u8]| reading.window.starts_with(magic);
        reading.begins_with_dump = begins(b"REDIS") || begins(b"VALKEY");
        Ok(reading)
    }

    fn advance(&mut self, len: usize) {
        self.at += len;
        self.offset += len as u64;
    }

    /// Reads on until the window has `need` bytes from the next command on, or all that are left.
    fn fill(&mut self, need: usize) -> Result<(), LoadError> {
        self.window.drain(..self.at);
        self.at = 0;
        let target = need.max(self.window.len() * 2).max(WINDOW);
        let want = (target - self.window.len()) as u64;
        let read = self.file.by_ref().take(want).read_to_end(&mut self.window);
        let read = read.map_err(|source| LoadError::Read { file: self.name.clone(), source })?;
        self.at_end = (read as u64) < want;
        Ok(())
    }

    fn malformed(&self, at: usize, expected: &'static str) -> LoadError {
        let offset = self.offset + at as u64;
        LoadError::Format { file: self.name.clone(), offset, expected }
    }
}
