//! What a directive's value may be, and how it is read and written.
//!
//! A value is kept in its canonical form: the bytes that `CONFIG GET` answers. Reading a value
//! means turning the words of a line into that form or into Redis's text for why it cannot be.
//! The canonical form of a directive parses to itself, so that `CONFIG SET x (CONFIG GET x)` and
//! `CONFIG REWRITE` never change anything.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ::cluster::message::Text as AnnouncedText;
pub use resp::number::parse_memory as memory;

use super::special;

/// The largest number of each width.
pub(super) const I32: i128 = i32::MAX as i128;
pub(super) const U32: i128 = u32::MAX as i128;
pub(super) const I64: i128 = i64::MAX as i128;
pub(super) const U64: i128 = u64::MAX as i128;

/// The longest address that a message of a cluster's bus has room for.
const LONGEST_IP: usize = 45;

/// The kinds of values, with their limits.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `yes` or `no`.
    Bool,
    /// One of the names.
    Enum(&'static [&'static str]),
    /// Any of the names, blank-separated.
    Flags(&'static [&'static str]),
    /// A number from the first to the second, both included.
    Int(i128, i128),
    /// A number of bytes, with Redis's units.
    Memory(i128, i128),
    /// A number of bytes, or up to 100 percent.
    MemoryOrPercent,
    /// An octal number.
    Octal(i128, i128),
    /// Any bytes; empty means unset.
    Text,
    /// A host name, or empty.
    HostName,
    /// A text that nodes of a cluster tell each other; may be empty.
    Announced,
    /// An IPv4 address, or empty.
    Ipv4,
    /// An IPv6 address, or empty.
    Ipv6,
    /// A file name without a path.
    FileName,
    /// A file name without a path, not empty.
    FileNameSet,
    /// An existing directory.
    Dir,
    /// Pairs of seconds and changes.
    Save,
    /// Client classes with hard limit, soft limit and seconds.
    OutputLimits,
    /// Three numbers from -2000 to 2000.
    OomValues,
    /// Classes of keyspace events.
    Events,
    /// Up to 16 addresses.
    Bind,
    /// Host and port, or `no one`.
    ReplicaOf,
    /// Numbers from 0 to 100.
    Percentiles,
    /// Three numbers with dots between.
    Version,
}

impl Kind {
    /// Returns true if the value is several words.
    pub fn takes_many_arguments(self) -> bool {
        matches!(
            self,
            Kind::Flags(_)
                | Kind::Save
                | Kind::OutputLimits
                | Kind::OomValues
                | Kind::Bind
                | Kind::ReplicaOf
                | Kind::Percentiles
        )
    }

    /// Returns the canonical value that `words` name for the directive `name`, given its `current`
    /// value.
    pub fn parse(self, name: &str, current: &[u8], words: &[&[u8]]) -> Result<Vec<u8>, String> {
        if !self.takes_many_arguments() && words.len() != 1 {
            return Err("wrong number of arguments".into());
        }
        let first = words.first().copied().unwrap_or_default();
        match self {
            Kind::Bool => boolean(first),
            Kind::Enum(names) => one_of(names, first),
            Kind::Flags(names) => flags(names, words),
            Kind::Int(low, high) => {
                let value = integer(first).filter(|value| i64::try_from(*value).is_ok());
                let value = value.ok_or("argument couldn't be parsed into an integer")?;
                within(value, low, high).map(text)
            }
            Kind::Memory(low, high) => {
                let value = memory(first).ok_or("argument must be a memory value")?;
                within(i128::from(value), low, high).map(text)
            }
            Kind::MemoryOrPercent => memory_or_percent(first),
            Kind::Octal(low, high) => octal(first, low, high),
            Kind::Text => Ok(first.to_vec()),
            Kind::HostName => host_name(first),
            Kind::Announced => announced(name, first),
            Kind::Ipv4 => address::<Ipv4Addr>(first, "Invalid IPv4 address"),
            Kind::Ipv6 => address::<Ipv6Addr>(first, "Invalid IPv6 address"),
            Kind::FileName | Kind::FileNameSet => file_name(self, name, first),
            Kind::Dir => special::directory(first),
            Kind::Save => special::save(words),
            Kind::OutputLimits => special::output_limits(current, words),
            Kind::OomValues => special::oom_values(words),
            Kind::Events => special::events(first),
            Kind::Bind => special::bind(words),
            Kind::ReplicaOf => special::replica_of(words),
            Kind::Percentiles => special::percentiles(words),
            Kind::Version => version(first),
        }
    }

    /// Returns the value as `CONFIG REWRITE` writes it after the directive's name.
    pub fn for_file(self, value: &[u8]) -> String {
        let plain = || String::from_utf8_lossy(value).into_owned();
        match self {
            Kind::Memory(..) => integer(value).map_or_else(plain, in_units),
            Kind::Text | Kind::FileName | Kind::FileNameSet | Kind::Dir | Kind::Events => {
                crate::process::text::quote(value)
            }
            _ if value.is_empty() => "\"\"".into(),
            _ => plain(),
        }
    }
}

