//! The place in the stream for replicas over a restart.
//!
//! The last step of a clean end leaves it in the pool, and a replica that follows a primary keeps
//! it there with each commit, so that it survives a crash. So does a primary with a stream of its
//! own, whose end is in a [file beside the pool](crate::replication::ring_file). The opening finds
//! it, and the stream begins there before any client is served ([`keyspace::StreamPosition`]). Data
//! in memory without an append-only file has it in its dump, as Redis has. Whatever may have
//! changed the data without the stream makes it void: then replicas, or this server as one, get all
//! data.

use std::sync::{Arc, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use commands::{Engine, StreamPoint};
use keyspace::{CommitError, Db, Keyspace, OwnPlace, StreamPosition};
use replication::ring::{Beginning, Place, Recovered, Ring};
use replication::{Id, Position, Stream};

use crate::config::Values;
use crate::process::machine;
use crate::replication::ring_file::{FoundRing, RingFile};
use crate::shared::{PlaceTries, Shared};

/// A place that the opening of the pool has found.
pub(crate) struct FoundPlace {
    position: Position,
    /// Whether a primary kept it itself, and what is known of it then.
    own: Option<OwnPlace>,
}

/// Returns the place that the opening of the pool has found.
pub(crate) fn found(keyspace: &Keyspace) -> Option<FoundPlace> {
    let (position, own) =
        keyspace.position().take_place().filter(|_| !keyspace.has_media_errors())?;
    sync(keyspace);
    let StreamPosition { id, offset, db, second, is_replica: _ } = position;
    let position = Position {
        id: Id::from_random(id),
        second: second.map(|(id, until)| (Id::from_random(id), until)),
        end: offset,
        kept: 0,
        db: db.map(u32::from),
        epoch: 0,
    };
    Some(FoundPlace { position, own })
}

/// Returns the place that a dump has.
pub(crate) fn of_dump(point: StreamPoint) -> Option<Position> {
    let (id, end) = point.history?;
    Some(Position { id, second: point.second, end, kept: 0, db: Some(point.db), epoch: 0 })
}

/// Lets the stream begin where the pool says that the data is, before any client is served.
pub(crate) fn recover(shared: &Shared, found: FoundPlace) -> std::io::Result<()> {
    let FoundPlace { mut position, own } = found;
    let mut kept = Kept { bytes: Vec::new(), until: position.end };
    if let Some(own) = own {
        let is_replica = shared.engine.replication().is_replica();
        match judge(shared, &position, &own) {
            Ok(None) => {}
            // A replica asks its primary for what changed no data once more.
            Ok(Some(Recovered { until, .. })) if is_replica && until >= position.end => {}
            Ok(Some(_)) if is_replica => {
                tracing::warn!("This server has changes that nobody else has");
                forget(shared);
                return Ok(());
            }
            Ok(Some(Recovered { end, until, bytes })) => {
                (position.end, kept) = (end, Kept { bytes, until });
            }
            Err(why) => {
                tracing::warn!("Replicas of this server need all data: {why}");
                forget(shared);
                return Ok(());
            }
        }
    }
    go_on(shared, &position, &kept)
}

/// What a primary keeps of the stream that it continues.
struct Kept {
    /// The bytes before its end.
    bytes: Vec<u8>,
    /// Replicas with more than what is before this offset do not continue.
    until: u64,
}

/// Begins to keep the place of a primary that continues, once it is sure that this start succeeds:
/// until then the pool keeps what the next start finds, whatever becomes of this one.
pub(crate) fn begin(shared: &Arc<Shared>) {
    if shared.engine.replication().takes_effects() {
        spawn_own(shared);
    }
}

/// Returns what the ring of a primary's own place has, if it has all up to there; an error if the
/// place may not be true for the data.
fn judge(
    shared: &Shared,
    position: &Position,
    own: &OwnPlace,
) -> Result<Option<Recovered>, &'static str> {
    let file = RingFile::of(&shared.store).ok_or("the end of the stream is in no file")?;
    let (found, boot) = (file.find(position.id, own.begun), pmem::boot_id());
    // Commits that are not in the data may have been sent, and later ones be there.
    if !file.survives_power() && found.iter().all(|found| found.boot != boot) {
        return Err(
            "a restart of the machine may have taken what they have, or the stream's file is gone",
        );
    }
    let place = Place { id: position.id, begun: own.begun, end: position.end, shards: &own.shards };
    let most = shared.config.values().repl_backlog_size;
    let is_usable = |found: &&FoundRing| found.boot == boot || file.has_all();
    let usable: Vec<&FoundRing> = found.iter().filter(is_usable).collect();
    let rings = usable.iter().map(|found| &found.bytes[..]);
    let Some((number, recovered)) = replication::ring::recover_furthest(rings, &place, most) else {
        // Where the data outlives the machine and the file does not, a replica may have all.
        if file.survives_power() && found.iter().any(|found| found.boot != boot) && !file.has_all()
        {
            tracing::warn!(
                "The end of the stream is gone: a replica that lacks any needs all data"
            );
            return Ok(None);
        }
        // A replica with that much data got it from another server: this one never sent it.
        return Err("the file with the end of the stream is not that of the data, or is gone");
    };
    if usable[number].is_next {
        // The next crash must find it, too, though another is being made.
        if let Err(error) = file.keep() {
            tracing::warn!("The file with the end of the stream is not renamed: {error}");
        }
    }
    Ok(Some(recovered))
}

