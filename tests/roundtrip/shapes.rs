//! The shapes of values: one for each type, dimension and size, with sizes around every constant of
//! the code that stores, dumps, loads and logs ([`crate::chunks`]).
//!
//! A seed distributes all shapes to rounds. Expensive ones are spread over more rounds than the
//! others, so that a round takes about as long whatever constants there are.

use fastrand::Rng;

use crate::chunks::{self, Of};

/// The kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    String,
    List,
    Ints,
    Words,
    Hash,
    /// A hash with field TTLs, which Redis knows from 7.4 on.
    Timed,
    SortedSet,
    Stream,
    /// A HyperLogLog.
    Sketch,
    /// A library of functions.
    Library,
}

/// The dimension of a value that has the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dimension {
    /// Elements, members, fields or entries.
    Count,
    /// Bytes of one element, or all bytes of a string.
    Length,
    /// Bytes of the value of one field, or of one field of an entry.
    Value,
    /// Bytes of all elements.
    Total,
    /// The key's name.
    Name,
    /// Pending entries of one consumer.
    Pending,
    Consumers,
    Groups,
    /// Fields of one entry.
    Fields,
    /// Keys of one database.
    Keys,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) what: What,
    pub(crate) dimension: Dimension,
    pub(crate) size: usize,
}

/// Sizes at which Redis changes the encoding by default.
const LIMITS: &[(What, usize)] = &[
    (What::Ints, 512),
    (What::Words, 512),
    (What::Hash, 512),
    (What::Timed, 512),
    (What::SortedSet, 128),
    (What::Stream, 100),
];
/// No constant of the code is larger than these.
const MOST_GROUPS: usize = 200;
const MOST_FIELDS: usize = 3100;
const MOST_LIBRARIES: usize = 100;
/// Longer names occur only with even longer values.
const LONGEST_NAME: usize = 70_000;

impl Shape {
    /// Returns the approximate cost of the value in bytes.
    fn cost(self) -> usize {
        match self.dimension {
            Dimension::Length | Dimension::Value | Dimension::Total | Dimension::Name => self.size,
            Dimension::Pending => self.size * 200,
            Dimension::Consumers | Dimension::Keys => self.size * 100,
            Dimension::Groups => self.size * 200,
            Dimension::Fields => self.size * 60,
            Dimension::Count => match self.what {
                What::Stream | What::Timed => self.size * 100,
                What::Library => self.size * 2000,
                _ => self.size * 30,
            },
        }
    }
}

/// Returns all shapes.
pub(crate) fn all() -> Vec<Shape> {
    use Dimension::*;
    let mut shapes = Vec::new();
    let mut add = |what, dimension, sizes: &[usize]| {
        shapes.extend(sizes.iter().map(|&size| Shape { what, dimension, size }));
    };
    let upto = |sizes: &[usize], most| -> Vec<usize> {
        sizes.iter().copied().filter(|n| *n <= most).collect()
    };
    let (counts, lengths) = (chunks::around(Of::Elements), chunks::around(Of::Bytes));
    let totals = chunks::around(Of::ValueBytes);
    for &(what, limit) in LIMITS {
        add(what, Count, &[limit - 1, limit, limit + 1]);
    }
    use What::*;
    for what in [List, Ints, Words, Hash, Timed, SortedSet, Stream] {
        add(what, Count, if what == Stream { &counts } else { &counts[1..] });
        if what != Ints {
            add(what, Length, &lengths);
            add(what, Total, &totals[1..]);
        }
    }
    for what in [Hash, Timed, Stream] {
        add(what, Value, &lengths);
    }
    add(String, Length, &lengths);
    add(String, Total, &totals);
    add(String, Name, &upto(&lengths, LONGEST_NAME));
    add(String, Keys, &chunks::around(Of::Keys)[1..]);
    add(Sketch, Count, &counts);
    add(Stream, Pending, &counts);
    add(Stream, Consumers, &upto(&counts, MOST_FIELDS));
    add(Stream, Groups, &upto(&counts, MOST_GROUPS));
    add(Stream, Fields, &upto(&counts[1..], MOST_FIELDS));
    add(Library, Count, &upto(&counts[1..], MOST_LIBRARIES));
    add(Library, Length, &lengths);
    shapes
}

/// Returns the shapes of one round: each cheap one is in one of `sets` rounds, expensive ones in
/// one of more.
pub(crate) fn dealt(seed: u64, sets: usize) -> Vec<Shape> {
    const COSTS: [(usize, usize); 5] =
        [(1 << 14, 1), (1 << 16, 3), (1 << 18, 12), (1 << 22, 60), (usize::MAX, 1000)];
    let (mut from, mut some) = (0, Vec::new());
    for (to, factor) in COSTS {
        let mut shapes = all();
        shapes.retain(|one| (from..to).contains(&one.cost()));
        let sets = sets * factor;
        Rng::with_seed(seed / sets as u64).shuffle(&mut shapes);
        some.extend(shapes.into_iter().skip(seed as usize % sets).step_by(sets));
        from = to;
    }
    some
}