fn text(value: i128) -> Vec<u8> {
    value.to_string().into_bytes()
}

fn host_name(word: &[u8]) -> Result<Vec<u8>, String> {
    if word.len() > AnnouncedText::MAX_LEN {
        return Err("Hostnames must be less than 256 characters".into());
    }
    let is_valid = |byte: &u8| byte.is_ascii_alphanumeric() || b"-.".contains(byte);
    match word.iter().all(is_valid) {
        true => Ok(word.to_vec()),
        false => Err("Hostnames may only contain alphanumeric characters, hyphens or dots".into()),
    }
}

/// Returns a text that all nodes take. Those of Valkey take less than those of Redis.
fn announced(name: &str, word: &[u8]) -> Result<Vec<u8>, String> {
    if name == "cluster-announce-ip" && word.len() > LONGEST_IP {
        return Err(format!("{name} is too long"));
    }
    // Redis does not read its file again with a colon in a name.
    let is_odd = |byte: &u8| {
        b";<=>?@[]^{|}~\\".contains(byte) || *byte == b':' && name != "cluster-announce-ip"
    };
    match AnnouncedText::parse(word) {
        Some(_) if !word.iter().any(is_odd) => Ok(word.to_vec()),
        _ if name == "cluster-announce-human-nodename" => {
            Err("Announced human node name contained invalid character".into())
        }
        _ => Err(format!("{name} contains invalid character")),
    }
}

fn address<A: FromStr>(word: &[u8], refusal: &str) -> Result<Vec<u8>, String> {
    let is_address = std::str::from_utf8(word).is_ok_and(|text| text.parse::<A>().is_ok());
    if word.is_empty() || is_address { Ok(word.to_vec()) } else { Err(refusal.into()) }
}

fn boolean(word: &[u8]) -> Result<Vec<u8>, String> {
    for name in ["yes", "no"] {
        if word.eq_ignore_ascii_case(name.as_bytes()) {
            return Ok(name.into());
        }
    }
    Err("argument must be 'yes' or 'no'".into())
}

fn version(word: &[u8]) -> Result<Vec<u8>, String> {
    let text = std::str::from_utf8(word).unwrap_or_default();
    let numbers: Vec<&str> = text.split('.').collect();
    // One byte each, as in the number that scripts find; written as it is read back.
    let is_number = |part: &&str| part.parse::<u8>().is_ok_and(|n| n.to_string() == **part);
    if numbers.len() != 3 || !numbers.iter().all(is_number) {
        return Err("argument must be a version such as 7.0.15".into());
    }
    Ok(word.to_vec())
}

fn one_of(names: &[&str], word: &[u8]) -> Result<Vec<u8>, String> {
    let found = names.iter().find(|name| word.eq_ignore_ascii_case(name.as_bytes()));
    found.map(|name| name.as_bytes().to_vec()).ok_or_else(|| not_one_of(names))
}

fn not_one_of(names: &[&str]) -> String {
    format!("argument(s) must be one of the following: {}", names.join(", "))
}

fn flags(names: &[&str], words: &[&[u8]]) -> Result<Vec<u8>, String> {
    if words.is_empty() {
        return Err(not_one_of(names));
    }
    let mut chosen = vec![false; names.len()];
    for word in words {
        let at = names.iter().position(|name| word.eq_ignore_ascii_case(name.as_bytes()));
        chosen[at.ok_or_else(|| not_one_of(names))?] = true;
    }
    let has = |name| names.iter().zip(&chosen).any(|(n, c)| *c && *n == name);
    if has("save") && has("nosave") {
        return Err("shutdown options SAVE and NOSAVE can't be used simultaneously".into());
    }
    let neutral = names[0];
    let set: Vec<&str> = names.iter().zip(&chosen).skip(1).filter(|x| *x.1).map(|x| *x.0).collect();
    Ok(if set.is_empty() { neutral.into() } else { set.join(" ").into_bytes() })
}

/// Returns a decimal integer as Redis reads one: no blanks, no plus sign, no leading zeros.
pub fn integer(word: &[u8]) -> Option<i128> {
    let digits = word.strip_prefix(b"-").unwrap_or(word);
    let plain = !digits.is_empty() && digits.len() <= 20 && digits.iter().all(u8::is_ascii_digit);
    let canonical = digits.len() == 1 || digits.first() != Some(&b'0');
    if !plain || !canonical || word == b"-0" {
        return None;
    }
    std::str::from_utf8(word).ok()?.parse().ok()
}

