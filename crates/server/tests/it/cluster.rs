//! Nodes of a Redis Cluster: what clients are told, moving slots, replicas and failovers, and nodes
//! next to redis-server's.

use std::path::Path;
use std::time::{Duration, Instant};

use testkit::{Client, Launch, Reply, Server, free_port};

/// How long nodes may take to agree.
const PATIENCE: Duration = Duration::from_secs(60);
/// `cluster-node-timeout` where nodes fail over: the others do not wait for it.
const SHORT: &str = "2000";
/// `cluster-node-timeout` elsewhere, so that a busy machine is not taken for a failed node.
const LONG: &str = "15000";

/// A node, and the port of its bus.
struct Node {
    server: Server,
    bus: u16,
}

impl Node {
    fn start(launch: Launch) -> Node {
        Node::with_timeout(launch, LONG)
    }

    fn with_timeout(launch: Launch, timeout: &str) -> Node {
        let bus = free_port();
        let bus_port = bus.to_string();
        let args = ["--cluster-enabled", "yes", "--cluster-node-timeout", timeout];
        let launch = launch.args(args).args(["--cluster-port", bus_port.as_str()]);
        Node { server: launch.start(), bus }
    }

    fn client(&self) -> Client {
        self.server.client()
    }

    fn id(&self) -> String {
        self.client().run("CLUSTER MYID").text()
    }

    /// Returns how the others are to send clients here.
    fn name(&self) -> String {
        format!("127.0.0.1:{}", self.server.port())
    }

    #[track_caller]
    fn meet(&self, other: &Node) {
        let line = format!("CLUSTER MEET 127.0.0.1 {} {}", other.server.port(), other.bus);
        self.client().check(&line, "OK");
    }
}

#[track_caller]
fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "it takes too long until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Puts a folder in the place of a node's file, which the node may be saving.
#[track_caller]
fn replace_by_folder(file: &Path) {
    wait_until("there is a folder", || {
        let _ = std::fs::remove_file(file);
        std::fs::create_dir(file).is_ok()
    });
}

fn is_up(node: &Node) -> bool {
    node.client().run("CLUSTER INFO").text().contains("cluster_state:ok")
}

/// The slots of `{a}`, `{b}` and `{c}` are in the first, second and third of these ranges.
const RANGES: [&str; 3] = ["10924 16383", "0 5460", "5461 10923"];

/// Makes a cluster of three primaries.
#[track_caller]
fn join(nodes: &[Node]) {
    for (at, (node, range)) in nodes.iter().zip(RANGES).enumerate() {
        node.client().check(&format!("CLUSTER SET-CONFIG-EPOCH {}", at + 1), "OK");
        node.client().check(&format!("CLUSTER ADDSLOTSRANGE {range}"), "OK");
    }
    nodes[1..].iter().for_each(|node| nodes[0].meet(node));
    wait_until("all nodes see the cluster up", || nodes.iter().all(is_up));
}

fn three() -> Vec<Node> {
    three_with(LONG)
}

fn three_with(timeout: &str) -> Vec<Node> {
    let start = |_| Node::with_timeout(Launch::perdura_volatile(), timeout);
    let nodes: Vec<Node> = (0..3).map(start).collect();
    join(&nodes);
    nodes
}

