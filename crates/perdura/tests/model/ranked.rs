//! Sorted sets, and geospatial items in them.

use std::collections::BTreeMap;
use std::ops::Bound;

use perdura::{Error, GeoPoint, GeoSearch, GeoShape, Operations};

use super::collections::many;
use super::draw::{Draw, is_in, take_all};
use super::state::{Bytes, Checked, Db, Value, in_order, same, up_to};
use super::strings::call;

/// Sets with this kind of name have members of a single score, to be found by name.
const ONE_SCORE: u8 = b'2';

fn a_member(draw: &mut Draw, held: &Result<BTreeMap<Bytes, f64>, Error>) -> Bytes {
    match held {
        Ok(members) if !members.is_empty() && draw.below(4) > 0 => {
            members.keys().nth(draw.below(members.len())).expect("a member").clone()
        }
        _ => draw.element(),
    }
}

fn add<S: Operations>(on: &S, db: &mut Db, draw: &mut Draw, key: &[u8]) -> Checked {
    let has_one_score = key.last() == Some(&ONE_SCORE);
    for _ in 0..many(draw) {
        let (member, mut score) = (draw.element(), draw.score());
        if has_one_score {
            score = 1.5;
        } else if draw.one_in(20) {
            score = f64::NAN;
        }
        let text = call(draw, "sorted_set_add", key, &format!("{member:?}, {score}"));
        let mut want = db.sorted(key).map(|set| set.is_none_or(|set| !set.contains_key(&member)));
        if want.is_ok() && score.is_nan() {
            want = Err(Error::NotANumber);
        }
        if want.is_ok() {
            db.sorted_mut(key).expect("a sorted set").insert(member.clone(), score);
        }
        same(&text, on.sorted_set_add(key, &member, score), want)?;
    }
    Ok(())
}

fn increment<S: Operations>(on: &S, db: &mut Db, draw: &mut Draw, key: &[u8]) -> Checked {
    if key.last() == Some(&ONE_SCORE) {
        return Ok(());
    }
    let held = db.sorted(key).map(|set| set.cloned().unwrap_or_default());
    let (member, by) = (a_member(draw, &held), draw.score());
    let text = call(draw, "sorted_set_increment", key, &format!("{member:?}, {by}"));
    let want = held.and_then(|set| {
        let new = set.get(&member).copied().unwrap_or(0.0) + by;
        if new.is_nan() { Err(Error::NotANumber) } else { Ok(new) }
    });
    if let Ok(new) = want {
        db.sorted_mut(key).expect("a sorted set").insert(member.clone(), new);
    }
    same(&text, on.sorted_set_increment(key, &member, by), want)
}

fn remove<S: Operations>(on: &S, db: &mut Db, draw: &mut Draw, key: &[u8]) -> Checked {
    let is_pop = draw.rng.bool();
    for _ in 0..many(draw) {
        let held = db.sorted(key).map(|set| set.cloned().unwrap_or_default());
        if is_pop {
            let text = call(draw, "sorted_set_pop", key, "");
            let first = held.map(|set| in_order(&set).into_iter().next());
            if let Ok(Some((member, _))) = &first {
                db.sorted_mut(key).expect("a sorted set").remove(member);
            }
            same(&text, on.sorted_set_pop(key), first)?;
        } else {
            let member = a_member(draw, &held);
            let text = call(draw, "sorted_set_remove", key, &format!("{member:?}"));
            let want = held.map(|set| set.contains_key(&member));
            if want == Ok(true) {
                db.sorted_mut(key).expect("a sorted set").remove(&member);
            }
            same(&text, on.sorted_set_remove(key, &member), want)?;
        }
        db.pruned(key);
    }
    Ok(())
}

