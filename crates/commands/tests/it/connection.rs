//! The connection itself: protocol, password, database, and closing it.

use crate::support::{Client, engine};
use commands::Next;

#[test]
fn hello_switches_the_protocol() {
    let engine = engine();
    let mut client = Client::new(&engine);
    let id = client.session.id();
    client.check(
        "HELLO 3",
        &format!(
            "[\"server\", \"redis\", \"version\", \"7.0.15\", \"proto\", (integer) 3, \"id\", \
             (integer) {id}, \"mode\", \"standalone\", \"role\", \"master\", \"modules\", []]"
        ),
    );
    assert_eq!(client.raw(&["GET", "nothing"]), b"_\r\n");
    client.check("RESET", "RESET");
    assert_eq!(client.raw(&["GET", "nothing"]), b"$-1\r\n");
    let greeting = client.run("HELLO");
    client.check("HELLO 2 SETNAME me", &greeting);
}

#[test]
fn a_password_is_asked_for_before_anything_else() {
    let engine = engine();
    engine.permissions().set_default_password(b"secret");
    let mut client = Client::new(&engine);
    for (line, expected) in [
        ("GET k", "(error) NOAUTH Authentication required."),
        (
            "HELLO 3",
            "(error) NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> \
             <pass> option can be used to authenticate the client and select the RESP protocol version at the same time",
        ),
        ("nonsense", "(error) ERR unknown command \\'nonsense\\', with args beginning with: "),
        ("GET", "(error) ERR wrong number of arguments for \\'get\\' command"),
        ("AUTH wrong", "(error) WRONGPASS invalid username-password pair or user is disabled."),
        (
            "AUTH somebody secret",
            "(error) WRONGPASS invalid username-password pair or user is disabled.",
        ),
        ("AUTH default secret", "OK"),
        ("GET k", "(nil)"),
        ("RESET", "RESET"),
        ("GET k", "(error) NOAUTH Authentication required."),
        ("AUTH secret", "OK"),
        ("PING", "PONG"),
        ("PING hello", "\"hello\""),
        ("ECHO hello", "\"hello\""),
    ] {
        client.check(line, expected);
    }
}

#[test]
fn quit_ends_the_connection() {
    let mut client = Client::new(&engine());
    client.check("PING", "PONG");
    assert_eq!(client.outcome.next, Next::Reply);
    client.check("QUIT", "OK");
    assert_eq!(client.outcome.next, Next::Close);
}

#[test]
fn sessions_are_registered_until_they_end() {
    let engine = engine();
    let (one, mut two) = (Client::new(&engine), Client::new(&engine));
    assert_eq!(engine.clients().len(), 2);
    let id = two.session.id();
    assert!(engine.clients().get(id).is_some());
    engine.disconnect(&mut two.session);
    assert!(engine.clients().get(id).is_none());
    assert_eq!(engine.clients().list()[0].id, one.session.id());
}

#[test]
fn executions_refusals_and_failures_are_counted() {
    let engine = engine();
    let mut client = Client::new(&engine);
    for line in ["SET k v", "SET k", "SET k v NX XX", "INCR k", "nonsense"] {
        client.run(line);
    }
    let stats = |name: &str| {
        let command = engine.table().get(name.as_bytes()).expect("a command");
        let stats = engine.stats().command(command.id);
        (stats.calls, stats.rejected, stats.failed)
    };
    assert_eq!(stats("set"), (2, 1, 1));
    assert_eq!(stats("incr"), (1, 0, 1));
    assert_eq!(engine.stats().errors().get(b"ERR".as_slice()), Some(&4));
    engine.stats().reset();
    assert_eq!(stats("set"), (0, 0, 0));
}

#[test]
fn administration_of_clients_replies_as_redis_does() {
    let mut client = Client::new(&engine());
    let too_many = "(error) ERR unknown subcommand or wrong number of arguments for";
    for (line, expected) in [
        ("CLIENT LIST ID 0", "\"\"".to_owned()),
        ("CLIENT LIST ID -1 999999", "\"\"".to_owned()),
        ("CLIENT LIST ID 1 x", "(error) ERR Invalid client ID".to_owned()),
        ("CLIENT PAUSE 1 WRITE x", format!("{too_many} \\'PAUSE\\'. Try CLIENT HELP.")),
        ("CLIENT UNBLOCK 1 ERROR x", format!("{too_many} \\'UNBLOCK\\'. Try CLIENT HELP.")),
        ("SLOWLOG GET 1 2", format!("{too_many} \\'GET\\'. Try SLOWLOG HELP.")),
        ("MODULE LIST", "[]".to_owned()),
        (
            "MODULE LIST x",
            "(error) ERR wrong number of arguments for \\'module|list\\' command".into(),
        ),
        ("MODULE LOAD x", "(error) ERR unknown subcommand \\'LOAD\\'. Try MODULE HELP.".to_owned()),
    ] {
        client.check(line, &expected);
    }
}

#[test]
fn client_info_shows_the_transaction_that_it_is_in() {
    let mut client = Client::new(&engine());
    client.check("MULTI", "OK");
    client.check("CLIENT INFO", "QUEUED");
    client.check("PING", "QUEUED");
    let within = client.run("EXEC");
    assert!(within.contains(" flags=x ") && within.contains(" multi=2 "), "{within}");
    let after = client.run("CLIENT INFO");
    assert!(after.contains(" flags=N ") && after.contains(" multi=-1 "), "{after}");
}