#[test]
fn nodes_send_clients_to_each_other() {
    let nodes = three();
    let (mut a, b) = (nodes[0].client(), &nodes[1]);
    a.check("CLUSTER KEYSLOT {a}", "(integer) 15495");
    a.check("CLUSTER KEYSLOT {b}", "(integer) 3300");
    a.check("SET {a} 1", "OK");
    a.check("GET {a}", "\"1\"");
    a.check("SET {b} 1", &format!("(error) MOVED 3300 {}", b.name()));
    let crossed = "(error) CROSSSLOT Keys in request don't hash to the same slot";
    a.check("MSET {a} 1 {b} 1", crossed);
    a.check("MSET {a}1 1 {a}2 2", "OK");
    a.check("SELECT 1", "(error) ERR SELECT is not allowed in cluster mode");
    a.check("SELECT 0", "OK");
    a.check("EVAL \"return redis.call('get', KEYS[1])\" 1 {a}", "\"1\"");
    let moved = format!("(error) MOVED 3300 {}", b.name());
    a.check("EVAL \"return redis.call('get', KEYS[1])\" 1 {b}", &moved);
    let script = a.run("EVAL \"return redis.call('get', '{b}')\" 0").text();
    assert!(script.contains("attempted to access a non local key in a cluster node"), "{script}");
    a.check("SSUBSCRIBE {b}", &moved);
    // All that arrives together is answered in its place.
    let commands: Vec<Vec<&str>> =
        ["SET {a} 2", "SET {b} 2", "GET {a}"].map(|line| line.split(' ').collect()).into();
    let replies = a.pipeline(&commands).expect("replies");
    let replies: Vec<String> = replies.iter().map(ToString::to_string).collect();
    assert_eq!(replies, ["OK", &moved, "\"2\""]);
}

#[test]
fn a_transaction_is_in_one_slot_that_is_served_here() {
    let nodes = three();
    let mut a = nodes[0].client();
    let moved = format!("(error) MOVED 3300 {}", nodes[1].name());
    for (lines, expected) in [
        (&["SET {a} 1", "GET {a}"][..], "[OK, \"1\"]"),
        (
            &["SET {a} 1", "SET {b} 1"],
            "(error) EXECABORT Transaction discarded because of previous errors.",
        ),
        // Slots 15495 and 11298.
        (
            &["SET {a} 1", "SET {d} 1"],
            "(error) CROSSSLOT Keys in request don't hash to the same slot",
        ),
    ] {
        a.check("MULTI", "OK");
        for line in lines {
            let is_ours = !line.contains("{b}");
            a.check(line, if is_ours { "QUEUED" } else { &moved });
        }
        a.check("EXEC", expected);
        a.check("GET {a}", "\"1\"");
    }
}

#[test]
fn a_slot_moves_with_its_keys() {
    let nodes = three();
    let (mut a, mut b) = (nodes[0].client(), nodes[1].client());
    let (from, to) = (nodes[0].id(), nodes[1].id());
    for line in ["SET {a}1 1", "SET {a}2 2"] {
        a.check(line, "OK");
    }
    a.check("CLUSTER COUNTKEYSINSLOT 15495", "(integer) 2");
    a.check("CLUSTER GETKEYSINSLOT 15495 0", "[]");
    assert_eq!(a.run("CLUSTER GETKEYSINSLOT 15495 10").items().len(), 2);
    let mut blocked = nodes[0].client();
    blocked.send(&["BLPOP", "{a}9", "0"]).expect("a connection");
    let waits = || nodes[0].client().info("clients")["blocked_clients"] == "1";
    wait_until("a client waits", waits);
    let mut listener = nodes[0].client();
    listener.check("SSUBSCRIBE {a}", "[\"ssubscribe\", \"{a}\", (integer) 1]");
    b.check(&format!("CLUSTER SETSLOT 15495 IMPORTING {from}"), "OK");
    a.check(&format!("CLUSTER SETSLOT 15495 MIGRATING {to}"), "OK");
    // What is here is served, what is not may be there.
    let ask = format!("(error) ASK 15495 {}", nodes[1].name());
    a.check("GET {a}1", "\"1\"");
    a.check("GET {a}3", &ask);
    a.check("SET {a}3 3", &ask);
    let again = "(error) TRYAGAIN Multiple keys request during rehashing of slot";
    a.check("MGET {a}1 {a}3", again);
    b.check("GET {a}3", &format!("(error) MOVED 15495 {}", nodes[0].name()));
    for (line, reply) in [("SET {a}3 3", "OK"), ("GET {a}3", "\"3\"")] {
        b.check("ASKING", "OK");
        b.check(line, reply);
    }
    b.check("GET {a}3", &format!("(error) MOVED 15495 {}", nodes[0].name()));
    let refused = "(error) ERR Can't assign hashslot 15495 to a different node while I still hold \
                   keys for this hash slot.";
    a.check(&format!("CLUSTER SETSLOT 15495 NODE {to}"), refused);
    let port = nodes[1].server.port();
    a.check(&format!("MIGRATE 127.0.0.1 {port} \"\" 0 5000 KEYS {{a}}1 {{a}}2"), "OK");
    a.check("GET {a}1", &ask);
    for client in [&mut b, &mut a] {
        client.check(&format!("CLUSTER SETSLOT 15495 NODE {to}"), "OK");
    }
    b.check("MGET {a}1 {a}2 {a}3", "[\"1\", \"2\", \"3\"]");
    let moved = format!("(error) MOVED 15495 {}", nodes[1].name());
    a.check("GET {a}1", &moved);
    assert_eq!(blocked.receive().expect("a reply").to_string(), moved);
    let message = listener.receive().expect("a message").to_string();
    assert_eq!(message, "[\"sunsubscribe\", \"{a}\", (integer) 0]");
    listener.check("SSUBSCRIBE {a}", &moved);
    listener.check("PING", "PONG");
    let third = || nodes[2].client().run("GET {a}1").text();
    wait_until("the third node knows the owner", || third().ends_with(&nodes[1].name()));
}

