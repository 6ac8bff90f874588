//! Payloads and files that are cut, changed or made up: an error or a value, never a panic, and no
//! more memory than the input justifies.

use std::io::Read;

use proptest::prelude::*;
use rdb::{
    Error, FileWriter, Kind, ListLimit, ListNodes, ListpackBuilder, Part, Reader, Record, Source,
    StreamId, StreamLimit, StreamNodes, Usage, Writer, payload, read_value,
};

const LONGEST: u64 = 16 << 20;

type Write = Writer<Vec<u8>>;

fn build(kind: Kind, body: impl FnOnce(&mut Write) -> std::io::Result<()>) -> (Kind, Vec<u8>) {
    let mut writer = Writer::new(Vec::new(), true);
    body(&mut writer).expect("memory takes everything");
    (kind, writer.into_inner())
}

fn listpack(elements: &[&str]) -> Vec<u8> {
    let mut pack = ListpackBuilder::default();
    elements.iter().for_each(|element| pack.push(element.as_bytes()));
    pack.finish()
}

/// Returns a ziplist of short strings.
fn ziplist(elements: &[&str]) -> Vec<u8> {
    let (mut body, mut before, mut last) = (Vec::new(), 0, 10);
    for element in elements {
        last = 10 + body.len() as u32;
        body.extend([before, element.len() as u8]);
        body.extend(element.as_bytes());
        before = element.len() as u8 + 2;
    }
    let head = [(11 + body.len() as u32).to_le_bytes(), last.to_le_bytes()].concat();
    [head, (elements.len() as u16).to_le_bytes().to_vec(), body, vec![0xff]].concat()
}

fn stream(writer: &mut Write, kind: Kind) -> std::io::Result<()> {
    let mut nodes = StreamNodes::new(StreamLimit { bytes: 4096, entries: 2 });
    let id = |seq| StreamId { ms: 5, seq };
    let mut all = Vec::new();
    for seq in 1..=3 {
        all.extend(nodes.push(id(seq), &[b"field", b"value", b"n", b"1"]));
    }
    all.extend(nodes.finish());
    writer.length(all.len() as u64)?;
    all.iter().try_for_each(|node| writer.stream_node(node))?;
    writer.length(3)?;
    writer.id(id(9))?;
    if kind != Kind::Stream {
        writer.id(id(1))?;
        writer.id(StreamId::MIN)?;
        writer.length(3)?;
    }
    writer.length(1)?;
    writer.string(b"group")?;
    writer.id(id(2))?;
    if kind != Kind::Stream {
        writer.length(2)?;
    }
    writer.length(1)?;
    writer.raw_id(id(1))?;
    writer.millis(1000)?;
    writer.length(7)?;
    writer.length(1)?;
    writer.string(b"consumer")?;
    writer.millis(2000)?;
    if kind == Kind::Stream3 {
        writer.millis(3000)?;
    }
    writer.length(1)?;
    writer.raw_id(id(1))
}

