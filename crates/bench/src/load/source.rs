//! One connection's requests.

use rand::RngExt;
use rand::rngs::SmallRng;

use super::keys::{Keys, Range};
use super::mix::Mix;
use super::outcome::Kind;
use super::template::{Piece, Template, write_head, write_parts, write_word};
use super::values::Values;

/// How many keys, and in how many steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Many {
    /// One key, or as the command says.
    One,
    /// Up to this many keys, each chosen for itself.
    UpTo(u64),
    /// Up to this many keys of consecutive numbers.
    Run(u64),
    /// One key, and when its value is there, a SET of the same key.
    Twice,
}

/// A request that is sent again and again.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) class: usize,
    pub(crate) keys: Keys,
    template: Template,
    many: Many,
}

impl Request {
    pub(crate) fn new(
        name: &str,
        kind: Kind,
        template: Template,
        keys: Keys,
        many: Many,
    ) -> Request {
        Request { name: name.into(), kind, class: 0, keys, template, many }
    }
}

impl Keys {
    /// Chooses from another range: that part of the keys which belongs to one connection.
    pub(crate) fn move_to(&mut self, part: Range) {
        match self {
            Keys::Random(range) => *range = part,
            Keys::Sequence { range, next } => (*range, *next) = (part, part.low),
            // The others do not go with a division of the keys: the options are refused.
            _ => {}
        }
    }
}

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    /// The class that it counts for.
    pub(crate) class: usize,
    /// How many keys it asks for.
    pub(crate) keys: u64,
    /// The key that is to be written when its value has come.
    pub(crate) then_write: Option<u64>,
}

/// One connection's requests.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) requests: Vec<Request>,
    pub(crate) mix: Mix,
    pub(crate) values: Values,
    pub(crate) random: SmallRng,
    pub(crate) prefix: Vec<u8>,
}

impl Source {
    /// Appends the next request.
    pub(crate) fn write(&mut self, out: &mut Vec<u8>) -> Sent {
        let (at, left) = self.mix.next(&mut self.random);
        let many = self.requests[at].many;
        let keys = match many {
            Many::One | Many::Twice => 1,
            Many::UpTo(most) => left.min(most),
            Many::Run(most) => self.random.random_range(1..=most),
        };
        if let Many::UpTo(_) = many {
            self.mix.skip(keys - 1);
        }
        let Source { requests, values, random, prefix, .. } = self;
        let Request { template, keys: choice, class, .. } = &mut requests[at];
        let several = match many {
            Many::UpTo(_) | Many::Run(_) => keys as usize,
            Many::One | Many::Twice => 0,
        };
        write_head(out, b'*', template.words + several);
        let mut last = 0;
        for piece in &template.pieces {
            match piece {
                Piece::Fixed(bytes) => out.extend_from_slice(bytes),
                Piece::Key { before, after } => {
                    last = choice.next(random);
                    let mut number = itoa::Buffer::new();
                    write_parts(out, [before, prefix, number.format(last).as_bytes(), after]);
                }
                Piece::Data => write_word(out, values.next(last, random)),
                Piece::Number(low, high) => {
                    let number = random.random_range(*low..=*high);
                    write_word(out, itoa::Buffer::new().format(number).as_bytes());
                }
                Piece::Keys => {
                    for at in 0..keys {
                        last = match many {
                            Many::Run(_) if at > 0 => last + 1,
                            _ => choice.next(random),
                        };
                        let mut number = itoa::Buffer::new();
                        write_parts(out, [b"", prefix, number.format(last).as_bytes(), b""]);
                    }
                }
            }
        }
        let then_write = (many == Many::Twice).then_some(last);
        Sent { class: *class, keys, then_write }
    }

    /// Appends the second half of reading and writing a key.
    pub(crate) fn write_back(&mut self, key: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(b"*3\r\n$3\r\nSET\r\n");
        let mut number = itoa::Buffer::new();
        write_parts(out, [b"", &self.prefix, number.format(key).as_bytes(), b""]);
        write_word(out, self.values.next(key, &mut self.random));
    }
}
