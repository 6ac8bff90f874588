//! The words of a command, from the arguments of a call.

use crate::number::append_general;
use mlua::{BorrowedBytes, Value};
use smallvec::SmallVec;
use std::borrow::Borrow;

/// The digits of a number.
type Digits = SmallVec<[u8; 24]>;

/// Returns a number with all its digits, unlike Lua's `tostring`.
pub(crate) fn digits(number: f64) -> Digits {
    let whole = number as i32;
    // Zero may have a sign.
    if f64::from(whole) == number && whole != 0 {
        return Digits::from_slice(itoa::Buffer::new().format(whole).as_bytes());
    }
    let mut digits = Vec::new();
    append_general(&mut digits, number, 17);
    Digits::from_vec(digits)
}

/// The bytes of one argument that mlua passes.
enum Word {
    Text(BorrowedBytes),
    Digits(Digits),
}

impl Word {
    /// Returns the bytes of a string or the digits of a number, `None` for anything else.
    fn of(value: &Value) -> Option<Word> {
        match value {
            Value::String(text) => Some(Word::Text(text.as_bytes())),
            Value::Integer(number) => Some(Word::Digits(digits(*number as f64))),
            Value::Number(number) => Some(Word::Digits(digits(*number))),
            _ => None,
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Word::Text(text) => text,
            Word::Digits(digits) => digits,
        }
    }
}

/// Passes the words of a command to `f`; returns `None` if one of them is neither a string nor a
/// number.
pub(crate) fn with_values<V: Borrow<Value>, R>(
    values: impl IntoIterator<Item = V>,
    f: impl FnOnce(&[&[u8]]) -> R,
) -> Option<R> {
    let words: Vec<Word> =
        values.into_iter().map(|value| Word::of(value.borrow())).collect::<Option<_>>()?;
    let slices: Vec<&[u8]> = words.iter().map(Word::bytes).collect();
    Some(f(&slices))
}