/// Lets the stream begin at the place where it was, before any client is served.
pub(crate) fn restore(shared: &Shared, position: &Position) -> std::io::Result<()> {
    go_on(shared, position, &Kept { bytes: Vec::new(), until: position.end })
}

/// The same. A primary has the bytes before it that are still there.
fn go_on(shared: &Shared, position: &Position, kept: &Kept) -> std::io::Result<()> {
    let replication = shared.engine.replication();
    let Position { id, end, .. } = position;
    if replication.is_replica() {
        replication.stream().continue_as_replica(position);
        tracing::info!("Continuing as a replica at offset {end} of history {id}");
    } else {
        let next = Id::from_random(machine::random()?);
        let Kept { bytes, until } = kept;
        replication.stream().continue_as_primary(position, bytes, *until, next);
        tracing::info!(
            "Setting secondary replication ID to {id}, valid up to offset: {}. \
             New replication ID is {next}",
            until.min(end).saturating_add(1)
        );
    }
    Ok(())
}

/// Returns the place in the stream of what the data is now, if the data is that of a history. For a
/// moment at which nothing changes.
pub(crate) fn present(engine: &Engine) -> Option<Position> {
    let stream = engine.replication().stream();
    // A commit that may count, or not, leaves no place.
    (is_of_a_history(engine) && !stream.has_pending()).then(|| stream.position())
}

/// Returns true if the data is that of a history.
fn is_of_a_history(engine: &Engine) -> bool {
    let replication = engine.replication();
    replication.stream().is_on()
        && !replication.is_diverged()
        && !replication.has_own_changes()
        && !engine.config().loading()
        && !engine.keyspace().is_syncing()
        && !engine.keyspace().has_media_errors()
}

/// Returns the place for a dump, at the moment that it shows.
pub(crate) fn point(engine: &Engine) -> Option<StreamPoint> {
    // Where none is selected, the next command selects its own.
    let Position { id, end, db, second, .. } = present(engine)?;
    Some(StreamPoint { db: db.unwrap_or(0), history: Some((id, end)), second })
}

/// Bytes of the stream without a change of data after which the place is moved behind them: a
/// primary keeps no more than `repl-backlog-size`, a megabyte on a Redis.
const STEP: u64 = 64 << 10;

/// Keeps the place in the pool while this replica follows the history of `epoch`, durably from now
/// on. Nothing of that is executed meanwhile. After an error an older place may be there, of
/// another history.
pub(crate) fn keep(shared: &Shared, epoch: u64) -> Result<(), CommitError> {
    let engine = &shared.engine;
    let of_epoch = |position: &Position| position.epoch == epoch;
    let position = || present(engine).filter(of_epoch).map(|position| saved(position, true));
    if engine.keyspace().position().keep(position, engine.clock().unix_ms())? {
        sync(engine.keyspace());
    }
    Ok(())
}

/// Makes a place durable. Nobody waits for that, so that with a journal it might stay in this
/// process for a second, and a crash would cost a dump. Returns false if the journal failed, which
/// ends the service by itself.
fn sync(keyspace: &Keyspace) -> bool {
    let region = keyspace.heap().region();
    region.sync_up_to(region.appended()).is_ok()
}

/// Moves the place in the pool to the end of the stream, if much of that changed no data. Nothing
/// of it is executed meanwhile.
pub(crate) fn advance(shared: &Shared, epoch: u64) {
    let engine = &shared.engine;
    let Position { end, db, epoch: now, .. } = engine.replication().stream().position();
    let db = db.and_then(|db| Db::new(usize::try_from(db).ok()?));
    if let Some(db) = db.filter(|_| now == epoch) {
        let time = engine.clock().unix_ms();
        // If it fails, the place is where it was.
        let _ = engine.keyspace().position().advance(end, db, STEP, time);
    }
}