#[test]
fn a_node_that_was_killed_is_in_its_cluster_again() {
    let mut nodes = three();
    let id = nodes[0].id();
    for _ in 0..2 {
        nodes[0].server.kill();
        nodes[0].server.start_again();
        assert_eq!(nodes[0].id(), id);
        wait_until("it sees the cluster up", || is_up(&nodes[0]));
        nodes[0].client().check("SET {a} 1", "OK");
        let moved = format!("(error) MOVED 3300 {}", nodes[1].name());
        nodes[0].client().check("GET {b}", &moved);
    }
}

/// Returns true if a node is a replica that has its primary's data.
fn is_linked(node: &Node) -> bool {
    let fields = node.client().info("replication");
    fields.get("master_link_status").is_some_and(|status| status == "up")
}

/// Has a replica replace its primary. It gives up after seconds if the machine is busy.
#[track_caller]
fn fail_over(replica: &Node) {
    let leads = || replica.client().info("replication")["role"] == "master";
    let asked = std::cell::Cell::new(None::<Instant>);
    wait_until("the replica leads", || {
        if asked.get().is_none_or(|at| at.elapsed() > Duration::from_secs(6))
            && replica.client().run("CLUSTER FAILOVER").is_ok()
        {
            asked.set(Some(Instant::now()));
        }
        leads()
    });
}

fn add_replica(nodes: &[Node], replica: &Node, of: usize) {
    replica.meet(&nodes[0]);
    let id = nodes[of].id();
    let knows = || replica.client().run("CLUSTER NODES").text().contains(&id);
    wait_until("the replica knows its primary", knows);
    let line = format!("CLUSTER REPLICATE {id}");
    wait_until("it may replicate", || replica.client().run(&line).is_ok());
    // Else they ignore what the replica asks.
    let line = format!("CLUSTER REPLICAS {id}");
    let is_known = |node: &Node| node.client().run(&line).items().len() == 1;
    wait_until("all know the replica", || nodes.iter().all(is_known));
    wait_until("the replica has the data", || is_linked(replica) && is_up(replica));
}

