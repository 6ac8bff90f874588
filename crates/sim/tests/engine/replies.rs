//! Takes replies apart.

pub(crate) fn is_error(reply: &[u8]) -> bool {
    reply.first() == Some(&b'-')
}

/// Returns the replies in a buffer.
pub(crate) fn replies(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let len = reply_len(rest)?;
        let (reply, following) = rest.split_at(len);
        rest = following;
        Some(reply)
    })
}

/// Returns the replies in an array.
pub(crate) fn elements(array: &[u8]) -> impl Iterator<Item = &[u8]> {
    replies(after_line(array))
}

/// Returns the bytes of a bulk string.
pub(crate) fn bulk(reply: &[u8]) -> &[u8] {
    let bytes = after_line(reply);
    &bytes[..bytes.len().saturating_sub(2)]
}

fn after_line(reply: &[u8]) -> &[u8] {
    let end = reply.iter().position(|byte| *byte == b'\n').map_or(reply.len(), |at| at + 1);
    &reply[end..]
}

fn reply_len(bytes: &[u8]) -> Option<usize> {
    let line = bytes.iter().position(|byte| *byte == b'\n')? + 1;
    let number =
        || std::str::from_utf8(&bytes[1..line - 2]).ok().and_then(|text| text.parse::<i64>().ok());
    Some(match bytes[0] {
        b'$' => line + usize::try_from(number()?).map_or(0, |len| len + 2),
        b'*' => {
            let count = number()?.max(0) as usize;
            let mut end = line;
            for _ in 0..count {
                end += reply_len(&bytes[end..])?;
            }
            end
        }
        _ => line,
    })
}
