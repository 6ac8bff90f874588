//! What a row of the table says about one directive.

use super::kind::Kind;
use super::table::{GROUPS, Given, Values};
use super::value::Value;

/// One directive: all that is known of it, and the way to its value.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The name in lower case.
    pub name: &'static str,
    /// An older name for the same directive.
    pub alias: Option<&'static str>,
    /// The values that it may have.
    pub kind: Kind,
    /// When it may be changed.
    pub change: Change,
    /// Whether it has an effect.
    pub usage: Usage,
    /// What puts a new value into effect.
    pub effect: Effect,
    /// What it does, in a sentence or two of `docs/configuration.md`: what it sets, in which unit,
    /// and when to change it. Empty unless it is in use.
    pub meaning: &'static str,
    /// Left out of `CONFIG GET` by pattern.
    pub hidden: bool,
    /// Never shown in logs.
    pub secret: bool,
    /// Names something outside of the process, which may be another one under the same name: a file
    /// that is read, an address that the machine has by now. To set it again is a change.
    pub external: bool,
    /// Where its value is.
    pub field: Field,
}

/// The field of [`Values`] that has a directive's value, for the code that treats all alike.
#[derive(Clone, Copy)]
pub struct Field {
    /// Returns the value in its canonical form.
    pub text: fn(&Values, Kind) -> Vec<u8>,
    /// Sets the value from its canonical form; returns false if the field cannot have it.
    pub put: fn(&mut Values, Kind, &[u8]) -> bool,
    /// Returns whether it was set.
    pub given: fn(&mut Given) -> &mut bool,
}

impl std::fmt::Debug for Field {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Field")
    }
}

/// Sets a field from the canonical form of its value; returns false if it cannot have that.
pub(super) fn put<T: Value>(field: &mut T, kind: Kind, text: &[u8]) -> bool {
    match T::read(kind, text) {
        Some(value) => {
            *field = value;
            true
        }
        None => false,
    }
}

/// When a directive may be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// At start only.
    Fixed,
    /// At start only. Setting the present value is accepted, so that a client may send back what
    /// CONFIG GET returned.
    Pinned,
    /// By `CONFIG SET` too.
    Live,
    /// By `CONFIG SET` too, if `enable-protected-configs` allows it.
    Protected,
}

/// Whether a directive has an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// It has an effect.
    Used,
    /// It is accepted and stored, and does nothing.
    Ignored(Why),
}

/// Why a directive does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It steers something that this design does not have.
    Design,
    /// It belongs to replication.
    Replication,
    /// It steers a part of TLS that rustls does not have.
    Tls,
    /// It belongs to a feature that does not exist here.
    Later,
    /// The server runs in the foreground, under a supervisor.
    Foreground,
}

impl Why {
    /// Returns the reason in words.
    pub fn words(self) -> &'static str {
        match self {
            Why::Design => "nothing here depends on it",
            Why::Replication => "replication does without it",
            Why::Tls => "rustls has no such option",
            Why::Later => "this feature is not supported",
            Why::Foreground => "the server always runs in the foreground",
        }
    }
}

/// What puts the value of a directive into effect, at the start and after a change. The table names
/// it; `apply` does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The value is read whenever it is needed.
    ReadWhenNeeded,
    /// The limits that connections and the background obey are loaded again.
    LoadLimits,
    /// The engine's settings are stored again.
    StoreSettings,
    /// The longest string changes, for connections and in the engine's settings.
    LimitStrings,
    /// Keys are evicted by another policy.
    SetEviction,
    /// Keys are evicted from another size on, which limits given in percent follow.
    LimitMemory,
    /// Clients may have this much memory.
    LimitClientMemory,
    /// Tracking clients are told of this many keys.
    LimitTracking,
    /// Snapshots may hold this much memory.
    LimitSnapshots,
    /// The pool may grow to this size.
    ResizePool,
    /// The heap keeps this much in its read cache.
    SetReadCache,
    /// The server listens on another port.
    ListenOnPort,
    /// The server listens on other addresses.
    ListenOnAddresses,
    /// The server listens with TLS on another port.
    ListenWithTls,
    /// Certificates, keys and the rules of TLS are read again.
    ConfigureTls,
    /// This many clients may be connected, if there are files enough for them.
    AllowClients,
    /// The default user gets another password, after all else has changed.
    SetPassword,
    /// New users have other channels.
    SetNewUsers,
    /// The log of refused accesses has another length.
    LimitAclLog,
    /// Another folder becomes the working directory.
    ChangeDir,
    /// The append-only file is switched on or off.
    SwitchLog,
    /// The append-only file, or the journal, is synced at other times.
    SetFsync,
    /// The append-only file has timestamps, or none.
    SetTimestamps,
    /// Writes need another number of replicas, or these get something else.
    RequireReplicas,
    /// The replicas that must have what a reply shows.
    SetQuorum,
    /// The kernel is told how willingly to end this process.
    SetOomScore,
    /// Less or more is logged.
    SetLogLevel,
    /// Other classes of events are published.
    PublishEvents,
    /// The slow log and the logs of large requests and replies have other limits.
    SetCommandLogs,
    /// Latencies are measured, or not.
    SetLatency,
    /// The node of a cluster has other settings.
    SetCluster,
}

impl Row {
    /// Returns the row of a directive in use.
    pub(super) const fn new(
        field: Field,
        meaning: &'static str,
        name: &'static str,
        kind: Kind,
        change: Change,
    ) -> Row {
        Row {
            name,
            alias: None,
            kind,
            change,
            usage: Usage::Used,
            effect: Effect::ReadWhenNeeded,
            meaning: meaning.trim_ascii_start(),
            hidden: false,
            secret: false,
            external: false,
            field,
        }
    }

    pub(super) const fn alias(self, alias: &'static str) -> Row {
        Row { alias: Some(alias), ..self }
    }

    pub(super) const fn then(self, effect: Effect) -> Row {
        Row { effect, ..self }
    }

    pub(super) const fn ignored(self, why: Why) -> Row {
        Row { usage: Usage::Ignored(why), ..self }
    }

    pub(super) const fn hidden(self) -> Row {
        Row { hidden: true, ..self }
    }

    pub(super) const fn secret(self) -> Row {
        Row { secret: true, ..self }
    }

    pub(super) const fn external(self) -> Row {
        Row { external: true, ..self }
    }

    /// Returns the groups of rows with their titles.
    pub fn groups() -> impl Iterator<Item = (&'static str, &'static [Row])> {
        GROUPS.iter().copied()
    }

    /// Returns all rows, in the order in which `CONFIG GET` answers them.
    pub fn all() -> impl Iterator<Item = &'static Row> {
        GROUPS.iter().flat_map(|(_, rows)| rows.iter())
    }

    /// Returns the row that `name` means (in any case, or by its older name).
    pub fn find(name: &[u8]) -> Option<&'static Row> {
        let is = |n: &str| name.eq_ignore_ascii_case(n.as_bytes());
        Row::all().find(|row| is(row.name) || row.alias.is_some_and(is))
    }

    /// Returns the value in its canonical form, which `CONFIG GET` answers.
    pub fn text(&self, values: &Values) -> Vec<u8> {
        (self.field.text)(values, self.kind)
    }

    /// Returns its value unless set, in its canonical form.
    pub fn default(&self) -> Vec<u8> {
        self.text(super::defaults())
    }
}
