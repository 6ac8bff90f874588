//! Calls that fail while a pool is made.

use crate::overlap::crashes::guarded;
use crate::overlap::pool;
use sim::{Counted, Named, SimulatedClock, SimulatedFiles};

const RING: u64 = 64 << 10;
const ENOSPC: i32 = 28;
const EIO: i32 = 5;
/// What a journal says for which there is no space.
const NO_SPACE: &str = "no space for the pool's journal";

/// Returns what a start of a new pool says of a call that fails, and the length of the journal that
/// is left; none if the call is not made.
fn refused(calls: u64, errno: i32) -> Option<(String, u64)> {
    let files = SimulatedFiles::default();
    let region = pool::map(&files, RING, &SimulatedClock::default());
    files.fail_with(calls, Counted::Changing, errno);
    let told = guarded(|| pool::open(&region)).err();
    let len = files.storage(Named::Journal).size().expect("no call that fails");
    told.map(|told| (told, len))
}

#[test]
fn a_journal_that_gets_no_space_says_so_and_keeps_none_and_other_failures_say_what_they_are() {
    const EDQUOT: i32 = 122;
    const EFBIG: i32 = 27;
    let said = |errno| {
        let all: Vec<_> = (0..).map_while(|calls| refused(calls, errno)).collect();
        let no_space: Vec<u64> =
            all.iter().filter(|(told, _)| told.contains(NO_SPACE)).map(|(_, len)| *len).collect();
        (all.len(), no_space)
    };
    let (calls, none) = said(EIO);
    assert_eq!(none, []);
    for errno in [ENOSPC, EDQUOT, EFBIG] {
        // The space, and the zeros that are written to it.
        assert_eq!(said(errno), (calls, vec![0; 2]), "{errno}");
    }
}
