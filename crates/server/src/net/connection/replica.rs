//! A connection of a replica: its dump, if it needs one, and then the stream.
//!
//! What was committed may not yet be safe. So the connection notes the end of the stream, then the
//! end of the log, waits at the commit barrier until the log is settled up to there, as a reply
//! does, and sends the stream up to the noted end: a replica never has what a restart of its
//! primary would not have. The same holds for a dump: its first byte waits for what it shows. The
//! replica's commands (`REPLCONF ACK`) have no replies; one that has ends the connection.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use commands::admin::{DumpForm, SentDump};
use commands::{Engine, ReplyMode, StreamPoint};
use replication::stream::BLOCK;
use replication::{Cursor, Lost, Replica, Stage};
use tokio::sync::mpsc::Receiver;

use super::batch::Step;
use super::{Connection, batch, dump};
use crate::threads::worker::Worker;

/// How often the replica's silence, and what waits for it, are looked at.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The pause after the log could not be settled.
const FAILED: Duration = Duration::from_millis(100);
/// The pause while too many dumps are being sent.
const BUSY: Duration = Duration::from_secs(1);

/// What the connection has to do next.
enum Event {
    /// The replica sent something.
    Input,
    /// There is more of the stream than may be sent by now.
    More,
    /// The replica is gone or must go.
    Gone,
}

/// Serves a replica until either side ends it.
pub(super) async fn serve(mut connection: Connection) {
    // So that it is noticed if a command of the replica has a reply.
    connection.session.reply = ReplyMode::On;
    let Some(replica) = &mut connection.session.replica else { return };
    let Some(entry) = replica.entry.clone() else { return };
    let cursor = match replica.cursor.take() {
        Some(cursor) => Some(cursor),
        None => send_dump(&mut connection, &entry).await,
    };
    let Some(cursor) = cursor else { return };
    let name = format!("{}:{}", entry.host, entry.port);
    let looked_ms = connection.now_ms();
    let mut sender = Sender { cursor, entry, may_send: 0, looked_ms, over_since_ms: None };
    if let Err(Lost) = sender.send_stream(&mut connection).await {
        warn_of_loss(&sender.entry);
    }
    tracing::info!("Connection with replica {name} lost.");
}

/// Logs that a replica cannot go on: see [`Lost`].
fn warn_of_loss(Replica { host, port, .. }: &Replica) {
    tracing::warn!(
        "Replica {host}:{port} is too far behind, or the history was replaced: disconnected"
    );
}

/// Returns why no dump can be given at this moment, while all shards are locked.
fn refusal(engine: &Engine) -> Option<&'static [u8]> {
    let replication = engine.replication();
    if replication.is_replica() && !replication.is_linked() {
        // It has dropped its data meanwhile, or is about to.
        return Some(b"-NOMASTERLINK Can't SYNC while not connected with my master\r\n");
    }
    // A commit may count, or not: the data is at no place that a replica could have.
    let is_open = replication.stream().has_pending();
    is_open.then_some(b"-NOMASTERLINK Can't SYNC before this server is restarted\r\n")
}

/// Sends a dump. Returns the replica's place in the stream, after it said that it has the dump.
async fn send_dump(connection: &mut Connection, entry: &Replica) -> Option<Cursor> {
    let cut: Arc<Mutex<Option<Cut>>> = Arc::default();
    let replica = connection.session.replica.as_ref()?;
    let is_diskless = connection.worker.shared.config.values().repl_diskless_sync;
    let (is_marked, is_old) = (replica.knows_mark && is_diskless, replica.is_old);
    entry.set_gets_marked(is_marked);
    let form = DumpForm {
        is_marked,
        is_for_replica: true,
        is_for_valkey: replica.reads_valkey && !replica.is_perdura,
    };
    let mut pieces = loop {
        let (engine, at) = (Arc::clone(&connection.worker.shared.engine), Arc::clone(&cut));
        let selected: Arc<Mutex<Option<u32>>> = Arc::default();
        let at_dump = Arc::clone(&selected);
        let stream = move || {
            let db = *at_dump.lock().unwrap_or_else(PoisonError::into_inner);
            db.map(|db| StreamPoint { db, history: None, second: None })
        };
        let at_cut = move || {
            let stream = engine.replication().stream();
            engine.replication().switch_on();
            let is_replica = engine.replication().is_replica();
            if let Some(refusal) = refusal(&engine) {
                return refusal.to_vec();
            }
            let (position, cursor) = if is_replica { stream.cut_received() } else { stream.cut() };
            *selected.lock().unwrap_or_else(PoisonError::into_inner) = position.db;
            let log_end = engine.log().map_or(0, |log| log.end());
            *at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Cut { cursor, log_end });
            let reply = format!("+FULLRESYNC {} {}\r\n", position.id, position.end);
            if is_old { Vec::new() } else { reply.into_bytes() }
        };
        match dump::begin(
            connection,
            SentDump { form, at_cut: Box::new(at_cut), stream: Box::new(stream) },
        ) {
            Ok(pieces) => break pieces,
            // Too many at once: the replica waits, and is told so.
            Err(_) => tokio::time::sleep(BUSY).await,
        }
        connection.output.writer.buffer().push(b'\n');
        if !dump::drain(connection).await {
            return None;
        }
    };
    let mut place: Option<Cursor> = None;
    loop {
        if place.as_ref().is_some_and(|cursor| cursor.offset().is_err()) {
            warn_of_loss(entry);
            return None;
        }
        let event = poll_fn(|cx| poll_dump(connection, &mut pieces, cx));
        let piece = match tokio::time::timeout(POLL_INTERVAL, event).await {
            // Without a complete dump the replica finds that the connection ends.
            Ok(DumpEvent::Gone) => return None,
            Ok(DumpEvent::Piece(piece)) => piece,
            Ok(DumpEvent::Input) => {
                entry.hear(connection.now_ms());
                if !obey(connection) {
                    return None;
                }
                continue;
            }
            Err(_) => {
                // Inside of a dump it would be a byte of it.
                if entry.stage() == Stage::WaitsForDump {
                    connection.output.writer.buffer().push(b'\n');
                    if !dump::drain(connection).await {
                        return None;
                    }
                }
                continue;
            }
        };
        if piece.is_empty() {
            break;
        }
        let made = cut.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Cut { cursor, log_end }) = made {
            connection.worker.commit_barrier.pass(log_end).await.ok()?;
            place = Some(cursor);
        }
        // While a dump is made in a file, newlines say so.
        if piece != b"\n" {
            entry.set_stage(Stage::ReceivesDump, connection.now_ms());
        }
        connection.output.writer.buffer().extend_from_slice(&piece);
        if !dump::drain(connection).await {
            return None;
        }
    }
    if !is_marked || is_old {
        entry.set_stage(Stage::Online, connection.now_ms());
    }
    place
}

