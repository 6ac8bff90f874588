//! JSON as Lua values.

use super::Settings;
use super::settings::DEEPEST;
use crate::arguments::{Arguments, Raise, Results};
use crate::state::{PER_VALUE, spend};
use mlua::{Lua, Value};

/// Implements `cjson.decode(text)`
pub(super) fn decode(call: &Arguments<'_>, settings: Settings) -> Results {
    if call.len() != 1 {
        return Err(call.bad(1, "expected 1 argument"));
    }
    let text = call.bytes(1)?;
    let text = text.as_bytes();
    if text.len() >= 2 && (text[0] == 0 || text[1] == 0) {
        return Err("JSON parser does not support UTF-16 or UTF-32".into());
    }
    let mut parser = Parser { lua: call.lua, settings, text: &text, at: 0 };
    let (token, at) = parser.next();
    let value = parser.value(token, at, 0)?;
    match parser.next() {
        (Token::End, _) => Ok(vec![value]),
        (other, at) => Err(unexpected("the end", &other, at)),
    }
}

enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    Text(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Error(&'static str),
}

impl Token {
    fn name(&self) -> &'static str {
        match self {
            Token::ObjectBegin => "T_OBJ_BEGIN",
            Token::ObjectEnd => "T_OBJ_END",
            Token::ArrayBegin => "T_ARR_BEGIN",
            Token::ArrayEnd => "T_ARR_END",
            Token::Text(_) => "T_STRING",
            Token::Number(_) => "T_NUMBER",
            Token::Boolean(_) => "T_BOOLEAN",
            Token::Null => "T_NULL",
            Token::Colon => "T_COLON",
            Token::Comma => "T_COMMA",
            Token::End => "T_END",
            Token::Error(text) => text,
        }
    }
}

fn unexpected(expected: &str, found: &Token, at: usize) -> Raise {
    let (found, character) = (found.name(), at + 1);
    Raise::Text(format!("Expected {expected} but found {found} at character {character}"))
}

struct Parser<'a> {
    lua: &'a Lua,
    settings: Settings,
    text: &'a [u8],
    at: usize,
}

