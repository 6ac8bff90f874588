//! What a ring says of frames that count, of those that do not, and of bytes that make no sense.

use std::sync::{Arc, Mutex};

use super::*;
use crate::padding::padding;

/// Bytes that the test sees.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Shared {
    fn new(size: u64) -> Shared {
        Shared(Arc::new(Mutex::new(vec![0xa5; size as usize])))
    }

    fn bytes(&self) -> Vec<u8> {
        self.0.lock().expect("no panic").clone()
    }
}

impl Medium for Shared {
    fn write(&mut self, at: u64, bytes: &[u8]) {
        let mut all = self.0.lock().expect("no panic");
        all[at as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    fn write_back(&mut self, at: u64, len: usize) {
        let all = self.0.lock().expect("no panic");
        assert!(at as usize + len <= all.len());
    }

    fn fence(&mut self) {}
}

fn none() -> std::iter::Empty<Written> {
    std::iter::empty()
}

fn id() -> Id {
    Id::from_random([7; 20])
}

fn begin(medium: &Shared, size: u64, begun: u64, kept: &[u8]) -> Ring {
    let beginning = Beginning { id: id(), begun, kept, boot: [3; 16], key: 99 };
    Ring::begin(Box::new(medium.clone()), size, &beginning)
}

fn place(begun: u64, shards: &[u64]) -> Place<'_> {
    let end = shards.iter().copied().max().unwrap_or(0).max(begun);
    Place { id: id(), begun, end, shards }
}

fn publish(ring: &mut Ring, count: u64) {
    for _ in 0..count {
        ring.append(None, &[crate::PING], none());
    }
}

/// Returns what is recovered, as text.
fn text(medium: &Shared, place: &Place<'_>) -> Option<(u64, String)> {
    let Recovered { end, bytes, .. } = recover(&medium.bytes(), place, u64::MAX)?;
    Some((end, String::from_utf8(bytes).expect("a text")))
}

fn pad(len: usize) -> String {
    String::from_utf8(padding(len).expect("padding")).expect("a text")
}

const FIRST: &[u8] = b"first, twenty-two byte";
const SECOND: &[u8] = b"second, longer than the first";

#[test]
fn frames_count_by_the_word_of_their_home() {
    let medium = Shared::new(LEAST_SIZE);
    let mut ring = begin(&medium, LEAST_SIZE, 100, b"");
    assert_eq!(text(&medium, &place(100, &[0, 0])), Some((100, String::new())));
    let first = ring.append(Some(0), &[FIRST], none());
    ring.append(Some(1), &[b"sec", &SECOND[3..]], [first].into_iter());
    let (one, two) = (100 + FIRST.len() as u64, ring.end());
    let both = format!("{}{}", "first, twenty-two byte", "second, longer than the first");
    assert_eq!(text(&medium, &place(100, &[one, two])), Some((two, both)));
    let of_first = Some((one, "first, twenty-two byte".to_owned()));
    assert_eq!(text(&medium, &place(100, &[one, 0])), of_first);
    let padded = format!("{}second, longer than the first", pad(FIRST.len()));
    assert_eq!(text(&medium, &place(100, &[0, two])), Some((two, padded)));
    assert_eq!(text(&medium, &place(100, &[one, two + 1])), None, "it does not reach up to there");
    assert_eq!(text(&medium, &place(99, &[one, two])), None, "another beginning");
    let shards = [one, two];
    let other = Place { id: Id::NONE, ..place(100, &shards) };
    assert_eq!(text(&medium, &other), None, "another history");
}

#[test]
fn a_void_frame_is_padding_whatever_its_home_says() {
    let medium = Shared::new(LEAST_SIZE);
    let mut ring = begin(&medium, LEAST_SIZE, 0, b"");
    let first = ring.append(Some(0), &[FIRST], none());
    ring.void(first);
    ring.append(Some(0), &[SECOND], none());
    let end = ring.end();
    let padded = format!("{}second, longer than the first", pad(FIRST.len()));
    assert_eq!(text(&medium, &place(0, &[end])), Some((end, padded)));
}

#[test]
fn what_has_no_home_counts_unless_it_follows_what_does_not_count() {
    let medium = Shared::new(LEAST_SIZE);
    let mut ring = begin(&medium, LEAST_SIZE, 0, b"");
    let ping = "*1\r\n$4\r\nPING\r\n";
    ring.append(None, &[crate::PING], none());
    let first = ring.append(Some(0), &[FIRST], none());
    ring.append(None, &[crate::PING], none());
    let (before, both) = (14, 28 + FIRST.len() as u64);
    assert_eq!(text(&medium, &place(0, &[0])), Some((before, ping.to_owned())));
    let whole = format!("{ping}first, twenty-two byte{ping}");
    assert_eq!(text(&medium, &place(0, &[both - 14])), Some((both, whole)));
    ring.append(Some(1), &[SECOND], [first].into_iter());
    let end = ring.end();
    ring.append(None, &[crate::PING], none());
    let padded = format!("{ping}{}{ping}second, longer than the first", pad(FIRST.len()));
    assert_eq!(text(&medium, &place(0, &[0, end])), Some((end, padded)));
}

#[test]
fn a_primary_that_only_publishes_goes_on_from_there() {
    let medium = Shared::new(LEAST_SIZE);
    let mut ring = begin(&medium, LEAST_SIZE, 0, b"");
    ring.append(Some(0), &[FIRST], none());
    ring.note_committed(ring.end());
    let end = ring.end();
    publish(&mut ring, LEAST_SIZE / 16);
    let found = recover(&medium.bytes(), &place(0, &[end]), u64::MAX).expect("a stream");
    assert_eq!(found.end, ring.end());
    assert!(found.bytes.len() as u64 > LEAST_SIZE / 8);
}

#[test]
fn a_ring_is_not_believed_beside_older_data_that_it_does_not_reach() {
    for last in [1, LEAST_SIZE / 16] {
        let medium = Shared::new(LEAST_SIZE);
        let mut ring = begin(&medium, LEAST_SIZE, 0, b"");
        ring.append(Some(0), &[FIRST], none());
        let end = ring.end();
        publish(&mut ring, LEAST_SIZE / 16);
        ring.append(Some(0), &[SECOND], none());
        ring.note_committed(ring.end());
        let present = ring.end();
        publish(&mut ring, last);
        assert_eq!(text(&medium, &place(0, &[end])), None);
        assert!(text(&medium, &place(0, &[present])).is_some());
    }
}

#[test]
fn a_frame_that_was_overwritten_is_made_void_nowhere() {
    let medium = Shared::new(LEAST_SIZE);
    let mut ring = begin(&medium, LEAST_SIZE, 0, b"");
    let first = ring.append(Some(0), &[FIRST], none());
    publish(&mut ring, LEAST_SIZE / 16);
    let before = medium.bytes();
    ring.void(first);
    assert!(medium.bytes() == before);
}

#[test]
fn a_ring_takes_whole_pages() {
    for size in [0, LEAST_SIZE, LEAST_SIZE + 1, 1_000_000, 16_000_000, MOST_SIZE] {
        let all = size_of(size);
        assert!(all.is_multiple_of(4096) && (size..=MOST_SIZE).contains(&all), "{size}: {all}");
    }
}

#[test]
fn the_oldest_frames_are_overwritten() {
    for size in [LEAST_SIZE, LEAST_SIZE + 4096 + 130] {
        let medium = Shared::new(size);
        let mut ring = begin(&medium, size, 1000, b"kept before");
        let (mut all, mut random) = (b"kept before".to_vec(), fastrand::Rng::with_seed(size));
        for number in 0..3000 {
            let len = random.usize(20..400);
            let bytes: Vec<u8> = (0..len).map(|n| (n + number) as u8).collect();
            ring.append(Some(0), &[&bytes], none());
            all.extend_from_slice(&bytes);
            if number % 100 == 0 {
                let end = ring.end();
                let found =
                    recover(&medium.bytes(), &place(1000, &[end]), u64::MAX).expect("a stream");
                assert_eq!(found.end, end);
                assert!(all.ends_with(&found.bytes));
                let least = all.len().min(size as usize * 7 / 10);
                assert!(found.bytes.len() >= least, "{} of {}", found.bytes.len(), all.len());
            }
        }
    }
}

#[test]
fn bytes_that_are_too_many_leave_a_gap_before_which_nothing_is_kept() {
    let medium = Shared::new(LEAST_SIZE);
    let mut ring = begin(&medium, LEAST_SIZE, 0, b"");
    let large = vec![1; LEAST_SIZE as usize];
    ring.append(Some(0), &[FIRST], none());
    ring.append(Some(0), &[&large], none());
    assert_eq!(text(&medium, &place(0, &[ring.end()])), Some((ring.end(), String::new())));
    ring.append(Some(0), &[SECOND], none());
    let expected = Some((ring.end(), "second, longer than the first".to_owned()));
    assert_eq!(text(&medium, &place(0, &[ring.end()])), expected);
    ring.append(None, &[&large], none());
    assert_eq!(text(&medium, &place(0, &[ring.end()])), Some((ring.end(), String::new())));
}

#[test]
fn a_ring_that_begins_with_older_bytes_has_them() {
    let medium = Shared::new(LEAST_SIZE);
    let kept: Vec<u8> = (0..20_000).map(|n| n as u8).collect();
    let mut ring = begin(&medium, LEAST_SIZE, 50_000, &kept);
    let found = recover(&medium.bytes(), &place(50_000, &[0]), u64::MAX).expect("a stream");
    assert_eq!(found, Recovered { end: 50_000, until: 50_000, bytes: kept.clone() });
    ring.append(Some(0), &[FIRST], none());
    let found = recover(&medium.bytes(), &place(50_000, &[50_022]), u64::MAX).expect("a stream");
    assert_eq!((found.end, found.bytes), (50_022, [&kept[..], FIRST].concat()));
    assert_eq!(find(&medium.bytes()), Some(Found { id: id(), begun: 50_000, boot: [3; 16] }));
}

#[test]
fn of_two_rings_of_one_place_the_one_that_goes_further_is_believed() {
    let (old, new) = (Shared::new(LEAST_SIZE), Shared::new(LEAST_SIZE));
    begin(&old, LEAST_SIZE, 100, b"kept before");
    let mut ring = begin(&new, LEAST_SIZE, 100, b"");
    let furthest = |rings: [&Shared; 2]| {
        let rings = rings.map(Shared::bytes);
        let found = recover_furthest(rings.iter().map(|ring| &ring[..]), &place(100, &[0]), 1000);
        found.map(|(number, Recovered { end, bytes, .. })| (number, end, bytes.len()))
    };
    assert_eq!(furthest([&old, &new]), Some((0, 100, 11)), "both go as far, and it has more");
    assert_eq!(furthest([&new, &old]), Some((1, 100, 11)));
    ring.append(None, &[crate::PING], none());
    assert_eq!(furthest([&old, &new]), Some((1, 114, 14)));
    assert_eq!(furthest([&new, &old]), Some((0, 114, 14)));
    let none = Shared::new(LEAST_SIZE);
    assert_eq!(furthest([&none, &new]), Some((1, 114, 14)));
    assert_eq!(furthest([&none, &none]), None);
}

#[test]
fn whatever_the_bytes_are_they_are_read_within_bounds() {
    let medium = Shared::new(LEAST_SIZE);
    let mut ring = begin(&medium, LEAST_SIZE, 0, b"");
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..1500 {
        let bytes = vec![7; random.usize(20..120)];
        ring.append(Some(random.u16(..4)), &[&bytes], none());
    }
    let whole = medium.bytes();
    let shards = [ring.end(), 0, ring.end() / 2, 5];
    for _ in 0..3000 {
        let mut bytes = whole.clone();
        for _ in 0..random.usize(1..6) {
            let most = if random.bool() { 400 } else { bytes.len() };
            let at = random.usize(..most);
            let old = std::mem::replace(&mut bytes[at], random.u8(..));
            if random.bool() {
                bytes[at] = old ^ 1;
            }
        }
        if random.u8(..4) == 0 {
            bytes.truncate(random.usize(..bytes.len()));
        }
        if let Some(found) = recover(&bytes, &place(0, &shards), u64::MAX) {
            assert!(found.bytes.len() <= bytes.len() && found.end >= ring.end());
        }
    }
    // Everything is sealed, but makes no sense.
    for _ in 0..300 {
        let mut bytes = whole.clone();
        let number = |random: &mut fastrand::Rng| random.u64(..) >> random.u32(..64);
        for sector in 0..MARKS {
            let mark = Mark {
                offset: number(&mut random),
                committed: number(&mut random) >> random.u32(..64),
                at: number(&mut random) as u32,
            };
            bytes[layout::mark_at(sector) as usize..][..24].copy_from_slice(&mark.encode(99));
            let frame = Frame {
                end: number(&mut random),
                len: number(&mut random) as u32,
                home: Some(random.u16(..)),
                is_void: random.bool(),
                is_bare: random.bool(),
                body: 0,
            };
            let at = (DATA + u64::from(mark.at)) as usize % (bytes.len() - 24);
            bytes[at..][..24].copy_from_slice(&frame.encode(99));
        }
        let _ = recover(&bytes, &place(0, &shards), u64::MAX);
        let _ = recover(&bytes, &place(0, &[0]), u64::MAX);
    }
}
