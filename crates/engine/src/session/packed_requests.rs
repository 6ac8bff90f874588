//! Requests that are kept for later: what a client sends between MULTI and EXEC.
//!
//! The bytes of their arguments follow each other in blocks that never move, so that a request
//! costs no allocation of its own. Blocks double from a small one on, since most transactions are
//! short; a request that is longer than the largest block has one to itself. A large request stays
//! in place, uncopied, if the connection has lent its input.

use std::sync::Arc;

use crate::session::kept_words::{KeptWords, LARGE};

/// Bytes of the first block, and of the largest that holds several requests.
const FIRST_BLOCK: usize = 1 << 10;
const LARGEST_BLOCK: usize = 64 << 10;

/// Requests in the order of their arrival.
#[derive(Default)]
pub struct PackedRequests {
    blocks: Vec<Vec<u8>>,
    requests: Vec<Packed>,
    /// The length of each argument of all requests.
    lengths: Vec<usize>,
    /// Requests that stay in place.
    in_place: Vec<KeptWords>,
    /// Bytes of memory that the blocks and these requests take.
    capacity: usize,
}

/// The place of a request, and how many arguments it has.
struct Packed {
    place: Place,
    arguments: usize,
}

enum Place {
    Block { number: usize, start: usize },
    InPlace(usize),
}

impl PackedRequests {
    /// Adds a request, whose words may be in bytes that the connection has lent.
    pub(crate) fn push(&mut self, args: &[&[u8]], lent: Option<&Arc<Vec<u8>>>) {
        let bytes = args.iter().map(|arg| arg.len()).sum();
        self.lengths.extend(args.iter().map(|arg| arg.len()));
        let large = lent.filter(|_| bytes > LARGE);
        if let Some(words) = large.and_then(|lent| KeptWords::in_place(args, lent)) {
            let place = Place::InPlace(self.in_place.len());
            self.requests.push(Packed { place, arguments: args.len() });
            self.capacity += words.memory();
            self.in_place.push(words);
            return;
        }
        let fits = self.blocks.last().is_some_and(|last| last.capacity() - last.len() >= bytes);
        if !fits {
            self.add_block(bytes);
        }
        let number = self.blocks.len() - 1;
        let last = &mut self.blocks[number];
        let place = Place::Block { number, start: last.len() };
        self.requests.push(Packed { place, arguments: args.len() });
        args.iter().for_each(|arg| last.extend_from_slice(arg));
    }

    #[cold]
    fn add_block(&mut self, least: usize) {
        let last = self.blocks.last().map_or(FIRST_BLOCK / 2, Vec::capacity);
        let block = Vec::with_capacity(least.max((2 * last).min(LARGEST_BLOCK)));
        self.capacity += block.capacity();
        self.blocks.push(block);
    }

    /// Returns how many requests there are.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Returns true if there is none.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Returns how many arguments all requests have together.
    pub fn words(&self) -> usize {
        self.lengths.len()
    }

    /// Returns the bytes of memory that they take.
    #[inline]
    pub(crate) fn memory(&self) -> usize {
        self.capacity
            + self.blocks.capacity() * size_of::<Vec<u8>>()
            + self.requests.capacity() * size_of::<Packed>()
            + self.lengths.capacity() * size_of::<usize>()
    }

    /// Returns the arguments of all requests, one request after the other.
    pub fn arguments(&self) -> Vec<&[u8]> {
        let mut arguments = Vec::with_capacity(self.lengths.len());
        let mut lengths = self.lengths.iter();
        for request in &self.requests {
            let lengths = lengths.by_ref().take(request.arguments);
            match request.place {
                Place::Block { number, start } => {
                    let mut rest = &self.blocks[number][start..];
                    for &length in lengths {
                        let (argument, others) = rest.split_at(length);
                        arguments.push(argument);
                        rest = others;
                    }
                }
                Place::InPlace(number) => {
                    let words = self.in_place[number].slices();
                    arguments.extend(words.zip(lengths).map(|(word, _)| word));
                }
            }
        }
        arguments
    }

    /// Returns how many arguments each request has.
    pub fn counts(&self) -> impl Iterator<Item = usize> {
        self.requests.iter().map(|request| request.arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packs the requests, and compares the result with them.
    fn check(requests: &[Vec<Vec<u8>>]) -> PackedRequests {
        let mut packed = PackedRequests::default();
        for request in requests {
            packed.push(&request.iter().map(Vec::as_slice).collect::<Vec<_>>(), None);
        }
        assert_eq!(packed.len(), requests.len());
        assert!(packed.counts().eq(requests.iter().map(Vec::len)));
        assert!(packed.arguments().into_iter().eq(requests.iter().flatten()));
        packed
    }

    #[test]
    fn requests_of_any_size_come_back_as_they_were() {
        let argument = |length: usize, byte: u8| vec![byte; length];
        check(&[]);
        check(&[vec![argument(0, 0)], vec![argument(0, 0), argument(0, 1)]]);
        for length in [1, FIRST_BLOCK - 1, FIRST_BLOCK, LARGEST_BLOCK, LARGEST_BLOCK + 1, 1 << 20] {
            let requests: Vec<_> = (0..50u8)
                .map(|n| vec![argument(3, n), argument(length, n), argument(usize::from(n), n)])
                .collect();
            check(&requests);
        }
    }

    #[test]
    fn a_large_request_stays_where_it_arrived() {
        let input = Arc::new([b"SET k ".as_slice(), &vec![b'v'; LARGE]].concat());
        let mut packed = PackedRequests::default();
        packed.push(&[b"INCR", b"a"], Some(&input));
        packed.push(&[&input[..3], &input[4..5], &input[6..]], Some(&input));
        packed.push(&[b"INCR", b"b"], Some(&input));
        assert!(packed.counts().eq([2, 3, 2]));
        let arguments = packed.arguments();
        assert_eq!(arguments[..4], [b"INCR", &b"a"[..], b"SET", b"k"]);
        assert_eq!(arguments[4].as_ptr(), input[6..].as_ptr(), "it was not copied");
        assert_eq!(arguments[5..], [b"INCR", &b"b"[..]]);
        assert!(packed.memory() >= LARGE);
    }

    #[test]
    fn memory_is_what_the_arguments_take_and_little_more() {
        let short = check(&vec![vec![b"PING".to_vec()]; 2]).memory();
        assert!(short < 2048, "{short} bytes");
        let request = vec![b"SET".to_vec(), vec![b'k'; 16], vec![b'v'; 81]];
        let many = check(&vec![request; 10_000]).memory();
        assert!((1_000_000..2_500_000).contains(&many), "{many} bytes for a million");
        let long = check(&[vec![vec![b'x'; 100 << 20]]]).memory();
        assert!(long - (100 << 20) < 1024, "{long} bytes");
    }
}
