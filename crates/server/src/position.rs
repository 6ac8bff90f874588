//! The place in the stream for replicas over a restart.
//!
//! The last step of a clean end leaves it in the pool, and a replica that follows a primary keeps
//! it there with each commit, so that it survives a crash. The opening finds it, and the stream
//! begins there before any client is served ([`keyspace::StreamPosition`]). Data in memory without
//! an append-only file has it in its dump, as Redis has. Whatever may have changed the data without
//! the stream makes it void: then replicas, or this server as one, get all data.

use commands::{Engine, StreamPoint};
use keyspace::{CommitError, Db, Keyspace, StreamPosition};
use replication::{Id, Position};

use crate::machine;
use crate::shared::Shared;

/// Returns the place that the opening of the pool has found.
pub(crate) fn found(keyspace: &Keyspace) -> Option<Position> {
    let position = keyspace.take_position().filter(|_| !keyspace.has_media_errors())?;
    sync(keyspace);
    let StreamPosition { id, offset, db, second } = position;
    Some(Position {
        id: Id::from_random(id),
        second: second.map(|(id, until)| (Id::from_random(id), until)),
        end: offset,
        kept: 0,
        db: db.map(u32::from),
        epoch: 0,
    })
}

/// Returns the place that a dump has.
pub(crate) fn of_dump(point: StreamPoint) -> Option<Position> {
    let (id, end) = point.history?;
    Some(Position { id, second: point.second, end, kept: 0, db: Some(point.db), epoch: 0 })
}

/// Lets the stream begin at the place where it was, before any client is served.
pub(crate) fn restore(shared: &Shared, position: &Position) -> std::io::Result<()> {
    let replication = shared.engine.replication();
    let Position { id, end, .. } = position;
    if replication.is_replica() {
        replication.stream().continue_as_replica(position);
        tracing::info!("Continuing as a replica at offset {end} of history {id}");
    } else {
        let next = Id::from_random(machine::random()?);
        replication.stream().continue_as_primary(position, &[], next);
        tracing::info!(
            "Setting secondary replication ID to {id}, valid up to offset: {}. New replication ID is {next}",
            end.saturating_add(1)
        );
    }
    Ok(())
}

/// Returns the place in the stream of what the data is now, if the data is that of a history. For a
/// moment at which nothing changes.
pub(crate) fn present(engine: &Engine) -> Option<Position> {
    let replication = engine.replication();
    let is_true = replication.stream().is_on()
        && !replication.is_diverged()
        && !replication.has_own_changes()
        && !engine.config().loading()
        && !engine.keyspace().is_syncing()
        && !engine.keyspace().has_media_errors();
    is_true.then(|| replication.stream().position())
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
    let position = || present(engine).filter(|position| position.epoch == epoch).map(saved);
    if engine.keyspace().keep_position(position, engine.clock().unix_ms())? {
        sync(engine.keyspace());
    }
    Ok(())
}

/// Makes durable that a place is kept. Nobody waits for that, so that with a journal it might stay
/// in this process for a second, and a crash would cost a dump.
fn sync(keyspace: &Keyspace) {
    let region = keyspace.heap().region();
    // A journal that fails ends the service by itself.
    let _ = region.sync_up_to(region.appended());
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
        let _ = engine.keyspace().advance_position(end, db, STEP, time);
    }
}

/// Ends what [`keep`] began: this server follows no primary, or its data is not its primary's.
pub(crate) fn forget(shared: &Shared) {
    let engine = &shared.engine;
    if let Err(error) = engine.keyspace().forget_position(engine.clock().unix_ms()) {
        tracing::warn!("The place in the replication stream cannot be made void: {error}");
    }
}

fn saved(position: Position) -> StreamPosition {
    let Position { id, end, db, second, .. } = position;
    StreamPosition {
        id: id.to_bytes(),
        offset: end,
        db: db.and_then(|db| u8::try_from(db).ok()),
        second: second.map(|(id, until)| (id.to_bytes(), until)),
    }
}

/// Leaves the place in the pool: to be called when nothing can change any more.
pub(crate) fn leave(shared: &Shared) {
    let engine = &shared.engine;
    if !engine.keyspace().heap().is_durable() || shared.shutdown.has_failed() {
        return;
    }
    if !engine.replication().is_replica() {
        // What this server has changed since it is the primary is in its own history.
        forget(shared);
    }
    let position = || present(engine).map(saved);
    match engine.keyspace().leave_position(position, engine.clock().unix_ms()) {
        Ok(None) => {}
        Ok(Some(StreamPosition { offset, .. })) => {
            tracing::info!("Replication can continue at offset {offset}");
        }
        Err(error) => tracing::warn!("The place in the replication stream is not kept: {error}"),
    }
}