/// Runs iterators over all members, by rank, by score, by name.
fn iterate<S: Operations>(on: &S, db: &Db, draw: &mut Draw, key: &[u8]) -> Checked {
    let held = db.sorted(key).map(|set| set.map(in_order).unwrap_or_default());
    let len = held.as_ref().map_or(0, Vec::len) as u64;
    // With several scores, the names of the lowest one count.
    let has_one_score =
        held.as_ref().is_ok_and(|all| all.windows(2).all(|pair| pair[0].1 == pair[1].1));
    let way = draw.below(if has_one_score { 5 } else { 3 });

    let (text, taken, want) = match way {
        0 => {
            let text = call(draw, "sorted_set_iter", key, &format!("of {len}"));
            (text, take_all(draw, on.sorted_set_iter(key)), held)
        }
        1 => {
            let mut rank = |draw: &mut Draw| draw.rng.u64(..len + 2);
            let mut ranks = (draw.bound(&mut rank), draw.bound(&mut rank));
            if draw.one_in(8) {
                ranks.1 = Bound::Included(u64::MAX);
            }
            let text = call(draw, "sorted_set_by_rank", key, &format!("{ranks:?} of {len}"));
            let within = held.map(|all| {
                let within = (0..).zip(all).filter(|(rank, _)| is_in(rank, &ranks));
                within.map(|(_, item)| item).collect()
            });
            (text, take_all(draw, on.sorted_set_by_rank(key, ranks)), within)
        }
        2 => {
            let scores = (draw.bound(Draw::score), draw.bound(Draw::score));
            let text = call(draw, "sorted_set_by_score", key, &format!("{scores:?}"));
            let within = held
                .map(|all| all.into_iter().filter(|(_, score)| is_in(score, &scores)).collect());
            (text, take_all(draw, on.sorted_set_by_score(key, scores)), within)
        }
        _ => {
            let names = (draw.bound(Draw::element), draw.bound(Draw::element));
            let text = call(draw, "sorted_set_by_name", key, &format!("{names:?}"));
            let within = held.map(|all| {
                all.into_iter().filter(|(name, _)| is_in::<Bytes, _>(name, &names)).collect()
            });
            (text, take_all(draw, on.sorted_set_by_name(key, names)), within)
        }
    };
    match (taken, want) {
        (Ok(taken), Ok(want)) => taken.check(&text, &want),
        (taken, want) => same(&text, taken.map(drop), want.map(drop)),
    }
}

fn read<S: Operations>(on: &S, db: &Db, draw: &mut Draw, key: &[u8]) -> Checked {
    let held = db.sorted(key).map(|set| set.cloned().unwrap_or_default());
    let all = held.clone().map(|set| in_order(&set));
    let len = held.as_ref().map_or(0, BTreeMap::len);
    let member = a_member(draw, &held);
    match draw.below(5) {
        0 => {
            let text = call(draw, "sorted_set_score", key, &format!("{member:?}"));
            same(
                &text,
                on.sorted_set_score(key, &member),
                held.map(|set| set.get(&member).copied()),
            )
        }
        1 => {
            let text = call(draw, "sorted_set_rank", key, &format!("{member:?}"));
            let rank =
                all.map(|all| all.iter().position(|(own, _)| *own == member).map(|at| at as u64));
            same(&text, on.sorted_set_rank(key, &member), rank)
        }
        2 => {
            let text = call(draw, "sorted_set_len", key, "");
            same(&text, on.sorted_set_len(key), Ok(len as u64).and_then(|len| held.map(|_| len)))
        }
        3 => {
            let (mut min, mut max) = (draw.score(), draw.score());
            let scores: Vec<f64> = all.iter().flatten().map(|(_, score)| *score).take(4).collect();
            if !scores.is_empty() && draw.rng.bool() {
                // Scores of members, often the same twice.
                min = draw.of(&scores);
                max = if draw.rng.bool() { min } else { draw.of(&scores) };
            }
            let text = call(draw, "sorted_set_ranks", key, &format!("{min}, {max}"));
            let below = |all: &[(Bytes, f64)], than: f64| {
                all.iter().filter(|(_, score)| *score < than).count() as u64
            };
            // A missing key has nothing below any score.
            let want = all.map(|all| below(&all, min)..below(&all, max).max(below(&all, min)));
            same(&text, on.sorted_set_ranks(key, min, max), want)
        }
        _ => {
            let (rank, count) = (draw.below(len + 2), draw.of(&[0, 1, 3, len, 1000]));
            let text = call(draw, "sorted_set_members", key, &format!("{rank}, {count} of {len}"));
            let want = all.map(|all| all.into_iter().skip(rank).take(count).collect::<Vec<_>>());
            let want = up_to(count, want);
            same(&text, on.sorted_set_members(key, rank as u64, count), want)
        }
    }
}

