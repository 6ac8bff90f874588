//! Which crash images to examine when there are too many for all.
//!
//! A group of pending stores arrives up to some prefix. A choice tells how far for each group. All
//! choices are tried if they are few enough. Otherwise the most revealing ones: nothing,
//! everything, each group alone, all but one (as many of these as fit), and random ones. Old
//! groups, pending since before the last fence, are mostly words that a log still covers; fresh
//! ones are what the next fence is for. Random choices let the two kinds arrive with different
//! probabilities, since most mistakes show when one kind arrived and the other did not.

use crate::durability::Choose;

/// Iterates over choices: for each group, how many of its stores arrived.
pub(crate) struct Choices {
    queue: std::vec::IntoIter<Vec<usize>>,
}

impl Choices {
    /// Creates the choices for groups of `(stores, fresh)`.
    pub(crate) fn new(
        groups: &[(usize, bool)],
        choose: Choose,
        rng: &mut fastrand::Rng,
    ) -> Choices {
        let total = groups.iter().try_fold(1usize, |product, (stores, _)| {
            product.checked_mul(stores + 1).filter(|product| *product <= choose.all_of)
        });
        let queue = if total.is_some() { all(groups) } else { sample(groups, choose.some, rng) };
        Choices { queue: queue.into_iter() }
    }
}

impl Iterator for Choices {
    type Item = Vec<usize>;

    fn next(&mut self) -> Option<Vec<usize>> {
        self.queue.next()
    }
}

fn none(groups: &[(usize, bool)]) -> Vec<usize> {
    vec![0; groups.len()]
}

fn everything(groups: &[(usize, bool)]) -> Vec<usize> {
    groups.iter().map(|(stores, _)| *stores).collect()
}

/// Counts through all choices, with the first group changing fastest.
fn all(groups: &[(usize, bool)]) -> Vec<Vec<usize>> {
    let mut choices = vec![none(groups)];
    loop {
        let mut next = choices[choices.len() - 1].clone();
        let Some(at) = (0..groups.len()).find(|at| next[*at] < groups[*at].0) else {
            return choices;
        };
        next[..at].fill(0);
        next[at] += 1;
        choices.push(next);
    }
}

fn sample(groups: &[(usize, bool)], limit: usize, rng: &mut fastrand::Rng) -> Vec<Vec<usize>> {
    let mut choices = vec![everything(groups), none(groups)];
    let quarter = limit.saturating_sub(2) / 4;
    for at in some_groups(groups, quarter, rng) {
        let mut alone = none(groups);
        alone[at] = groups[at].0;
        choices.push(alone);
    }
    for at in some_groups(groups, quarter, rng) {
        let mut but_one = everything(groups);
        but_one[at] = 0;
        choices.push(but_one);
    }
    while choices.len() < limit {
        choices.push(random(groups, rng));
    }
    choices.truncate(limit);
    choices
}

/// Returns up to `count` distinct groups, half of them fresh if there are enough.
fn some_groups(groups: &[(usize, bool)], count: usize, rng: &mut fastrand::Rng) -> Vec<usize> {
    let mut fresh: Vec<usize> = (0..groups.len()).filter(|at| groups[*at].1).collect();
    let mut old: Vec<usize> = (0..groups.len()).filter(|at| !groups[*at].1).collect();
    rng.shuffle(&mut fresh);
    rng.shuffle(&mut old);
    let from_old = old.len().min(count.saturating_sub(fresh.len().min(count.div_ceil(2))));
    old.truncate(from_old);
    fresh.truncate(count - from_old);
    fresh.extend(old);
    fresh
}

fn random(groups: &[(usize, bool)], rng: &mut fastrand::Rng) -> Vec<usize> {
    const LIKELIHOODS: [f64; 5] = [0.0, 0.1, 0.5, 0.9, 1.0];
    let mut likelihood = || LIKELIHOODS[rng.usize(..LIKELIHOODS.len())];
    let (of_old, of_fresh) = (likelihood(), likelihood());
    groups
        .iter()
        .map(|&(stores, fresh)| {
            if rng.f64() >= if fresh { of_fresh } else { of_old } {
                0
            } else if rng.bool() {
                stores
            } else {
                rng.usize(..=stores)
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choices(groups: &[(usize, bool)], limit: usize) -> Vec<Vec<usize>> {
        let choose = Choose { all_of: limit, some: limit };
        Choices::new(groups, choose, &mut fastrand::Rng::with_seed(7)).collect()
    }

    #[test]
    fn few_choices_are_all_taken_once() {
        let check = |groups: &[(usize, bool)], expect: usize| {
            let mut found = choices(groups, 100);
            found.sort();
            found.dedup();
            assert_eq!(found.len(), expect);
        };
        check(&[], 1);
        check(&[(1, true)], 2);
        check(&[(2, true), (1, false), (3, true)], 24);
        check(&[(1, true); 6], 64);
    }

    #[test]
    fn of_many_choices_the_significant_ones_are_taken() {
        let groups = [(1, true); 40];
        let found = choices(&groups, 60);
        assert_eq!(found.len(), 60);
        let count =
            |sum: usize| found.iter().filter(|choice| choice.iter().sum::<usize>() == sum).count();
        assert!(count(0) >= 1 && count(40) >= 1, "nothing and everything");
        assert!(count(1) >= 14, "one alone");
        assert!(count(39) >= 14, "all but one");
    }

    #[test]
    fn a_seed_repeats_its_choices() {
        let groups: Vec<(usize, bool)> = (0..50).map(|n| (n % 3 + 1, n % 2 == 0)).collect();
        assert_eq!(choices(&groups, 40), choices(&groups, 40));
    }
}
