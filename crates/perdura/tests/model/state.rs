//! The expected content of a store: maps, sorted maps and queues in memory, written without a look
//! at the store's code.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Debug;

use perdura::{Error, StreamId, ValueType};

/// The first line of `Err` says what is wrong.
pub(crate) type Checked = Result<(), String>;

/// Compares an answer with the model's.
pub(crate) fn same<T: PartialEq + Debug>(what: &str, got: T, want: T) -> Checked {
    if got == want {
        return Ok(());
    }
    let cut = |value: &T| {
        let text = format!("{value:?}");
        let end = text.char_indices().nth(400).map_or(text.len(), |(at, _)| at);
        text[..end].to_owned()
    };
    Err(format!("{what} answered {}, and not {}", cut(&got), cut(&want)))
}

pub(crate) type Bytes = Vec<u8>;

/// The owner of a pending entry, its last delivery time, and its delivery count.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pending {
    pub(crate) consumer: Bytes,
    pub(crate) delivered: u64,
    pub(crate) count: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Group {
    pub(crate) last: StreamId,
    pub(crate) pending: BTreeMap<StreamId, Pending>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Stream {
    pub(crate) entries: BTreeMap<StreamId, Vec<(Bytes, Bytes)>>,
    pub(crate) last: StreamId,
    pub(crate) groups: BTreeMap<Bytes, Group>,
}

/// A key of the rows of a table.
pub(crate) type RowKey = (i16, Bytes);

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    String(Bytes),
    /// A HyperLogLog, of which the elements are known but not the bytes.
    Sketch(BTreeSet<Bytes>),
    List(VecDeque<Bytes>),
    /// With each field's expiry time.
    Hash(BTreeMap<Bytes, (Bytes, Option<u64>)>),
    Set(BTreeSet<Bytes>),
    Sorted(BTreeMap<Bytes, f64>),
    /// A sorted set of positions: longitude and latitude.
    Places(BTreeMap<Bytes, (f64, f64)>),
    /// A table of [`RowKey`]s.
    Rows(BTreeMap<RowKey, Bytes>),
    /// A table of strings.
    Names(BTreeMap<String, i64>),
    Stream(Stream),
}

impl Value {
    pub(crate) fn kind(&self) -> ValueType {
        match self {
            Value::String(_) | Value::Sketch(_) => ValueType::String,
            Value::List(_) => ValueType::List,
            Value::Hash(_) => ValueType::Hash,
            Value::Set(_) => ValueType::Set,
            Value::Sorted(_) | Value::Places(_) | Value::Rows(_) | Value::Names(_) => {
                ValueType::SortedSet
            }
            Value::Stream(_) => ValueType::Stream,
        }
    }

    /// Returns true if a key is deleted when it has this value: a collection without elements, but
    /// no string or stream.
    fn is_nothing(&self) -> bool {
        match self {
            Value::String(_) | Value::Sketch(_) | Value::Stream(_) => false,
            Value::List(of) => of.is_empty(),
            Value::Hash(of) => of.is_empty(),
            Value::Set(of) => of.is_empty(),
            Value::Sorted(of) => of.is_empty(),
            Value::Places(of) => of.is_empty(),
            Value::Rows(of) => of.is_empty(),
            Value::Names(of) => of.is_empty(),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Held {
    pub(crate) value: Value,
    /// When the key expires, in unix milliseconds.
    pub(crate) until: Option<u64>,
}

/// A database at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Db {
    pub(crate) keys: BTreeMap<Bytes, Held>,
    pub(crate) now: u64,
    /// Keys, and keys of fields, that expired since all of them were last deleted: the store
    /// deletes them when it comes across them.
    pub(crate) gone: BTreeSet<Bytes>,
}

macro_rules! typed {
    ($($name:ident, $make:ident, $variant:ident, $of:ty;)*) => {$(
        /// Returns a key's value if it is of this type, or none.
        pub(crate) fn $name(&self, key: &[u8]) -> Result<Option<&$of>, Error> {
            match self.keys.get(key).map(|held| &held.value) {
                None => Ok(None),
                Some(Value::$variant(of)) => Ok(Some(of)),
                Some(_) => Err(Error::WrongType),
            }
        }

        /// Returns a key's value if it is of this type; otherwise an empty one is made, which
        /// `pruned` deletes if it stays empty.
        pub(crate) fn $make(&mut self, key: &[u8]) -> Result<&mut $of, Error> {
            let empty = || Held { value: Value::$variant(Default::default()), until: None };
            match &mut self.keys.entry(key.to_vec()).or_insert_with(empty).value {
                Value::$variant(of) => Ok(of),
                _ => Err(Error::WrongType),
            }
        }
    )*};
}

impl Db {
    typed! {
        string, string_mut, String, Bytes;
        sketch, sketch_mut, Sketch, BTreeSet<Bytes>;
        list, list_mut, List, VecDeque<Bytes>;
        hash, hash_mut, Hash, BTreeMap<Bytes, (Bytes, Option<u64>)>;
        set, set_mut, Set, BTreeSet<Bytes>;
        sorted, sorted_mut, Sorted, BTreeMap<Bytes, f64>;
        places, places_mut, Places, BTreeMap<Bytes, (f64, f64)>;
        rows, rows_mut, Rows, BTreeMap<RowKey, Bytes>;
        names, names_mut, Names, BTreeMap<String, i64>;
        stream, stream_mut, Stream, Stream;
    }

    /// Deletes the key if it holds an empty collection.
    pub(crate) fn pruned(&mut self, key: &[u8]) {
        if self.keys.get(key).is_some_and(|held| held.value.is_nothing()) {
            self.keys.remove(key);
        }
    }

    pub(crate) fn put(&mut self, key: &[u8], value: Value, until: Option<u64>) {
        self.keys.insert(key.to_vec(), Held { value, until });
    }

    /// Advances the clock.
    pub(crate) fn at(&mut self, now: u64) {
        self.now = now;
        let is_over = |until: Option<u64>| until.is_some_and(|until| until <= now);
        let gone = &mut self.gone;
        self.keys.retain(|key, held| {
            if let Value::Hash(fields) = &mut held.value {
                let before = fields.len();
                fields.retain(|_, (_, until)| !is_over(*until));
                if fields.len() < before {
                    gone.insert(key.clone());
                }
            }
            let stays = !is_over(held.until) && !held.value.is_nothing();
            if !stays {
                gone.insert(key.clone());
            }
            stays
        });
    }
}

/// Returns members in the order of a sorted set.
pub(crate) fn in_order(members: &BTreeMap<Bytes, f64>) -> Vec<(Bytes, f64)> {
    let mut all: Vec<_> = members.iter().map(|(member, score)| (member.clone(), *score)).collect();
    all.sort_by(|a, b| a.1.partial_cmp(&b.1).expect("no NaN").then_with(|| a.0.cmp(&b.0)));
    all
}

/// Returns at most `count` items; a call that asks for none does not look at the key.
pub(crate) fn up_to<T>(count: usize, all: Result<Vec<T>, Error>) -> Result<Vec<T>, Error> {
    if count == 0 { Ok(Vec::new()) } else { all }
}
