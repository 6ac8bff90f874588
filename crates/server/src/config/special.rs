//! Values with a shape of their own: `save`, `bind`, `client-output-buffer-limit` and the like.
//!
//! Each function turns the words of a line into the canonical value, or says in Redis's words what
//! is wrong with them. They are pure but for `directory`, which asks the file system.

use super::kind::{integer, memory};

const CLASSES: [&str; 3] = ["normal", "slave", "pubsub"];

/// The sessions that are kept for `tls-session-cache-size 0`: OpenSSL's default, and Redis's.
pub const USUAL_SESSIONS: usize = 20_480;

/// Redis's save points.
pub const SAVE_POINTS: &str = "3600 1 300 100 60 10000";

/// The presets of `client-output-buffer-limit`.
pub const OUTPUT_LIMITS: [OutputLimit; 3] = [
    OutputLimit { hard: 0, soft: 0, seconds: 0 },
    OutputLimit { hard: 256 << 20, soft: 64 << 20, seconds: 60 },
    OutputLimit { hard: 32 << 20, soft: 8 << 20, seconds: 60 },
];

fn joined(words: &[&[u8]]) -> Vec<u8> {
    words.join(&b' ')
}

pub(super) fn directory(word: &[u8]) -> Result<Vec<u8>, String> {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let path = std::path::Path::new(std::ffi::OsStr::from_bytes(word));
    let full =
        std::fs::canonicalize(path).map_err(|error| crate::process::text::os_error(&error))?;
    if !full.is_dir() {
        return Err("Not a directory".into());
    }
    Ok(full.into_os_string().into_vec())
}

pub(super) fn save(words: &[&[u8]]) -> Result<Vec<u8>, String> {
    if matches!(words, [b""]) {
        return Ok(Vec::new());
    }
    let wrong = || String::from("Invalid save parameters");
    if !words.len().is_multiple_of(2) {
        return Err(wrong());
    }
    for (at, word) in words.iter().enumerate() {
        let least = if at % 2 == 0 { 1 } else { 0 };
        integer(word).filter(|n| *n >= least).ok_or_else(wrong)?;
    }
    Ok(joined(words))
}

/// Hard limit, soft limit and seconds of a class of clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputLimit {
    /// Bytes at which the connection is closed at once; 0 for no limit.
    pub hard: u64,
    /// Bytes at which it is closed when it stays there.
    pub soft: u64,
    /// For how long it may stay there.
    pub seconds: u64,
}

/// Reads a canonical `client-output-buffer-limit`: normal, replica, pubsub.
pub fn read_output_limits(value: &[u8]) -> [OutputLimit; 3] {
    let mut limits = [OutputLimit::default(); 3];
    let words: Vec<&[u8]> = value.split(|b| *b == b' ').collect();
    for group in words.chunks_exact(4) {
        if let (Some(at), Some(limit)) = (class(group[0]), output_limit(group)) {
            limits[at] = limit;
        }
    }
    limits
}

fn class(word: &[u8]) -> Option<usize> {
    let word = word.to_ascii_lowercase();
    if word == b"replica" {
        return Some(1);
    }
    CLASSES.iter().position(|name| name.as_bytes() == word)
}

fn output_limit(group: &[&[u8]]) -> Option<OutputLimit> {
    let seconds = integer(group[3]).and_then(|n| u64::try_from(n).ok())?;
    Some(OutputLimit { hard: memory(group[1])?, soft: memory(group[2])?, seconds })
}

pub(super) fn output_limits(current: &[u8], words: &[&[u8]]) -> Result<Vec<u8>, String> {
    if words.is_empty() || !words.len().is_multiple_of(4) {
        return Err("Wrong number of arguments in buffer limit configuration.".into());
    }
    let mut limits = read_output_limits(current);
    for group in words.chunks_exact(4) {
        let at = class(group[0])
            .ok_or("Invalid client class specified in buffer limit configuration.")?;
        limits[at] = output_limit(group)
            .ok_or("Error in hard, soft or soft_seconds setting in buffer limit configuration.")?;
    }
    Ok(output_limits_text(&limits))
}

/// Returns the canonical form of `client-output-buffer-limit`.
pub(super) fn output_limits_text(limits: &[OutputLimit; 3]) -> Vec<u8> {
    let lines: Vec<String> = CLASSES
        .iter()
        .zip(limits)
        .map(|(name, l)| format!("{name} {} {} {}", l.hard, l.soft, l.seconds))
        .collect();
    lines.join(" ").into_bytes()
}