/// Returns a value of each type and encoding.
pub(crate) fn samples() -> Vec<(Kind, Vec<u8>)> {
    let long = "abc".repeat(50);
    let strings = |writer: &mut Write, strings: &[&str]| {
        strings.iter().try_for_each(|string| writer.string(string.as_bytes()))
    };
    let mut samples = vec![
        build(Kind::String, |w| w.string(long.as_bytes())),
        build(Kind::String, |w| w.string(b"-30000")),
        build(Kind::SetIntset, |w| w.string(&rdb::intset(&[-1, 5, 70_000]))),
        build(Kind::HashZipmap, |w| w.string(b"\x01\x03foo\x03\x01barx\xff")),
        build(Kind::ListZiplist, |w| w.string(&ziplist(&["a", &long[..60], "c"]))),
        build(Kind::SortedSetZiplist, |w| w.string(&ziplist(&["a", "1.5", "c", "inf"]))),
        build(Kind::HashZiplist, |w| w.string(&ziplist(&["a", "1", "c", "2"]))),
        build(Kind::HashListpack, |w| w.string(&listpack(&["a", "1", "c", &long]))),
        build(Kind::SortedSetListpack, |w| w.string(&listpack(&["a", "1", "c", "2.5"]))),
        build(Kind::SetListpack, |w| w.string(&listpack(&["a", "1", "c"]))),
        build(Kind::HashListpackExpiringOld, |w| w.string(&listpack(&["a", "1", "0"]))),
        build(Kind::HashListpackExpiring, |w| {
            w.millis(99)?;
            w.string(&listpack(&["a", "1", "99", "b", "2", "0"]))
        }),
        build(Kind::ListQuicklist, |w| {
            w.length(2)?;
            w.string(&ziplist(&["a", "b"]))?;
            w.string(&ziplist(&["c"]))
        }),
        build(Kind::ListQuicklist2, |w| {
            w.length(3)?;
            w.list_node(&listpack(&["a", &long]))?;
            w.length(1)?;
            w.string(b"plain")?;
            w.list_node(&listpack(&["b"]))
        }),
        build(Kind::SortedSetText, |w| {
            w.length(1)?;
            w.string(b"member")?;
            w.length(3).and_then(|()| w.length(49))?;
            w.length(46).and_then(|()| w.length(53))
        }),
        build(Kind::SortedSet, |w| {
            w.length(1)?;
            w.string(b"member")?;
            w.double(1.5)
        }),
        build(Kind::HashValkey, |w| {
            w.length(1)?;
            strings(w, &["field", "value"])?;
            w.millis(u64::MAX)
        }),
        build(Kind::HashExpiring, |w| {
            w.millis(1000)?;
            w.length(1)?;
            w.length(5)?;
            strings(w, &["field", "value"])
        }),
        build(Kind::HashExpiringOld, |w| {
            w.length(1)?;
            w.length(5)?;
            strings(w, &["field", "value"])
        }),
    ];
    for kind in [Kind::List, Kind::Set, Kind::Hash] {
        samples.push(build(kind, |w| {
            w.length(2)?;
            strings(
                w,
                &["first", "second", "third", "fourth"][..if kind == Kind::Hash { 4 } else { 2 }],
            )
        }));
    }
    for kind in [Kind::Stream, Kind::Stream2, Kind::Stream3] {
        samples.push(build(kind, |w| stream(w, kind)));
    }
    samples
}

/// Reads a value. Returns how many bytes its parts have together, and how many bytes were read.
fn read(kind: Kind, bytes: &[u8]) -> Result<(usize, u64), Error> {
    let mut source = Source::new(bytes, rdb::VERSION, LONGEST);
    let mut size = 0;
    read_value(&mut source, kind, |part| {
        size += match part {
            Part::String(word) | Part::Element(word) | Part::Member(word) => word.len(),
            Part::Entry(_, words) => words.iter().map(|word| word.len()).sum(),
            Part::Scored(member, score) => {
                assert!(!score.is_nan());
                member.len()
            }
            Part::Field(field, value, _) => field.len() + value.len(),
            _ => 0,
        };
        Ok::<_, Error>(())
    })?;
    Ok((size, source.at()))
}

#[test]
fn samples_are_values() {
    for (kind, bytes) in samples() {
        let (size, read) = read(kind, &bytes).unwrap_or_else(|error| panic!("{kind:?}: {error}"));
        assert!(size > 0 && read == bytes.len() as u64, "{kind:?}");
    }
}

#[test]
fn every_cut_is_seen() {
    for (kind, bytes) in samples() {
        for end in 0..bytes.len() {
            match read(kind, &bytes[..end]) {
                Err(Error::Cut { .. }) => {}
                other => panic!("{kind:?} cut at {end}: {other:?}"),
            }
        }
    }
}

#[test]
fn every_changed_byte_is_an_error_or_a_value() {
    for (kind, bytes) in samples() {
        for at in 0..bytes.len() {
            for byte in 0..=255 {
                let mut changed = bytes.clone();
                changed[at] = byte;
                if let Ok((size, _)) = read(kind, &changed) {
                    assert!(size < 200 * bytes.len(), "{kind:?} with {byte} at {at}");
                }
            }
        }
    }
}

#[test]
fn lengths_that_lie_take_no_memory() {
    let lie = [0x81, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff];
    for kind in (0..=25).filter_map(|number| Kind::of(number, rdb::NEWEST_REDIS)) {
        let mut bytes = lie.to_vec();
        bytes.extend([0; 64]);
        assert!(read(kind, &bytes).is_err(), "{kind:?}");
    }
    // 2^24 bytes from so few: LZF cannot do that.
    let bomb = [0xc3, 0x05, 0x80, 1, 0, 0, 0, 1, 2, 3, 4, 5];
    assert!(matches!(read(Kind::String, &bomb), Err(Error::Length { .. })));
    let long = [0x80, 1, 0, 0, 1];
    assert!(matches!(read(Kind::String, &long), Err(Error::TooLong { .. })));
}

