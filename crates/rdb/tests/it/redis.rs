//! Dumps of a real redis-server: reading returns the original data, and writing the same bytes.
//!
//! Sizes are chosen at the limits of each encoding. If Redis's bytes depend on chance (the order of
//! a hash table), only the content is compared.

use rdb::{
    Error, Kind, ListLimit, ListNodes, ListpackBuilder, Part, StreamId, StreamLimit, StreamNodes,
    Writer, payload,
};
use testkit::{Client, Launch, Server};

const LONGEST: u64 = 512 << 20;

/// A part that owns its data, so that values can be compared.
#[derive(Clone, Debug, PartialEq)]
enum Owned {
    Word(Vec<u8>),
    Pair(Vec<u8>, Vec<u8>),
    Scored(Vec<u8>, f64),
    Entry(StreamId, Vec<Vec<u8>>),
    Other(String),
}

fn owned(part: &Part<'_>) -> Owned {
    match part {
        Part::String(word) | Part::Element(word) | Part::Member(word) => Owned::Word(word.to_vec()),
        Part::Scored(member, score) => Owned::Scored(member.to_vec(), *score),
        Part::Field(field, value, None) => Owned::Pair(field.to_vec(), value.to_vec()),
        Part::Entry(id, words) => Owned::Entry(*id, words.iter().map(|w| w.to_vec()).collect()),
        other => Owned::Other(format!("{other:?}")),
    }
}

fn read(payload: &[u8]) -> (Kind, Vec<Owned>) {
    let (kind, mut source) = payload::open(payload, LONGEST).expect("Redis's own payload");
    let mut parts = Vec::new();
    let done = rdb::read_value(&mut source, kind, |part| {
        parts.push(owned(&part));
        Ok::<_, Error>(())
    });
    done.expect("Redis's own value");
    assert_eq!(source.at() as usize, payload.len() - 10, "all of the value is read");
    (kind, parts)
}

fn command(client: &mut Client, words: &[&[u8]]) -> testkit::Reply {
    let reply = client.call(words);
    assert!(!reply.is_error(), "{reply}");
    reply
}

fn dump(client: &mut Client, key: &[u8]) -> Vec<u8> {
    command(client, &[b"DUMP", key]).bytes().expect("a payload").to_vec()
}

fn write(write: impl FnOnce(&mut Writer<Vec<u8>>) -> std::io::Result<()>) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), true);
    write(&mut writer).expect("memory takes everything");
    let mut payload = writer.into_inner();
    payload::append_footer(&mut payload, rdb::VERSION);
    payload
}

#[track_caller]
fn same(ours: &[u8], theirs: &[u8]) {
    let differ = ours.iter().zip(theirs).position(|(a, b)| a != b);
    let at = differ.unwrap_or(ours.len().min(theirs.len()));
    let near = |bytes: &[u8]| {
        let end = bytes.len().min(at + 16);
        bytes[at.saturating_sub(16).min(end)..end].escape_ascii().to_string()
    };
    let lengths = (ours.len(), theirs.len());
    assert!(ours == theirs, "{lengths:?} at {at}: {} and {}", near(ours), near(theirs));
}

fn redis() -> (Server, Client) {
    let server = Launch::redis().start();
    let client = server.client();
    (server, client)
}

/// Returns words of many kinds: repetitive and random ones, digits, and lengths at every limit.
fn words() -> Vec<Vec<u8>> {
    let mut random = fastrand::Rng::with_seed(7);
    let mut words: Vec<Vec<u8>> = [
        "",
        "0",
        "-1",
        "127",
        "128",
        "-128",
        "-129",
        "32767",
        "32768",
        "-32769",
        "2147483647",
        "2147483648",
        "-2147483648",
        "-2147483649",
        "9223372036854775807",
        "-9223372036854775808",
        "9223372036854775808",
        "01",
        "-0",
        "1.5",
        "hello",
    ]
    .iter()
    .map(|word| word.as_bytes().to_vec())
    .collect();
    for length in [11, 12, 20, 21, 22, 30, 63, 64, 65, 1000, 4095, 4096, 16_370, 16_384, 70_000] {
        words.push(vec![b'a'; length]);
        words.push((0..length).map(|_| random.u8(..)).collect());
        words.push((0..length).map(|_| random.u8(b'a'..=b'c')).collect());
        words.push((0..length).map(|n| if n % 300 < 280 { b'x' } else { random.u8(..) }).collect());
    }
    words
}

