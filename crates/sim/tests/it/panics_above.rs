//! A panic anywhere in a command or in a step of background work: when an index, a table, a list, a
//! tree or a stream splits, when the remains of deletes are freed, when entries move, when keys
//! expire or are evicted.
//!
//! Each piece of work runs again and again on the same pool, and panics one place later each time,
//! until it passes. After each panic the heap either takes no more writes, and a restart recovers
//! the content before the work or after it; or the keyspace has exactly its previous content, and
//! the same work, repeated, succeeds: a panic stops neither expiry nor freeing for good. Of a long
//! run of commands, those with the most places are chosen: the ones that split something.

use crate::bytes::Bytes;
use crate::engine::state::{Keys, State, read};
use commands::{Clock, Engine, EngineOptions, Peer};
use heap::{CreateOptions, Geometry, Heap};
use keyspace::{Content, Defragmentation, Eviction, Keyspace, Policy};
use pmem::{Region, panic_after};
use resp::{Protocol, Writer};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

const NOW: u64 = 1_700_000_000_000;
/// A time when the keys that should expire have expired.
const LATER: u64 = NOW + 1_000_000;
const SPAN: usize = 65536;
const ZONE_SPANS: usize = 16;
const ZONES: usize = 4;

struct At(u64);

impl Clock for At {
    fn unix_ns(&self) -> u64 {
        self.0 * 1_000_000
    }
}

/// A pool in use, and its bytes.
struct Open {
    engine: Engine,
    bytes: Arc<Bytes>,
}

impl Open {
    fn new(image: &[u8], now: u64) -> Open {
        let bytes = Bytes::of(image);
        let reserve = ZONE_SPANS * SPAN * (ZONES + 1) - 1;
        let region = Region::simulated_from(image, reserve, bytes.clone());
        let heap = if Heap::is_blank(&region) {
            let geometry =
                Geometry { shards: 1, ring_parts: 3, ring_part: 4096, zone_spans: ZONE_SPANS };
            let options = CreateOptions { geometry, ..CreateOptions::default() };
            Heap::create(region, &options).expect("a pool")
        } else {
            Heap::open(region, [0; 16]).expect("what a panic leaves can be opened").0
        };
        let keyspace = Arc::new(Keyspace::new(heap, now));
        let engine = EngineOptions { clock: Arc::new(At(now)), ..EngineOptions::new(keyspace) };
        Open { engine: Engine::new(engine), bytes }
    }

    fn keyspace(&self) -> &Keyspace {
        self.engine.keyspace()
    }

    /// Returns everything in it, and checks that it is sound.
    fn state(&self, place: &str) -> Keys {
        self.keyspace().check().unwrap_or_else(|error| panic!("{error}: {place}"));
        assert_eq!(self.keyspace().heap().damaged(), 0, "damaged references: {place}");
        Keys::clone(&read(self.keyspace(), NOW).keys)
    }

    /// Returns the number of fields of the hash.
    fn fields(&self) -> usize {
        let keys = read(self.keyspace(), NOW).keys;
        match keys.get(&(0, b"hash".to_vec())) {
            Some((Content::Fields(fields), _)) => fields.len(),
            Some((Content::Elements(_, pairs), _)) => pairs.len() / 2,
            _ => 0,
        }
    }

    /// Executes a line of words, which succeeds.
    fn run(&self, line: &str) {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let mut writer = Writer::new(Protocol::Resp2);
        let mut session = self.engine.connect(Peer::default(), 0);
        let _ = self.engine.execute(&mut session, &words, &mut writer);
        let reply = writer.take();
        assert!(!reply.starts_with(b"-"), "{line}: {}", reply.escape_ascii());
        self.engine.disconnect(&mut session);
    }
}

/// Something to do with a pool; once it is done, it does nothing more.
type Work<'w> = &'w dyn Fn(&Open);
/// Owned work, for a list.
type Task = Box<dyn Fn(&Open)>;

/// The number of places that are all tried; after them ever fewer are.
const DENSE: u64 = 60;