/// The next thing for the connection to do while a dump is sent.
enum DumpEvent {
    /// There is a piece of the dump; none is left if it is empty.
    Piece(Vec<u8>),
    /// The replica sent something.
    Input,
    /// The replica is gone or must go, or the dump was given up.
    Gone,
}

/// Waits for the dump, and for the replica's end, for which a dump may not go on.
fn poll_dump(
    connection: &mut Connection,
    pieces: &mut Receiver<Vec<u8>>,
    cx: &mut Context<'_>,
) -> Poll<DumpEvent> {
    match dump::poll_piece(connection, pieces, cx) {
        Poll::Ready(piece) => return Poll::Ready(piece.map_or(DumpEvent::Gone, DumpEvent::Piece)),
        Poll::Pending => connection.input.grow_for_more(),
    }
    connection.poll_read(cx).map(|more| if more { DumpEvent::Input } else { DumpEvent::Gone })
}

/// The moment that a dump shows.
struct Cut {
    /// The replica's place in the stream.
    cursor: Cursor,
    /// The end of the log: a restart must have what the dump has.
    log_end: u64,
}

/// What a replica is sent, and how far.
struct Sender {
    cursor: Cursor,
    entry: Arc<Replica>,
    /// The offset up to which the stream may be sent.
    may_send: u64,
    /// When the replica's silence was looked at last, unix ms.
    looked_ms: u64,
    /// Since when the bytes that wait for the replica exceed their soft limit, unix ms.
    over_since_ms: Option<u64>,
}

impl Sender {
    /// Sends the stream until the connection ends.
    async fn send_stream(&mut self, connection: &mut Connection) -> Result<(), Lost> {
        self.note_loaded(connection.now_ms());
        loop {
            let event = poll_fn(|cx| self.poll(connection, cx));
            let event = match tokio::time::timeout(POLL_INTERVAL, event).await {
                Ok(event) => event?,
                Err(_) if self.is_patient(connection)? => continue,
                Err(_) => return Ok(()),
            };
            // There may be an event all the time.
            if !matches!(event, Event::Input)
                && self.is_due(connection)
                && !self.is_patient(connection)?
            {
                return Ok(());
            }
            match event {
                Event::Gone => return Ok(()),
                Event::More => self.settle(&Arc::clone(&connection.worker)).await,
                Event::Input => {
                    // A replica that loads its dump sends newlines.
                    self.entry.hear(connection.now_ms());
                    if !obey(connection) || !self.is_patient(connection)? {
                        return Ok(());
                    }
                    self.note_loaded(connection.now_ms());
                }
            }
        }
    }

    /// Notes that a replica which got a marked dump has it, if it has said so.
    fn note_loaded(&self, now_ms: u64) {
        if self.entry.stage() == Stage::ReceivesDump && self.entry.has_acknowledged() {
            self.entry.set_stage(Stage::Online, now_ms);
            let Replica { host, port, .. } = &*self.entry;
            tracing::info!("Synchronization with replica {host}:{port} succeeded");
        }
    }

