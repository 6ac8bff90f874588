//! The commands that make streams: deleted entries, groups, consumers and their pending entries,
//! with each number and time different from its default.

use crate::shapes::Dimension;
use crate::values::{Maker, words};

/// The number of pending entries that are claimed with one time and count.
const CLAIMED: usize = 40;

fn id(n: usize) -> String {
    format!("{}-{}", 1000 + 7 * n, n % 3 * 5 + 1)
}

/// Makes a stream whose dimension has the size.
pub(crate) fn shape(maker: &mut Maker, key: &[u8], dimension: Dimension, size: usize) {
    match dimension {
        Dimension::Count => {
            entries(maker, key, size);
            delete(maker, key, size);
            head(maker, key, size);
            group(maker, key, b"g", size.min(9));
        }
        Dimension::Length | Dimension::Value => long(maker, key, dimension, size),
        Dimension::Total => {
            let number = size.div_ceil(1000).max(1);
            for n in 0..number {
                let length = if n + 1 == number { size - 1000 * n } else { 1000 };
                let value = maker.bytes(n, length);
                maker.add(words([b"XADD", key, id(n).as_bytes(), b"", &value]));
            }
        }
        Dimension::Pending => {
            entries(maker, key, size + 3);
            group(maker, key, b"g", size);
        }
        Dimension::Consumers => {
            entries(maker, key, 5);
            maker.add(words([b"XGROUP", b"CREATE", key, b"g", b"0"]));
            for n in 0..size {
                let name = format!("c{n}");
                maker.add(words([b"XGROUP", b"CREATECONSUMER", key, b"g", name.as_bytes()]));
            }
        }
        Dimension::Groups => {
            entries(maker, key, 3);
            for n in 0..size {
                let (name, read) = (format!("g{n}"), (n + 5).to_string());
                let from = id(n % 4);
                maker.add(words([
                    b"XGROUP",
                    b"CREATE",
                    key,
                    name.as_bytes(),
                    from.as_bytes(),
                    b"ENTRIESREAD",
                    read.as_bytes(),
                ]));
            }
        }
        _ => {
            for n in 0..3 {
                let mut request = words([b"XADD", key, id(n).as_bytes()]);
                for field in 0..size {
                    request.push(format!("f{}", field + n / 2).into_bytes());
                    request.push(field.to_string().into_bytes());
                }
                maker.add(request);
            }
        }
    }
}

/// Makes a stream with one field or one value of this length.
fn long(maker: &mut Maker, key: &[u8], dimension: Dimension, size: usize) {
    let long = maker.bytes(1, size);
    let (field, value) = match dimension {
        Dimension::Length => (long.as_slice(), b"v".as_slice()),
        _ => (b"f".as_slice(), long.as_slice()),
    };
    maker.add(words([b"XADD", key, b"5-1", b"f", b"v"]));
    maker.add(words([b"XADD", key, b"5-2", field, value, b"x", b"y"]));
    maker.add(words([b"XADD", key, b"6-0", b"f", b"w"]));
    if size <= 9000 {
        // As the name of a group and of a consumer, too.
        maker.add(words([b"XGROUP", b"CREATE", key, &long, b"5-1", b"ENTRIESREAD", b"3"]));
        maker.add(words([
            b"XREADGROUP",
            b"GROUP",
            &long,
            &long,
            b"COUNT",
            b"1",
            b"STREAMS",
            key,
            b">",
        ]));
        let time = maker.past().to_string();
        maker.add(words([
            b"XCLAIM",
            key,
            &long,
            &long,
            b"0",
            b"5-2",
            b"TIME",
            time.as_bytes(),
            b"RETRYCOUNT",
            b"5",
            b"JUSTID",
        ]));
    }
}

fn entries(maker: &mut Maker, key: &[u8], number: usize) {
    for n in 0..number {
        let (at, value) = (id(n), (n as i64 * 1001 - 7).to_string());
        maker.add(match n % 7 {
            5 => words([b"XADD", key, at.as_bytes(), b"other", value.as_bytes(), b"f", b"x"]),
            _ => words([b"XADD", key, at.as_bytes(), b"f", value.as_bytes()]),
        });
    }
}

