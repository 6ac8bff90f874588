//! A dump that arrives while a replica has data: that stays until all of the dump is there.

use testkit::{Client, Launch, Medium, Server};

use super::fake::{Fake, ID, Peer, dump, header, long_dump, marked_header};
use super::{follow, info, quiet, volatile, wait_for_reply, wait_until};

/// Starts a server with data that follows a fake, which sends half of a dump.
fn start(launch: Launch, whole: &[u8]) -> (Server, Client, Fake, Peer) {
    let server = launch.start();
    let mut client = server.client();
    client.check("MSET own 1 a old", "OK");
    let fake = Fake::listen();
    follow(&mut client, fake.port());
    let (mut peer, _) = fake.accept_psync();
    peer.send(&header(500, whole.len()));
    peer.send(&whole[..whole.len() / 2]);
    wait_for_bytes(&mut client, whole.len() / 2);
    (server, client, fake, peer)
}

/// Waits until so many bytes of a dump have arrived.
#[track_caller]
fn wait_for_bytes(client: &mut Client, bytes: usize) {
    wait_until("it does not arrive", || {
        info(client, "master_sync_read_bytes") == bytes.to_string()
    });
}

#[track_caller]
fn check_old_data(client: &mut Client) {
    client.check("MGET own a", "[\"1\", \"old\"]");
    client.check("DBSIZE", "(integer) 2");
}

#[test]
fn the_data_stays_until_it_is_complete() {
    let whole = long_dump();
    let stores = [
        volatile(),
        quiet(Launch::perdura_aof("everysec")),
        quiet(Launch::perdura_pmem()).on(Medium::Memory),
        quiet(Launch::perdura_journal("everysec")),
    ];
    for launch in stores {
        let (server, mut client, fake, mut peer) = start(launch, &whole);
        check_old_data(&mut client);
        let fields = client.info("replication");
        assert_eq!(fields["master_sync_in_progress"], "1");
        assert_eq!(fields["master_sync_total_bytes"], whole.len().to_string());
        assert_eq!(client.info("persistence")["loading"], "0");
        assert!(client.run("ROLE").to_string().contains("\"sync\""));
        drop(peer);
        let (second, _) = fake.accept_psync();
        peer = second;
        check_old_data(&mut client);
        peer.send(&marked_header(500));
        peer.send(&whole[..whole.len() / 3]);
        wait_for_bytes(&mut client, whole.len() / 3);
        check_old_data(&mut client);
        peer.send(&whole[whole.len() / 3..]);
        peer.send(super::fake::MARK.as_bytes());
        peer.wait_for_acknowledgement(500);
        client.check("DBSIZE", "(integer) 2000");
        client.check("GET own", "(nil)");
        peer.send_commands(&["SELECT 0", "SET after 1"]);
        wait_for_reply(&mut client, "GET after", "\"1\"");
        assert!(!server.log().contains("does not fit"), "{}", server.log());
    }
}

#[test]
fn where_no_file_holds_it_the_next_one_replaces_the_data_as_it_comes() {
    let whole = long_dump();
    let server = volatile().longest_file(1 << 20).start();
    let (mut client, fake) = (server.client(), Fake::listen());
    client.check("MSET own 1 a old", "OK");
    server.set_limit(16);
    follow(&mut client, fake.port());
    let (mut peer, _) = fake.accept_psync();
    peer.send(&header(500, whole.len()));
    let _ = peer.try_send(&whole);
    peer.wait_for_end();
    check_old_data(&mut client);
    let (mut peer, _) = fake.accept_psync();
    peer.send(&header(500, whole.len()));
    peer.send(&whole[..whole.len() / 2]);
    wait_for_reply(&mut client, "PING", "(error) LOADING Redis is loading the dataset in memory");
    peer.send(&whole[whole.len() / 2..]);
    peer.wait_for_acknowledgement(500);
    client.check("DBSIZE", "(integer) 2000");
    assert!(server.log().contains("cannot be received into a file"), "{}", server.log());
}

#[test]
fn replicaof_ends_it_and_the_data_stays() {
    let whole = long_dump();
    let (_server, mut client, _fake, mut peer) = start(volatile(), &whole);
    client.check("REPLICAOF NO ONE", "OK");
    peer.wait_for_end();
    check_old_data(&mut client);
    assert_eq!(info(&mut client, "role"), "master");
    client.check("SET more 1", "OK");
}

#[test]
fn a_kill_meanwhile_costs_nothing() {
    let whole = long_dump();
    for launch in [quiet(Launch::perdura_pmem()), quiet(Launch::perdura_journal("everysec"))] {
        let (mut server, _client, _fake, _peer) = start(launch, &whole);
        server.kill();
        server.start_again();
        check_old_data(&mut server.client());
    }
}

#[test]
fn the_end_of_the_server_is_not_held_up() {
    let (mut server, _client, _fake, mut peer) = start(volatile(), &long_dump());
    assert!(server.terminate().success());
    peer.wait_for_end();
}

#[test]
fn a_primary_that_goes_away_when_all_of_it_is_there_costs_nothing() {
    let whole = long_dump();
    let (_server, mut client, fake, mut peer) = start(volatile(), &whole);
    peer.send(&whole[whole.len() / 2..]);
    drop(peer);
    wait_for_reply(&mut client, "DBSIZE", "(integer) 2000");
    let (_peer, asked) = fake.accept_psync();
    assert_eq!(asked, ["PSYNC", ID, "501"]);
    client.check("DBSIZE", "(integer) 2000");
}

#[test]
fn a_replica_of_another_history_keeps_its_own_and_names_no_offset() {
    let whole = dump(&["SET own 1", "SET a old"]);
    let server = volatile().start();
    let (mut client, fake) = (server.client(), Fake::listen());
    follow(&mut client, fake.port());
    drop(fake.synchronize(&whole, 500));
    let other = long_dump();
    let (mut peer, asked) = fake.accept_psync();
    assert_eq!(asked, ["PSYNC", ID, "501"]);
    assert_eq!(info(&mut client, "slave_repl_offset"), "500");
    let id = "f".repeat(40);
    peer.send(format!("+FULLRESYNC {id} 70\r\n${}\r\n", other.len()).as_bytes());
    peer.send(&other[..100]);
    wait_for_bytes(&mut client, 100);
    assert_eq!(info(&mut client, "slave_repl_offset"), "1");
    drop(peer);
    let (mut peer, asked) = fake.accept_psync();
    assert_eq!(asked, ["PSYNC", ID, "501"]);
    assert_eq!(info(&mut client, "slave_repl_offset"), "1");
    check_old_data(&mut client);
    peer.send(format!("+CONTINUE {ID}\r\n").as_bytes());
    peer.wait_for_acknowledgement(500);
    assert_eq!(info(&mut client, "slave_repl_offset"), "500");
}
