//! The store that a start serves, and refusals: it never serves one store while another one holds
//! data.

use std::fs;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;
use testkit::{Launch, Medium};

/// The content of a directory at the place of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stored {
    Nothing,
    Empty,
    Data,
    /// A log of Redis before version 7: one file next to the directory of logs.
    OldData,
}
use Stored::{Data, Empty, Nothing, OldData};

/// The requested backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Auto,
    AutoVolatile,
    Pmem,
    Journal,
    Aof,
    Volatile,
}

impl Asked {
    fn launch(self) -> Launch {
        let pmem = ["--backend", "pmem", "--domain", "process"];
        match self {
            Asked::Auto => Launch::perdura().args(SMALL_JOURNAL),
            Asked::AutoVolatile => Asked::Auto.launch().args(["--appendonly", "no"]),
            Asked::Journal => Launch::perdura_journal("everysec"),
            Asked::Pmem => Launch::perdura().args(pmem),
            Asked::Aof => Launch::perdura_aof("always"),
            Asked::Volatile => Launch::perdura_volatile(),
        }
    }

    /// Returns the store that is served on a medium that is not persistent memory, given a pool and
    /// a log.
    fn served(self, pool: Stored, log: Stored) -> &'static str {
        let only_log_has_data = pool != Data && matches!(log, Data | OldData);
        match self {
            Asked::Pmem => "pmem",
            Asked::Auto if only_log_has_data => "aof",
            Asked::AutoVolatile if only_log_has_data => "volatile",
            Asked::Auto | Asked::AutoVolatile | Asked::Journal => "journal",
            Asked::Aof => "aof",
            Asked::Volatile => "volatile",
        }
    }
}

const ALL: [Asked; 6] =
    [Asked::Auto, Asked::AutoVolatile, Asked::Pmem, Asked::Journal, Asked::Aof, Asked::Volatile];

const SMALL_JOURNAL: [&str; 2] = ["--journal-size", "64kb"];

/// Returns the key in the data that a backend serves.
fn key_of(backend: &str) -> &str {
    if backend == "journal" { "pmem" } else { backend }
}

/// Puts the files of a store into a directory, by serving it there.
fn store(folder: &Path, asked: Asked, stored: Stored) {
    if stored == Nothing {
        return;
    }
    if stored == OldData {
        let log = "*3\r\n$3\r\nSET\r\n$3\r\naof\r\n$1\r\n1\r\n";
        return fs::write(folder.join("appendonly.aof"), log).expect("an old log");
    }
    let mut server = asked.launch().on(Medium::Memory).start();
    if stored == Data {
        let line = format!("SET {} 1", key_of(asked.served(Nothing, Nothing)));
        server.client().check(&line, "OK");
    }
    assert!(server.terminate().success());
    copy(server.folder(), folder);
}

fn copy(from: &Path, to: &Path) {
    for name in names(from) {
        let (from, to) = (from.join(&name), to.join(&name));
        if from.is_dir() {
            fs::create_dir(&to).expect("a folder");
            copy(&from, &to);
        } else {
            fs::copy(from, to).expect("a copy");
        }
    }
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .expect("a folder")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name != "test.log")
        .collect();
    names.sort();
    names
}

/// Returns the expected parts of the refusal: the name of each other store that holds data, and the
/// advice that keeps it.
fn refusal(asked: Asked, pool: Stored, log: Stored, dump: bool) -> Vec<&'static str> {
    let mut says = Vec::new();
    let served = asked.served(pool, log);
    let has_log = matches!(log, Data | OldData);
    if pool == Data && !matches!(served, "pmem" | "journal") {
        says.extend(["perdura.pool holds 1 key", "--backend journal", "--backend pmem"]);
    }
    match log {
        Data if served != "aof" => says.extend(["appendonlydir holds ", " bytes"]),
        OldData if served != "aof" => says.extend(["appendonly.aof holds ", " bytes"]),
        _ => {}
    }
    // A server in memory serves it.
    if dump && served != "volatile" {
        says.push("dump.rdb is data that was saved");
    }
    let reads_dump = matches!(asked, Asked::Volatile | Asked::AutoVolatile);
    match (served, pool) {
        _ if says.is_empty() => {}
        ("pmem" | "journal", Nothing) if has_log && !(dump && reads_dump) => {
            says.extend(["`perdura import ", "/perdura/perdura.pool`", "append"]);
        }
        ("pmem" | "journal", Nothing) => says.push("dump.rdb --to "),
        ("pmem" | "journal", _) => says.extend(["To go on with the pool: `mkdir -p ", "/aside"]),
        (_, Data) => {}
        _ => says.extend(["`perdura import ", "then start with --dir ", "docs/migration.md"]),
    }
    says
}

