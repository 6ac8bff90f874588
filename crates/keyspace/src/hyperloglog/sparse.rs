//! The sparse encoding: runs of registers.
//!
//! ```text
//! 00nnnnnn            n + 1 registers of 0
//! 01nnnnnn nnnnnnnn   n + 1 registers of 0
//! 1vvvvvnn            n + 1 registers of v + 1
//! ```
//!
//! A change splits one run into up to three, then joins equal neighbours around it as Redis does:
//! after the same elements the bytes are the same as Redis's, so that either server reads what the
//! other one wrote.

use super::registers::{COUNT, Registers};

/// The highest value that a run can have; a higher one needs the dense encoding.
pub(super) const HIGHEST: u8 = 32;
const SHORT_ZEROS: usize = 64;
const LONG_ZEROS: usize = 1 << 14;
const VALUES: usize = 4;
/// How many runs around a change are examined for joining.
const JOIN_REACH: usize = 5;

/// The bytes are not a sequence of runs over all registers.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Corrupted;

/// The result of raising a register.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Raised {
    /// It was at least as high before.
    Kept,
    /// It changed.
    Changed,
    /// The sparse encoding cannot hold it.
    TooLarge,
}

/// A run of registers with one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The value.
    pub value: u8,
    /// The number of registers.
    pub len: usize,
    /// The number of bytes that it takes.
    size: usize,
}

impl Run {
    /// Returns the run at the start of `bytes`.
    fn read(bytes: &[u8]) -> Option<Run> {
        let first = *bytes.first()?;
        let low = usize::from(first & 0x3f);
        Some(match first >> 6 {
            0 => Run { value: 0, len: low + 1, size: 1 },
            1 => Run { value: 0, len: (low << 8 | usize::from(*bytes.get(1)?)) + 1, size: 2 },
            _ => Run { value: (first >> 2 & 31) + 1, len: usize::from(first & 3) + 1, size: 1 },
        })
    }

    fn write(value: u8, len: usize, out: &mut Vec<u8>) {
        match (value, len) {
            (_, 0) => {}
            (0, 1..=SHORT_ZEROS) => out.push(len as u8 - 1),
            (0, _) => out.extend(((len - 1) as u16 | 0x4000).to_be_bytes()),
            (_, _) => out.push(0x80 | (value - 1) << 2 | (len - 1) as u8),
        }
    }

    /// Returns true if it has the long form of zeros.
    pub fn is_long(self) -> bool {
        self.size == 2
    }
}

/// Returns the runs of an empty HyperLogLog.
pub(super) fn empty() -> Vec<u8> {
    let mut bytes = Vec::new();
    Run::write(0, COUNT, &mut bytes);
    bytes
}

/// Returns the runs in order.
pub(super) fn runs(bytes: &[u8]) -> impl Iterator<Item = Run> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let run = Run::read(rest)?;
        rest = &rest[run.size..];
        Some(run)
    })
}

/// Raises each of `registers` to its value in the runs, if that is higher.
pub(super) fn raise_all(bytes: &[u8], registers: &mut Registers) -> Result<(), Corrupted> {
    let (mut at, mut used) = (0, 0);
    for run in runs(bytes) {
        let own = registers.get_mut(at..at + run.len).ok_or(Corrupted)?;
        own.iter_mut().for_each(|register| *register = run.value.max(*register));
        at += run.len;
        used += run.size;
    }
    if at == COUNT && used == bytes.len() { Ok(()) } else { Err(Corrupted) }
}

/// Raises one register to `value`, which is at least 1, unless the runs would grow beyond `limit`
/// bytes.
pub(super) fn raise(
    bytes: &mut Vec<u8>,
    register: usize,
    value: u8,
    limit: usize,
) -> Result<Raised, Corrupted> {
    if value > HIGHEST {
        return Ok(Raised::TooLarge);
    }
    let (mut at, mut first, mut before) = (0, 0, None);
    let run = loop {
        let run = Run::read(&bytes[at..]).ok_or(Corrupted)?;
        if register < first + run.len {
            break run;
        }
        before = Some(at);
        at += run.size;
        first += run.len;
    };
    if run.value >= value {
        return Ok(Raised::Kept);
    }
    let mut split = Vec::with_capacity(5);
    Run::write(run.value, register - first, &mut split);
    Run::write(value, 1, &mut split);
    Run::write(run.value, first + run.len - register - 1, &mut split);
    if split.len() > run.size && bytes.len() + split.len() - run.size > limit {
        return Ok(Raised::TooLarge);
    }
    bytes.splice(at..at + run.size, split);
    join(bytes, before.unwrap_or(0));
    Ok(Raised::Changed)
}

/// Joins neighbouring runs of one value, other than 0, from `at` on.
fn join(bytes: &mut Vec<u8>, mut at: usize) {
    for _ in 0..JOIN_REACH {
        let Some(run) = Run::read(&bytes[at..]) else { return };
        let next = bytes.get(at + run.size..).and_then(Run::read);
        match next {
            Some(next)
                if run.value != 0 && next.value == run.value && run.len + next.len <= VALUES =>
            {
                let mut joined = Vec::with_capacity(1);
                Run::write(run.value, run.len + next.len, &mut joined);
                bytes.splice(at..at + 2, joined);
            }
            _ => at += run.size,
        }
    }
}

const _: () = assert!(COUNT <= LONG_ZEROS);

#[cfg(test)]
mod tests {
    use super::*;

    fn registers(bytes: &[u8]) -> Registers {
        let mut registers = [0; COUNT];
        raise_all(bytes, &mut registers).expect("sound runs");
        registers
    }

    #[test]
    fn runs_say_what_an_array_of_registers_would() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..20 {
            let (mut bytes, mut expect) = (empty(), [0u8; COUNT]);
            let near = random.usize(1..COUNT);
            for _ in 0..600 {
                let (at, value) = (random.usize(..near), random.u8(1..=HIGHEST.min(5)));
                let raised = raise(&mut bytes, at, value, usize::MAX).expect("sound runs");
                assert_eq!(raised == Raised::Changed, value > expect[at]);
                expect[at] = expect[at].max(value);
            }
            assert!(registers(&bytes) == expect);
        }
    }

    #[test]
    fn what_does_not_fit_is_reported() {
        let mut bytes = empty();
        assert_eq!(raise(&mut bytes, 0, HIGHEST + 1, 3000), Ok(Raised::TooLarge));
        let len = bytes.len();
        assert_eq!(raise(&mut bytes, 100, 1, len), Ok(Raised::TooLarge));
        assert_eq!(bytes, empty());
        assert_eq!(raise(&mut bytes, 100, 1, 3000), Ok(Raised::Changed));
    }

    #[test]
    fn runs_that_do_not_end_with_the_last_register_are_corrupted() {
        let mut registers = [0; COUNT];
        for bytes in [&b""[..], b"\x7f", b"\x7f\xfe", b"\x7f\xff\x00", b"\x40"] {
            assert_eq!(raise_all(bytes, &mut registers), Err(Corrupted), "{bytes:x?}");
            let _ = raise(&mut bytes.to_vec(), COUNT - 1, 3, 3000);
        }
    }
}
