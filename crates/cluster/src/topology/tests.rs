//! Nodes as text, and where requests belong.

use super::route::{Connection, Endpoint, Health, Presence, Request, Route, Slots};
use super::*;
use crate::clock::Clock;
use crate::message::Text;
use proptest::prelude::*;

const CLOCK: Clock = Clock { steady: 1_000_000, wall: 1_700_000_000_000 };

/// Files of real servers, and the fields of a line that only some of them have.
const FILES: [&str; 3] = [
    include_str!("../../tests/golden/valkey-9.1.2-nodes.conf"),
    include_str!("../../tests/golden/redis-8.0.6-nodes.conf"),
    include_str!("../../tests/golden/redis-7.0.15-nodes.conf"),
];

fn random() -> fastrand::Rng {
    fastrand::Rng::with_seed(1)
}

fn read(text: &str) -> Result<Topology, describe::FileError> {
    Topology::from_file(text, CLOCK, false, &mut random())
}

/// Returns the words of the lines, without the times, in the order of the IDs.
fn words(text: &str) -> Vec<Vec<&str>> {
    let mut lines: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split(' ').enumerate().filter(|(at, _)| *at != 4 && *at != 5))
        .map(|words| words.map(|(_, word)| word).collect())
        .collect();
    lines.iter_mut().for_each(|line| line.retain(|word| !word.ends_with("connected")));
    lines.sort();
    lines
}

#[test]
fn files_of_real_servers_are_read_and_written_as_they_were() {
    for text in FILES {
        let topology = read(text).expect("a file of a server");
        assert_eq!(topology.assigned_slots(), 16384);
        assert!(topology.current_epoch() > 0 && topology.last_vote_epoch() > 0);
        let written = topology.to_file(CLOCK, false);
        let again = read(&written).expect("a file of this server");
        assert_eq!(again, Topology { ..topology.clone() }, "{written}");
        if text.contains("shard-id") {
            // Redis 7.0 has fewer fields.
            assert_eq!(words(&written)[..3], words(text)[..3]);
        }
    }
}

#[test]
fn a_node_without_an_address_is_not_read_as_failed() {
    let mut random = random();
    let mut topology = Topology::new(0, &mut random);
    let mut other = Node::new(Id::random(&mut random), Flags::PRIMARY, 0, &mut random);
    other.flags.add(Flags::NO_ADDRESS.with(Flags::PFAIL));
    let id = other.id;
    topology.add(other);
    let again = read(&topology.to_file(CLOCK, false)).expect("its own file");
    let other = again.node(id).expect("the other node");
    assert!(other.is(Flags::NO_ADDRESS) && other.is(Flags::PFAIL) && !other.has_failed());
}

#[test]
fn open_slots_and_roles_are_kept() {
    let mut random = random();
    let mut topology = Topology::new(0, &mut random);
    let other = Node::new(Id::random(&mut random), Flags::PRIMARY, 0, &mut random);
    let (me, id) = (topology.my_id(), other.id);
    topology.add(other);
    for slot in [5, 6, 7, 100] {
        topology.assign(slot, Some(me));
    }
    topology.set_migrating(6, Some(id));
    topology.set_importing(9, Some(id));
    let text = topology.to_file(CLOCK, false);
    assert!(text.contains(&format!(" 5-7 100 [6->-{id}] [9-<-{id}]\n")), "{text}");
    let again = read(&text).expect("its own file");
    assert_eq!((again.migrating_to(6), again.importing_from(9)), (Some(id), Some(id)));
    assert_eq!(again.slots_of(me), topology.slots_of(me));
}

#[test]
fn a_damaged_file_is_refused() {
    let id = "a".repeat(40);
    let good = format!("{id} 127.0.0.1:7000@17000 myself,master - 0 0 1 connected 0-5\n");
    assert!(read(&good).is_ok());
    let check = |text: String, problem: &str| {
        let error = read(&text).expect_err("it is damaged");
        assert_eq!(error.problem, problem, "{text}");
    };
    check(String::new(), "no node is this one");
    check(good.replace("myself,", ""), "no node is this one");
    check(format!("{good}{good}"), "a second node is this one");
    check(good.replace(" connected 0-5", ""), "fewer than eight fields");
    check(good.replace("master", "mister"), "an unknown flag");
    check(good.replace("0-5", "0-16384"), "invalid slots");
    check(good.replace("0-5", "[7->-odd]"), "invalid slots");
    check(format!("{good}vars currentEpoch\n"), "a variable without a value");
    check(format!("{good}vars currentEpoch x\n"), "an epoch that is no number");
}

/// This node has slot 1, gives slot 2 away and takes slot 3 from another node, which has slot 4
/// too.
fn cluster() -> (Topology, Id) {
    let mut random = random();
    let mut topology = Topology::new(0, &mut random);
    let mut other = Node::new(Id::random(&mut random), Flags::PRIMARY, 0, &mut random);
    other.ip = Text::parse(b"10.0.0.2").expect("an address");
    other.ports = NodePorts { tcp: 7001, tls: 7443, bus: 17001 };
    other.announced.host_name = Text::parse(b"two.example").expect("a name");
    let (me, id) = (topology.my_id(), other.id);
    topology.add(other);
    for (slot, owner) in [(1, me), (2, me), (3, id), (4, id)] {
        topology.assign(slot, Some(owner));
    }
    topology.set_migrating(2, Some(id));
    topology.set_importing(3, Some(id));
    (topology, id)
}

