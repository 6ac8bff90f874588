//! Every limit in seconds, bytes and counts: what happens below, at and above it.
//!
//! Each limit is a row: it sets the limit, lets a certain amount happen, and checks whether the
//! limit was crossed. A row says whether that is at the limit or above, as in redis-server 7.0.15,
//! or as in Perdura's documentation if Redis has no such limit. The generator chooses limits and
//! amounts: one less, the limit, one more, and others; the limit is changed by CONFIG SET on a
//! server that runs, for clients that are connected already.
//!
//! No row sleeps: the server's connections, its periodic work and the rounds of its housekeeping
//! thread run in the test ([`Ground`]), by a clock that the test moves. `THRESHOLDS_CASES` says how
//! many limits are tried for each row, `THRESHOLDS_SEED` repeats a run.

mod background;
mod clients;
mod commands;
mod ground;
mod handshakes;

use fastrand::Rng;

use ground::Ground;

/// The amount that crosses a limit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Crossed {
    At,
    Above,
}
use Crossed::{Above, At};

/// Lets an amount happen under a limit; returns true if the limit was crossed.
type Run = Box<dyn Fn(&Ground, u64, u64) -> bool>;

/// A limit.
struct Row {
    name: String,
    /// The smallest and the largest value that are tried.
    limits: (u64, u64),
    /// The amount that one unit of the limit corresponds to.
    unit: u64,
    crossed: Crossed,
    run: Run,
}

/// Returns a row.
fn row(
    name: &str,
    limits: (u64, u64),
    unit: u64,
    crossed: Crossed,
    run: impl Fn(&Ground, u64, u64) -> bool + 'static,
) -> Row {
    Row { name: name.into(), limits, unit, crossed, run: Box::new(run) }
}

/// Returns a number from the environment, or the default.
fn number(name: &str, preset: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(preset)
}

/// Tries amounts around one limit.
fn check(ground: &Ground, row: &Row, limit: u64, random: &mut Rng) {
    let at = limit * row.unit;
    let mut amounts = vec![at.saturating_sub(1), at, at + 1];
    if row.unit > 1 {
        amounts.push(at.saturating_sub(row.unit));
        amounts.push(at + row.unit);
    }
    random.shuffle(&mut amounts);
    println!("{} of {limit}: {amounts:?}", row.name);
    for amount in amounts {
        let crossed = (row.run)(ground, limit, amount);
        let expected = amount > at || amount == at && row.crossed == At;
        assert_eq!(
            crossed,
            expected,
            "{} of {limit}: {amount} {} (THRESHOLDS_SEED)",
            row.name,
            if expected { "is over the limit, and passes" } else { "is within it, and is refused" },
        );
    }
}

/// Tries the limits of some rows on one server.
fn try_rows(ground: &Ground, rows: &[Row]) {
    let (seed, cases) = (number("THRESHOLDS_SEED", 1), number("THRESHOLDS_CASES", 2));
    println!("THRESHOLDS_SEED={seed} repeats this");
    let mut random = Rng::with_seed(seed);
    for row in rows {
        let (low, high) = row.limits;
        check(ground, row, low, &mut random);
        for _ in 1..if low == high { 1 } else { cases } {
            check(ground, row, random.u64(low..=high), &mut random);
        }
    }
}

#[test]
fn limits_of_clients_are_crossed_where_redis_has_them() {
    let ground = Ground::in_memory();
    try_rows(&ground, &clients::rows());
    try_rows(&ground, &handshakes::rows());
}

#[test]
fn limits_of_commands_are_crossed_where_redis_has_them() {
    try_rows(&Ground::in_memory(), &commands::rows());
}

#[test]
fn limits_of_work_in_the_background_are_crossed_where_redis_has_them() {
    try_rows(&Ground::in_memory(), &background::rows());
    try_rows(&Ground::with_log(), &background::rows_of_the_log());
    try_rows(&Ground::with_journal(), &background::rows_of_a_pool());
}
