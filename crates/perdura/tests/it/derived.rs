//! Bitmaps, HyperLogLogs and geospatial items, which are stored as strings and sorted sets.

use perdura::prelude::*;
use perdura::{
    BitInteger, BitOperation, BitOverflow, BitRange, DomainRequest, Error, GeoPoint, GeoSearch,
    GeoShape, Options, Perdura,
};

fn volatile() -> Perdura {
    Perdura::open(Options::volatile().limit(64 << 20)).expect("a store in memory")
}

/// Fills a store on a file, drops or closes it, and checks what the next one finds there.
fn reopened(fill: impl Fn(&Perdura), check: impl Fn(&Perdura)) {
    for close in [false, true] {
        let dir = tempfile::tempdir().expect("a directory");
        let options = Options::new(dir.path().join("pool")).domain(DomainRequest::Process);
        let store = Perdura::open(options.clone()).expect("a new store");
        fill(&store);
        check(&store);
        if close {
            store.close().expect("a synced pool");
        } else {
            drop(store);
        }
        check(&Perdura::open(options).expect("the same store"));
    }
}

#[test]
fn bits_are_set_found_and_counted() {
    let fill = |store: &Perdura| {
        assert_eq!(store.set_bit("b", 7, true), Ok(false));
        assert_eq!(store.set_bit("b", 7, true), Ok(true));
        assert_eq!(store.set_bit("b", 100_000, true), Ok(false));
        assert_eq!(store.set_bit("b", 8, true), Ok(false));
        assert_eq!(store.set_bit("b", 8, false), Ok(true));
    };
    reopened(fill, |store| {
        let value = store.get("b").expect("a string").expect("there");
        assert_eq!((value.len(), value[0], value[1]), (12_501, 1, 0));
        assert_eq!(store.get_bit("b", 7), Ok(true));
        assert_eq!(store.get_bit("b", 8), Ok(false));
        assert_eq!(store.get_bit("b", u64::MAX), Ok(false));
        assert_eq!(store.bit_count("b", BitRange::All), Ok(2));
        assert_eq!(store.bit_count("b", BitRange::Bytes(0, 0)), Ok(1));
        assert_eq!(store.bit_count("b", BitRange::Bits(0, 6)), Ok(0));
        assert_eq!(store.bit_count("b", BitRange::Bits(7, -1)), Ok(2));
        let backwards = [BitRange::Bytes(-20_000, -30_000), BitRange::Bits(-200_000, -300_000)];
        assert_eq!(backwards.map(|range| store.bit_count("b", range)), [Ok(0), Ok(0)]);
        assert_eq!(store.bit_position("b", true, BitRange::Bytes(1, -1)), Ok(Some(100_000)));
        assert_eq!(store.bit_position("b", false, BitRange::Bits(7, 20)), Ok(Some(8)));
        assert_eq!(store.bit_position("b", true, BitRange::Bits(8, 99_999)), Ok(None));
    });
}

#[test]
fn there_is_a_clear_bit_after_a_string() {
    let store = volatile();
    store.set("b", [0xff, 0xff]).expect("free memory");
    assert_eq!(store.bit_position("b", false, BitRange::All), Ok(Some(16)));
    assert_eq!(store.bit_position("b", false, BitRange::Bytes(0, -1)), Ok(None));
    assert_eq!(store.bit_position("absent", false, BitRange::All), Ok(Some(0)));
    assert_eq!(store.bit_position("absent", true, BitRange::All), Ok(None));
    assert_eq!((store.get_bit("absent", 3), store.exists("absent")), (Ok(false), Ok(false)));
}

#[test]
fn strings_are_combined_bit_by_bit() {
    let store = volatile();
    store.set("a", [0b1100_0000, 0xf0]).expect("free memory");
    store.set("b", [0b1010_0000]).expect("free memory");
    let check = |operation, sources: &[&str], expect: &[u8]| {
        assert_eq!(store.bit_op("to", operation, sources), Ok(expect.len()));
        let value = store.get("to").expect("a string").unwrap_or_default();
        assert_eq!(value, expect, "{operation:?}");
    };
    check(BitOperation::And, &["a", "b"], &[0b1000_0000, 0]);
    check(BitOperation::Or, &["a", "b"], &[0b1110_0000, 0xf0]);
    check(BitOperation::Xor, &["b", "a"], &[0b0110_0000, 0xf0]);
    check(BitOperation::Not, &["b"], &[0b0101_1111]);
    check(BitOperation::Or, &["absent"], &[]);
    assert_eq!(store.exists("to"), Ok(false));
    assert_eq!(store.bit_op("to", BitOperation::Not, &["a", "b"]), Err(Error::OneSource));
    store.push_back("list", "x").expect("free memory");
    assert_eq!(store.bit_op("to", BitOperation::And, &["a", "list"]), Err(Error::WrongType));
}

