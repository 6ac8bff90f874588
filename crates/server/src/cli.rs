//! The command line: redis-server's, and Perdura's own options.
//!
//! redis-server's command line is configuration text in disguise: a file's name first (or `-` for
//! standard input), then `--directive value…`, each of which becomes a line after the file's. So
//! every directive is an option, its own ones included, and one table describes them all. An
//! argument parser that needs to know each option's shape beforehand would only be in the way, so
//! none is used here.
//!
//! Nothing here opens or changes anything but standard input.

use std::path::PathBuf;

use crate::config::file;
use crate::config::row::Row;
use crate::process::text::quote;

/// The demand of the command line.
#[derive(Debug, PartialEq, Eq)]
pub enum Request {
    /// Print the version.
    Version,
    /// Print the help.
    Help,
    /// Serve.
    Serve(Arguments),
    /// Words that cannot be understood; the text is the error.
    Wrong(String),
}

/// The sources of the configuration.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Arguments {
    /// A configuration file.
    pub file: Option<PathBuf>,
    /// Whether standard input holds more directives.
    pub stdin: bool,
    /// The directives of the command line, one a line.
    pub lines: String,
}

/// Perdura's own switches, which alone mean `yes`.
const SWITCHES: [&str; 1] = ["--emulate-pmem"];

/// Reads the words after the program's name.
pub fn parse(words: &[Vec<u8>]) -> Request {
    if let [only] = words {
        match only.as_slice() {
            b"-v" | b"--version" => return Request::Version,
            b"-h" | b"--help" => return Request::Help,
            _ => {}
        }
    }
    let mut arguments = Arguments::default();
    let mut rest = words;
    if let Some((first, others)) = words.split_first() {
        if first == b"-" {
            arguments.stdin = true;
            rest = others;
        } else if !first.starts_with(b"-") {
            use std::os::unix::ffi::OsStringExt;
            arguments.file = Some(std::ffi::OsString::from_vec(first.clone()).into());
            rest = others;
        }
    }
    if let Some((last, others)) = rest.split_last()
        && last == b"-"
    {
        arguments.stdin = true;
        rest = others;
    }
    match lines(rest) {
        Ok(lines) => Request::Serve(Arguments { lines, ..arguments }),
        Err(word) => Request::Wrong(format!(
            "'{word}' is neither a directive nor the value of one. See perdura-server --help."
        )),
    }
}

fn lines(words: &[Vec<u8>]) -> Result<String, String> {
    let mut text = String::new();
    let mut wants_value = false;
    for (at, word) in words.iter().enumerate() {
        let is_name = |w: &[u8]| w.starts_with(b"--");
        if !wants_value && is_name(word) {
            text.push('\n');
            text.push_str(&file::escape(&word[2..]));
            text.push(' ');
            let ends = words.get(at + 1).is_none_or(|next| is_name(next));
            let alone = !word.contains(&b' ');
            wants_value = alone;
            if ends && word.eq_ignore_ascii_case(b"--save") {
                text.push_str("\"\"");
                wants_value = false;
            }
            if ends && SWITCHES.iter().any(|s| word.eq_ignore_ascii_case(s.as_bytes())) {
                text.push_str("yes");
                wants_value = false;
            }
        } else if text.is_empty() {
            // Redis takes the first directive without the dashes, too.
            if Row::find(word).is_none() {
                return Err(String::from_utf8_lossy(word).into_owned());
            }
            text.push('\n');
            text.push_str(&file::escape(word));
            text.push(' ');
            wants_value = true;
        } else {
            text.push_str(&quote(word));
            text.push(' ');
            wants_value = false;
        }
    }
    Ok(text)
}

/// Returns the text of `--version`: redis-server's line, which programs read, with Perdura's
/// version at its end.
pub fn version() -> String {
    format!(
        "Redis server v={} sha=00000000:0 malloc=perdura bits=64 build=0 perdura={}",
        crate::REDIS_VERSION,
        env!("CARGO_PKG_VERSION")
    )
}

/// The text of `--help`.
pub const HELP: &str = "\
Usage: perdura-server [/path/to/redis.conf] [--directive value ...] [-]
       perdura-server -v | --version
       perdura-server -h | --help

A Redis-compatible server whose keyspace survives restarts in place. It reads a redis.conf and takes
every directive of it as an option; `-` reads more directives from standard input. See
docs/configuration.md for all of them.