/// Ends what [`keep`] began: this server's data is not its primary's.
pub(crate) fn forget(shared: &Shared) {
    let _alone = alone(shared);
    forget_kept(shared);
}

/// Ends what [`keep`] began, if there is anything: this server follows no primary.
pub(crate) fn forget_followed(shared: &Shared) {
    // While an own one begins, there is none to forget.
    let Some(_alone) = try_alone(shared) else { return };
    if !shared.engine.replication().stream().reserves() && !waits_for_own(shared) {
        forget_kept(shared);
    }
}

/// Returns true if an own place is to follow the one that is kept, which is true for the data: of
/// a history that a start has found, or that was followed until now. If the server crashes before,
/// the next start finds that.
fn waits_for_own(shared: &Shared) -> bool {
    let engine = &shared.engine;
    engine.replication().takes_effects()
        && engine.replication().stream().is_on()
        && engine.keyspace().position().kept_offset().is_some()
        && RingFile::size(&shared.config.values()).is_some()
        && RingFile::of(&shared.store).is_some()
}

/// Waits until no place is begun or ended.
fn alone(shared: &Shared) -> MutexGuard<'_, PlaceTries> {
    shared.place.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns none while a place is begun or ended.
fn try_alone(shared: &Shared) -> Option<MutexGuard<'_, PlaceTries>> {
    match shared.place.try_lock() {
        Ok(tries) => Some(tries),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

fn forget_kept(shared: &Shared) {
    let engine = &shared.engine;
    if let Err(error) = engine.keyspace().position().forget(engine.clock().unix_ms()) {
        tracing::warn!("The place in the replication stream cannot be made void: {error}");
    }
}

/// The pause after the first try to keep a primary's own place. It doubles with each, until a place
/// was kept for as long as the longest pause: a try writes a whole file.
const RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// Maximum of bytes of the stream that a new ring begins with: they are copied while all shards are
/// locked. Replicas that were connected are not further behind after a crash.
const KEPT: u64 = 1 << 20;

/// Keeps a primary's own place in the pool as long as there is a stream.
#[derive(Default)]
pub(crate) struct OwnPlaceCare {
    tried: Option<Duration>,
}

impl OwnPlaceCare {
    /// Begins an own place, if there is none or it was lost, and ends one that is not wanted.
    pub(crate) fn tend(&mut self, shared: &Arc<Shared>, values: &Values, now: Duration) {
        let engine = &shared.engine;
        let wanted = RingFile::size(values).filter(|_| RingFile::of(&shared.store).is_some());
        let stream = engine.replication().stream();
        if wanted.is_none() {
            // A pool that cannot be looked at keeps its ring.
            if stream.reserves() && RingFile::size(values).is_none() {
                spawn_end(shared, |shared| RingFile::size(&shared.config.values()).is_none());
            }
            return;
        }
        let is_kept = stream.reserves() && engine.keyspace().position().kept_offset().is_some();
        let since = self.tried.map(|tried| now.saturating_sub(tried));
        let Some(mut tries) = try_alone(shared) else { return };
        if is_kept && since.is_some_and(|since| since > LONGEST_RETRY) {
            tries.pause = Duration::ZERO;
        }
        let is_due = since.is_none_or(|since| since >= tries.pause.max(RETRY));
        drop(tries);
        if is_due && !(is_kept && stream.ring_size() == wanted) {
            self.tried = Some(now);
            spawn_own(shared);
        }
    }
}

/// Begins to keep a primary's own place on a thread of its own: a script may hold a shard for long.
fn spawn_own(shared: &Arc<Shared>) {
    let for_thread = Arc::clone(shared);
    let begin = move || {
        if let Some(mut tries) = try_alone(&for_thread) {
            begin_own(&for_thread, &for_thread.config.values(), &mut tries);
        }
    };
    if let Err(error) = std::thread::Builder::new().name("own-place".into()).spawn(begin) {
        tracing::warn!("No thread begins the place in the replication stream: {error}");
    }
}

/// Ends a ring when it is dropped, since the pool does not name it.
struct Unnamed<'s>(Option<&'s Stream>);

impl Drop for Unnamed<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(|stream| stream.end_ring());
    }
}

