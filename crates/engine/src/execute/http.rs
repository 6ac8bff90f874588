//! HTTP that arrives where commands are expected.
//!
//! A page that a browser shows can make it send a request to a server on the same machine, with
//! commands in its body. The words at its start would be answered with errors, and the commands
//! then executed. So a connection ends, without a reply, at a command whose name is one of those
//! words, as it does in Redis.
//!
//! The words after the first line are whatever a header's name was made of, which may be a command:
//! so a connection ends at the first line of a request already, with any method, and not only at
//! the `Host:` that follows. No command has such words: `GET` has one word after it.

use std::sync::atomic::Ordering::Relaxed;

use crate::engine::Engine;
use crate::execute::call::{Next, Outcome};

/// Seconds between two lines of the log.
const SILENCE: u64 = 60;

/// Returns true if a request with this first word, which for Redis ends at a zero byte, is one of
/// HTTP.
pub(crate) fn is_http(name: &[u8]) -> bool {
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

/// The methods of HTTP; `POST` ends a connection by itself.
const METHODS: [&[u8]; 8] =
    [b"connect", b"delete", b"get", b"head", b"options", b"patch", b"put", b"trace"];

/// Returns true if a request is the first line of one of HTTP: `GET /path HTTP/1.1`.
pub(crate) fn is_request_line(args: &[&[u8]]) -> bool {
    let [method, _, version] = args else { return false };
    version.get(..5).is_some_and(|start| start.eq_ignore_ascii_case(b"http/"))
        && METHODS.iter().any(|known| known.eq_ignore_ascii_case(method))
}

impl Engine {
    /// Ends the connection, and says so in the log if that has not been said a short time ago.
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
