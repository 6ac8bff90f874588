//! The first line of a script or of a library: `#!lua name=... flags=...`.

use resp::words;
use std::fmt;

/// The declarations of a script or function about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u8);

impl Flags {
    /// It does not write.
    pub const NO_WRITES: Flags = Flags(1);
    /// It may run when the memory limit is exceeded.
    pub const ALLOW_OOM: Flags = Flags(2);
    /// It may run on a replica with stale data.
    pub const ALLOW_STALE: Flags = Flags(4);
    /// It does not run in a cluster.
    pub const NO_CLUSTER: Flags = Flags(8);
    /// It may access keys of several slots.
    pub const ALLOW_CROSS_SLOT_KEYS: Flags = Flags(16);

    const NAMES: [(&str, Flags); 5] = [
        ("no-writes", Flags::NO_WRITES),
        ("allow-oom", Flags::ALLOW_OOM),
        ("allow-stale", Flags::ALLOW_STALE),
        ("no-cluster", Flags::NO_CLUSTER),
        ("allow-cross-slot-keys", Flags::ALLOW_CROSS_SLOT_KEYS),
    ];

    /// Returns true if all of `other` are set.
    pub fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the names of the flags that are set, in Redis's order.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Flags::NAMES.iter().filter(move |(_, flag)| self.contains(*flag)).map(|(name, _)| *name)
    }

    pub(crate) fn add(&mut self, other: Flags) {
        self.0 |= other.0;
    }

    /// Returns the flag of this name.
    pub(crate) fn named(name: &[u8]) -> Option<Flags> {
        let found = Flags::NAMES.iter().find(|(known, _)| known.as_bytes() == name);
        found.map(|(_, flag)| *flag)
    }
}

/// Why a script or library was refused: the text of the error, which begins with its code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError(String);

impl ScriptError {
    pub(crate) fn new(text: impl fmt::Display) -> ScriptError {
        ScriptError(format!("ERR {text}"))
    }
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ScriptError {}

/// Returns the flags of a script, if it declares any, and its code without the first line. The end
/// of that line is kept, so that lines keep their numbers.
pub(crate) fn of_script(source: &[u8]) -> Result<(Option<Flags>, &[u8]), ScriptError> {
    if !source.starts_with(b"#!") {
        return Ok((None, source));
    }
    let end = source.iter().position(|byte| *byte == b'\n');
    let end = end.ok_or_else(|| ScriptError::new("Invalid script shebang"))?;
    let mut flags = Flags::default();
    let parts = words(&source[..end])
        .ok_or_else(|| ScriptError::new("Invalid engine in script shebang"))?;
    for (at, part) in parts.iter().enumerate() {
        if at == 0 {
            if part != b"#!lua" {
                let engine = String::from_utf8_lossy(part);
                let text = format!("Unexpected engine in script shebang: {engine}");
                return Err(ScriptError::new(text));
            }
        } else if let Some(list) = part.strip_prefix(b"flags=") {
            for name in list.split(|byte| *byte == b',').filter(|_| !list.is_empty()) {
                flags.add(Flags::named(name).ok_or_else(|| {
                    let name = String::from_utf8_lossy(name);
                    ScriptError::new(format!("Unexpected flag in script shebang: {name}"))
                })?);
            }
        } else {
            let option = String::from_utf8_lossy(part);
            return Err(ScriptError::new(format!("Unknown lua shebang option: {option}")));
        }
    }
    Ok((Some(flags), &source[end..]))
}

/// Returns the name of a library and its code without the first line.
pub(crate) fn of_library(source: &[u8]) -> Result<(String, &[u8]), ScriptError> {
    let invalid = || ScriptError::new("Invalid library metadata");
    if !source.starts_with(b"#!") {
        return Err(ScriptError::new("Missing library metadata"));
    }
    let end = source.iter().position(|byte| *byte == b'\n').ok_or_else(invalid)?;
    let parts = words(&source[..end]).ok_or_else(invalid)?;
    let parts: Vec<_> = parts.iter().map(|part| String::from_utf8_lossy(part)).collect();
    let (engine, options) = parts.split_first().ok_or_else(invalid)?;
    let engine = &engine[2..];
    let mut name: Option<&str> = None;
    for part in options {
        let is_name = part.get(..5).is_some_and(|head| head.eq_ignore_ascii_case("name="));
        if !is_name {
            return Err(ScriptError::new(format!("Invalid metadata value given: {part}")));
        }
        if name.replace(&part[5..]).is_some() {
            return Err(ScriptError::new(
                "Invalid metadata value, name argument was given multiple times",
            ));
        }
    }
    let name = name.ok_or_else(|| ScriptError::new("Library name was not given"))?;
    if !is_valid_name(name.as_bytes()) {
        return Err(ScriptError::new(INVALID_NAME));
    }
    if !engine.eq_ignore_ascii_case("lua") {
        return Err(ScriptError::new(format!("Engine '{engine}' not found")));
    }
    Ok((name.to_owned(), &source[end..]))
}

/// Redis uses this text for functions' names, too.
pub(crate) const INVALID_NAME: &str = "Library names can only contain letters, numbers, or \
    underscores(_) and must be at least one character long";

/// Returns true if a library or function may have this name.
pub(crate) fn is_valid_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}
