//! No limit on the encoding of a value makes a sound value look damaged: random changes of values
//! of every collection type under random limits.

use crate::common::{NOW, db, emulated, write};
use fastrand::Rng;
use keyspace::{CheckError, FieldTime, Keyspace, Limits, NodeLimits, Side, StreamId, StreamLimits};

/// Draws any `list-max-listpack-size` from -5 to -1, or one of some positive numbers of elements.
fn node_limits(rng: &mut Rng) -> NodeLimits {
    match rng.i32(-5..6) {
        size @ ..0 => NodeLimits::new(2048 << size.unsigned_abs(), usize::MAX),
        0 => NodeLimits::new(8192, usize::MAX),
        _ => NodeLimits::new(8192, [1, 2, 128, 4000, 40_000][rng.usize(..5)]),
    }
}

fn entries(rng: &mut Rng) -> Limits {
    let entries = [0, 1, 128, 70_000, usize::MAX][rng.usize(..5)];
    Limits { entries, value: [0, 64, 20_000, usize::MAX][rng.usize(..4)] }
}

fn stream_limits(rng: &mut Rng) -> StreamLimits {
    let bytes = [0, 1, 4096, 65_456, 65_536, 1 << 30][rng.usize(..6)];
    StreamLimits::new(bytes, [0, 1, 100, 32_767, 32_768, usize::MAX][rng.usize(..6)])
}

/// Draws a value that is mostly short, and sometimes about as long as what fits in one block or one
/// node.
fn value(rng: &mut Rng) -> Vec<u8> {
    let len = match rng.u8(..40) {
        0 => rng.usize(65_400..65_600),
        1 => rng.usize(8100..8200),
        2 => rng.usize(..20_000),
        _ => rng.usize(..120),
    };
    vec![b'a' + rng.u8(..26); len]
}

/// Changes the list many times under one limit, so that nodes get as large as the limit allows:
/// pushes at one end, pops at the other.
fn change_list(ks: &Keyspace, rng: &mut Rng, model: &mut u64) {
    let side = if rng.u8(..4) == 0 { Side::Head } else { Side::Tail };
    let (limits, len, keep) = (node_limits(rng), 1 + rng.usize(..3000), rng.u64(1..60));
    for _ in 0..rng.usize(1..200) {
        let element = if rng.u8(..20) == 0 { value(rng) } else { vec![b'e'; rng.usize(..len)] };
        write(ks, &["list"], |txn| {
            let key = txn.key(b"list");
            *model += 1;
            let pushed = txn.lists().push(db(0), &key, side, [element.as_slice()], limits);
            assert_eq!(pushed, Ok(*model), "{} bytes, {limits:?}", element.len());
            let pops = model.saturating_sub(keep);
            assert_eq!(
                txn.lists().pop(db(0), &key, side.other(), pops, |_| ()),
                Ok((pops, *model - pops))
            );
            *model -= pops;
        });
    }
}

fn change_hash(ks: &Keyspace, rng: &mut Rng) {
    let (limits, value) = (entries(rng), value(rng));
    let field = format!("field {}", rng.u32(..3000));
    let time = if rng.u8(..10) == 0 { FieldTime::At(NOW + 5000) } else { FieldTime::Clear };
    write(ks, &["hash", "set", "sorted"], |txn| {
        let (key, pair) = (txn.key(b"hash"), [(field.as_bytes(), value.as_slice())]);
        txn.hashes().put_with_time(db(0), &key, pair, time, limits).expect("a hash takes a field");
        let member = [field.as_bytes(), &value[..value.len().min(100)]];
        let key = txn.key(b"set");
        txn.sets().add(db(0), &key, member, limits).expect("a set takes members");
        let key = txn.key(b"sorted");
        let mut edit = txn.sorted_sets().edit(db(0), &key, limits).expect("a sorted set is opened");
        let score = value.len() as f64;
        edit.change(txn, field.as_bytes(), |_| Some(score)).expect("it takes a member");
        edit.finish(txn, db(0), &key).expect("a sorted set is written");
    });
}

fn change_stream(ks: &Keyspace, rng: &mut Rng, ms: u64) {
    let (limits, value) = (stream_limits(rng), value(rng));
    write(ks, &["stream"], |txn| {
        let key = txn.key(b"stream");
        let id = StreamId { ms, seq: 0 };
        let add = txn.streams().edit(db(0), &key, |edit| {
            edit.append(id, &[b"field", value.as_slice()], limits)?;
            Ok(())
        });
        add.expect("a stream takes an entry");
    });
}

fn damage(ks: &Keyspace) -> Vec<CheckError> {
    let mut problems = Vec::new();
    ks.inspect(0, &|_| {}, &mut |problem| problems.push(problem));
    problems
}

#[test]
fn no_limit_makes_a_sound_value_look_damaged() {
    for seed in 0..6 {
        let folder = tempfile::tempdir().expect("a folder");
        let ks = emulated(&folder.path().join("pool"), 1);
        let (mut rng, mut list) = (Rng::with_seed(seed), 0);
        for change in 0..300 {
            change_list(&ks, &mut rng, &mut list);
            for n in 0..5 {
                change_hash(&ks, &mut rng);
                change_stream(&ks, &mut rng, 5 * change + n + 1);
            }
        }
        let found = damage(&ks);
        assert!(found.is_empty(), "seed {seed}: {found:?}");
    }
}
