//! Reading configuration text: a `redis.conf`, its includes, and the command line's directives.
//!
//! The text is read line by line as redis-server does, and what is wrong is reported with the line
//! number, the line and Redis's reason. One thing is stricter on purpose: the report of an unknown
//! directive names it.
//!
//! Invariant: the result depends on the text alone (and on the files that it includes); nothing is
//! opened, created or changed.

use std::path::{Path, PathBuf};

use super::kind::Kind;
use super::row::Row;
use super::{CommandLine, Values};

/// Why a configuration cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A file cannot be opened.
    #[error("Fatal error, can't open config file '{file}': {reason}", file = file.display())]
    Open {
        /// The file.
        file: PathBuf,
        /// The system's words.
        reason: String,
    },
    /// A line is wrong.
    #[error(
        "\n*** FATAL CONFIG FILE ERROR (Perdura {version}) ***\n\
         Reading the configuration file, at line {line}\n>>> '{text}'\n{reason}",
        version = env!("CARGO_PKG_VERSION")
    )]
    Line {
        /// Counted from 1.
        line: usize,
        /// The line without blanks at its ends.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A user, or the name of a command, is wrong.
    #[error(
        "\n*** FATAL CONFIG FILE ERROR (Perdura {version}) ***\n\
         Reading the configuration file{file}, at line {line}\n>>> '{text}'\n{reason}",
        version = env!("CARGO_PKG_VERSION"),
        file = file.as_ref().map(|file| format!(" '{}'", file.display())).unwrap_or_default()
    )]
    Command {
        /// The file that has the line.
        file: Option<PathBuf>,
        /// Counted from 1.
        line: usize,
        /// The line without blanks at its ends.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Directives have values that are refused.
    #[error(
        "\n*** FATAL CONFIG ERROR (Perdura {version}) ***\n{refused}\n\
         Remove what is named, or set it to its default, to start without it.",
        version = env!("CARGO_PKG_VERSION")
    )]
    Refused {
        /// Their names with the reasons, one a line.
        refused: String,
    },
    /// Files include each other too deeply.
    #[error("Fatal error, config file '{file}' is included too deeply", file = file.display())]
    Depth {
        /// The innermost file.
        file: PathBuf,
    },
}

/// Directives without a value of their own that are refused, with the reason.
pub const REFUSED_LINES: [(&str, &str); 2] = [
    ("loadmodule", "modules are not supported: their commands and types would be missing"),
    ("sentinel", "this is no Sentinel: nothing would be watched"),
];

/// Directives of older releases that Redis reads and drops.
pub const RETIRED: [&str; 3] =
    ["list-max-ziplist-entries", "list-max-ziplist-value", "lua-replicate-commands"];

const MAX_DEPTH: usize = 32;

/// Reads configurations into values.
#[derive(Default)]
pub struct Reader {
    values: Values,
    saw_save: bool,
    /// Where the line is that is read.
    file: Option<PathBuf>,
    at: usize,
    notes: Vec<String>,
}

impl Reader {
    /// Reads `file`, then `more` as if its lines stood at the end of the file.
    pub fn read(file: Option<&Path>, more: &str) -> Result<(Values, Vec<String>), ReadError> {
        let mut reader = Reader::default();
        let mut text = match file {
            Some(file) => open(file)?,
            None => String::new(),
        };
        text.push('\n');
        text.push_str(more);
        reader.file = file.map(Path::to_owned);
        reader.lines(&text, 0)?;
        // Only what holds at the end counts: the command line may take back what a file says.
        let refused = super::refused(&reader.values).into_iter();
        let refused: Vec<String> = refused.map(|(name, why)| format!("'{name}': {why}")).collect();
        if !refused.is_empty() {
            return Err(ReadError::Refused { refused: refused.join("\n") });
        }
        Ok((reader.values, reader.notes))
    }

    fn lines(&mut self, text: &str, depth: usize) -> Result<(), ReadError> {
        for (at, line) in text.split('\n').enumerate() {
            let line = line.trim_matches([' ', '\t', '\r', '\n']);
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            self.at = at + 1;
            self.line(line, depth).map_err(|wrong| match wrong {
                Wrong::ThisFile(reason) => {
                    ReadError::Line { line: at + 1, text: line.to_owned(), reason }
                }
                Wrong::IncludedFile(error) => error,
            })?;
        }
        Ok(())
    }

