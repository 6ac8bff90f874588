//! The command line of `perdura-bench`: one subcommand for each thing that can be measured.
//!
//! A subcommand's options stand in the module that runs it. It is named here when it works, not before.

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
    // Device(device::Options): what the medium can do.
    // Compare(compare::Options): the experiment, and its report.
}
