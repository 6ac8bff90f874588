//! Values of ordered tables.

use super::Key;
use crate::Error;

/// A value of a [`crate::Table`]: integers, floating-point numbers, `bool`, strings, byte strings,
/// arrays of bytes, nothing, and tuples of keys with a value at the end. With the feature `serde`,
/// `Json` holds any type that serde serializes.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use perdura::prelude::*;
/// use perdura::{Options, Perdura, Table};
///
/// let store = Perdura::open(Options::volatile())?;
/// // When it was published, how often it was read, its title.
/// let articles: Table<u64, (u64, u32, String)> = store.table("articles");
/// articles.insert(1, (1_700_000_000, 0, "Fences"))?;
/// assert_eq!(articles.get(1)?, Some((1_700_000_000, 0, "Fences".to_string())));
/// # Ok(())
/// # }
/// ```
pub trait Value: Sized + 'static {
    /// The form in which calls take a value: a string as `&str`, an integer as it is.
    type Ref<'a>;

    /// Returns a value in the form that calls take.
    fn borrowed(value: &Self) -> Self::Ref<'_>;

    /// Appends the bytes of a value.
    ///
    /// # Errors
    /// [`Error::NotARow`] if it cannot be encoded; of the types here only a `Json` can fail, if its
    /// own serialization does.
    fn encode(value: &Self::Ref<'_>, out: &mut Vec<u8>) -> Result<(), Error>;

    /// Decodes a value from all of these bytes; `None` if they are not of this type.
    fn decode(bytes: &[u8]) -> Option<Self>;
}

/// Decodes a value that is encoded like a key, which must take all bytes.
fn whole<K: Key>(mut bytes: &[u8]) -> Option<K> {
    K::decode(&mut bytes).filter(|_| bytes.is_empty())
}

macro_rules! as_keys {
    ($($kind:ty),*) => {$(
        impl Value for $kind {
            type Ref<'a> = $kind;

            fn borrowed(value: &$kind) -> $kind {
                *value
            }

            fn encode(value: &$kind, out: &mut Vec<u8>) -> Result<(), Error> {
                <$kind as Key>::encode(value, out);
                Ok(())
            }

            fn decode(bytes: &[u8]) -> Option<$kind> {
                whole(bytes)
            }
        }
    )*};
}

as_keys!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128, bool);

macro_rules! floating {
    ($($float:ty),*) => {$(
        impl Value for $float {
            type Ref<'a> = $float;

            fn borrowed(value: &$float) -> $float {
                *value
            }

            fn encode(value: &$float, out: &mut Vec<u8>) -> Result<(), Error> {
                out.extend_from_slice(&value.to_be_bytes());
                Ok(())
            }

            fn decode(bytes: &[u8]) -> Option<$float> {
                bytes.try_into().ok().map(<$float>::from_be_bytes)
            }
        }
    )*};
}

floating!(f32, f64);

impl Value for () {
    type Ref<'a> = ();

    fn borrowed((): &()) {}

    fn encode((): &(), _: &mut Vec<u8>) -> Result<(), Error> {
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Option<()> {
        bytes.is_empty().then_some(())
    }
}

impl<const N: usize> Value for [u8; N] {
    type Ref<'a> = &'a [u8; N];

    fn borrowed(value: &[u8; N]) -> &[u8; N] {
        value
    }

    fn encode(value: &&[u8; N], out: &mut Vec<u8>) -> Result<(), Error> {
        out.extend_from_slice(*value);
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Option<[u8; N]> {
        bytes.try_into().ok()
    }
}

impl Value for Vec<u8> {
    type Ref<'a> = &'a [u8];

    fn borrowed(value: &Vec<u8>) -> &[u8] {
        value
    }

    fn encode(value: &&[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        out.extend_from_slice(value);
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Option<Vec<u8>> {
        Some(bytes.to_vec())
    }
}

impl Value for String {
    type Ref<'a> = &'a str;

    fn borrowed(value: &String) -> &str {
        value
    }

    fn encode(value: &&str, out: &mut Vec<u8>) -> Result<(), Error> {
        out.extend_from_slice(value.as_bytes());
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Option<String> {
        std::str::from_utf8(bytes).ok().map(str::to_owned)
    }
}

impl<A: Key, B: Value> Value for (A, B) {
    type Ref<'a> = (A::Ref<'a>, B::Ref<'a>);

    fn borrowed(value: &(A, B)) -> Self::Ref<'_> {
        (A::borrowed(&value.0), B::borrowed(&value.1))
    }

    fn encode(value: &Self::Ref<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
        A::encode(&value.0, out);
        B::encode(&value.1, out)
    }

    fn decode(mut bytes: &[u8]) -> Option<(A, B)> {
        Some((A::decode(&mut bytes)?, B::decode(bytes)?))
    }
}

impl<A: Key, B: Key, C: Value> Value for (A, B, C) {
    type Ref<'a> = (A::Ref<'a>, B::Ref<'a>, C::Ref<'a>);

    fn borrowed(value: &(A, B, C)) -> Self::Ref<'_> {
        (A::borrowed(&value.0), B::borrowed(&value.1), C::borrowed(&value.2))
    }

    fn encode(value: &Self::Ref<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
        A::encode(&value.0, out);
        B::encode(&value.1, out);
        C::encode(&value.2, out)
    }

    fn decode(mut bytes: &[u8]) -> Option<(A, B, C)> {
        Some((A::decode(&mut bytes)?, B::decode(&mut bytes)?, C::decode(bytes)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Debug;

    #[track_caller]
    fn check<V: Value + PartialEq + Debug>(value: &V::Ref<'_>, owned: V, len: usize) {
        let mut bytes = Vec::new();
        V::encode(value, &mut bytes).expect("bytes");
        let mut again = Vec::new();
        V::encode(&V::borrowed(&owned), &mut again).expect("bytes");
        assert_eq!(again, bytes);
        assert_eq!((V::decode(&bytes), bytes.len()), (Some(owned), len));
    }

    #[test]
    fn values_read_back_as_written() {
        check::<u32>(&7, 7, 4);
        check::<i64>(&-7, -7, 8);
        check::<f64>(&-0.5, -0.5, 8);
        check::<bool>(&true, true, 1);
        check::<()>(&(), (), 0);
        check::<String>(&"text\0", "text\0".into(), 5);
        check::<[u8; 3]>(&b"abc", *b"abc", 3);
        check::<Vec<u8>>(&&b"\0\xff"[..], vec![0, 255], 2);
        check::<(u16, String)>(&(1, "a"), (1, "a".into()), 3);
        check::<(String, bool, f32)>(&("a", true, 1.5), ("a".into(), true, 1.5), 8);
    }

    #[test]
    fn bytes_of_another_type_are_none() {
        assert_eq!(<u32 as Value>::decode(&[1, 2, 3]), None);
        assert_eq!(<u32 as Value>::decode(&[1, 2, 3, 4, 5]), None);
        assert_eq!(<String as Value>::decode(&[0xff]), None);
        assert_eq!(<()>::decode(&[0]), None);
        assert_eq!(f64::decode(&[0; 4]), None);
    }
}
