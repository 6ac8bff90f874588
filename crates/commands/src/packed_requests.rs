//! Requests that are kept for later: what a client sends between MULTI and EXEC.
//!
//! The bytes of their arguments follow each other in blocks that never move, so that a request
//! costs no allocation of its own. Blocks double from a small one on, since most transactions are
//! short; a request that is longer than the largest has a block to itself.

/// Bytes of the first block, and of the largest that holds several requests.
const FIRST_BLOCK: usize = 1 << 10;
const LARGEST_BLOCK: usize = 64 << 10;

/// Requests in the order in which they came.
#[derive(Default)]
pub(crate) struct PackedRequests {
    blocks: Vec<Vec<u8>>,
    requests: Vec<Packed>,
    /// The length of each argument of all requests.
    lengths: Vec<usize>,
    /// Bytes of memory that the blocks take.
    capacity: usize,
}

/// Where a request is, and how many arguments it has.
struct Packed {
    block: usize,
    start: usize,
    arguments: usize,
}

impl PackedRequests {
    /// Adds a request.
    pub(crate) fn push(&mut self, args: &[&[u8]]) {
        let bytes = args.iter().map(|arg| arg.len()).sum();
        let fits = self.blocks.last().is_some_and(|last| last.capacity() - last.len() >= bytes);
        if !fits {
            self.add_block(bytes);
        }
        let block = self.blocks.len() - 1;
        let last = &mut self.blocks[block];
        self.requests.push(Packed { block, start: last.len(), arguments: args.len() });
        for arg in args {
            last.extend_from_slice(arg);
            self.lengths.push(arg.len());
        }
    }

    #[cold]
    fn add_block(&mut self, least: usize) {
        let last = self.blocks.last().map_or(FIRST_BLOCK / 2, Vec::capacity);
        let block = Vec::with_capacity(least.max((2 * last).min(LARGEST_BLOCK)));
        self.capacity += block.capacity();
        self.blocks.push(block);
    }

    /// Returns how many requests there are.
    pub(crate) fn len(&self) -> usize {
        self.requests.len()
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
    pub(crate) fn arguments(&self) -> Vec<&[u8]> {
        let mut arguments = Vec::with_capacity(self.lengths.len());
        let mut lengths = self.lengths.iter();
        for request in &self.requests {
            let mut rest = &self.blocks[request.block][request.start..];
            for &length in lengths.by_ref().take(request.arguments) {
                let (argument, others) = rest.split_at(length);
                arguments.push(argument);
                rest = others;
            }
        }
        arguments
    }

    /// Returns how many arguments each request has.
    pub(crate) fn counts(&self) -> impl Iterator<Item = usize> {
        self.requests.iter().map(|request| request.arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps the requests, and compares what is kept with them.
    fn check(requests: &[Vec<Vec<u8>>]) -> PackedRequests {
        let mut packed = PackedRequests::default();
        for request in requests {
            packed.push(&request.iter().map(Vec::as_slice).collect::<Vec<_>>());
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
