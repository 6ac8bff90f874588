//! The pool's files while the server runs: cut short, moved, replaced, removed.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use testkit::{Client, Launch, Server};

const KEYS: usize = 20_000;

fn pool(server: &Server) -> PathBuf {
    server.folder().join("perdura.pool")
}

fn filled() -> (Server, Client) {
    filled_by(Launch::perdura_pmem())
}

fn filled_by(launch: Launch) -> (Server, Client) {
    let server = launch.args(["--enable-debug-command", "yes"]).start();
    let mut client = server.client();
    client.check(&format!("DEBUG POPULATE {KEYS}"), "OK");
    (server, client)
}

/// Waits until the server has noticed something by itself.
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what} does not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Writes until a write is refused. Returns the text of the refusal.
fn refusal(client: &mut Client) -> String {
    let mut reply = String::new();
    wait_until("a refusal", || {
        reply = client.run("SET k v").text();
        // Refusals before the whole reason is known, and of a write that had begun then.
        let is_early = ["is not in its place", "no write is taken for now"];
        reply != "OK" && !is_early.iter().any(|early| reply.contains(early))
    });
    reply
}

fn accepted(client: &mut Client) {
    wait_until("a reply", || client.run("SET k v").text() == "OK");
}

/// Returns the reason why writes are refused, once it contains this text.
fn refused_since(client: &mut Client, says: &str) -> String {
    let mut why = String::new();
    wait_until(says, || {
        why = client.info("persistence")["writes_refused"].clone();
        why.contains(says)
    });
    why
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

/// Follows the advice of the refusal, word by word: ends the server, and starts it again.
fn rescue(server: &mut Server, launch: Launch, client: &mut Client, end: &str) {
    let reply = refused_since(client, "was removed, and its data ends with this process");
    assert!(refusal(client).contains(&reply), "{reply}");
    assert!(reply.contains("End it by SHUTDOWN or SIGTERM"), "{reply}");
    let start = reply.split("start it ").nth(1).expect("how").trim_end().to_owned();
    match end {
        "SIGTERM" => assert!(server.terminate().success(), "{}", server.log()),
        command => {
            let words: Vec<&str> = command.split(' ').collect();
            assert!(client.try_call(&words).is_err(), "the connection ends");
            assert!(server.wait().success(), "{}", server.log());
        }
    }
    match start.strip_prefix("with ") {
        Some(words) => server.start_as(launch.args(words.split(' '))),
        None => {
            assert_eq!(start, "again");
            server.start_again();
        }
    }
}

/// Removes files of a full server, and follows the advice.
fn check_rescue(launch: &Launch, end: &str, remove: impl FnOnce(&Server)) {
    let (mut server, mut client) = filled_by(launch.clone());
    write_some(&mut client);
    remove(&server);
    check_all_keys(&mut client);
    rescue(&mut server, launch.clone(), &mut client, end);
    let mut client = server.client();
    check_all_keys(&mut client);
    client.check("SET last 100", "OK");
    server.crash();
    server.client().check("GET last", "\"100\"");
}

fn remove(path: PathBuf) {
    fs::remove_file(path).expect("removed");
}

#[test]
fn the_advice_for_a_removed_pool_keeps_every_key() {
    for (launch, end) in [
        (Launch::perdura_pmem(), "SHUTDOWN"),
        (Launch::perdura_msync(), "SIGTERM"),
        (Launch::perdura_journal("always"), "SHUTDOWN NOSAVE"),
        (Launch::perdura_journal("everysec").args(["--journal-size", "64mb"]), "SIGTERM"),
    ] {
        check_rescue(&launch, end, |server| remove(pool(server)));
    }
}

#[test]
fn so_it_does_where_its_name_was_taken_or_its_journal_is_gone_too() {
    let launch = Launch::perdura_journal("always").args(["--journal-size", "64mb"]);
    let replace = |server: &Server| {
        let other = server.folder().join("other");
        fs::write(&other, "another file").expect("a file");
        fs::rename(&other, pool(server)).expect("a new name");
    };
    check_rescue(&launch, "SHUTDOWN", replace);
    check_rescue(&launch, "SIGTERM", |server| {
        remove(pool(server));
        remove(journal(server));
    });
    check_rescue(&launch, "SIGTERM", |server| {
        replace(server);
        fs::rename(journal(server), server.folder().join("away")).expect("a new name");
    });
    check_rescue(&Launch::perdura_pmem(), "SIGTERM", replace);
}

#[test]
fn a_pool_that_was_removed_a_moment_before_the_end_is_written_again() {
    let (mut server, _) = with_a_journal("everysec");
    remove(pool(&server));
    assert!(server.terminate().success(), "{}", server.log());
    server.start_again();
    check_all_keys(&mut server.client());
}

/// The check of the files waits for the shards that the script has locked.
#[test]
fn a_script_without_end_does_not_keep_a_removed_pool_from_being_written_again() {
    let (mut server, mut client) = with_a_journal("always");
    client.check("CONFIG SET busy-reply-threshold 1", "OK");
    let script = "redis.call('get', KEYS[1]) while true do end";
    let mut endless = server.client();
    endless.send(&["EVAL", script, "1", "key:1"]).expect("sent");
    wait_until("the script runs long", || client.run("GET key:1").text().starts_with("BUSY"));
    remove(pool(&server));
    // Keys in other shards than the script's are served.
    let mut set = |n| client.run(&format!("SET other:{n} v")).text();
    let is_refused = |reply: String| reply.contains("a file of the pool is not in its place");
    wait_until("writes are refused", || (0..20).any(|n| is_refused(set(n))));
    assert!(server.terminate().success(), "{}", server.log());
    server.start_again();
    check_all_keys(&mut server.client());
}

#[test]
fn while_a_pool_is_elsewhere_nothing_leaves_its_journal() {
    let (mut server, mut client) = with_a_journal("always");
    let (here, there) = (pool(&server), server.folder().join("elsewhere"));
    fs::rename(&here, &there).expect("a new name");
    refused_since(&mut client, "the pool's file is no longer at");
    let unapplied = |client: &mut Client| {
        client.info("persistence")["journal_unapplied_bytes"].parse::<u64>().expect("a number")
    };
    let held = unapplied(&mut client);
    // A copy that is made now matches the journal that is left at the end.
    let copy = server.folder().join("copy");
    fs::copy(&there, &copy).expect("a copy");
    assert_eq!(server.terminate().code(), Some(1), "{}", server.log());
    assert!(server.log().contains("The pool could not be closed: the pool's file is no longer"));
    fs::rename(&copy, &here).expect("the old name");
    server.start_again();
    let mut client = server.client();
    check_all_keys(&mut client);
    if held > 0 {
        assert_ne!(client.info("persistence")["journal_recovered_batches"], "0");
    }
}

#[test]
fn a_server_whose_removed_pool_cannot_be_written_does_not_end() {
    let launch = Launch::perdura_journal("always").longest_file(1 << 30);
    let (mut server, mut client) = filled_by(launch);
    write_some(&mut client);
    remove(pool(&server));
    refused_since(&mut client, "was removed");
    server.set_limit(4);
    client.check("SHUTDOWN", "(error) ERR Errors trying to SHUTDOWN. Check logs.");
    assert!(server.log().contains("File too large"), "{}", server.log());
    assert!(!pool(&server).exists());
    check_all_keys(&mut client);
    server.lift_limit();
    assert!(server.terminate().success(), "{}", server.log());
    server.start_again();
    check_all_keys(&mut server.client());
}

fn journal(server: &Server) -> PathBuf {
    server.folder().join("perdura.pool.journal")
}

/// Returns a server with a journal of which little is applied: it is never half full.
fn with_a_journal(policy: &str) -> (Server, Client) {
    let launch = Launch::perdura_journal(policy).args(["--journal-size", "64mb"]);
    let (server, mut client) = filled_by(launch);
    write_some(&mut client);
    (server, client)
}

fn write_some(client: &mut Client) {
    for n in 0..100 {
        client.check(&format!("SET last {n}"), "OK");
    }
}

fn check_all_keys(client: &mut Client) {
    for i in (0..KEYS).step_by(97) {
        client.check(&format!("GET key:{i}"), &format!("\"value:{i}\""));
    }
    client.check("GET last", "\"99\"");
}

/// Returns what INFO says about the journal.
fn journal_status(client: &mut Client) -> (String, String) {
    let info = client.info("persistence");
    (info["journal_status"].clone(), info["journal_failure"].clone())
}

#[test]
fn a_journal_that_is_moved_takes_writes_again_when_it_is_back() {
    for (policy, replaced) in [("always", false), ("everysec", true)] {
        let (mut server, mut client) = with_a_journal(policy);
        let (here, there) = (journal(&server), server.folder().join("elsewhere"));
        fs::rename(&here, &there).expect("a new name");
        if replaced {
            fs::write(&here, "another file").expect("another file");
        }
        let reply = refusal(&mut client);
        assert!(reply.contains("MISCONF the pool's journal is no longer at "), "{reply}");
        assert!(reply.contains("move it back there"), "{reply}");
        refused_since(&mut client, "the pool's journal is no longer at ");
        let (status, why) = journal_status(&mut client);
        assert_eq!((&*status, reply.contains(&why)), ("err", true), "{why}");
        check_all_keys(&mut client);
        fs::rename(&there, &here).expect("the old name");
        accepted(&mut client);
        wait_until("a good status", || journal_status(&mut client).0 == "ok");
        // Once more, and to the end: the journal's content stays there.
        write_some(&mut client);
        fs::rename(&here, &there).expect("a new name");
        assert_eq!(server.terminate().code(), Some(1), "{}", server.log());
        assert!(server.log().contains("is no longer at"), "{}", server.log());
        fs::rename(&there, &here).expect("the old name");
        server.start_again();
        check_all_keys(&mut server.client());
    }
}

#[test]
fn what_a_removed_journal_held_is_in_the_pool_when_that_is_said() {
    for (policy, ends) in [("always", true), ("everysec", false)] {
        let (mut server, mut client) = with_a_journal(policy);
        fs::remove_file(journal(&server)).expect("removed");
        let says = "The pool's file has everything that was acknowledged";
        let why = refused_since(&mut client, says);
        assert!(why.contains("perdura.pool.journal was removed"), "{why}");
        assert!(refusal(&mut client).contains("perdura.pool.journal was removed"));
        assert_eq!(journal_status(&mut client).0, "err");
        check_all_keys(&mut client);
        if ends {
            assert!(server.terminate().success(), "{}", server.log());
        } else {
            server.kill();
        }
        server.start_again();
        let mut client = server.client();
        check_all_keys(&mut client);
        client.check("SET k v", "OK");
        assert_eq!(journal_status(&mut client), ("ok".into(), String::new()));
    }
}

#[test]
fn what_a_removed_journal_held_goes_to_the_pool_wherever_that_was_moved() {
    let (mut server, mut client) = with_a_journal("always");
    let elsewhere = pool(&server).with_extension("moved");
    server.pause();
    fs::rename(pool(&server), &elsewhere).expect("moved");
    fs::remove_file(journal(&server)).expect("removed");
    server.resume();
    refused_since(&mut client, "perdura.pool.journal was removed");
    server.terminate();
    fs::rename(&elsewhere, pool(&server)).expect("moved back");
    server.start_again();
    check_all_keys(&mut server.client());
}

fn cut(server: &Server, len: u64) {
    let file = fs::OpenOptions::new().write(true).open(journal(server)).expect("the journal");
    file.set_len(len).expect("a shorter file");
}

#[test]
fn a_journal_that_is_cut_short_after_its_batches_is_not_needed_any_more() {
    cut_is_harmless(60 << 20);
}

/// Memory has the lines of the batches that were cut off, and they are written from there.
#[test]
fn nor_is_one_that_was_cut_short_to_nothing() {
    cut_is_harmless(8192);
    cut_is_harmless(0);
}

fn cut_is_harmless(len: u64) {
    let (mut server, mut client) = with_a_journal("always");
    cut(&server, len);
    let why = refused_since(&mut client, "has everything that was acknowledged");
    assert!(why.contains("perdura.pool.journal was cut short, from 6711"), "{why}");
    assert_eq!(journal_status(&mut client).0, "err");
    server.kill();
    fs::remove_file(journal(&server)).expect("removed, as it says");
    server.start_again();
    check_all_keys(&mut server.client());
}