/// Makes the work panic at its places, on this image; returns about how many there were.
fn check(name: &str, image: &[u8], now: u64, work: Work<'_>) -> u64 {
    let whole = Open::new(image, now);
    let before = whole.state(name);
    work(&whole);
    let after = whole.state(name);
    drop(whole);
    let mut next = 0;
    loop {
        let place = next;
        next += 1 + place / DENSE;
        let open = Open::new(image, now);
        panic_after(Some(place));
        let done = catch_unwind(AssertUnwindSafe(|| work(&open)));
        panic_after(None);
        if done.is_ok() {
            return place;
        }
        let place = format!("place {place} of {name}");
        let open = match open.keyspace().heap().is_poisoned() {
            true => {
                let left = open.bytes.get().clone();
                Open::new(&left, now)
            }
            false => {
                assert!(open.state(&place) == before, "not as it was before: {place}");
                open
            }
        };
        let found = open.state(&place);
        assert!(found == before || found == after, "neither before nor after: {place}");
        if found == before {
            work(&open);
        }
        assert!(open.state(&place) == after, "the work did not come to its end: {place}");
        open.run("SET another value");
        open.run("DEL another");
        let left = open.bytes.get().clone();
        drop(open);
        assert!(Open::new(&left, now).state(&place) == after, "lost by a restart: {place}");
    }
}

/// Does all of these, and then makes the `most` of them with the most places panic.
fn check_hardest(name: &str, image: &[u8], now: u64, most: usize, all: &[Task]) {
    let open = Open::new(image, now);
    let places = |work: &dyn Fn(&Open)| {
        panic_after(Some(u64::MAX));
        work(&open);
        panic_after(None).map_or(0, |left| u64::MAX - left)
    };
    let counts: Vec<u64> = all.iter().map(|work| places(work)).collect();
    drop(open);
    let mut hardest: Vec<usize> = (0..all.len()).collect();
    hardest.sort_by_key(|at| (u64::MAX - counts[*at], *at));
    hardest.truncate(most);
    assert!(counts[hardest[0]] > 10, "{name}: {counts:?}");
    let open = Open::new(image, now);
    for (at, work) in all.iter().enumerate() {
        if hardest.contains(&at) {
            let left = open.bytes.get().clone();
            let found = check(&format!("{name}, number {at}"), &left, now, &**work);
            println!("{name}, number {at}: {found} places");
            assert!(found >= 4, "{name}, number {at}: {found} places");
        }
        work(&open);
    }
}

/// Returns the image after these lines.
fn after(lines: &[String]) -> Vec<u8> {
    let open = Open::new(&[], NOW);
    lines.iter().for_each(|line| open.run(line));
    open.bytes.get().clone()
}

fn lines(count: usize, line: impl Fn(usize) -> String) -> Vec<String> {
    (0..count).map(line).collect()
}

fn works(lines: Vec<String>) -> Vec<Task> {
    lines.into_iter().map(|line| Box::new(move |open: &Open| open.run(&line)) as _).collect()
}

/// Makes two commands of a run panic, after those that prepare it.
fn check_run(name: &str, first: &[String], run: Vec<String>) {
    check_hardest(name, &after(first), NOW, 3, &works(run));
}

const ELEMENT: &str = "an element of a list that is not too short, so that a node is full soon";

#[test]
fn a_panic_where_an_index_or_a_table_splits_leaves_all_of_it() {
    check_run("SET", &[], lines(300, |n| format!("SET key{n} value")));
    check_run("SET PXAT", &[], lines(250, |n| format!("SET key{n} v PXAT {}", LATER + n as u64)));
    check_run("HSET", &[], lines(400, |n| format!("HSET hash field{n} value")));
    check_run("SADD", &[], lines(400, |n| format!("SADD set member{n}")));
}

#[test]
fn a_panic_where_a_list_a_tree_or_a_stream_splits_leaves_all_of_it() {
    check_run(
        "RPUSH",
        &[],
        lines(250, |n| format!("RPUSH list {}", format!("{n} {ELEMENT}").replace(' ', "_"))),
    );
    let list = lines(100, |n| format!("RPUSH list {}", format!("{n} {ELEMENT}").replace(' ', "_")));
    let before = format!("50 {ELEMENT}").replace(' ', "_");
    check_run("LINSERT", &list, lines(60, |n| format!("LINSERT list BEFORE {before} {n}{before}")));
    check_run("ZADD", &[], lines(300, |n| format!("ZADD sorted {} member{n}", n * 7 % 300)));
    check_run("XADD", &[], lines(220, |n| format!("XADD stream {}-1 field value{n}", n + 1)));
}

/// Returns commands for a key of each kind, large enough to have many blocks.
fn one_of_each() -> Vec<String> {
    let mut all = lines(150, |n| format!("HSET hash field{n} {}", "v".repeat(60)));
    all.extend(lines(150, |n| format!("RPUSH list {n}{}", "e".repeat(120))));
    all.extend(lines(200, |n| format!("ZADD sorted {n} member{n}{}", "m".repeat(60))));
    all.extend(lines(150, |n| format!("XADD stream {}-1 field {}", n + 1, "v".repeat(80))));
    all.extend(
        ["XGROUP CREATE stream group 0", "XREADGROUP GROUP group c COUNT 50 STREAMS stream >"]
            .map(Into::into),
    );
    all.push(format!("SET string {}", "s".repeat(50_000)));
    all
}