Where the data lives:
  --backend auto|pmem|journal|aof
                            pmem: the keyspace lives in the pool file, every write is durable when its
                            reply leaves. journal: the same on an ordinary disk, with a journal next to
                            the pool, which is synced as --appendfsync says. aof: it lives in memory,
                            behind an append-only file (with --appendonly no: memory and RDB files).
                            auto (default): pmem if the pool's file can be mapped with MAP_SYNC, journal
                            elsewhere, but for a directory whose data is in an append-only file; the
                            log says which and why.
  --other-stores refuse|ignore
                            what to do where another store than the one to be served (a pool, an
                            append-only file, a dump.rdb) holds data (default: refuse to start)
  --pool FILE               the pool's file, or a device DAX (default: perdura.pool in --dir)
  --pool-size SIZE          the largest that the pool may become (default 4gb; it starts small and
                            grows by up to 64mb: in a pool of more than 1gb what is left beyond its
                            last whole step is not used). MEMORY PURGE gives free space back to the
                            file system (not with a journal)
  --journal FILE            the journal's file (default: that of the pool, with .journal after it); on
                            persistent memory a write is durable without a system call
  --journal-size SIZE       its size when it is made (default 256mb)
  --preload yes|no          with a journal: read the whole pool into huge pages at the start (default no)
  --domain auto|clwb|eadr|msync|process
                            how stores become durable. clwb, eadr: persistent memory. msync: any file,
                            slow. process: any file, survives a crash of the process but no power loss.
                            auto (default): clwb or eadr, as the machine has it; refused elsewhere.
  --emulate-pmem            with clwb, eadr or --journal: run flushes and fences on any file, to try or
                            measure; survives a crash of the process only
  --emulate-media optane|nvdimm-n|cxl
                            plays the latency and bandwidth of such a medium, to measure without one; with
                            --emulate-cache SIZE behind a processor's cache of that size (default: the
                            machine's). Only in a build for it; see docs/emulated-media.md
  --read-cache SIZE         DRAM for copies of values that are read often, for a medium that is slower
                            than DRAM (default 0: none)
  --threads N               threads that serve connections (default: one per core)

Often used:
  --port 6379  --bind 127.0.0.1  --unixsocket PATH  --dir FOLDER  --requirepass SECRET
  --appendonly yes|no  --appendfsync always|everysec|no  --maxmemory SIZE  --maxclients N
  --logfile FILE  --loglevel debug|verbose|notice|warning

Examples:
  perdura-server                                        what this machine offers, port 6379
  perdura-server /etc/perdura.conf --port 6380          a configuration file, and one change to it
  perdura-server --backend pmem --pool /mnt/pmem0/perdura.pool --pool-size 64gb
  perdura-server --backend journal --pool ./data/perdura.pool --appendfsync always
  perdura-server --backend aof --appendfsync always
  echo 'maxmemory 128mb' | perdura-server -
";

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<Vec<u8>> {
        line.split('|').filter(|w| !w.is_empty()).map(|w| w.as_bytes().to_vec()).collect()
    }

    fn check(line: &str, file: Option<&str>, stdin: bool, lines: &str) {
        let expect = Arguments { file: file.map(PathBuf::from), stdin, lines: lines.to_owned() };
        assert_eq!(parse(&words(line)), Request::Serve(expect), "{line}");
    }

    #[test]
    fn options_become_lines() {
        check("", None, false, "");
        check("/x/redis.conf", Some("/x/redis.conf"), false, "");
        check("--port|7000", None, false, "\nport \"7000\" ");
        check("--port 7000", None, false, "\nport 7000 ");
        check(
            "a.conf|--save|900|1|--hz|5",
            Some("a.conf"),
            false,
            "\nsave \"900\" \"1\" \nhz \"5\" ",
        );
        check("--requirepass|--x", None, false, "\nrequirepass \"--x\" ");
        check("--save|--hz|5", None, false, "\nsave \"\"\nhz \"5\" ");
        check("--emulate-pmem|--hz|5", None, false, "\nemulate-pmem yes\nhz \"5\" ");
        check("--emulate-pmem|no", None, false, "\nemulate-pmem \"no\" ");
        check("a.conf|hz|5|--port|1", Some("a.conf"), false, "\nhz \"5\" \nport \"1\" ");
        assert!(matches!(parse(&words("a.conf|nosuch|5")), Request::Wrong(_)));
    }

    #[test]
    fn a_dash_reads_standard_input() {
        check("-", None, true, "");
        check("a.conf|-", Some("a.conf"), true, "");
        check("-|--port|1", None, true, "\nport \"1\" ");
    }

    #[test]
    fn questions_are_answered() {
        assert_eq!(parse(&words("--version")), Request::Version);
        assert_eq!(parse(&words("-h")), Request::Help);
        assert!(matches!(parse(&words("-x|y")), Request::Wrong(_)));
    }
}
