//! The words of a command, from the arguments of `redis.call`.
//!
//! mlua makes a handle for each string that Rust is given, and allocates where its bytes are read.
//! A script that calls commands in a loop passes the same strings again and again, and Lua has each
//! string once: the words of the last call are kept during a run, and recognized by their address.

use crate::number::append_general;
use crate::state::State;
use mlua::{BorrowedBytes, FromLua, Lua, LuaString, MultiValue, Value};
use smallvec::SmallVec;
use std::borrow::Borrow;
use std::cell::RefCell;

/// Words of a command that are taken without an allocation.
const FEW: usize = 4;
/// Bytes of the longest word that is kept: it takes memory until another comes in its place.
const LONGEST_KEPT: usize = 1024;

/// An argument, or none: a nil is not the same, but mlua makes one of a missing argument.
pub(crate) enum Argument {
    Absent,
    Given(Value),
}

impl FromLua for Argument {
    fn from_lua(value: Value, _: &Lua) -> mlua::Result<Argument> {
        Ok(Argument::Given(value))
    }

    /// Called for a missing argument only; one that is there is read from Lua's stack.
    fn from_lua_arg(_: Value, _: usize, _: Option<&str>, _: &Lua) -> mlua::Result<Argument> {
        Ok(Argument::Absent)
    }
}

/// The arguments of one call: the first `FEW`, and the others.
pub(crate) type Arguments = (Argument, Argument, Argument, Argument, MultiValue);

/// Words of the last call, by position.
#[derive(Default)]
pub(crate) struct LastWords(RefCell<[Option<BorrowedBytes>; FEW]>);

impl LastWords {
    /// Forgets them: they are handles of Lua that own its state.
    pub(crate) fn clear(&self) {
        self.0.take();
    }
}

/// The bytes of one argument.
enum Word {
    /// They are those of the last call.
    Kept,
    Text(BorrowedBytes),
    Digits(SmallVec<[u8; 32]>),
}

impl Word {
    /// Returns the bytes of a string or the digits of a number, `None` for anything else.
    fn of(value: &Value) -> Option<Word> {
        match value {
            Value::String(text) => Some(Word::Text(text.as_bytes())),
            Value::Integer(number) => Some(Word::of_integer(*number)),
            Value::Number(number) => Some(Word::of_number(*number)),
            _ => None,
        }
    }

    /// As [`Word::of`], with the word at this position of the last call, which it replaces.
    fn of_kept(value: &Value, last: &mut Option<BorrowedBytes>) -> Option<Word> {
        let Value::String(text) = value else { return Word::of(value) };
        if last.as_ref().is_some_and(|last| is_at(last, text)) {
            return Some(Word::Kept);
        }
        let bytes = text.as_bytes();
        if bytes.len() > LONGEST_KEPT {
            return Some(Word::Text(bytes));
        }
        *last = Some(bytes);
        Some(Word::Kept)
    }

    fn of_integer(number: i64) -> Word {
        match i32::try_from(number) {
            Ok(number) => {
                let mut digits = itoa::Buffer::new();
                Word::Digits(SmallVec::from_slice(digits.format(number).as_bytes()))
            }
            Err(_) => Word::of_number(number as f64),
        }
    }

    /// Writes a number with all its digits, unlike Lua's `tostring`.
    fn of_number(number: f64) -> Word {
        let mut digits = Vec::new();
        append_general(&mut digits, number, 17);
        Word::Digits(SmallVec::from_vec(digits))
    }

    fn bytes<'w>(&'w self, kept: &'w Option<BorrowedBytes>) -> &'w [u8] {
        match self {
            Word::Kept => kept.as_deref().unwrap_or_default(),
            Word::Text(text) => text,
            Word::Digits(digits) => digits,
        }
    }
}

/// Returns true if these are the bytes of the string: Lua has equal strings once.
fn is_at(bytes: &BorrowedBytes, text: &LuaString) -> bool {
    bytes.as_ptr().cast() == text.to_pointer()
}

/// Passes the words of a command to `f`; returns `None` if one of them is neither a string nor a
/// number. An empty command is passed as well.
pub(crate) fn with<R>(
    state: &State,
    arguments: Arguments,
    f: impl FnOnce(&[&[u8]]) -> R,
) -> Option<R> {
    let (first, second, third, fourth, others) = arguments;
    let mut last = state.last_words.0.borrow_mut();
    let mut words = [const { Word::Kept }; FEW];
    let mut count = 0;
    for argument in [first, second, third, fourth] {
        let Argument::Given(value) = argument else { break };
        words[count] = Word::of_kept(&value, &mut last[count])?;
        count += 1;
    }
    let others: Vec<Word> = others.iter().map(Word::of).collect::<Option<_>>()?;
    let given = words.iter().zip(last.iter()).take(count);
    let mut slices: SmallVec<[&[u8]; 8]> = given.map(|(word, last)| word.bytes(last)).collect();
    slices.extend(others.iter().map(|word| word.bytes(&None)));
    Some(f(&slices))
}

/// As [`with`], for what is not called often.
pub(crate) fn with_values<V: Borrow<Value>, R>(
    values: impl IntoIterator<Item = V>,
    f: impl FnOnce(&[&[u8]]) -> R,
) -> Option<R> {
    let words: Vec<Word> =
        values.into_iter().map(|value| Word::of(value.borrow())).collect::<Option<_>>()?;
    let slices: Vec<&[u8]> = words.iter().map(|word| word.bytes(&None)).collect();
    Some(f(&slices))
}
