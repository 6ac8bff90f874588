//! Strings of a dump, read by the format's description alone: integers, compressed bytes,
//! listpacks, sets of integers. What is longer than the format allows is an error too.

/// Bytes, and how many of them were read.
pub(crate) struct Input<'b> {
    pub(crate) bytes: &'b [u8],
    pub(crate) at: usize,
    /// Long strings may be compressed, and are if that is worth it.
    pub(crate) compresses: bool,
}

pub(crate) type Read<T> = Result<T, String>;

/// Returns the text of an integer that a number of bits represents in no shorter form.
fn int(value: i64, bits: u32, shorter: &[u32]) -> Read<Vec<u8>> {
    let fits = |bits: u32| value >= -(1 << (bits - 1)) && value < 1 << (bits - 1);
    match shorter.iter().any(|bits| fits(*bits)) {
        true => Err(format!("{value} in {bits} bits")),
        false => Ok(value.to_string().into_bytes()),
    }
}

fn is_int(text: &[u8]) -> bool {
    let text = std::str::from_utf8(text).unwrap_or_default();
    text.parse::<i64>().is_ok_and(|value| value.to_string() == text)
}

impl<'b> Input<'b> {
    pub(crate) fn take(&mut self, len: usize) -> Read<&'b [u8]> {
        let rest = &self.bytes[self.at..];
        let taken = rest.get(..len).ok_or_else(|| format!("{len} bytes of {}", rest.len()))?;
        self.at += len;
        Ok(taken)
    }

    pub(crate) fn byte(&mut self) -> Read<u8> {
        Ok(self.take(1)?[0])
    }

    pub(crate) fn number(&mut self, len: usize) -> Read<u64> {
        let bytes = self.take(len)?;
        Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn signed(&mut self, len: usize) -> Read<i64> {
        let shift = 64 - 8 * len as u32;
        Ok((self.number(len)? << shift) as i64 >> shift)
    }

    pub(crate) fn length(&mut self) -> Read<u64> {
        let first = self.byte()?;
        let big = |bytes: &[u8]| bytes.iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
        let (length, least) = match first {
            0..64 => (u64::from(first), 0),
            64..128 => (u64::from(first & 63) << 8 | u64::from(self.byte()?), 64),
            0x80 => (big(self.take(4)?), 1 << 14),
            0x81 => (big(self.take(8)?), 1 << 32),
            _ => return Err(format!("a length begins with {first:#x}")),
        };
        if length < least { Err(format!("{length} in too many bytes")) } else { Ok(length) }
    }

    pub(crate) fn string(&mut self) -> Read<Vec<u8>> {
        match self.bytes.get(self.at) {
            Some(first @ 0xc0..=0xc2) => {
                self.at += 1;
                let len = 1 << (first & 3);
                let shorter = [&[][..], &[8], &[8, 16]][usize::from(first & 3)];
                int(self.signed(len)?, 8 * len as u32, shorter)
            }
            Some(0xc3) => {
                self.at += 1;
                let (packed, len) = (self.length()? as usize, self.length()? as usize);
                if !self.compresses || len <= 20 || packed + 4 > len {
                    return Err(format!("{len} bytes are compressed to {packed}"));
                }
                decompressed(self.take(packed)?, len)
            }
            _ => {
                let len = self.length()? as usize;
                let text = self.take(len)?;
                let is_short = text.len() <= 11 && is_int(text);
                if is_short
                    && text.len() < 12
                    && String::from_utf8_lossy(text).parse::<i32>().is_ok()
                {
                    return Err(format!("{} as text", text.escape_ascii()));
                }
                let is_alike = len > 20 && text.iter().all(|byte| *byte == text[0]);
                if self.compresses && is_alike {
                    return Err(format!("{len} times the same byte is not compressed"));
                }
                Ok(text.to_vec())
            }
        }
    }
}

