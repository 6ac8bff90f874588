//! Names with a place for an element: `weight_*`, `object_*->field`, and `#` for the element
//! itself.

/// The pattern of a BY or GET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pattern<'a> {
    /// The element itself.
    Itself,
    /// It has no place for an element, and names no key.
    Constant,
    /// A key or, if it is a hash, its field.
    Key { before: &'a [u8], after: &'a [u8], field: Option<&'a [u8]> },
}

impl<'a> Pattern<'a> {
    /// Parses a pattern. As in Redis, characters after a zero byte are part of names, and `*`, `->`
    /// and `#` have no meaning there.
    pub(super) fn of(text: &'a [u8]) -> Pattern<'a> {
        let seen = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
        let Some(place) = text[..seen].iter().position(|&byte| byte == b'*') else {
            return if &text[..seen] == b"#" { Pattern::Itself } else { Pattern::Constant };
        };
        let (before, rest) = (&text[..place], &text[place + 1..]);
        let arrow = rest[..seen - place - 1].windows(2).position(|two| two == b"->");
        // An arrow at the end belongs to the name.
        match arrow.filter(|arrow| place + 1 + arrow + 2 < seen) {
            Some(arrow) => {
                let (after, field) = (&rest[..arrow], Some(&rest[arrow + 2..]));
                Pattern::Key { before, after, field }
            }
            None => Pattern::Key { before, after: rest, field: None },
        }
    }

    /// Returns true if it has a place for an element, and so names keys.
    pub(super) fn looks_up(&self) -> bool {
        matches!(self, Pattern::Key { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    fn check(text: &[u8], expected: Pattern<'_>) {
        assert_eq!(Pattern::of(text), expected, "{}", text.escape_ascii());
    }

    fn key<'a>(before: &'a str, after: &'a str, field: Option<&'a str>) -> Pattern<'a> {
        let field = field.map(str::as_bytes);
        Pattern::Key { before: before.as_bytes(), after: after.as_bytes(), field }
    }

    #[test]
    fn the_first_star_is_the_place_and_the_first_arrow_after_it_leads_to_a_field() {
        check(b"w_*", key("w_", "", None));
        check(b"*", key("", "", None));
        check(b"a*b*c", key("a", "b*c", None));
        check(b"o_*->f", key("o_", "", Some("f")));
        check(b"o*x->f->g", key("o", "x", Some("f->g")));
        check(b"a->b*", key("a->b", "", None));
        check(b"o_*->", key("o_", "->", None));
    }

    #[test]
    fn without_a_place_there_is_no_key() {
        check(b"#", Pattern::Itself);
        check(b"", Pattern::Constant);
        check(b"nosort", Pattern::Constant);
        check(b"##", Pattern::Constant);
    }

    #[test]
    fn a_zero_byte_ends_what_is_looked_for() {
        check(b"#\0x", Pattern::Itself);
        check(b"a\0*", Pattern::Constant);
        check(b"a*\0->f", key("a", "\0->f", None));
    }
}
