//! A pool on an ordinary disk, with a journal: what survives, what is refused, what is reported.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use testkit::{Client, Launch, Server};

const POLICIES: [&str; 3] = ["always", "everysec", "no"];

fn number(facts: &BTreeMap<String, String>, name: &str) -> u64 {
    facts[name].parse().unwrap_or_else(|_| panic!("{name} is {}", facts[name]))
}

fn fill(client: &mut Client, keys: std::ops::Range<u32>) {
    let value = "v".repeat(1000);
    for key in keys {
        client.check(&format!("SET key:{key} {value}"), "OK");
    }
}

#[test]
fn an_ordinary_disk_gets_a_journal_unless_something_else_is_asked_for() {
    let launch = Launch::perdura().args(["--journal-size", "64kb"]);
    let mut server = launch.args(["--journal", "elsewhere.journal"]).start();
    let mut client = server.client();
    client.check("CONFIG GET journal-size", "[\"journal-size\", \"65536\"]");
    client.check("CONFIG GET backend", "[\"backend\", \"auto\"]");
    let facts = client.info("persistence");
    assert_eq!((facts["backend"].as_str(), facts["domain"].as_str()), ("journal", "journal"));
    assert_eq!(facts["journal_size"], "65536");
    client.check("SET k v", "OK");
    assert!(server.folder().join("elsewhere.journal").exists());
    assert!(!server.folder().join("perdura.pool.journal").exists());
    server.crash();
    server.client().check("GET k", "\"v\"");
}

#[test]
fn what_was_acknowledged_survives_a_kill_under_each_policy_and_the_start_says_how() {
    for policy in POLICIES {
        let mut server = Launch::perdura_journal(policy).args(["--journal-size", "1mb"]).start();
        // If the machine is so slow that all was applied when the kill comes, try again.
        let crashed = |server: &mut Server| {
            fill(&mut server.client(), 0..100);
            server.crash();
            let mut client = server.client();
            client.check("DBSIZE", "(integer) 100");
            client.info("persistence")
        };
        let facts = (0..10)
            .map(|_| crashed(&mut server))
            .find(|facts| number(facts, "journal_recovered_batches") > 0)
            .unwrap_or_else(|| panic!("{policy}: {}", server.log()));
        let log = server.log();
        assert!(number(&facts, "journal_recovered_bytes") > 0, "{policy}: {log}");
        assert!(log.contains("after a crash") && log.contains(" of the journal in "), "{log}");
        assert!(server.terminate().success());
        server.start_again();
        let mut client = server.client();
        client.check("DBSIZE", "(integer) 100");
        assert_eq!(client.info("persistence")["journal_recovered_batches"], "0", "{policy}");
        assert!(server.log().contains("closed cleanly"), "{}", server.log());
    }
}

#[test]
fn a_server_at_rest_leaves_nothing_to_recover() {
    let mut server = Launch::perdura_journal("everysec").start();
    // If the machine is so slow that a log is retired after the rest was applied, try again.
    let work = |server: &mut Server| {
        let mut client = server.client();
        fill(&mut client, 0..100);
        while number(&client.info("persistence"), "journal_unapplied_bytes") > 0 {
            std::thread::sleep(Duration::from_millis(10));
        }
        server.crash();
        let facts = server.client().info("persistence");
        ["recovery_records", "recovery_words", "journal_recovered_batches"]
            .map(|name| number(&facts, name))
    };
    let found = (0..10).map(|_| work(&mut server)).find(|work| *work == [0; 3]);
    assert!(found.is_some(), "{}", server.log());
    server.client().check("DBSIZE", "(integer) 100");
}

#[test]
fn each_policy_says_what_a_power_loss_may_take_and_is_changed_while_serving() {
    let server = Launch::perdura_journal("everysec").start();
    let mut client = server.client();
    let durability = |client: &mut Client| client.info("persistence")["durability"].clone();
    for (policy, says) in [
        ("everysec", "of the last two seconds"),
        ("always", "is synced to the journal when its reply leaves: survives power loss"),
        ("no", "that the system had not yet written"),
    ] {
        client.check(&format!("CONFIG SET appendfsync {policy}"), "OK");
        let said = durability(&mut client);
        assert!(said.contains(says), "{policy}: {said}");
        client.check(&format!("SET {policy} v"), "OK");
        if policy == "always" {
            let facts = client.info("persistence");
            assert_eq!(number(&facts, "journal_unsynced_bytes"), 0);
            assert!(number(&facts, "journal_syncs") > 0);
        }
        client.check("WAITAOF 1 0 0", "[(integer) 1, (integer) 0]");
        assert_eq!(number(&client.info("persistence"), "journal_unsynced_bytes"), 0, "{policy}");
    }
}