#[test]
fn a_panic_where_something_is_taken_away_leaves_all_of_it_or_nothing() {
    let all = one_of_each();
    check_run("HDEL", &all, lines(150, |n| format!("HDEL hash field{n}")));
    check_run(
        "ZREM",
        &all,
        lines(60, |n| format!("ZREMRANGEBYRANK sorted {} {}", n % 7, n % 7 + 2)),
    );
    check_run("LPOP", &all, lines(70, |n| format!("LPOP list {}", 1 + n % 2)));
    check_run("XDEL", &all, lines(60, |n| format!("XDEL stream {}-1", 2 * n + 1)));
    let last = ["DEL hash", "DEL list", "DEL sorted", "DEL stream", "DEL string", "FLUSHALL"];
    check_hardest("DEL", &after(&all), NOW, 3, &works(last.map(Into::into).into()));
    let moves = ["RENAME hash other", "COPY list other2", "MOVE sorted 3", "SWAPDB 0 1"];
    check_hardest(
        "RENAME and its like",
        &after(&all),
        NOW,
        4,
        &works(moves.map(Into::into).into()),
    );
}

/// Maximum number of steps of a piece of background work.
const STEPS: usize = 200;

/// Makes one of the steps of a piece of background work panic, anywhere: the next steps must still
/// reach the same end.
fn check_to_the_end(
    name: &str,
    image: &[u8],
    now: u64,
    step: Work<'_>,
    is_done: &dyn Fn(&Open) -> bool,
) {
    let finish = |open: &Open| {
        let taken = (0..STEPS).take_while(|_| !is_done(open)).map(|_| step(open)).count();
        assert!(taken < STEPS, "{name} does not come to its end");
        open.state(name)
    };
    let end = finish(&Open::new(image, now)).len();
    let mut panics = 0;
    for place in (0..).map(|n| n * 5 + n * n) {
        let open = Open::new(image, now);
        panic_after(Some(place));
        let done = catch_unwind(AssertUnwindSafe(|| {
            (0..STEPS).take_while(|_| !is_done(&open)).for_each(|_| step(&open));
        }));
        panic_after(None);
        if done.is_ok() {
            break;
        }
        panics += 1;
        let open = match open.keyspace().heap().is_poisoned() {
            true => Open::new(&open.bytes.get().clone(), now),
            false => open,
        };
        assert!(finish(&open).len() == end, "another end after a panic at place {place} of {name}");
    }
    assert!(panics > 6, "{name} panicked at {panics} places");
}

#[test]
fn a_panic_in_freeing_does_not_end_it() {
    let mut lines = one_of_each();
    lines
        .extend(["DEL hash", "DEL list", "DEL sorted", "DEL stream", "DEL string"].map(Into::into));
    lines.extend((0..20).map(|n| format!("SET left{n} value")));
    lines.push("FLUSHALL".into());
    let image = after(&lines);
    assert!(Open::new(&image, NOW).keyspace().has_garbage(0));
    let step = |open: &Open| {
        open.keyspace().reclaim_step(0, 8).expect("a step");
    };
    let steps: Vec<Task> = (0..60).map(|_| Box::new(step) as _).collect();
    check_hardest("freeing", &image, NOW, 4, &steps);
    check_to_the_end("freeing", &image, NOW, &step, &|open| !open.keyspace().has_garbage(0));
}

#[test]
fn a_panic_in_expiry_does_not_end_it() {
    let mut lines = one_of_each();
    lines.push("DEL hash".into());
    lines.extend((0..30).map(|n| format!("SET key{n} value PXAT {}", NOW + 10 + n)));
    lines.extend((0..40).map(|n| format!("HSET hash field{n} value")));
    lines.extend((0..30).map(|n| format!("HPEXPIREAT hash {} FIELDS 1 field{n}", NOW + 20 + n)));
    lines.extend(["list", "sorted"].map(|key| format!("PEXPIREAT {key} {}", NOW + 100)));
    let image = after(&lines);
    let step = |open: &Open| {
        let step = open.keyspace().try_stage_expiry(0, 12, LATER);
        let (mut txn, _) = step.expect("nobody else has the shard");
        open.engine.commit_step(&mut txn, open.keyspace().losses());
    };
    // A step begins where the previous one ended, so that more than one may be needed.
    let expired = |keys: &Keys| State { now: LATER, keys: Arc::new(keys.clone()) };
    let all = Open::new(&image, LATER).state("before");
    check_to_the_end("expiry", &image, LATER, &step, &|open| {
        let keys = open.state("after a step");
        let is_whole =
            |(name, value)| name == &(0, b"hash".to_vec()) || all.get(name) == Some(value);
        assert!(keys.iter().all(is_whole), "whole keys");
        expired(&keys).live(LATER).count() == keys.len() && open.fields() == 10
    });
}

