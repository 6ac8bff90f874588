//! Places and searches compared with those of a real server: everywhere on the Earth, the limits
//! included.

use crate::support::wire::{Remote, describe, parse};
use crate::support::{Client, engine};
use fastrand::Rng;
use testkit::Launch;

/// A random coordinate, sometimes at its limit.
fn coordinate(random: &mut Rng, limit: f64) -> f64 {
    match random.u8(..12) {
        0 => limit,
        1 => -limit,
        2 => 0.0,
        3..6 => 10.0 + random.f64(),
        _ => (random.f64() * 2.0 - 1.0) * limit,
    }
}

fn point(random: &mut Rng) -> String {
    format!("{} {}", coordinate(random, 180.0), coordinate(random, 85.05112878))
}

fn area(random: &mut Rng) -> String {
    let from = match random.bool() {
        true => format!("FROMMEMBER m{}", random.u16(..400)),
        false => format!("FROMLONLAT {}", point(random)),
    };
    let length = |random: &mut Rng| 10f64.powf(random.f64() * 7.5 - 1.0);
    let unit = ["m", "km", "ft", "mi"][random.usize(..4)];
    match random.bool() {
        true => format!("{from} BYRADIUS {} {unit}", length(random)),
        false => format!("{from} BYBOX {} {} {unit}", length(random), length(random)),
    }
}

#[test]
fn geospatial_items_are_found_where_redis_finds_them() {
    let server = Launch::redis().start();
    let (mut ours, mut theirs) = (Client::new(&engine()), Remote::connect(server.address()));
    let mut random = Rng::with_seed(3);
    let mut both = |line: &str| {
        let words: Vec<Vec<u8>> = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        let (ours, theirs) = (parse(&ours.raw(&words)), theirs.call(&words));
        assert!(
            ours == theirs,
            "{line}\n  ours   {}\n  theirs {}",
            describe(&ours),
            describe(&theirs)
        );
    };
    for n in 0..400 {
        both(&format!("GEOADD g {} m{n}", point(&mut random)));
    }
    both("ZRANGE g 0 -1 WITHSCORES");
    for n in 0..400 {
        both(&format!("GEOPOS g m{n}"));
        both(&format!("GEOHASH g m{n}"));
        both(&format!("GEODIST g m{n} m{} mi", 399 - n));
    }
    for n in 0..1500 {
        let options = ["", " WITHCOORD WITHDIST WITHHASH", " COUNT 3 ANY", " WITHDIST DESC"];
        both(&format!("GEOSEARCH g {}{}", area(&mut random), options[n % 4]));
        if n % 10 == 0 {
            both(&format!("GEOSEARCHSTORE h g {} STOREDIST", area(&mut random)));
            both("ZRANGE h 0 -1 WITHSCORES");
        }
    }
}
