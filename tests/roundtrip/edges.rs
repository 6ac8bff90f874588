//! Values whose elements are at the limits that the formats distinguish: integers and numbers of
//! each width in each collection, field expiration under conditions, and the same name in several
//! databases.

use crate::values::{Maker, words};

/// The number of elements that make a collection large.
const MANY: usize = 600;

/// Returns integers, and near-integers, as text.
pub(crate) fn integers() -> Vec<String> {
    let edges = [7, 8, 12, 13, 15, 16, 23, 24, 31, 32, 53, 63].map(|bits| (1i128 << bits) - 1);
    let mut texts: Vec<String> = edges
        .iter()
        .flat_map(|edge| [*edge - 1, *edge, edge + 1, -edge, -edge - 1, -edge - 2])
        .filter(|n| i128::from(i64::MIN) <= *n)
        .map(|n| n.to_string())
        .collect();
    let others = "0 -0 007 +1 1.5 1e3 - 99999999999 -9999999999 12345678901234567890";
    texts.extend(others.split(' ').map(String::from));
    texts.extend([" 1".to_owned(), String::new()]);
    texts.sort();
    texts.dedup();
    texts
}

/// Scores, in addition to the integers.
const SCORES: &[&str] =
    &["-0.5", "1e-10", "-2.5e-10", "123456789.123456789", "1e17", "-1e300", "4.9e-324", "0.3"];

/// Makes a value of each type with such elements, a small one and a large one.
pub(crate) fn make(maker: &mut Maker) {
    let texts = integers();
    let are_ints = |text: &&String| text.parse::<i64>().is_ok_and(|n| n.to_string() == **text);
    for more in [0, MANY] {
        let extra: Vec<Vec<u8>> = (0..more).map(|n| format!("x{n}").into_bytes()).collect();
        let all = || texts.iter().map(|text| text.clone().into_bytes()).chain(extra.clone());
        for (command, about) in [(b"RPUSH".as_slice(), "edges-list"), (b"SADD", "edges-set")] {
            let key = maker.key(about);
            maker.add(words([command, &key]).into_iter().chain(all()).collect());
            maker.end(&key);
        }
        for width in [16, 32, 64] {
            let most = i64::MAX >> (64 - width);
            let fit = |n: &i64| *n <= most && *n >= -most - 1;
            let ints = texts.iter().filter(are_ints).filter_map(|text| text.parse().ok());
            let ints: Vec<i64> = ints.filter(fit).collect();
            let key = maker.key("edges-ints");
            let ints = ints.iter().map(|n| n.to_string().into_bytes());
            let more = (0..more).map(|n| (n + 40).to_string().into_bytes());
            maker.add(words([b"SADD", &key]).into_iter().chain(ints).chain(more).collect());
            // One beyond the maximum of the width, alone.
            let key = maker.key("edges-ints");
            let beyond = (i128::from(most) + 1).to_string();
            maker.add(words([b"SADD", &key, b"0", beyond.as_bytes()]));
        }
        let key = maker.key("edges-hash");
        let pairs = all().zip(all().skip(3).chain(all())).flat_map(|(field, value)| [field, value]);
        maker.add(words([b"HSET", &key]).into_iter().chain(pairs).collect());
        maker.end(&key);
        scored(maker, &texts, &extra);
        let key = maker.key("edges-stream");
        for (n, text) in texts.iter().enumerate() {
            let text = text.as_bytes();
            // When the first number of an ID rises, the second falls for every second one.
            let id = format!("{}-{}", 5 + n, if n % 2 == 0 { 70_000 } else { 3 });
            maker.add(words([b"XADD", &key, id.as_bytes(), b"f", text, text, b"v"]));
        }
        maker.end(&key);
    }
}

fn scored(maker: &mut Maker, texts: &[String], extra: &[Vec<u8>]) {
    let numbers = texts.iter().map(String::as_str).filter(|text| {
        text.parse::<f64>().is_ok() && !text.starts_with('+') && !text.starts_with("00")
    });
    let key = maker.key("edges-sorted");
    let mut request = words([b"ZADD", &key]);
    for (score, member) in numbers.chain(SCORES.iter().copied()).zip(texts.iter().rev().cycle()) {
        // If a member is there twice its last score counts, in all servers.
        request.extend(words([score.as_bytes(), member.as_bytes()]));
    }
    for member in extra {
        request.extend(words([b"0", member]));
    }
    maker.add(request);
    maker.end(&key);
}

/// Makes hashes whose fields get and lose TTLs, some of them under conditions.
pub(crate) fn timed(maker: &mut Maker) {
    for more in [0, MANY] {
        let key = maker.key("edges-timed");
        let fields: Vec<Vec<u8>> = (0..more + 12).map(|n| format!("f{n}").into_bytes()).collect();
        let pairs = fields.iter().flat_map(|field| [field.clone(), b"v".to_vec()]);
        maker.add(words([b"HSET", &key]).into_iter().chain(pairs).collect());
        let ask = |maker: &mut Maker, condition: &[u8], some: &[Vec<u8>]| {
            let (at, count) = (maker.time().to_string(), some.len().to_string());
            let mut request = words([b"HPEXPIREAT", &key, at.as_bytes()]);
            request.extend((!condition.is_empty()).then(|| condition.to_vec()));
            request.extend(words([b"FIELDS", count.as_bytes()]));
            request.extend(some.iter().cloned());
            maker.add(request);
        };
        ask(maker, b"", &fields[..4]);
        ask(maker, b"NX", &fields[2..6]);
        for (n, condition) in [b"GT", b"LT", b"XX", b"NX", b"GT"].into_iter().enumerate() {
            ask(maker, condition, &fields[n..n + 5]);
        }
        maker.add(words([b"HPERSIST", &key, b"FIELDS", b"3", b"f1", b"f11", b"none"]));
        maker.end(&key);
    }
}

/// Makes keys of one name in several databases, each with another value.
pub(crate) fn namesakes(maker: &mut Maker) {
    for n in 0..20 {
        let name = format!("same:{n}");
        for (at, db) in [0, 3, 9, 15].into_iter().enumerate() {
            let value = format!("{db}.{n}");
            let request = match (n + at) % 3 {
                0 => words([b"SET", name.as_bytes(), value.as_bytes()]),
                1 => words([b"RPUSH", name.as_bytes(), value.as_bytes(), b"b"]),
                _ => words([b"SADD", name.as_bytes(), value.as_bytes(), b"b"]),
            };
            maker.data.requests.push((db, request));
        }
    }
}
