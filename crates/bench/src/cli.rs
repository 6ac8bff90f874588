//! The command line of `perdura-bench`: one subcommand for each kind of measurement.
//!
//! The options of a subcommand are defined in the module that runs it. A subcommand is listed here
//! only once it works.

use clap::{Parser, Subcommand};

use crate::{compare, load, report, server, stalls};

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
    /// Make the page, pictures and tables from results that were measured before
    Report(report::Arguments),
    /// Compare ways to persist, side by side, and report on it
    Compare(Box<compare::Options>),
    /// Measure PING and GET while another client sends long commands, by number of threads: p50,
    /// p99, p99.9, maximum
    Stalls(Box<stalls::Options>),
    /// Set up this process and replace it with a server's program
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
            "compare --workloads durable --recovery none --no-device --peer sh=/bin/sh",
            "compare --recovery 400mb --recovery-of sorted-set --recovery-value 24 --rounds 3",
            "stalls --threads 2 --peer sh=/bin/sh --scenarios nothing,exec --seconds 0.2",
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
