//! HTTP that arrives where commands are expected.
//!
//! A web page can make a browser send a request with commands in its body to a server on the same
//! machine. The lines of its head would be answered with errors, and the commands then executed. So
//! a connection ends, without a reply, at a command named `POST` or `Host:`, as in Redis.
//!
//! A header's name may be chosen so that its line is a command. So a connection already ends at the
//! request line, with any method, and not only at the `Host:` that follows. No command looks like a
//! request line: `GET` has one word after it.

use std::sync::atomic::Ordering::Relaxed;

use crate::engine::Engine;
use crate::execute::call::{Next, Outcome};

/// Seconds between two lines of the log.
const SILENCE: u64 = 60;

/// Returns true if this first word of a request, which for Redis ends at a zero byte, is one of
/// HTTP.
pub(crate) fn is_http(name: &[u8]) -> bool {
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

/// The methods of HTTP; `POST` ends a connection by itself.
const METHODS: [&[u8]; 8] =
    [b"connect", b"delete", b"get", b"head", b"options", b"patch", b"put", b"trace"];

/// Returns true if a request is HTTP's request line: `GET /path HTTP/1.1`.
pub(crate) fn is_request_line(args: &[&[u8]]) -> bool {
    let [method, _, version] = args else { return false };
    version.get(..5).is_some_and(|start| start.eq_ignore_ascii_case(b"http/"))
        && METHODS.iter().any(|known| known.eq_ignore_ascii_case(method))
}

impl Engine {
    /// Ends the connection, and logs that unless it was logged a short time ago.
    #[cold]
    pub(crate) fn refuse_http(&self) -> Outcome {
        let now = self.clock.unix_ns() / 1_000_000_000;
        let last_warning = &self.last_http_warning;
        let last = last_warning.load(Relaxed);
        if now.abs_diff(last) > SILENCE
            && last_warning.compare_exchange(last, now, Relaxed, Relaxed).is_ok()
            && let Some(host) = self.host()
        {
            host.log(
                "Possible SECURITY ATTACK detected. It looks like somebody is sending POST or Host: commands to Perdura. \
                 This is likely due to an attacker attempting to use Cross Protocol Scripting to compromise your Perdura \
                 instance. Connection aborted.",
            );
        }
        Outcome { next: Next::Close, ..Outcome::default() }
    }
}
