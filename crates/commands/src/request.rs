//! A request before it is executed: its command looked up and its keys hashed, once for all that follows.
//!
//! A server makes the requests of a whole batch first, so that memory can be asked for what their look-ups will need
//! while the first of them is executed.

use keyspace::{Ahead, Key};
use smallvec::SmallVec;

use crate::engine::Engine;
use crate::session::Session;
use crate::table::{Command, Lookup};

/// Keys of a command; so many without the heap.
pub(crate) type Keys<'a> = SmallVec<[Key<'a>; 4]>;

/// The words of a request with what the engine knows of them.
pub struct Request<'a> {
    pub(crate) args: &'a [&'a [u8]],
    pub(crate) lookup: Lookup<'a>,
    /// The command's keys; none when the words do not fit its arity.
    pub(crate) keys: Keys<'a>,
}

impl<'a> Request<'a> {
    /// Its words, never none.
    pub fn args(&self) -> &'a [&'a [u8]] {
        self.args
    }
}

impl Engine {
    /// Looks a request up. `args` are its words, never none.
    #[inline]
    pub fn request<'a>(&'a self, args: &'a [&'a [u8]]) -> Request<'a> {
        self.found(self.table().find(args), args)
    }

    /// Looks up the request that follows `before`: of the same command, more often than not.
    #[inline]
    pub fn request_after<'a>(
        &'a self,
        before: Option<&Request<'a>>,
        args: &'a [&'a [u8]],
    ) -> Request<'a> {
        match before {
            Some(&Request { lookup: lookup @ Lookup::Found(command), args: words, .. })
                if words[0] == args[0]
                    && command.parent.is_none()
                    && !command.spec.is_container() =>
            {
                self.found(lookup, args)
            }
            _ => self.request(args),
        }
    }

    #[inline]
    fn found<'a>(&'a self, lookup: Lookup<'a>, args: &'a [&'a [u8]]) -> Request<'a> {
        let keys = match lookup {
            Lookup::Found(command) if command.spec.accepts(args.len()) => self.keys(command, args),
            _ => Keys::new(),
        };
        Request { args, lookup, keys }
    }

    /// Asks memory for where the request's first key may be, and says so for [`Engine::prefetch_entry`].
    #[inline]
    pub fn prefetch_bucket(&self, session: &Session, request: &Request<'_>) -> Option<Ahead> {
        self.keyspace().prefetch_bucket(session.db, request.keys.first()?)
    }

    /// Asks memory for the entries that a look-up will compare.
    #[inline]
    pub fn prefetch_entry(&self, ahead: &Ahead) {
        self.keyspace().prefetch_entry(ahead);
    }

    /// The command's keys, hashed.
    #[inline]
    pub(crate) fn keys<'a>(&self, command: &Command, args: &'a [&'a [u8]]) -> Keys<'a> {
        let mut keys = Keys::new();
        for spec in command.spec.keys {
            spec.each(args, |at| keys.push(self.keyspace().key(args[at])));
        }
        keys
    }
}
