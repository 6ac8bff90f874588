//! An open store: each operation is a transaction of its own in database 0.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use keyspace::{Compaction, Db, Entry, Expire, Key, KeyDamage, Keyspace, Losses, Txn};
use pmem::{Domain, Region};

use crate::background::{self, Background};
use crate::durability::Journaled;
use crate::operations::{Execute, Open, later};
use crate::reentry::{self, Entered};
use crate::trace::span;
use crate::transaction::Declared;
use crate::wait::Waiting;
use crate::{CloseError, Error, OpenError, Options, Strings, Transaction};

/// The space of a store.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use perdura::prelude::*;
/// use perdura::{Options, Perdura};
///
/// let store = Perdura::open(Options::volatile())?;
/// let before = store.usage().used;
/// store.set("page", vec![7; 100_000])?;
/// assert!(store.usage().used >= before + 100_000);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Bytes that keys and values take.
    pub used: u64,
    /// Bytes of the pool's file.
    pub size: u64,
    /// Bytes of it that take space: without those that were given back.
    pub space: u64,
    /// Maximum number of bytes that it may take.
    pub limit: u64,
}

/// An open store.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// use perdura::prelude::*;
/// use perdura::{DomainRequest, Options, Perdura};
/// use std::time::Duration;
///
/// let options = Options::new(dir.path().join("pool")).domain(DomainRequest::Process);
/// let store = Perdura::open(options.clone())?;
/// std::thread::scope(|scope| {
///     for _ in 0..4 {
///         scope.spawn(|| store.increment("visits", 1));
///     }
/// });
/// store.set_for("session", "anna", Duration::from_secs(60))?;
/// store.close()?;
///
/// let store = Perdura::open(options)?;
/// assert_eq!(store.get("visits")?.as_deref(), Some(&b"4"[..]));
/// assert!(store.ttl("session")?.is_some());
/// # Ok(())
/// # }
/// ```
pub struct Perdura {
    // First, so that it is dropped before the keyspace.
    pub(crate) background: Option<Background>,
    pub(crate) journaled: Option<Box<Journaled>>,
    pub(crate) keyspace: Arc<Keyspace>,
    pub(crate) waiting: Waiting,
    /// The heap's log sequence number when the store was opened.
    pub(crate) first_lsn: u64,
    pub(crate) clock: fn() -> u64,
    /// How far the compaction of sparsely used spans has come.
    pub(crate) compaction: Arc<Mutex<Compaction>>,
}

impl Perdura {
    /// Opens a store, recovering it if it was not closed, or creates it. If another process has the
    /// file open, this waits up to three seconds, since a process that was just killed holds it for
    /// a moment, and then fails.
    pub fn open(options: Options) -> Result<Perdura, OpenError> {
        let _span = span!("open", path = options.path.as_deref().map(tracing::field::debug));
        let keyspace = Arc::new(Keyspace::new(options.heap()?, (options.clock)()));
        if keyspace.position().take().is_some_and(|position| position.is_replica) {
            keyspace.heap().close()?;
            return Err(OpenError::Replica { path: options.path.unwrap_or_default() });
        }
        let first_lsn = keyspace.heap().lsn();
        keyspace.heap().set_read_cache(options.read_cache);
        if let Some(bytes) = options.snapshot_limit {
            keyspace.heap().set_snapshot_limit(bytes);
        }
        keyspace.resolve_losses();
        let journaled = Journaled::start(&keyspace, options.durability)?;
        let compaction = Arc::default();
        let background = options.background.then(|| {
            Background::start(Arc::clone(&keyspace), Arc::clone(&compaction), options.clock)
        });
        let background = background.transpose()?;
        let waiting = Waiting::new(keyspace.shards());
        let clock = options.clock;
        Ok(Perdura { background, journaled, keyspace, waiting, first_lsn, clock, compaction })
    }

    /// Returns the persistence domain in force: the failures that an acknowledged write survives.
    pub fn domain(&self) -> Domain {
        self.keyspace.heap().region().domain()
    }

