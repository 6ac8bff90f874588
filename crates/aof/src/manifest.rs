//! The manifest: the files of the log, and their order.
//!
//! ```text
//! file appendonly.aof.2.base.aof seq 2 type b
//! file appendonly.aof.1.incr.aof seq 1 type h
//! file appendonly.aof.2.incr.aof seq 2 type i
//! ```
//!
//! `b` is the base (at most one), `i` an increment (sequence numbers grow), `h` history: a file
//! that is no longer needed and will be deleted. Words may be quoted. Lines that begin with `#` and
//! unknown keys are skipped, as in Redis, for the sake of later versions. Unlike in Redis, a file
//! that is listed twice is refused: it would be loaded twice, or deleted as history while it is in
//! use.

use std::collections::HashSet;

use crate::error::ManifestError;
use crate::options::Options;

const LONGEST_LINE: usize = 1024;

/// The kind of a listed file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The state that the increments are applied to.
    Base,
    /// Replaced by a later base.
    History,
    /// Commands after the base.
    Increment,
}

/// A file of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name inside the log's directory.
    pub file: String,
    /// Its sequence number among its kind.
    pub seq: u64,
}

/// The files of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// The base.
    pub base: Option<Listed>,
    /// Files that are to be deleted.
    pub history: Vec<Listed>,
    /// The increments, oldest first. The last one is appended to.
    pub increments: Vec<Listed>,
    base_seq: u64,
    increment_seq: u64,
}

impl Manifest {
    /// Reads a manifest.
    pub fn parse(text: &[u8]) -> Result<Manifest, ManifestError> {
        let mut manifest = Manifest::default();
        let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
        if lines.is_empty() {
            return Err(content("Found an empty AOF manifest", 0, b""));
        }
        let mut names = HashSet::new();
        for (n, line) in lines.into_iter().enumerate() {
            if line.starts_with(b"#") {
                continue;
            }
            let taken = manifest.take(line, &mut names);
            taken.map_err(|reason| content(reason, n + 1, line))?;
        }
        Ok(manifest)
    }

    fn take(&mut self, line: &[u8], names: &mut HashSet<String>) -> Result<(), &'static str> {
        if line.len() > LONGEST_LINE || !line.ends_with(b"\n") {
            return Err("The AOF manifest file contains too long line");
        }
        let (listed, kind) = entry(line)?;
        if !names.insert(listed.file.clone()) {
            return Err("Found a file that is listed twice");
        }
        match kind {
            Kind::Base if self.base.is_some() => {
                return Err("Found duplicate base file information");
            }
            Kind::Base => {
                self.base_seq = listed.seq;
                self.base = Some(listed);
            }
            Kind::History => self.history.push(listed),
            Kind::Increment if listed.seq <= self.increment_seq => {
                return Err("Found a non-monotonic sequence number");
            }
            Kind::Increment => {
                self.increment_seq = listed.seq;
                self.increments.push(listed);
            }
        }
        Ok(())
    }

    /// Returns the manifest as text: base, history, increments.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut line = |listed: &Listed, kind: char| {
            out.extend_from_slice(b"file ");
            write_name(&mut out, listed.file.as_bytes());
            out.extend_from_slice(format!(" seq {} type {kind}\n", listed.seq).as_bytes());
        };
        self.base.iter().for_each(|listed| line(listed, 'b'));
        self.history.iter().for_each(|listed| line(listed, 'h'));
        self.increments.iter().for_each(|listed| line(listed, 'i'));
        out
    }

    /// Returns true if no file is listed that must be loaded.
    pub fn is_empty(&self) -> bool {
        self.base.is_none() && self.increments.is_empty()
    }

    /// Returns the files to load, in order.
    pub fn to_load(&self) -> Vec<(Kind, Listed)> {
        let base = self.base.iter().map(|listed| (Kind::Base, listed.clone()));
        base.chain(self.increments.iter().map(|listed| (Kind::Increment, listed.clone()))).collect()
    }

    /// Lists a new base, a dump or commands; the old one becomes history.
    pub(crate) fn add_base(&mut self, options: &Options, is_dump: bool) -> Listed {
        let form = if is_dump { "rdb" } else { "aof" };
        let name = |seq| format!("{}.{seq}.base.{form}", options.filename);
        let listed = self.unused(self.base_seq, name);
        self.base_seq = listed.seq;
        self.history.extend(self.base.replace(listed.clone()));
        listed
    }

    /// Lists a given file as the base.
    pub(crate) fn adopt_base(&mut self, file: &str) {
        self.base_seq = 1;
        self.base = Some(Listed { file: file.to_owned(), seq: 1 });
    }

    /// Lists a new increment.
    pub(crate) fn add_increment(&mut self, options: &Options) -> Listed {
        let name = |seq| format!("{}.{seq}.incr.aof", options.filename);
        let listed = self.unused(self.increment_seq, name);
        self.increment_seq = listed.seq;
        self.increments.push(listed.clone());
        listed
    }

    /// Returns the first file after number `seq` that is not listed, since files of the history are
    /// about to be deleted.
    fn unused(&self, seq: u64, name: impl Fn(u64) -> String) -> Listed {
        let is_listed = |file: &String| {
            let all = self.base.iter().chain(&self.history).chain(&self.increments);
            all.into_iter().any(|listed| listed.file == *file)
        };
        let mut seq = seq + 1;
        while is_listed(&name(seq)) {
            seq += 1;
        }
        Listed { file: name(seq), seq }
    }

    /// Makes history of all increments but the last.
    pub(crate) fn retire_increments(&mut self) {
        let last = self.increments.pop();
        self.history.append(&mut self.increments);
        self.increments.extend(last);
    }
}

