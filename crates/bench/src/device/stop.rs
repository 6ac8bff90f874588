//! Ending early: the first SIGINT or SIGTERM asks, so that what was measured is kept; the second one ends the program.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tokio::signal::unix::{SignalKind, signal};

/// A flag that a signal sets. Without a runtime for it, signals end the program as they always do.
pub(crate) fn on_signals() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    if let Ok(runtime) = runtime {
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || runtime.block_on(wait(&stop)));
    }
    stop
}

async fn wait(stop: &AtomicBool) {
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return;
    };
    loop {
        let number = tokio::select! {
            _ = interrupt.recv() => 2,
            _ = terminate.recv() => 15,
        };
        if stop.swap(true, Relaxed) {
            std::process::exit(128 + number);
        }
    }
}