/// Runs one of the operations on sorted sets.
pub(crate) fn step<S: Operations>(on: &S, db: &mut Db, draw: &mut Draw) -> Checked {
    let key = draw.key(b'z');
    if let Some(Value::Places(_) | Value::Rows(_) | Value::Names(_)) =
        db.keys.get(&key).map(|h| &h.value)
    {
        return Ok(());
    }
    match draw.below(12) {
        0..4 => add(on, db, draw, &key),
        4 => increment(on, db, draw, &key),
        5 => remove(on, db, draw, &key),
        6..9 => iterate(on, db, draw, &key),
        _ => read(on, db, draw, &key),
    }
}

const RADIUS: f64 = 6_372_797.560_856;
/// The error of a position, in metres: positions are stored in 52 bits.
const OFF: f64 = 1.0;

fn distance(a: (f64, f64), b: (f64, f64)) -> f64 {
    let (lat_a, lat_b) = (a.1.to_radians(), b.1.to_radians());
    let u = ((lat_b - lat_a) / 2.0).sin();
    let v = ((b.0 - a.0).to_radians() / 2.0).sin();
    2.0 * RADIUS * (u * u + lat_a.cos() * lat_b.cos() * v * v).sqrt().min(1.0).asin()
}

fn point((longitude, latitude): (f64, f64)) -> GeoPoint {
    GeoPoint { longitude, latitude }
}

/// Returns how far a position is inside a shape, in metres; negative if outside.
fn inside(shape: GeoShape, centre: (f64, f64), place: (f64, f64)) -> f64 {
    match shape {
        GeoShape::Circle { radius } => radius - distance(centre, place),
        GeoShape::Box { width, height } => {
            let east = distance((centre.0, place.1), place);
            let north = distance(centre, (centre.0, place.1));
            (width / 2.0 - east).min(height / 2.0 - north)
        }
    }
}

fn a_place(draw: &mut Draw) -> (f64, f64) {
    match draw.below(12) {
        0 => draw.of(&[(-180.0, -85.0), (180.0, 85.0), (0.0, 0.0), (179.9, 0.1), (-179.9, 0.1)]),
        1 => (10.0, 86.0),
        2 => (181.0, 10.0),
        _ => (9.0 + draw.rng.f64() * 0.4, 48.0 + draw.rng.f64() * 0.4),
    }
}

fn is_valid(place: (f64, f64)) -> bool {
    place.0.abs() <= 180.0 && place.1.abs() <= 85.051_128_78
}

fn places(db: &Db, key: &[u8]) -> Result<BTreeMap<Bytes, (f64, f64)>, Error> {
    db.places(key).map(|places| places.cloned().unwrap_or_default())
}

struct Search {
    search: GeoSearch,
    shape: GeoShape,
    centre: Result<(f64, f64), Bytes>,
    is_descending: bool,
    count: Option<usize>,
    is_any: bool,
}

