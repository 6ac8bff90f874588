//! A log that can no longer be written: nothing more is acknowledged, the client gets the reason,
//! and everything acknowledged before is recovered. Writing continues when there is space again;
//! durable data can be read meanwhile.
//!
//! A full disk is emulated by a limit on the size of files; with root, by a small file system too.
//! A disk that fails a sync, which takes root, is a file system in a file that promises more space
//! than its memory has: write(2) succeeds and fdatasync fails. `tests/kill` kills servers under
//! load whose disk is full; `crates/commands/tests/it/log_failure.rs` makes writes, syncs and
//! renames of an engine's log fail.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use testkit::{Client, Launch, Medium, Server};

const FULL: &str = "(error) MISCONF Errors writing to the AOF file: File too large";

/// Sets one key after the other until that is refused. Returns the number of acknowledged ones, and
/// the refusal.
fn write_until_refused(server: &Server) -> (u32, String) {
    let mut client = server.client();
    for n in 0..100_000 {
        let key = format!("key{n}");
        match client.try_call(&["SET", &key, "some value of some length"]) {
            Ok(reply) if reply.to_string() == "OK" => {}
            Ok(reply) => return (n, reply.to_string()),
            Err(error) => return (n, error.to_string()),
        }
    }
    panic!("a file of 64 KiB took 100000 commands");
}

/// Checks that every write is refused, and everything else works.
#[track_caller]
fn check_refuses(client: &mut Client, policy: &str, refusal: &str) {
    client.check("SET another value", refusal);
    client.check("DEL key0", refusal);
    client.check("PING", refusal);
    client.check("CONFIG GET appendfsync", &format!("[\"appendfsync\", \"{policy}\"]"));
    assert_eq!(client.info("persistence")["aof_last_write_status"], "err", "{policy}");
}

fn check_full(policy: &str) {
    let launch = Launch::perdura_aof(policy);
    let mut server = launch.clone().longest_file(64).start();
    let (acknowledged, refusal) = write_until_refused(&server);
    assert!(acknowledged > 500, "{policy}: refused after {acknowledged}: {refusal}");
    assert!(refusal.contains("MISCONF Errors writing to the AOF file"), "{policy}: {refusal}");
    check_refuses(&mut server.client(), policy, FULL);

    server.kill();
    server.start_as(launch);
    let mut client = server.client();
    let found = client.run("DBSIZE").int().expect("a number");
    assert!(found >= i64::from(acknowledged), "{policy}: {found} of {acknowledged} came back");
    for n in 0..acknowledged {
        client.check(&format!("GET key{n}"), "\"some value of some length\"");
    }
    client.check("SET another value", "OK");
}

#[test]
fn a_log_that_is_synced_always_acknowledges_nothing_that_it_could_not_write() {
    check_full("always");
}

#[test]
fn a_log_that_is_synced_every_second_stops_when_it_cannot_be_written() {
    check_full("everysec");
}

#[test]
fn a_log_that_is_not_synced_stops_when_it_cannot_be_written() {
    check_full("no");
}