#[test]
fn integers_in_a_string_wrap_saturate_or_stay() {
    let nibble = BitInteger::unsigned(4).expect("4 bits");
    let fill = |store: &Perdura| {
        let wrap = BitOverflow::Wrap;
        assert_eq!(store.bit_field_set("f", nibble, 4, 13, wrap), Ok(Some(0)));
        assert_eq!(store.bit_field_increment("f", nibble, 4, 5, wrap), Ok(Some(2)));
        let saturate = BitOverflow::Saturate;
        assert_eq!(store.bit_field_increment("f", nibble, 4, 50, saturate), Ok(Some(15)));
        let fail = BitOverflow::Fail;
        assert_eq!(store.bit_field_increment("f", nibble, 4, 1, fail), Ok(None));
        assert_eq!(store.bit_field_set("f", nibble, 0, 16, fail), Ok(None));
    };
    reopened(fill, |store| {
        assert_eq!(store.get("f"), Ok(Some(vec![0x0f])));
        assert_eq!(store.bit_field_get("f", nibble, 4), Ok(15));
        let signed = BitInteger::signed(8).expect("8 bits");
        // Half of it is beyond the string.
        assert_eq!(store.bit_field_get("f", signed, 4), Ok(-16));
        assert_eq!(store.bit_field_get("absent", signed, 4), Ok(0));
        assert_eq!(store.exists("absent"), Ok(false));
    });
}

#[test]
fn bits_after_the_longest_string_are_refused() {
    let store = volatile();
    let byte = BitInteger::signed(8).expect("8 bits");
    for bit in [(512 << 20) * 8, u64::MAX] {
        assert_eq!(store.set_bit("b", bit, true), Err(Error::TooLong));
        let set = store.bit_field_set("b", byte, bit, 1, BitOverflow::Wrap);
        assert_eq!(set, Err(Error::TooLong));
        assert_eq!(store.bit_field_get("b", byte, bit), Ok(0));
    }
    assert!(store.is_empty());
}

#[test]
fn a_hyperloglog_estimates_how_many_elements_it_was_given() {
    let numbers =
        |range: std::ops::Range<u32>| -> Vec<String> { range.map(|n| n.to_string()).collect() };
    let fill = |store: &Perdura| {
        assert_eq!(store.pf_add("few", &["a", "b", "c", "d", "e", "f", "g"]), Ok(true));
        assert_eq!(store.pf_add("few", &["a", "g"]), Ok(false));
        assert_eq!(store.pf_add("first", &numbers(0..60_000)), Ok(true));
        assert_eq!(store.pf_add("second", &numbers(40_000..100_000)), Ok(true));
        assert_eq!(store.pf_merge("all", &["first", "second", "absent"]), Ok(()));
        assert_eq!(store.pf_add::<&str>("empty", &[]), Ok(true));
    };
    reopened(fill, |store| {
        assert_eq!(store.pf_count(&["few"]), Ok(7));
        assert_eq!(store.pf_count(&["empty"]), Ok(0));
        assert_eq!(store.pf_count(&["absent"]), Ok(0));
        assert_eq!(store.pf_count::<&str>(&[]), Ok(0));
        assert_eq!(store.exists("absent"), Ok(false));
        let all = store.pf_count(&["all"]).expect("a HyperLogLog");
        assert!(all.abs_diff(100_000) < 4000, "{all}");
        assert_eq!(store.pf_count(&["first", "second"]), Ok(all));
    });
}

#[test]
fn other_strings_are_no_hyperloglogs() {
    let store = volatile();
    store.set("text", "HYLL").expect("free memory");
    store.push_back("list", "x").expect("free memory");
    assert_eq!(store.pf_add("text", &["a"]), Err(Error::NotHyperLogLog));
    assert_eq!(store.pf_count(&["absent", "text"]), Err(Error::NotHyperLogLog));
    assert_eq!(store.pf_merge("to", &["text"]), Err(Error::NotHyperLogLog));
    assert_eq!(store.pf_add("list", &["a"]), Err(Error::WrongType));
    assert_eq!((store.exists("to"), store.get("text")), (Ok(false), Ok(Some(b"HYLL".to_vec()))));
    // A header alone: no registers follow.
    let header = [b"HYLL\x01".as_slice(), &[0; 10], &[0x80]].concat();
    store.set("cut", header).expect("free memory");
    assert_eq!(store.pf_count(&["cut"]), Err(Error::NotHyperLogLog));
}

const PALERMO: GeoPoint = GeoPoint { longitude: 13.361389, latitude: 38.115556 };
const CATANIA: GeoPoint = GeoPoint { longitude: 15.087269, latitude: 37.502669 };

fn sicily(store: &Perdura) {
    assert_eq!(store.geo_add("sicily", "Palermo", PALERMO), Ok(true));
    assert_eq!(store.geo_add("sicily", "Catania", PALERMO), Ok(true));
    assert_eq!(store.geo_add("sicily", "Catania", CATANIA), Ok(false));
}

#[track_caller]
fn check_search(store: &Perdura, search: &GeoSearch, expect: &[(&str, f64)]) {
    let found = store.geo_search("sicily", search).expect("a search");
    assert_eq!(found.len(), expect.len(), "{found:?}");
    for (found, (member, metres)) in found.iter().zip(expect) {
        assert_eq!(found.member, member.as_bytes());
        assert!((found.distance - metres).abs() < 0.1, "{found:?}");
    }
}