/// Deletes the first, the last and others of the entries.
fn delete(maker: &mut Maker, key: &[u8], number: usize) {
    if number < 5 {
        return;
    }
    for n in [0, number / 2, number / 2 + 1, number - 1] {
        maker.add(words([b"XDEL", key, id(n).as_bytes()]));
    }
}

/// Sets the metadata of the stream.
fn head(maker: &mut Maker, key: &[u8], number: usize) {
    let last = format!("{}-{}", 1000 + 7 * number + 13, maker.random.u16(1..));
    let added = (number as u64 + maker.random.u64(1..1000)).to_string();
    let deleted = format!("{}-{}", 1000 + 7 * number, maker.random.u16(20..));
    maker.add(words([
        b"XSETID",
        key,
        last.as_bytes(),
        b"ENTRIESADDED",
        added.as_bytes(),
        b"MAXDELETEDID",
        deleted.as_bytes(),
    ]));
}

/// Makes a group with `pending` pending entries, most of them of one consumer.
fn group(maker: &mut Maker, key: &[u8], name: &[u8], pending: usize) {
    let read = maker.random.u16(1000..).to_string();
    maker.add(words([b"XGROUP", b"CREATE", key, name, b"0", b"ENTRIESREAD", read.as_bytes()]));
    for (consumer, count) in [(b"bob".as_slice(), pending / 8), (b"alice", pending - pending / 8)] {
        if count > 0 {
            let count = count.to_string();
            maker.add(words([
                b"XREADGROUP",
                b"GROUP",
                name,
                consumer,
                b"COUNT",
                count.as_bytes(),
                b"STREAMS",
                key,
                b">",
            ]));
        }
    }
    // Neither of the two claims deleted entries; they stay pending.
    for from in (0..pending + 4).step_by(CLAIMED) {
        let consumer: &[u8] = if from < pending / 8 { b"bob" } else { b"alice" };
        let mut request = words([b"XCLAIM", key, name, consumer, b"0"]);
        request.extend((from..(from + CLAIMED).min(pending + 4)).map(|n| id(n).into_bytes()));
        let (time, count) = (maker.past().to_string(), maker.random.u32(2..).to_string());
        request.extend(words([
            b"TIME",
            time.as_bytes(),
            b"RETRYCOUNT",
            count.as_bytes(),
            b"JUSTID",
        ]));
        maker.add(request);
    }
    maker.add(words([b"XGROUP", b"CREATECONSUMER", key, name, b"carol"]));
    for consumer in [b"alice".as_slice(), b"carol"] {
        // It reads, and gets nothing.
        maker.add_later(words([
            b"XREADGROUP",
            b"GROUP",
            name,
            consumer,
            b"STREAMS",
            key,
            b"99999999-0",
        ]));
    }
}

/// Makes a stream of this many bytes, with groups whose pending entries take several steps.
pub(crate) fn giant(maker: &mut Maker, bytes: usize) {
    let (key, number) = (maker.key("giant-stream"), bytes / 900);
    for n in 0..number {
        let value = maker.bytes(n, 1000);
        maker.add(words([b"XADD", &key, id(n).as_bytes(), b"f", &value]));
    }
    delete(maker, &key, number);
    head(maker, &key, number);
    for name in [b"one".as_slice(), b"two"] {
        group(maker, &key, name, number - 7);
    }
}

