//! Space that the data no longer takes is given back: to the pool's file system, and to the kernel.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use testkit::{Client, Launch, Medium, Server};

const MIB: u64 = 1 << 20;
const KEYS: usize = 3000;

fn space(server: &Server) -> u64 {
    fs::metadata(server.folder().join("perdura.pool")).expect("the pool").blocks() * 512
}

/// Returns a value of the kernel's report on the server, in bytes.
fn memory(server: &Server, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
    let kib: u64 = line.trim_matches([':', ' ', '\t', 'k', 'B']).trim().parse().expect("a number");
    kib << 10
}

fn value(n: usize) -> String {
    format!("{n:06}").repeat(5000)
}

/// Sets keys to values of 30 KB until one is refused. Returns its number and the refusal.
fn fill(client: &mut Client, keys: usize) -> Result<(), (usize, String)> {
    for n in 0..keys {
        let reply = client.call(&["SET", &format!("key:{n}"), &value(n)]).text();
        if reply != "OK" {
            return Err((n, reply));
        }
    }
    Ok(())
}

fn verify(client: &mut Client, keys: usize) {
    client.check("DBSIZE", &format!("(integer) {keys}"));
    for n in (0..keys).step_by(7) {
        assert!(client.run(&format!("GET key:{n}")).text() == value(n), "key {n}");
    }
}

fn check_purge(launch: Launch) {
    let mut server = launch.start();
    let mut client = server.client();
    fill(&mut client, KEYS).expect("free memory");
    let full = space(&server);
    assert!(full > KEYS as u64 * 30_000);
    client.check("FLUSHALL", "OK");
    client.check("MEMORY PURGE", "OK");
    until("less than 8 MiB are left", || space(&server) < 8 * MIB);
    let info = client.info("persistence");
    assert_eq!(info["pool_gives_back"], "1");
    let number = |name: &str| info[name].parse::<u64>().expect("a number");
    assert!(number("pool_size") > 64 * MIB && number("pool_space") < 8 * MIB, "{info:?}");
    assert!(number("pool_given_back") > full / 2, "{info:?}");
    fill(&mut client, KEYS / 2).expect("free memory");
    verify(&mut client, KEYS / 2);
    server.crash();
    let mut client = server.client();
    verify(&mut client, KEYS / 2);
    fill(&mut client, KEYS).expect("free memory");
    client.check("MULTI", "OK");
    client.check("FLUSHALL", "QUEUED");
    client.check("MEMORY PURGE", "QUEUED");
    client.check("EXEC", "[OK, OK]");
    until("a purge in a transaction is done after it", || space(&server) < 8 * MIB);
    fill(&mut client, KEYS).expect("free memory");
    server.crash();
    verify(&mut server.client(), KEYS);
}

#[track_caller]
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn after_flushall_and_a_purge_the_pool_takes_what_an_empty_one_does() {
    check_purge(Launch::perdura_pmem());
    check_purge(Launch::perdura_pmem().on(Medium::Disk));
    check_purge(Launch::perdura_emulated());
}

#[test]
fn a_heap_in_memory_gives_it_back_too() {
    let server = Launch::perdura_volatile().start();
    let mut client = server.client();
    let before = memory(&server, "RssAnon");
    fill(&mut client, KEYS).expect("free memory");
    assert!(memory(&server, "RssAnon") > before + KEYS as u64 * 30_000);
    client.check("FLUSHALL", "OK");
    client.check("MEMORY PURGE", "OK");
    let most = before + 10 * MIB;
    until("10 MiB are left", || memory(&server, "RssAnon") < most);
    fill(&mut client, KEYS).expect("free memory");
    verify(&mut client, KEYS);
}

/// A small file system in memory, unmounted when dropped.
struct SmallDisk(PathBuf, #[expect(dead_code, reason = "removed when dropped")] tempfile::TempDir);

impl SmallDisk {
    /// Returns none if this process may not mount.
    fn mount(mib: u64) -> Option<SmallDisk> {
        let above = Medium::Memory.scratch();
        let folder = above.path().join("small");
        fs::create_dir(&folder).ok()?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={mib}m"), "none"]).arg(&folder);
        let mounted = mount.output().is_ok_and(|output| output.status.success());
        mounted.then_some(SmallDisk(folder, above))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

/// Takes all the space that is left in a file system, by a file.
fn take_all(folder: &Path) -> PathBuf {
    let file = folder.join("other");
    let zeros = vec![1; MIB as usize];
    let mut other = fs::File::create(&file).expect("a file");
    while std::io::Write::write(&mut other, &zeros).is_ok_and(|written| written > 0) {}
    file
}

/// Removes a file, and its space at once: another test's child that was just forked may still have
/// it open, so removing it alone does not suffice.
fn give_back(file: &Path) {
    fs::File::options().write(true).truncate(true).open(file).expect("cut to nothing");
    fs::remove_file(file).expect("removed");
}

#[test]
fn space_that_somebody_else_took_meanwhile_is_refused_with_an_error() {
    let Some(disk) = SmallDisk::mount(200) else {
        println!("skipped, since mounting needs root");
        return;
    };
    for is_restarted in [false, true] {
        let folder = tempfile::TempDir::new_in(&disk.0).expect("a folder");
        let mut server = Launch::perdura_pmem().start_in(folder);
        let mut client = server.client();
        fill(&mut client, KEYS).expect("free memory");
        client.check("FLUSHALL", "OK");
        let full = space(&server);
        client.check("MEMORY PURGE", "OK");
        until("the space is given back", || space(&server) < full / 8);
        let other = take_all(&disk.0);
        if is_restarted {
            server.crash();
            client = server.client();
        }
        let (n, reply) = fill(&mut client, KEYS).expect_err("the file system is full");
        assert!(reply.contains("OOM the store is full"), "{reply}");
        verify(&mut client, n);
        client.check("DEL key:0", if n > 0 { "(integer) 1" } else { "(integer) 0" });
        give_back(&other);
        fill(&mut client, KEYS).expect("free memory");
        verify(&mut client, KEYS);
        server.crash();
        verify(&mut server.client(), KEYS);
    }
}

/// Clients come, send and receive much, and go: their memory is not kept.
#[test]
fn what_many_clients_took_goes_back_when_they_have_gone() {
    const CLIENTS: usize = 1500;
    let server = Launch::perdura_pmem().start();
    let mut client = server.client();
    let value = "v".repeat(8000);
    client.check("PING", "PONG");
    let before = memory(&server, "RssAnon");
    // Clients that come and go between two checks count too.
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.client()).collect();
    for other in &mut clients {
        other.send(&["SET", "key", &value]).expect("sent");
    }
    // The first clients may have given theirs back when the last are served.
    let mut most = memory(&server, "RssAnon");
    for (n, other) in clients.iter_mut().enumerate() {
        drop(other.receive());
        if n % 100 == 0 {
            most = most.max(memory(&server, "RssAnon"));
        }
    }
    assert!(most > before + 15 * MIB, "{most}, {before} before");
    drop(clients);
    let limit = before + ((most - before) / 4).max(8 * MIB);
    until(&format!("less than {limit} of {most}, {before} before"), || {
        memory(&server, "RssAnon") < limit
    });
}