pub(super) fn oom_values(words: &[&[u8]]) -> Result<Vec<u8>, String> {
    if words.len() != 3 {
        return Err("wrong number of arguments".into());
    }
    for word in words {
        integer(word)
            .filter(|n| (-2000..=2000).contains(n))
            .ok_or("Invalid oom-score-adj-values, elements must be between -2000 and 2000.")?;
    }
    Ok(joined(words))
}

/// The letters of `notify-keyspace-events` in the order in which Redis answers them.
const EVENT_CLASSES: &[u8] = b"g$lshzxetd";

pub(super) fn events(word: &[u8]) -> Result<Vec<u8>, String> {
    let known = |b: &u8| EVENT_CLASSES.contains(b) || b"AKEmn".contains(b);
    if !word.iter().all(known) {
        return Err("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".into());
    }
    let has = |b: u8| word.contains(&b);
    let mut out = Vec::new();
    if has(b'A') || EVENT_CLASSES.iter().all(|b| has(*b)) {
        out.push(b'A');
    } else {
        out.extend(EVENT_CLASSES.iter().filter(|b| has(**b)));
    }
    // Redis 7.0 leaves `n` out after `A`, so that CONFIG REWRITE loses it.
    out.extend(b"nKEm".iter().filter(|b| has(**b)));
    Ok(out)
}

pub(super) fn bind(words: &[&[u8]]) -> Result<Vec<u8>, String> {
    if words.len() > 16 {
        return Err("Too many bind addresses specified.".into());
    }
    if matches!(words, [b""]) {
        return Ok(Vec::new());
    }
    Ok(joined(words))
}

pub(super) fn replica_of(words: &[&[u8]]) -> Result<Vec<u8>, String> {
    let [host, port] = words else {
        return Err("wrong number of arguments".into());
    };
    if host.eq_ignore_ascii_case(b"no") && port.eq_ignore_ascii_case(b"one") {
        return Ok(Vec::new());
    }
    integer(port).filter(|n| (0..=65535).contains(n)).ok_or("Invalid master port")?;
    Ok(joined(words))
}

pub(super) fn percentiles(words: &[&[u8]]) -> Result<Vec<u8>, String> {
    if matches!(words, [b""]) {
        return Ok(Vec::new());
    }
    let mut shown: Vec<Vec<u8>> = Vec::with_capacity(words.len());
    for word in words {
        let number = std::str::from_utf8(word).ok().and_then(|w| w.parse::<f64>().ok());
        let number = number.ok_or("Invalid latency-tracking-info-percentiles parameters")?;
        if !(0.0..=100.0).contains(&number) {
            return Err(
                "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]"
                    .into(),
            );
        }
        shown.push(number.to_string().into_bytes());
    }
    Ok(shown.join(&b' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<&[u8]> {
        line.split(' ').map(str::as_bytes).collect()
    }

    #[test]
    fn output_limits_change_only_the_classes_named() {
        let value =
            output_limits(&output_limits_text(&OUTPUT_LIMITS), &words("replica 1mb 512kb 10"));
        let expect = "normal 0 0 0 slave 1048576 524288 10 pubsub 33554432 8388608 60";
        assert_eq!(value, Ok(expect.into()));
        let normal = OutputLimit { hard: 5, soft: 4, seconds: 3 };
        assert_eq!(read_output_limits(b"normal 5 4 3")[0], normal);
        assert!(output_limits(b"", &words("friend 1 1 1")).is_err());
    }

    #[test]
    fn percentiles_are_shown_as_short_as_they_are() {
        assert_eq!(percentiles(&words("0.0 50.0 99.90 100")), Ok("0 50 99.9 100".into()));
        assert_eq!(percentiles(&[b""]), Ok(vec![]));
        for wrong in ["101", "-1", "a", "nan", "50 "] {
            assert!(percentiles(&words(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn save_points_come_in_pairs() {
        assert_eq!(save(&words("900 1 300 10")), Ok("900 1 300 10".into()));
        assert_eq!(save(&[b""]), Ok(vec![]));
        assert!(save(&words("900")).is_err());
        assert!(save(&words("0 1")).is_err());
    }

    #[test]
    fn event_classes_are_put_in_order() {
        assert_eq!(events(b"lEK$"), Ok(b"$lKE".to_vec()));
        assert_eq!(events(b"g$lshzxetd"), Ok(b"A".to_vec()));
        assert!(events(b"Q").is_err());
    }
}
