//! The end of a round: all is healed, clients get on, and then nobody does anything any more.

use super::clients::Shared;
use super::ledger::{Entry, Ledger, Object, What};
use super::report::Figures;
use super::trio::Trio;
use std::sync::atomic::Ordering::SeqCst;
use testkit::load::Violation;

/// Waits until all follow one primary, and each client has got replies from it.
pub(super) fn settle(trio: &mut Trio<'_>, shared: &Shared) -> Result<(), Violation> {
    trio.note("all is healed");
    trio.settle()?;
    trio.note("all follow");
    let counts = || shared.each.each_ref().map(|count| count.load(SeqCst));
    let before = counts();
    trio.wait("clients get no replies although all is healed", |_| {
        let all_have = counts().iter().zip(before).all(|(now, before)| *now > before + 2);
        Ok(all_have || shared.is_over.load(SeqCst))
    })
}

/// Checks what clients saw and what all servers have.
pub(super) fn check(
    trio: &mut Trio<'_>,
    shared: &Shared,
    ledger: &mut Ledger,
    objects: &[Object],
) -> Result<(), Violation> {
    trio.note("clients have ended");
    for at in 0..3 {
        // Nothing that a client has sent is still to be executed.
        trio.wait("clients are still there although they have gone", |trio| {
            let list = trio.ask(at, &["CLIENT LIST TYPE normal"])?.text();
            Ok(list.lines().count() <= 1)
        })?;
    }
    let kept = ledger.lists();
    for list in &kept {
        let found = read(trio, *list)?;
        ledger.compare(*list, &found).map_err(Violation)?;
    }
    for object in objects {
        let began = shared.clock.now();
        let what = read(trio, *object)?;
        let ended = shared.clock.now();
        ledger.add(vec![Entry { object: *object, began, ended, what }]);
    }
    ledger.close().map_err(Violation)?;
    for list in kept {
        trio.ask(trio.primary, &[&format!("UNLINK {}", list.list())])?;
    }
    compare(trio)
}

/// Reads an object from the primary.
fn read(trio: &Trio<'_>, object: Object) -> Result<What, Violation> {
    let words: Vec<String> =
        object.read().iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    let reply = trio.ask(trio.primary, &[&words.join(" ")])?;
    if reply.is_error() {
        return Err(Violation(format!("{object:?} cannot be read: {reply}")));
    }
    object.seen(&reply).map_err(Violation)
}

/// Waits until all three have the same data.
fn compare(trio: &mut Trio<'_>) -> Result<(), Violation> {
    let mut digests = Vec::new();
    let result = trio.wait("the data differ", |trio| {
        digests.clear();
        for at in 0..3 {
            digests.push(trio.ask(at, &["DEBUG DIGEST"])?.text());
        }
        Ok(digests.iter().all(|digest| *digest == digests[0]))
    });
    result.map_err(|Violation(what)| Violation(format!("{digests:?} {what}")))
}

/// Adds how replicas came to the servers that are up, since each was started or last counted.
pub(super) fn count(trio: &Trio<'_>, figures: &mut Figures) -> Result<(), Violation> {
    for at in 0..3 {
        let stats = trio.ask(at, &["INFO stats"])?.text();
        let number = |field: &str| -> u64 {
            let line = stats.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
            line.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
        };
        figures.dumps += number("sync_full");
        figures.continued += number("sync_partial_ok");
        trio.ask(at, &["CONFIG RESETSTAT"])?;
    }
    Ok(())
}

/// Returns true if a violation is of lost or wrong data.
pub(super) fn is_loss(what: &str) -> bool {
    let says = [
        "no order of these values explains",
        "is lost",
        "which nobody wrote",
        "the element stands at",
        "a read from",
        "stands at",
        "of the round before has changed",
        "nobody appended it",
    ];
    says.iter().any(|says| what.lines().next().is_some_and(|first| first.contains(says)))
}
