//! Users from files: at the start, while the server runs, and after a restart.

use std::fs;

use testkit::{Client, Launch, Medium, Server};

use crate::administration::error;

const USERS: &str = "user alice on nopass ~a* resetchannels -@all +get +set\n\
                     user default on nopass ~* &* +@all\n";

fn start(users: &str) -> Server {
    let folder = Medium::Disk.scratch();
    fs::write(folder.path().join("users.acl"), users).expect("written");
    Launch::perdura_volatile().args(["--aclfile", "users.acl"]).start_in(folder)
}

/// Returns true if the server closes the connection.
fn is_closed(client: &mut Client) -> bool {
    client.try_call(&["PING"]).is_err()
}

#[test]
fn users_of_a_file_are_there_after_a_restart() {
    let mut server = start(USERS);
    let mut client = server.client();
    let lines: Vec<String> = USERS.lines().map(|line| format!("\"{line}\"")).collect();
    client.check("ACL LIST", &format!("[{}]", lines.join(", ")));
    client.check("ACL SETUSER bob on >secret ~* +@all", "OK");
    client.check("ACL SAVE", "OK");
    client.check("ACL SETUSER carol on", "OK");
    let left: Vec<_> = fs::read_dir(server.folder()).expect("a folder").collect();
    assert!(left.iter().flatten().all(|file| !file.path().ends_with(".tmp")));
    server.terminate();
    server.start_again();
    let mut client = server.client();
    client.check("ACL USERS", "[\"alice\", \"bob\", \"default\"]");
    client.check("AUTH bob secret", "OK");
    client.check("ACL WHOAMI", "\"bob\"");
}

#[test]
fn a_file_is_loaded_as_a_whole_or_not_at_all() {
    let server = start(USERS);
    let (mut client, mut alice) = (server.client(), server.client());
    alice.check("AUTH alice x", "OK");
    let file = server.folder().join("users.acl");
    fs::write(&file, "user bob on +@all\nuser alice on +nothing\n").expect("written");
    error(
        &mut client,
        "ACL LOAD",
        "ERR users.acl:2: Error in applying operation '+nothing': Unknown command or category name in ACL. WARNING: ACL errors detected, no change to the previously active ACL rules was performed",
    );
    client.check("ACL USERS", "[\"alice\", \"default\"]");
    alice.check("SET a 1", "OK");
    fs::remove_file(&file).expect("removed");
    error(
        &mut client,
        "ACL LOAD",
        "ERR Error loading ACLs, opening file 'users.acl': No such file or directory",
    );
    fs::write(&file, "user bob on nopass +@all\n").expect("written");
    client.check("ACL LOAD", "OK");
    client.check("ACL USERS", "[\"bob\", \"default\"]");
    assert!(is_closed(&mut alice), "its user is gone");
    // A folder cannot be replaced by a file.
    fs::remove_file(&file).expect("removed");
    fs::create_dir(&file).expect("a folder");
    error(
        &mut client,
        "ACL SAVE",
        "ERR There was an error trying to save the ACLs. Please check the server logs for more information",
    );
}

#[test]
fn a_start_with_wrong_users_is_refused_and_creates_nothing() {
    let ended = |text: &str, conf: &str, words: &[&str]| {
        let folder = Medium::Disk.scratch();
        fs::write(folder.path().join("users.acl"), text).expect("written");
        fs::write(folder.path().join("users.conf"), conf).expect("written");
        let launch = Launch::perdura_aof("always").args(["--include", "users.conf"]);
        let ended = launch.run_to_end_in(folder.path());
        assert!(!ended.status.success(), "{}", ended.log);
        for word in words {
            assert!(ended.log.contains(word), "{word} in {}", ended.log);
        }
        assert!(!folder.path().join("appendonlydir").exists());
    };
    ended("user a on\nuser b yes", "aclfile users.acl", &["users.acl:2: Syntax error. WARNING"]);
    ended("", "aclfile none.acl", &["opening file 'none.acl': No such file"]);
    ended("", "\nuser a +nothing", &["users.conf'", "at line 2", "'+nothing'"]);
    ended("", "user a\nuser a on", &["at line 2", "Duplicate user 'a' found"]);
    ended("", "aclfile users.acl\nuser a on", &["users.acl", "line 2: user a on"]);
}

#[test]
fn deleted_users_and_lost_channels_close_connections() {
    let server = start(USERS);
    let mut admin = server.client();
    admin.check("ACL SETUSER bob on nopass +@all ~* &a &b", "OK");
    let (mut user, mut listener) = (server.client(), server.client());
    user.check("AUTH bob x", "OK");
    listener.check("AUTH bob x", "OK");
    listener.check("SUBSCRIBE a", "[\"subscribe\", \"a\", (integer) 1]");
    admin.check("ACL SETUSER bob resetchannels &b", "OK");
    assert!(is_closed(&mut listener));
    user.check("PING", "PONG");
    let mut blocked = server.client();
    blocked.check("AUTH bob x", "OK");
    blocked.send(&["BLPOP", "list", "0"]).expect("sent");
    admin.check("ACL DELUSER bob", "(integer) 1");
    assert!(is_closed(&mut user) && blocked.receive().is_err());
    error(
        &mut admin,
        "AUTH bob x",
        "WRONGPASS invalid username-password pair or user is disabled.",
    );
}

#[test]
fn users_of_a_configuration_are_rewritten() {
    let folder = Medium::Disk.scratch();
    let file = folder.path().join("server.conf");
    fs::write(&file, "# users\nuser a on nopass ~\"x y\" +get\n").expect("written");
    let ended =
        Launch::perdura_volatile().args(["--include", "server.conf"]).run_to_end_in(folder.path());
    assert!(ended.log.contains("'~x y'"), "a pattern has no spaces: {}", ended.log);
    fs::write(&file, "# users\nuser a on nopass ~x +get\n").expect("written");
    let mut server = Launch::perdura_volatile().args(["--include", "server.conf"]).start_in(folder);
    let mut client = server.client();
    let lines = "[\"user a on nopass ~x resetchannels -@all +get\", \"user default on nopass ~* &* +@all\"]";
    client.check("ACL LIST", lines);
    client.check("CONFIG SET acl-pubsub-default allchannels acllog-max-len 0", "OK");
    client.check("ACL SETUSER b", "OK");
    client.check(
        "ACL DRYRUN a SET x 1",
        "\"This user has no permissions to run the \\'set\\' command\"",
    );
    client.check("CONFIG SET requirepass secret", "OK");
    error(&mut server.client(), "PING", "NOAUTH Authentication required.");
    server.terminate();
}
