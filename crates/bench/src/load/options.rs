//! The options of a load: the server, the requests and the duration. They are a subset of
//! memtier_benchmark's options, with its names, meanings and defaults.
//!
//! A program fills the same fields: `Options { clients: 10, ..Options::default() }`. Contradictory
//! options are refused when the run begins, with a sentence that names the option.

use super::Error;
use super::workload::Ycsb;
use crate::units::parse_seconds;
use clap::{Args, Parser};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::path::PathBuf;
use std::str::FromStr;

/// Send requests to a server and report on its replies, with memtier_benchmark's options and their
/// meaning.
#[derive(Clone, Debug, Args)]
#[command(
    arg_required_else_help = false,
    after_help = "Latency counts from when a request was sent; with --rate-limiting from when it was due, so that a server \
which stalls is charged for every request that had to wait.\n\nExit status:\n  0  all was measured\n  1  the run broke off, \
or replies were errors; what was measured until then is printed\n  2  the options cannot be followed\n\nExamples:\n  \
perdura-bench load -d 4096 --pipeline 6 --ratio 30:70 --test-time 10\n  perdura-bench load -c 1 -t 1 --ratio 1:1 -n 100000\n  \
perdura-bench load --ratio 1:0 --key-pattern P:P --key-maximum 1000000 -n allkeys\n  \
perdura-bench load --command 'HSET __key__ field __data__' --command 'HGET __key__ field'"
)]
pub struct Options {
    /// The server's name or address
    #[arg(short, long, alias = "host", value_name = "ADDRESS", default_value = "localhost")]
    #[arg(help_heading = "Connection")]
    pub server: String,
    /// The server's port
    #[arg(short, long, default_value_t = 6379, help_heading = "Connection")]
    pub port: u16,
    /// A password, or USER:PASSWORD
    #[arg(short, long, value_name = "CREDENTIALS", help_heading = "Connection")]
    pub authenticate: Option<String>,

    /// Threads
    #[arg(short, long, default_value_t = 4, value_parser = above_zero, help_heading = "Load")]
    pub threads: usize,
    /// Connections of each thread
    #[arg(short, long, default_value_t = 50, value_parser = above_zero, help_heading = "Load")]
    pub clients: usize,
    /// Requests that a connection may have outstanding at once
    #[arg(long, value_name = "REQUESTS", default_value_t = 1, value_parser = above_zero)]
    #[arg(help_heading = "Load")]
    pub pipeline: usize,
    /// Requests of each connection, or `allkeys` [default: 10000, or no end with --test-time]
    #[arg(short = 'n', long, value_name = "NUMBER", conflicts_with = "test_time")]
    #[arg(help_heading = "Load")]
    pub requests: Option<Requests>,
    /// Seconds to run, in place of a number of requests
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, help_heading = "Load")]
    pub test_time: Option<f64>,
    /// Requests a second of each connection, evenly spaced
    #[arg(long, value_name = "RATE", value_parser = clap::value_parser!(u64).range(1..))]
    #[arg(help_heading = "Load")]
    pub rate_limiting: Option<u64>,
    /// Draw different keys and values for each connection; without this, all draw the same
    #[arg(long, help_heading = "Load")]
    pub distinct_client_seed: bool,

    /// Ratio of SETs to GETs
    #[arg(long, value_name = "SET:GET", default_value = "1:10", help_heading = "Requests")]
    pub ratio: Ratio,
    /// A command to send in place of SET and GET, in turn with each further one. __key__ is
    /// replaced by a key, __data__ by a value
    #[arg(long = "command", value_name = "TEXT", conflicts_with_all = ["ratio", "key_pattern"])]
    #[arg(help_heading = "Requests")]
    pub commands: Vec<String>,
    /// A workload of the Yahoo! Cloud Serving Benchmark, in place of a ratio and patterns. Fill the
    /// keys first
    #[arg(long, value_enum, value_name = "WORKLOAD", help_heading = "Requests")]
    #[arg(conflicts_with_all = ["ratio", "key_pattern", "commands"])]
    pub ycsb: Option<Ycsb>,

    /// Bytes of a value, or LOW-HIGH for a random size
    #[arg(short, long, value_name = "BYTES", default_value = "32", help_heading = "Values")]
    pub data_size: Size,
    /// Random bytes in place of `x`
    #[arg(short = 'R', long, help_heading = "Values")]
    pub random_data: bool,

    /// Prefix of each key
    #[arg(long, value_name = "TEXT", default_value = "memtier-", help_heading = "Keys")]
    pub key_prefix: String,
    /// The lowest number of a key
    #[arg(long, value_name = "NUMBER", default_value_t = 0, help_heading = "Keys")]
    pub key_minimum: u64,
    /// The highest number of a key
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000_000, help_heading = "Keys")]
    #[arg(value_parser = clap::value_parser!(u64).range(..1 << 53))]
    pub key_maximum: u64,
    /// How keys are chosen for SET and GET: R:R at random, P:P in sequence, with a part of the keys
    /// for each connection
    #[arg(long, value_name = "SET:GET", default_value = "R:R", help_heading = "Keys")]
    pub key_pattern: Pattern,

    /// The percentiles in the table, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "50,99,99.9")]
    #[arg(help_heading = "Output", value_parser = percentile)]
    pub print_percentiles: Vec<f64>,
    /// Write all figures to a file, as JSON
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub json_out_file: Option<PathBuf>,
}

