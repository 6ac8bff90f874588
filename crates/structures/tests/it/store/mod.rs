//! A store of each structure in one shard: a model of its content, and transactions that change
//! both.
#![allow(unreachable_pub, reason = "a module of tests")]

mod blobs;
mod items;
mod keys;
mod lists;
mod plan;
mod read;
mod run;
mod state;

pub use plan::Plan;
pub use read::read;
pub use run::run;
pub use state::State;

const BLOBS: usize = 4;
const QUEUE: usize = 0;
const INDEX: usize = 1;
const FIRST_BLOB: usize = 2;
const TREE: usize = FIRST_BLOB + BLOBS;
const LIST: usize = TREE + 1;
const OWNER_TREE: u16 = 2;
const OWNER_LIST: u16 = 3;

/// Returns bytes that follow from a seed.
fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    std::iter::repeat_with(|| random.u8(..)).take(len).collect()
}