#[test]
fn strings() {
    let (_server, mut client) = redis();
    for word in words() {
        command(&mut client, &[b"SET", b"k", &word]);
        let theirs = dump(&mut client, b"k");
        assert_eq!(read(&theirs), (Kind::String, vec![Owned::Word(word.clone())]));
        let ours = write(|writer| {
            writer.kind(Kind::String)?;
            writer.string(&word)
        });
        same(&ours, &theirs);
    }
}

fn list(elements: &[Vec<u8>], limit: i32) -> Vec<u8> {
    let mut nodes = ListNodes::new(ListLimit::new(limit));
    let mut all: Vec<Vec<u8>> = elements.iter().filter_map(|e| nodes.push(e)).collect();
    all.extend(nodes.finish());
    write(|writer| {
        writer.kind(Kind::ListQuicklist2)?;
        writer.length(all.len() as u64)?;
        all.iter().try_for_each(|node| writer.list_node(node))
    })
}

#[test]
fn lists() {
    let (_server, mut client) = redis();
    let mut random = fastrand::Rng::with_seed(3);
    for limit in [-5, -4, -3, -2, -1, 1, 2, 128, 1000] {
        let limit_text = limit.to_string();
        command(
            &mut client,
            &[b"CONFIG", b"SET", b"list-max-listpack-size", limit_text.as_bytes()],
        );
        for count in [1, 2, 127, 128, 129, 3000] {
            let all = words();
            let some = if count > 200 { 20 } else { all.len() };
            let elements: Vec<Vec<u8>> =
                (0..count).map(|_| all[random.usize(..some)].clone()).collect();
            command(&mut client, &[b"DEL", b"k"]);
            for element in &elements {
                command(&mut client, &[b"RPUSH", b"k", element]);
            }
            let theirs = dump(&mut client, b"k");
            let (kind, parts) = read(&theirs);
            assert_eq!(kind, Kind::ListQuicklist2);
            assert_eq!(parts, elements.iter().cloned().map(Owned::Word).collect::<Vec<_>>());
            same(&list(&elements, limit), &theirs);
        }
    }
}

#[test]
fn sets() {
    let (_server, mut client) = redis();
    for ints in [1i64, 2, 3, 511, 512, 513] {
        for factor in [1, -60, 70, 5_000_000_000] {
            command(&mut client, &[b"DEL", b"k"]);
            let mut members: Vec<i64> = (0..ints).map(|n| (n - 5) * factor).collect();
            for member in &members {
                command(&mut client, &[b"SADD", b"k", member.to_string().as_bytes()]);
            }
            members.sort_unstable();
            let theirs = dump(&mut client, b"k");
            let (kind, mut parts) = read(&theirs);
            let word = |int: &i64| Owned::Word(int.to_string().into_bytes());
            if ints <= 512 {
                assert_eq!(kind, Kind::SetIntset);
                assert_eq!(parts, members.iter().map(word).collect::<Vec<_>>());
                let ours = write(|writer| {
                    writer.kind(Kind::SetIntset)?;
                    writer.string(&rdb::intset(&members))
                });
                same(&ours, &theirs);
            } else {
                assert_eq!(kind, Kind::Set);
                let text = |part: &Owned| format!("{part:?}");
                parts.sort_by_key(text);
                let mut expected: Vec<Owned> = members.iter().map(word).collect();
                expected.sort_by_key(text);
                assert_eq!(parts, expected);
            }
        }
    }
}