    /// Returns true if it is time to look at the replica's silence.
    fn is_due(&self, connection: &Connection) -> bool {
        let passed = connection.now_ms().saturating_sub(self.looked_ms);
        u128::from(passed) >= POLL_INTERVAL.as_millis()
    }

    /// Waits until everything that is in the stream now is as safe as an acknowledged write.
    async fn settle(&mut self, worker: &Worker) {
        let engine = &worker.shared.engine;
        let end = engine.replication().stream().end();
        let log = engine.log().map_or(0, |log| log.end());
        match worker.commit_barrier.pass(log).await {
            Ok(()) => self.may_send = end,
            Err(_) => tokio::time::sleep(FAILED).await,
        }
    }

    fn poll(
        &mut self,
        connection: &mut Connection,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Event, Lost>> {
        connection.store_waker(cx);
        if connection.client.killed.load(Relaxed) {
            return Poll::Ready(Ok(Event::Gone));
        }
        let is_online = self.entry.stage() == Stage::Online;
        // A few blocks, then others have their turn.
        let mut left = super::MOST_IN_TURN / BLOCK;
        while is_online && connection.output.is_empty() && left > 0 {
            left -= 1;
            if self.cursor.read(self.may_send, connection.output.writer.buffer())? == 0 {
                break;
            }
            if !connection.try_write(cx) {
                return Poll::Ready(Ok(Event::Gone));
            }
        }
        if !connection.try_write(cx) {
            return Poll::Ready(Ok(Event::Gone));
        }
        connection.input.grow_for_more();
        match connection.poll_read(cx) {
            Poll::Ready(true) => return Poll::Ready(Ok(Event::Input)),
            Poll::Ready(false) => return Poll::Ready(Ok(Event::Gone)),
            Poll::Pending => {}
        }
        let is_idle = is_online && connection.output.is_empty();
        if is_idle && self.cursor.offset()? < self.may_send {
            let _ = pin!(tokio::task::yield_now()).poll(cx);
        } else if is_idle && self.cursor.poll(cx.waker())? {
            return Poll::Ready(Ok(Event::More));
        }
        Poll::Pending
    }

    /// Returns false if the replica was silent for too long, or takes too little.
    fn is_patient(&mut self, connection: &Connection) -> Result<bool, Lost> {
        let shared = &connection.worker.shared;
        let now = connection.now_ms();
        self.looked_ms = now;
        let Replica { host, port, .. } = &*self.entry;
        let silent_s = self.entry.lag_s(now);
        let is_old = connection.session.replica.as_ref().is_some_and(|replica| replica.is_old);
        if !is_old && i128::from(silent_s) > i128::from(shared.config.values().repl_timeout) {
            tracing::warn!("Replica {host}:{port} has said nothing for {silent_s} s: disconnected");
            return Ok(false);
        }
        let behind =
            shared.engine.replication().stream().end().saturating_sub(self.cursor.offset()?);
        let limit = shared.limits.replica();
        // A replica that loads a dump cannot take anything.
        if limit.soft == 0 || behind < limit.soft || !self.entry.has_acknowledged() {
            self.over_since_ms = None;
            return Ok(true);
        }
        let since = *self.over_since_ms.get_or_insert(now);
        let is_over = now.saturating_sub(since) > limit.seconds * 1000;
        if is_over {
            tracing::warn!(
                "Replica {host}:{port} is {behind} bytes behind since {} s: disconnected \
                 (client-output-buffer-limit replica)",
                limit.seconds
            );
        }
        Ok(!is_over)
    }
}

/// Executes what the replica sent. Returns false if the connection is to end: also if there is
/// something to say to it besides the stream, such as a message of a channel.
fn obey(connection: &mut Connection) -> bool {
    loop {
        let before = connection.output.len();
        let step = batch::run(connection);
        connection.log_end = 0;
        if connection.output.len() > before {
            warn_of_reply(connection, before);
            connection.output.clear();
            return false;
        }
        match step {
            Step::Done => return batch::is_within_limit(connection),
            Step::More => {}
            _ => return false,
        }
    }
}

/// Logs that a replica's command has a reply, which would get into the stream.
fn warn_of_reply(connection: &Connection, before: usize) {
    let engine = &connection.worker.shared.engine;
    let client = &connection.session.client;
    let command = engine.table().all().get(client.last_command.load(Relaxed));
    let command = command.map_or_else(|| "NULL".to_owned(), |command| command.full_name());
    let written = connection.output.writer.as_bytes();
    let reply = written.len().saturating_sub(connection.output.len() - before);
    let reply = &written[reply..];
    if let Some(error) = reply.strip_prefix(b"-") {
        let error = error.split(|byte| *byte == b'\r').next().unwrap_or_default();
        tracing::warn!(
            "== CRITICAL == This master is sending an error to its replica: '{}' after \
             processing the command '{command}'",
            String::from_utf8_lossy(error)
        );
    }
    let line = commands::admin::describe(engine, client, connection.now_ms());
    tracing::warn!("Replica generated a reply to command '{command}', disconnecting it: {line}");
}