#[test]
fn a_replica_takes_the_place_of_its_primary() {
    let mut nodes = three_with(SHORT);
    let set = || nodes[0].client().run("SET {a} 1").is_ok();
    wait_until("the first node takes writes", set);
    let replica = Node::with_timeout(Launch::perdura_volatile(), SHORT);
    add_replica(&nodes, &replica, 0);
    let mut client = replica.client();
    client.check("GET {a}", &format!("(error) MOVED 15495 {}", nodes[0].name()));
    client.check("READONLY", "OK");
    client.check("GET {a}", "\"1\"");
    client.check("SET {a} 2", &format!("(error) MOVED 15495 {}", nodes[0].name()));
    client.check("READWRITE", "OK");
    client.check("GET {a}", &format!("(error) MOVED 15495 {}", nodes[0].name()));
    // With the primary's consent, and back.
    let takes = |node: &Node| node.client().run("SET {a} 2").is_ok();
    fail_over(&replica);
    wait_until("the replica takes writes", || takes(&replica));
    wait_until("the old primary replicates", || is_linked(&nodes[0]));
    fail_over(&nodes[0]);
    wait_until("the old primary takes writes", || takes(&nodes[0]));
    wait_until("the replica follows again", || is_linked(&replica));
    // Without the primary.
    nodes[0].server.kill();
    wait_until("the replica takes writes", || takes(&replica));
    replica.client().check("GET {a}", "\"2\"");
    // Those who voted know it after a crash.
    let epoch = |node: &Node| {
        node.client()
            .run("CLUSTER INFO")
            .text()
            .lines()
            .find_map(|line| line.strip_prefix("cluster_my_epoch:").map(str::to_owned))
    };
    let voted = format!("lastVoteEpoch {}\n", epoch(&replica).expect("its epoch"));
    for node in &mut nodes[1..] {
        node.server.kill();
        node.server.start_again();
        let file = std::fs::read_to_string(node.server.folder().join("nodes.conf"));
        assert!(file.expect("a file").contains(&voted), "the vote is kept");
    }
    nodes[0].server.start_again();
    wait_until("the old primary replicates", || is_linked(&nodes[0]));
}

/// How old the data is that a start finds, nobody knows: a person may say that it is to lead.
#[test]
fn a_replica_that_was_away_leads_only_if_a_person_says_so() {
    let mut nodes = three_with(SHORT);
    let set = |value| nodes[0].client().run(&format!("SET {{a}} {value}")).is_ok();
    wait_until("the first node takes writes", || set(1));
    let mut replica = Node::with_timeout(Launch::perdura(), SHORT);
    add_replica(&nodes, &replica, 0);
    replica.server.kill();
    wait_until("the primary goes on", || set(2));
    let id = nodes[0].id();
    nodes[0].server.kill();
    let has_failed = |node: &Node| {
        let nodes = node.client().run("CLUSTER NODES").text();
        nodes.lines().any(|line| line.starts_with(&id) && line.contains("fail "))
    };
    wait_until("the others see the failure", || nodes[1..].iter().all(has_failed));
    replica.server.start_again();
    wait_until("the replica sees it", || has_failed(&replica));
    let leads = || replica.client().info("replication")["role"] == "master";
    let began = Instant::now();
    // It would ask for votes within a second.
    while began.elapsed() < Duration::from_secs(3) {
        assert!(!leads(), "it leads with data of unknown age");
        std::thread::sleep(Duration::from_millis(20));
    }
    replica.client().check("CLUSTER FAILOVER FORCE", "OK");
    wait_until("the replica leads", leads);
}

#[test]
fn messages_reach_the_clients_of_other_nodes() {
    let nodes = three();
    let (mut listener, mut publisher) = (nodes[2].client(), nodes[0].client());
    listener.check("SUBSCRIBE news", "[\"subscribe\", \"news\", (integer) 1]");
    // It reaches a node at most once: not while the connection to it is made anew.
    let arrived = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !arrived.load(std::sync::atomic::Ordering::Relaxed) {
                publisher.check("PUBLISH news hello", "(integer) 0");
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let message = listener.receive();
        arrived.store(true, std::sync::atomic::Ordering::Relaxed);
        let message = message.expect("a message").to_string();
        assert_eq!(message, "[\"message\", \"news\", \"hello\"]");
    });
}

