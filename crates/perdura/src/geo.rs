//! Geospatial items: sorted sets whose members have positions.
//!
//! A position is stored as the score of its member, to about half a metre, in Redis's format.
//! Members are removed with [`crate::SortedSets::sorted_set_remove`] and counted with
//! [`crate::SortedSets::sorted_set_len`]. Degrees are decimal, lengths are in metres.

use keyspace::Entry;
use keyspace::geo::{self, Area, Point, Shape, Wanted, point_of, score_of};

use crate::operations::{Execute, Open, Writable};
use crate::sorted_sets::LIMITS;
use crate::{Error, Perdura, Scored, Transaction};

/// A member that was found.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use perdura::prelude::*;
/// use perdura::{GeoPoint, GeoSearch, GeoShape, Options, Perdura};
///
/// let store = Perdura::open(Options::volatile())?;
/// store.geo_add("stations", "north", GeoPoint { longitude: 9.0, latitude: 48.1 })?;
/// let search = GeoSearch::around(
///     GeoPoint { longitude: 9.0, latitude: 48.0 },
///     GeoShape::Circle { radius: 20_000.0 },
/// );
/// let [nearby] = &store.geo_search("stations", &search)?[..] else { panic!("one station") };
/// assert_eq!(nearby.member, b"north");
/// assert!((nearby.distance - 11_120.0).abs() < 10.0);
/// assert!((nearby.position.latitude - 48.1).abs() < 1e-5);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Nearby {
    /// The member.
    pub member: Vec<u8>,
    /// Its position.
    pub position: Point,
    /// The distance to the centre of the search in metres, along a great circle.
    pub distance: f64,
}

/// A search: members in a shape around a centre, all of them and the nearest first unless set
/// otherwise.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use perdura::prelude::*;
/// use perdura::{GeoPoint, GeoSearch, GeoShape, Options, Perdura};
///
/// let store = Perdura::open(Options::volatile())?;
/// for (member, latitude) in [("here", 48.0), ("near", 48.1), ("far", 49.0)] {
///     store.geo_add("stations", member, GeoPoint { longitude: 9.0, latitude })?;
/// }
/// let shape = GeoShape::Box { width: 50_000.0, height: 50_000.0 };
/// let search = GeoSearch::around_member("here", shape).farthest_first().count(1);
/// assert_eq!(store.geo_search("stations", &search)?[0].member, b"near");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct GeoSearch {
    centre: Centre,
    shape: Shape,
    wanted: Wanted,
}

#[derive(Clone, Debug)]
enum Centre {
    Point(Point),
    Member(Vec<u8>),
}

impl GeoSearch {
    /// Searches around a position.
    pub fn around(centre: Point, shape: Shape) -> GeoSearch {
        GeoSearch::new(Centre::Point(centre), shape)
    }

    /// Searches around a member, which is found too.
    pub fn around_member(member: impl AsRef<[u8]>, shape: Shape) -> GeoSearch {
        GeoSearch::new(Centre::Member(member.as_ref().to_vec()), shape)
    }

    fn new(centre: Centre, shape: Shape) -> GeoSearch {
        GeoSearch { centre, shape, wanted: Wanted { descending: Some(false), ..Wanted::default() } }
    }

    /// Lists the farthest first.
    #[must_use]
    pub fn farthest_first(mut self) -> GeoSearch {
        self.wanted.descending = Some(true);
        self
    }

    /// Limits the search to the first `most` in its order.
    #[must_use]
    pub fn count(mut self, most: usize) -> GeoSearch {
        (self.wanted.count, self.wanted.any) = (Some(most), false);
        self
    }

    /// Limits the search to `most` members, whichever are found first.
    #[must_use]
    pub fn any(mut self, most: usize) -> GeoSearch {
        (self.wanted.count, self.wanted.any) = (Some(most), true);
        self
    }
}

fn check_point(point: Point) -> Result<Point, Error> {
    if point.is_valid() { Ok(point) } else { Err(Error::NoSuchPlace) }
}

fn check_shape(shape: Shape) -> Result<Shape, Error> {
    let lengths = match shape {
        Shape::Circle { radius } => [radius, radius],
        Shape::Box { width, height } => [width, height],
    };
    let is_valid = lengths.iter().all(|length| length.is_finite() && *length >= 0.0);
    if is_valid { Ok(shape) } else { Err(Error::NoSuchPlace) }
}

