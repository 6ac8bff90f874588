//! The forms that options take: `1:10`, `32-4096`, `G:R`. Each is read from its text and printed as
//! it.

use std::fmt;
use std::str::FromStr;

/// Returns two numbers with a sign between, as `1:10`.
fn two(text: &str, sign: char) -> Option<(u64, u64)> {
    let (left, right) = text.split_once(sign)?;
    Some((left.parse().ok()?, right.parse().ok()?))
}

/// How many of one for how many of the other, as `1:10`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio(pub u64, pub u64);

impl FromStr for Ratio {
    type Err = String;

    fn from_str(text: &str) -> Result<Ratio, String> {
        let (left, right) = two(text, ':').ok_or("two numbers are wanted, as in 1:10")?;
        if left == 0 && right == 0 {
            return Err("one of the two numbers must be above 0".into());
        }
        Ok(Ratio(left, right))
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0, self.1)
    }
}

/// From a lowest to a highest number, both included, as `32-4096`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The lowest.
    pub low: u64,
    /// The highest.
    pub high: u64,
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Span, String> {
        let (low, high) = two(text, '-').ok_or("a range is wanted, as in 32-4096")?;
        if low > high {
            return Err("the first number of a range must not be above the second".into());
        }
        Ok(Span { low, high })
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.low, self.high)
    }
}

/// Sizes with how often each is taken, as `32:9,4096:1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes(pub Vec<(u64, u64)>);

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Sizes, String> {
        let sizes: Option<Vec<_>> = text.split(',').map(|part| two(part, ':')).collect();
        let sizes = sizes.ok_or("sizes with weights are wanted, as in 32:9,4096:1")?;
        if sizes.iter().any(|(size, weight)| *size == 0 || *weight == 0) {
            return Err("sizes and weights must be above 0".into());
        }
        Ok(Sizes(sizes))
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<_> =
            self.0.iter().map(|(size, weight)| format!("{size}:{weight}")).collect();
        f.write_str(&sizes.join(","))
    }
}

/// How the next key is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Each key as likely as any other.
    Random,
    /// One after the other: every client goes through the whole range.
    Sequential,
    /// A bell curve.
    Gaussian,
    /// Zipf's law: the lowest key most often.
    Zipf,
    /// One after the other: every client goes through a part of the range of its own.
    Parallel,
}

impl Pattern {
    const LETTERS: [(&'static str, Pattern); 5] = [
        ("R", Pattern::Random),
        ("S", Pattern::Sequential),
        ("G", Pattern::Gaussian),
        ("Z", Pattern::Zipf),
        ("P", Pattern::Parallel),
    ];
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Pattern, String> {
        let found = Pattern::LETTERS.iter().find(|(letter, _)| *letter == text);
        found.map(|(_, pattern)| *pattern).ok_or("a pattern is one of R, S, G, Z, P".into())
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = Pattern::LETTERS.iter().find(|(_, pattern)| pattern == self);
        f.write_str(found.map_or("", |(letter, _)| letter))
    }
}

/// The patterns of SET and of GET, as `R:R`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patterns {
    /// That of keys which are written.
    pub set: Pattern,
    /// That of keys which are read.
    pub get: Pattern,
}

impl FromStr for Patterns {
    type Err = String;

    fn from_str(text: &str) -> Result<Patterns, String> {
        let (set, get) = text.split_once(':').ok_or("two patterns are wanted, as in R:R")?;
        let patterns = Patterns { set: set.parse()?, get: get.parse()? };
        if (patterns.set == Pattern::Parallel) != (patterns.get == Pattern::Parallel) {
            return Err("P divides the keys between clients: it goes with P only, as P:P".into());
        }
        Ok(patterns)
    }
}

impl fmt::Display for Patterns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.set, self.get)
    }
}

/// How many requests a client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requests {
    /// This many.
    Each(u64),
    /// As many as there are keys; with the pattern `P:P`, as many as there are in the client's
    /// part.
    AllKeys,
}

impl FromStr for Requests {
    type Err = String;

    fn from_str(text: &str) -> Result<Requests, String> {
        if text == "allkeys" {
            return Ok(Requests::AllKeys);
        }
        match text.parse() {
            Ok(number) if number > 0 => Ok(Requests::Each(number)),
            _ => Err("a number above 0 is wanted, or `allkeys`".into()),
        }
    }
}

impl fmt::Display for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Requests::Each(number) => number.fmt(f),
            Requests::AllKeys => f.write_str("allkeys"),
        }
    }
}

/// Percentages that the table shows, as `50,99,99.9`.
#[derive(Clone, Debug, PartialEq)]
pub struct Percentiles(pub Vec<f64>);

impl FromStr for Percentiles {
    type Err = String;

    fn from_str(text: &str) -> Result<Percentiles, String> {
        let numbers: Result<Vec<f64>, _> = text.split(',').map(str::parse).collect();
        match numbers {
            Ok(numbers) if numbers.iter().all(|p| *p > 0.0 && *p <= 100.0) => {
                Ok(Percentiles(numbers))
            }
            _ => Err("percentages up to 100 are wanted, as in 50,99,99.9".into()),
        }
    }
}

impl fmt::Display for Percentiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<_> = self.0.iter().map(f64::to_string).collect();
        f.write_str(&numbers.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check<T: FromStr<Err = String> + fmt::Display>(good: &[&str], bad: &[&str]) {
        for text in good {
            match text.parse::<T>() {
                Ok(value) => assert_eq!(value.to_string(), *text),
                Err(why) => panic!("{text}: {why}"),
            }
        }
        for text in bad {
            assert!(text.parse::<T>().is_err(), "{text:?} was taken");
        }
    }

    #[test]
    fn what_is_read_is_printed_as_it_was() {
        check::<Ratio>(&["1:10", "0:1", "1:0"], &["", "1", "0:0", "1-2", "-1:2", "1:2:3"]);
        check::<Span>(&["0-0", "32-4096"], &["", "1", "5-4", "1:2", "a-b"]);
        check::<Sizes>(&["32:1", "32:9,4096:1"], &["", "32", "0:1", "32:0", "32:1,"]);
        check::<Pattern>(&["R", "S", "G", "Z", "P"], &["", "r", "X", "RR"]);
        check::<Patterns>(&["R:R", "G:Z", "P:P"], &["", "R", "R:", "P:R", "S:P"]);
        check::<Requests>(&["1", "10000", "allkeys"], &["", "0", "-1", "all"]);
        check::<Percentiles>(&["50", "50,99,99.9", "100"], &["", "0", "101", "50,", "x"]);
    }
}
