//! Freeing large buffers of connections: another thread does it, since unmapping their pages takes
//! the kernel a while.

use commands::{LARGE, Thread};

use crate::shared::Shared;

/// Frees a buffer, on another thread if it is large.
pub(crate) fn discard(shared: &Shared, buffer: Vec<u8>) {
    if buffer.capacity() > LARGE {
        shared.engine.spawn(Thread::Shared, Box::new(move |_| drop(buffer)));
    }
}
