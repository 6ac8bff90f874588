//! What connections send under given options.

use super::*;
use crate::load::types::Ratio;

/// Returns the first this many requests of a connection, as words.
fn requests(options: &Options, connection: u64, count: usize) -> Vec<String> {
    let workload = Workload::new(options).expect("a workload");
    let mut source = workload.source(connection);
    let mut texts = Vec::new();
    for _ in 0..count {
        let mut bytes = Vec::new();
        source.write(&mut bytes);
        texts.push(words(&bytes));
    }
    texts
}

/// Returns a request's words, and no byte left over.
fn words(bytes: &[u8]) -> String {
    let text = std::str::from_utf8(bytes).expect("text");
    let mut lines = text.split("\r\n");
    let mut head = |sign: char| {
        let line = lines.next().expect("a line");
        let number = line.strip_prefix(sign).unwrap_or_else(|| panic!("{sign} in {text:?}"));
        let number: usize = number.parse().expect("a number");
        (number, if sign == '$' { lines.next().expect("a word") } else { "" })
    };
    let (count, _) = head('*');
    let mut words = Vec::new();
    for _ in 0..count {
        let (length, word) = head('$');
        assert_eq!(length, word.len(), "{text:?}");
        words.push(word);
    }
    assert_eq!(lines.collect::<Vec<_>>(), [""], "{text:?}");
    words.join(" ")
}

fn sequential() -> Options {
    let patterns = "S:S".parse().expect("patterns");
    Options { key_pattern: patterns, key_maximum: 3, data_size: Some(3), ..Options::default() }
}

#[test]
fn set_and_get_have_sequences_of_their_own() {
    let options = Options { ratio: Ratio(1, 2), ..sequential() };
    let expected = [
        "SET memtier-0 xxx",
        "GET memtier-0",
        "GET memtier-1",
        "SET memtier-1 xxx",
        "GET memtier-2",
        "GET memtier-3",
        "SET memtier-2 xxx",
        "GET memtier-0",
    ];
    assert_eq!(requests(&options, 0, 8), expected);
}

#[test]
fn options_change_what_set_and_get_are() {
    let set = |options: Options| requests(&options, 0, 2);
    let both = Options { ratio: Ratio(1, 1), ..sequential() };
    let expiry = Options { expiry_range: Some("7-7".parse().expect("a range")), ..both.clone() };
    assert_eq!(set(expiry), ["SETEX memtier-0 7 xxx", "GET memtier-0"]);
    let offset = Options { data_offset: 10, ..both.clone() };
    assert_eq!(set(offset), ["SETRANGE memtier-0 10 xxx", "GETRANGE memtier-0 10 12"]);
    let many = Options { multi_key_get: Some(3), ratio: Ratio(1, 4), ..both.clone() };
    let three = "MGET memtier-0 memtier-1 memtier-2";
    assert_eq!(requests(&many, 0, 3), ["SET memtier-0 xxx", three, "MGET memtier-3"]);
    let wait = Options {
        wait_ratio: Some(Ratio(1, 1)),
        num_slaves: Some("2-2".parse().expect("a range")),
        wait_timeout: Some("9-9".parse().expect("a range")),
        ..both
    };
    assert_eq!(set(wait), ["SET memtier-0 xxx", "WAIT 2 9"]);
}

#[test]
fn commands_are_sent_in_their_rows() {
    let mut commands = vec![
        crate::load::Command::new("HSET {__key__} field __data__"),
        crate::load::Command::new("HGET {__key__} \"a field\""),
        crate::load::Command::new("HGET other field"),
    ];
    commands.iter_mut().for_each(|command| command.pattern = Pattern::Sequential);
    commands[1].ratio = 2;
    let options = Options { commands: crate::load::Commands(commands), ..sequential() };
    let expected = [
        "HSET {memtier-0} field xxx",
        "HGET {memtier-0} a field",
        "HGET {memtier-1} a field",
        "HGET other field",
        "HSET {memtier-1} field xxx",
    ];
    assert_eq!(requests(&options, 0, 5), expected);
    let classes = Workload::new(&options).expect("a workload").classes;
    let names: Vec<_> = classes.iter().map(|class| (class.name.as_str(), class.kind)).collect();
    assert_eq!(names, [("HSET", Kind::Write), ("HGET", Kind::Read)]);
}

