//! A server that follows a primary, without the sockets: what it executes, and what its clients
//! are told.

use std::sync::Arc;

use commands::{Applier, Engine, Primary, ReceivedCommand};
use engine::replication::Wanted;
use replication::{Id, Replica, Stage};

use crate::support::{Client, engine};

/// Makes the server follow a primary, or nobody.
fn follow(engine: &Engine, follows: bool) {
    let primary = Primary { host: "127.0.0.1".to_owned(), port: 1 };
    engine.follow(follows.then_some(primary));
}

/// Returns a server that receives the stream of a primary.
fn replica() -> Arc<Engine> {
    let engine = engine();
    engine.config().set_replicas_are_read_only(true);
    follow(&engine, true);
    engine.replication().stream().adopt(Id::NONE, 0, None);
    engine
}

/// Executes commands of the primary.
#[track_caller]
fn receive(engine: &Engine, lines: &[&str]) {
    let mut applier = Applier::new(engine, engine.replication().stream().epoch(), None);
    for line in lines {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let bytes = line.as_bytes();
        applier.apply(&[ReceivedCommand { words: &words, bytes }]).expect("it is executed");
    }
}

#[test]
fn a_read_only_replica_gives_a_client_that_waits_nothing_of_its_primarys() {
    let engine = replica();
    engine.config().set_replicas_are_read_only(false);
    let (mut reader, mut writer) = (Client::patient(&engine), Client::patient(&engine));
    writer.check("BLPOP l 0", "(blocked)");
    reader.check("XREAD BLOCK 0 STREAMS x $", "(blocked)");
    engine.config().set_replicas_are_read_only(true);
    receive(&engine, &["XADD x 1-1 a b", "RPUSH l 1"]);
    let refused = "(error) READONLY You can\\'t write against a read only replica.";
    assert_eq!(writer.unblocked().as_deref(), Some(refused));
    let served = "[[\"x\", [[\"1-1\", [\"a\", \"b\"]]]]]";
    assert_eq!(reader.unblocked().as_deref(), Some(served));
    reader.check("LLEN l", "(integer) 1");
}

#[test]
fn a_wait_for_replicas_that_begins_with_the_end_of_a_primary_ends_at_once() {
    let engine = replica();
    let mut client = Client::patient(&engine);
    // What waits here is like a WAIT that found a primary.
    client.check("XREAD BLOCK 0 STREAMS x $", "(blocked)");
    let wanted = Wanted { replicas: 1, offset: 1, durable: false };
    engine.wait_for_replicas(&client.session, wanted);
    let told = "(error) UNBLOCKED force unblock from blocking operation, instance state changed \
                (master -> replica?)";
    assert_eq!(client.unblocked().as_deref(), Some(told));
}

#[test]
fn a_wait_after_a_promotion_is_for_the_present_history() {
    let engine = engine();
    let mut client = Client::patient(&engine);
    let stream = engine.replication().stream();
    engine.replication().switch_on();
    let wait = |client: &mut Client| {
        let before = stream.end();
        client.check("WAIT 1 0", "(blocked)");
        let asked = stream.end() > before;
        assert!(engine.unblock(client.session.id(), false));
        assert_eq!(client.unblocked().as_deref(), Some("(integer) 0"));
        asked
    };
    client.check(&format!("SET a {}", "x".repeat(1000)), "OK");
    assert!(wait(&mut client), "the replicas are asked");
    assert!(!wait(&mut client), "they were asked");
    follow(&engine, true);
    stream.adopt(Id::NONE, 10, None);
    follow(&engine, false);
    // What the client wrote before is where no replica will ever be.
    let replica = Replica::new(77, "host".to_owned(), 1, 0);
    replica.set_stage(Stage::Online, 0);
    let replica = engine.replication().replicas().enter(replica);
    replica.acknowledge(10, None, 0);
    client.check("WAIT 1 0", "(integer) 1");
    client.check("SET a 1", "OK");
    assert!(wait(&mut client), "the replicas of this history were not asked");
}