fn a_search(draw: &mut Draw) -> Search {
    let lengths = [0.0, 500.0, 5_000.0, 20_000.0, 60_000.0, -1.0, f64::INFINITY];
    let (one, other) = (draw.of(&lengths), draw.of(&lengths));
    let shape = match draw.rng.bool() {
        true => GeoShape::Circle { radius: one },
        false => GeoShape::Box { width: one, height: other },
    };
    let centre = if draw.rng.bool() { Ok(a_place(draw)) } else { Err(draw.element()) };
    let mut search = match &centre {
        Ok(place) => GeoSearch::around(point(*place), shape),
        Err(member) => GeoSearch::around_member(member, shape),
    };
    let (is_descending, mut count, is_any) = (draw.one_in(3), None, draw.one_in(3));
    if is_descending {
        search = search.farthest_first();
    }
    if draw.one_in(3) {
        count = Some(1 + draw.below(5));
    }
    if let Some(most) = count {
        search = if is_any { search.any(most) } else { search.count(most) };
    }
    Search { search, shape, centre, is_descending, count, is_any }
}

impl Search {
    /// Returns the centre of the search, or why it fails.
    fn centre(&self, of: &BTreeMap<Bytes, (f64, f64)>) -> Result<Option<(f64, f64)>, Error> {
        let lengths = match self.shape {
            GeoShape::Circle { radius } => [radius, radius],
            GeoShape::Box { width, height } => [width, height],
        };
        if lengths.iter().any(|length| !length.is_finite() || *length < 0.0) {
            return Err(Error::NoSuchPlace);
        }
        match &self.centre {
            Ok(place) if !is_valid(*place) => Err(Error::NoSuchPlace),
            _ if of.is_empty() => Ok(None),
            Ok(place) => Ok(Some(*place)),
            Err(member) => of.get(member).map(|place| Some(*place)).ok_or(Error::NoSuchMember),
        }
    }

    /// Compares the results: members, in order or not, with their distances if known.
    fn check(
        &self,
        text: &str,
        of: &BTreeMap<Bytes, (f64, f64)>,
        centre: (f64, f64),
        found: &[(Bytes, Option<f64>)],
    ) -> Checked {
        let is_wrong = |what: String| Err(format!("{text} found {what}"));
        for (member, far) in found {
            let Some(place) = of.get(member) else {
                return is_wrong(format!("{member:?}, which is not there"));
            };
            if inside(self.shape, centre, *place) < -3.0 * OFF {
                return is_wrong(format!("{member:?}, which is outside"));
            }
            let expected = distance(centre, *place);
            if far.is_some_and(|far| (far - expected).abs() > 3.0 * OFF) {
                return is_wrong(format!("{member:?} at {far:?} m, and not {expected} m"));
            }
        }
        let certain =
            of.iter().filter(|(_, place)| inside(self.shape, centre, **place) > 3.0 * OFF);
        let mut certain: Vec<f64> = certain.map(|(_, place)| distance(centre, *place)).collect();
        let limit = self.count.unwrap_or(usize::MAX);
        if found.len() > limit || found.len() < certain.len().min(limit) {
            return is_wrong(format!("{} of {} members", found.len(), certain.len()));
        }
        certain.sort_by(f64::total_cmp);
        if self.is_descending {
            certain.reverse();
        }
        let sign = if self.is_descending { -1.0 } else { 1.0 };
        let distances: Vec<f64> = found.iter().filter_map(|(_, far)| *far).collect();
        if distances.windows(2).any(|pair| sign * pair[0] > sign * pair[1]) {
            return is_wrong(format!("them in another order: {distances:?}"));
        }
        // The nearest, or farthest, of all.
        let wrong =
            distances.iter().zip(&certain).find(|(far, best)| sign * (**far - **best) > 6.0 * OFF);
        match wrong {
            Some(wrong) if !(self.is_any && self.count.is_some()) => {
                is_wrong(format!("others first: {wrong:?}"))
            }
            _ => Ok(()),
        }
    }
}