fn check(scratch: TempDir, asked: Asked, pool: Stored, log: Stored, dump: bool) {
    let folder = scratch.path();
    let case = format!("{asked:?}, pool {pool:?}, log {log:?}, dump {dump}");
    let says = refusal(asked, pool, log, dump);
    let before = names(folder);
    if !says.is_empty() {
        let refused = asked.launch().run_to_end_in(folder);
        assert_eq!(refused.status.code(), Some(1), "{case}: {}", refused.log);
        for part in says.iter().chain(&["Nothing was changed"]) {
            assert!(refused.log.contains(part), "{case}: no {part:?} in {}", refused.log);
        }
        for flag in ["other-stores", "ignore", "--appendonly no"] {
            assert!(!refused.log.contains(flag), "{case}: {flag:?} in {}", refused.log);
        }
        assert_eq!(names(folder), before, "{case}");
    }
    let ignore = if says.is_empty() { "refuse" } else { "ignore" };
    let launch = asked.launch().args(["--other-stores", ignore]);
    let mut server = launch.start_in(scratch);
    let mut client = server.client();
    let served = asked.served(pool, log);
    assert_eq!(client.info("persistence")["backend"], served, "{case}");
    let has_data = match served {
        "pmem" | "journal" => pool == Data,
        "aof" => matches!(log, Data | OldData),
        _ => false,
    };
    let expect = if has_data { "1" } else { "0" };
    client.check(&format!("EXISTS {}", key_of(served)), &format!("(integer) {expect}"));
    client.check("DBSIZE", &format!("(integer) {expect}"));
    server.kill();
}

#[test]
fn no_store_is_served_while_another_one_holds_data() {
    let medium = Medium::Memory;
    for pool in [Nothing, Empty, Data] {
        for log in [Nothing, Empty, Data, OldData] {
            let template = medium.scratch();
            store(template.path(), Asked::Pmem, pool);
            store(template.path(), Asked::Aof, log);
            for dump in [false, true] {
                if dump {
                    fs::write(template.path().join("dump.rdb"), b"REDIS0010\xff\0\0\0\0\0\0\0\0")
                        .expect("a dump");
                }
                for asked in ALL {
                    let folder = medium.scratch();
                    copy(template.path(), folder.path());
                    check(folder, asked, pool, log, dump);
                }
            }
        }
    }
}

#[test]
fn a_pool_that_cannot_be_opened_counts_as_data() {
    let folder = Medium::Memory.scratch();
    fs::write(folder.path().join("perdura.pool"), vec![7; 1 << 20]).expect("a file");
    let refused = Asked::Aof.launch().run_to_end_in(folder.path());
    assert!(refused.log.contains("cannot be opened (not a Perdura pool"), "{}", refused.log);
}

#[test]
fn a_pool_that_another_server_holds_counts_as_data() {
    let server = Asked::Pmem.launch().on(Medium::Memory).start();
    let refused = Asked::Aof.launch().run_to_end_in(server.folder());
    assert!(refused.log.contains("another process has locked it"), "{}", refused.log);
}

#[test]
fn a_refused_start_leaves_no_file() {
    let folder = Medium::Memory.scratch();
    for domain in ["clwb", "process"] {
        // One is refused because of the medium, the other finds no space.
        let launch = Launch::perdura().args(["--backend", "pmem", "--domain", domain]);
        let refused = launch.longest_file(64).run_to_end_in(folder.path());
        assert_eq!(refused.status.code(), Some(1), "{domain}: {}", refused.log);
        assert_eq!(names(folder.path()), Vec::<String>::new(), "{domain}");
    }
}

#[test]
fn a_fatal_error_is_said_once() {
    let folder = Medium::Memory.scratch();
    let launch = Launch::perdura().args(["--backend", "pmem", "--domain", "clwb"]);
    let says = |text: &str| text.matches("the kernel refuses MAP_SYNC").count();
    assert_eq!(says(&launch.run_to_end_in(folder.path()).log), 1, "log and errors on one terminal");

    let refused = launch.args(["--logfile", "server.log"]).run_to_end_in(folder.path());
    let log = fs::read_to_string(folder.path().join("server.log")).expect("a log");
    assert_eq!((says(&refused.log), says(&log)), (1, 1), "the log in a file");
}

#[test]
fn a_name_without_an_address_is_refused_and_the_way_out_named() {
    // Not a valid name, so that no name service is asked.
    let refused = Asked::Volatile.launch().args(["--bind", "no..name"]).run_to_end();
    assert_eq!(refused.status.code(), Some(1), "{}", refused.log);
    for says in ["listening socket no..name:", "An address, such as 127.0.0.1, needs no name"] {
        assert!(refused.log.contains(says), "{}", refused.log);
    }
}

#[test]
fn a_limit_of_addresses_that_leaves_too_few_is_named() {
    let folder = Medium::Memory.scratch();
    let script = "ulimit -v 300000; exec \"$0\" --port 0 --unixsocket s --dir . \"$@\"";
    let ended = Command::new("sh")
        .args(["-c", script])
        .arg(testkit::perdura_server())
        .args(["--backend", "aof", "--appendonly", "no"])
        .current_dir(folder.path())
        .output()
        .expect("a shell");
    let log = String::from_utf8_lossy(&ended.stdout);
    assert_eq!(ended.status.code(), Some(1), "{log}");
    assert!(log.contains("is it limited (ulimit -v)?"), "{log}");
}

