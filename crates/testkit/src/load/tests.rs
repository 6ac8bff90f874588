//! The oracle gets histories that a server must not make, and must refuse each.

use super::*;
use step::Calling;
use step::What::*;

const NOW: i64 = 1_000_000;

fn bytes(text: &str) -> Bytes {
    text.as_bytes().into()
}

fn key(n: usize) -> String {
    format!("client0:key{n}")
}

fn step(what: What) -> Step {
    Step { db: 0, what }
}

fn set(n: usize, value: &str) -> Step {
    step(Set(key(n), bytes(value)))
}

/// Returns true if, after these acknowledged and sent steps, the oracle accepts the state that
/// `found` makes of an empty one.
fn admits(habits: Habits, acknowledged: &[Step], sent: &[Step], found: &[Step]) -> bool {
    let mut known = Known { open: sent.iter().cloned().collect(), ..Known::default() };
    acknowledged.iter().for_each(|step| drop(step.apply(&mut known.state)));
    let mut load = Load::from_known(0, habits, known);
    let mut state = State::new();
    found.iter().for_each(|step| drop(step.apply(&mut state)));
    load.validate(state, NOW, NOW + 10).is_ok()
}

#[track_caller]
fn check(acknowledged: &[Step], sent: &[Step], found: &[Step], expected: bool) {
    assert_eq!(admits(Habits::USUAL, acknowledged, sent, found), expected);
}

#[test]
fn every_prefix_from_acknowledged_to_sent_is_admitted() {
    let all = [set(1, "a"), set(2, "b"), set(1, "c"), step(Del(vec![key(2)]))];
    for kept in 2..=all.len() {
        check(&all[..2], &all[2..], &all[..kept], true);
    }
}

#[test]
fn a_lost_acknowledged_write_is_noticed() {
    check(&[set(1, "a"), set(2, "b")], &[], &[set(1, "a")], false);
    check(&[set(1, "a"), set(1, "b")], &[set(2, "c")], &[set(1, "a")], false);
    check(&[set(1, "a"), set(1, "b")], &[], &[set(1, "a")], false);
    check(&[set(1, "a"), step(Del(vec![key(1)]))], &[], &[set(1, "a")], false);
    check(&[step(Incr(key(1))), step(Incr(key(1)))], &[], &[step(Incr(key(1)))], false);
}

#[test]
fn a_write_without_the_one_before_it_is_noticed() {
    check(&[], &[set(1, "a"), set(2, "b")], &[set(2, "b")], false);
}

#[test]
fn a_torn_value_is_noticed() {
    check(&[set(1, "aaaa")], &[set(1, "bbbb")], &[set(1, "bbaa")], false);
    check(&[], &[step(Append(key(1), bytes("abc")))], &[set(1, "ab")], false);
}

#[test]
fn half_of_a_transaction_is_noticed() {
    let both = [set(1, "a"), Step { db: 3, ..set(2, "b") }];
    let exec = step(Exec(both.to_vec()));
    check(&[], std::slice::from_ref(&exec), &both, true);
    check(&[], std::slice::from_ref(&exec), &both[..1], false);
    check(&[], &[exec], &both[1..], false);
    let pairs = vec![(key(1), bytes("a")), (key(2), bytes("b"))];
    check(&[], &[step(MSet(pairs))], &[set(2, "b")], false);
}

#[test]
fn half_of_a_script_is_noticed() {
    let both = [set(1, "a"), Step { db: 3, ..set(2, "b") }];
    for calling in [Calling::Declared, Calling::Undeclared, Calling::Function] {
        let script = step(Script(both.to_vec(), calling));
        check(&[], std::slice::from_ref(&script), &both, true);
        check(&[], std::slice::from_ref(&script), &[], true);
        check(&[], std::slice::from_ref(&script), &both[..1], false);
        check(&[], std::slice::from_ref(&script), &both[1..], false);
        check(std::slice::from_ref(&script), &[], &both[..1], false);
        check(std::slice::from_ref(&script), &[], &[], false);
        assert!(admits(Habits::FILLING, &[], std::slice::from_ref(&script), &[]));
        assert!(!admits(Habits::FILLING, &[], &[script], &both[..1]), "it is refused as a whole");
    }
}