/// Appends a name, in quotes if it could not be read back without.
fn write_name(out: &mut Vec<u8>, name: &[u8]) {
    let plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'\\' | b'"' | b'\'');
    if !name.is_empty() && name.iter().all(plain) {
        out.extend_from_slice(name);
    } else {
        resp::quoted(out, name);
    }
}

fn content(reason: &'static str, line: usize, text: &[u8]) -> ManifestError {
    let text = String::from_utf8_lossy(text.trim_ascii()).into_owned();
    ManifestError::Content { reason, line, text }
}

fn entry(line: &[u8]) -> Result<(Listed, Kind), &'static str> {
    const FORMAT: &str = "Invalid AOF manifest file format";
    let words = resp::words(line.trim_ascii()).ok_or(FORMAT)?;
    if words.len() < 6 || words.len() % 2 != 0 {
        return Err(FORMAT);
    }
    let (mut file, mut seq, mut kind) = (None, 0, None);
    for pair in words.chunks_exact(2) {
        if pair[0].eq_ignore_ascii_case(b"file") {
            file = Some(String::from_utf8(pair[1].clone()).map_err(|_| FORMAT)?);
        } else if pair[0].eq_ignore_ascii_case(b"seq") {
            seq = std::str::from_utf8(&pair[1]).ok().and_then(|n| n.parse().ok()).unwrap_or(0);
        } else if pair[0].eq_ignore_ascii_case(b"type") {
            kind = pair[1].first().copied();
        }
    }
    let file = file.filter(|name| !name.is_empty()).ok_or(FORMAT)?;
    if file.contains(['/', '\\']) {
        return Err("File can't be a path, just a filename");
    }
    let kind = match kind {
        _ if seq == 0 || seq == u64::MAX => return Err(FORMAT),
        None => return Err(FORMAT),
        Some(b'b') => Kind::Base,
        Some(b'h') => Kind::History,
        Some(b'i') => Kind::Increment,
        Some(_) => return Err("Unknown AOF file type"),
    };
    Ok((Listed { file, seq }, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "file appendonly.aof.2.base.aof seq 2 type b\n\
                        file appendonly.aof.1.incr.aof seq 1 type h\n\
                        file appendonly.aof.2.incr.aof seq 2 type i\n\
                        file \"a b.incr.aof\" seq 4 type i\n";

    fn check_refused(text: &str, expected: &str) {
        match Manifest::parse(text.as_bytes()) {
            Err(ManifestError::Content { reason, .. }) => assert_eq!(reason, expected, "{text}"),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn a_manifest_is_written_as_it_was_read() {
        let manifest = Manifest::parse(TEXT.as_bytes()).expect("it is one of Redis's");
        assert_eq!(String::from_utf8(manifest.to_bytes()).unwrap(), TEXT);
        assert_eq!(manifest.to_load().len(), 3);
        let commented = format!("# a comment\n{TEXT}");
        assert_eq!(Manifest::parse(commented.as_bytes()).unwrap(), manifest);
    }

    #[test]
    fn names_go_on_from_the_last_number() {
        let mut manifest = Manifest::parse(TEXT.as_bytes()).unwrap();
        let options = Options::new("/");
        assert_eq!(manifest.add_increment(&options).file, "appendonly.aof.5.incr.aof");
        manifest.history.push(Listed { file: "appendonly.aof.6.incr.aof".to_owned(), seq: 6 });
        assert_eq!(manifest.add_increment(&options).file, "appendonly.aof.7.incr.aof");
        assert_eq!(manifest.add_base(&options, false).file, "appendonly.aof.3.base.aof");
        manifest.retire_increments();
        assert_eq!(manifest.increments.len(), 1);
        assert_eq!(manifest.history.len(), 6);
    }

    #[test]
    fn what_redis_refuses_is_refused() {
        check_refused("", "Found an empty AOF manifest");
        check_refused("\n", "Invalid AOF manifest file format");
        check_refused("file a seq 1 type b", "The AOF manifest file contains too long line");
        check_refused("file a seq 1\n", "Invalid AOF manifest file format");
        check_refused("file a seq x type b\n", "Invalid AOF manifest file format");
        check_refused("file a/b seq 1 type b\n", "File can't be a path, just a filename");
        check_refused("file a seq 1 type z\n", "Unknown AOF file type");
        let two = "file a seq 1 type b\nfile b seq 2 type b\n";
        check_refused(two, "Found duplicate base file information");
        let back = "file a seq 2 type i\nfile b seq 2 type i\n";
        check_refused(back, "Found a non-monotonic sequence number");
        let twice = "file a seq 1 type i\nfile a seq 2 type h\n";
        check_refused(twice, "Found a file that is listed twice");
    }

    proptest::proptest! {
        #[test]
        fn every_name_is_read_back(file in r"[^/\\]{1,40}") {
            let increments = vec![Listed { file, seq: 1 }];
            let manifest = Manifest { increments, increment_seq: 1, ..Manifest::default() };
            assert_eq!(Manifest::parse(&manifest.to_bytes()).expect("a manifest"), manifest);
        }

        #[test]
        fn no_manifest_panics(text: Vec<u8>) {
            let _ = Manifest::parse(&text);
        }
    }
}
