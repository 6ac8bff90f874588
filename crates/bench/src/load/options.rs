//! What to send, where and for how long: memtier_benchmark's options, with its names, meanings and
//! defaults.
//!
//! A program fills the same fields: `Options { clients: 10, ..Options::default() }`. What does not
//! fit together is refused when the run begins, with a sentence that names the option.

use std::path::PathBuf;

use clap::{Args, Parser, ValueEnum};

use super::command::Commands;
use super::types::{Patterns, Percentiles, Ratio, Requests, Sizes, Span};
use super::ycsb::Ycsb;

/// Send requests to a server and say what it did with them: memtier_benchmark's options and
/// meaning.
#[derive(Clone, Debug, Args)]
#[command(
    arg_required_else_help = false,
    after_help = "Latency counts from when a request was sent; with --rate-limiting from when it was due, so that a server \
which stalls is charged for every request that had to wait.\n\nExit status:\n  0  all was measured\n  1  the run broke off, \
or replies were errors; what was measured until then is printed\n  2  the options cannot be followed\n\nExamples:\n  \
perdura-bench load -d 4096 --pipeline 6 --ratio 30:70 --test-time 10\n  perdura-bench load -c 1 -t 1 --ratio 1:1 -n 100000\n  \
perdura-bench load --ratio 1:0 --key-pattern P:P --key-maximum 1000000 -n allkeys\n  \
perdura-bench load --command 'HSET __key__ field __data__' --command 'HGET __key__ field' --command-ratio 10"
)]
pub struct Options {
    /// The server's name or address
    #[arg(short, long, alias = "host", value_name = "ADDRESS", default_value = "localhost")]
    #[arg(help_heading = "Connection", conflicts_with = "unix_socket")]
    pub server: String,
    /// The server's port
    #[arg(short, long, default_value_t = 6379)]
    #[arg(help_heading = "Connection", conflicts_with = "unix_socket")]
    pub port: u16,
    /// A Unix domain socket in place of an address
    #[arg(short = 'S', long, value_name = "PATH", help_heading = "Connection")]
    pub unix_socket: Option<PathBuf>,
    /// Use IPv4 addresses only
    #[arg(short = '4', long, help_heading = "Connection", conflicts_with = "ipv6")]
    pub ipv4: bool,
    /// Use IPv6 addresses only
    #[arg(short = '6', long, help_heading = "Connection")]
    pub ipv6: bool,
    /// The protocol: `redis` speaks RESP2 without asking; `resp2` and `resp3` ask for theirs with
    /// HELLO
    #[arg(short = 'P', long, value_enum, default_value_t = Protocol::Redis)]
    #[arg(help_heading = "Connection")]
    pub protocol: Protocol,
    /// A password, or USER:PASSWORD
    #[arg(short, long, value_name = "CREDENTIALS", help_heading = "Connection")]
    pub authenticate: Option<String>,
    /// The number of the database
    #[arg(long, value_name = "DB", default_value_t = 0, help_heading = "Connection")]
    pub select_db: u32,
    /// Give up on a connection that is not made after this many seconds (0: never)
    #[arg(long, value_name = "SECONDS", default_value_t = 0, help_heading = "Connection")]
    pub connection_timeout: u64,
    /// Connect again after this many requests
    #[arg(long, value_name = "REQUESTS", help_heading = "Connection")]
    pub reconnect_interval: Option<u64>,

    /// Threads
    #[arg(short, long, default_value_t = 4, help_heading = "Load")]
    pub threads: usize,
    /// Connections of each thread
    #[arg(short, long, default_value_t = 50, help_heading = "Load")]
    pub clients: usize,
    /// Requests of a connection that may be on their way at once
    #[arg(long, value_name = "REQUESTS", default_value_t = 1, help_heading = "Load")]
    pub pipeline: usize,
    /// Requests of each connection, or `allkeys` [default: 10000, or no end with --test-time]
    #[arg(short = 'n', long, value_name = "NUMBER", help_heading = "Load")]
    pub requests: Option<Requests>,
    /// Seconds to run, in place of a number of requests
    #[arg(long, value_name = "SECONDS", help_heading = "Load")]
    pub test_time: Option<f64>,
    /// Requests a second of each connection, evenly spaced
    #[arg(long, value_name = "RATE", help_heading = "Load")]
    pub rate_limiting: Option<u64>,
    /// How often to do all of it
    #[arg(short = 'x', long, value_name = "RUNS", default_value_t = 1, help_heading = "Load")]
    pub run_count: usize,
    /// Draw other keys and values for each connection: without this all draw the same
    #[arg(long, help_heading = "Load")]
    pub distinct_client_seed: bool,
    /// Draw other keys and values each time: without this every run draws the same
    #[arg(long, help_heading = "Load")]
    pub randomize: bool,

