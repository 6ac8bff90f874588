//! When a primary fails and most others are reached, a replica takes its place, soon.

use cluster::Flags;
use cluster::machine::command::Failover;
use cluster::message::{Body, Gossip, Header, Message, Ports};

use crate::node::TIMEOUT;
use crate::world::{Mistake, World, settings};

/// The longest time from a failure to the new primary: the timeout, as much for the reports of
/// others, the delays of the election, and once more if the first election fails.
const BOUND: u64 = 10 * TIMEOUT;

/// Returns how long it takes until another node has the slots of one that crashed.
pub(crate) fn crash_and_wait(world: &mut World, node: usize) -> u64 {
    let before = world.nodes[node]
        .topology()
        .expect("up")
        .slots_of(world.nodes[node].id().expect("up"))
        .clone();
    world.crash(node);
    world.run_until(BOUND, "a replica has the slots", move |world| {
        world.nodes.iter().filter_map(|node| node.topology()).any(|topology| {
            topology.me().is_primary() && *topology.slots_of(topology.my_id()) == before
        })
    })
}

fn cluster(nodes: usize, seed: u64) -> World {
    let mut world = World::new(nodes, seed, &settings(), Mistake::None);
    world.create(3);
    world.run(5000);
    world
}

#[test]
fn a_replica_takes_the_place_of_a_failed_primary() {
    for seed in 0..10 {
        let mut world = cluster(6 + seed as usize % 4, seed);
        let took = crash_and_wait(&mut world, 0);
        assert!(took >= TIMEOUT / 2, "nobody can know before: {took} ms");
        world.restart(0);
        world.run_until(60_000, "all agree", |world| world.disagreement().is_none());
        assert!(world.nodes[0].topology().expect("up").me().is_replica());
        assert_eq!(world.watch.violations, Vec::<String>::new());
    }
}

#[test]
fn a_replica_without_data_does_not_take_the_place_of_its_primary() {
    let mut world = cluster(6, 4);
    let replicas = 3..6;
    replicas.for_each(|node| world.nodes[node].is_loading = true);
    world.crash(0);
    world.command(3, |machine, moment| {
        machine.command_failover(Failover::Force, moment).expect("a replica")
    });
    world.run(10 * TIMEOUT);
    assert!((3..6).all(|node| !world.nodes[node].leads()), "without data");
    world.nodes[3].is_loading = false;
    world.run_until(BOUND, "the replica leads", |world| world.nodes[3].leads());
}

#[test]
fn a_minority_stops_and_elects_nobody() {
    let mut world = cluster(6, 3);
    // One primary and its replica, and the other four.
    world.network.cut(vec![1, 0, 0, 1, 0, 0]);
    world.run(20 * TIMEOUT);
    let machine = |node: usize| world.nodes[node].machine.as_ref().expect("up");
    assert!(!machine(0).is_up() && !machine(3).is_up());
    assert!(machine(0).topology().me().is_primary());
    assert!(machine(3).topology().me().is_replica());
    world.network.heal();
    world.run_until(60_000, "all agree", |world| world.disagreement().is_none());
}

#[test]
fn a_manual_failover_loses_nothing_and_a_takeover_asks_nobody() {
    for how in [Failover::Agreed, Failover::Force, Failover::TakeOver] {
        let mut world = cluster(6, 5);
        world.command(3, |machine, moment| {
            machine.command_failover(how, moment).expect("a replica")
        });
        world.run_until(8000, "the replica leads", |world| {
            world.nodes[3].leads() && !world.nodes[0].leads()
        });
        world.run_until(20_000, "all agree", |world| world.disagreement().is_none());
    }
}

#[test]
fn a_replica_goes_to_a_primary_that_is_alone() {
    // The first primary has two replicas, the others one each.
    let mut world = cluster(7, 11);
    world.crash(4);
    world.run_until(60_000, "a replica migrates", |world| {
        let alone = world.nodes[1].id();
        [3, 6]
            .into_iter()
            .any(|node| world.nodes[node].topology().expect("up").me().primary == alone)
    });
}

/// Lets node 2 answer where `node` expects node 1, as it happens when two exchange their addresses.
fn answer_for_another(world: &mut World, node: usize) {
    let [expected, answers] = [1, 2].map(|node| world.nodes[node].id().expect("up"));
    let header = Header {
        sender: answers,
        ip: crate::node::ip(1),
        ports: Ports { client: 7000, other: 0, bus: 17_000 },
        flags: Flags::PRIMARY,
        primary: None,
        current_epoch: 0,
        config_epoch: 99,
        slots: cluster::SlotSet::new(),
        offset: 0,
        is_down: false,
        is_paused: false,
        forces_vote: false,
        has_extensions: false,
    };
    world.command(node, |machine, moment| {
        let mut links = machine.links().into_iter();
        let link = links.find(|link| link.node == expected && !link.is_inbound).expect("a link");
        let pong = Message::full(header, Body::Pong(Gossip::default()));
        machine.received(link.link, pong, moment)
    });
}

#[test]
fn a_node_whose_address_one_other_lost_has_not_failed() {
    let mut world = cluster(6, 6);
    let healthy = world.nodes[1].id().expect("up");
    let epoch_of = |world: &World| {
        let topology = world.nodes[0].topology().expect("up");
        topology.node(healthy).expect("known").config_epoch
    };
    let epoch = epoch_of(&world);
    answer_for_another(&mut world, 0);
    assert_eq!(epoch_of(&world), epoch, "the epoch of another node");
    for _ in 0..100 {
        world.run(100);
        let has_failed = |node: &crate::node::Node| {
            let topology = node.topology().expect("up");
            topology.node(healthy).expect("known").has_failed()
        };
        assert!(!world.nodes.iter().any(has_failed) && world.nodes[1].leads());
    }
    world.run_until(10_000, "all agree", |world| world.disagreement().is_none());
    let known = world.nodes[0].topology().expect("up").node(healthy).expect("known");
    assert!(!known.is(Flags::NO_ADDRESS.with(Flags::PFAIL)) && known.is_connected());
}

#[test]
fn a_primary_whose_address_all_others_lost_is_replaced() {
    let mut world = cluster(6, 7);
    for node in [0, 2, 3, 4, 5] {
        answer_for_another(&mut world, node);
    }
    crash_and_wait(&mut world, 1);
}
