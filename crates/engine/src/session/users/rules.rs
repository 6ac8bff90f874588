//! The rules of a user: a value. The module `acl` reads and writes them as text.

use super::commands::Commands;
use super::patterns::{KeyPattern, Patterns};

/// Commands with the keys and channels that they may name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// Which commands it allows.
    pub commands: Commands,
    /// Which keys it allows.
    pub keys: Patterns<KeyPattern>,
    /// Which channels it allows.
    pub channels: Patterns<Box<[u8]>>,
}

impl Selector {
    /// Returns a selector without commands and keys.
    pub fn new(all_channels: bool) -> Selector {
        Selector { channels: Patterns::every(all_channels), ..Selector::default() }
    }

    fn is_unlimited(&self) -> bool {
        self.commands.is_all() && self.keys.all && self.channels.all
    }
}

/// The rule about the validation of dumps that the user restores. Dumps are always validated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sanitize {
    /// None.
    #[default]
    Unsaid,
    /// To validate them.
    Yes,
    /// Not to validate them.
    Skip,
}

/// What a user may do, and how it authenticates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Whether sessions may become this user.
    pub is_enabled: bool,
    /// Whether every password is accepted.
    pub no_password: bool,
    /// The rule about the validation of dumps.
    pub sanitize: Sanitize,
    /// SHA-256 of each password, in hexadecimal digits.
    pub passwords: Vec<String>,
    /// The root selector.
    pub root: Selector,
    /// A command is allowed if the root or one of these allows all of it.
    pub selectors: Vec<Selector>,
}

impl Rules {
    /// Returns the rules of a new user: it may do nothing, and cannot authenticate.
    pub fn new(all_channels: bool) -> Rules {
        Rules { root: Selector::new(all_channels), ..Rules::default() }
    }

    /// Returns the rules of a user that may do everything, without a password.
    pub fn unlimited(commands: usize) -> Rules {
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
    pub fn all_selectors(&self) -> impl Iterator<Item = &Selector> {
        std::iter::once(&self.root).chain(&self.selectors)
    }

    pub(super) fn is_unlimited(&self) -> bool {
        self.all_selectors().any(Selector::is_unlimited)
    }

    /// Returns true if connections get this user without a password.
    pub(crate) fn is_open(&self) -> bool {
        self.is_enabled && self.no_password
    }

    /// Returns true if the user can authenticate with a password of this SHA-256.
    pub(crate) fn admits(&self, digest: &str) -> bool {
        // All are compared to their ends, so that the time reveals nothing.
        let fits = |found: bool, known: &String| found | equal(known.as_bytes(), digest.as_bytes());
        self.is_enabled && (self.no_password || self.passwords.iter().fold(false, fits))
    }
}

fn equal(one: &[u8], other: &[u8]) -> bool {
    let difference = one.iter().zip(other).fold(0, |difference, (a, b)| difference | (a ^ b));
    one.len() == other.len() && difference == 0
}