#[test]
fn an_element_that_is_stored_by_itself_is_not_empty() {
    let list = |element: &'static [u8]| {
        build(Kind::ListQuicklist2, |w| {
            w.length(1)?;
            w.length(1)?;
            w.string(element)
        })
    };
    let (kind, bytes) = list(b"x");
    assert!(read(kind, &bytes).is_ok());
    let (kind, bytes) = list(b"");
    assert!(matches!(read(kind, &bytes), Err(Error::Corrupt { .. })));
}

#[test]
fn what_belongs_to_modules_is_refused_by_name() {
    // The name "ReJSON-RL", and version 3 of its encoding.
    let letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let number = |letter| letters.find(letter).expect("a letter") as u64;
    let id = "ReJSON-RL".chars().fold(0, |id, letter| id << 6 | number(letter)) << 10 | 3;
    let (kind, bytes) = build(Kind::Module, |w| w.length(id));
    match read(kind, &bytes) {
        Err(Error::Module { name, .. }) => assert_eq!(name, "ReJSON-RL"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_payload_is_refused_by_version_and_checksum() {
    let (_, mut whole) = build(Kind::String, |w| {
        w.kind(Kind::String)?;
        w.string(b"value")
    });
    let body = whole.clone();
    payload::append_footer(&mut whole, rdb::VERSION);
    assert!(payload::open(&whole, LONGEST).is_ok());
    let mut unsummed = whole.clone();
    *unsummed.last_mut().expect("a checksum") ^= 1;
    assert!(payload::open_verified(&unsummed, LONGEST, false).is_ok());
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        let refused = payload::open(&changed, LONGEST).map(drop).expect_err("a changed payload");
        let by_version = matches!(refused, Error::Version { .. });
        // The version is before the checksum, its high byte always 0.
        assert!(by_version || matches!(refused, Error::Checksum { .. }), "byte {at}: {refused}");
        assert!(!by_version || (whole.len() - 10..whole.len() - 8).contains(&at), "byte {at}");
        let refused = payload::open(&whole[..at], LONGEST).map(drop).expect_err("a part of one");
        assert!(payload::is_refused(&refused), "cut at {at}: {refused}");
    }
    for (version, is_known) in
        [(0, false), (1, true), (12, true), (13, false), (80, true), (81, false)]
    {
        let mut payload = body.clone();
        payload::append_footer(&mut payload, version);
        assert_eq!(payload::open(&payload, LONGEST).is_ok(), is_known, "version {version}");
    }
}

/// Returns a file with two keys in two databases.
fn file() -> Vec<u8> {
    let mut file = FileWriter::new(Vec::new(), true, true);
    let mut write = || {
        file.begin()?;
        file.aux(b"redis-ver", b"7.0.15")?;
        file.database(0)?;
        file.sizes(1, 1)?;
        file.key(b"key", Some(1_700_000_000_000), None, Kind::String)?;
        file.value().string(b"value")?;
        file.database(3)?;
        file.sizes(1, 0)?;
        file.key(b"list", None, None, Kind::ListQuicklist2)?;
        file.value().length(1)?;
        file.value().list_node(&listpack(&["a", "b"]))
    };
    write().expect("memory takes everything");
    file.end().expect("memory takes everything")
}

fn records(bytes: &[u8]) -> Result<Vec<Record>, Error> {
    let mut reader = Reader::new(bytes, LONGEST)?;
    let mut records = Vec::new();
    loop {
        let record = reader.next()?;
        if record == Record::End {
            return Ok(records);
        }
        records.push(record);
    }
}

#[test]
fn a_file_is_read_to_its_checksum() {
    let whole = file();
    let read = records(&whole).expect("a file");
    assert_eq!(read.len(), 7);
    let key = Record::Key {
        key: b"key".to_vec(),
        kind: Kind::String,
        expires: Some(1_700_000_000_000),
        idle: None,
        frequency: None,
    };
    assert_eq!(read[3], key);
    for at in 0..whole.len() {
        let cut = records(&whole[..at]);
        assert!(matches!(cut, Err(Error::Cut { .. })), "cut at {at}: {cut:?}");
        let mut changed = whole.clone();
        changed[at] ^= 0x10;
        assert!(records(&changed).is_err(), "byte {at}");
    }
    let mut unchecked = whole.clone();
    let end = unchecked.len() - 8;
    unchecked[end..].fill(0);
    assert_eq!(records(&unchecked).expect("no checksum"), read);
}

#[test]
fn other_heads_are_refused() {
    let with = |head: &str| records(&[head.as_bytes(), &[255], &[0; 8]].concat());
    assert!(with("REDIS0011").is_ok() && with("VALKEY080").is_ok() && with("REDIS0001").is_ok());
    assert!(matches!(with("REDIS0013"), Err(Error::Version { version: 13 })));
    assert!(matches!(with("REDIS+011"), Err(Error::Version { .. })));
    assert!(matches!(with("PARQUET00"), Err(Error::Magic { .. })));
}

proptest! {
    #[test]
    fn any_bytes_are_an_error_or_a_value(
        number in 0u8..26,
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        for version in [rdb::NEWEST_REDIS, *rdb::VALKEY.start()] {
            if let Some(kind) = Kind::of(number, version) {
                let _ = read(kind, &bytes);
            }
        }
    }

    #[test]
    fn elements_of_a_list_come_back(
        elements in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..100), 1..100),
        limit in -5i32..20,
    ) {
        let mut nodes = ListNodes::new(ListLimit::new(limit));
        let mut all: Vec<Vec<u8>> = elements.iter().filter_map(|e| nodes.push(e)).collect();
        all.extend(nodes.finish());
        let (_, bytes) = build(Kind::ListQuicklist2, |w| {
            w.length(all.len() as u64)?;
            all.iter().try_for_each(|node| w.list_node(node))
        });
        let mut source = Source::new(&bytes[..], rdb::VERSION, LONGEST);
        let mut read = Vec::new();
        read_value(&mut source, Kind::ListQuicklist2, |part| {
            if let Part::Element(element) = part {
                read.push(element.to_vec());
            }
            Ok::<_, Error>(())
        }).expect("what was written");
        prop_assert_eq!(read, elements);
    }
}

