//! The command line of `perdura-bench compare`.

use super::systems::on_path;
use crate::units::{parse_bytes, parse_seconds};
use clap::Args;
use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What `perdura-server --emulate-media` emulates.
const MEDIA: [&str; 3] = ["optane", "nvdimm-n", "cxl"];

/// Compare ways to persist: Perdura's pool, append-only files, redis-server, side by side.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Systems: perdura-pmem, perdura-journal-always, perdura-journal-everysec, perdura-journal-no, perdura-journal-tail
(the pool on the disk, its journal on persistent memory), perdura-aof-always, perdura-aof-everysec, perdura-aof-no,
perdura-volatile, redis-always, redis-everysec, redis-off, and NAME-always, NAME-everysec, NAME-off for a peer; a name with
@second or @dax is the same on that device. A shorter name means all that begin with it.

Workloads: throughput-N and latency-N with N percent of writes (0, 30, 70, 100), small-N (0, 100),
ycsb-a to ycsb-f, types, durable-NAME (set-16, set-1, hset, zadd, xadd, 4k-6, 4k-1; by systems with a log or a
journal on a disk). A shorter name means all that begin with it.

Exit status: 0 all was measured; 1 something was not, or an acknowledged write was lost: what was measured
is kept; 2 the arguments ask for something impossible.")]
pub(crate) struct Options {
    /// Where results.json, report.html and the tables go. Logs of the servers that are compared lie
    /// below it too: what it is on is what is measured.
    #[arg(long, value_name = "DIR", default_value = "target/bench")]
    pub out: PathBuf,
    /// Systems to compare, separated by commas.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub systems: Vec<String>,
    /// Workloads to run, separated by commas; `none` leaves them out.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub workloads: Vec<String>,
    /// How often each system has its turn with each workload.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,
    /// Seconds of each run.
    #[arg(long, value_name = "S", value_parser = parse_seconds)]
    pub seconds: Option<f64>,
    /// Sizes of data sets to recover, separated by commas: 100mb,1gb. `none` leaves recovery out.
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = size)]
    pub recovery: Option<Vec<u64>>,
    /// Leave the device study out.
    #[arg(long)]
    pub no_device: bool,
    /// Few systems and one short round: some three minutes.
    #[arg(long, conflicts_with = "full")]
    pub quick: bool,
    /// Everything: small values, YCSB, data types, 4 GiB to recover. Hours.
    #[arg(long)]
    pub full: bool,
    /// Finish within this time, with fewer rounds where it must be: 90s, 30m, 2h.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub time_limit: Option<Duration>,
    /// A directory on persistent memory that is mounted with DAX, for pools. Without it they are in
    /// /dev/shm, emulated.
    #[arg(long, value_name = "DIR")]
    pub dax: Option<PathBuf>,
    /// A directory on a second device: append-only files are measured there too.
    #[arg(long, value_name = "DIR")]
    pub second: Option<PathBuf>,
    /// Other servers that take redis-server's arguments, separated by commas.
    #[arg(long, value_name = "NAME=PATH", value_delimiter = ',', env = "BENCH_PEERS")]
    #[arg(value_parser = peer)]
    pub peer: Vec<(String, PathBuf)>,
    /// Also measure pools as if on these media, separated by commas, if the server was built to
    /// emulate them.
    #[arg(long, visible_alias = "emulate", value_name = "NAMES", value_delimiter = ',', value_parser = MEDIA)]
    pub media: Vec<String>,
    /// The server for --media [default: the same as for all others]. Emulation costs time
    /// even where it is off.
    #[arg(long, value_name = "PATH", requires = "media")]
    pub media_server: Option<PathBuf>,
    /// Also measure pools with a DRAM read cache of this size.
    #[arg(long, value_name = "SIZE")]
    pub read_cache: Option<String>,
    /// perdura-server [default: next to this program, or on the PATH].
    #[arg(long, value_name = "PATH", env = "PERDURA_SERVER")]
    pub perdura: Option<PathBuf>,
    /// Keys of each workload [default: 80 MB of values, at most 1000000].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub keys: Option<u64>,
}

impl Options {
    /// Returns the server to measure.
    pub(super) fn perdura_server(&self) -> PathBuf {
        perdura_server(self.perdura.as_deref())
    }

    #[cfg(test)]
    pub(super) fn for_tests() -> Options {
        use clap::Parser;
        #[derive(Parser)]
        struct Alone {
            #[command(flatten)]
            options: Options,
        }
        Alone::parse_from(["compare"]).options
    }
}

/// Returns the given server, or the one next to this program, or the one on the PATH.
pub(crate) fn perdura_server(given: Option<&Path>) -> PathBuf {
    let sibling = || Some(env::current_exe().ok()?.with_file_name("perdura-server"));
    given
        .map(absolute)
        .or_else(|| sibling().filter(|path| path.is_file()))
        .or_else(|| on_path("perdura-server"))
        .unwrap_or_else(|| "perdura-server".into())
}

/// Returns a program that a server is started from, in a directory of its own: a path from here
/// would not lead to it.
pub(crate) fn absolute(program: &Path) -> PathBuf {
    let is_file = program.is_file().then(|| std::path::absolute(program).ok()).flatten();
    is_file.unwrap_or_else(|| program.to_owned())
}

fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}; such as 90s, 30m or 2h"))
}

pub(crate) fn peer(text: &str) -> Result<(String, PathBuf), String> {
    let (name, path) = text.split_once('=').ok_or("NAME=PATH is wanted")?;
    let good = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '_';
    if name.is_empty() || !name.chars().all(good) {
        return Err("a name is made of letters, digits, dots and underscores".into());
    }
    if name == "redis" || name == "perdura" {
        return Err(format!("the name {name} is taken"));
    }
    if !PathBuf::from(path).is_file() {
        return Err(format!("there is no program {path}"));
    }
    Ok((name.into(), path.into()))
}

/// Returns the size of a data set; 0 represents `none`.
fn size(text: &str) -> Result<u64, String> {
    match text {
        "none" => Ok(0),
        _ => parse_bytes(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_a_name_and_a_program() {
        assert!(peer("sh=/bin/sh").is_ok());
        for bad in ["sh", "=/bin/sh", "a-b=/bin/sh", "redis=/bin/sh", "x=/nonexistent"] {
            assert!(peer(bad).is_err(), "{bad:?}");
        }
    }
}
