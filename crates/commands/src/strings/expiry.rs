//! Expiry options: `EX seconds`, `PX ms`, `EXAT seconds`, `PXAT ms`, and what makes them invalid.

use engine::call::Call;
use engine::failure::{Failure, NOT_INTEGER};

/// The unit and base of an expiry time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Seconds from now.
    Seconds,
    /// Milliseconds from now.
    Millis,
    /// Unix seconds.
    UnixSeconds,
    /// Unix milliseconds.
    UnixMillis,
}

impl Unit {
    /// Returns the option of this name.
    pub(crate) fn named(word: &[u8]) -> Option<Unit> {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        match () {
            () if is("EX") => Some(Unit::Seconds),
            () if is("PX") => Some(Unit::Millis),
            () if is("EXAT") => Some(Unit::UnixSeconds),
            () if is("PXAT") => Some(Unit::UnixMillis),
            () => None,
        }
    }

    /// Returns true if the time counts from 1970 and not from now.
    pub(crate) fn is_absolute(self) -> bool {
        matches!(self, Unit::UnixSeconds | Unit::UnixMillis)
    }
}

/// Returns the unix time in milliseconds that an expiry option gives.
pub(super) fn expire_at(call: &Call<'_>, text: &[u8], unit: Unit) -> Result<u64, Failure> {
    let invalid = || {
        let name = call.command.spec.name;
        Failure::text(format!("ERR invalid expire time in '{name}' command"))
    };
    let given = resp::number::parse_i64(text).ok_or_else(|| Failure::from(NOT_INTEGER))?;
    if given <= 0 {
        return Err(invalid());
    }
    let millis = match unit {
        Unit::Seconds | Unit::UnixSeconds => given.checked_mul(1000).ok_or_else(invalid)?,
        Unit::Millis | Unit::UnixMillis => given,
    };
    let base = if unit.is_absolute() { 0 } else { call.now_ms() as i64 };
    millis.checked_add(base).map(|at| at as u64).ok_or_else(invalid)
}
