//! What becomes of the pool's file while the server runs: cut short, moved, replaced, removed.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use testkit::{Client, Launch, Server};

const KEYS: usize = 20_000;

fn pool(server: &Server) -> PathBuf {
    server.folder().join("perdura.pool")
}

fn filled() -> (Server, Client) {
    let server = Launch::perdura_pmem().args(["--enable-debug-command", "yes"]).start();
    let mut client = server.client();
    client.check(&format!("DEBUG POPULATE {KEYS}"), "OK");
    (server, client)
}

/// Writes until it is refused; the text of the refusal.
fn refusal(client: &mut Client) -> String {
    loop {
        let reply = client.run("SET k v").text();
        if reply != "OK" {
            return reply;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn accepted(client: &mut Client) {
    while client.run("SET k v").text() != "OK" {
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_pool_that_is_cut_short_is_never_answered_as_empty() {
    let (server, mut client) = filled();
    let file = fs::OpenOptions::new().write(true).open(pool(&server)).expect("the pool");
    file.set_len(1 << 20).expect("a shorter file");
    let stopped = "the store is stopped: the pool's file was cut short";
    let mut lost = 0;
    for i in 0..KEYS {
        let reply = client.run(&format!("GET key:{i}")).text();
        lost += usize::from(reply.contains(stopped));
        assert!(reply.contains(stopped) || reply == format!("value:{i}"), "key {i}: {reply}");
    }
    assert!(lost > 0, "some key was in the part that is gone");
    for line in ["SET k v", "KEYS *", "DBSIZE", "FLUSHALL"] {
        let reply = client.run(line).text();
        assert!(reply.contains(stopped), "{line}: {reply}");
    }
    let info = client.info("persistence");
    assert!(info["media_stopped"].contains("was cut short"), "{info:?}");
    assert_eq!(info["writes_stopped"], "1");
    while !server.log().contains("The store is stopped: the pool's file was cut short") {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(file.metadata().expect("the pool").len(), 1 << 20, "nothing hides the gap");
}

#[test]
fn a_read_of_more_missing_pages_than_are_remembered_is_refused() {
    let (server, mut client) = filled();
    let file = fs::OpenOptions::new().write(true).open(pool(&server)).expect("the pool");
    file.set_len(1 << 20).expect("a shorter file");
    let reply = client.run("KEYS *").text();
    assert!(reply.contains("the pool's file was cut short"), "{reply}");
}

#[test]
fn a_pool_that_is_moved_takes_writes_again_when_it_is_back() {
    let (server, mut client) = filled();
    let (here, there) = (pool(&server), server.folder().join("elsewhere"));
    for replaced in [false, true] {
        fs::rename(&here, &there).expect("a new name");
        if replaced {
            fs::write(&here, "another file").expect("another file");
        }
        let reply = refusal(&mut client);
        assert!(reply.contains("MISCONF the pool's file is no longer at "), "{reply}");
        assert!(client.info("persistence")["writes_refused"].contains("move it back there"));
        client.check("GET key:7", "\"value:7\"");
        fs::rename(&there, &here).expect("the old name");
        accepted(&mut client);
        assert_eq!(client.info("persistence")["writes_refused"], "");
    }
}

#[test]
fn the_data_of_a_removed_pool_can_be_copied_out_as_the_error_says() {
    let (mut server, mut client) = filled();
    client.check("SET gone 1 PX 1", "OK");
    fs::remove_file(pool(&server)).expect("removed");
    let reply = refusal(&mut client);
    assert!(reply.contains("was removed, and its data ends with this process"), "{reply}");
    client.check("GET key:7", "\"value:7\"");
    let command = reply.split("Copy it now: ").nth(1).and_then(|rest| rest.split(", then").next());
    let words: Vec<&str> = command.expect("a command").split(' ').collect();
    assert!(Command::new(words[0]).args(&words[1..]).status().expect("cp").success());
    server.kill();
    let folder = server.folder();
    fs::rename(folder.join("perdura.pool.rescued"), pool(&server)).expect("the copy");
    server.start_again();
    let mut client = server.client();
    for i in 0..KEYS {
        client.check(&format!("GET key:{i}"), &format!("\"value:{i}\""));
    }
}