    /// SETs to GETs
    #[arg(long, value_name = "SET:GET", default_value_t = Ratio(1, 10), help_heading = "Requests")]
    pub ratio: Ratio,
    /// Read up to this many keys with one MGET in place of GETs
    #[arg(long, value_name = "KEYS", help_heading = "Requests")]
    pub multi_key_get: Option<u64>,
    /// Let values expire after a number of seconds from this range
    #[arg(long, value_name = "LOW-HIGH", help_heading = "Requests")]
    pub expiry_range: Option<Span>,
    /// Write and read at this offset, with SETRANGE and GETRANGE
    #[arg(long, value_name = "BYTES", default_value_t = 0, help_heading = "Requests")]
    pub data_offset: u64,
    /// SETs to WAITs
    #[arg(long, value_name = "SET:WAIT", help_heading = "Requests")]
    pub wait_ratio: Option<Ratio>,
    /// How many replicas to wait for, drawn from this range
    #[arg(long, value_name = "LOW-HIGH", help_heading = "Requests")]
    pub num_slaves: Option<Span>,
    /// How many milliseconds to wait for them, drawn from this range
    #[arg(long, value_name = "LOW-HIGH", help_heading = "Requests")]
    pub wait_timeout: Option<Span>,
    /// Other commands than SET and GET.
    #[command(flatten)]
    pub commands: Commands,
    /// A workload of the Yahoo! Cloud Serving Benchmark, in place of a ratio and patterns. Fill the
    /// keys first
    #[arg(long, value_enum, value_name = "WORKLOAD", help_heading = "Requests")]
    #[arg(conflicts_with_all = ["ratio", "key_pattern", "command", "multi_key_get", "wait_ratio"])]
    pub ycsb: Option<Ycsb>,

    /// Bytes of a value [default: 32]
    #[arg(short, long, value_name = "BYTES", help_heading = "Values")]
    #[arg(conflicts_with_all = ["data_size_range", "data_size_list"])]
    pub data_size: Option<usize>,
    /// Bytes of a value, drawn from this range
    #[arg(long, value_name = "LOW-HIGH", help_heading = "Values")]
    #[arg(conflicts_with = "data_size_list")]
    pub data_size_range: Option<Span>,
    /// Bytes of a value with how often each is taken
    #[arg(long, value_name = "SIZE:WEIGHT,...", help_heading = "Values")]
    pub data_size_list: Option<Sizes>,
    /// With a range: R draws the size, S lets it grow with the number of the key
    #[arg(long, value_enum, default_value_t = SizePattern::R, help_heading = "Values")]
    pub data_size_pattern: SizePattern,
    /// Random bytes in place of `x`
    #[arg(short = 'R', long, help_heading = "Values")]
    pub random_data: bool,

    /// What a key begins with
    #[arg(long, value_name = "TEXT", default_value = "memtier-", help_heading = "Keys")]
    pub key_prefix: String,
    /// The lowest number of a key
    #[arg(long, value_name = "NUMBER", default_value_t = 0, help_heading = "Keys")]
    pub key_minimum: u64,
    /// The highest number of a key
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000_000, help_heading = "Keys")]
    pub key_maximum: u64,
    /// How keys are chosen for SET and GET: R at random, S in sequence, G on a bell curve, Z by
    /// Zipf's law from key 1 on, P:P in sequence, each connection in a part of its own
    #[arg(long, value_name = "SET:GET", default_value = "R:R", help_heading = "Keys")]
    pub key_pattern: Patterns,
    /// The standard deviation of G [default: a sixth of the range]
    #[arg(long, value_name = "KEYS", help_heading = "Keys")]
    pub key_stddev: Option<f64>,
    /// The middle of G [default: that of the range]
    #[arg(long, value_name = "NUMBER", help_heading = "Keys")]
    pub key_median: Option<f64>,
    /// The exponent of Z, between 0 and 5 [default: 1; 0.99 with --ycsb]
    #[arg(long, value_name = "EXPONENT", help_heading = "Keys")]
    pub key_zipf_exp: Option<f64>,

    /// Leave the latency distribution out
    #[arg(long, help_heading = "Output")]
    pub hide_histogram: bool,
    /// The percentiles in the table
    #[arg(long, value_name = "LIST", default_value = "50,99,99.9", help_heading = "Output")]
    pub print_percentiles: Percentiles,
    /// With several runs: a table for each
    #[arg(long, help_heading = "Output")]
    pub print_all_runs: bool,
    /// Write the tables to a file
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub out_file: Option<PathBuf>,
    /// Write all figures to a file, as JSON
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub json_out_file: Option<PathBuf>,
    /// Write histograms to files whose names begin so: one log of seconds for HdrHistogram's tools,
    /// and one table, for all requests and for each kind
    #[arg(long, value_name = "PREFIX", help_heading = "Output")]
    pub hdr_file_prefix: Option<PathBuf>,
    /// No progress line (there is none anyway where standard error is not a terminal)
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,
}

impl Default for Options {
    /// Returns what an empty command line means.
    fn default() -> Options {
        #[derive(Parser)]
        struct Alone {
            #[command(flatten)]
            options: Options,
        }
        Alone::parse_from([""]).options
    }
}

/// The protocol on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Protocol {
    /// RESP2, which every server speaks until asked for another.
    Redis,
    /// RESP2, asked for.
    Resp2,
    /// RESP3.
    Resp3,
}

/// How the size of a value is chosen from a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SizePattern {
    /// At random.
    #[value(name = "R")]
    R,
    /// It grows with the number of the key.
    #[value(name = "S")]
    S,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_memtier_benchmark() {
        let options = Options::default();
        assert_eq!((options.threads, options.clients, options.pipeline), (4, 50, 1));
        assert_eq!(options.ratio, Ratio(1, 10));
        assert_eq!((options.key_minimum, options.key_maximum), (0, 10_000_000));
        assert_eq!(options.key_prefix, "memtier-");
        assert_eq!(options.print_percentiles, Percentiles(vec![50.0, 99.0, 99.9]));
        assert_eq!((options.server.as_str(), options.port), ("localhost", 6379));
    }
}
