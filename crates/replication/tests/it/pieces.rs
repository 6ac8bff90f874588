//! Input that arrives in pieces, as from a socket.

use std::collections::VecDeque;
use std::io::{self, BufRead, ErrorKind, Read};

/// Gives its pieces one by one; between two of them, it may time out once.
#[derive(Debug)]
pub(crate) struct Pieces<'a> {
    pieces: VecDeque<&'a [u8]>,
    times_out: bool,
    is_late: bool,
}

impl<'a> Pieces<'a> {
    /// Cuts input at these positions, in ascending order.
    pub(crate) fn cut(mut input: &'a [u8], at: &[usize], times_out: bool) -> Pieces<'a> {
        let (mut pieces, mut before) = (VecDeque::new(), 0);
        for at in at {
            let (piece, rest) = input.split_at(at - before);
            pieces.push_back(piece);
            (input, before) = (rest, *at);
        }
        pieces.push_back(input);
        Pieces { pieces, times_out, is_late: times_out }
    }

    /// Returns what was not consumed.
    pub(crate) fn rest(self) -> Vec<u8> {
        self.pieces.into_iter().flatten().copied().collect()
    }
}

impl BufRead for Pieces<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.pieces.front().is_some_and(|piece| piece.is_empty()) {
            self.pieces.pop_front();
            self.is_late = self.times_out;
        }
        if std::mem::take(&mut self.is_late) {
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(self.pieces.front().copied().unwrap_or_default())
    }

    fn consume(&mut self, count: usize) {
        if let Some(piece) = self.pieces.front_mut() {
            *piece = &piece[count..];
        }
    }
}

impl Read for Pieces<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(out)?;
        self.consume(count);
        Ok(count)
    }
}

/// Returns every way to cut `length` bytes at up to two positions.
pub(crate) fn cuts(length: usize) -> impl Iterator<Item = [usize; 2]> {
    (0..=length).flat_map(move |first| (first..=length).map(move |second| [first, second]))
}

/// Calls again after a timeout.
pub(crate) fn wait<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            result => return result,
        }
    }
}