impl Parser<'_> {
    /// Returns the byte at a position, 0 after the end.
    fn byte(&self, at: usize) -> u8 {
        self.text.get(at).copied().unwrap_or(0)
    }

    /// Reads a token. Returns it with its position.
    fn next(&mut self) -> (Token, usize) {
        while matches!(self.byte(self.at), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
        let from = self.at;
        let single = match self.byte(from) {
            b'{' => Token::ObjectBegin,
            b'}' => Token::ObjectEnd,
            b'[' => Token::ArrayBegin,
            b']' => Token::ArrayEnd,
            b':' => Token::Colon,
            b',' => Token::Comma,
            0 => return (Token::End, from),
            b'"' => return self.string(),
            _ => return (self.word(), from),
        };
        self.at += 1;
        (single, from)
    }

    /// Returns a number, or a name.
    fn word(&mut self) -> Token {
        let rest = &self.text[self.at..];
        let invalid = self.settings.decode_invalid;
        let first = rest[0];
        if first == b'-' || first.is_ascii_digit() {
            if !invalid && is_beyond_json(rest) {
                return Token::Error("invalid number");
            }
            return self.number();
        }
        let names: [(&[u8], Token); 3] = [
            (b"true", Token::Boolean(true)),
            (b"false", Token::Boolean(false)),
            (b"null", Token::Null),
        ];
        for (name, token) in names {
            if rest.starts_with(name) {
                self.at += name.len();
                return token;
            }
        }
        if invalid && is_beyond_json(rest) {
            return self.number();
        }
        Token::Error("invalid token")
    }

    fn number(&mut self) -> Token {
        match parse_number(&self.text[self.at..]) {
            Some((number, length)) => {
                self.at += length;
                Token::Number(number)
            }
            None => Token::Error("invalid number"),
        }
    }

    /// Reads a string. Returns it with its position; for an error, with the position where it was
    /// found.
    fn string(&mut self) -> (Token, usize) {
        let from = self.at;
        let mut out = Vec::new();
        self.at += 1;
        loop {
            match self.byte(self.at) {
                b'"' => break,
                0 => return (Token::Error("unexpected end of string"), self.at),
                b'\\' => {
                    let escaped = match self.byte(self.at + 1) {
                        byte @ (b'"' | b'\\' | b'/') => byte,
                        b'b' => 0x08,
                        b't' => b'\t',
                        b'n' => b'\n',
                        b'f' => 0x0c,
                        b'r' => b'\r',
                        b'u' => {
                            if self.unicode(&mut out).is_none() {
                                return (Token::Error("invalid unicode escape code"), self.at);
                            }
                            continue;
                        }
                        _ => return (Token::Error("invalid escape code"), self.at),
                    };
                    out.push(escaped);
                    self.at += 2;
                }
                byte => {
                    out.push(byte);
                    self.at += 1;
                }
            }
        }
        self.at += 1;
        (Token::Text(out), from)
    }

    /// Reads four hexadecimal digits.
    fn hex(&self, at: usize) -> Option<u32> {
        let digits = self.text.get(at..at + 4)?;
        digits.iter().try_fold(0, |value, digit| Some(value << 4 | (*digit as char).to_digit(16)?))
    }

    /// Reads `\uXXXX`, or two of them for a character beyond 16 bits.
    fn unicode(&mut self, out: &mut Vec<u8>) -> Option<()> {
        let mut code = self.hex(self.at + 2)?;
        let mut length = 6;
        if code & 0xf800 == 0xd800 {
            if code & 0x400 != 0 || self.text.get(self.at + 6..self.at + 8)? != b"\\u" {
                return None;
            }
            let low = self.hex(self.at + 8)?;
            if low & 0xfc00 != 0xdc00 {
                return None;
            }
            code = ((code & 0x3ff) << 10 | (low & 0x3ff)) + 0x1_0000;
            length = 12;
        }
        let mut bytes = [0; 4];
        out.extend_from_slice(char::from_u32(code)?.encode_utf8(&mut bytes).as_bytes());
        self.at += length;
        Some(())
    }

    fn value(&mut self, token: Token, at: usize, depth: i64) -> Result<Value, Raise> {
        spend(PER_VALUE + 8 * (self.at - at))?;
        match token {
            Token::Text(text) => Ok(Value::String(self.lua.create_string(text)?)),
            Token::Number(number) => Ok(Value::Number(number)),
            Token::Boolean(flag) => Ok(Value::Boolean(flag)),
            Token::Null => Ok(Value::NULL),
            Token::ObjectBegin => self.object(self.deeper(depth)?),
            Token::ArrayBegin => self.array(self.deeper(depth)?),
            other => Err(unexpected("value", &other, at)),
        }
    }

    fn deeper(&self, depth: i64) -> Result<i64, Raise> {
        let depth = depth + 1;
        if depth > self.settings.decode_depth.min(DEEPEST) {
            let at = self.at;
            let text = format!("Found too many nested data structures ({depth}) at character {at}");
            return Err(Raise::Text(text));
        }
        Ok(depth)
    }

    fn object(&mut self, depth: i64) -> Result<Value, Raise> {
        let table = self.lua.create_table()?;
        let (mut token, mut at) = self.next();
        if matches!(token, Token::ObjectEnd) {
            return Ok(Value::Table(table));
        }
        loop {
            let Token::Text(key) = token else {
                return Err(unexpected("object key string", &token, at));
            };
            (token, at) = self.next();
            if !matches!(token, Token::Colon) {
                return Err(unexpected("colon", &token, at));
            }
            (token, at) = self.next();
            let value = self.value(token, at, depth)?;
            table.raw_set(self.lua.create_string(key)?, value)?;
            match self.next() {
                (Token::ObjectEnd, _) => return Ok(Value::Table(table)),
                (Token::Comma, _) => (token, at) = self.next(),
                (other, at) => return Err(unexpected("comma or object end", &other, at)),
            }
        }
    }

    fn array(&mut self, depth: i64) -> Result<Value, Raise> {
        let table = self.lua.create_table()?;
        let (mut token, mut at) = self.next();
        if matches!(token, Token::ArrayEnd) {
            return Ok(Value::Table(table));
        }
        for index in 1.. {
            let value = self.value(token, at, depth)?;
            table.raw_set(index, value)?;
            match self.next() {
                (Token::ArrayEnd, _) => break,
                (Token::Comma, _) => (token, at) = self.next(),
                (other, at) => return Err(unexpected("comma or array end", &other, at)),
            }
        }
        Ok(Value::Table(table))
    }
}