#[test]
fn usage_is_written_before_its_key_and_a_checksum_only_where_it_is_wanted() {
    let write = |has_checksum| {
        let mut file = FileWriter::new(Vec::new(), false, has_checksum);
        let mut keys = || {
            file.begin()?;
            for usage in [Usage::Idle(70_000), Usage::Frequency(255)] {
                file.key(b"key", Some(0), Some(usage), Kind::String)?;
                // Longer than the piece that is passed on at once.
                file.copy(&mut &b"\x80\x00\x03\x00\x00"[..])?;
                file.copy(&mut std::io::repeat(b'x').take(0x3_0000))?;
                file.flush_full()?;
            }
            Ok::<_, std::io::Error>(())
        };
        keys().expect("memory takes everything");
        let written = file.written();
        let bytes = file.end().expect("memory takes everything");
        assert_eq!(bytes.len() as u64, written + 9);
        bytes
    };
    let (mut with, without) = (write(true), write(false));
    assert_eq!(without[without.len() - 8..], [0; 8]);
    assert_eq!(with[..with.len() - 8], without[..without.len() - 8]);
    let read = records(&with).expect("a file");
    let usage = |record: &Record| match record {
        Record::Key { idle, frequency, .. } => (*idle, *frequency),
        _ => (None, None),
    };
    let used: Vec<_> = read.iter().map(usage).collect();
    assert_eq!(used, [(Some(70_000), None), (None, Some(255))]);
    assert_eq!(records(&without).expect("a file"), read);
    let last = with.len() - 1;
    with[last] ^= 1;
    assert!(matches!(records(&with), Err(Error::Checksum { .. })));
    let mut unverified = Reader::new(&with[..], LONGEST).expect("a head").without_checksum();
    while unverified.next().expect("a record") != Record::End {}
}

#[test]
fn a_key_without_a_time_may_say_minus_one() {
    let file = |time: i64| {
        let mut bytes = b"REDIS0010\xfc".to_vec();
        bytes.extend(time.to_le_bytes());
        bytes.extend(b"\x00\x01k\x01v\xff");
        bytes.extend([0; 8]);
        bytes
    };
    for (time, expected) in [(-1, None), (-2, Some(0)), (5, Some(5))] {
        let read = records(&file(time)).expect("a file");
        assert!(matches!(&read[..], [Record::Key { expires, .. }] if *expires == expected));
    }
}
