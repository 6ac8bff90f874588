//! Tests of the kit itself, with the system's redis-server.

#![forbid(unsafe_code)]

use testkit::{Launch, Medium};

#[test]
fn a_server_starts_answers_and_ends_when_asked() {
    let mut server = Launch::redis().start();
    let mut client = server.client();
    client.check("SET key \"a b\"", "OK");
    client.check("GET key", "\"a b\"");
    client.check("NOPE", "(error) ERR unknown command 'NOPE', with args beginning with: ");
    client.run("HELLO 3");
    client.check("GET missing", "(nil)");
    assert!(server.terminate().success());
}

#[test]
fn a_killed_server_starts_again_over_what_it_left() {
    let mut server =
        Launch::redis().args(["--appendonly", "yes", "--appendfsync", "always"]).start();
    server.client().check("INCR n", "(integer) 1");
    server.crash();
    server.client().check("INCR n", "(integer) 2");
    assert_eq!(server.client().info("persistence")["aof_enabled"], "1");
}

#[test]
fn a_dropped_server_leaves_neither_process_nor_directory() {
    let server = Launch::redis().on(Medium::Memory).start();
    let (pid, folder) = (server.pid(), server.folder().to_owned());
    assert!(folder.starts_with("/dev/shm"));
    drop(server);
    assert!(!folder.exists());
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn a_panic_ends_the_server_too() {
    let result = std::panic::catch_unwind(|| {
        let server = Launch::redis().start();
        std::panic::panic_any(server.pid());
    });
    let pid = *result.unwrap_err().downcast::<u32>().expect("the number that was thrown");
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn a_refused_argument_is_seen() {
    let ended = Launch::redis().args(["--no-such-option", "1"]).run_to_end();
    assert!(!ended.status.success());
    assert!(ended.log.contains("no-such-option"), "{}", ended.log);
}

#[test]
fn a_pipeline_brings_its_replies_in_order() {
    let server = Launch::redis().start();
    let commands: Vec<Vec<String>> =
        (0..100).map(|i| vec!["APPEND".into(), "k".into(), format!("{i},")]).collect();
    let replies = server.client().pipeline(&commands).expect("replies");
    assert_eq!(replies.len(), 100);
    assert_eq!(replies.last().and_then(testkit::Reply::int), Some(290));
}
