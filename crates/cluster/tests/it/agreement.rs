//! Whatever happens: no two owners of a slot in one epoch, no second vote; and once it is quiet,
//! all agree.

use cluster::Settings;

use crate::node::TIMEOUT;
use crate::world::{Mistake, World, settings};

/// For how long disturbances last.
const DISTURBED: u64 = 60_000;
/// Within what time all must agree after that.
const QUIET: u64 = 120_000;

fn seeds(default: u64) -> Vec<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("CLUSTER_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("CLUSTER_SEEDS").unwrap_or(default)).collect(),
    }
}

/// Does something bad.
fn disturb(world: &mut World) {
    let nodes = world.nodes.len();
    let node = world.random.usize(..nodes);
    match world.random.u32(..10) {
        0 | 1 => world.crash(node),
        2 | 3 => {
            for node in 0..nodes {
                if world.random.bool() {
                    world.restart(node);
                }
            }
        }
        4 => {
            let parts = (0..nodes).map(|_| world.random.usize(..2)).collect();
            world.network.cut(parts);
        }
        5 => {
            let parts = (0..nodes).map(|other| usize::from(other == node)).collect();
            world.network.cut(parts);
        }
        6 => {
            let other = world.random.usize(..nodes);
            world.network.deafen(node, other);
        }
        7 => world.network.heal(),
        8 => world.disconnect(node),
        _ => {
            world.nodes[node].skew = world.random.i64(-3_600_000..3_600_000);
            world.network.loses_one_in = world.random.u64(2..50);
            world.network.max_delay = world.random.u64(5..300);
        }
    }
}

/// Lives through disturbances, and returns what happened that must not.
pub(crate) fn live(seed: u64, acknowledging: usize, mistake: Mistake) -> Vec<String> {
    let mut shape = fastrand::Rng::with_seed(seed ^ 0x5eed);
    let nodes = shape.usize(3..=12);
    let primaries = if nodes < 5 { 3 } else { shape.usize(3..=(nodes / 2).max(3)) };
    let settings = Settings {
        acknowledging_replicas: acknowledging,
        // Replicas that acknowledge and then leave are not counted.
        allows_replica_migration: acknowledging == 0,
        ..settings()
    };
    let mut world = World::new(nodes, seed, &settings, mistake);
    world.create(primaries);
    world.plant();
    let end = world.time + DISTURBED;
    while world.time < end {
        disturb(&mut world);
        let pause = world.random.u64(10..3 * TIMEOUT);
        world.run(pause);
    }
    world.network.heal();
    (0..nodes).for_each(|node| world.restart(node));
    let end = world.time + QUIET;
    while world.time < end && world.disagreement().is_some() {
        world.run(500);
    }
    if std::env::var_os("CLUSTER_SEEDS").is_some() {
        let (votes, epochs) = world.watch.counts();
        println!("seed {seed}: {nodes} nodes, {votes} votes, {epochs} epochs of slots");
    }
    let mut violations = std::mem::take(&mut world.watch.violations);
    violations.extend(world.disagreement());
    violations
}

#[test]
fn after_disturbances_all_nodes_agree_and_nothing_forbidden_happened() {
    for seed in seeds(25) {
        let violations = live(seed, 0, Mistake::None);
        assert!(violations.is_empty(), "CLUSTER_SEED={seed}: {violations:#?}");
    }
}

#[test]
fn an_election_goes_to_a_replica_that_has_what_was_acknowledged() {
    for seed in seeds(20) {
        let lost = live(seed, 1, Mistake::None);
        let lost: Vec<&String> = lost.iter().filter(|text| text.contains("are lost")).collect();
        assert!(lost.is_empty(), "CLUSTER_SEED={seed}: {lost:#?}");
    }
}