#[test]
fn what_would_be_dangerous_to_ignore_is_refused_at_start() {
    let folder = Medium::Memory.scratch();
    for (arguments, says) in [
        (
            vec!["--cluster-enabled", "yes", "--tls-cluster", "yes"],
            "'tls-cluster': the nodes of a cluster do not speak TLS with each other yet",
        ),
        (vec!["--port", "0", "--tls-port", "6380"], "No tls-cert-file configured!"),
        (vec!["--port", "0"], "Configured to not listen anywhere, exiting"),
        (vec!["--bind", ""], "Configured to not listen anywhere, exiting"),
    ] {
        let refused = Asked::Pmem.launch().args(arguments.clone()).run_to_end_in(folder.path());
        assert_eq!(refused.status.code(), Some(1), "{arguments:?}: {}", refused.log);
        assert!(refused.log.contains(says), "{arguments:?}: {}", refused.log);
        assert_eq!(names(folder.path()), [""; 0], "{arguments:?}");
    }
    for harmless in [["--cluster-enabled", "no"], ["--tls-port", "0"], ["--replicaof", "no one"]] {
        let mut server = Asked::Volatile.launch().args(harmless).start();
        assert!(server.terminate().success(), "{harmless:?}");
    }
}

#[test]
fn the_start_line_names_the_domain_of_a_pool_only() {
    for (asked, says) in [
        (Asked::Pmem, "backend=pmem domain=process durability="),
        (Asked::Journal, "backend=journal domain=journal durability=\"survives a process crash"),
        (Asked::Auto, "perdura.pool is not persistent memory (no MAP_SYNC)"),
        (Asked::Auto, "backend=journal domain=journal durability="),
        (Asked::Aof, "backend=aof durability=\"survives a process crash only"),
        (Asked::Volatile, "backend=volatile durability=\"only what was saved"),
    ] {
        let server = asked.launch().on(Medium::Memory).start();
        assert!(server.log().contains(says), "{}", server.log());
    }
}

#[test]
fn a_directory_is_served_by_one_server_whatever_its_backend() {
    let second = Launch::perdura_volatile();
    for first in [Launch::perdura_aof("always"), Launch::perdura_volatile(), Launch::perdura_pmem()]
    {
        let server = first.start();
        let refused = second.run_to_end_in(server.folder());
        let named = format!("has locked it (process {})", server.pid());
        assert!(refused.log.contains(&named), "{}", refused.log);
        server.client().check("SET k v", "OK");
    }
}

#[test]
fn a_log_that_is_removed_takes_writes_again_when_it_was_written_again() {
    use std::time::Duration;
    let server = Launch::perdura_aof("always").start();
    let mut client = server.client();
    client.check("SET kept v", "OK");
    let folder = server.folder().join("appendonlydir");
    let away = server.folder().join("away");
    let until = |client: &mut testkit::Client, accepted: bool| {
        for _ in 0..4000 {
            let reply = client.run("SET k v").text();
            if (reply == "OK") == accepted {
                return reply;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("writes are not {}", if accepted { "taken" } else { "refused" });
    };
    std::fs::rename(&folder, &away).expect("another name");
    let refusal = until(&mut client, false);
    assert!(refusal.contains("the append-only file has lost"), "{refusal}");
    client.check("GET kept", "\"v\"");
    std::fs::rename(&away, &folder).expect("the old name");
    until(&mut client, true);
    std::fs::remove_dir_all(&folder).expect("removed");
    until(&mut client, false);
    assert!(!client.run("BGREWRITEAOF").is_error());
    until(&mut client, true);
    let mut server = server;
    server.kill();
    server.start_again();
    server.client().check("MGET kept k", "[\"v\", \"v\"]");
}

#[test]
fn files_are_private_or_like_what_they_replace() {
    use std::os::unix::fs::PermissionsExt;
    let server = Launch::perdura_aof("always").start();
    let mut client = server.client();
    client.check("SET k v", "OK");
    let dump = server.folder().join("dump.rdb");
    let mode =
        |path: &std::path::Path| path.metadata().expect("a file").permissions().mode() & 0o777;
    client.check("SAVE", "OK");
    assert_eq!(mode(&dump), 0o600);
    std::fs::set_permissions(&dump, std::fs::Permissions::from_mode(0o640)).expect("its mode");
    client.check("SAVE", "OK");
    assert_eq!(mode(&dump), 0o640);
    let log = std::fs::read_dir(server.folder().join("appendonlydir")).expect("the log");
    for entry in log.flatten() {
        assert_eq!(mode(&entry.path()), 0o600, "{:?}", entry.path());
    }
}
