//! Options that all measurements have, and lists as the command line writes them.

use super::bench::Bench;
use super::print::Raw;
use super::systems::{self, SYSTEMS, System};
use crate::compare::options::{absolute, perdura_server};
use crate::machine;
use crate::server::{Failure, remove_orphans};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// Options of all measurements.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Common {
    /// The directory for logs of servers and for the raw figures. It is the medium that is measured
    /// where a system has a log.
    #[arg(long, value_name = "DIR", default_value = "target/measure")]
    pub(super) disk: PathBuf,
    /// The file for the raw figures [default: NAME.tsv in the directory above].
    #[arg(long, value_name = "FILE")]
    pub(super) tsv: Option<PathBuf>,
    /// Systems, separated by commas: redis none, redis everysec, redis always, redis everysec no
    /// RDB base, perdura volatile, perdura volatile all cores, perdura pmem emulated, perdura pmem
    /// process, perdura aof everysec, perdura aof always, perdura journal everysec, perdura journal
    /// always.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(super) systems: Vec<String>,
    /// perdura-server [default: the one next to this program, or on the PATH].
    #[arg(long, value_name = "PATH", env = "PERDURA_SERVER")]
    pub(super) perdura: Option<PathBuf>,
    /// redis-server.
    #[arg(long, value_name = "PATH", env = "REDIS_SERVER", default_value = "redis-server")]
    pub(super) redis: PathBuf,
    /// The core of the server.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) server_core: usize,
    /// The core of the generator.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) client_core: usize,
}

impl Common {
    /// Returns the systems that were asked for, or those of `default`.
    pub(super) fn chosen(&self, default: &[&str]) -> Result<Vec<&'static System>, String> {
        let default = default.iter().copied().map(str::to_owned).collect();
        let names: Vec<String> =
            if self.systems.is_empty() { default } else { self.systems.clone() };
        let found = |name: &String| {
            systems::named(name.trim()).ok_or_else(|| {
                let all: Vec<_> = SYSTEMS.iter().map(|system| system.name).collect();
                format!("no system {name}; there are: {}", all.join("; "))
            })
        };
        names.iter().map(found).collect()
    }

    /// Prepares a measurement: prints what its figures must be read with.
    pub(super) fn bench<'c>(&self, cancel: &'c AtomicBool) -> Result<Bench<'c>, Failure> {
        std::fs::create_dir_all(&self.disk).map_err(Failure::of(self.disk.display()))?;
        remove_orphans(&self.disk);
        remove_orphans("/dev/shm".as_ref());
        let tool = std::env::current_exe().map_err(Failure::of("this program's own path"))?;
        let bench = Bench {
            tool,
            perdura: perdura_server(self.perdura.as_deref()),
            redis: absolute(&self.redis),
            disk: self.disk.clone(),
            server_core: self.server_core,
            client_core: self.client_core,
            cancel,
        };
        let here = machine::here();
        let disk = machine::place("disk", &self.disk);
        println!("Command line: {}", here.command_line.join(" "));
        println!("CPU: {}, {} cores; {}", here.cpu, here.cores, here.kernel);
        println!(
            "logs, and pools with a journal, on {} of {}; other pools in /dev/shm",
            disk.file_system, disk.device
        );
        println!("{}", machine::version("perdura-server", &bench.perdura).text);
        println!("{}", machine::version("redis-server", &bench.redis).text);
        let commit = here.commit.as_deref().unwrap_or("unknown");
        println!("commit {commit}; load average before: {:.2}", here.load_before);
        Ok(bench)
    }

    /// Returns the file for the raw figures of a measurement.
    pub(super) fn raw(&self, name: &str, head: &[&str]) -> Result<Raw, Failure> {
        let default = || self.disk.join(format!("{name}.tsv"));
        Raw::create(self.tsv.clone().unwrap_or_else(default), head)
    }
}

/// Numbers separated by commas; none in an empty text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Numbers(pub(super) Vec<u64>);

/// Reads numbers from a command line.
pub(super) fn numbers(text: &str) -> Result<Numbers, String> {
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    let number = |word: &str| match word.parse::<u64>() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(format!("{word} is not a number above 0")),
    };
    words.map(number).collect::<Result<Vec<_>, _>>().map(Numbers)
}

/// Returns a factor from the command line.
pub(super) fn factor(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(factor) if factor > 0.0 && factor <= 1000.0 => Ok(factor),
        _ => Err("a factor above 0 and up to 1000 is wanted".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_list_is_a_list() {
        assert_eq!(numbers(""), Ok(Numbers(Vec::new())));
        assert_eq!(numbers("1, 16"), Ok(Numbers(vec![1, 16])));
        for bad in ["x", "1,-2", "0"] {
            assert!(numbers(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_factor_is_positive() {
        assert_eq!(factor("0.4"), Ok(0.4));
        for bad in ["0", "-1", "x", "NaN"] {
            assert!(factor(bad).is_err(), "{bad}");
        }
    }
}