#[test]
fn nodes_are_next_to_those_of_redis() {
    let nodes: Vec<Node> =
        [Launch::perdura_volatile(), Launch::redis(), Launch::perdura_volatile()]
            .into_iter()
            .map(Node::start)
            .collect();
    join(&nodes);
    nodes[0].client().check("SET {a} 1", "OK");
    nodes[0].client().check("GET {b}", &format!("(error) MOVED 3300 {}", nodes[1].name()));
    nodes[1].client().check("GET {a}", &format!("(error) MOVED 15495 {}", nodes[0].name()));
    let slots = |node: &Node| node.client().run("CLUSTER SLOTS").to_string();
    wait_until("both show the same", || slots(&nodes[0]) == slots(&nodes[1]));
}

#[test]
fn keys_of_a_slot_that_another_node_has_taken_go() {
    let nodes = three();
    let (mut a, mut b) = (nodes[0].client(), nodes[1].client());
    a.check("MSET {a}1 1 {a}2 1 {a}3 1", "OK");
    b.check(&format!("CLUSTER SETSLOT 15495 IMPORTING {}", nodes[0].id()), "OK");
    b.check(&format!("CLUSTER SETSLOT 15495 NODE {}", nodes[1].id()), "OK");
    wait_until("its keys are deleted", || nodes[0].client().run("DBSIZE").int() == Some(0));
}

#[test]
fn an_epoch_is_kept_through_a_crash_and_is_not_told_if_it_cannot_be_saved() {
    let mut node = Node::start(Launch::perdura_volatile());
    node.client().check("CLUSTER SET-CONFIG-EPOCH 5", "OK");
    node.server.kill();
    node.server.start_again();
    assert!(node.client().run("CLUSTER INFO").text().contains("cluster_my_epoch:5"));
    let mut node = Node::start(Launch::perdura_volatile());
    let file = node.server.folder().join("nodes.conf");
    replace_by_folder(&file);
    let reply = node.client().try_call(&["CLUSTER", "SET-CONFIG-EPOCH", "5"]);
    assert!(reply.is_err() || reply.is_ok_and(|reply| reply.is_error()), "it is not saved");
    assert!(!node.server.wait().success(), "the server cannot go on");
}

#[test]
fn a_server_that_is_no_node_says_so() {
    let server = Launch::perdura_volatile().start();
    let refused = "(error) ERR This instance has cluster support disabled";
    for line in ["CLUSTER INFO", "CLUSTER HELP", "CLUSTER KEYSLOT a", "READONLY", "ASKING"] {
        server.client().check(line, refused);
    }
}

#[test]
fn a_change_that_cannot_be_saved_is_not_said_to_be_done() {
    let mut node = Node::start(Launch::perdura_volatile());
    let file = node.server.folder().join("nodes.conf");
    replace_by_folder(&file);
    let refused = node.client().run("CLUSTER ADDSLOTS 1");
    assert!(refused.is_error() && refused.text().contains("cannot be saved"), "{refused:?}");
    assert!(node.client().run("CLUSTER NODES").text().contains("connected 1"), "it is in force");
    std::fs::remove_dir(&file).expect("it is empty");
    // It is tried again without another command.
    let has_slot = || std::fs::read_to_string(&file).is_ok_and(|text| text.contains("connected 1"));
    wait_until("the file has the slot", has_slot);
    node.server.kill();
    node.server.start_again();
    assert!(node.client().run("CLUSTER NODES").text().contains("connected 1"));
}