#[test]
fn hashes() {
    let (_server, mut client) = redis();
    for count in [1usize, 2, 511, 512, 513] {
        for length in [1, 63, 64, 65] {
            command(&mut client, &[b"DEL", b"k"]);
            let field = |n: usize| format!("{n:0length$}").into_bytes();
            let value = |n: usize| format!("{}", n * 77).into_bytes();
            for n in 0..count {
                command(&mut client, &[b"HSET", b"k", &field(n), &value(n)]);
            }
            let theirs = dump(&mut client, b"k");
            let (kind, mut parts) = read(&theirs);
            let expected: Vec<Owned> =
                (0..count).map(|n| Owned::Pair(field(n), value(n))).collect();
            if count <= 512 && length <= 64 {
                assert_eq!((kind, &parts), (Kind::HashListpack, &expected));
                let mut pack = ListpackBuilder::default();
                for n in 0..count {
                    pack.push(&field(n));
                    pack.push(&value(n));
                }
                let ours = write(|writer| {
                    writer.kind(Kind::HashListpack)?;
                    writer.string(&pack.finish())
                });
                same(&ours, &theirs);
            } else {
                assert_eq!(kind, Kind::Hash);
                parts.sort_by_key(|part| match part {
                    Owned::Pair(_, value) => String::from_utf8_lossy(value).parse::<u64>().ok(),
                    _ => None,
                });
                assert_eq!(parts, expected);
            }
        }
    }
}

#[test]
fn sorted_sets() {
    let (_server, mut client) = redis();
    let scores =
        ["0", "-0", "1", "-1.5", "inf", "-inf", "1e20", "3.0000000000000001e-300", "0.1", "4097"];
    for count in [1usize, 10, 127, 128, 129, 1000] {
        for length in [1, 64, 65] {
            command(&mut client, &[b"DEL", b"k"]);
            let mut expected = Vec::new();
            for n in 0..count {
                let (member, score) = (format!("{n:0length$}"), scores[n % scores.len()]);
                command(&mut client, &[b"ZADD", b"k", score.as_bytes(), member.as_bytes()]);
                // A zero loses its sign while the sorted set is small.
                let lost = if n < 128 && length <= 64 { 0.0 } else { -0.0 };
                expected.push((member.into_bytes(), score.parse::<f64>().expect("a score") + lost));
            }
            expected.sort_by(|a, b| (a.1 + 0.0).total_cmp(&(b.1 + 0.0)).then(a.0.cmp(&b.0)));
            let theirs = dump(&mut client, b"k");
            let (kind, mut parts) = read(&theirs);
            let ours = if count <= 128 && length <= 64 {
                assert_eq!(kind, Kind::SortedSetListpack);
                let mut pack = ListpackBuilder::default();
                for (member, score) in &expected {
                    pack.push(member);
                    pack.push_score(*score);
                }
                write(|writer| {
                    writer.kind(kind)?;
                    writer.string(&pack.finish())
                })
            } else {
                assert_eq!(kind, Kind::SortedSet);
                parts.reverse();
                write(|writer| {
                    writer.kind(kind)?;
                    writer.length(count as u64)?;
                    expected.iter().rev().try_for_each(|(member, score)| {
                        writer.string(member)?;
                        writer.double(*score)
                    })
                })
            };
            let all = expected.iter().map(|(m, s)| Owned::Scored(m.clone(), *s));
            assert_eq!(parts, all.collect::<Vec<_>>());
            same(&ours, &theirs);
        }
    }
}

/// Returns the value of a stream without groups, as Redis writes it.
fn stream(entries: &[(StreamId, Vec<Vec<u8>>)], limit: StreamLimit) -> Vec<u8> {
    let mut nodes = StreamNodes::new(limit);
    let mut all = Vec::new();
    for (id, words) in entries {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        all.extend(nodes.push(*id, &words));
    }
    all.extend(nodes.finish());
    let ends = (entries.first().map(|e| e.0), entries.last().map(|e| e.0));
    write(|writer| {
        writer.kind(Kind::Stream2)?;
        writer.length(all.len() as u64)?;
        all.iter().try_for_each(|node| writer.stream_node(node))?;
        writer.length(entries.len() as u64)?;
        writer.id(ends.1.unwrap_or_default())?;
        writer.id(ends.0.unwrap_or_default())?;
        writer.id(StreamId::MIN)?;
        writer.length(entries.len() as u64)?;
        writer.length(0)
    })
}

