//! Recovers the content of a damaged pool's header.
//!
//! Most of the two copies is the same, and each has a checksum. So a lost magic, one flipped bit,
//! or lines lost at different places in the two copies can be corrected with certainty. Otherwise
//! the sizes are searched for with which the span table and the checksummed headers of spans agree.

use super::note::{SalvageError, SalvageNote};
use super::shapes;
use crate::checksum::crc32c;
use crate::layout::header::{BYTES, Header, HeaderError, MAGIC, VERSION};
use crate::layout::size_class::WHOLE;
use crate::layout::span::split_span_word;
use crate::layout::{Geometry, HEADER_A, HEADER_B, LINE, SPAN};
use pmem::Region;

/// The number of spans that are compared for one guess.
const ENOUGH: u64 = 4096;

pub(super) struct FoundHeader {
    pub(super) geometry: Geometry,
    pub(super) seed: Option<[u8; 16]>,
    /// `None` if only the sizes are known.
    pub(super) header: Option<Header>,
}

impl From<Header> for FoundHeader {
    fn from(header: Header) -> FoundHeader {
        FoundHeader { geometry: header.geometry, seed: Some(header.seed), header: Some(header) }
    }
}

pub(super) fn find(
    region: &Region,
    notes: &mut Vec<SalvageNote>,
) -> Result<FoundHeader, SalvageError> {
    let error = match Header::read(region) {
        Ok(header) => return Ok(header.into()),
        Err(error) => error,
    };
    let copies = [Header::raw(region, HEADER_A), Header::raw(region, HEADER_B)];
    if let Some(foreign) = copies.iter().find_map(foreign) {
        return Err(SalvageError::Foreign(foreign.into()));
    }
    if let Some(header) = repaired(&copies) {
        notes.push(SalvageNote::HeaderRepaired);
        return Ok(header.into());
    }
    match guessed(region, &copies) {
        Some(geometry) => {
            notes.push(SalvageNote::HeaderGuessed);
            Ok(FoundHeader { geometry, seed: seed(&copies), header: None })
        }
        None => Err(SalvageError::NoPool(error.into())),
    }
}

/// Returns the reason why this program cannot use an intact copy.
fn foreign(copy: &[u8; BYTES]) -> Option<HeaderError> {
    let crc = u32::from_le_bytes([12, 13, 14, 15].map(|at| copy[at]));
    let is_whole = copy[..8] == MAGIC && crc == crc32c(&copy[16..]);
    Header::decode(copy).err().filter(|_| is_whole)
}

/// Returns the header that both copies together yield, if its checksum confirms it.
fn repaired(copies: &[[u8; BYTES]; 2]) -> Option<Header> {
    let lines = |mask: usize| {
        let mut mixed = copies[0];
        for at in (0..BYTES).filter(|at| mask & 1 << (at / LINE as usize) != 0) {
            mixed[at] = copies[1][at];
        }
        mixed[..8].copy_from_slice(&MAGIC);
        mixed[8..12].copy_from_slice(&VERSION.to_le_bytes());
        mixed
    };
    let whole = 1 << (BYTES / LINE as usize);
    // The unchanged copies come first and last: one of them may lack only its magic.
    let mixed: Vec<[u8; BYTES]> = (0..whole).map(lines).collect();
    let flipped = [mixed[0], mixed[whole - 1]].into_iter().flat_map(|copy| {
        (12 * 8..BYTES * 8).map(move |bit| {
            let mut copy = copy;
            copy[bit / 8] ^= 1 << (bit % 8);
            copy
        })
    });
    let all = mixed.iter().copied().chain(flipped);
    all.filter_map(|copy| Header::decode(&copy).ok()).max_by_key(|header| header.generation)
}

/// Returns the sizes for which most spans agree with the span table.
fn guessed(region: &Region, copies: &[[u8; BYTES]; 2]) -> Option<Geometry> {
    let number = |copy: &[u8; BYTES], at: usize| {
        u32::from_le_bytes([0, 1, 2, 3].map(|i| copy[at + i])) as usize
    };
    let usual = Geometry::default();
    let said = |at: usize| copies.iter().map(move |copy| number(copy, at));
    let rings: Vec<(usize, usize)> = copies
        .iter()
        .flat_map(|copy| {
            [(number(copy, 60), usual.ring_part), (usual.ring_parts, number(copy, 112))]
        })
        .chain(copies.iter().map(|copy| (number(copy, 60), number(copy, 112))))
        .chain([(usual.ring_parts, usual.ring_part)])
        .collect();
    let mut best = None;
    for shards in said(56).chain((0..=6).map(|bit| 1 << bit)) {
        for &(ring_parts, ring_part) in &rings {
            let blank = Geometry { shards, ring_parts, ring_part, zone_spans: usual.zone_spans };
            if !blank.is_valid() {
                continue;
            }
            let spans = region.len().saturating_sub(blank.zones_at()) / SPAN;
            let fitting = spans.min(usual.zone_spans as u64) as usize;
            for zone_spans in said(116).chain([fitting]).chain((3..=14).map(|bit| 1 << bit)) {
                let geometry = Geometry { zone_spans, ..blank };
                let score = if geometry.is_valid() { score(region, &geometry) } else { 0 };
                if score > best.map_or(0, |(most, _)| most) {
                    best = Some((score, geometry));
                }
            }
        }
    }
    best.map(|(_, geometry)| geometry)
}

/// Returns the number of spans that agree with the span table minus those that do not.
fn score(region: &Region, geometry: &Geometry) -> i64 {
    let spans = region.len().saturating_sub(geometry.zones_at()) / SPAN;
    let mut score = 0;
    for span in (0..spans.min(ENOUGH) as u32).filter(|&span| !geometry.is_table(span)) {
        let word = region.load(geometry.span_word(span));
        let said = split_span_word(word, geometry.shards).map(|(class, _)| class);
        let own = shapes::own_class(region, geometry.span_at(span));
        score += match (said, own) {
            (Some(WHOLE), _) => 0,
            (Some(class), Some(own)) if class == own => 1,
            (None, None) if word == 0 => 0,
            (None, Some(_)) if word == 0 => 0,
            _ => -1,
        };
    }
    score
}

/// Returns the key of the hash, if a copy has one.
fn seed(copies: &[[u8; BYTES]; 2]) -> Option<[u8; 16]> {
    let seeds = copies.iter().filter_map(|copy| copy[120..136].try_into().ok());
    seeds.into_iter().find(|seed| *seed != [0; 16])
}
