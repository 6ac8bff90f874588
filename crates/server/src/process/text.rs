//! Small texts that several modules need: the system's error words, dates.

/// Returns the system's words for an error, without Rust's number after it.
pub(crate) fn os_error(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

/// Returns a word in double quotes, as redis.conf reads it.
pub(crate) fn quote(word: &[u8]) -> String {
    let mut out = Vec::with_capacity(word.len() + 2);
    resp::quoted(&mut out, word);
    String::from_utf8_lossy(&out).into_owned()
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Returns a time as Redis's log writes it, `21 Nov 2026 03:09:37.308`, in UTC.
pub(crate) fn date(unix_ms: u64) -> String {
    let (days, ms) = (unix_ms / 86_400_000, unix_ms % 86_400_000);
    let (year, month, day) = civil(days);
    let (hour, minute) = (ms / 3_600_000, ms / 60_000 % 60);
    let (second, milli) = (ms / 1000 % 60, ms % 1000);
    let month = MONTHS[month as usize - 1];
    format!("{day:02} {month} {year} {hour:02}:{minute:02}:{second:02}.{milli:03}")
}

/// Returns a time as RFC 3339 writes it, `2026-11-21T03:09:37.308Z`.
pub(crate) fn timestamp(unix_ms: u64) -> String {
    let (days, ms) = (unix_ms / 86_400_000, unix_ms % 86_400_000);
    let (year, month, day) = civil(days);
    let (hour, minute) = (ms / 3_600_000, ms / 60_000 % 60);
    let (second, milli) = (ms / 1000 % 60, ms % 1000);
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

/// Returns year, month and day of a day counted from 1970-01-01, in the Gregorian calendar.
fn civil(days: u64) -> (u64, u64, u64) {
    // Years start in March here, so that the leap day is the last of its year.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::{date, timestamp};

    #[test]
    fn dates_are_those_of_the_calendar() {
        let check = |unix_ms, expect: &str| assert_eq!(date(unix_ms), expect);
        check(0, "01 Jan 1970 00:00:00.000");
        check(951_782_400_000, "29 Feb 2000 00:00:00.000");
        check(1_795_230_577_308, "21 Nov 2026 03:09:37.308");
        check(4_102_444_799_999, "31 Dec 2099 23:59:59.999");
        assert_eq!(timestamp(1_795_230_577_308), "2026-11-21T03:09:37.308Z");
    }
}
