//! How much work a command does, estimated from its description and its arguments.

use keyspace::{Db, Txn};

use super::step::Step;
use crate::table::spec::{Weigh, weights};

/// Returns roughly how much work a command does.
pub fn weight_of(step: &Step<'_>, txn: &Txn<'_>, db: Db) -> u64 {
    let weigh = |weigh: Weigh| weigh(step.args, step.keys, txn, db);
    let arguments = weights::COMMAND + weights::ARGUMENT * step.args.len() as u64;
    arguments.saturating_add(step.command.spec.weigh.map_or(0, weigh))
}