impl Open<'_> {
    fn found(
        &self,
        entry: Option<Entry>,
        search: &GeoSearch,
    ) -> Result<Vec<geo::FoundItem>, Error> {
        let shape = check_shape(search.shape)?;
        let GeoSearch { centre, wanted, .. } = search;
        if let Centre::Point(point) = centre {
            check_point(*point)?;
        }
        let Some(entry) = entry else { return Ok(Vec::new()) };
        let sorted_set = self.txn.sorted_set(&entry)?;
        let centre = match centre {
            Centre::Point(point) => *point,
            Centre::Member(member) => {
                point_of(sorted_set.score(member)?.ok_or(Error::NoSuchMember)?)
            }
        };
        Ok(geo::search(&sorted_set, &Area { centre, shape }, *wanted)?)
    }
}

/// Operations on geospatial items: sorted sets whose members have positions.
pub trait Geo: Execute {
    /// Gives a member a position. Returns true if the member is new.
    ///
    /// # Errors
    /// [`Error::NoSuchPlace`] for a position without a score: nearer to a pole than 85.05112878
    /// degrees of latitude, or not a position on the earth.
    fn geo_add(
        &self,
        key: impl AsRef<[u8]>,
        member: impl AsRef<[u8]>,
        place: Point,
    ) -> Result<bool, Error>
    where
        Self: Writable,
    {
        let score = score_of(check_point(place)?) as f64;
        self.on(&[key.as_ref()], |tx| Ok(tx.score_by(key.as_ref(), member.as_ref(), |_| score)?.1))
    }

    /// Returns the position of a member, as precisely as its score has stored it; `None` if it has
    /// none.
    fn geo_position(
        &self,
        key: impl AsRef<[u8]>,
        member: impl AsRef<[u8]>,
    ) -> Result<Option<Point>, Error> {
        self.on(&[key.as_ref()], |tx| Ok(tx.score(&key, &member)?.map(point_of)))
    }

    /// Returns the distance between two members in metres, along a great circle; `None` if one of
    /// them has no position.
    fn geo_distance(
        &self,
        key: impl AsRef<[u8]>,
        member: impl AsRef<[u8]>,
        other: impl AsRef<[u8]>,
    ) -> Result<Option<f64>, Error> {
        self.on(&[key.as_ref()], |tx| {
            let scores = tx.score(&key, &member)?.zip(tx.score(&key, &other)?);
            Ok(scores.map(|(one, other)| point_of(one).distance(point_of(other))))
        })
    }

    /// Returns the members that a search finds; none if there is no key. A search that may find
    /// many can be limited by [`GeoSearch::count`], or stored by [`Geo::geo_search_store`] and read
    /// by [`crate::SortedSets::sorted_set_iter`].
    ///
    /// # Errors
    /// [`Error::NoSuchPlace`] if the centre is not valid for [`Geo::geo_add`], or a length is
    /// negative or not finite; [`Error::NoSuchMember`] if the centre is a member that does not
    /// exist.
    fn geo_search(&self, key: impl AsRef<[u8]>, search: &GeoSearch) -> Result<Vec<Nearby>, Error> {
        self.on(&[key.as_ref()], |tx| {
            let key = tx.key(&key)?;
            let entry = tx.txn.find(tx.db, &key);
            let found = tx.found(entry, search)?.into_iter().map(|found| Nearby {
                member: found.member,
                position: point_of(found.score),
                distance: found.distance,
            });
            Ok(found.collect())
        })
    }

    /// Stores the members that a search finds at `source`, with their positions, in `target`; if
    /// there are none, `target` is deleted. Returns how many there are.
    ///
    /// # Errors
    /// As [`Geo::geo_search`].
    fn geo_search_store(
        &self,
        target: impl AsRef<[u8]>,
        source: impl AsRef<[u8]>,
        search: &GeoSearch,
    ) -> Result<u64, Error>
    where
        Self: Writable,
    {
        self.whole(&[target.as_ref(), source.as_ref()], |tx| {
            let (target, source) = (tx.key(&target)?, tx.key(&source)?);
            let entry = tx.txn.find_mut(tx.db, &source)?;
            let found = tx.found(entry, search)?.into_iter();
            let members: Vec<Scored> = found.map(|found| (found.member, found.score)).collect();
            let scored = members.iter().map(|(name, score)| (&name[..], *score));
            tx.txn.sorted_sets().replace(tx.db, &target, scored, LIMITS)?;
            Ok(members.len() as u64)
        })
    }
}

impl Geo for Perdura {}
impl Geo for Transaction<'_> {}
