//! The types of values, each with the way from its canonical form and back.
//!
//! `kind` says which texts a directive may have and makes them canonical; the types here are what
//! the rest of the server reads. The canonical form of a value is a function of the value.

use std::ops::Deref;

use super::kind::{Kind, integer};
use super::special::{self, OutputLimit};

/// The type of a directive's value.
pub trait Value: Sized {
    /// Returns the value of a canonical form.
    fn read(kind: Kind, text: &[u8]) -> Option<Self>;

    /// Returns the canonical form.
    fn text(&self, kind: Kind) -> Vec<u8>;
}

impl Value for bool {
    fn read(_: Kind, text: &[u8]) -> Option<bool> {
        Some(text == b"yes")
    }

    fn text(&self, _: Kind) -> Vec<u8> {
        if *self { b"yes".into() } else { b"no".into() }
    }
}

macro_rules! numbers {
    ($($type:ident)*) => {
        $(impl Value for $type {
            fn read(kind: Kind, text: &[u8]) -> Option<$type> {
                match kind {
                    Kind::Octal(..) => {
                        $type::from_str_radix(std::str::from_utf8(text).ok()?, 8).ok()
                    }
                    _ => $type::try_from(integer(text)?).ok(),
                }
            }

            fn text(&self, kind: Kind) -> Vec<u8> {
                match kind {
                    Kind::Octal(..) => format!("{self:o}").into_bytes(),
                    _ => self.to_string().into_bytes(),
                }
            }
        })*
    };
}
numbers!(u16 u32 u64 usize i32 i64);

/// Any bytes: a path, a password, words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bytes(Vec<u8>);

impl Bytes {
    /// Returns the bytes as text; what is not UTF-8 is replaced.
    pub fn to_text(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }
}

/// Returns a text, for a default.
pub(super) fn text(text: &str) -> Bytes {
    text.into()
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Bytes {
        Bytes(bytes.to_vec())
    }
}

impl From<&str> for Bytes {
    fn from(text: &str) -> Bytes {
        Bytes(text.into())
    }
}

impl Value for Bytes {
    fn read(_: Kind, text: &[u8]) -> Option<Bytes> {
        Some(Bytes(text.to_vec()))
    }

    fn text(&self, _: Kind) -> Vec<u8> {
        self.0.clone()
    }
}

/// One of the names of the directive's kind, for directives without effect.
impl Value for &'static str {
    fn read(kind: Kind, text: &[u8]) -> Option<&'static str> {
        let Kind::Enum(names) = kind else { return None };
        names.iter().find(|name| name.as_bytes() == text).copied()
    }

    fn text(&self, _: Kind) -> Vec<u8> {
        self.as_bytes().to_vec()
    }
}

/// A number of bytes, or a share of `maxmemory`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryShare {
    /// A number of bytes.
    Bytes(u64),
    /// Hundredths of `maxmemory`.
    Percent(u64),
}

impl Value for MemoryShare {
    fn read(_: Kind, text: &[u8]) -> Option<MemoryShare> {
        let number = |digits| integer(digits).and_then(|n| u64::try_from(n).ok());
        match text.strip_suffix(b"%") {
            Some(digits) => number(digits).map(MemoryShare::Percent),
            None => number(text).map(MemoryShare::Bytes),
        }
    }

    fn text(&self, _: Kind) -> Vec<u8> {
        match self {
            MemoryShare::Bytes(bytes) => bytes.to_string().into_bytes(),
            MemoryShare::Percent(percent) => format!("{percent}%").into_bytes(),
        }
    }
}

impl Value for [OutputLimit; 3] {
    fn read(_: Kind, text: &[u8]) -> Option<[OutputLimit; 3]> {
        Some(special::read_output_limits(text))
    }

    fn text(&self, _: Kind) -> Vec<u8> {
        special::output_limits_text(self)
    }
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b' ').filter(|word| !word.is_empty())
}

fn joined<T: ToString>(numbers: &[T]) -> Vec<u8> {
    numbers.iter().map(T::to_string).collect::<Vec<_>>().join(" ").into_bytes()
}

impl Value for [i64; 3] {
    fn read(_: Kind, text: &[u8]) -> Option<[i64; 3]> {
        let numbers = words(text).map(|word| i64::try_from(integer(word)?).ok());
        numbers.collect::<Option<Vec<i64>>>()?.try_into().ok()
    }

    fn text(&self, _: Kind) -> Vec<u8> {
        joined(self)
    }
}

impl Value for Vec<f64> {
    fn read(_: Kind, text: &[u8]) -> Option<Vec<f64>> {
        words(text).map(|word| std::str::from_utf8(word).ok()?.parse().ok()).collect()
    }

    fn text(&self, _: Kind) -> Vec<u8> {
        joined(self)
    }
}
