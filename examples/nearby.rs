//! Places in a pool: their distances, and which of them are near.
//!
//! ```text
//! cargo run --example nearby
//! ```

use std::error::Error;

use perdura::prelude::*;
use perdura::{DomainRequest, GeoPoint, GeoSearch, GeoShape, Options, Perdura};

fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    // The domain `process` needs no persistent memory: the pool survives a crash of the process,
    // not a power loss.
    let options = Options::new(dir.path().join("stations.pool")).domain(DomainRequest::Process);
    let store = Perdura::open(options)?;

    for (city, longitude, latitude) in [
        ("Berlin", 13.405, 52.52),
        ("Hamburg", 9.993, 53.551),
        ("Leipzig", 12.374, 51.34),
        ("Potsdam", 13.06, 52.4),
        ("Vienna", 16.373, 48.208),
    ] {
        store.geo_add("cities", city, GeoPoint { longitude, latitude })?;
    }
    let metres = store.geo_distance("cities", "Berlin", "Vienna")?.unwrap_or_default();
    println!("from Berlin to Vienna: {:.0} km", metres / 1000.0);

    let near = GeoSearch::around_member("Berlin", GeoShape::Circle { radius: 300e3 });
    for found in store.geo_search("cities", &near)? {
        println!("{}: {:.0} km", String::from_utf8(found.member)?, found.distance / 1000.0);
    }

    // A box around a point, 200 km from west to east and 400 km from south to north.
    let centre = GeoPoint { longitude: 12.5, latitude: 52.0 };
    let shape = GeoShape::Box { width: 200e3, height: 400e3 };
    let kept = store.geo_search_store("region", "cities", &GeoSearch::around(centre, shape))?;
    println!("{kept} cities are in the region");
    store.close()?;
    Ok(())
}
