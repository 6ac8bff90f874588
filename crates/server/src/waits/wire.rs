//! As much of the protocol as is needed to find the end of a reply.

/// Returns a request on the wire.
pub(crate) fn request<A: AsRef<[u8]>>(words: &[A]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.as_ref().len()).as_bytes());
        bytes.extend_from_slice(word.as_ref());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Returns how many complete replies there are, without pushes.
pub(crate) fn count(bytes: &[u8]) -> usize {
    split(bytes).iter().filter(|reply| reply[0] != b'>').count()
}

/// Returns the complete replies and pushes, in order.
pub(crate) fn split(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut replies = Vec::new();
    while let Some(len) = len(bytes) {
        let (reply, rest) = bytes.split_at(len);
        replies.push(reply);
        bytes = rest;
    }
    replies
}

/// Returns the length of the first reply, if all of it is there.
fn len(bytes: &[u8]) -> Option<usize> {
    let line = bytes.windows(2).position(|end| end == b"\r\n")? + 2;
    let number = || std::str::from_utf8(&bytes[1..line - 2]).ok()?.parse::<i64>().ok();
    let parts = match bytes[0] {
        b'$' | b'=' => {
            let end = usize::try_from(number()?).map_or(line, |len| line + len + 2);
            return (end <= bytes.len()).then_some(end);
        }
        b'*' | b'~' | b'>' => number()?,
        b'%' => number()? * 2,
        _ => 0,
    };
    let mut end = line;
    for _ in 0..parts {
        end += len(&bytes[end..])?;
    }
    Some(end)
}

#[test]
fn a_reply_ends_where_the_next_one_begins() {
    let replies: [&[u8]; 6] = [
        b"+OK\r\n",
        b"$-1\r\n",
        b"*2\r\n$2\r\na\n\r\n:1\r\n",
        b">2\r\n+a\r\n*-1\r\n",
        b"%1\r\n+a\r\n_\r\n",
        b"$0\r\n\r\n",
    ];
    let all = replies.concat();
    assert_eq!(split(&all), replies);
    assert_eq!(count(&all), 5);
    (0..all.len()).for_each(|len| assert!(split(&all[..len]).len() < replies.len()));
}
