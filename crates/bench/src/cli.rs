//! The command line of `perdura-bench`: one subcommand for each thing that can be measured.
//!
//! A subcommand's options stand in the module that runs it. It is named here when it works, not
//! before.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Error, Parser, Subcommand};

use crate::measure::{
    generators, memory, recovery, scripts, settings, snapshots, soak, stalls, throughput, types,
};
use crate::{compare, device, load, report};

/// Measures Perdura and its peers.
#[derive(Debug, Parser)]
#[command(name = "perdura-bench", version, arg_required_else_help = true)]
pub struct Arguments {
    /// What to measure.
    #[command(subcommand)]
    pub command: Command,
}

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Send requests to a running server, with memtier_benchmark's options
    Load(Box<load::Options>),
    /// What a medium can do: bandwidth and latency by access method; the cost of a fence, a flush,
    /// a log append
    Device(device::Arguments),
    /// The page, pictures and tables of results that were measured before
    Report(report::Arguments),
    /// Compare ways to persist, side by side, and report on it
    Compare(Box<compare::Options>),
    /// SET and GET: requests a second, CPU time per operation, latency; compared with redis-server
    Throughput(throughput::Options),
    /// Time from exec to the first answer after kill -9, by number of keys
    Recovery(recovery::Options),
    /// Bytes of memory per key
    Memory(memory::Options),
    /// Lists, hashes, sets, sorted sets and streams: requests a second, bytes per element
    Types(types::Options),
    /// Lua scripts: CPU time per request, requests a second; compared with redis-server
    Scripts(scripts::Options),
    /// TLS, a limited user, metrics: CPU time per request, to that without
    Settings(settings::Options),
    /// Dumps: rates of load, save, import and export; SET while one is saved; compared with
    /// redis-server
    Snapshots(snapshots::Options),
    /// An hour of mixed load on a pool with a journal: latency, memory and files by the minute
    Soak(soak::Options),
    /// PING and GET next to long commands of another client, by number of threads: p50, p99, p99.9,
    /// maximum
    Stalls(stalls::Options),
    /// CPU time per request of generators of load
    Generators(generators::Options),
    /// Become another program: what servers are started with
    #[command(hide = true)]
    Launch(compare::launch::Options),
}

impl Arguments {
    /// Reads the words of a command line.
    ///
    /// # Errors
    /// A sentence for whoever typed it; help and version come this way too.
    pub fn read(words: impl IntoIterator<Item = OsString>) -> Result<Arguments, Error> {
        Arguments::try_parse_from(words).map_err(|error| {
            let option = match error.get(ContextKind::InvalidArg) {
                Some(ContextValue::String(option))
                    if error.kind() == ErrorKind::UnknownArgument =>
                {
                    option
                }
                _ => return error,
            };
            match load::advice(option) {
                Some(advice) => Arguments::command().error(ErrorKind::UnknownArgument, advice),
                None => error,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Arguments, Error> {
        Arguments::read(["perdura-bench"].into_iter().chain(line.split(' ')).map(OsString::from))
    }

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn options_of_memtier_benchmark_are_taken() {
        for line in [
            "load -s 127.0.0.1 -p 6380 -P resp3 -a user:secret -c 10 -t 2 --pipeline 6 --test-time 10",
            "load --ratio=30:70 -d 4096 -R --key-pattern=Z:Z --key-zipf-exp 1.2 --hide-histogram",
            "load -S /tmp/socket --data-size-range=32-4096 --data-size-pattern S --rate-limiting 100",
            "load -n allkeys --key-pattern P:P --ratio 1:0 --key-minimum 1 --key-maximum 100 -x 3",
            "load --command=PING --command-ratio 2 --command-key-pattern S --print-percentiles 50,99.99",
            "throughput --pipelines= --scale 0.5 --no-latency --rounds 1",
            "recovery --what zset --keys 1000,2000 --rounds 3",
            "types --tests= --members 10 --pipelines 16",
            "scripts --rounds 1 --scale 0.1",
            "settings --rounds 1 --scale 0.1 --pipelines 16",
            "snapshots --keys 3000 --rounds 1 --seconds 0",
            "stalls --threads 2 --peer sh=/bin/sh --scenarios nothing,exec --seconds 0.2",
            "soak --minutes 60 --journal-mib 16,256 --rate 5000",
        ] {
            read(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }

    #[test]
    fn what_is_not_supported_is_refused_by_name() {
        for (line, part) in [
            ("load --tls", "memtier_benchmark's option --tls is not supported"),
            ("load --cluster-mode", "--cluster-mode is not supported"),
            ("load --no-such-thing", "--no-such-thing"),
            ("load --ratio 1-2", "two numbers are wanted, as in 1:10"),
            ("load --key-pattern P:R", "P:P"),
            ("load -S /tmp/socket -p 1", "cannot be used with"),
            ("load --ycsb a --ratio 1:1", "cannot be used with"),
            ("load --command-ratio 2", "--command"),
        ] {
            let error = read(line).map(drop).expect_err(line);
            assert_eq!(error.exit_code(), 2, "{line}");
            assert!(error.to_string().contains(part), "{line}: {error}");
        }
    }
}