#[test]
fn a_full_journal_delays_writes_and_refuses_none() {
    let mut server = Launch::perdura_journal("no").start();
    let mut client = server.client();
    // Thirty times what the journal holds, faster than that can be applied, which needs syncs.
    let value = "v".repeat(1000);
    let set = |key: u32| ["SET", &format!("key:{key}"), &value].map(str::to_owned).to_vec();
    let replies = client.pipeline(&(0..2000).map(set).collect::<Vec<_>>()).expect("replies");
    assert!(replies.iter().all(testkit::Reply::is_ok));
    let facts = client.info("persistence");
    assert!(number(&facts, "journal_applied_bytes") > 30 * 65536, "{facts:?}");
    assert!(number(&facts, "journal_written_bytes") > number(&facts, "journal_fenced_bytes"));
    assert!(number(&facts, "journal_unapplied_bytes") <= 65536, "{facts:?}");
    server.crash();
    server.client().check("DBSIZE", "(integer) 2000");
}

/// Writes with many connections, far more than the journal holds, and reads with another one.
#[test]
fn small_writes_of_many_clients_seldom_find_the_journal_full() {
    for policy in POLICIES {
        let launch = Launch::perdura_journal(policy).args(["--threads", "2"]);
        let mut server = launch.start();
        let (value, writers, each) = ("v".repeat(100), 8, 250);
        let writing = AtomicUsize::new(writers);
        let answered = std::thread::scope(|scope| {
            for writer in 0..writers {
                let (mut client, value, writing) = (server.client(), &value, &writing);
                scope.spawn(move || {
                    for n in 0..each {
                        client.check(&format!("SET {writer}:{n} {value}"), "OK");
                    }
                    writing.fetch_sub(1, Ordering::Relaxed);
                });
            }
            let (mut client, mut answered) = (server.client(), 0);
            while writing.load(Ordering::Relaxed) > 0 {
                client.check("PING", "PONG");
                client.check("GET nothing", "(nil)");
                answered += 1;
            }
            answered
        });
        let facts = server.client().info("persistence");
        assert!(answered > 0 && number(&facts, "journal_applied_bytes") > 0, "{policy}: {facts:?}");
        assert!(number(&facts, "journal_written_bytes") > 5 * 65536, "{policy}: {facts:?}");
        // The index may grow at once by more than the smallest journal has left.
        assert!(number(&facts, "journal_full_waits") <= 10, "{policy}: {facts:?}");
        server.crash();
        server.client().check("DBSIZE", &format!("(integer) {}", writers * each));
    }
}

#[test]
fn clients_that_wait_for_a_full_journal_may_go_away_and_the_server_may_end() {
    for end in ["SHUTDOWN NOSAVE NOW", "SIGTERM"] {
        let mut server = Launch::perdura_journal("no").start();
        let value = "v".repeat(10_000);
        let set = |key: usize| ["SET", &format!("key:{key}"), &value].map(str::to_owned).to_vec();
        let lines: Vec<Vec<String>> = (0..40).map(set).collect();
        let mut clients: Vec<Client> = (0..20).map(|_| server.client()).collect();
        for client in &mut clients {
            client.send_pipeline(&lines).expect("it is sent");
        }
        // Half of them hear nothing of their writes.
        clients.drain(10..);
        let mut other = server.client();
        other.check("PING", "PONG");
        other.check("CONFIG SET maxclients 100", "OK");
        let ended = match end {
            "SIGTERM" => server.terminate(),
            line => {
                let words: Vec<&str> = line.split(' ').collect();
                other.send(&words).expect("it is sent");
                server.wait()
            }
        };
        assert!(ended.success(), "{end}: {}", server.log());
        drop(clients);
        server.start_again();
        server.client().check("SET k v", "OK");
    }
}

#[test]
fn a_copy_of_both_files_at_one_moment_is_a_whole_store() {
    for policy in POLICIES {
        let server = Launch::perdura_journal(policy).start();
        let mut client = server.client();
        fill(&mut client, 0..200);
        server.pause();
        let copy = testkit::Medium::Disk.scratch();
        for name in ["perdura.pool", "perdura.pool.journal"] {
            fs::copy(server.folder().join(name), copy.path().join(name)).expect("a copy");
        }
        server.resume();
        fill(&mut client, 200..300);
        let copied = Launch::perdura_journal(policy).start_in(copy);
        copied.client().check("DBSIZE", "(integer) 200");
    }
}

