//! The visitors of a site in a pool: who came on which day, as bits, and about how many different
//! pages they asked for.
//!
//! A bitmap takes a bit for each user and a day; a HyperLogLog takes 12 KiB, however many pages
//! there are.
//!
//! ```text
//! cargo run --example visitors
//! ```

use std::error::Error;

use perdura::prelude::*;
use perdura::{BitOperation, BitRange, DomainRequest, Options, Perdura};

fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    // The domain `process` needs no persistent memory: the pool survives a crash of the process,
    // not a power loss.
    let options = Options::new(dir.path().join("site.pool")).domain(DomainRequest::Process);
    let store = Perdura::open(options)?;

    // Every second user comes on Monday, every third on Tuesday, and each asks for ten pages: the
    // bit and the pages are written together.
    for (day, every) in [("monday", 2), ("tuesday", 3)] {
        let pages = format!("pages:{day}");
        for user in (0..3000).step_by(every) {
            store.transaction(&[day, &pages], |tx| {
                tx.set_bit(day, user, true)?;
                let asked: Vec<String> =
                    (0..10).map(|n| format!("page {}", user * 10 + n)).collect();
                tx.pf_add(&pages, &asked)
            })?;
        }
        println!("{day}: {} users", store.bit_count(day, BitRange::All)?);
    }

    store.bit_op("both", BitOperation::And, &["monday", "tuesday"])?;
    let first = store.bit_position("both", true, BitRange::Bytes(1, -1))?;
    println!("both days: {} users", store.bit_count("both", BitRange::All)?);
    println!("the first of them behind user 7: {}", first.unwrap_or_default());

    // 20000 different pages, of which some were asked for on both days.
    let pages = store.pf_count(&["pages:monday", "pages:tuesday"])?;
    println!("pages within 3 % of 20000: {}", pages.abs_diff(20_000) < 600);
    store.close()?;
    Ok(())
}
