//! What a user may do: a value. Its text is read and written by the module `acl`.

use super::commands::Commands;
use super::patterns::{KeyPattern, Patterns};

/// Commands with the keys and channels that they may name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selector {
    pub(crate) commands: Commands,
    pub(crate) keys: Patterns<KeyPattern>,
    pub(crate) channels: Patterns<Box<[u8]>>,
}

impl Selector {
    /// Returns a selector without commands and keys.
    pub(crate) fn new(all_channels: bool) -> Selector {
        Selector { channels: Patterns::every(all_channels), ..Selector::default() }
    }

    fn is_unlimited(&self) -> bool {
        self.commands.is_all() && self.keys.all && self.channels.all
    }
}

/// What was said of the validation of dumps that the user restores. Dumps are always validated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sanitize {
    #[default]
    Unsaid,
    Yes,
    Skip,
}

/// What a user may do, and how it proves who it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    pub(crate) is_enabled: bool,
    /// Every password fits.
    pub(crate) no_password: bool,
    pub(crate) sanitize: Sanitize,
    /// SHA-256 of each password, in hexadecimal digits.
    pub(crate) passwords: Vec<String>,
    pub(crate) root: Selector,
    /// A command is allowed if the root or one of these allows all of it.
    pub(crate) selectors: Vec<Selector>,
}

impl Rules {
    /// Returns the rules of a new user: it may do nothing, and cannot authenticate.
    pub(crate) fn new(all_channels: bool) -> Rules {
        Rules { root: Selector::new(all_channels), ..Rules::default() }
    }

    /// Returns the rules of a user that may do all, without a password.
    pub(crate) fn unlimited(commands: usize) -> Rules {
        Rules {
            is_enabled: true,
            no_password: true,
            root: Selector {
                commands: Commands::all(commands),
                keys: Patterns::every(true),
                channels: Patterns::every(true),
            },
            ..Rules::default()
        }
    }

    /// Returns the root and the other selectors.
    pub(crate) fn all_selectors(&self) -> impl Iterator<Item = &Selector> {
        std::iter::once(&self.root).chain(&self.selectors)
    }

    pub(super) fn is_unlimited(&self) -> bool {
        self.all_selectors().any(Selector::is_unlimited)
    }

    /// Returns true if connections have this user without a password.
    pub(crate) fn is_open(&self) -> bool {
        self.is_enabled && self.no_password
    }

    /// Returns true if the user can authenticate by a password of this SHA-256.
    pub(crate) fn admits(&self, digest: &str) -> bool {
        // All are compared, each to its end: the time tells nothing.
        let fits = |found: bool, known: &String| found | equal(known.as_bytes(), digest.as_bytes());
        self.is_enabled && (self.no_password || self.passwords.iter().fold(false, fits))
    }
}

fn equal(one: &[u8], other: &[u8]) -> bool {
    let difference = one.iter().zip(other).fold(0, |difference, (a, b)| difference | (a ^ b));
    one.len() == other.len() && difference == 0
}