    /// Waits until all earlier writes are durable, whatever the [`Durability`](crate::Durability);
    /// useful if that is not `Immediate`. Without a journal there is nothing to wait for: every
    /// call has done what the domain can. Inside a transaction, whose own changes are not written
    /// yet, it returns [`Error::Reentrant`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// use perdura::prelude::*;
    /// use perdura::{Durability, Options, Perdura};
    ///
    /// let options = Options::new(dir.path().join("pool")).durability(Durability::Os);
    /// let store = Perdura::open(options)?;
    /// for row in 0..1000 {
    ///     store.push_back("rows", row.to_string())?;
    /// }
    /// store.flush()?; // one sync for all
    /// # Ok(())
    /// # }
    /// ```
    pub fn flush(&self) -> Result<(), Error> {
        reentry::refuse(&self.keyspace)?;
        let region = self.region();
        region.sync_up_to(region.appended()).map_err(|_| Error::JournalFailed)?;
        // There may have been nothing left to sync.
        if region.journal_failure().is_some() { Err(Error::JournalFailed) } else { Ok(()) }
    }

    /// Returns why the store's journal failed, if it did.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// use perdura::prelude::*;
    /// use perdura::{Error, Options, Perdura};
    ///
    /// let store = Perdura::open(Options::new(dir.path().join("pool")))?;
    /// match store.set("order", "paid") {
    ///     Err(Error::JournalFailed) => panic!("{}", store.journal_failure().unwrap_or_default()),
    ///     done => done?,
    /// }
    /// assert_eq!(store.journal_failure(), None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn journal_failure(&self) -> Option<&str> {
        self.region().journal_failure()
    }

    pub(crate) fn region(&self) -> &Region {
        self.keyspace.heap().region()
    }

    /// Returns true if the domain is emulated, so that data does not survive a power loss.
    pub fn is_emulated(&self) -> bool {
        self.keyspace.heap().region().emulated()
    }

    /// Returns the space that the store uses and may use.
    pub fn usage(&self) -> Usage {
        let heap = self.keyspace.heap();
        let (used, size, limit) = (heap.used(), heap.size(), heap.limit());
        Usage { used, size, space: heap.space_taken(), limit }
    }

    /// Returns how many keys database 0 has, expired ones that are not deleted yet included.
    pub fn len(&self) -> u64 {
        self.keyspace.count(Db::default()).0
    }

    /// Returns true if database 0 has no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Runs `work` on the declared keys, all or nothing: an error, or a panic, undoes its changes.
    /// Nobody else sees or changes these keys meanwhile. Calls of the store itself inside `work`
    /// return [`Error::Reentrant`]; nor may `work` wait for another thread that calls the store.
    pub fn transaction<K: AsRef<[u8]>, R>(
        &self,
        keys: &[K],
        work: impl FnOnce(&mut Transaction<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.try_transaction(keys, work)
    }

    /// Runs `work` like [`Perdura::transaction`]; it may fail with an error of its own, which
    /// undoes its changes.
    pub fn try_transaction<K: AsRef<[u8]>, R, E: From<Error>>(
        &self,
        keys: &[K],
        work: impl FnOnce(&mut Transaction<'_>) -> Result<R, E>,
    ) -> Result<R, E> {
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        self.run(Db::default(), &keys, work)
    }

    /// Runs `work` and commits, unless it may have read zeros instead of bytes that the medium lost
    /// meanwhile. Returns when everything written and seen is as durable as configured.
    pub(crate) fn run<R, E: From<Error>>(
        &self,
        db: Db,
        keys: &[&[u8]],
        work: impl FnOnce(&mut Transaction<'_>) -> Result<R, E>,
    ) -> Result<R, E> {
        let entered = Entered::new(&self.keyspace)?;
        let (mut woken, declared) = (Vec::new(), Declared::new(keys));
        self.make_space_ahead();
        let (result, seen) = self.attempt(|losses| {
            keys.iter().try_for_each(|key| self.refuse_lost(db, key))?;
            let mut tx = Transaction::new(self.begin(keys)?, db, &declared);
            let result = work(&mut tx);
            self.keyspace.check_losses(losses)?;
            let txn = &mut tx.open().txn;
            if result.is_ok() {
                if !self.waiting.is_idle() {
                    woken = txn.dirty().collect();
                }
                self.commit(txn)?;
            }
            Ok((result, self.seen(txn)))
        })?;
        drop(entered);
        self.waiting.wake(&woken);
        self.acknowledge(seen)?;
        result
    }

    pub(crate) fn commit(&self, txn: &mut Txn<'_>) -> Result<(), Error> {
        match &self.journaled {
            None => Ok(txn.commit()?),
            Some(journaled) => journaled.commit(self.region(), txn),
        }
    }

    /// Returns the position in the journal after everything that a transaction can see; 0 without a
    /// journal.
    pub(crate) fn seen(&self, txn: &Txn<'_>) -> u64 {
        self.journaled.as_ref().map_or(0, |journaled| journaled.seen(txn.locked()))
    }

    /// Waits until everything before a position is as durable as configured. No lock is held.
    pub(crate) fn acknowledge(&self, position: u64) -> Result<(), Error> {
        match &self.journaled {
            Some(journaled) if position > 0 => journaled.wait(self.region(), position),
            _ => Ok(()),
        }
    }

    /// Waits until everything that can be seen of a key is durable.
    fn acknowledge_key(&self, key: &[u8]) -> Result<(), Error> {
        let Some(journaled) = &self.journaled else { return Ok(()) };
        let shard = self.keyspace.key(key).shard();
        self.acknowledge(journaled.seen(std::iter::once(shard)))
    }

    /// Names the journal as the cause if it made the store read-only.
    fn named(&self, error: Error) -> Error {
        match error {
            Error::ReadOnly if self.journal_failure().is_some() => Error::JournalFailed,
            other => other,
        }
    }

    /// Resolves the medium's losses if they ended the attempt.
    pub(crate) fn attempt<R>(
        &self,
        attempt: impl FnOnce(Losses) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let done = self.keyspace.attempt(Error::has_unresolved_losses, attempt);
        done.map_err(|error| self.named(error))
    }

    /// As [`Perdura::attempt`], but tries again while a loss ends the attempt.
    pub(crate) fn retry<R>(
        &self,
        attempt: impl FnMut(Losses) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let done = self.keyspace.retry_losses(Error::has_unresolved_losses, attempt);
        done.map_err(|error| self.named(error))
    }

    pub(crate) fn now(&self) -> u64 {
        (self.clock)()
    }

    fn begin(&self, keys: &[&[u8]]) -> Result<Txn<'_>, Error> {
        let shard = |key: &&[u8]| self.keyspace.key(key).shard();
        match keys {
            [] => Err(Error::Undeclared),
            [key] => Ok(self.keyspace.begin_one(shard(key), (self.clock)())),
            keys => {
                let shards: Vec<usize> = keys.iter().map(shard).collect();
                Ok(self.keyspace.begin(&shards, (self.clock)()))
            }
        }
    }

    /// Refuses a key whose entry was lost with its name; checked only if the medium has errors.
    pub(crate) fn refuse_lost(&self, db: Db, key: &[u8]) -> Result<(), Error> {
        if !self.keyspace.has_media_errors() {
            return Ok(());
        }
        match self.keyspace.key_damage(db, &self.keyspace.key(key)) {
            None => Ok(()),
            Some(KeyDamage::Unidentified(at)) => Err(Error::Damaged(at)),
            Some(KeyDamage::Stopped(_)) => Err(Error::ReadOnly),
        }
    }

    /// Removes an entry whose name was lost and that may be this key's; checked only if the medium
    /// has errors.
    fn cut_lost(&self, db: Db, key: &[u8]) -> Result<(), Error> {
        if self.keyspace.has_media_errors() {
            let key = self.keyspace.key(key);
            self.keyspace.remove_unidentified(db, &key)?;
            if let Some(journaled) = &self.journaled {
                journaled.committed(key.shard(), self.region().appended());
            }
        }
        Ok(())
    }

    fn read(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let key = self.keyspace.key(key);
        let mut txn = self.keyspace.begin_one(key.shard(), (self.clock)());
        let Some(entry) = txn.find(Db::default(), &key) else { return Ok(None) };
        let value = txn.strings().read(&entry)?;
        if value.len() < Keyspace::LARGE {
            return Ok(Some(value.to_vec()?));
        }
        copy_large(txn, &entry).map(Some)
    }

    /// Shows the bytes of a value to `look` in place, in order, in one piece or several. Returns
    /// true if there is a key.
    ///
    /// Calls for other keys of the same shard wait meanwhile, so `look` should be short. The
    /// store's calls return [`Error::Reentrant`] inside it. A large value is copied first, without
    /// blocking its shard, and shown in one piece. Use what was seen only if this returns `Ok`:
    /// bytes that the medium loses at that moment look like zeros, and the result is an error.
    pub fn get_with(
        &self,
        key: impl AsRef<[u8]>,
        mut look: impl FnMut(&[u8]),
    ) -> Result<bool, Error> {
        let entered = Entered::new(&self.keyspace)?;
        let found = self.attempt(|losses| {
            self.refuse_lost(Db::default(), key.as_ref())?;
            let found = self.show(key.as_ref(), &mut look);
            self.keyspace.check_losses(losses)?;
            found
        })?;
        drop(entered);
        self.acknowledge_key(key.as_ref())?;
        Ok(found)
    }

    fn show(&self, key: &[u8], look: &mut dyn FnMut(&[u8])) -> Result<bool, Error> {
        let key = self.keyspace.key(key);
        let mut txn = self.keyspace.begin_one(key.shard(), (self.clock)());
        let Some(entry) = txn.find(Db::default(), &key) else { return Ok(false) };
        let value = txn.strings().read(&entry)?;
        if value.len() < Keyspace::LARGE {
            value.pieces(0, usize::MAX, look)?;
        } else {
            look(&copy_large(txn, &entry)?);
        }
        Ok(true)
    }

    /// Runs an operation on keys of a database, in a transaction of its own.
    pub(crate) fn on_in<R>(
        &self,
        db: Db,
        keys: &[&[u8]],
        work: impl FnOnce(&mut Open<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.run(db, keys, |tx| work(tx.open())).map_err(|error| self.named(error))
    }

    /// Removes an entry of a database whose name was lost and that may be this key's.
    pub(crate) fn replace_lost_in(&self, db: Db, key: &[u8]) -> Result<(), Error> {
        reentry::refuse(&self.keyspace)?;
        self.attempt(|_| self.cut_lost(db, key))
    }

    fn set_until(
        &self,
        key: &[u8],
        value: &[u8],
        expire: impl Fn(u64) -> Expire,
    ) -> Result<(), Error> {
        reentry::refuse(&self.keyspace)?;
        self.attempt(|losses| {
            self.cut_lost(Db::default(), key)?;
            let key = self.keyspace.key(key);
            let mut done = self.try_set(losses, &key, value, &expire);
            let mut tries = 0;
            while matches!(done, Err(Error::Full)) && self.make_space(value.len(), tries) {
                tries += 1;
                done = self.try_set(losses, &key, value, &expire);
            }
            done
        })?;
        self.wake_waiting_for(key);
        self.acknowledge_key(key)
    }

    fn try_set(
        &self,
        losses: Losses,
        key: &Key<'_>,
        value: &[u8],
        expire: impl Fn(u64) -> Expire,
    ) -> Result<(), Error> {
        let is_large = value.len() >= Keyspace::LARGE;
        let prepared = is_large.then(|| self.keyspace.prepare(key, value)).transpose()?;
        let mut txn = self.keyspace.begin_one(key.shard(), (self.clock)());
        let expire = expire(txn.now());
        match prepared {
            Some(prepared) => txn.strings().set_prepared(Db::default(), key, prepared, expire)?,
            None => txn.strings().set(Db::default(), key, value, expire)?,
        }
        self.keyspace.check_losses(losses)?;
        self.commit(&mut txn)
    }

    /// Deletes some expired keys and frees some garbage of deletes, like the background thread.
    /// Returns true if there is more to do. Inside a transaction it does nothing, and returns
    /// false.
    pub fn maintain(&self) -> bool {
        !reentry::is_entered(&self.keyspace)
            && background::maintain(&self.keyspace, &self.compaction, (self.clock)())
    }

    /// Frees the garbage of deletes, and gives all free space back to the file system at once.
    /// Returns how many bytes were given back. (The background thread does so only with space that
    /// was unused for a while.) May take long if there is much to free. With a journal, on a
    /// device, and on file systems that make no holes in files, the pool keeps its space for later
    /// writes: then garbage is freed, and 0 returned. Inside a transaction it does nothing, and
    /// returns 0.
    pub fn purge(&self) -> u64 {
        let _span = span!("purge");
        if reentry::is_entered(&self.keyspace) { 0 } else { self.keyspace.purge() }
    }

    /// Closes the store and syncs the pool, which then opens after any boot of the machine.
    /// Dropping it instead loses no data that the domain preserves.
    pub fn close(mut self) -> Result<(), CloseError> {
        let _span = span!("close");
        drop(self.background.take());
        drop(self.journaled.take());
        Ok(self.keyspace.heap().close()?)
    }
}

impl fmt::Debug for Perdura {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (domain, usage) = (self.domain(), self.usage());
        let mut shown = f.debug_struct("Perdura");
        shown.field("domain", &domain).field("keys", &self.len()).field("usage", &usage);
        shown.finish_non_exhaustive()
    }
}

impl Execute for Perdura {
    fn on<R>(
        &self,
        keys: &[&[u8]],
        work: impl FnOnce(&mut Open<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.on_in(Db::default(), keys, work)
    }

    fn replace_lost(&self, key: &[u8]) -> Result<(), Error> {
        self.replace_lost_in(Db::default(), key)
    }
}

impl Strings for Perdura {
    // A large value is copied without blocking its shard.
    fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Error> {
        reentry::refuse(&self.keyspace)?;
        let value = self.keyspace.retry_losses(Error::has_unresolved_losses, |losses| {
            self.refuse_lost(Db::default(), key.as_ref())?;
            let value = self.read(key.as_ref());
            self.keyspace.check_losses(losses)?;
            value
        })?;
        self.acknowledge_key(key.as_ref())?;
        Ok(value)
    }

    // A large value is written without blocking the key's shard.
    fn set(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<(), Error> {
        self.set_until(key.as_ref(), value.as_ref(), |_| Expire::Clear)
    }

    fn set_for(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<(), Error> {
        self.set_until(key.as_ref(), value.as_ref(), |now| Expire::At(later(now, ttl)))
    }
}

/// Returns a copy of a large value, made after its shard's lock is released.
fn copy_large(mut txn: Txn<'_>, entry: &Entry) -> Result<Vec<u8>, Error> {
    let pinned = txn.strings().pin(entry)?;
    drop(txn);
    let mut bytes = Vec::new();
    pinned.append_to(&mut bytes);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DomainRequest, Keys};
    use std::fs::{self, OpenOptions};
    use std::os::unix::fs::FileExt;
    use std::path::Path;

    const PAGE: usize = 4096;

    /// Makes the medium lose the page where `text` begins, with the loss not yet resolved. The file
    /// is cut short under the mapping, which raises the same signal.
    fn lose(store: &Perdura, pool: &Path, text: &[u8]) {
        let bytes = fs::read(pool).expect("the pool");
        let at = bytes.windows(text.len()).rposition(|part| part == text).expect("the text");
        let page = at & !(PAGE - 1);
        let file = OpenOptions::new().write(true).open(pool).expect("the pool");
        file.set_len(page as u64).expect("a shorter file");
        store.keyspace.heap().region().load(page as u64);
        let rest = page + PAGE;
        file.write_all_at(&bytes[rest..], rest as u64).expect("what lies after it");
        assert!(store.keyspace.has_unresolved_losses());
    }

    #[test]
    fn a_delete_that_meets_a_loss_finds_out_what_was_lost_and_succeeds_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let pool = folder.path().join("pool");
        let options = Options::new(&pool).domain(DomainRequest::Process).background(false);
        let store = Perdura::open(options).expect("a store");
        let name = |i: usize| format!("{{t}}key:{i:05}");
        for i in 0..4000 {
            store.set(name(i), format!("{i:05}").repeat(20)).expect("space");
        }
        lose(&store, &pool, &"01000".repeat(20).into_bytes());
        store.keyspace.resolve_losses();
        let unidentified = |i: &usize| {
            let name = name(*i);
            let damage =
                store.keyspace.key_damage(Db::default(), &store.keyspace.key(name.as_bytes()));
            matches!(damage, Some(KeyDamage::Unidentified(_)))
        };
        let lost = name((0..4000).find(unidentified).expect("a key without a name"));
        lose(&store, &pool, &"03000".repeat(20).into_bytes());
        assert_eq!(store.delete(&lost), Err(Error::UnresolvedLosses));
        assert!(!store.keyspace.has_unresolved_losses(), "what was lost is known now");
        assert_eq!(store.delete(&lost), Ok(false));
        assert_eq!(store.get(&lost), Ok(None));
    }
}
