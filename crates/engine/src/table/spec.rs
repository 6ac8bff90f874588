//! The description of one command: the single source of its name, arity, flags, ACL categories,
//! key positions and documentation.
//!
//! A `CommandSpec` const is next to the function that executes the command. Dispatch, key
//! locking, COMMAND INFO / DOCS / LIST / GETKEYS and the compatibility page are all derived from
//! it, so a command is added by writing one const and naming it in its group's list.
//!
//! Invariants: names and flags are lower case as Redis prints them; a container (`subs` not empty)
//! is executed itself only if it says how, as COMMAND does; categories that Redis derives from
//! flags (`@write`, `@fast`, ...) are derived here too and not repeated in `acl`.

mod acl;
mod arg;
mod flags;
mod keys;
mod traits;
mod weight;

pub use acl::*;
pub use arg::*;
pub use flags::*;
pub use keys::*;
pub use traits::*;
pub use weight::{LONG, MANY_WORDS, Weigh, weights};

use crate::execute::call::{Run, RunJoined, TakeStep};

/// The group a command is documented under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Commands on keys of any type.
    Generic,
    /// Strings.
    String,
    /// Lists.
    List,
    /// Sets.
    Set,
    /// Sorted sets.
    SortedSet,
    /// Hashes.
    Hash,
    /// Publish and subscribe.
    Pubsub,
    /// MULTI, EXEC and their kin.
    Transactions,
    /// The connection itself.
    Connection,
    /// Administration.
    Server,
    /// Scripts and functions.
    Scripting,
    /// HyperLogLog.
    Hyperloglog,
    /// Cluster.
    Cluster,
    /// Sentinel.
    Sentinel,
    /// Geographic indexes.
    Geo,
    /// Streams.
    Stream,
    /// Bitmaps.
    Bitmap,
}

impl Group {
    /// Returns true for commands on values with members, fields or elements.
    #[inline]
    pub const fn is_of_collections(self) -> bool {
        matches!(self, Group::List | Group::Set | Group::SortedSet | Group::Hash | Group::Stream)
    }

    /// Returns the name COMMAND DOCS prints.
    pub fn name(self) -> &'static str {
        match self {
            Group::Generic => "generic",
            Group::String => "string",
            Group::List => "list",
            Group::Set => "set",
            Group::SortedSet => "sorted-set",
            Group::Hash => "hash",
            Group::Pubsub => "pubsub",
            Group::Transactions => "transactions",
            Group::Connection => "connection",
            Group::Server => "server",
            Group::Scripting => "scripting",
            Group::Hyperloglog => "hyperloglog",
            Group::Cluster => "cluster",
            Group::Sentinel => "sentinel",
            Group::Geo => "geo",
            Group::Stream => "stream",
            Group::Bitmap => "bitmap",
        }
    }
}

/// Since when a command is deprecated, and what to use instead.
#[derive(Clone, Copy, Debug)]
pub struct Deprecated {
    /// The version that deprecated it.
    pub since: &'static str,
    /// What replaces it, as the documentation words it.
    pub instead: &'static str,
}

/// Which arguments of a command are channels. Commands that end subscriptions need no permission,
/// and name none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channels {
    /// The first.
    First,
    /// All of them.
    All,
    /// All of them, which are patterns of channels.
    Patterns,
}

/// Which arguments of a command name members, or fields, of a collection: each `step`th from
/// `first` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Members {
    first: usize,
    step: usize,
}

impl Members {
    /// The argument at this position only.
    pub const fn one(at: usize) -> Members {
        Members { first: at, step: usize::MAX }
    }

    /// All arguments from this position on, or each second one.
    pub const fn from(first: usize, step: usize) -> Members {
        Members { first, step }
    }

