//! The thread of `everysec`: once a second it writes out the buffer and syncs, holding no lock
//! during the sync.
//!
//! It also runs under the other policies, so that changing them starts no thread; then it only
//! repeats a failed write.

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

    /// Makes it look at the policy now.
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
            // The log keeps the failure.
            Fsync::No if shared.health.is_stalled() => _ = shared.flush(),
            Fsync::Always | Fsync::No => {}
        }
    }
}

/// Writes out and syncs, while others write on. If the write fails, the bytes written before are
/// synced all the same.
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
    // The log keeps the failure.
    let _ = shared.sync_file(&*file, written);
    shared.background_sync.store(false, Ordering::Release);
}
