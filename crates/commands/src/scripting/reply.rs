//! Converts results of scripts to replies.

use resp::Writer;
use script::Reply;

/// Writes the result of a script.
pub(super) fn write(reply: &Reply, out: &mut Writer) {
    match reply {
        Reply::Nil => out.null(),
        Reply::Status(text) => out.simple(one_line(text)),
        Reply::Error { message, .. } => out.error(error_line(message)),
        Reply::Integer(value) => out.integer(*value),
        Reply::Bulk(bytes) => out.bulk(bytes),
        Reply::Array(items) => {
            out.array(items.len());
            items.iter().for_each(|item| write(item, out));
        }
        Reply::Set(items) => {
            out.set(items.len());
            items.iter().for_each(|item| write(item, out));
        }
        Reply::Map(pairs) => {
            out.map(pairs.len());
            for (key, value) in pairs {
                write(key, out);
                write(value, out);
            }
        }
        Reply::Double(value) => out.double(*value),
        Reply::Bool(value) => out.boolean(*value),
        Reply::BigNumber(digits) => out.big_number(&one_line(digits)),
        Reply::Verbatim { format, text } => {
            let mut letters = *b"txt";
            letters.iter_mut().zip(format).for_each(|(letter, given)| *letter = *given);
            out.verbatim(letters, text);
        }
    }
}

/// Returns the text of an error as it is sent: without line ends after it; others become spaces.
pub(super) fn error_line(text: &[u8]) -> Vec<u8> {
    let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let end = text.iter().rposition(|byte| !is_end(byte)).map_or(0, |last| last + 1);
    one_line(&text[..end])
}

/// Replaces line ends with spaces: a status must be one line.
fn one_line(text: &[u8]) -> Vec<u8> {
    text.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }).collect()
}