#[test]
fn a_pool_that_was_closed_cleanly_opens_with_a_journal_and_without() {
    let process = || Launch::perdura_pmem().on(testkit::Medium::Disk);
    let mut server = process().start();
    let mut opened = String::new();
    for domain in ["process", "journal", "msync", "journal", "process"] {
        assert!(server.terminate().success(), "{}", server.log());
        server.start_as(match domain {
            "process" => process(),
            "msync" => Launch::perdura_msync(),
            _ => Launch::perdura_journal("everysec"),
        });
        let mut client = server.client();
        assert_eq!(client.info("persistence")["domain"], domain);
        opened.push_str(domain);
        client.check(&format!("APPEND opened {domain}"), &format!("(integer) {}", opened.len()));
        client.check("GET opened", &format!("\"{opened}\""));
    }
    // A pool that was not closed needs its journal.
    assert!(server.terminate().success());
    server.start_as(Launch::perdura_journal("no"));
    server.client().check("SET k v", "OK");
    server.kill();
    let refused = process().run_to_end_in(server.folder());
    assert!(refused.log.contains("journal"), "{}", refused.log);
    assert_eq!(refused.status.code(), Some(1));
    let journal = server.folder().join("perdura.pool.journal");
    fs::rename(&journal, server.folder().join("away")).expect("a move");
    let refused = Launch::perdura_journal("no").run_to_end_in(server.folder());
    assert!(refused.log.contains("is missing"), "{}", refused.log);
    fs::rename(server.folder().join("away"), &journal).expect("a move");
    server.start_as(Launch::perdura_journal("no"));
    server.client().check("GET k", "\"v\"");
}

#[test]
fn a_journal_that_cannot_be_written_stops_writes_and_not_reads() {
    for policy in POLICIES {
        let launch = Launch::perdura_journal(policy).args(["--journal-size", "1mb"]);
        let mut server = launch.longest_file(1 << 30).start();
        let mut client = server.client();
        client.check("SET k v", "OK");
        server.set_limit(4);
        let refused = client.run("SET k w").to_string();
        assert!(refused.starts_with("(error) MISCONF Errors writing to the journal"), "{refused}");
        let (mut client, mut other) = (server.client(), server.client());
        let refused = client.run("SET k x").to_string();
        assert!(refused.contains("File too large"), "{policy}: {refused}");
        let facts = client.info("persistence");
        assert_eq!(
            (facts["journal_status"].as_str(), facts["backend"].as_str()),
            ("err", "journal")
        );
        assert!(facts["journal_failure"].contains("File too large"), "{facts:?}");
        // With `always` a read is refused if it may see data that is not durable.
        let read =
            (0..64).filter(|n| other.run(&format!("GET {n}")).to_string() == "(nil)").count();
        assert!(if policy == "always" { read > 0 } else { read == 64 }, "{policy}: {read}");
        other.check("CONFIG SET maxclients 100", "OK");
        assert!(server.log().contains("The pool's journal has failed"), "{}", server.log());
        server.lift_limit();
        assert!(client.run("SET k y").to_string().contains("MISCONF"));
        server.kill();
        server.start_as(Launch::perdura_journal(policy));
        let mut client = server.client();
        client.check("GET k", "\"v\"");
        client.check("SET k z", "OK");
    }
}

#[test]
fn a_disk_without_space_for_growth_refuses_writes_as_a_full_pool_does() {
    let mut server = Launch::perdura_journal("everysec").longest_file(80 << 10).start();
    let mut client = server.client();
    let value = "v".repeat(100_000);
    let mut keys = 0;
    let refused = loop {
        let reply = client.run(&format!("SET {keys} {value}")).to_string();
        if reply != "OK" {
            break reply;
        }
        keys += 1;
        assert!(keys < 2000, "a pool of 80 MiB holds no more");
    };
    assert!(refused.contains("OOM"), "{refused}");
    client.check("STRLEN 0", "(integer) 100000");
    client.check("DEL 0", "(integer) 1");
    assert_eq!(client.info("persistence")["journal_status"], "ok");
    server.crash();
    let mut client = server.client();
    client.check("DBSIZE", &format!("(integer) {}", keys - 1));
    client.check("SET small v", "OK");
}

#[test]
fn a_journal_without_space_for_all_of_its_size_is_shorter_and_serves() {
    let launch = Launch::perdura_journal("no").args(["--journal-size", "256mb"]);
    let mut server = launch.longest_file(80 << 10).start();
    let mut client = server.client();
    let size = |client: &mut Client| number(&client.info("persistence"), "journal_size");
    assert_eq!(size(&mut client), 512 << 10);
    let value = "x".repeat(100_000);
    for n in 0..400 {
        client.check(&format!("SET key:{} {value}", n % 100), "OK");
    }
    assert_eq!(size(&mut client), 64 << 20);
    assert_eq!(client.info("persistence")["journal_status"], "ok");
    server.crash();
    let mut client = server.client();
    client.check("DBSIZE", "(integer) 100");
    client.check("STRLEN key:99", "(integer) 100000");
}