impl Default for Options {
    /// Returns the options of an empty command line.
    fn default() -> Options {
        #[derive(Parser)]
        struct Alone {
            #[command(flatten)]
            options: Options,
        }
        Alone::parse_from([""]).options
    }
}

impl Options {
    /// Returns the number of connections of all threads.
    pub(crate) fn connections(&self) -> u64 {
        self.threads as u64 * self.clients as u64
    }

    /// Refuses ranges of keys that cannot be used, and raises the limit of open files if necessary.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.key_minimum > self.key_maximum {
            return Err(Error::Options("--key-minimum must not be above --key-maximum".into()));
        }
        let keys = self.key_maximum - self.key_minimum + 1;
        if self.key_pattern == Pattern::Parallel && keys < self.connections() {
            return Err(Error::Options(format!(
                "the pattern P gives each connection a part of the keys, but there are {} connections and {keys} keys: \
                 take fewer connections or a higher --key-maximum",
                self.connections()
            )));
        }
        self.allow_connections()
    }

    /// Raises the limit of open files to what the connections need. Fails if the hard limit is
    /// lower.
    fn allow_connections(&self) -> Result<(), Error> {
        /// Files that the process, and each thread, opens in addition to the connections.
        const OTHERS: u64 = 32;
        let (threads, clients) = (self.threads as u64, self.clients as u64);
        // At a limited rate, each connection has a timer too.
        let each = if self.rate_limiting.is_some() { 2 } else { 1 };
        let needed = threads.saturating_mul(clients.saturating_mul(each) + OTHERS) + OTHERS;
        let limit = getrlimit(Resource::Nofile);
        if limit.current.is_none_or(|current| current >= needed) {
            return Ok(());
        }
        let highest = limit.maximum.map_or(needed, |maximum| maximum.min(needed));
        let raised = Rlimit { current: Some(highest), maximum: limit.maximum };
        if setrlimit(Resource::Nofile, raised).is_err() || highest < needed {
            return Err(Error::Options(format!(
                "{} connections need {needed} open files, and {highest} are allowed: take fewer --clients, or raise `ulimit -n`",
                self.connections()
            )));
        }
        Ok(())
    }
}

fn above_zero(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err("a number above 0 is wanted".into()),
    }
}

fn percentile(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(percent),
        _ => Err("a percentage above 0 and up to 100 is wanted".into()),
    }
}

/// The ratio of SETs to GETs, such as `1:10`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio(pub u64, pub u64);

impl FromStr for Ratio {
    type Err = String;

    fn from_str(text: &str) -> Result<Ratio, String> {
        let numbers = text.split_once(':').map(|(sets, gets)| (sets.parse(), gets.parse()));
        match numbers {
            Some((Ok(0), Ok(0))) => Err("one of the two numbers must be above 0".into()),
            Some((Ok(sets), Ok(gets))) => Ok(Ratio(sets, gets)),
            _ => Err("two numbers are wanted, as in 1:10".into()),
        }
    }
}

/// The size of a value in bytes: a range that includes both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// The smallest size.
    pub low: usize,
    /// The largest size.
    pub high: usize,
}

impl Size {
    /// Returns a fixed size for all values.
    pub fn fixed(bytes: usize) -> Size {
        Size { low: bytes, high: bytes }
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        /// The maximum length of a string in Redis.
        const LONGEST: usize = 512 << 20;
        let (low, high) = text.split_once('-').unwrap_or((text, text));
        match (low.parse(), high.parse()) {
            (Ok(low), Ok(high)) if 0 < low && low <= high && high <= LONGEST => {
                Ok(Size { low, high })
            }
            _ => Err("from 1 byte to 512 MiB are possible, as 32 or as 32-4096".into()),
        }
    }
}

/// How the next key is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Uniformly at random.
    Random,
    /// In sequence: every connection goes through its own part of the range.
    Parallel,
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Pattern, String> {
        match text {
            "R:R" => Ok(Pattern::Random),
            "P:P" => Ok(Pattern::Parallel),
            _ => Err("R:R or P:P is wanted".into()),
        }
    }
}

/// How many requests a connection sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requests {
    /// This many.
    Each(u64),
    /// As many as there are keys or, with the pattern `P:P`, as many as there are keys in the
    /// connection's part.
    AllKeys,
}

impl FromStr for Requests {
    type Err = String;

    fn from_str(text: &str) -> Result<Requests, String> {
        match text.parse() {
            _ if text == "allkeys" => Ok(Requests::AllKeys),
            Ok(number) if number > 0 => Ok(Requests::Each(number)),
            _ => Err("a number above 0 is wanted, or `allkeys`".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_memtier_benchmark() {
        let options = Options::default();
        assert_eq!((options.threads, options.clients, options.pipeline), (4, 50, 1));
        assert_eq!((options.ratio, options.data_size), (Ratio(1, 10), Size::fixed(32)));
        assert_eq!((options.key_minimum, options.key_maximum), (0, 10_000_000));
        assert_eq!(options.print_percentiles, [50.0, 99.0, 99.9]);
        assert!(options.check().is_ok());
    }

    #[test]
    fn keys_that_cannot_be_chosen_are_refused() {
        let check = |options: Options, part: &str| {
            let error = options.check().expect_err(part).to_string();
            assert!(error.contains(part), "{error}");
        };
        check(Options { key_minimum: 5, key_maximum: 4, ..Options::default() }, "--key-minimum");
        let parallel = Options { key_pattern: Pattern::Parallel, ..Options::default() };
        check(Options { key_maximum: 10, ..parallel }, "200 connections and 11 keys");
    }
}
