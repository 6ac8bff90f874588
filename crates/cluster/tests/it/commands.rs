//! What people and tools ask for: slots move, nodes are forgotten and reset.

use cluster::machine::command::{Refusal, SetSlot};

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
