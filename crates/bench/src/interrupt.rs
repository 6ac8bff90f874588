//! Handles Ctrl-C and SIGTERM: after the first signal the measurement ends soon and its results are
//! reported; the second signal ends the program at once.

use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tokio::signal::unix::{SignalKind, signal};

/// The exit status of a program that SIGINT ended, by the convention of shells.
const INTERRUPTED: i32 = 130;

/// Whether a signal has asked for the end.
static CANCELLED: AtomicBool = AtomicBool::new(false);

/// Starts to listen for signals and returns the flag that the first of them sets. If listening
/// fails, signals end the program at once, as they do by default.
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
