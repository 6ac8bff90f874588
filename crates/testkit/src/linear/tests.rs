//! Histories that are linearizable and others that are not, written by hand; and random ones, for
//! which the criteria say what the search says.

use super::search::is_linearizable;
use super::{Access, Call, ListCall, check_list, check_register};
use fastrand::Rng;

const OPEN: u64 = Call::<Access>::OPEN;

fn call<A>(began: u64, ended: u64, what: A) -> Call<A> {
    Call { began, ended, what }
}

fn write(began: u64, ended: u64, value: u64) -> Call<Access> {
    call(began, ended, Access::Write(value))
}

fn read(began: u64, ended: u64, value: u64) -> Call<Access> {
    call(began, ended, Access::Read((value > 0).then_some(value)))
}

fn append(began: u64, ended: u64, value: u64, count: usize) -> Call<ListCall> {
    call(began, ended, ListCall::Append(value, count))
}

fn list(began: u64, ended: u64, values: &[u64]) -> Call<ListCall> {
    call(began, ended, ListCall::Read(values.to_vec()))
}

#[track_caller]
fn check(calls: &[Call<Access>], is_right: bool) {
    let found = check_register(calls);
    assert_eq!(found.is_ok(), is_right, "{found:?}: {calls:?}");
}

#[test]
fn what_one_client_reads_is_what_was_written_last() {
    check(&[read(1, 2, 0), write(3, 4, 1), read(5, 6, 1), write(7, 8, 2), read(9, 10, 2)], true);
    check(&[write(1, 2, 1), read(3, 4, 0)], false);
    check(&[write(1, 2, 1), write(3, 4, 2), read(5, 6, 1)], false);
    check(&[write(0, 0, 7), read(1, 2, 7), write(3, 4, 1), read(5, 6, 1)], true);
    check(&[write(0, 0, 7), read(1, 2, 0)], false);
}

#[test]
fn calls_that_overlap_have_any_order_and_one() {
    check(&[write(1, 6, 1), read(2, 3, 0), read(4, 5, 1)], true);
    check(&[write(1, 6, 1), read(2, 3, 1), read(4, 5, 0)], false);
    check(&[write(1, 10, 1), write(2, 9, 2), read(3, 4, 2), read(5, 6, 1)], true);
    check(&[write(1, 10, 1), write(2, 9, 2), read(3, 4, 2), read(5, 6, 1), read(7, 8, 2)], false);
}

#[test]
fn an_unknown_write_may_take_effect_late_or_never() {
    check(&[write(1, OPEN, 1), read(2, 3, 0), read(4, 5, 0)], true);
    check(&[write(1, OPEN, 1), read(2, 3, 0), write(4, 5, 2), read(6, 7, 1)], true);
    check(&[write(1, OPEN, 1), read(2, 3, 1), read(4, 5, 0)], false);
    check(&[read(1, 2, 1), write(3, OPEN, 1)], false);
    check(&[write(1, 2, 1), read(3, OPEN, 0)], true);
}

#[test]
fn a_value_that_was_refused_is_never_read() {
    check(&[write(1, 2, 1), read(3, 4, 9)], false);
}

#[track_caller]
fn check_elements(calls: &[Call<ListCall>], is_right: bool) {
    let found = check_list(calls);
    assert_eq!(found.is_ok(), is_right, "{found:?}: {calls:?}");
}

#[test]
fn a_list_keeps_what_was_appended_and_its_order() {
    check_elements(&[append(1, 2, 1, 1), list(3, 4, &[1]), list(5, 6, &[1])], true);
    check_elements(&[append(1, 2, 1, 1), list(5, 6, &[])], false);
    check_elements(&[append(1, OPEN, 1, 0), list(5, 6, &[])], true);
    check_elements(&[append(1, OPEN, 1, 0), append(3, 4, 2, 1), list(5, 6, &[2, 1])], true);
    check_elements(&[append(1, 2, 1, 1), append(3, 4, 2, 2), list(5, 6, &[2, 1])], false);
    check_elements(&[append(1, 2, 1, 1), list(3, 4, &[1, 2]), list(5, 6, &[1])], false);
    check_elements(&[append(1, 2, 1, 1), list(3, 4, &[1, 1])], false);
    check_elements(
        &[append(1, 6, 1, 1), list(2, 3, &[1]), list(4, 5, &[]), list(7, 8, &[1])],
        false,
    );
    check_elements(&[list(1, 2, &[7])], false);
}

/// Returns a random interval for each of `count` calls; some have no end.
fn intervals(random: &mut Rng, count: usize) -> Vec<(u64, u64)> {
    let mut moments: Vec<u64> = (1..=2 * count as u64).collect();
    random.shuffle(&mut moments);
    let ends = moments.chunks(2).map(|pair| (pair[0].min(pair[1]), pair[0].max(pair[1])));
    ends.map(|(began, ended)| (began, if random.u8(..5) == 0 { OPEN } else { ended })).collect()
}

#[test]
fn the_criterion_for_registers_is_the_definition() {
    let mut random = Rng::with_seed(7);
    let mut found = [0; 2];
    for _ in 0..60_000 {
        let count = random.usize(1..=7);
        let writes = random.u64(0..=count as u64);
        let calls: Vec<Call<Access>> = intervals(&mut random, count)
            .into_iter()
            .zip(1..)
            .map(|((began, ended), number)| match number <= writes {
                true => write(began, ended, number),
                false => read(began, ended, random.u64(0..=writes)),
            })
            .collect();
        let is_right = is_linearizable(&calls, &None, &|state, access| match access {
            Access::Write(value) => Some(Some(*value)),
            Access::Read(value) => (value == state).then_some(*state),
        });
        found[usize::from(is_right)] += 1;
        check(&calls, is_right);
    }
    assert!(found.iter().all(|count| *count > 5000), "{found:?}");
}

#[test]
fn the_criterion_for_lists_is_the_definition() {
    let mut random = Rng::with_seed(7);
    let mut found = [0; 2];
    for _ in 0..60_000 {
        let count = random.usize(1..=6);
        let appends = random.usize(0..=count);
        let mut all: Vec<u64> = (1..=appends as u64).collect();
        random.shuffle(&mut all);
        let mut calls = Vec::new();
        for ((began, ended), number) in intervals(&mut random, count).into_iter().zip(1..) {
            calls.push(match number <= appends {
                true => {
                    let place = all.iter().position(|value| *value == number as u64);
                    let count = if ended == OPEN { 0 } else { place.map_or(0, |at| at + 1) };
                    append(began, ended, number as u64, count)
                }
                false => list(began, ended, &all[..random.usize(0..=all.len())]),
            });
        }
        // What has no reply may never have happened.
        let keeps_all = random.bool();
        let is_open = |value| calls.iter().any(|call| call.what == ListCall::Append(value, 0));
        all.retain(|value| keeps_all || !is_open(*value));
        calls.push(list(100, 101, &all));
        let is_right = is_linearizable(&calls, &Vec::new(), &|state: &Vec<u64>, what| match what {
            ListCall::Append(value, count) => {
                let after = [state.as_slice(), &[*value]].concat();
                (*count == 0 || after.len() == *count).then_some(after)
            }
            ListCall::Read(values) => (values == state).then(|| state.clone()),
        });
        found[usize::from(is_right)] += 1;
        check_elements(&calls, is_right);
    }
    assert!(found.iter().all(|count| *count > 5000), "{found:?}");
}