const UP: Health = Health { is_up: true, allows_reads: false, allows_pubsub: false };
const ALL: Presence = Presence { has_some: true, lacks_some: false, are_many: false };
const NONE: Presence = Presence { has_some: false, lacks_some: true, are_many: false };
const SOME: Presence = Presence { has_some: true, lacks_some: true, are_many: true };

#[track_caller]
fn check(request: Request, health: Health, presence: Presence, expected: &str) {
    let (topology, _) = cluster();
    let route = topology.route(request, health, || presence);
    assert_eq!(
        route.error(Endpoint::Ip, Connection::default()).unwrap_or_default(),
        expected,
        "{request:?}"
    );
}

fn to(slot: u16) -> Request {
    Request { slots: Slots::One(slot), ..Request::default() }
}

#[test]
fn requests_are_redirected_with_the_texts_of_redis() {
    check(Request::default(), UP, NONE, "");
    check(to(1), UP, NONE, "");
    check(to(4), UP, NONE, "MOVED 4 10.0.0.2:7001");
    check(to(5), UP, NONE, "CLUSTERDOWN Hash slot not served");
    let many = Request { slots: Slots::Many, ..Request::default() };
    check(many, UP, ALL, "CROSSSLOT Keys in request don't hash to the same slot");
}

#[test]
fn an_open_slot_depends_on_the_keys() {
    let try_again = "TRYAGAIN Multiple keys request during rehashing of slot";
    check(to(2), UP, ALL, "");
    check(to(2), UP, NONE, "ASK 2 10.0.0.2:7001");
    check(to(2), UP, SOME, try_again);
    check(Request { is_migrate: true, ..to(2) }, UP, NONE, "");
    check(Request { needs_closed_slot: true, ..to(2) }, UP, ALL, try_again);
    check(Request { is_pubsub: true, ..to(2) }, UP, NONE, "");
    check(to(3), UP, ALL, "MOVED 3 10.0.0.2:7001");
    let asking = Request { is_asking: true, ..to(3) };
    check(asking, UP, NONE, "");
    check(asking, UP, SOME, try_again);
    check(Request { is_asking: true, ..to(4) }, UP, NONE, "MOVED 4 10.0.0.2:7001");
}

#[test]
fn a_cluster_that_is_down_serves_what_the_settings_allow() {
    let down = Health { is_up: false, ..UP };
    let write = Request { is_write: true, ..to(1) };
    let channel = Request { is_pubsub: true, ..to(1) };
    check(to(1), down, ALL, "CLUSTERDOWN The cluster is down");
    check(channel, down, ALL, "CLUSTERDOWN The cluster is down");
    check(Request::default(), down, ALL, "");
    let reads = Health { allows_reads: true, ..down };
    check(to(1), reads, ALL, "");
    check(write, reads, ALL, "CLUSTERDOWN The cluster is down and only accepts read commands");
    check(channel, Health { allows_pubsub: true, ..down }, ALL, "");
}

#[test]
fn a_replica_serves_those_who_only_read() {
    let (mut topology, primary) = cluster();
    let me = topology.my_id();
    topology.move_slots(me, None);
    topology.close_slots();
    topology.set_replica(me, Some(primary));
    let is_here = |request| matches!(topology.route(request, UP, || ALL), Route::Here);
    let reader = Request { is_read_only: true, ..to(4) };
    assert!(is_here(reader));
    assert!(is_here(Request { is_pubsub: true, ..to(4) }));
    assert!(!is_here(to(4)) && !is_here(Request { is_write: true, ..reader }));
}

#[test]
fn a_redirection_names_what_clients_are_to_connect_to() {
    let (mut topology, id) = cluster();
    let check = |topology: &Topology, endpoint, is_tls, expected: &str| {
        let route = topology.route(to(4), UP, || ALL);
        let client = Connection { is_tls, is_ipv6: false };
        assert_eq!(route.error(endpoint, client).as_deref(), Some(expected));
    };
    check(&topology, Endpoint::Ip, true, "MOVED 4 10.0.0.2:7443");
    check(&topology, Endpoint::HostName, false, "MOVED 4 two.example:7001");
    check(&topology, Endpoint::Unknown, false, "MOVED 4 :7001");
    let node = topology.node_mut(id).expect("known");
    node.announced.host_name = Text::default();
    node.announced.client_port = 9000;
    check(&topology, Endpoint::HostName, false, "MOVED 4 ?:9000");
    let node = topology.node_mut(id).expect("known");
    node.announced.client_ipv4 = Text::parse(b"192.0.2.1").expect("an address");
    check(&topology, Endpoint::Ip, false, "MOVED 4 192.0.2.1:9000");
    let route = topology.route(to(4), UP, || ALL);
    let client = Connection { is_tls: false, is_ipv6: true };
    assert_eq!(route.error(Endpoint::Ip, client).as_deref(), Some("MOVED 4 10.0.0.2:9000"));
    let line =
        topology.line(topology.node(id).expect("known"), Clock::default(), Connection::default());
    assert!(line.contains(" 192.0.2.1:9000@"), "{line}");
}

proptest! {
    #[test]
    fn a_damaged_file_never_causes_a_panic(
        which in 0..FILES.len(),
        damage in prop::collection::vec((any::<u16>(), " -~"), 1..10),
    ) {
        let mut text = FILES[which].to_owned();
        for (at, with) in damage {
            let at = usize::from(at) % text.len();
            text.replace_range(at..=at, &with);
        }
        let _ = read(&text);
    }
}