    /// Returns those among the words of a request. Options in front of them may displace them.
    pub fn of<'a>(self, args: &'a [&'a [u8]]) -> impl Iterator<Item = &'a [u8]> {
        args.iter().skip(self.first).step_by(self.step).copied()
    }
}

/// The word that replaces a secret.
pub const REDACTED: &[u8] = b"(redacted)";

/// The description of one command or subcommand.
#[derive(Clone, Copy)]
pub struct CommandSpec {
    /// Name in lower case; for a subcommand, without its container's.
    pub name: &'static str,
    /// One line for COMMAND DOCS.
    pub summary: &'static str,
    /// Time complexity, in words; empty when Redis documents none.
    pub complexity: &'static str,
    /// The version of Redis that brought it.
    pub since: &'static str,
    /// Documentation group.
    pub group: Group,
    /// Number of arguments, the name included; negative: at least this many.
    pub arity: i32,
    /// Flags of [`crate::table::spec`]: `WRITE | DENYOOM` ...
    pub flags: u32,
    /// Further properties for the engine: `IMMEDIATE | FOR_LISTENERS` ...
    pub traits: u32,
    /// ACL categories that do not follow from the flags.
    pub acl: u32,
    /// Hints for clients and proxies.
    pub tips: &'static [&'static str],
    /// The positions of its keys.
    pub keys: &'static [KeySpec],
    /// The use of its keys, if that depends on the arguments (`KEY_VARIABLE`).
    pub key_flags: Option<KeyFlags>,
    /// Finds the keys among the words of a request, if `keys`, which describes them to clients,
    /// cannot describe all.
    pub own_keys: Option<OwnKeys>,
    /// Set for deprecated commands.
    pub deprecated: Option<Deprecated>,
    /// Further flags of the documentation, such as `syscmd`.
    pub doc_flags: &'static [&'static str],
    /// Changes over time: version and what it changed.
    pub history: &'static [(&'static str, &'static str)],
    /// Arguments, for the documentation.
    pub args: &'static [Arg],
    /// Subcommands; not empty for a container.
    pub subs: &'static [&'static CommandSpec],
    /// The position of an argument that becomes a key's whole value as it is: a large one is
    /// written to the heap before the key's shard is locked.
    pub value: Option<usize>,
    /// Which of its arguments are members of the collection at its first key.
    pub members: Option<Members>,
    /// Which of its arguments are channels that it sends to or listens to.
    pub channels: Option<Channels>,
    /// Replaces the secret words of a request with [`REDACTED`].
    pub redact: Option<fn(&mut [&[u8]])>,
    /// Estimates its work, if that may take long.
    pub weigh: Option<Weigh>,
    /// How it is executed.
    pub run: Run,
    /// Executes several requests on one key together, if it can.
    pub joined: Option<RunJoined>,
    /// Takes its next step, if it takes several.
    pub step: Option<TakeStep>,
}

impl CommandSpec {
    /// Defaults for the fields that a spec does not name.
    pub const EMPTY: CommandSpec = CommandSpec {
        name: "",
        summary: "",
        complexity: "",
        since: "",
        group: Group::Generic,
        arity: -1,
        flags: 0,
        traits: 0,
        acl: 0,
        tips: &[],
        keys: &[],
        key_flags: None,
        own_keys: None,
        deprecated: None,
        doc_flags: &[],
        history: &[],
        args: &[],
        subs: &[],
        value: None,
        members: None,
        channels: None,
        redact: None,
        weigh: None,
        joined: None,
        run: Run::Container,
        step: None,
    };

    /// Returns true if the command has the given flag.
    pub const fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// Returns true if the command has the given trait.
    pub const fn is(&self, what: u32) -> bool {
        self.traits & what != 0
    }

    /// Returns true if it has subcommands.
    pub const fn is_container(&self) -> bool {
        !self.subs.is_empty()
    }

    /// Returns true if `argc` arguments (the name included) are acceptable.
    pub const fn accepts(&self, argc: usize) -> bool {
        if self.arity >= 0 {
            argc == self.arity as usize
        } else {
            argc >= self.arity.unsigned_abs() as usize
        }
    }

    /// Returns the ACL categories: the stated ones and those that follow from the flags.
    pub const fn categories(&self) -> u32 {
        // Commands that run scripts are never in `@read`.
        let not_implied = if self.acl & ACL_SCRIPTING != 0 { ACL_READ } else { 0 };
        acl::implied(self.flags) & !not_implied | self.acl
    }
}
