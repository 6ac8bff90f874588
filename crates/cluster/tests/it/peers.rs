//! Clusters of nodes of this crate and of real servers: the system's redis-server, and those that
//! `PERDURA_REDIS8` and `PERDURA_VALKEY9` name.

use std::cell::Cell;
use std::time::{Duration, Instant};

use cluster::Flags;
use cluster::machine::command::Failover;
use cluster::message::Published;
use cluster::topology::route::Connection;
use testkit::{Launch, Server, free_port};

use crate::bus::Bus;

const TIMEOUT: u64 = 2000;

#[track_caller]
fn wait_for(what: &str, describe: impl Fn() -> String, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(40), "never: {what}\n{}", describe());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A real server, and the port of its bus.
struct Peer {
    server: Server,
    bus: u16,
}

fn peer(launch: &Launch) -> Peer {
    let bus = free_port();
    let launch = launch.clone().args(["--cluster-enabled", "yes", "--cluster-node-timeout"]);
    let launch = launch.args([TIMEOUT.to_string(), "--cluster-port".into(), bus.to_string()]);
    Peer { server: launch.start(), bus }
}

impl Peer {
    fn ask(&self, command: &str) -> String {
        self.server.client().run(command).text()
    }

    fn is_up(&self) -> bool {
        self.ask("CLUSTER INFO").contains("cluster_state:ok")
    }
}

/// Two primaries and a replica that are real servers, and one primary of this crate, which has the
/// last third of the slots.
fn a_cluster_with(launch: &Launch) {
    let peers = [peer(launch), peer(launch), peer(launch)];
    let ours = Bus::start(TIMEOUT, free_port());
    peers[0].ask("CLUSTER ADDSLOTSRANGE 0 5460");
    peers[1].ask("CLUSTER ADDSLOTSRANGE 5461 10922");
    ours.command(|machine, moment| {
        machine.command_add_slots(10923..16384, moment).expect("free slots")
    });
    for peer in &peers {
        let (port, bus) = (peer.server.port(), peer.bus);
        ours.command(|machine, moment| {
            machine.command_meet("127.0.0.1", port, bus, moment).expect("an address")
        });
    }
    let describe = || format!("{}\n{}", peers[1].ask("CLUSTER NODES"), shown(&ours));
    wait_for("all are up", describe, || {
        peers.iter().all(Peer::is_up) && ours.ask(|machine| machine.is_up())
    });
    wait_for("all know each other", describe, || {
        let known = peers.iter().map(|peer| peer.ask("CLUSTER INFO"));
        let mut known = known.map(|info| info.contains("cluster_known_nodes:4"));
        known.all(|knows| knows) && !shown(&ours).contains("handshake")
    });
    let [first, second, third] = [0, 1, 2].map(|peer: usize| peers[peer].ask("CLUSTER MYID"));
    wait_for("the replica follows", describe, || {
        peers[2].ask(&format!("CLUSTER REPLICATE {first}")) == "OK"
    });
    wait_for("the replica is up to date", describe, || {
        peers[2].ask("INFO replication").contains("master_link_status:up")
    });
    wait_for("the replica is known", describe, || shown(&ours).contains(&format!("slave {first}")));

    check_publishing(&peers[1], &ours);
    let [mut gone, other, heir] = peers;
    gone.server.kill();
    // It needs the vote of the node of this crate: of three primaries, two are left.
    let describe = || format!("{}\n{}", other.ask("CLUSTER NODES"), shown(&ours));
    wait_for("the replica leads", describe, || {
        heir.ask("INFO replication").contains("role:master")
    });
    wait_for("its slots are known", describe, || owner(&ours, 0) == third);
    wait_for("all are up again", describe, || {
        other.is_up() && heir.is_up() && ours.ask(|machine| machine.is_up())
    });

    // A replica of this crate takes the place of a server that works, with the votes of the others.
    let replica = Bus::start(TIMEOUT, free_port());
    let bus = replica.port;
    other.ask(&format!("CLUSTER MEET 127.0.0.1 1 {bus}"));
    wait_for("the new node knows the others", describe, || {
        shown(&replica).matches("connected").count() >= 4 && shown(&replica).contains(&second)
    });
    wait_for("the new node is known", describe, || {
        let id = replica.ask(|machine| machine.topology().my_id());
        heir.ask("CLUSTER NODES").contains(id.as_str()) && shown(&ours).contains(id.as_str())
    });
    replica.command(|machine, moment| {
        machine.command_replicate(second.as_bytes(), false, moment).expect("a primary")
    });
    let id = replica.ask(|machine| machine.topology().my_id().to_string());
    let is_replica = |text: String| {
        text.lines().any(|line| line.starts_with(&id) && line.contains(&format!("slave {second}")))
    };
    wait_for("it is known as a replica", describe, || {
        is_replica(heir.ask("CLUSTER NODES"))
            && is_replica(other.ask("CLUSTER NODES"))
            && is_replica(shown(&ours))
    });
    let asked = Cell::new(None::<Instant>);
    wait_for("it leads", describe, || {
        let leads = owner(&replica, 6000) == id;
        // An attempt that gets too few votes in time is given up.
        if !leads && asked.get().is_none_or(|asked| asked.elapsed() > Duration::from_secs(8)) {
            asked.set(Some(Instant::now()));
            replica.command(|machine, moment| {
                machine.command_failover(Failover::Force, moment).unwrap_or_default()
            });
        }
        leads && owner(&ours, 6000) == id
    });
    wait_for("the servers know", describe, || {
        let leads = |text: String| {
            text.lines().any(|line| {
                line.starts_with(&id) && line.contains("master") && line.contains("5461-10922")
            })
        };
        leads(heir.ask("CLUSTER NODES")) && leads(other.ask("CLUSTER NODES"))
    });
}

