//! A request before it is executed: its command looked up and its keys hashed, once for all later
//! steps.
//!
//! A server prepares the requests of a whole batch first, so that the memory for their lookups can
//! be prefetched while the first of them is executed. The keys of a batch follow each other, so
//! that a request is a few words.

use keyspace::{Key, PrefetchedBucket};
use smallvec::SmallVec;

use crate::engine::Engine;
use crate::session::Session;
use crate::table::{Command, Lookup};

/// Keys of a command; up to this many need no allocation.
pub type Keys<'a> = SmallVec<[Key<'a>; 4]>;
/// Requests of a batch, and keys of all of them, that need no allocation.
const USUAL: usize = 64;
/// Maximum of members of one command that are prefetched.
const MEMBERS: usize = 4;
/// Maximum length of a member that is prefetched: to hash a longer one takes longer than a miss.
const SHORT: usize = 256;

/// The words of a request with what the engine knows of them.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    pub(crate) args: &'a [&'a [u8]],
    pub(crate) lookup: Lookup<'a>,
    /// The command's keys; none when the words do not fit its arity.
    pub(crate) keys: &'a [Key<'a>],
}

impl<'a> Request<'a> {
    /// Returns its words, never none.
    pub fn args(&self) -> &'a [&'a [u8]] {
        self.args
    }
}

/// Requests that arrived together.
pub struct Batch<'a> {
    engine: &'a Engine,
    /// Whether they come from the command log, with the original names of commands.
    is_of_log: bool,
    looked_up: SmallVec<[LookedUp<'a>; USUAL]>,
    keys: SmallVec<[Key<'a>; USUAL]>,
}

struct LookedUp<'a> {
    args: &'a [&'a [u8]],
    lookup: Lookup<'a>,
    /// Where its keys end.
    end: usize,
}

impl<'a> Batch<'a> {
    /// Adds a request and looks it up. `args` are its words, never none.
    #[inline]
    pub fn push(&mut self, args: &'a [&'a [u8]]) {
        let lookup = match self.looked_up.last() {
            // Usually it is the same command.
            Some(&LookedUp { lookup: lookup @ Lookup::Found(command), args: words, .. })
                if is_same(words[0], args[0])
                    && command.parent.is_none()
                    && !command.spec.is_container() =>
            {
                lookup
            }
            _ if self.is_of_log => self.engine.table().find_original(args),
            _ => self.engine.table().find(args),
        };
        self.engine.keys_of(lookup, args, |key| self.keys.push(key));
        self.looked_up.push(LookedUp { args, lookup, end: self.keys.len() });
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.looked_up.len()
    }

    /// Returns true if there is none.
    pub fn is_empty(&self) -> bool {
        self.looked_up.is_empty()
    }

    /// Returns request number `at`.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub fn get(&self, at: usize) -> Request<'_> {
        let begin = if at == 0 { 0 } else { self.looked_up[at - 1].end };
        let LookedUp { args, lookup, end } = self.looked_up[at];
        Request { args, lookup, keys: &self.keys[begin..end] }
    }

    /// Requests from number `from` on.
    #[inline]
    pub(crate) fn from(&self, from: usize) -> impl Iterator<Item = Request<'_>> {
        let mut begin = if from == 0 { 0 } else { self.looked_up[from - 1].end };
        self.looked_up[from..].iter().map(move |&LookedUp { args, lookup, end }| {
            let keys = &self.keys[begin..end];
            begin = end;
            Request { args, lookup, keys }
        })
    }

    /// Prefetches what the lookups of all keys will need in the session's database: first buckets,
    /// then entries; then, for commands on collections, what the values lead to, and the members
    /// that the commands name.
    pub fn prefetch(&mut self, session: &Session) {
        let keyspace = self.engine.keyspace();
        let mut prefetched: SmallVec<[_; USUAL]> = SmallVec::new();
        let mut last: Option<&Key<'_>> = None;
        for key in &self.keys {
            // Often it is the same key.
            let is_new = last.is_none_or(|last| !key.has_hash_of(last));
            prefetched.push(is_new.then(|| keyspace.prefetch_key_bucket(session.db, key)));
            last = Some(key);
        }
        let mut last: Option<&Key<'_>> = None;
        for (key, prefetched) in self.keys.iter_mut().zip(&prefetched) {
            match (prefetched, last) {
                (Some(Some(prefetched)), _) => keyspace.prefetch_key_entry(prefetched, key),
                (None, Some(last)) => key.set_hint_of(last),
                _ => {}
            }
            last = Some(key);
        }
        let mut members: SmallVec<[PrefetchedBucket; USUAL]> = SmallVec::new();
        for request in self.from(0) {
            let Lookup::Found(Command { spec, .. }) = request.lookup else { continue };
            let (true, Some(key)) = (spec.group.is_of_collections(), request.keys.first()) else {
                continue;
            };
            match spec.members {
                None => drop(keyspace.prefetch_value(key, None)),
                Some(named) => {
                    let some =
                        named.of(request.args).take(MEMBERS).filter(|one| one.len() <= SHORT);
                    members.extend(some.filter_map(|one| keyspace.prefetch_value(key, Some(one))));
                }
            }
        }
        members.iter().for_each(|member| keyspace.prefetch_member(member));
    }
}

/// Returns true if two names are the same; they are so short that calling `memcmp` would take
/// longer.
#[inline]
pub fn is_same(name: &[u8], other: &[u8]) -> bool {
    name.len() == other.len() && name.iter().zip(other).all(|(a, b)| a == b)
}

impl Engine {
    /// Returns a batch without requests.
    #[inline]
    pub fn batch(&self) -> Batch<'_> {
        self.batch_of(false)
    }

    /// Returns a batch without requests, for those of the command log if `is_of_log`.
    #[inline]
    pub fn batch_of(&self, is_of_log: bool) -> Batch<'_> {
        Batch { engine: self, is_of_log, looked_up: SmallVec::new(), keys: SmallVec::new() }
    }

    /// Passes on the keys of a request, hashed; none when the words do not fit the command's arity.
    #[inline]
    pub(crate) fn keys_of<'a>(
        &self,
        lookup: Lookup<'_>,
        args: &'a [&'a [u8]],
        mut each: impl FnMut(Key<'a>),
    ) {
        let Lookup::Found(Command { spec, .. }) = lookup else { return };
        if spec.accepts(args.len()) {
            for keys in spec.keys {
                keys.each(args, |at| each(self.keyspace().key(args[at])));
            }
        }
    }
}