#[test]
fn geospatial_items_are_found_in_circles_and_boxes() {
    let middle = GeoPoint { longitude: 15.0, latitude: 37.0 };
    let (near, wide) = (GeoShape::Circle { radius: 100e3 }, GeoShape::Circle { radius: 200e3 });
    reopened(sicily, |store| {
        let place = store.geo_position("sicily", "Palermo").expect("sorted").expect("there");
        assert!((place.longitude - PALERMO.longitude).abs() < 1e-5);
        assert!((place.latitude - PALERMO.latitude).abs() < 1e-5);
        let far = store.geo_distance("sicily", "Palermo", "Catania").expect("sorted");
        assert!((far.expect("both are there") - 166_274.152).abs() < 0.001, "{far:?}");
        assert_eq!(store.geo_distance("sicily", "Palermo", "Rome"), Ok(None));

        let (palermo, catania) = (("Palermo", 190_442.4), ("Catania", 56_441.3));
        let around = |shape| GeoSearch::around(middle, shape);
        check_search(store, &around(near), &[catania]);
        check_search(store, &around(wide), &[catania, palermo]);
        check_search(store, &around(wide).farthest_first(), &[palermo, catania]);
        check_search(store, &around(wide).count(1), &[catania]);
        assert_eq!(store.geo_search("sicily", &around(wide).any(1)).map(|all| all.len()), Ok(1));
        let square = GeoShape::Box { width: 400e3, height: 400e3 };
        check_search(store, &around(square), &[catania, palermo]);
        let flat = GeoShape::Box { width: 400e3, height: 150e3 };
        check_search(store, &around(flat), &[catania]);
        let itself = GeoSearch::around_member("Palermo", near);
        check_search(store, &itself, &[("Palermo", 0.0)]);
    });
}

#[test]
fn what_a_search_finds_is_kept_with_its_places() {
    let search = GeoSearch::around_member("Catania", GeoShape::Circle { radius: 1000.0 });
    let fill = |store: &Perdura| {
        sicily(store);
        assert_eq!(store.geo_search_store("near", "sicily", &search), Ok(1));
    };
    reopened(fill, |store| {
        assert_eq!(store.sorted_set_len("near"), Ok(1));
        let place = store.geo_position("near", "Catania");
        assert_eq!(place, store.geo_position("sicily", "Catania"));
    });
    let store = volatile();
    sicily(&store);
    store.set("near", "something else").expect("free memory");
    assert_eq!(store.geo_search_store("near", "absent", &search), Ok(0));
    assert_eq!(store.exists("near"), Ok(false));
}

#[test]
fn what_is_no_place_is_refused() {
    let store = volatile();
    sicily(&store);
    for (longitude, latitude) in [(181.0, 0.0), (0.0, 86.0), (f64::NAN, 0.0), (0.0, -f64::INFINITY)]
    {
        let nowhere = GeoPoint { longitude, latitude };
        assert_eq!(store.geo_add("sicily", "x", nowhere), Err(Error::NoSuchPlace));
        let search = GeoSearch::around(nowhere, GeoShape::Circle { radius: 1.0 });
        assert_eq!(store.geo_search("sicily", &search), Err(Error::NoSuchPlace));
    }
    for length in [-1.0, f64::NAN, f64::INFINITY] {
        for shape in [
            GeoShape::Circle { radius: length },
            GeoShape::Box { width: length, height: 1.0 },
            GeoShape::Box { width: 1.0, height: length },
        ] {
            let search = GeoSearch::around(PALERMO, shape);
            assert_eq!(store.geo_search("sicily", &search), Err(Error::NoSuchPlace));
        }
    }
    let search = GeoSearch::around_member("Rome", GeoShape::Circle { radius: 1.0 });
    assert_eq!(store.geo_search("sicily", &search), Err(Error::NoSuchMember));
    assert_eq!(store.geo_search_store("to", "sicily", &search), Err(Error::NoSuchMember));
    assert_eq!(store.geo_search("absent", &search), Ok(Vec::new()));
    assert_eq!(store.sorted_set_len("sicily"), Ok(2));
}

#[test]
fn they_take_part_in_transactions() {
    let store = volatile();
    let failed = store.transaction(&["b", "h", "g"], |tx| {
        tx.set_bit("b", 1, true)?;
        tx.pf_add("h", &["x"])?;
        tx.geo_add("g", "x", PALERMO)?;
        assert_eq!((tx.get_bit("b", 1)?, tx.pf_count(&["h"])?), (true, 1));
        tx.bit_op("b", BitOperation::And, &["g"])
    });
    assert_eq!(failed, Err(Error::WrongType));
    assert!(store.is_empty());
    let kept = store.transaction(&["b", "g"], |tx| {
        tx.set_bit("b", 1, true)?;
        // A failed call undoes itself; earlier ones stay.
        assert_eq!(tx.set_bit("b", u64::MAX, true), Err(Error::TooLong));
        tx.geo_add("g", "x", PALERMO)
    });
    assert_eq!((kept, store.get_bit("b", 1), store.len()), (Ok(true), Ok(true), 2));
}