/// What is published on a server reaches the node, and the other way round.
fn check_publishing(peer: &Peer, ours: &Bus) {
    let published =
        Published { is_sharded: false, channel: b"news".into(), message: b"one".into() };
    peer.ask("PUBLISH news one");
    wait_for("the message comes", || shown(ours), || ours.delivered() == [published.clone()]);
    let mut subscriber = peer.server.client();
    subscriber.send(&["SUBSCRIBE", "news"]).expect("connected");
    subscriber.receive().expect("subscribed");
    ours.command(|machine, moment| machine.publish(&published, moment));
    let message = subscriber.receive().expect("a message");
    assert_eq!(message.items().last().expect("three words").text(), "one");
    let info = ours.ask(|machine| machine.info());
    assert!(info.starts_with("cluster_state:ok\r\ncluster_slots_assigned:16384\r\n"), "{info}");
    assert!(info.contains("cluster_stats_messages_publish_received:1\r\n"), "{info}");
}

fn shown(bus: &Bus) -> String {
    bus.ask(|machine| {
        let topology = machine.topology();
        let lines = topology
            .nodes()
            .map(|node| topology.line(node, cluster::Clock::default(), Connection::default()));
        lines.collect::<Vec<_>>().join("\n")
    })
}

fn owner(bus: &Bus, slot: u16) -> String {
    bus.ask(|machine| {
        let owner = machine.topology().owner(slot).filter(|owner| !owner.is(Flags::FAIL));
        owner.map(|owner| owner.id.to_string()).unwrap_or_default()
    })
}

#[test]
fn a_cluster_with_redis_elects_by_votes_of_both() {
    a_cluster_with(&Launch::redis());
}

#[test]
fn a_cluster_with_newer_peers_elects_by_votes_of_both() {
    for name in ["PERDURA_REDIS8", "PERDURA_VALKEY9"] {
        if let Some(program) = std::env::var_os(name) {
            println!("{name}");
            a_cluster_with(&Launch::peer(program).args(["--save", ""]));
        }
    }
}
