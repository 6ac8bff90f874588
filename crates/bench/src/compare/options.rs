//! The command line of `perdura-bench compare`.

use super::recovery::Of;
use super::systems::on_path;
use crate::units::{parse_bytes, parse_seconds};
use clap::Args;
use std::env;
use std::path::{Path, PathBuf};

/// The media that `perdura-server --emulate-media` can emulate.
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
journal on a disk), strings-get|set-32|4k-1|16 (bytes, pipeline), type-NAME (a command on a value of a million
elements, or on a short one), script-NAME. A shorter name means all that begin with it; a wrong one lists all.

Exit status: 0 all was measured; 1 something was not, or an acknowledged write was lost: what was measured
is kept; 2 the arguments ask for something impossible.")]
pub(crate) struct Options {
    /// Directory for results.json, report.html and the tables. The servers write their logs below
    /// it, so its disk is the one that is measured.
    #[arg(long, value_name = "DIR", default_value = "target/bench")]
    pub out: PathBuf,
    /// Systems to compare, separated by commas.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub systems: Vec<String>,
    /// Workloads to run, separated by commas; `none` leaves them out.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub workloads: Vec<String>,
    /// How often each workload is run on each system.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,
    /// Seconds of each run.
    #[arg(long, value_name = "S", value_parser = parse_seconds)]
    pub seconds: Option<f64>,
    /// Sizes of data sets to recover, separated by commas: 100mb,1gb. `none` leaves recovery out.
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = size)]
    pub recovery: Option<Vec<u64>>,
    /// The form of the data sets to recover.
    #[arg(long, value_enum, default_value_t = Of::Strings)]
    pub recovery_of: Of,
    /// Bytes of each value or field in the data sets to recover.
    #[arg(long, value_name = "BYTES", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(24..=1 << 20))]
    pub recovery_value: u32,
    /// Leave the device study out.
    #[arg(long)]
    pub no_device: bool,
    /// Keep the servers from round to round, to see what grows; the report then has a table by
    /// round.
    #[arg(long)]
    pub same_server: bool,
    /// Few systems and short rounds: about three minutes.
    #[arg(long, conflicts_with = "full")]
    pub quick: bool,
    /// Everything: small values, YCSB, data types, scripts, 4 GiB to recover. Hours.
    #[arg(long)]
    pub full: bool,
    /// A directory for pools on persistent memory, mounted with DAX. Without it pools are in
    /// /dev/shm, as emulated PMEM.
    #[arg(long, value_name = "DIR")]
    pub dax: Option<PathBuf>,
    /// A directory on a second device: append-only files and journals are measured there too.
    #[arg(long, value_name = "DIR")]
    pub second: Option<PathBuf>,
    #[command(flatten)]
    pub programs: Programs,
    #[command(flatten)]
    pub variants: Variants,
    /// Keys of each workload [default: 80 MB of values, at most 200000; a million elements of a
    /// large value].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub keys: Option<u64>,
}

/// The programs of the servers.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Programs {
    /// Other servers that take redis-server's arguments, separated by commas.
    #[arg(long, value_name = "NAME=PATH", value_delimiter = ',', env = "BENCH_PEERS")]
    #[arg(value_parser = peer)]
    pub peer: Vec<(String, PathBuf)>,
    /// perdura-server [default: next to this program, or on the PATH].
    #[arg(long, value_name = "PATH", env = "PERDURA_SERVER")]
    pub perdura: Option<PathBuf>,
    /// Further arguments of perdura-server, such as `--journal-size 16mb`.
    #[arg(long, value_name = "ARGUMENTS", default_value = "", allow_hyphen_values = true)]
    pub with: String,
}

/// Variants of the pool.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Variants {
    /// Also measure pools on these emulated media, separated by commas, if the server was built to
    /// emulate them.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = MEDIA)]
    pub media: Vec<String>,
    /// The server for --media [default: the same as for all others]. A server that can emulate
    /// media is slower even without them.
    #[arg(long, value_name = "PATH", requires = "media")]
    pub media_server: Option<PathBuf>,
    /// Also measure pools with a DRAM read cache of this size.
    #[arg(long, value_name = "SIZE")]
    pub read_cache: Option<String>,
}

#[cfg(test)]
impl Options {
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

impl Programs {
    /// Returns the server given on the command line, or else the one next to this program, or else
    /// the one on the PATH.
    pub(super) fn perdura_server(&self) -> PathBuf {
        let sibling = || Some(env::current_exe().ok()?.with_file_name("perdura-server"));
        let given = self.perdura.as_deref().map(absolute);
        given
            .or_else(|| sibling().filter(|path| path.is_file()))
            .or_else(|| on_path("perdura-server"))
            .unwrap_or_else(|| "perdura-server".into())
    }
}

/// Returns the absolute path of a program: servers start in a directory of their own, where a
/// relative path would not lead to it.
fn absolute(program: &Path) -> PathBuf {
    let is_file = program.is_file().then(|| std::path::absolute(program).ok()).flatten();
    is_file.unwrap_or_else(|| program.to_owned())
}

fn peer(text: &str) -> Result<(String, PathBuf), String> {
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

/// Returns the size of a data set; `none` is 0.
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