/// Returns what LZF represents.
fn decompressed(packed: &[u8], len: usize) -> Read<Vec<u8>> {
    let (mut out, mut at) = (Vec::with_capacity(len), 0);
    let byte = |at: usize| packed.get(at).copied().map(usize::from).ok_or("it ends");
    while at < packed.len() {
        let control = byte(at)?;
        at += 1;
        if control < 32 {
            out.extend_from_slice(packed.get(at..at + control + 1).ok_or("it ends")?);
            at += control + 1;
            continue;
        }
        let mut count = (control >> 5) + 2;
        if count == 9 {
            count += byte(at)?;
            at += 1;
        }
        let distance = ((control & 31) << 8 | byte(at)?) + 1;
        at += 1;
        let from = out.len().checked_sub(distance).ok_or("it refers to what is before it")?;
        (from..from + count).for_each(|at| out.push(out[at]));
    }
    if out.len() == len { Ok(out) } else { Err(format!("{} bytes and not {len}", out.len())) }
}

/// Returns the elements of a listpack, and the place of each in it.
pub(crate) fn listpack(pack: &[u8]) -> Read<Vec<(Vec<u8>, usize)>> {
    let mut input = Input { bytes: pack, at: 0, compresses: false };
    let (len, count) = (input.number(4)? as usize, input.number(2)? as usize);
    let mut elements = Vec::new();
    while pack.get(input.at).is_some_and(|byte| *byte != 0xff) {
        let begin = input.at;
        let element = element(&mut input)?;
        let size = input.at - begin;
        let groups = (1..5).find(|n| size < (1 << (7 * n)) - usize::from(*n > 1)).unwrap_or(5);
        // The first group of seven bits comes last.
        for group in (0..groups).rev() {
            let more = if group + 1 < groups { 128 } else { 0 };
            let expected = (size >> (7 * group) & 127) as u8 | more;
            if input.byte()? != expected {
                return Err(format!("an element of {size} bytes has another length after it"));
            }
        }
        elements.push((element, begin));
    }
    let is_counted = count == elements.len().min(0xffff);
    if !is_counted || len != pack.len() || input.at + 1 != len {
        return Err(format!("a listpack of {len} bytes and {count} elements: {}", elements.len()));
    }
    Ok(elements)
}

fn element(input: &mut Input<'_>) -> Read<Vec<u8>> {
    let first = input.byte()?;
    let len = match first {
        0..128 => return Ok(first.to_string().into_bytes()),
        128..192 => usize::from(first & 63),
        192..224 => {
            let bits = i64::from(first & 31) << 8 | i64::from(input.byte()?);
            let value = (bits << 51) >> 51;
            return match (0..128).contains(&value) {
                true => Err(format!("{value} in 13 bits")),
                false => Ok(value.to_string().into_bytes()),
            };
        }
        224..240 => usize::from(first & 15) << 8 | usize::from(input.byte()?),
        0xf0 => input.number(4)? as usize,
        0xf1 => return int(input.signed(2)?, 16, &[13]),
        0xf2 => return int(input.signed(3)?, 24, &[16]),
        0xf3 => return int(input.signed(4)?, 32, &[24]),
        0xf4 => return int(input.signed(8)?, 64, &[32]),
        _ => return Err(format!("an element begins with {first:#x}")),
    };
    let least = if first == 0xf0 {
        4096
    } else if first >= 224 {
        64
    } else {
        0
    };
    let text = input.take(len)?;
    if len < least || is_int(text) {
        return Err(format!("an element of {len} bytes begins with {first:#x}"));
    }
    Ok(text.to_vec())
}

/// Returns the number of sorted integers, of the least width.
pub(crate) fn intset(bytes: &[u8]) -> Read<usize> {
    let mut input = Input { bytes, at: 0, compresses: false };
    let (width, count) = (input.number(4)? as usize, input.number(4)? as usize);
    let ints: Vec<i64> = (0..count).map(|_| input.signed(width)).collect::<Read<_>>()?;
    let fits = |bits: usize| {
        let most = i64::MAX >> (64 - bits);
        ints.iter().all(|int| (-most - 1..=most).contains(int))
    };
    let is_least = width == 2 || !fits(4 * width);
    let is_right = is_least && ints.is_sorted_by(|a, b| a < b) && input.at == bytes.len();
    if is_right { Ok(count) } else { Err(format!("{count} integers of {width} bytes")) }
}