#[test]
fn streams() {
    let (_server, mut client) = redis();
    let all = words();
    let mut random = fastrand::Rng::with_seed(5);
    for (bytes, most) in [(4096, 100), (4096, 3), (0, 0), (200, 0), (0, 7)] {
        let bytes_text = bytes.to_string();
        let most_text = most.to_string();
        let set = [b"CONFIG".as_slice(), b"SET"];
        command(&mut client, &[set[0], set[1], b"stream-node-max-bytes", bytes_text.as_bytes()]);
        command(&mut client, &[set[0], set[1], b"stream-node-max-entries", most_text.as_bytes()]);
        for count in [1u64, 2, 99, 100, 101, 300] {
            command(&mut client, &[b"DEL", b"k"]);
            let mut entries = Vec::new();
            for n in 1..=count {
                let id = StreamId { ms: 1_700_000_000_000 + n / 3 * 100, seq: n };
                let fields = random.usize(1..3);
                let words: Vec<Vec<u8>> = (0..2 * fields)
                    .map(|nth| match nth % 2 {
                        0 => format!("f{nth}").into_bytes(),
                        _ => all[random.usize(..24)].clone(),
                    })
                    .collect();
                let id_text = format!("{}-{}", id.ms, id.seq);
                let mut request: Vec<&[u8]> = vec![b"XADD", b"k", id_text.as_bytes()];
                request.extend(words.iter().map(Vec::as_slice));
                command(&mut client, &request);
                entries.push((id, words));
            }
            let theirs = dump(&mut client, b"k");
            let (kind, mut parts) = read(&theirs);
            assert_eq!(kind, Kind::Stream2);
            parts.pop();
            let expected = entries.iter().map(|(id, words)| Owned::Entry(*id, words.clone()));
            assert_eq!(parts, expected.collect::<Vec<_>>());
            same(&stream(&entries, StreamLimit { bytes, entries: most }), &theirs);
        }
    }
}

#[test]
fn streams_with_groups() {
    let (_server, mut client) = redis();
    for line in [
        "XADD k 1-1 a 1",
        "XADD k 2-1 a 2",
        "XADD k 2-2 b 3",
        "XADD k 5-0 b 4",
        "XDEL k 2-1",
        "XGROUP CREATE k g 0",
        "XGROUP CREATE k empty $ ENTRIESREAD 4",
        "XGROUP CREATECONSUMER k g idle",
        "XREADGROUP GROUP g alice COUNT 2 STREAMS k >",
        "XREADGROUP GROUP g bob COUNT 1 STREAMS k >",
        "XCLAIM k g bob 0 1-1 TIME 1234 RETRYCOUNT 9 JUSTID",
    ] {
        client.run(line);
    }
    let (_, parts) = read(&dump(&mut client, b"k"));
    let printed: Vec<String> = parts[3..].iter().map(|part| format!("{part:?}")).collect();
    let printed = printed.join("\n").replace('\\', "");
    for expected in [
        "len: 3, last: StreamId { ms: 5, seq: 0 }, added: 4, deleted: StreamId { ms: 2, seq: 1 }",
        "Group { name: [101, 109, 112, 116, 121], last: StreamId { ms: 5, seq: 0 }, read: Some(4)",
        "Group { name: [103], last: StreamId { ms: 5, seq: 0 }, read: ",
        "Pending { id: StreamId { ms: 1, seq: 1 }, delivered: 1234, count: 9",
        "Pending { id: StreamId { ms: 2, seq: 2 }, delivered: 1",
        "Consumer { name: [105, 100, 108, 101], seen: 1",
    ] {
        assert!(printed.contains(expected), "{expected} in {printed}");
    }
    assert_eq!(printed.matches("Pending").count(), 3, "{printed}");
}
