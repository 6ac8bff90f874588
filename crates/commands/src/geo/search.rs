//! GEOSEARCH, GEOSEARCHSTORE.

use engine::call::{Call, Run};
use engine::failure::{Done, Failure, SYNTAX};
use engine::spec::*;
use keyspace::geo::{Area, Point, Polygon, Shape};
use keyspace::{Entry, Txn};

use super::point::{point, unit};
use super::radius::{circle, length, point_of_member};
use super::select::{SearchOptions, Where, answer};

const POLYGON: Arg = block(
    "polygon",
    &[
        integer("num-vertices").token("BYPOLYGON"),
        block("vertices", &[double("longitude"), double("latitude")]).multiple(),
    ],
)
.since("9.0.0");

pub(crate) const GEOSEARCH: CommandSpec = CommandSpec {
    name: "geosearch",
    summary: "Query a sorted set representing a geospatial index to fetch members inside an area of a box or a circle.",
    complexity: "O(N+log(M)) where N is the number of elements in the grid-aligned bounding box area around the shape provided as the filter and M is the number of items inside the shape",
    since: "6.2.0",
    group: Group::Geo,
    arity: -7,
    flags: READONLY,
    acl: ACL_GEO,
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    history: &[("7.0.0", "Added support for uppercase unit names.")],
    args: &[
        key("key", 0),
        oneof(
            "from",
            &[
                string("member").token("FROMMEMBER"),
                block("longitude_latitude", &[double("longitude"), double("latitude")])
                    .token("FROMLONLAT"),
            ],
        ),
        oneof(
            "by",
            &[
                block(
                    "circle",
                    &[
                        double("radius").token("BYRADIUS"),
                        oneof(
                            "unit",
                            &[
                                token("m", "M"),
                                token("km", "KM"),
                                token("ft", "FT"),
                                token("mi", "MI"),
                            ],
                        ),
                    ],
                ),
                block(
                    "box",
                    &[
                        double("width").token("BYBOX"),
                        double("height"),
                        oneof(
                            "unit",
                            &[
                                token("m", "M"),
                                token("km", "KM"),
                                token("ft", "FT"),
                                token("mi", "MI"),
                            ],
                        ),
                    ],
                ),
                POLYGON,
            ],
        ),
        oneof("order", &[token("asc", "ASC"), token("desc", "DESC")]).optional(),
        block("count", &[integer("count").token("COUNT"), token("any", "ANY").optional()])
            .optional(),
        token("withcoord", "WITHCOORD").optional(),
        token("withdist", "WITHDIST").optional(),
        token("withhash", "WITHHASH").optional(),
    ],
    run: Run::Keys(geosearch),
    ..CommandSpec::EMPTY
};

fn geosearch(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let source = txn.find(call.db(), &call.key(0));
    search(call, txn, source, 2, SearchOptions::default())
}

pub(crate) const GEOSEARCHSTORE: CommandSpec = CommandSpec {
    name: "geosearchstore",
    summary: "Query a sorted set representing a geospatial index to fetch members inside an area of a box or a circle, and store the result in another key.",
    complexity: "O(N+log(M)) where N is the number of elements in the grid-aligned bounding box area around the shape provided as the filter and M is the number of items inside the shape",
    since: "6.2.0",
    group: Group::Geo,
    arity: -8,
    flags: WRITE | DENYOOM,
    acl: ACL_GEO,
    keys: &[KeySpec::one(1, KEY_OW | KEY_UPDATE), KeySpec::one(2, KEY_RO | KEY_ACCESS)],
    history: &[("7.0.0", "Added support for uppercase unit names.")],
    args: &[
        key("destination", 0),
        key("source", 1),
        oneof(
            "from",
            &[
                string("member").token("FROMMEMBER"),
                block("longitude_latitude", &[double("longitude"), double("latitude")])
                    .token("FROMLONLAT"),
            ],
        ),
        oneof(
            "by",
            &[
                block(
                    "circle",
                    &[
                        double("radius").token("BYRADIUS"),
                        oneof(
                            "unit",
                            &[
                                token("m", "M"),
                                token("km", "KM"),
                                token("ft", "FT"),
                                token("mi", "MI"),
                            ],
                        ),
                    ],
                ),
                block(
                    "box",
                    &[
                        double("width").token("BYBOX"),
                        double("height"),
                        oneof(
                            "unit",
                            &[
                                token("m", "M"),
                                token("km", "KM"),
                                token("ft", "FT"),
                                token("mi", "MI"),
                            ],
                        ),
                    ],
                ),
                POLYGON,
            ],
        ),
        oneof("order", &[token("asc", "ASC"), token("desc", "DESC")]).optional(),
        block("count", &[integer("count").token("COUNT"), token("any", "ANY").optional()])
            .optional(),
        token("storedist", "STOREDIST").optional(),
    ],
    run: Run::Keys(geosearchstore),
    ..CommandSpec::EMPTY
};

fn geosearchstore(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let source = txn.find_mut_to_read(call.db(), &call.key(1))?;
    search(call, txn, source, 3, SearchOptions { target: Some(0), ..SearchOptions::default() })
}

