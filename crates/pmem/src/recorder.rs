//! What a simulated region reports: every store, flush and fence, in program order.

/// Watches a simulated region. Calls come from the thread that stored, flushed or fenced.
pub trait Recorder: Send + Sync {
    /// `bytes` were stored at `off`. A copy past the cache is reported as a store and flushes of its lines.
    fn store(&self, off: u64, bytes: &[u8]);
    /// The line at `line` (a multiple of [`crate::LINE`]) was flushed.
    fn flush(&self, line: u64);
    /// The calling thread fenced.
    fn fence(&self);
    /// The region grew to `len` bytes; zeros up to there are durable.
    fn grow(&self, len: u64) {
        let _ = len;
    }
}

/// Records nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullRecorder;

impl Recorder for NullRecorder {
    fn store(&self, _off: u64, _bytes: &[u8]) {}
    fn flush(&self, _line: u64) {}
    fn fence(&self) {}
}
