//! Which values there are: one for each type, dimension and size, where the sizes lie at and across
//! every constant of the code that stores, dumps, loads and logs.
//!
//! The constants come from the crates themselves, so that a number that is changed there moves the
//! values here. All shapes are dealt to a few sets of data by a seed: each is in one of them.

use fastrand::Rng;

/// What a value is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    String,
    List,
    Ints,
    Words,
    Hash,
    /// A hash whose fields have times, which Redis knows from 7.4 on.
    Timed,
    SortedSet,
    Stream,
}

/// What of a value has the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dimension {
    /// Elements, members, fields or entries.
    Count,
    /// Bytes of one of them; of a string all bytes.
    Length,
    /// Bytes of the value of one field, or of one field of an entry.
    Value,
    /// Bytes of all of them.
    Total,
    /// The key's name.
    Name,
    /// Pending entries of one consumer.
    Pending,
    Consumers,
    Groups,
    /// Fields of one entry.
    Fields,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) what: What,
    pub(crate) dimension: Dimension,
    pub(crate) size: usize,
}

/// Where Redis changes from one encoding to the next, as its configuration has it by default.
const LIMITS: &[(What, usize)] = &[
    (What::Ints, 512),
    (What::Words, 512),
    (What::Hash, 512),
    (What::Timed, 512),
    (What::SortedSet, 128),
    (What::Stream, 100),
];
/// Lengths that Redis's formats write in another way from there on.
const LENGTHS: &[usize] = &[12, 20, 32, 44, 64, 4096, 1 << 14];
/// More of these is nothing that the code counts by.
const MOST_GROUPS: usize = 200;
const MOST_FIELDS: usize = 3100;

fn around(constant: usize) -> [usize; 5] {
    [constant - 1, constant, constant + 1, 2 * constant, 3 * constant + 1]
}

fn sizes<'c>(constants: impl IntoIterator<Item = &'c usize>) -> Vec<usize> {
    let mut all: Vec<usize> = constants.into_iter().flat_map(|c| around(*c)).collect();
    all.push(1);
    all.sort_unstable();
    all.dedup();
    all
}

/// Returns all shapes.
pub(crate) fn all() -> Vec<Shape> {
    use Dimension::*;
    let mut shapes = Vec::new();
    let mut add = |what, dimension, sizes: &[usize]| {
        shapes.extend(sizes.iter().map(|&size| Shape { what, dimension, size }));
    };
    let counts = sizes(keyspace::chunks::COUNTS.iter().chain(commands::chunks::COUNTS));
    let lengths = sizes(keyspace::chunks::BYTES.iter().chain(LENGTHS));
    let totals = sizes(commands::chunks::BYTES);
    let strings =
        sizes(keyspace::chunks::BYTES.iter().chain(LENGTHS).chain(commands::chunks::BYTES));
    add(What::String, Length, &[0]);
    add(What::String, Length, &strings);
    for &(what, limit) in LIMITS {
        add(what, Count, &around(limit)[..3]);
    }
    let collections = [
        What::List,
        What::Ints,
        What::Words,
        What::Hash,
        What::Timed,
        What::SortedSet,
        What::Stream,
    ];
    for what in collections {
        add(what, Count, &counts);
        if what != What::Ints {
            add(what, Length, &lengths);
            add(what, Total, &totals);
        }
    }
    for what in [What::Hash, What::Timed, What::Stream] {
        add(what, Value, &lengths);
    }
    add(What::String, Name, &[0]);
    add(What::String, Name, &lengths.iter().copied().filter(|n| *n <= 70_000).collect::<Vec<_>>());
    let few = |most| counts.iter().copied().filter(|n| *n <= most).collect::<Vec<_>>();
    add(What::Stream, Pending, &counts);
    add(What::Stream, Consumers, &few(MOST_FIELDS));
    add(What::Stream, Groups, &few(MOST_GROUPS));
    add(What::Stream, Fields, &few(MOST_FIELDS));
    shapes
}

/// Returns the shapes of one of `sets` sets of data, dealt by a seed.
pub(crate) fn dealt(seed: u64, set: usize, sets: usize) -> Vec<Shape> {
    let mut shapes = all();
    Rng::with_seed(seed).shuffle(&mut shapes);
    shapes.into_iter().skip(set).step_by(sets).collect()
}