/// Returns true for a number that C's `strtod` accepts and JSON does not.
fn is_beyond_json(text: &[u8]) -> bool {
    if text.first() == Some(&b'+') {
        return true;
    }
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let starts = |name: &[u8]| text.get(..3).is_some_and(|head| head.eq_ignore_ascii_case(name));
    match text {
        [b'0', next, ..] => matches!(next, b'x' | b'X' | b'0'..=b'9'),
        _ => starts(b"inf") || starts(b"nan"),
    }
}

/// Reads a number like C's `strtod`. Returns it with its length.
fn parse_number(text: &[u8]) -> Option<(f64, usize)> {
    let signed = usize::from(matches!(text.first(), Some(b'+' | b'-')));
    let is_negative = text.first() == Some(&b'-');
    // A product with -1 would not change the sign of what is not a number.
    let signed_value = |value: f64| if is_negative { -value } else { value };
    let rest = &text[signed..];
    let starts = |name: &str| {
        rest.get(..name.len()).is_some_and(|head| head.eq_ignore_ascii_case(name.as_bytes()))
    };
    for (name, value) in [("infinity", f64::INFINITY), ("inf", f64::INFINITY), ("nan", f64::NAN)] {
        if starts(name) {
            return Some((signed_value(value), signed + name.len()));
        }
    }
    if starts("0x")
        && let Some((value, length)) = parse_hexadecimal(rest)
    {
        return Some((signed_value(value), signed + length));
    }
    let count = |from: usize| rest[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let whole = count(0);
    let mut end = whole;
    let mut fraction = 0;
    if rest.get(end) == Some(&b'.') {
        fraction = count(end + 1);
        if whole + fraction > 0 {
            end += 1 + fraction;
        }
    }
    if whole + fraction == 0 {
        return None;
    }
    if matches!(rest.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(rest.get(end + 1), Some(b'+' | b'-')));
        let digits = rest.get(end + 1 + sign..).map_or(0, |_| count(end + 1 + sign));
        if digits > 0 {
            end += 1 + sign + digits;
        }
    }
    let number: f64 = std::str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
    Some((signed_value(number), signed + end))
}

/// Reads the hexadecimal number at the beginning of a text, with a fraction and a power of two.
/// Returns it with its length.
fn parse_hexadecimal(text: &[u8]) -> Option<(f64, usize)> {
    let digits = |from: usize| text[from..].iter().take_while(|b| b.is_ascii_hexdigit()).count();
    let prefix = "0x".len();
    let whole = digits(prefix);
    let mut end = prefix + whole;
    if text.get(end) == Some(&b'.') {
        end += 1 + digits(end + 1);
    }
    if end - prefix <= 1 && whole == 0 {
        return None;
    }
    let mut is_small = false;
    if matches!(text.get(end), Some(b'p' | b'P')) {
        let sign = text.get(end + 1).copied();
        let from = end + 1 + usize::from(matches!(sign, Some(b'+' | b'-')));
        let power = text.iter().skip(from).take_while(|byte| byte.is_ascii_digit()).count();
        if power > 0 {
            end = from + power;
            is_small = sign == Some(b'-');
        }
    }
    let out_of_range = if is_small { 0.0 } else { f64::INFINITY };
    Some((resp::number::parse_f64(&text[..end]).unwrap_or(out_of_range), end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_numbers_are_read_as_by_c() {
        for (text, number, length) in [
            ("0x1F,", 31.0, 4),
            ("-0x.8p1]", -1.0, 7),
            ("0x.0xEE", 0.0, 4),
            ("0x1.8", 1.5, 5),
            ("0x1.p-1p", 0.5, 7),
            ("0xap+", 10.0, 3),
            ("0x1p", 1.0, 3),
            ("0x.", 0.0, 1),
            ("0xg", 0.0, 1),
            ("0x1p1100 ", f64::INFINITY, 8),
            ("0x1p99999999999999999999", f64::INFINITY, 24),
            ("0x1p-1074", f64::from_bits(1), 9),
            ("0x0p9999", 0.0, 8),
        ] {
            assert_eq!(parse_number(text.as_bytes()), Some((number, length)), "{text}");
        }
        let nan = parse_number(b"-nan").expect("strtod reads it");
        assert!(nan.0.is_nan() && nan.0.is_sign_negative());
    }
}