fn search<S: Operations>(on: &S, db: &mut Db, draw: &mut Draw, key: &[u8]) -> Checked {
    let (held, search) = (places(db, key), a_search(draw));
    let store_to = draw.one_in(3).then(|| draw.key(b'g'));
    let text = format!("{:?}, {store_to:?}", search.search);
    let text = call(draw, "geo_search", key, &text);
    // An invalid shape or position is refused before the key is looked at.
    let centre = match (held.clone(), search.centre(&held.clone().unwrap_or_default())) {
        (_, Err(Error::NoSuchPlace)) => Err(Error::NoSuchPlace),
        (Err(error), _) => Err(error),
        (_, centre) => centre,
    };
    let held = held.unwrap_or_default();
    let Some(target) = store_to else {
        let found = on.geo_search(key, &search.search);
        let (found, centre) = match (found, centre) {
            (Ok(found), Ok(Some(centre))) => (found, centre),
            (found, centre) => return same(&text, found.map(|all| all.len()), centre.map(|_| 0)),
        };
        for near in &found {
            let off = distance(
                (near.position.longitude, near.position.latitude),
                held.get(&near.member).copied().unwrap_or_default(),
            );
            if off > OFF {
                return Err(format!("{text} found {:?} {off} m from where it is", near.member));
            }
        }
        let found: Vec<_> =
            found.into_iter().map(|near| (near.member, Some(near.distance))).collect();
        return search.check(&text, &held, centre, &found);
    };
    let stored = on.geo_search_store(&target, key, &search.search);
    let (stored, centre) = match (stored, centre) {
        (Ok(stored), Ok(centre)) => (stored, centre),
        (stored, centre) => return same(&text, stored, centre.map(|_| 0)),
    };
    let members: Vec<Bytes> =
        match on.sorted_set_iter(&target).map(|item| item.map(|item| item.0)).collect() {
            Ok(members) => members,
            Err(error) => return same(&text, Err(error), Ok(stored)),
        };
    same(&text, members.len() as u64, stored)?;
    if let Some(centre) = centre {
        let found: Vec<_> = members.iter().map(|member| (member.clone(), None)).collect();
        search.check(&text, &held, centre, &found)?;
    }
    let of = members.iter().map(|member| (member.clone(), held[member])).collect();
    db.put(&target, Value::Places(of), None);
    db.pruned(&target);
    Ok(())
}

/// Runs one of the operations on geospatial items.
pub(crate) fn geo<S: Operations>(on: &S, db: &mut Db, draw: &mut Draw) -> Checked {
    let key = draw.key(b'g');
    if let Some(Value::Sorted(_) | Value::Rows(_) | Value::Names(_)) =
        db.keys.get(&key).map(|h| &h.value)
    {
        return Ok(());
    }
    let held = places(db, &key);
    let (member, other) = (draw.element(), draw.element());
    match draw.below(8) {
        0..4 => (0..many(draw)).try_for_each(|_| {
            let (member, place) = (draw.element(), a_place(draw));
            let text = call(draw, "geo_add", &key, &format!("{member:?}, {place:?}"));
            let held = places(db, &key);
            let want = if is_valid(place) { held } else { Err(Error::NoSuchPlace) };
            let want = want.map(|of| !of.contains_key(&member));
            if want.is_ok() {
                db.places_mut(&key).expect("places").insert(member.clone(), place);
            }
            same(&text, on.geo_add(&key, &member, point(place)), want)
        }),
        4 => {
            let text = call(draw, "geo_position", &key, &format!("{member:?}"));
            match (on.geo_position(&key, &member), held.map(|of| of.get(&member).copied())) {
                (Ok(Some(got)), Ok(Some(want)))
                    if distance((got.longitude, got.latitude), want) < OFF =>
                {
                    Ok(())
                }
                (got, want) => {
                    same(&text, got.map(|got| got.map(|got| (got.longitude, got.latitude))), want)
                }
            }
        }
        5 => {
            let text = call(draw, "geo_distance", &key, &format!("{member:?}, {other:?}"));
            let want = held.map(|of| Some(distance(*of.get(&member)?, *of.get(&other)?)));
            match (on.geo_distance(&key, &member, &other), want) {
                (Ok(Some(got)), Ok(Some(want))) if (got - want).abs() < 3.0 * OFF => Ok(()),
                (got, want) => same(&text, got, want),
            }
        }
        _ => search(on, db, draw, &key),
    }
}
