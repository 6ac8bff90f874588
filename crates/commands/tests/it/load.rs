//! Dumps that are cut or changed at any byte give an error or data, never a panic.

use commands::{LoadOptions, LoadedDump, SaveOptions};

use crate::support::{Client, engine};

pub(crate) fn save(client: &Client) -> Vec<u8> {
    let options = SaveOptions {
        stream: &|| None,
        compresses: true,
        has_checksum: true,
        is_base: false,
        is_for_valkey: false,
        is_background: false,
        backend: "test",
        spool: &|| Err(std::io::Error::other("nothing is large")),
        go_on: &|_| true,
    };
    commands::save(&client.engine, Vec::new(), &options, || ()).expect("memory takes everything")
}

/// Loads into an empty keyspace; `None` if that failed.
pub(crate) fn load(client: &mut Client, bytes: &[u8], verifies: bool) -> Option<LoadedDump> {
    client.check("FLUSHALL", "OK");
    client.check("FUNCTION FLUSH", "OK");
    let mut options = LoadOptions { verifies, keeps_expired: true, report: &mut |_| {} };
    commands::load_dump(&client.engine, bytes, &mut options).ok()
}

fn sample() -> (Client, Vec<u8>) {
    let mut client = Client::new(&engine());
    for line in [
        "SET string hello EX 100000",
        "SET int 12345",
        "RPUSH list a 1 b",
        "SADD ints 1 2 70000",
        "SADD set a b",
        "HSET hash f v",
        "HSET fields f v g w",
        "HPEXPIREAT fields 4102444800000 FIELDS 1 f",
        "ZADD sorted 1 a 2.5 b",
        "XADD stream 1-1 f v",
        "XADD stream 1-2 f w",
        "XGROUP CREATE stream group 0",
        "XREADGROUP GROUP group alice COUNT 1 STREAMS stream >",
    ] {
        assert!(!client.run(line).starts_with("(error)"), "{line}");
    }
    let bytes = save(&client);
    (client, bytes)
}

#[test]
fn what_is_saved_is_loaded() {
    let (mut client, bytes) = sample();
    let before = client.run("DEBUG DIGEST FULL");
    let loaded = load(&mut client, &bytes, true).expect("a dump");
    assert_eq!((loaded.keys, loaded.bytes), (9, bytes.len() as u64));
    assert_eq!(client.run("DEBUG DIGEST FULL"), before);
    client.check("HPEXPIRETIME fields FIELDS 2 f g", "[(integer) 4102444800000, (integer) -1]");
}

#[test]
fn how_a_key_was_used_is_loaded_also_where_nothing_expires() {
    let mut file = rdb::FileWriter::new(Vec::new(), false, true);
    file.begin().expect("memory takes everything");
    let kind = rdb::Kind::String;
    file.key(b"k", None, Some(rdb::Usage::Idle(5000)), kind).expect("written");
    file.value().string(b"v").expect("written");
    let bytes = file.end().expect("written");
    let mut client = Client::new(&engine());
    assert!(load(&mut client, &bytes, true).is_some());
    client.check("OBJECT IDLETIME k", "(integer) 5000");
}

#[test]
fn every_cut_is_an_error() {
    let (mut client, bytes) = sample();
    for len in 0..bytes.len() {
        assert_eq!(load(&mut client, &bytes[..len], true), None, "cut at {len}");
    }
}

#[test]
fn every_changed_bit_is_an_error_or_data() {
    let (mut client, bytes) = sample();
    for at in 9..bytes.len() - 8 {
        for bit in 0..8 {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << bit;
            assert_eq!(load(&mut client, &changed, true), None, "bit {bit} of byte {at}");
            load(&mut client, &changed, false);
        }
    }
    let loaded = load(&mut client, &bytes, true).expect("the engine is as before");
    assert_eq!(loaded.keys, 9);
}
