//! A log of measurements in a pool: each is an entry of a stream, of which the newest thousand are
//! kept, and the last one is under a key of its own. Both change in one transaction. Two workers
//! share the measurements as a group; one takes over the entries that the other did not
//! acknowledge.
//!
//! ```text
//! cargo run --example streams
//! ```

use std::error::Error;
use std::time::Duration;

use perdura::prelude::*;
use perdura::{DomainRequest, Options, Perdura, StreamId};

fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    // The domain `process` needs no persistent memory: the pool survives a crash of the process,
    // not a power loss.
    let options = Options::new(dir.path().join("weather.pool")).domain(DomainRequest::Process);
    let store = Perdura::open(options)?;

    let mut first = None;
    for hour in 0..1500 {
        let degrees = (hour % 24).to_string();
        // The entry, the trim and the other key, or none of them, whenever the machine stops.
        let id = store.transaction(&["measured", "now"], |tx| {
            let id =
                tx.append_entry("measured", [("hour", &hour.to_string()), ("degrees", &degrees)])?;
            tx.trim_stream("measured", 1000)?;
            tx.set("now", &degrees)?;
            Ok::<_, perdura::Error>(id)
        })?;
        first = first.or(id);
    }
    println!("{} entries are kept", store.stream_len("measured")?);
    let from = first.unwrap_or(StreamId::MIN);
    for entry in store.entries("measured", from..=StreamId::MAX, 2)? {
        let words = entry.fields.iter().flat_map(|(field, value)| [field, value]);
        let words: Vec<_> = words.map(|word| String::from_utf8_lossy(word)).collect();
        println!("{}", words.join(" "));
    }

    // A group that reads the stream from its beginning.
    store.create_group("measured", "archive", StreamId::MIN)?;
    let mine = store.read_group("measured", "archive", "ada", 10)?.unwrap_or_default();
    let others = store.read_group("measured", "archive", "grace", 5)?.unwrap_or_default();
    let done =
        store.acknowledge("measured", "archive", mine.iter().take(7).map(|entry| entry.id))?;
    println!("ada was given {}, grace {}; {done} are done", mine.len(), others.len());
    // Ada has ended: grace claims her pending entries, and here her own too, since the minimum idle
    // time is zero.
    let claimed = store.claim("measured", "archive", "grace", Duration::ZERO, 100)?;
    println!("grace claims {}", claimed.unwrap_or_default().len());
    let pending = store.pending("measured", "archive", 100)?;
    let twice = pending.iter().filter(|pending| pending.count == 2).count();
    println!("{} are pending, {twice} of them given out twice", pending.len());
    store.close()?;
    Ok(())
}
