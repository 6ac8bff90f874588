//! What people and tools ask for: slots move, nodes are forgotten and reset.

use cluster::Flags;
use cluster::machine::command::{Refusal, SetSlot};
use cluster::machine::{Dropped, Faults};

use crate::world::{Mistake, World, settings};

fn cluster() -> World {
    let mut world = World::new(6, 21, &settings(), Mistake::None);
    world.create(3);
    world
}

#[test]
fn a_slot_moves_as_tools_move_it() {
    let mut world = cluster();
    let [from, to] = [0, 1].map(|node| world.nodes[node].id().expect("up"));
    let mut set = |node: usize, action| {
        world.command(node, |machine, moment| {
            machine.command_set_slot(7, action, false, moment).expect("allowed")
        });
    };
    set(1, SetSlot::Importing(from));
    set(0, SetSlot::Migrating(to));
    set(1, SetSlot::Node(to));
    set(0, SetSlot::Node(to));
    world.run_until(20_000, "all agree", |world| {
        let owner = |node: &crate::node::Node| node.topology()?.owner(7).map(|owner| owner.id);
        world.disagreement().is_none() && world.nodes.iter().all(|node| owner(node) == Some(to))
    });
    let topology = world.nodes[1].topology().expect("up");
    assert_eq!((topology.importing_from(7), topology.migrating_to(7)), (None, None));
}

#[test]
fn a_node_that_was_forgotten_stays_so_for_a_while() {
    let mut world = cluster();
    let gone = world.nodes[5].id().expect("up");
    world.crash(5);
    for node in 0..5 {
        world.command(node, |machine, moment| {
            let answer = machine.command_forget(gone.as_bytes(), moment);
            answer.expect("known, or forgotten already")
        });
        world.run(300);
    }
    world.run(20_000);
    let knows = |node: usize| world.nodes[node].topology().expect("up").node(gone).is_some();
    assert!((0..5).all(|node| !knows(node)));
}

#[test]
fn a_node_that_was_reset_knows_nobody() {
    let mut world = cluster();
    let before = world.nodes[5].id();
    world.command(5, |machine, moment| {
        machine.command_reset(true, true, moment).expect("a replica may have keys")
    });
    let topology = world.nodes[5].topology().expect("up");
    assert_eq!((topology.len(), topology.current_epoch()), (1, 0));
    assert!(topology.me().is_primary() && world.nodes[5].id() != before);
    world.command(0, |machine, moment| {
        let refused = machine.command_reset(false, true, moment);
        assert_eq!(refused, Err(Refusal::ResetWithKeys));
        Vec::new()
    });
}

#[test]
fn refusals_have_the_texts_of_redis() {
    let mut world = cluster();
    let id = world.nodes[0].id().expect("up");
    world.command(0, |machine, moment| {
        let busy = machine.command_add_slots([1], moment).expect_err("it is taken");
        assert_eq!(busy.to_string(), "ERR Slot 1 is already busy");
        let twice = machine.command_delete_slots([1, 1], moment).expect_err("it is there twice");
        assert_eq!(twice.to_string(), "ERR Slot 1 specified multiple times");
        let myself = machine.command_forget(id.as_bytes(), moment).expect_err("it is itself");
        assert_eq!(myself.to_string(), "ERR I tried hard but I can't forget myself...");
        let address = machine.command_meet("host", 1, 2, moment).expect_err("it is no address");
        assert_eq!(address.to_string(), "ERR Invalid node address specified: host:1");
        Vec::new()
    });
}

#[test]
fn a_node_that_drops_answers_reaches_nobody_until_it_takes_them_again() {
    let mut world = cluster();
    let set = |world: &mut World, drops| {
        world.command(0, |machine, _| {
            machine.set_faults(Faults { drops, ..Faults::default() });
            Vec::new()
        });
    };
    let lost = |world: &World| {
        let topology = world.nodes[0].topology().expect("up");
        topology.nodes().filter(|node| node.is(Flags::PFAIL.with(Flags::FAIL))).count()
    };
    set(&mut world, Dropped::All);
    world.run_until(20_000, "the others are lost", |world| lost(world) == 5);
    set(&mut world, Dropped::None);
    world.run_until(60_000, "all agree", |world| world.disagreement().is_none());
    assert_eq!(lost(&world), 0);
}

#[test]
fn a_node_without_links_makes_them_again_unless_it_must_not() {
    let mut world = cluster();
    let other = world.nodes[1].id().expect("up");
    let linked = |world: &World| {
        let topology = world.nodes[0].topology().expect("up");
        topology.node(other).expect("known").is_connected()
    };
    world.command(0, |machine, moment| {
        machine.set_faults(Faults { makes_no_links: true, ..Faults::default() });
        machine.kill_links(other, true, true, moment)
    });
    world.run(500);
    assert!(!linked(&world));
    // Links say when they were made, whatever the clocks do.
    let made = |world: &mut World| {
        let mut facts = Vec::new();
        world.command(0, |machine, _| {
            facts = machine.links();
            Vec::new()
        });
        facts.iter().map(|link| (link.link, link.since)).collect::<Vec<_>>()
    };
    let before = made(&mut world);
    world.nodes[0].skew = 5000;
    world.run(200);
    assert_eq!(made(&mut world), before);
    assert!(before.len() >= 4);
    world.command(0, |machine, _| {
        machine.set_faults(Faults::default());
        Vec::new()
    });
    world.run_until(5000, "there is a link", linked);
}
