//! The command line of `perdura-bench`: one subcommand for each thing that can be measured.
//!
//! A subcommand's options stand in the module that runs it. It is named here when it works, not
//! before.

use clap::{Parser, Subcommand};

use crate::measure::{
    generators, memory, recovery, scripts, settings, snapshots, soak, stalls, throughput, types,
};
use crate::{compare, device, load, report, server};

/// Measures Perdura and its peers.
#[derive(Debug, Parser)]
#[command(name = "perdura-bench", version, arg_required_else_help = true)]
pub struct Arguments {
    /// What to measure.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to measure.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
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
    Launch(server::launch::Options),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn read(line: &str) -> Result<Arguments, clap::Error> {
        Arguments::try_parse_from(["perdura-bench"].into_iter().chain(line.split(' ')))
    }

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_command_lines_of_the_documents_are_taken() {
        for line in [
            "load -s 127.0.0.1 -p 6380 -a user:secret -c 10 -t 2 --pipeline 6 --test-time 10",
            "load --ratio=30:70 -d 32-4096 -R --rate-limiting 100 --print-percentiles 50,99.99",
            "load -n allkeys --key-pattern P:P --ratio 1:0 --key-minimum 1 --key-maximum 100",
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
    fn what_does_not_fit_together_is_refused_by_name() {
        for (line, part) in [
            ("load --no-such-thing", "--no-such-thing"),
            ("load --threads 0", "--threads"),
            ("load --test-time 0", "--test-time"),
            ("load -n allkeys --test-time 2", "cannot be used with"),
            ("load --data-size 0", "--data-size"),
            ("load -d 536870913", "512 MiB"),
            ("load --ratio 1-2", "two numbers are wanted, as in 1:10"),
            ("load --ratio 0:0", "above 0"),
            ("load --key-pattern P:R", "P:P"),
            ("load --ycsb a --ratio 1:1", "cannot be used with"),
            ("load --print-percentiles 101", "up to 100"),
        ] {
            let error = read(line).map(drop).expect_err(line);
            assert_eq!(error.exit_code(), 2, "{line}");
            assert!(error.to_string().contains(part), "{line}: {error}");
        }
    }
}