#[test]
fn clients_are_told_the_addresses_that_are_announced_for_them() {
    let nodes = [(); 3].map(|()| Node::start(Launch::perdura_volatile()));
    join(&nodes);
    let client = |node: usize| nodes[node].client();
    for line in [
        "CONFIG SET cluster-announce-client-ipv4 192.0.2.7",
        "CONFIG SET cluster-announce-client-port 7777",
        "CONFIG SET availability-zone north-1",
        "CONFIG SET cluster-announce-human-nodename first",
    ] {
        client(0).check(line, "OK");
    }
    wait_until("the others say so", || {
        let told = client(1).run("GET {a}");
        told.text().contains("192.0.2.7:7777")
    });
    let told = client(1).run("CLUSTER NODES").text();
    assert!(told.contains(&format!(" 192.0.2.7:7777@{}", nodes[0].bus)), "{told}");
    for line in ["CLUSTER SLOTS", "CLUSTER SHARDS"] {
        let told = client(1).run(line).to_string();
        assert!(
            ["192.0.2.7", "7777", "availability-zone", "north-1"]
                .iter()
                .all(|word| told.contains(word)),
            "{told}"
        );
    }
    // Nodes go on with the real address.
    assert!(is_up(&nodes[1]) && is_up(&nodes[0]));
    for (name, value, refusal) in [
        ("cluster-announce-client-ipv4", "1.2.3", "Invalid IPv4 address"),
        ("cluster-announce-client-ipv6", "1.2.3.4", "Invalid IPv6 address"),
        ("cluster-announce-ip", "a b", "cluster-announce-ip contains invalid character"),
        ("cluster-announce-human-nodename", "a,b", "contained invalid character"),
        ("cluster-announce-hostname", "a_b", "Hostnames may only contain"),
    ] {
        let refused = client(0).call(&["CONFIG", "SET", name, value]);
        assert!(refused.is_error() && refused.text().contains(refusal), "{name}: {refused:?}");
    }
}

#[test]
fn nodes_of_a_shard_say_the_same_shard_and_are_shown_as_one() {
    let nodes = [(); 4].map(|()| Node::start(Launch::perdura_volatile()));
    join(&nodes[..3]);
    nodes[0].meet(&nodes[3]);
    let knows =
        |node: &Node, other: &Node| node.client().run("CLUSTER NODES").text().contains(&other.id());
    wait_until("the new node knows the first", || knows(&nodes[3], &nodes[0]));
    nodes[3].client().check(&format!("CLUSTER REPLICATE {}", nodes[0].id()), "OK");
    let shard = |node: &Node| node.client().run("CLUSTER MYSHARDID").text();
    assert_eq!(shard(&nodes[0]).len(), 40);
    wait_until("the replica is in the shard", || shard(&nodes[3]) == shard(&nodes[0]));
    assert_ne!(shard(&nodes[0]), shard(&nodes[1]));
    // An idle primary's replica serves, too, as soon as it has what there is.
    wait_until("clients may use the replica", || {
        let told = nodes[1].client().run("CLUSTER SLOTS").to_string();
        told.contains(&nodes[3].id())
    });
    wait_until("there are three shards", || {
        let shards = nodes[1].client().run("CLUSTER SHARDS");
        matches!(shards, Reply::Array(shards) if shards.len() == 3)
    });
    wait_until("links are counted", || {
        nodes[0].client().run("INFO clients").text().contains("cluster_connections:6")
    });
}

#[test]
fn what_waits_for_a_node_that_does_not_read_is_counted_and_bounded() {
    let nodes = three();
    let mut client = nodes[0].client();
    let exceeded = "total_cluster_links_buffer_limit_exceeded";
    assert!(client.run("CLUSTER INFO").text().contains(&format!("{exceeded}:0")));
    nodes[1].server.stop(true);
    let message = "x".repeat(1 << 20);
    let memory = |text: String| {
        let line = text.lines().find_map(|line| line.strip_prefix("mem_cluster_links:"));
        line.and_then(|bytes| bytes.parse::<u64>().ok()).expect("a number")
    };
    wait_until("messages wait", || {
        nodes[0].client().call(&["PUBLISH", "news", &message]);
        memory(nodes[0].client().run("INFO memory").text()) > 1 << 20
    });
    client.check("CONFIG SET cluster-link-sendbuf-limit 65536", "OK");
    wait_until("a link is closed", || {
        nodes[0].client().call(&["PUBLISH", "news", &message]);
        !nodes[0].client().run("CLUSTER INFO").text().contains(&format!("{exceeded}:0"))
    });
    nodes[1].server.stop(false);
}
