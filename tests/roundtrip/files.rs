//! Files, programs and other servers that are used in between.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use testkit::{Client, Launch, Medium};

/// The maximum time for a rewrite.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn text(path: &Path) -> String {
    path.to_str().expect("scratch directories have names that are text").to_owned()
}

/// Runs `perdura`. Returns its output.
pub(crate) fn perdura(arguments: &[&str]) -> Result<Vec<u8>, String> {
    let output = Command::new(testkit::perdura()).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("perdura does not start: {error}"));
    match output.status.success() {
        true => Ok(output.stdout),
        false => {
            let (said, why) =
                (output.stdout.escape_ascii(), String::from_utf8_lossy(&output.stderr));
            Err(format!("perdura {}: {why} {said}", arguments.join(" ")))
        }
    }
}

/// Copies a directory into a new one, under its name.
pub(crate) fn copy(folder: &Path) -> TempDir {
    let scratch = Medium::Disk.scratch();
    let to = scratch.path().join(folder.file_name().expect("a name"));
    fs::create_dir(&to).expect("a directory can be made");
    for file in fs::read_dir(folder).expect("a directory") {
        let file = file.expect("a file");
        fs::copy(file.path(), to.join(file.file_name())).expect("a file can be copied");
    }
    scratch
}

/// Sends requests as they are; fails if one is refused.
pub(crate) fn feed(client: &mut Client, requests: &[u8]) -> Result<(), String> {
    client.send_raw(requests).map_err(|error| error.to_string())?;
    client.send(&["ECHO", "the end"]).map_err(|error| error.to_string())?;
    loop {
        let reply = client.receive().map_err(|error| error.to_string())?;
        if reply.bytes() == Some(b"the end") {
            return Ok(());
        }
        if reply.is_error() {
            return Err(format!("what was exported is refused: {reply}"));
        }
    }
}

/// Waits until a rewrite of the log has ended.
pub(crate) fn wait_for_rewrite(client: &mut Client) {
    let began = Instant::now();
    loop {
        let info = client.info("persistence");
        let is_over =
            info["aof_rewrite_in_progress"] == "0" && info["aof_rewrite_scheduled"] == "0";
        if is_over {
            assert_eq!(info["aof_last_bgrewrite_status"], "ok", "the rewrite of a log failed");
            return;
        }
        assert!(began.elapsed() < PATIENCE, "the rewrite of a log does not end");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Returns the peers that environment variables name.
pub(crate) fn later_peers() -> impl Iterator<Item = (&'static str, Launch)> {
    let peers = [("Redis 8", "PERDURA_REDIS8"), ("Valkey 9", "PERDURA_VALKEY9")];
    peers.into_iter().filter_map(|(name, variable)| {
        let launch = Launch::peer(std::env::var_os(variable)?);
        Some((name, launch.args(["--save", "", "--appendonly", "no"])))
    })
}
