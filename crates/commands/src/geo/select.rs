//! The code that GEOSEARCH and GEORADIUS share: finding, ordering, showing and storing.

use engine::call::Call;
use engine::failure::{Done, Failure};
use engine::spec::LONG;
use keyspace::geo::{
    Area, FoundItem, Polygon, Wanted, count_candidates, point_of, search, search_polygon,
};
use keyspace::{Entry, SortedSetRef, Txn};

use super::distance::reply_distance;
use super::position::reply_point;
use crate::sorted_sets::Scored;
use crate::sorted_sets::store::store;

/// The units of work ([`LONG`]) that one candidate costs.
const CANDIDATE: u64 = 4;

/// The area that is searched.
pub(super) enum Where {
    /// The area around a centre, and the unit of distances in metres.
    Around(Area, f64),
    /// The area within a polygon; distances are in metres.
    Within(Polygon),
}

/// Options of a request in addition to the area.
#[derive(Clone, Copy, Default)]
pub(super) struct SearchOptions {
    pub(super) with_distance: bool,
    pub(super) with_hash: bool,
    pub(super) with_point: bool,
    pub(super) wanted: Wanted,
    /// Stores the distance as score.
    pub(super) store_distance: bool,
    /// The index of the key under which the result is stored.
    pub(super) target: Option<usize>,
}

impl SearchOptions {
    /// Reads an option that both families have. Returns the number of words that it took; 0 if it
    /// is none.
    pub(super) fn read(&mut self, call: &Call<'_>, at: usize) -> Result<usize, Failure> {
        match () {
            () if call.is(at, "WITHDIST") => self.with_distance = true,
            () if call.is(at, "WITHHASH") => self.with_hash = true,
            () if call.is(at, "WITHCOORD") => self.with_point = true,
            () if call.is(at, "ANY") => self.wanted.any = true,
            () if call.is(at, "ASC") => self.wanted.descending = Some(false),
            () if call.is(at, "DESC") => self.wanted.descending = Some(true),
            () if call.is(at, "COUNT") && at + 1 < call.args.len() => {
                let count = call.int(at + 1)?;
                let count = usize::try_from(count).ok().filter(|count| *count > 0);
                self.wanted.count = Some(count.ok_or("ERR COUNT must be > 0")?);
                return Ok(2);
            }
            () => return Ok(0),
        }
        Ok(1)
    }

    /// Refuses STORE together with options that only replies have; `what` names the storing
    /// command.
    pub(super) fn check_store(&self, what: &str) -> Done {
        if self.target.is_some() && (self.with_distance || self.with_hash || self.with_point) {
            let options = "WITHDIST, WITHHASH and WITHCOORD options";
            return Err(Failure::text(format!("ERR {what} is not compatible with {options}")));
        }
        Ok(())
    }

    pub(super) fn check_any(&self) -> Done {
        if self.wanted.any && self.wanted.count.is_none() {
            return Err("ERR the ANY argument requires COUNT argument".into());
        }
        Ok(())
    }
}

/// Answers a request; `unit` is the unit of distances, in metres. A missing source has no members.
pub(super) fn answer(
    call: &mut Call<'_>,
    txn: &mut Txn<'_>,
    source: Option<Entry>,
    place: Option<Where>,
    options: &SearchOptions,
) -> Done {
    let (mut found, mut unit) = (Vec::new(), 1.0);
    if let (Some(entry), Some(place)) = (source, place) {
        let members = txn.sorted_set(&entry)?;
        check_work(call, &members, &place)?;
        found = match &place {
            Where::Around(area, _) => search(&members, area, options.wanted)?,
            Where::Within(polygon) => search_polygon(&members, polygon, options.wanted)?,
        };
        if let Where::Around(_, metres) = place {
            unit = metres;
        }
    }
    found.iter_mut().for_each(|found| found.distance /= unit);
    match options.target {
        Some(target) => keep(call, txn, target, found, options.store_distance),
        None => {
            show(call, found, options);
            Ok(())
        }
    }
}

/// Moves the command to another thread if there are many candidates.
fn check_work(call: &Call<'_>, members: &SortedSetRef<'_>, place: &Where) -> Done {
    if members.len() * CANDIDATE <= LONG {
        return Ok(());
    }
    let candidates = match place {
        Where::Around(area, _) => count_candidates(members, area)?,
        Where::Within(polygon) => count_candidates(members, &polygon.surroundings())?,
    };
    call.check_work(candidates * CANDIDATE)
}

fn show(call: &mut Call<'_>, found: Vec<FoundItem>, options: &SearchOptions) {
    let SearchOptions { with_distance, with_hash, with_point, .. } = *options;
    let more = [with_distance, with_hash, with_point].into_iter().map(usize::from).sum::<usize>();
    call.out.array(found.len());
    for FoundItem { member, score, distance, .. } in found {
        if more > 0 {
            call.out.array(1 + more);
        }
        call.out.bulk(member);
        if with_distance {
            reply_distance(call, distance);
        }
        if with_hash {
            call.out.integer(score as i64);
        }
        if with_point {
            reply_point(call, point_of(score));
        }
    }
}

fn keep(
    call: &mut Call<'_>,
    txn: &mut Txn<'_>,
    target: usize,
    found: Vec<FoundItem>,
    distances: bool,
) -> Done {
    let members = found.into_iter().map(|found| {
        let score = if distances { found.distance } else { found.score };
        (found.member, score)
    });
    let (members, target): (Scored, _) = (members.collect(), call.key(target));
    store(call, txn, &target, members.iter().map(|(name, score)| (&name[..], *score)))?;
    call.out.integer(members.len() as i64);
    Ok(())
}
