//! A leaderboard in a pool: players with their points, the rank of one of them, and the players
//! near the top.
//!
//! ```text
//! cargo run --example leaderboard
//! ```

use std::error::Error;

use perdura::prelude::*;
use perdura::{DomainRequest, Options, Perdura};

fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    // The domain `process` needs no persistent memory: the pool survives a crash of the process,
    // not a power loss.
    let options = Options::new(dir.path().join("game.pool")).domain(DomainRequest::Process);
    let store = Perdura::open(options)?;

    for (player, points) in
        [("ada", 310.0), ("grace", 420.5), ("edsger", 280.0), ("barbara", 390.0)]
    {
        store.sorted_set_add("points", player, points)?;
    }
    let points = store.sorted_set_increment("points", "edsger", 125.0)?;
    println!("edsger has {points}");

    // A member moves from one board to the other, or stays: never in both, never in none.
    let last = store.transaction(&["points", "relegated"], |tx| {
        let last = tx.sorted_set_pop("points")?;
        if let Some((player, points)) = &last {
            tx.sorted_set_add("relegated", player, *points)?;
        }
        Ok::<_, perdura::Error>(last)
    })?;
    println!("relegated: {}", String::from_utf8(last.unwrap_or_default().0)?);

    let len = store.sorted_set_len("points")?;
    for (player, points) in store.sorted_set_members("points", 0, 10)?.into_iter().rev() {
        let place = store.sorted_set_rank("points", &player)?.map_or(0, |rank| len - rank);
        println!("{place}. {} {points}", String::from_utf8(player)?);
    }
    store.close()?;
    Ok(())
}