/// Makes special streams.
pub(crate) fn special(maker: &mut Maker) {
    // Without entries.
    let key = maker.key("stream-empty");
    maker.add(words([b"XGROUP", b"CREATE", &key, b"g", b"$", b"MKSTREAM"]));
    maker.end(&key);

    // It had entries once; the last ID is lower than that of a deleted one.
    let key = maker.key("stream-lowered");
    entries(maker, &key, 4);
    (0..4).for_each(|n| maker.add(words([b"XDEL", &key, id(n).as_bytes()])));
    maker.add(words([b"XSETID", &key, b"3-4"]));
    maker.end(&key);

    let key = maker.key("stream-trimmed");
    entries(maker, &key, 300);
    maker.add(words([b"XTRIM", &key, b"MAXLEN", b"0"]));
    group(maker, &key, b"g", 0);
    maker.end(&key);

    // Some of the pending entries are deleted, some acknowledged.
    let key = maker.key("stream-pending");
    entries(maker, &key, 40);
    for name in [b"one".as_slice(), b"two \xff\"", b""] {
        group(maker, &key, name, 30);
        maker.add(words([b"XACK", &key, name, id(3).as_bytes(), id(29).as_bytes()]));
    }
    for n in [0, 5, 6, 20, 39] {
        maker.add(words([b"XDEL", &key, id(n).as_bytes()]));
    }
    maker.add(words([b"XGROUP", b"SETID", &key, b"two \xff\"", id(11).as_bytes()]));
    maker.end(&key);

    // The number of entries that a group has read is unknown.
    let key = maker.key("stream-unknown");
    entries(maker, &key, 12);
    delete(maker, &key, 12);
    maker.add(words([b"XGROUP", b"CREATE", &key, b"g", id(4).as_bytes()]));
    maker.add(words([b"XGROUP", b"CREATE", &key, b"all", b"$"]));
    maker.end(&key);

    // IDs at the ends of their range.
    let key = maker.key("stream-ids");
    maker.add(words([b"XADD", &key, b"0-1", b"a", b"b"]));
    maker.add(words([b"XADD", &key, b"0-18446744073709551615", b"a", b"c"]));
    maker.add(words([b"XADD", &key, b"18446744073709551615-0", b"a", b"d"]));
    maker.add(words([b"XADD", &key, b"18446744073709551615-18446744073709551615", b"", b""]));
    maker.end(&key);
}

/// Makes streams whose groups reach their state in rare ways.
pub(crate) fn odd(maker: &mut Maker) {
    let key = maker.key("stream-odd");
    entries(maker, &key, 30);
    delete(maker, &key, 30);
    // The number of entries that it has read is unknown, also after it has read on.
    maker.add(words([b"XGROUP", b"CREATE", &key, b"g", id(4).as_bytes()]));
    let read = |maker: &mut Maker, consumer: &[u8], count: &[u8], rest: &[&[u8]]| {
        let mut request = words([b"XREADGROUP", b"GROUP", b"g", consumer, b"COUNT", count]);
        request.extend(rest.iter().map(|word| word.to_vec()));
        request.extend(words([b"STREAMS", &key, b">"]));
        maker.add(request);
    };
    read(maker, b"one", b"9", &[]);
    read(maker, b"two", b"3", &[b"NOACK"]);
    read(maker, b"three", b"4", &[]);
    // A deleted entry is no longer pending once it is claimed.
    for n in [6, 7, 20] {
        maker.add(words([b"XDEL", &key, id(n).as_bytes()]));
    }
    let mut claim = words([b"XCLAIM", &key, b"g", b"four", b"0"]);
    claim.extend((5..9).map(|n| id(n).into_bytes()));
    maker.add(claim);
    maker.add(words([b"XAUTOCLAIM", &key, b"g", b"five", b"0", b"0", b"COUNT", b"3"]));
    maker.end(&key);

    // Everything is read; later consumers get nothing.
    let key = maker.key("stream-read");
    entries(maker, &key, 5);
    maker.add(words([b"XGROUP", b"CREATE", &key, b"g", b"$", b"ENTRIESREAD", b"0"]));
    for consumer in [b"a".as_slice(), b"b"] {
        maker.add(words([b"XREADGROUP", b"GROUP", b"g", consumer, b"STREAMS", &key, b">"]));
    }
    maker.add(words([b"XAUTOCLAIM", &key, b"g", b"c", b"0", b"0"]));
    maker.end(&key);
}