    fn line(&mut self, line: &str, depth: usize) -> Result<(), Wrong> {
        let words = unescape(line);
        let words = resp::words(&words).ok_or("Unbalanced quotes in configuration line")?;
        let Some((name, words)) = words.split_first() else { return Ok(()) };
        let name = name.to_ascii_lowercase();
        if let Some(row) = Row::find(&name) {
            return Ok(self.directive(row, words)?);
        }
        let refused = REFUSED_LINES.iter().find(|(line, _)| line.as_bytes() == name);
        if let Some((line, why)) = refused {
            return Err(Wrong::ThisFile(format!(
                "'{line}': {why}. Remove the line to start without it."
            )));
        }
        match (name.as_slice(), words) {
            (b"user", [_, ..]) => {
                let line = self.command_line(line, words);
                self.values.users.push(line);
                Ok(())
            }
            (b"rename-command", [_, _]) => {
                let line = self.command_line(line, words);
                self.values.renames.push(line);
                Ok(())
            }
            (b"include", [file]) => self.include(file, depth),
            (_, [_]) if RETIRED.iter().any(|r| r.as_bytes() == name) => {
                self.notes.push(format!(
                    "'{}' is accepted and does nothing: it was retired",
                    lossy(&name)
                ));
                Ok(())
            }
            _ => Err(Wrong::ThisFile(format!(
                "Bad directive or wrong number of arguments: unknown directive '{}'",
                lossy(&name)
            ))),
        }
    }

    fn command_line(&self, line: &str, words: &[Vec<u8>]) -> CommandLine {
        let (file, text) = (self.file.clone(), lossy(&unescape(line)));
        CommandLine { file, line: self.at, text, words: words.to_vec() }
    }

    fn directive(&mut self, row: &Row, words: &[Vec<u8>]) -> Result<(), String> {
        let split;
        let words = match words {
            [one] if row.kind.takes_many_arguments() && !one.is_empty() => {
                split = resp::words(one).ok_or("Unbalanced quotes in configuration line")?;
                split.as_slice()
            }
            other => other,
        };
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        // Save points of one configuration add up; the first replaces the preset.
        let earlier = self.values.save.clone();
        self.values.set_row(row, &words)?;
        if matches!(row.kind, Kind::Save) {
            let now = &self.values.save;
            if self.saw_save && !earlier.is_empty() && !now.is_empty() {
                self.values.save = [&*earlier, now].join(&b' ').as_slice().into();
            }
            self.saw_save = true;
        }
        Ok(())
    }

    fn include(&mut self, file: &[u8], depth: usize) -> Result<(), Wrong> {
        use std::os::unix::ffi::OsStrExt;
        let path = Path::new(std::ffi::OsStr::from_bytes(file));
        if depth >= MAX_DEPTH {
            return Err(Wrong::IncludedFile(ReadError::Depth { file: path.to_owned() }));
        }
        let files = if file.iter().any(|b| b"*?[".contains(b)) {
            matching(path)
        } else {
            vec![path.to_owned()]
        };
        for file in files {
            let text = open(&file).map_err(Wrong::IncludedFile)?;
            let outer = self.file.replace(file);
            self.lines(&text, depth + 1).map_err(Wrong::IncludedFile)?;
            self.file = outer;
        }
        Ok(())
    }
}

enum Wrong {
    ThisFile(String),
    IncludedFile(ReadError),
}

impl From<String> for Wrong {
    fn from(reason: String) -> Wrong {
        Wrong::ThisFile(reason)
    }
}

impl From<&str> for Wrong {
    fn from(reason: &str) -> Wrong {
        Wrong::ThisFile(reason.to_owned())
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

// A file need not be UTF-8: its other bytes travel as characters of a private range.
fn open(file: &Path) -> Result<String, ReadError> {
    let bytes = std::fs::read(file).map_err(|error| ReadError::Open {
        file: file.to_owned(),
        reason: crate::process::text::os_error(&error),
    })?;
    Ok(escape(&bytes))
}

/// Returns text in which every byte that is not ASCII is as one character of a private range.
pub fn escape(bytes: &[u8]) -> String {
    bytes.iter().map(|&b| if b < 128 { char::from(b) } else { private(b) }).collect()
}

fn private(byte: u8) -> char {
    char::from_u32(0xE000 + u32::from(byte)).unwrap_or('?')
}

fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    for c in text.chars() {
        match u32::from(c).checked_sub(0xE000).and_then(|n| u8::try_from(n).ok()) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend(c.encode_utf8(&mut [0; 4]).bytes()),
        }
    }
    bytes
}

/// Returns the files that a pattern names, in order; wildcards stand in any part of the path.
fn matching(pattern: &Path) -> Vec<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let mut found = vec![PathBuf::new()];
    for part in pattern.components() {
        let name = part.as_os_str();
        if !name.as_bytes().iter().any(|b| b"*?[".contains(b)) {
            for path in &mut found {
                path.push(name);
            }
            continue;
        }
        found = found.iter().flat_map(|folder| entries(folder, name.as_bytes())).collect();
    }
    found.retain(|path| path.exists());
    found.sort();
    found
}

