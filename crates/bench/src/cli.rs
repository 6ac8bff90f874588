//! The command line of `perdura-bench`: one subcommand for each thing that can be measured.
//!
//! A subcommand's options stand in the module that runs it. It is named here when it works, not before.

use crate::device;
use clap::{Parser, Subcommand};

/// Measures Perdura and its peers.
#[derive(Debug, Parser)]
#[command(name = "perdura-bench", version, arg_required_else_help = true)]
pub struct Arguments {
    /// What to measure.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum Command {
    // Load(load::Options): requests to a running server, with memtier_benchmark's options.
    /// What a medium can do: bandwidth and latency by access method; the cost of a fence, a flush, a log append
    Device(device::Arguments),
    // Compare(compare::Options): the experiment, and its report.
}
