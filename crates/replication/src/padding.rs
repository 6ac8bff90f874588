//! Commands that do nothing, of any length: they take the place of commands whose commit failed.
//!
//! What a commit is about to append has its place in the stream before it is known whether the
//! commit succeeds, and others follow it. If it fails, its bytes are overwritten by PINGs of the
//! same length. Redis, Valkey and RedisShake accept `PING <text>` from a primary, and count its
//! bytes as those of any command.
//!
//! A few lengths cannot be made of PINGs. Commands of such a length get a plain PING in front of
//! them when they are appended.

use crate::PING;

/// Maximum length of one padding command, so that no receiver has to hold much of it.
const LONGEST: usize = 1 << 20;
/// The bytes of `PING <text>` besides the digits of the text's length and the text.
const FRAME: usize = b"*2\r\n$4\r\nPING\r\n$\r\n\r\n".len();

/// Returns commands of `len` bytes in all that do nothing; none if there are none of that length.
pub fn padding(len: usize) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(len);
    while len - out.len() >= 2 * LONGEST {
        push_text(&mut out, text_of(LONGEST)?);
    }
    let rest = len - out.len();
    match (text_of(rest), rest.checked_sub(PING.len())) {
        (Some(text), _) => push_text(&mut out, text),
        (None, Some(0)) => out.extend_from_slice(PING),
        (None, Some(rest)) => {
            let text = text_of(rest)?;
            out.extend_from_slice(PING);
            push_text(&mut out, text);
        }
        (None, None) => return None,
    }
    debug_assert_eq!(out.len(), len);
    Some(out)
}

/// Returns how many PINGs commands of `len` bytes need in front of them so that all can be padded.
pub fn pings_before(len: usize) -> usize {
    let can_pad = |pings: &usize| {
        let all = len + pings * PING.len();
        let fits = |len: usize| len == PING.len() || text_of(len).is_some();
        // Two parts of it are as good as one.
        all >= 2 * LONGEST || fits(all) || all.checked_sub(PING.len()).is_some_and(fits)
    };
    (0..4).find(can_pad).unwrap_or(0)
}

/// Returns the length of the text with which `PING <text>` has `len` bytes.
fn text_of(len: usize) -> Option<usize> {
    let digits = |number: usize| number.checked_ilog10().map_or(1, |log| log as usize + 1);
    let rest = len.checked_sub(FRAME)?;
    let text = |count: usize| rest.checked_sub(count).filter(|text| digits(*text) == count);
    (1..=digits(rest)).find_map(text)
}

fn push_text(out: &mut Vec<u8>, len: usize) {
    out.extend_from_slice(format!("*2\r\n$4\r\nPING\r\n${len}\r\n").as_bytes());
    out.resize(out.len() + len, b' ');
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::StreamReader;

    /// Checks that `bytes` are PINGs, and nothing else.
    fn check_pings(bytes: &[u8]) {
        let mut reader = StreamReader::new(0, 4 << 20);
        reader.push(bytes);
        while reader.parse().expect("commands") {}
        assert!(reader.items().all(|item| item.words().next() == Some(b"PING")));
        assert_eq!(reader.items().last().map(|item| item.offset()), Some(bytes.len() as u64));
    }

    #[test]
    fn padding_has_exactly_the_length_that_is_wanted() {
        let mut impossible = Vec::new();
        for len in 1..12_000 {
            match padding(len) {
                None => impossible.push(len),
                Some(bytes) => {
                    assert_eq!((bytes.len(), pings_before(len)), (len, 0));
                    check_pings(&bytes);
                }
            }
        }
        let expected: Vec<usize> = (1..14).chain(15..20).chain([30]).collect();
        assert_eq!(impossible, expected);
    }

    #[test]
    fn commands_that_cannot_be_padded_get_pings_in_front_of_them() {
        for len in (1..40).chain(110..130) {
            let all = len + pings_before(len) * PING.len();
            assert_eq!(padding(all).map(|bytes| bytes.len()), Some(all), "{len}");
        }
        assert_eq!([17, 16, 30, 31].map(pings_before), [1, 2, 1, 0]);
    }

    #[test]
    fn long_padding_is_made_of_several_commands() {
        for more in (0..60).chain(LONGEST - 60..LONGEST + 60) {
            let len = 2 * LONGEST + more;
            let bytes = padding(len).expect("padding");
            assert_eq!((bytes.len(), pings_before(len)), (len, 0));
        }
        check_pings(&padding(5 * LONGEST + 7).expect("padding"));
    }
}