fn entries(folder: &Path, pattern: &[u8]) -> Vec<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let look = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let Ok(entries) = std::fs::read_dir(look) else { return Vec::new() };
    entries
        .flatten()
        .map(|entry| entry.file_name())
        .filter(|name| pattern[0] == b'.' || !name.as_bytes().starts_with(b"."))
        .filter(|name| resp::glob::matches(pattern, name.as_bytes()))
        .map(|name| folder.join(name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Values, String> {
        Reader::read(None, text).map(|(values, _)| values).map_err(|error| error.to_string())
    }

    fn check(text: &str, name: &str, expect: &str) {
        let row = Row::find(name.as_bytes()).expect("a directive");
        let value = read(text).map(|values| lossy(&row.text(&values)));
        assert_eq!(value, Ok(expect.to_owned()), "{text}");
    }

    fn refused(text: &str, line: usize, reason: &str) {
        let error = read(text).expect_err(text);
        assert!(error.contains(&format!("at line {line}\n")), "{error}");
        assert!(error.ends_with(reason), "{error}");
    }

    #[test]
    fn lines_are_read_as_redis_reads_them() {
        check("port 7000", "port", "7000");
        check("# port 1\n\n  PORT 7000\r\n", "port", "7000");
        check("port 1\nport 2", "port", "2");
        check("requirepass \"a b\"", "requirepass", "a b");
        check("bind 127.0.0.1 ::1", "bind", "127.0.0.1 ::1");
        check("bind \"127.0.0.1 ::1\"", "bind", "127.0.0.1 ::1");
        check("save 900 1\nsave 300 10", "save", "900 1 300 10");
        check("save 900 1\nsave \"\"", "save", "");
        check("slave-priority 5", "replica-priority", "5");
        check("list-max-ziplist-entries 5", "port", "6379");
        check(
            "client-output-buffer-limit pubsub 1mb 1kb 5",
            "client-output-buffer-limit",
            "normal 0 0 0 slave 268435456 67108864 60 pubsub 1048576 1024 5",
        );
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        refused("\nport x", 3, "argument couldn't be parsed into an integer");
        refused("port 1 2", 2, "wrong number of arguments");
        refused("requirepass \"x", 2, "Unbalanced quotes in configuration line");
        refused("no-such 1", 2, "unknown directive 'no-such'");
    }

    #[test]
    fn what_would_be_dangerous_to_ignore_is_refused_by_name() {
        let error = read("cluster-enabled yes\nreplicaof h 1").expect_err("it would be dangerous");
        assert!(error.contains("'replicaof': a node of a cluster is told"), "{error}");
        assert!(read("cluster-enabled yes").is_ok());
        assert!(
            read("replicaof h 1\ncluster-enabled yes\ncluster-enabled no").is_ok(),
            "taken back"
        );
        for (line, reason) in [
            ("loadmodule x.so", "their commands and types would be missing"),
            ("sentinel monitor x 127.0.0.1 1 2", "nothing would be watched"),
        ] {
            refused(line, 2, &format!("{reason}. Remove the line to start without it."));
        }
    }

    #[test]
    fn other_names_of_commands_are_kept_with_their_place() {
        let values = read("port 1\nRename-Command CONFIG \"\"\n").expect("readable");
        let [line] = &values.renames[..] else { panic!("{:?}", values.renames) };
        assert_eq!((line.line, &line.words[..]), (3, &[b"CONFIG".to_vec(), Vec::new()][..]));
        let reason = line.refused("no".into()).to_string();
        assert!(reason.contains("at line 3\n>>> 'Rename-Command CONFIG"), "{reason}");
        assert!(read("rename-command CONFIG").is_err());
    }

    #[test]
    fn users_are_kept_with_their_place() {
        let values = read("port 1\nuser \"a\" on  +get\nuser b").expect("readable");
        let users = values.users.iter();
        let read: Vec<_> =
            users.map(|user| (user.line, user.text.as_str(), user.words.join(&b'|'))).collect();
        let expected =
            [(3, "user \"a\" on  +get", b"a|on|+get".to_vec()), (4, "user b", b"b".to_vec())];
        assert_eq!(read, expected);
        refused("user", 2, "unknown directive 'user'");
    }

    #[test]
    fn bytes_that_are_not_text_survive() {
        let dir = std::env::temp_dir().join(format!("perdura-conf-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("conf.d")).expect("folder");
        let file = dir.join("a.conf");
        std::fs::write(&file, b"requirepass \xff\xe9x\n").expect("write");
        let (values, _) = Reader::read(Some(&file), "").expect("read");
        assert_eq!(*values.requirepass, *b"\xff\xe9x");

        std::fs::write(dir.join("conf.d/1.conf"), "port 5\nhz 5").expect("write");
        std::fs::write(dir.join("conf.d/2.conf"), "port 6").expect("write");
        let include = format!("port 4\ninclude {}/conf.d/*.conf", dir.display());
        check(&include, "port", "6");
        check(&include, "hz", "5");
        let missing = read(&format!("include {}/none.conf", dir.display()));
        assert!(missing.is_err_and(|e| e.contains("can't open config file")));
        check(&format!("include {}/none*.conf", dir.display()), "port", "6379");
        std::fs::write(&file, format!("include {}\n", file.display())).expect("write");
        assert!(matches!(Reader::read(Some(&file), ""), Err(ReadError::Depth { .. })));
        std::fs::remove_dir_all(&dir).expect("clean up");
    }
}