/// The centre of a search: `Nowhere` if it is a member of a source that does not exist.
enum Centre {
    At(Point),
    Nowhere,
}

/// The area that a request describes.
#[derive(Default)]
struct Place {
    polygon: Option<Polygon>,
    centre: Option<Centre>,
    by_member: bool,
    shape: Option<(Shape, f64)>,
}

fn search(
    call: &mut Call<'_>,
    txn: &mut Txn<'_>,
    source: Option<Entry>,
    first: usize,
    mut options: SearchOptions,
) -> Done {
    if let Some(entry) = &source {
        txn.sorted_set(entry)?;
    }
    let (mut place, mut at) = (Place::default(), first);
    while at < call.args.len() {
        let taken = match options.read(call, at)? {
            0 => place.read(call, txn, source.as_ref(), at)?,
            taken => taken,
        };
        at += match taken {
            0 if options.target.is_some() && call.is(at, "STOREDIST") => {
                options.store_distance = true;
                1
            }
            0 => return Err(SYNTAX.into()),
            taken => taken,
        };
    }
    options.check_store("GEOSEARCHSTORE")?;
    let name = String::from_utf8_lossy(call.args[0]).into_owned();
    let missing = |what: &str| {
        Failure::text(format!("ERR exactly one of {what} can be specified for {name}"))
    };
    if let Some(polygon) = place.polygon {
        options.check_any()?;
        return answer(call, txn, source, Some(Where::Within(polygon)), &options);
    }
    let centre = place.centre.ok_or_else(|| missing("FROMMEMBER or FROMLONLAT"))?;
    let (shape, unit) = place.shape.ok_or_else(|| missing("BYRADIUS and BYBOX"))?;
    options.check_any()?;
    let area = match centre {
        Centre::At(centre) => Some(Where::Around(Area { centre, shape }, unit)),
        Centre::Nowhere => None,
    };
    answer(call, txn, source, area, &options)
}

impl Place {
    /// Reads a part of the area, and returns the number of words that it took; 0 if it is another
    /// option.
    fn read(
        &mut self,
        call: &Call<'_>,
        txn: &Txn<'_>,
        source: Option<&Entry>,
        at: usize,
    ) -> Result<usize, Failure> {
        let remaining = call.args.len() - at - 1;
        let is_any = self.centre.is_some() || self.shape.is_some();
        if self.polygon.is_some() {
            return Ok(0);
        }
        if call.is(at, "BYPOLYGON") && remaining >= 1 && !is_any {
            let (polygon, taken) = polygon(call, at + 1)?;
            self.polygon = Some(polygon);
            return Ok(1 + taken);
        }
        let from_point = self.centre.is_some() && !self.by_member;
        let is_box = matches!(self.shape, Some((Shape::Box { .. }, _)));
        let is_circle = matches!(self.shape, Some((Shape::Circle { .. }, _)));
        match () {
            () if call.is(at, "FROMMEMBER") && remaining >= 1 && !from_point => {
                self.by_member = true;
                self.centre = Some(match source {
                    Some(entry) => Centre::At(point_of_member(txn, entry, call.args[at + 1])?),
                    None => Centre::Nowhere,
                });
                Ok(2)
            }
            () if call.is(at, "FROMLONLAT") && remaining >= 2 && !self.by_member => {
                self.centre = Some(Centre::At(point(call, at + 1)?));
                Ok(3)
            }
            () if call.is(at, "BYRADIUS") && remaining >= 2 && !is_box => {
                self.shape = Some(circle(call, at + 1)?);
                Ok(3)
            }
            () if call.is(at, "BYBOX") && remaining >= 3 && !is_circle => {
                self.shape = Some(rectangle(call, at + 1)?);
                Ok(4)
            }
            () => Ok(0),
        }
    }
}

/// Parses a polygon: the number of its vertices, and a point for each. Returns the number of words
/// that it took, too.
fn polygon(call: &Call<'_>, at: usize) -> Result<(Polygon, usize), Failure> {
    const FEW: &str = "ERR GEOSEARCH BYPOLYGON must have at least 3 vertices";
    let count = call.int(at).map_err(|_| "ERR invalid number of vertices")?;
    let possible = (call.args.len() - at - 1) / 2;
    let count = usize::try_from(count).ok().filter(|count| *count <= possible).ok_or(FEW)?;
    let vertices = (0..count).map(|n| point(call, at + 1 + 2 * n));
    let polygon = Polygon::new(vertices.collect::<Result<_, _>>()?).ok_or(FEW)?;
    Ok((polygon, 1 + 2 * count))
}

/// Parses a width, a height and their unit, in metres.
fn rectangle(call: &Call<'_>, at: usize) -> Result<(Shape, f64), Failure> {
    let width = length(call, at, "ERR need numeric width")?;
    let height = length(call, at + 1, "ERR need numeric height")?;
    if width < 0.0 || height < 0.0 {
        return Err("ERR height or width cannot be negative".into());
    }
    let unit = unit(call.arg(at + 2)?)?;
    Ok((Shape::Box { width: width * unit, height: height * unit }, unit))
}