#[test]
fn an_expiry_time_is_part_of_what_must_be_there() {
    let expires = |at| step(ExpireAt(key(1), model::FAR_AHEAD + at));
    check(&[set(1, "a"), expires(1)], &[], &[set(1, "a"), expires(1)], true);
    check(&[set(1, "a"), expires(1)], &[], &[set(1, "a")], false);
    check(&[set(1, "a"), expires(1)], &[], &[set(1, "a"), expires(2)], false);
    check(&[set(1, "a"), expires(1)], &[], &[], false);
}

#[test]
fn a_key_that_expires_is_gone_afterwards_and_only_then() {
    let until = |at| Step { db: BRIEF, what: SetUntil(key(1), bytes("a"), at) };
    check(&[until(NOW + 500)], &[], &[until(NOW + 500)], true);
    check(&[until(NOW + 500)], &[], &[], false);
    check(&[until(NOW - 500)], &[], &[], true);
    check(&[until(NOW - 500)], &[], &[until(NOW - 500)], false);
    check(&[until(NOW + 5)], &[], &[], true);
    check(&[until(NOW + 15)], &[], &[], true);
    check(&[until(NOW + 5)], &[], &[until(NOW + 5)], true);
    let for_ever = Step { db: BRIEF, what: Set(key(1), bytes("a")) };
    check(&[until(NOW + 500)], &[], &[for_ever], false);
}

#[test]
fn a_command_may_have_been_refused_only_where_memory_may_be_short() {
    let sent = [set(1, "a"), set(2, "b")];
    assert!(admits(Habits::FILLING, &[], &sent, &sent[1..]));
    assert!(!admits(Habits::USUAL, &[], &sent, &sent[1..]));
    assert!(!admits(Habits::FILLING, &sent, &[], &sent[1..]), "it was acknowledged");
}

#[test]
fn replies_are_checked_before_any_crash() {
    let apply_reply = |step: &Step, reply| step.apply_reply(&mut State::new(), &reply).is_ok();
    assert!(apply_reply(&step(Incr(key(1))), Reply::Int(1)));
    assert!(!apply_reply(&step(Incr(key(1))), Reply::Int(2)));
    let exec = step(Exec(vec![set(1, "a"), Step { db: 3, what: Incr(key(1)) }]));
    let ok = || Reply::Simple("OK".into());
    assert!(apply_reply(&exec, Reply::Array(vec![ok(), ok(), Reply::Int(1)])));
    assert!(!apply_reply(&exec, Reply::Array(vec![ok(), ok(), Reply::Int(2)])));
    assert!(!apply_reply(&exec, Reply::Array(vec![ok(), Reply::Int(1)])));
    assert!(!apply_reply(&exec, Reply::Nil));
}

#[test]
fn a_view_holds_what_was_acknowledged_before_it_and_sent_until_its_end() {
    let crew = Crew::new(1, 1, Habits::USUAL);
    let knowledge = crew.knowledge(0);
    let view = crew.view();
    lock(&knowledge).send(&[set(1, "a")]);
    view.begin();
    {
        let mut knowledge = lock(&knowledge);
        knowledge.send(&[set(1, "b")]);
        let known = &mut knowledge.known;
        while let Some(step) = known.open.pop_front() {
            step.apply(&mut known.state);
        }
    }
    let seen = lock(&view.end().knowledge(0)).known.clone();
    assert!(seen.state.is_empty(), "nothing was acknowledged when it began");
    assert_eq!((seen.open.len(), seen.shared), (2, (0, 2)));
    lock(&knowledge).send(&[set(1, "c")]);
    assert!(lock(&knowledge).viewed.is_none(), "it has ended");
}