/// Kills a server three times, with further arguments, and checks for the writes that it
/// acknowledged.
fn survives_kills(more: &[&str], medium: &str) {
    let launch = Launch::perdura_journal("always").args(["--journal-size", "1mb"]);
    let mut server = launch.args(more.iter().copied()).start();
    for round in 1..4 {
        let mut client = server.client();
        assert_eq!(client.info("persistence")["journal_medium"], medium);
        // More than fits into the ring.
        fill(&mut client, 0..1000);
        client.check(&format!("SET round {round}"), "OK");
        server.crash();
        let mut client = server.client();
        client.check("GET round", &format!("\"{round}\""));
        client.check("DBSIZE", "(integer) 1001");
        client.check("STRLEN key:999", "(integer) 1000");
    }
}

#[test]
fn a_tail_in_persistent_memory_survives_kills() {
    survives_kills(&["--journal", "tail.journal", "--emulate-pmem", "yes"], "pmem");
}

#[test]
fn a_preloaded_pool_survives_kills() {
    survives_kills(&["--preload", "yes"], "file");
}

#[test]
fn a_preloaded_pool_is_in_memory_before_it_is_used() {
    let launch = |preload| Launch::perdura_journal("no").args(["--preload", preload]);
    let anonymous = |server: &testkit::Server| -> u64 {
        let file = format!("/proc/{}/smaps_rollup", server.pid());
        let text = fs::read_to_string(file).expect("the kernel tells");
        let line = text.lines().find(|line| line.starts_with("Anonymous:")).expect("a line");
        line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).expect("a number")
    };
    let mut server = launch("no").start();
    fill(&mut server.client(), 0..3000);
    let space = number(&server.client().info("persistence"), "pool_used") / 1024;
    assert!(space > 3000, "{space} KiB");
    let mut taken = Vec::new();
    for preload in ["no", "yes"] {
        server.terminate();
        server.start_as(launch(preload));
        taken.push(anonymous(&server));
    }
    assert!(taken[1] > taken[0] + space / 2, "{taken:?} of {space} KiB");
    let mut server = Launch::perdura_pmem().args(["--preload", "yes"]).start();
    assert!(server.log().contains("preload has no effect"), "{}", server.log());
    server.terminate();
}

#[test]
fn options_that_do_not_go_with_a_journal_are_refused() {
    for arguments in [["--domain", "process"], ["--emulate-pmem", "yes"]] {
        let refused = Launch::perdura_journal("no").args(arguments).run_to_end();
        assert_eq!(refused.status.code(), Some(1), "{arguments:?}");
        let says = "--backend journal was asked for";
        assert!(refused.log.contains(says), "{arguments:?}: {}", refused.log);
    }
}

#[test]
fn what_is_in_a_file_system_in_memory_is_not_said_to_survive_power_loss() {
    let memory = testkit::Medium::Memory.scratch();
    let tail = memory.path().join("tail.journal").display().to_string();
    let disk = || Launch::perdura_journal("always");
    let in_memory = |launch: Launch| launch.on(testkit::Medium::Memory);
    for (launch, medium, says) in [
        (in_memory(disk()), "tmpfs", "survives a process crash only: power loss, or a restart"),
        (disk().args(["--journal", &tail]), "tmpfs", "survives a process crash only: power loss"),
        (in_memory(Launch::perdura_msync()), "tmpfs", "survives a process crash only: power loss"),
        (in_memory(Launch::perdura_aof("always")), "tmpfs", "survives a process crash only"),
        (in_memory(Launch::perdura_aof("everysec")), "tmpfs", "survives a process crash only"),
        (disk(), "no", "is synced to the journal when its reply leaves: survives power loss"),
        (Launch::perdura_msync(), "no", "is synced when its reply leaves: survives power loss"),
        (Launch::perdura_aof("always"), "no", "synced to the log when its reply leaves: survives"),
    ] {
        let server = launch.start();
        let facts = server.client().info("persistence");
        let said = (&*facts["volatile_medium"], &facts["durability"]);
        assert!(said.0 == medium && said.1.contains(says), "{said:?}: {says}");
        let log = server.log();
        assert_eq!(log.contains("A file of the store is on tmpfs"), medium == "tmpfs", "{log}");
        assert!(log.contains(&format!("durability=\"{}\"", said.1)), "{log}");
    }
}