fn memory_or_percent(word: &[u8]) -> Result<Vec<u8>, String> {
    if let Some(bytes) = memory(word) {
        return within(i128::from(bytes), 0, i128::from(i64::MAX)).map(text);
    }
    let percent = word.strip_suffix(b"%").and_then(integer).filter(|n| *n >= 0);
    let percent = percent.ok_or("argument must be a memory or percent value")?;
    if percent > 100 {
        return Err("percentage argument must be less or equal to 100".into());
    }
    Ok(format!("{percent}%").into_bytes())
}

fn octal(word: &[u8], low: i128, high: i128) -> Result<Vec<u8>, String> {
    let value = std::str::from_utf8(word).ok().and_then(|w| i128::from_str_radix(w, 8).ok());
    let value = value.ok_or("argument couldn't be parsed as an octal number")?;
    if value < low || value > high {
        return Err(format!("argument must be between {low:o} and {high:o} inclusive"));
    }
    Ok(format!("{value:o}").into_bytes())
}

fn within(value: i128, low: i128, high: i128) -> Result<i128, String> {
    if value < low || value > high {
        return Err(format!("argument must be between {low} and {high} inclusive"));
    }
    Ok(value)
}

fn file_name(kind: Kind, name: &str, word: &[u8]) -> Result<Vec<u8>, String> {
    if word.is_empty() && matches!(kind, Kind::FileNameSet) {
        return Err(format!("{name} can't be empty"));
    }
    if word.contains(&b'/') {
        let thing = if name.contains("dir") { "dirname" } else { "filename" };
        return Err(format!("{name} can't be a path, just a {thing}"));
    }
    Ok(word.to_vec())
}

fn in_units(bytes: i128) -> String {
    for (unit, size) in [("gb", 1 << 30), ("mb", 1 << 20), ("kb", 1 << 10)] {
        if bytes != 0 && bytes % size == 0 {
            return format!("{}{unit}", bytes / size);
        }
    }
    bytes.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: Kind, line: &str, expect: Result<&str, &str>) {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let got = kind.parse("x", b"", &words).map(|v| String::from_utf8_lossy(&v).into_owned());
        assert_eq!(got, expect.map(String::from).map_err(String::from), "{kind:?} {line}");
    }

    #[test]
    fn numbers_and_their_limits() {
        check(Kind::Int(0, 10), "7", Ok("7"));
        check(Kind::Int(0, 10), "11", Err("argument must be between 0 and 10 inclusive"));
        check(Kind::Int(0, 10), "07", Err("argument couldn't be parsed into an integer"));
        check(Kind::Int(0, 10), "x", Err("argument couldn't be parsed into an integer"));
        check(Kind::Octal(0, 0o777), "770", Ok("770"));
        check(Kind::Octal(0, 0o777), "1000", Err("argument must be between 0 and 777 inclusive"));
    }

    #[test]
    fn a_version_has_three_numbers() {
        let bad = Err("argument must be a version such as 7.0.15");
        for good in ["7.0.15", "8.4.0", "255.255.255"] {
            check(Kind::Version, good, Ok(good));
        }
        for word in
            ["8", "8.4", "8.4.0.1", "8.4.x", "8.04.0", "8.4.256", "+8.4.0", "8..0", "-1.0.0"]
        {
            check(Kind::Version, word, bad);
        }
    }

    #[test]
    fn memory_has_units() {
        let kind = Kind::Memory(0, i128::from(u64::MAX));
        check(kind, "100", Ok("100"));
        check(kind, "2kb", Ok("2048"));
        check(kind, "2k", Ok("2000"));
        check(kind, "3MB", Ok("3145728"));
        check(kind, "1gb", Ok("1073741824"));
        check(kind, "-1", Err("argument must be a memory value"));
        check(kind, "5xb", Err("argument must be a memory value"));
        check(Kind::MemoryOrPercent, "50%", Ok("50%"));
        check(
            Kind::MemoryOrPercent,
            "150%",
            Err("percentage argument must be less or equal to 100"),
        );
    }

    #[test]
    fn names_are_matched_in_any_case() {
        check(Kind::Bool, "YES", Ok("yes"));
        check(Kind::Bool, "1", Err("argument must be 'yes' or 'no'"));
        check(Kind::Enum(&["a", "b"]), "B", Ok("b"));
        check(Kind::Enum(&["a", "b"]), "c", Err("argument(s) must be one of the following: a, b"));
        let flags = Kind::Flags(&["default", "save", "nosave", "now"]);
        check(flags, "now nosave", Ok("nosave now"));
        check(flags, "default", Ok("default"));
        let refused = flags.parse("shutdown-on-sigint", b"default", &[]);
        assert!(refused.is_err_and(|why| why.starts_with("argument(s) must be one of")));
        check(
            flags,
            "save nosave",
            Err("shutdown options SAVE and NOSAVE can't be used simultaneously"),
        );
    }
}
