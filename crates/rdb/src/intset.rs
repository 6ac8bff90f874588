//! Intsets: sorted integers of 2, 4 or 8 bytes each, after their width and their count, of 32 bits
//! each.

/// Returns the integers, if the bytes are an intset: ascending, each once.
pub(crate) fn parse(bytes: &[u8]) -> Option<impl Iterator<Item = i64> + '_> {
    let (width, rest) = bytes.split_first_chunk()?;
    let (count, body) = rest.split_first_chunk()?;
    let width = u32::from_le_bytes(*width) as usize;
    let count = u32::from_le_bytes(*count) as usize;
    if !matches!(width, 2 | 4 | 8) || count.checked_mul(width) != Some(body.len()) {
        return None;
    }
    let ints = move || {
        body.chunks_exact(width).map(move |low| {
            let mut wide = [0; 8];
            wide[8 - width..].copy_from_slice(low);
            i64::from_le_bytes(wide) >> (64 - 8 * width)
        })
    };
    let rises = ints().zip(ints().skip(1)).all(|(low, high)| low < high);
    rises.then(ints)
}

/// Returns the intset of these ascending integers.
pub fn intset(ints: &[i64]) -> Vec<u8> {
    let fits = |min: i64, max: i64| ints.iter().all(|int| (min..=max).contains(int));
    let width = if fits(i64::from(i16::MIN), i64::from(i16::MAX)) {
        2
    } else if fits(i64::from(i32::MIN), i64::from(i32::MAX)) {
        4
    } else {
        8
    };
    let mut bytes = Vec::with_capacity(8 + ints.len() * width);
    bytes.extend_from_slice(&(width as u32).to_le_bytes());
    bytes.extend_from_slice(&(ints.len() as u32).to_le_bytes());
    for int in ints {
        bytes.extend_from_slice(&int.to_le_bytes()[..width]);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_each_width_come_back() {
        for ints in [vec![1], vec![-32768, 32767], vec![-1, 32768], vec![i64::MIN, 0, i64::MAX]] {
            let bytes = intset(&ints);
            assert!(parse(&bytes).expect("an intset").eq(ints));
        }
    }

    #[test]
    fn what_does_not_ascend_is_refused() {
        assert!(parse(&intset(&[2, 1])).is_none());
        assert!(parse(&intset(&[1, 1])).is_none());
        assert!(parse(&intset(&[1, 2])[..11]).is_none());
        assert!(parse(b"\x03\0\0\0\x01\0\0\0abc").is_none());
    }
}
