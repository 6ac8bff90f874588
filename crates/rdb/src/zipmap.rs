//! Zipmaps: the encoding of small hashes before Redis 2.6. They are read, never written.
//!
//! A byte with the number of fields (from 254 on: unknown), then for each field its length, itself,
//! its value's length, a byte with the number of unused bytes after the value, the value; a byte
//! FF. A length is one byte, or, from 254 on, FE and 32 bits.

const END: u8 = 0xff;
/// A length of 32 bits follows.
const LONG: u8 = 0xfe;

/// Returns the fields with their values, if the bytes are a zipmap.
pub(crate) fn fields(bytes: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let (&count, mut rest) = bytes.split_first()?;
    let mut fields = Vec::new();
    while rest != [END] {
        let (len, after) = length(rest)?;
        let (field, after) = after.split_at_checked(len)?;
        let (len, after) = length(after)?;
        let (&unused, after) = after.split_first()?;
        let (value, after) = after.split_at_checked(len)?;
        rest = after.get(usize::from(unused)..)?;
        fields.push((field, value));
    }
    (count >= 254 || usize::from(count) == fields.len()).then_some(fields)
}

fn length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    match first {
        LONG => {
            let (len, rest) = rest.split_first_chunk()?;
            let len = u32::from_le_bytes(*len);
            // A short length is never written like this.
            (len >= u32::from(LONG)).then_some((len as usize, rest))
        }
        END => None,
        short => Some((usize::from(short), rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_unused_bytes_are_read() {
        let bytes = b"\x02\x03foo\x03\x00bar\x05hello\x05\x02worldxx\xff";
        let expected: [(&[u8], &[u8]); 2] = [(b"foo", b"bar"), (b"hello", b"world")];
        assert_eq!(fields(bytes).as_deref(), Some(&expected[..]));
        assert_eq!(fields(b"\x00\xff"), Some(Vec::new()));
        for end in 0..bytes.len() {
            assert_eq!(fields(&bytes[..end]), None, "cut at {end}");
        }
        assert_eq!(fields(b"\x03\x03foo\x03\x00bar\xff"), None);
        let long = [b"\x01\xfe\xfe\0\0\0".as_slice(), &[b'x'; 254], b"\x01\0v\xff"].concat();
        assert_eq!(fields(&long).map(|fields| fields[0].0.len()), Some(254));
        assert_eq!(fields(b"\x01\xfe\x01\0\0\0f\x01\0v\xff"), None);
        assert_eq!(fields(b"\x01\x01f\xfe\x01\0\0\0\0v\xff"), None);
    }
}