/// Reads a field once a second, until it has this value.
#[track_caller]
fn wait_for(client: &mut Client, field: &str, value: &str) {
    let began = Instant::now();
    while client.info("persistence")[field] != value {
        assert!(began.elapsed() < Duration::from_secs(30), "{field} does not become {value}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The server runs full, gets space again, and continues, with the commands that it executed before
/// it reported that it was full.
fn check_goes_on(mut server: Server, policy: &str, full: &str, free_space: impl Fn(&Server)) {
    let (acknowledged, _) = write_until_refused(&server);
    assert!(acknowledged > 500, "{policy}: refused after {acknowledged}");
    let mut client = server.client();
    check_refuses(&mut client, policy, full);
    for n in 0..acknowledged {
        client.check(&format!("GET key{n}"), "\"some value of some length\"");
    }
    if policy == "always" {
        // It was executed, but is not in the log.
        client.check(&format!("GET key{acknowledged}"), full);
        client.check(&format!("MGET key0 key{acknowledged}"), full);
        client.check("DBSIZE", full);
        client.check("EXISTS key0 key1", "(integer) 2");
    }

    free_space(&server);
    wait_for(&mut client, "aof_last_write_status", "ok");
    client.check("SET another value", "OK");
    client.check("APPEND another s", "(integer) 6");
    client.check("BGREWRITEAOF", "Background append only file rewriting started");
    wait_for(&mut client, "aof_rewrites", "1");
    client.check("APPEND another !", "(integer) 7");
    assert_eq!(client.info("persistence")["aof_last_bgrewrite_status"], "ok");
    let there = client.run("DBSIZE").to_string();
    server.kill();
    server.start_again();
    let mut client = server.client();
    client.check("DBSIZE", &there);
    client.check("GET another", "\"values!\"");
    for n in 0..acknowledged {
        client.check(&format!("GET key{n}"), "\"some value of some length\"");
    }
}

#[test]
fn a_log_goes_on_when_there_is_space_again() {
    for policy in ["everysec", "no", "always"] {
        let server = Launch::perdura_aof(policy).longest_file(64).start();
        check_goes_on(server, policy, FULL, Server::lift_limit);
    }
}

/// A small file system.
struct SmallDisk {
    folder: TempDir,
}

impl SmallDisk {
    /// `None` if this process may not mount.
    fn new() -> Option<SmallDisk> {
        let disk = SmallDisk { folder: Medium::Memory.scratch() };
        succeeds("mount", &["-t", "tmpfs", "-o", "size=256k", "none"], &[disk.folder.path()])
            .then_some(disk)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        succeeds("umount", &["-l"], &[self.folder.path()]);
    }
}

#[test]
fn a_log_goes_on_when_its_disk_has_space_again() {
    for policy in ["everysec", "no", "always"] {
        let Some(disk) = SmallDisk::new() else {
            println!("skipped: mounting needs root");
            return;
        };
        let folder = TempDir::new_in(disk.folder.path()).expect("a folder");
        let server = Launch::perdura_aof(policy).start_in(folder);
        let full = "(error) MISCONF Errors writing to the AOF file: No space left on device";
        check_goes_on(server, policy, full, |_| {
            let larger = succeeds("mount", &["-o", "remount,size=4m"], &[disk.folder.path()]);
            assert!(larger, "it cannot be made larger");
        });
    }
}

/// A file system that has less space than it claims.
struct ThinDisk {
    above: TempDir,
}

fn succeeds(program: &str, arguments: &[&str], path: &[&Path]) -> bool {
    let done = Command::new(program).args(arguments).args(path).output();
    done.is_ok_and(|output| output.status.success())
}

impl ThinDisk {
    /// `None` if this process may not mount.
    fn new() -> Option<ThinDisk> {
        let disk = ThinDisk { above: Medium::Memory.scratch() };
        let [memory, folder] = [disk.memory(), disk.folder()];
        fs::create_dir(&memory).and_then(|()| fs::create_dir(&folder)).expect("two folders");
        let made = succeeds("mount", &["-t", "tmpfs", "-o", "size=6m", "none"], &[&memory])
            && File::create(disk.image()).and_then(|image| image.set_len(64 << 20)).is_ok()
            && succeeds("mkfs.ext4", &["-q", "-F"], &[&disk.image()])
            && disk.mount();
        made.then_some(disk)
    }

    fn memory(&self) -> PathBuf {
        self.above.path().join("memory")
    }

    fn folder(&self) -> PathBuf {
        self.above.path().join("disk")
    }

    fn image(&self) -> PathBuf {
        self.memory().join("image")
    }

    fn mount(&self) -> bool {
        succeeds("mount", &["-o", "loop"], &[&self.image(), &self.folder()])
    }

    /// Loses the data that was only in the kernel's memory; from now on there is space.
    fn lose_what_was_not_written(&self) {
        assert!(succeeds("umount", &[], &[&self.folder()]), "the disk is still in use");
        assert!(succeeds("mount", &["-o", "remount,size=64m"], &[&self.memory()]), "no more room");
        assert!(self.mount(), "the disk does not come back");
    }
}

impl Drop for ThinDisk {
    fn drop(&mut self) {
        succeeds("umount", &["-l"], &[&self.folder()]);
        succeeds("umount", &["-l"], &[&self.memory()]);
    }
}

/// Cuts off the zeros of blocks that were promised and never written.
fn cut_holes(folder: &Path) {
    let files = fs::read_dir(folder.join("appendonlydir")).expect("a log").flatten();
    for file in files.filter(|file| file.file_name().to_string_lossy().contains(".incr.")) {
        let bytes = fs::read(file.path()).expect("a file of the log");
        let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        fs::write(file.path(), &bytes[..end]).expect("a shorter one");
    }
}

#[test]
fn a_log_that_cannot_be_synced_acknowledges_nothing_that_it_loses() {
    let Some(disk) = ThinDisk::new() else {
        println!("skipped: mounting needs root");
        return;
    };
    let folder = TempDir::new_in(disk.folder()).expect("a folder");
    let mut server = Launch::perdura_aof("always").start_in(folder);
    let mut client = server.client();
    let value = "v".repeat(10_000);
    let set = |client: &mut Client, n: u32| {
        client.try_call(&["SET", &format!("key{n}"), &value]).map(|reply| reply.to_string())
    };
    let refused = (0..2000).map(|n| (n, set(&mut client, n)));
    let mut refused = refused.skip_while(|(_, reply)| reply.as_ref().is_ok_and(|r| r == "OK"));
    let (acknowledged, reply) = refused.next().expect("6 MiB hold 20 MB");
    assert!(acknowledged > 100, "refused after {acknowledged}");
    assert!(reply.as_ref().is_ok_and(|r| r.contains("MISCONF")), "{reply:?}");
    let refusal = server.client().run("SET another value").to_string();
    assert!(refusal.starts_with("(error) MISCONF Errors writing to the AOF file: "), "{refusal}");
    check_refuses(&mut server.client(), "always", &refusal);

    server.kill();
    disk.lose_what_was_not_written();
    cut_holes(server.folder());
    server.start_again();
    let mut client = server.client();
    for n in 0..acknowledged {
        let found = client.call(&["GET", &format!("key{n}")]);
        assert!(found.bytes() == Some(value.as_bytes()), "key{n} of {acknowledged} is lost");
    }
    client.check("SET another value", "OK");
    println!("{acknowledged} acknowledged, then {}", reply.expect("a reply"));
}

#[test]
fn a_log_that_cannot_be_synced_does_not_hide_what_it_loses() {
    let Some(disk) = ThinDisk::new() else {
        println!("skipped: mounting needs root");
        return;
    };
    let folder = TempDir::new_in(disk.folder()).expect("a folder");
    let mut server = Launch::perdura_aof("always").start_in(folder);
    let (mut client, mut listener) = (server.client(), server.client());
    listener.check("SUBSCRIBE set", "[\"subscribe\", \"set\", (integer) 1]");
    let value = "v".repeat(10_000);
    let mut set = |n: u32| {
        client.call(&["MULTI"]);
        client.call(&["SET", &format!("key{n}"), &value]);
        client.call(&["PUBLISH", "set", &n.to_string()]);
        client.try_call(&["EXEC"]).is_ok_and(|reply| reply.to_string().contains("OK"))
    };
    let mut acknowledged = 0;
    while acknowledged < 2000 && set(acknowledged) {
        // A message may still be on its way to the other connection when its EXEC is answered: the
        // log must not fail before it has arrived, except for the last one.
        if let Some(number) = acknowledged.checked_sub(1) {
            let message = listener.receive().expect("a message").to_string();
            assert_eq!(message, format!("[\"message\", \"set\", \"{number}\"]"));
        }
        acknowledged += 1;
    }
    assert!((100..2000).contains(&acknowledged), "{acknowledged} are acknowledged on 6 MiB");

    server.kill();
    // Messages sent before the end of the server are still on their way.
    let mut reported = acknowledged - 1;
    while let Ok(message) = listener.receive() {
        let expected = format!("[\"message\", \"set\", \"{reported}\"]");
        if message.to_string() != expected {
            assert!(message.to_string().contains("MISCONF"), "{message} in place of {expected}");
            break;
        }
        reported += 1;
    }
    disk.lose_what_was_not_written();
    cut_holes(server.folder());
    server.start_again();
    let mut client = server.client();
    for n in 0..reported {
        let found = client.call(&["GET", &format!("key{n}")]);
        assert!(found.bytes() == Some(value.as_bytes()), "key{n} was told of, and is lost");
    }
}