#[test]
fn a_panic_in_defragmentation_does_not_end_it() {
    let mut lines = lines(400, |n| format!("SET key{n} {}", "v".repeat(300)));
    lines.extend(one_of_each());
    lines.extend((0..400).filter(|n| n % 6 != 0).map(|n| format!("DEL key{n}")));
    lines.extend((0..150).filter(|n| n % 5 != 0).map(|n| format!("HDEL hash field{n}")));
    let image = after(&lines);
    let mut cursors = vec![Defragmentation::default()];
    let open = Open::new(&image, NOW);
    while let Ok(Some(next)) = open.keyspace().defragment_step(0, cursors[cursors.len() - 1], 8) {
        cursors.push(next);
    }
    assert!(cursors[cursors.len() - 1].moved > 20, "{cursors:?}");
    let steps: Vec<Task> = cursors
        .into_iter()
        .map(|from| {
            Box::new(move |open: &Open| {
                open.keyspace().defragment_step(0, from, 8).expect("a step");
            }) as _
        })
        .collect();
    check_hardest("defragmentation", &image, NOW, 5, &steps);
}

#[test]
fn a_panic_in_eviction_does_not_end_it() {
    let image = after(&one_of_each());
    let all = Open::new(&image, NOW).state("before");
    let maxmemory = Open::new(&image, NOW).keyspace().heap().used() / 2;
    for policy in [Policy::AllkeysRandom, Policy::AllkeysLru] {
        let limit = |open: &Open| {
            let before = open.keyspace().eviction();
            open.keyspace().set_eviction(Eviction { maxmemory, policy, ..before }, NOW);
        };
        let evict = |open: &Open| {
            limit(open);
            drop(open.keyspace().evict_step(1, NOW, 7).expect("a step"));
        };
        check_to_the_end(&format!("eviction by {policy:?}"), &image, NOW, &evict, &|open| {
            limit(open);
            let left = open.state("after an eviction");
            assert!(left.iter().all(|(key, value)| all.get(key) == Some(value)), "whole keys");
            open.keyspace().excess() == 0
        });
    }
}

#[test]
fn a_panic_in_growth_does_not_end_it() {
    let fill = |open: &Open, keys: std::ops::Range<usize>| {
        keys.for_each(|n| open.run(&format!("SET string{n} {}", "s".repeat(50_000))));
    };
    let grows = |keys: &usize| {
        let open = Open::new(&[], NOW);
        fill(&open, 0..*keys);
        open.keyspace().heap().grow_ahead()
    };
    let keys = (1..40).find(grows).expect("a pool that is to grow");
    let mut panics = 0;
    for place in 0.. {
        let open = Open::new(&[], NOW);
        fill(&open, 0..keys);
        let before = open.state("before growth");
        let size = open.keyspace().heap().size();
        panic_after(Some(place));
        let done = catch_unwind(AssertUnwindSafe(|| open.keyspace().heap().grow_ahead()));
        panic_after(None);
        if let Ok(has_grown) = done {
            assert!(has_grown, "nothing to be tried");
            break;
        }
        panics += 1;
        let place = format!("place {place} of a growth");
        let left = open.bytes.get().clone();
        assert!(Open::new(&left, NOW).state(&place) == before, "{place}");
        // It no longer takes writes, or the next one grows it.
        let open = match open.keyspace().heap().is_poisoned() {
            true => Open::new(&left, NOW),
            false => open,
        };
        open.keyspace().heap().grow_ahead();
        fill(&open, keys..keys + 20);
        assert!(open.keyspace().heap().size() > size, "{place}");
        let after = open.state(&place);
        assert_eq!(after.len(), keys + 20, "{place}");
        let left = open.bytes.get().clone();
        assert!(Open::new(&left, NOW).state(&place) == after, "lost by a restart: {place}");
    }
    assert!(panics > 3, "{panics} places in a growth");
}
