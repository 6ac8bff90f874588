//! Planted mistakes, each of which the simulation must find: else it would find none of ours.

use cluster::Settings;
use cluster::machine::command::Failover;

use crate::agreement::live;
use crate::failover::crash_and_wait;
use crate::world::{Mistake, World, settings};

fn is_found(mistake: Mistake, acknowledging: usize, sign: &str) {
    let mut lives = (0..60).map(|seed| live(seed, acknowledging, mistake));
    let found = lives.any(|found| found.iter().any(|text| text.contains(sign)));
    assert!(found, "{mistake:?} was not found");
}

/// Lets a primary vote for one replica, crash and come back, and be asked by another replica in the
/// same epoch. Returns what happened that must not.
fn ask_twice(mistake: Mistake) -> Vec<String> {
    // No replica acts by itself.
    let settings = Settings { replica_no_failover: true, ..settings() };
    let mut world = World::new(5, 1, &settings, mistake);
    world.create(3);
    world.run(5000);
    world.plant();
    let ask = |world: &mut World, replica: usize| {
        world.command(replica, |machine, moment| {
            machine.command_failover(Failover::Force, moment).expect("a replica")
        });
        world.run(300);
    };
    // Node 2 hears the first candidate, and nobody else hears of either.
    for other in [0, 1, 4] {
        world.network.deafen(2, other);
        world.network.deafen(3, other);
    }
    ask(&mut world, 3);
    world.crash(3);
    world.crash(2);
    world.restart(2);
    world.network.heal();
    world.run(3500);
    ask(&mut world, 4);
    std::mem::take(&mut world.watch.violations)
}

#[test]
fn a_node_that_forgets_its_vote_is_found() {
    assert_eq!(ask_twice(Mistake::None), Vec::<String>::new());
    let found = ask_twice(Mistake::ForgetVotes);
    assert!(found.iter().any(|text| text.contains("voted for")), "{found:?}");
}

#[test]
fn a_vote_that_counts_twice_is_found() {
    is_found(Mistake::VoteForAll, 0, "own slot");
}

#[test]
fn nodes_without_epochs_are_found() {
    let after_takeover = |mistake| {
        let mut world = World::new(6, 1, &settings(), mistake);
        world.create(3);
        world.run(5000);
        world.plant();
        world.command(3, |machine, moment| {
            machine.command_failover(Failover::TakeOver, moment).expect("a replica")
        });
        world.run(60_000);
        world.disagreement()
    };
    assert_eq!(after_takeover(Mistake::None), None);
    let found = after_takeover(Mistake::NoEpochs);
    assert!(found.is_some_and(|text| text.contains("disagrees")));
}

#[test]
#[should_panic(expected = "a replica has the slots")]
fn nodes_that_tell_nobody_of_a_failure_are_found() {
    let mut world = World::new(6, 1, &settings(), Mistake::NoFailures);
    world.create(3);
    world.run(5000);
    world.plant();
    crash_and_wait(&mut world, 0);
}

#[test]
fn elections_that_lose_acknowledged_writes_are_found() {
    is_found(Mistake::IgnoreAcknowledged, 1, "are lost");
}
