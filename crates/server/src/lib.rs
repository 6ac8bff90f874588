//! perdura-server.
#![forbid(unsafe_code)]

pub mod cli;
pub mod config;
pub mod text;

/// The release of Redis whose semantics are served, as clients are told.
pub const REDIS_VERSION: &str = "7.0.15";
