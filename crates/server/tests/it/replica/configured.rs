//! Replication by the configuration: `replicaof` in a file or on the command line, and CONFIG
//! REWRITE.

use testkit::{Client, Medium, Server, free_port};

use super::{check_equal, follow, info, redis, volatile, wait_for_link};
use crate::configuration::start_with_file;

fn primary() -> (Server, Client) {
    let primary = redis().start();
    let mut client = primary.client();
    client.check("SET a 1", "OK");
    (primary, client)
}

#[test]
fn a_server_follows_from_its_start_the_primary_that_is_configured() {
    let (primary, mut client) = primary();
    let replica = volatile().args(["--replicaof", &format!("127.0.0.1 {}", primary.port())]);
    let mut replica = replica.start();
    wait_for_link(&mut replica.client());
    check_equal(&mut client, &mut replica.client());
    replica.crash();
    // It is a replica before anybody could write to it.
    assert!(replica.client().run("SET b 1").is_error());
    wait_for_link(&mut replica.client());
    check_equal(&mut client, &mut replica.client());
}

#[test]
fn the_primary_and_its_absence_are_kept_by_config_rewrite() {
    let (primary, mut client) = primary();
    let folder = Medium::Disk.scratch();
    let file = folder.path().join("perdura.conf");
    let text = format!("dir {}\nsave \"\"\nenable-debug-command yes\n", folder.path().display());
    std::fs::write(&file, text).expect("written");
    let port = free_port();
    let (server, mut reader) = start_with_file(&file, port);
    follow(&mut reader, primary.port());
    reader.check("CONFIG SET masterauth \"a b\"", "OK");
    reader.check("CONFIG REWRITE", "OK");
    drop(server);
    let line = format!("replicaof 127.0.0.1 {}", primary.port());
    let text = std::fs::read_to_string(&file).expect("a file");
    assert_eq!(text.lines().filter(|other| **other == line).count(), 1, "{text}");
    assert!(text.lines().any(|line| line == "masterauth \"a b\""), "{text}");
    // The primary has no password.
    std::fs::write(&file, text.replace("masterauth \"a b\"\n", "")).expect("written");
    let (server, mut reader) = start_with_file(&file, port);
    assert_eq!(info(&mut reader, "role"), "slave");
    wait_for_link(&mut reader);
    check_equal(&mut client, &mut reader);
    reader.check("REPLICAOF NO ONE", "OK");
    reader.check("CONFIG REWRITE", "OK");
    drop(server);
    let text = std::fs::read_to_string(&file).expect("a file");
    assert!(!text.contains("replicaof"), "{text}");
    let (_server, mut reader) = start_with_file(&file, port);
    assert_eq!(info(&mut reader, "role"), "master");
    reader.check("SET b 1", "OK");
}
