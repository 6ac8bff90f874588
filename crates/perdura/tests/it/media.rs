//! The medium loses bytes under a store in use: damaged keys answer with the damage, all others as
//! before.

use perdura::prelude::*;
use perdura::{Error, Options, Perdura};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;

const KEYS: usize = 3000;

fn value(i: usize) -> Vec<u8> {
    format!("the value of key {i:05}, which is a bit longer than that").into_bytes()
}

/// Returns the positions of a text.
fn places<'b>(bytes: &'b [u8], text: &'b [u8]) -> impl Iterator<Item = usize> + 'b {
    bytes.windows(text.len()).enumerate().filter(move |(_, part)| *part == text).map(|(at, _)| at)
}

#[test]
fn lost_bytes_cost_the_keys_that_they_were() {
    let folder = tempfile::tempdir().expect("a folder");
    // Values of a length of their own are written last, in a span of their own.
    let long: Vec<u8> = b"long ".repeat(80);
    // The hash seed decides where spans are: try until the last one holds them.
    let (store, path, bytes, last) = (0..50)
        .find_map(|n| {
            let path = folder.path().join(format!("pool{n}"));
            let store = Perdura::open(Options::new(&path).domain(perdura::DomainRequest::Process));
            let store = store.expect("a store");
            for i in 0..KEYS {
                store.set(format!("key:{i}"), value(i)).expect("free memory");
            }
            for i in 0..100 {
                store.set(format!("{{t}}long:{i}"), &long).expect("free memory");
            }
            let bytes = fs::read(&path).expect("the pool");
            let last = bytes.iter().rposition(|byte| *byte != 0).expect("a pool");
            let is_theirs =
                bytes[last & !65535..=last].windows(10).any(|text| text == b"long long ");
            is_theirs.then_some((store, path, bytes, last as u64))
        })
        .expect("a pool whose last span is that of the long values");
    let file = OpenOptions::new().write(true).open(&path).expect("the pool");
    // The bytes of the values of one page.
    let page = last & !4095;
    for at in places(&bytes[page as usize..], b"long long ") {
        file.write_all_at(b"lost", page + at as u64).expect("a write");
    }
    let (mut damaged, mut lost) = (0, 0);
    for i in 0..100 {
        match store.get(format!("{{t}}long:{i}")) {
            Ok(value) => assert_eq!(value.as_ref(), Some(&long)),
            Err(Error::Damaged(at)) => {
                damaged += 1;
                lost = i;
                let shown = store.get_with(format!("{{t}}long:{i}"), |_| ());
                assert_eq!(shown, Err(Error::Damaged(at)));
            }
            Err(other) => panic!("{other}"),
        }
    }
    // In a transaction of several keys.
    let key = format!("{{t}}long:{lost}");
    let reported = store.transaction(&["{t}other", &key], |tx| tx.get(&key).map(|_| ()));
    assert!(matches!(reported, Err(Error::Damaged(_))), "{reported:?}");
    assert!((5..20).contains(&damaged), "{damaged} keys");
    for i in 0..KEYS {
        assert_eq!(store.get(format!("key:{i}")), Ok(Some(value(i))));
    }
    for i in 0..100 {
        let key = format!("{{t}}long:{i}");
        if i % 2 == 0 {
            store.set(&key, "new").expect("free memory");
            assert_eq!(store.get(&key), Ok(Some(b"new".to_vec())));
        } else {
            store.delete(&key).expect("free memory");
            assert_eq!(store.get(&key), Ok(None));
        }
    }
    store.set("another", "key").expect("writes go on");
    store.close().expect("a clean close");
}