#[test]
fn parallel_connections_write_each_key_once() {
    let options = Options {
        key_pattern: "P:P".parse().expect("patterns"),
        key_maximum: 100,
        threads: 2,
        clients: 5,
        ratio: Ratio(1, 0),
        requests: Some(Requests::AllKeys),
        ..Options::default()
    };
    let workload = Workload::new(&options).expect("a workload");
    let mut keys = Vec::new();
    for connection in 0..10 {
        let count = workload.requests_of(connection).expect("a number");
        keys.extend(requests(&options, connection, count as usize));
    }
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 101);
}

#[test]
fn more_connections_than_keys_cannot_share_them() {
    let options = Options {
        key_pattern: "P:P".parse().expect("patterns"),
        key_maximum: 10,
        ..Options::default()
    };
    let error = Workload::new(&options).expect_err("too many connections").to_string();
    assert!(error.contains("200 connections and 11 keys"), "{error}");
}

#[test]
fn connections_draw_the_same_unless_configured_otherwise() {
    let same = Options::default();
    assert_eq!(requests(&same, 0, 20), requests(&same, 1, 20));
    let distinct = Options { distinct_client_seed: true, ..Options::default() };
    assert_ne!(requests(&distinct, 0, 20), requests(&distinct, 1, 20));
    assert_eq!(requests(&distinct, 1, 20), requests(&distinct, 1, 20));
    let randomized = Options { randomize: true, ..Options::default() };
    assert_ne!(requests(&randomized, 0, 20), requests(&randomized, 0, 20));
}

#[test]
fn ycsb_has_its_mixes() {
    let shares = |ycsb: Ycsb| {
        let options = Options { ycsb: Some(ycsb), key_maximum: 999, ..Options::default() };
        let workload = Workload::new(&options).expect("a workload");
        let mut source = workload.source(0);
        let mut counts = vec![0; workload.classes.len()];
        for _ in 0..20_000 {
            counts[source.write(&mut Vec::new()).class] += 1;
        }
        let percent = |count: &i32| (f64::from(*count) / 200.0).round() as i32;
        let names = workload.classes.iter().map(|class| class.name.clone());
        names.zip(counts.iter().map(percent)).collect::<Vec<_>>()
    };
    let near = |ycsb: Ycsb, expected: &[(&str, i32)]| {
        for ((name, share), (wanted, percent)) in shares(ycsb).iter().zip(expected) {
            assert_eq!(name, wanted, "{ycsb:?}");
            assert!((share - percent).abs() <= 1, "{ycsb:?} {name}: {share}");
        }
    };
    near(Ycsb::A, &[("READ", 50), ("UPDATE", 50)]);
    near(Ycsb::B, &[("READ", 95), ("UPDATE", 5)]);
    near(Ycsb::C, &[("READ", 100)]);
    near(Ycsb::D, &[("READ", 95), ("INSERT", 5)]);
    near(Ycsb::E, &[("SCAN", 95), ("INSERT", 5)]);
    near(Ycsb::F, &[("READ", 50), ("RMW", 50)]);
}

#[test]
fn a_scan_reads_consecutive_keys() {
    let options = Options { ycsb: Some(Ycsb::E), key_maximum: 999, ..Options::default() };
    let mut longest = 0;
    for text in requests(&options, 0, 2000).iter().filter(|text| text.starts_with("MGET")) {
        let keys = text.split(' ').skip(1).map(|key| key["memtier-".len()..].parse::<u64>());
        let keys: Vec<u64> = keys.map(|key| key.expect("a number")).collect();
        assert!(keys.windows(2).all(|pair| pair[1] == pair[0] + 1), "{text}");
        longest = longest.max(keys.len());
    }
    assert_eq!(longest, 100);
}
