//! A log of measurements in a pool: each is an entry of a stream, the newest thousand are kept, and the last one stands under a
//! key of its own. Both change in one transaction.
//!
//! ```text
//! cargo run --example streams
//! ```

use std::error::Error;

use perdura::{DomainRequest, Options, Perdura, StreamId};

fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    // The domain `process` needs no persistent memory: the pool survives a crash of the process, not a power loss.
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
    store.close()?;
    Ok(())
}
