//! Clusters of simulated nodes: messages are lost and late, networks are cut, nodes crash and come
//! back with their files, clocks jump.
//!
//! A seed decides everything. `CLUSTER_SEEDS=100` runs so many of them, `CLUSTER_SEED=7` that one.

mod agreement;
mod bus;
mod canaries;
mod commands;
mod failover;
mod hostile;
mod network;
mod node;
mod peers;
mod watch;
mod world;
