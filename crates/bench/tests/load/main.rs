//! `perdura-bench load` against real servers, and against servers that misbehave.

#![forbid(unsafe_code)]

mod faults;
mod mock_server;
mod program;
mod servers;

use bench::load::{Options, Outcome, Requests, run};
use std::sync::atomic::AtomicBool;

/// Returns a small load: 2 threads with 5 connections of 200 requests each.
fn small(port: u16) -> Options {
    Options {
        server: "127.0.0.1".into(),
        port,
        threads: 2,
        clients: 5,
        requests: Some(Requests::Each(200)),
        key_maximum: 99,
        distinct_client_seed: true,
        ..Options::default()
    }
}

#[track_caller]
fn outcome(options: &Options) -> Outcome {
    run(options, &AtomicBool::new(false)).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs a load and checks that its outcome has no fault.
#[track_caller]
fn whole(options: &Options) -> Outcome {
    let outcome = outcome(options);
    assert!(outcome.is_whole(), "{:?} {:?}", outcome.ended, outcome.errors);
    outcome
}