/// Begins to keep a primary's own place in the pool, with a ring that begins with some of the bytes
/// before it.
fn begin_own(shared: &Shared, values: &Values, tries: &mut PlaceTries) {
    let engine = &shared.engine;
    let (Some(file), Some(size)) = (RingFile::of(&shared.store), RingFile::size(values)) else {
        return;
    };
    if !engine.keyspace().heap().is_durable() || !is_of_a_history(engine) {
        return;
    }
    tries.pause = (tries.pause * 2).clamp(RETRY, LONGEST_RETRY);
    let stream = engine.replication().stream();
    // As long as there is no other ring, the one that there is stays.
    let mut unnamed = Unnamed(None);
    let begun = file.create(size).map_err(|error| error.to_string()).and_then(|medium| {
        let random: [u8; 8] = machine::random().map_err(|error| error.to_string())?;
        let ring = |position: &Position, kept: &[u8]| {
            let Position { id, end: begun, .. } = *position;
            let key = u64::from_le_bytes(random);
            let beginning = Beginning { id, begun, kept, boot: pmem::boot_id(), key };
            Ring::begin(medium, size, &beginning)
        };
        let position = || {
            present(engine)?;
            unnamed.0 = Some(stream);
            stream.begin_ring(KEPT.min(size / 2), ring).map(|position| saved(position, false))
        };
        let kept = engine.keyspace().position().keep_own(position, engine.clock().unix_ms());
        kept.map_err(|error| error.to_string())
    });
    let kept = begun.and_then(|kept| match kept {
        true => {
            // After a crash the pool must not name the ring that is replaced now.
            if let Some(journal) = &shared.journal {
                journal.acknowledge(engine.keyspace().heap().region().appended());
            }
            file.keep().map(|()| true).map_err(|error| error.to_string())
        }
        false => Ok(false),
    });
    match kept {
        Ok(true) => unnamed.0 = None,
        _ => file.give_up(),
    }
    drop(unnamed);
    let text = match kept {
        Ok(true) => "Replicas can continue after a crash of this server".to_owned(),
        Ok(false) => return,
        Err(error) => format!("Replicas cannot continue after a crash of this server: {error}"),
    };
    if text != tries.logged {
        tracing::info!("{text}");
    }
    tries.logged = text;
}

/// Ends a primary's own place on a thread of its own, if `is_due` says so then: a script may hold a
/// shard for long. Commits are at no place from now on.
pub(crate) fn spawn_end(shared: &Arc<Shared>, is_due: fn(&Shared) -> bool) {
    shared.engine.replication().stream().end_ring();
    let for_thread = Arc::clone(shared);
    let end = move || {
        let _alone = alone(&for_thread);
        if is_due(&for_thread) {
            for_thread.engine.replication().stream().end_ring();
            forget_kept(&for_thread);
            remove_ring(&for_thread);
        }
    };
    if let Err(error) = std::thread::Builder::new().name("own-place".into()).spawn(end) {
        tracing::warn!("No thread ends the place in the replication stream: {error}");
    }
}

fn remove_ring(shared: &Shared) {
    if let Some(file) = RingFile::of(&shared.store) {
        file.remove();
    }
}

fn saved(position: Position, is_replica: bool) -> StreamPosition {
    let Position { id, end, db, second, .. } = position;
    StreamPosition {
        id: id.to_bytes(),
        offset: end,
        db: db.and_then(|db| u8::try_from(db).ok()),
        second: second.map(|(id, until)| (id.to_bytes(), until)),
        is_replica,
    }
}

/// Leaves the place in the pool: to be called when nothing can change any more.
pub(crate) fn leave(shared: &Shared) {
    let engine = &shared.engine;
    if !engine.keyspace().heap().is_durable() || shared.shutdown.has_failed() {
        return;
    }
    let _alone = alone(shared);
    let (keyspace, is_replica) = (engine.keyspace(), engine.replication().is_replica());
    let has_lost = keyspace.position().is_kept() && keyspace.position().kept_offset().is_none();
    if !is_replica && has_lost {
        // What this server has changed since it is the primary is in its own history.
        forget_kept(shared);
    }
    let position = || present(engine).map(|position| saved(position, is_replica));
    match keyspace.position().leave(position, engine.clock().unix_ms()) {
        Ok(left) => {
            if let Some(StreamPosition { offset, .. }) = left {
                tracing::info!("Replication can continue at offset {offset}");
            }
            // The place does not need it any more; until that is safe a kill leaves both.
            if !is_replica && sync(keyspace) {
                engine.replication().stream().end_ring();
                remove_ring(shared);
            }
        }
        Err(error) => tracing::warn!("The place in the replication stream is not kept: {error}"),
    }
}
