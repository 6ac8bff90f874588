//! The thread after `everysec`: once a second it writes out what is buffered and syncs, holding no
//! lock over the sync.
//!
//! It also runs under the other policies, so that changing them needs no thread to be started, and
//! then only tries a write again that has failed.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::lock::lock;
use crate::options::Fsync;
use crate::shared::Shared;

const PERIOD: Duration = Duration::from_secs(1);

pub(crate) struct Ticker {
    wake: Mutex<Option<SyncSender<()>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Ticker {
    pub(crate) fn start(shared: Arc<Shared>) -> Ticker {
        let (wake, woken) = sync_channel(1);
        let name = "aof-sync".to_owned();
        let thread = std::thread::Builder::new().name(name).spawn(move || run(&shared, &woken));
        if let Err(error) = &thread {
            tracing::warn!("can't start the thread that syncs the append-only file: {error}");
        }
        Ticker { wake: Mutex::new(Some(wake)), thread: Mutex::new(thread.ok()) }
    }

    /// Has it look at the policy now.
    pub(crate) fn wake(&self) {
        if let Some(wake) = &*lock(&self.wake) {
            let _ = wake.try_send(());
        }
    }

    pub(crate) fn stop(&self) {
        lock(&self.wake).take();
        if let Some(thread) = lock(&self.thread).take() {
            let _ = thread.join();
        }
    }
}

fn run(shared: &Shared, woken: &Receiver<()>) {
    while let Ok(()) | Err(RecvTimeoutError::Timeout) = woken.recv_timeout(PERIOD) {
        match shared.fsync() {
            Fsync::EverySecond => tick(shared),
            Fsync::Always if shared.health.is_stalled() => tick(shared),
            // A failure is kept in the log.
            Fsync::No if shared.health.is_stalled() => _ = shared.flush(),
            Fsync::Always | Fsync::No => {}
        }
    }
}

/// Writes out and syncs. Others write on meanwhile. Where the write fails, what was written before
/// is synced all the same.
pub(crate) fn tick(shared: &Shared) {
    let _ = shared.flush();
    let Ok(()) = shared.health.check_alive() else { return };
    let (file, written) = {
        let writer = lock(&shared.writer);
        (Arc::clone(&writer.file), shared.written.load(Ordering::Acquire))
    };
    if written <= shared.durable.load(Ordering::Acquire) {
        return;
    }
    shared.background_sync.store(true, Ordering::Release);
    // A failure is kept in the log.
    let _ = shared.sync_file(&*file, written);
    shared.background_sync.store(false, Ordering::Release);
}
