//! Arguments of a command for COMMAND DOCS. `const` functions build them, so that a command's
//! arguments read like its syntax.

/// What an argument is.
#[derive(Clone, Copy, Debug)]
pub enum ArgKind {
    /// Any bytes.
    String,
    /// A signed integer.
    Integer,
    /// A floating point number.
    Double,
    /// A key; the number is the index of its key spec.
    Key(i32),
    /// A glob pattern.
    Pattern,
    /// A pattern of names of keys; the number is the index of their key spec.
    KeyPattern(i32),
    /// A point in time.
    UnixTime,
    /// Only its token.
    PureToken,
    /// One of the listed arguments.
    OneOf(&'static [Arg]),
    /// All of the listed arguments.
    Block(&'static [Arg]),
}

/// One argument.
#[derive(Clone, Copy, Debug)]
pub struct Arg {
    /// Name in the documentation.
    pub name: &'static str,
    /// What it is.
    pub kind: ArgKind,
    /// The word before it, or empty.
    pub token: &'static str,
    /// The version that brought it, or empty.
    pub since: &'static str,
    /// The version that deprecated it, or empty.
    pub deprecated: &'static str,
    /// A sentence about it, or empty.
    pub summary: &'static str,
    /// Whether it may be left out.
    pub is_optional: bool,
    /// Whether it may be repeated.
    pub is_multiple: bool,
    /// Whether its token is repeated with it.
    pub is_multiple_token: bool,
}

const fn arg(name: &'static str, kind: ArgKind) -> Arg {
    Arg {
        name,
        kind,
        token: "",
        since: "",
        deprecated: "",
        summary: "",
        is_optional: false,
        is_multiple: false,
        is_multiple_token: false,
    }
}

/// Returns a key, found by key spec number `spec`.
pub const fn key(name: &'static str, spec: i32) -> Arg {
    arg(name, ArgKind::Key(spec))
}
/// Describes an argument of any bytes.
pub const fn string(name: &'static str) -> Arg {
    arg(name, ArgKind::String)
}
/// Returns an integer.
pub const fn integer(name: &'static str) -> Arg {
    arg(name, ArgKind::Integer)
}
/// Returns a floating point number.
pub const fn double(name: &'static str) -> Arg {
    arg(name, ArgKind::Double)
}
/// Returns a glob pattern.
pub const fn pattern(name: &'static str) -> Arg {
    arg(name, ArgKind::Pattern)
}
/// Returns a pattern of names of keys, described by key spec number `spec`.
pub const fn key_pattern(name: &'static str, spec: i32) -> Arg {
    arg(name, ArgKind::KeyPattern(spec))
}
/// Returns a point in time.
pub const fn unix_time(name: &'static str) -> Arg {
    arg(name, ArgKind::UnixTime)
}
/// Returns a word by itself.
pub const fn token(name: &'static str, token: &'static str) -> Arg {
    arg(name, ArgKind::PureToken).token(token)
}
/// Returns one of several.
pub const fn oneof(name: &'static str, of: &'static [Arg]) -> Arg {
    arg(name, ArgKind::OneOf(of))
}
/// Returns several that belong together.
pub const fn block(name: &'static str, of: &'static [Arg]) -> Arg {
    arg(name, ArgKind::Block(of))
}

impl Arg {
    /// Sets the word before it.
    pub const fn token(mut self, token: &'static str) -> Arg {
        self.token = token;
        self
    }
    /// Sets the version that brought it.
    pub const fn since(mut self, version: &'static str) -> Arg {
        self.since = version;
        self
    }
    /// Sets the version that deprecated it.
    pub const fn deprecated(mut self, version: &'static str) -> Arg {
        self.deprecated = version;
        self
    }
    /// Adds a sentence that describes it.
    pub const fn summary(mut self, summary: &'static str) -> Arg {
        self.summary = summary;
        self
    }
    /// Marks it as one that may be left out.
    pub const fn optional(mut self) -> Arg {
        self.is_optional = true;
        self
    }
    /// Marks it as one that may be repeated.
    pub const fn multiple(mut self) -> Arg {
        self.is_multiple = true;
        self
    }
    /// Marks its token as repeated with it.
    pub const fn multiple_token(mut self) -> Arg {
        self.is_multiple_token = true;
        self
    }
}
