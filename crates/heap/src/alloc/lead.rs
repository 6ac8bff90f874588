//! How much space a pool's file gets ahead of need, and at once.
//!
//! A new pool with a journal takes its space as it is used, and each reservation costs a sync. So a
//! small pool has little more than it uses, and a larger one seldom reserves.

use crate::layout::SPAN;
use pmem::{Domain, Region};

/// Spans of a huge page: the unit in which space is given back in the background, and reserved
/// again.
pub(super) const GROUP: u32 = (2 << 20) / SPAN as u32;
/// Maximum number of spans that have their space ahead of need in a pool with a journal, and that a
/// writer reserves at once: 16 MiB.
const LEAD: usize = 256;

/// Returns how many free spans should have their space ahead of need: those of half a zone. With a
/// journal a small pool takes less: as many as are in use.
pub(super) fn ahead(region: &Region, in_use: usize, zone_spans: usize) -> usize {
    let half = zone_spans / 2;
    match region.domain() {
        Domain::Journal => half.min(in_use.clamp(GROUP as usize / 2, LEAD)),
        _ => half,
    }
}

/// Returns how many spans of a hole get their space when a writer needs one: those of a huge page.
/// With a journal, where each time costs a sync, as many as are in use.
pub(super) fn refill_size(region: &Region, in_use: usize) -> u32 {
    match region.domain() {
        Domain::Journal => 1 << in_use.clamp(GROUP as usize, LEAD).ilog2(),
        _ => GROUP,
    }
}
