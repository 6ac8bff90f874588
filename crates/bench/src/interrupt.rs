//! Ctrl-C, and SIGTERM: the first asks for an end, after which what was measured is reported; the
//! second ends at once.

use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tokio::signal::unix::{SignalKind, signal};

/// The exit status of a program that SIGINT ended, as shells have it.
const INTERRUPTED: i32 = 130;

/// Whether an end was asked for.
static CANCELLED: AtomicBool = AtomicBool::new(false);

/// Begins to listen for signals: what the first of them sets. Where the system does not allow it,
/// signals end the program at once, as they do by default.
pub(crate) fn listen() -> &'static AtomicBool {
    thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        if let Ok(runtime) = runtime {
            let _ = runtime.block_on(wait());
        }
    });
    &CANCELLED
}

async fn wait() -> std::io::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    loop {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        if CANCELLED.swap(true, Ordering::Relaxed) {
            process::exit(INTERRUPTED);
        }
    }
}
