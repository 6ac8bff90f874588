//! An offset from a damaged pool reads as zero, is not written, and is counted.

#![allow(unsafe_code, reason = "stores into a region are unsafe")]

use pmem::Region;

const LEN: u64 = 4096;

fn region() -> Region {
    let region = Region::anonymous(1 << 20).unwrap();
    region.grow(LEN).unwrap();
    region
}

/// Runs `access` on a fresh region of [`LEN`] bytes and checks how many faults it caused.
fn check(expect: u64, access: impl Fn(&Region)) {
    let region = region();
    access(&region);
    assert_eq!(region.faults(), expect);
}

#[test]
fn loads() {
    check(0, |r| assert_eq!(r.load(LEN - 8), 0));
    for off in [LEN, LEN - 7, 1, 4, u64::MAX, u64::MAX - 7, 1 << 48] {
        check(1, |r| assert_eq!(r.load(off), 0));
    }
}

#[test]
fn a_line_is_its_eight_words() {
    let region = region();
    for n in 0..8 {
        // SAFETY: nobody else uses the region.
        unsafe { region.store(LEN - 64 + 8 * n, n) };
    }
    assert_eq!(region.line(LEN - 64), [0, 1, 2, 3, 4, 5, 6, 7]);
    check(0, |r| assert_eq!(r.line(LEN - 64), [0; 8]));
    for off in [LEN, LEN - 56, LEN - 8, 8, u64::MAX, u64::MAX - 63, 1 << 48] {
        check(1, |r| assert_eq!(r.line(off), [0; 8]));
    }
}

#[test]
fn bytes_are_filled_in_place_inside() {
    let check = |expect, off, len| {
        check(expect, |r| {
            // SAFETY: nobody else uses the region.
            let filled = unsafe { r.write_with(off, len, |bytes| bytes.fill(7)) };
            assert_eq!(filled.map(<[u8]>::to_vec), (expect == 0).then(|| vec![7; len]));
        });
    };
    check(0, LEN - 3, 3);
    check(1, LEN - 2, 3);
    check(1, u64::MAX - 600, 700);
}

#[test]
fn slices() {
    let check = |expect, off, len: usize, found: usize| {
        // SAFETY: nobody writes to the region.
        check(expect, |r| assert_eq!(found, unsafe { r.bytes(off, len) }.len()));
    };
    check(0, 0, LEN as usize, LEN as usize);
    check(0, LEN, 0, 0);
    check(1, LEN, 1, 0);
    check(1, 1, LEN as usize, 0);
    check(1, u64::MAX, 1, 0);
    check(1, u64::MAX, usize::MAX, 0);
}

#[test]
fn words_are_stored_inside_and_aligned() {
    // SAFETY: nobody else uses the region.
    let check = |expect, off| check(expect, |r| unsafe { r.store(off, 1) });
    check(0, LEN - 8);
    check(1, LEN);
    check(1, LEN - 4);
    check(1, u64::MAX - 7);
}

#[test]
fn bytes_are_copied_inside() {
    let check = |expect, off, bytes: &[u8]| {
        // SAFETY: nobody else uses the region.
        check(expect, |r| unsafe { r.write(off, bytes) });
        // SAFETY: as above.
        check(expect, |r| unsafe { r.write_streaming(off, bytes) });
    };
    check(0, LEN - 3, b"abc");
    check(1, LEN - 2, b"abc");
    check(1, u64::MAX - 600, &[1; 600]);
    check(1, u64::MAX - 600, &[1; 700]);
}

#[test]
fn a_prefetch_of_anything_is_harmless() {
    check(0, |r| [0, LEN, u64::MAX].into_iter().for_each(|off| r.prefetch(off)));
}
