//! Limits of the server's own work: dumps, rewrites, the scrub, deletion of keys.

use std::time::{Duration, Instant};

use super::ground::Ground;
use super::{Above, At, Row, row};

/// Waits for a dump or a rewrite that has begun; a thread writes it.
fn finish(ground: &Ground) {
    let server = &ground.stage.server;
    let is_busy = || {
        let rewrites = server.append_only.get().is_some_and(|log| log.is_rewriting());
        rewrites || server.saver.is_busy()
    };
    let began = Instant::now();
    while is_busy() {
        assert!(began.elapsed() < Duration::from_secs(60), "a dump or a rewrite does not end");
        std::thread::yield_now();
    }
}

fn saves(ground: &Ground) -> u64 {
    finish(ground);
    ground.stage.server.saver.facts().saves
}

/// Saves all changes.
fn save(ground: &Ground) {
    ground.set("dbfilename", "dump.rdb");
    assert_eq!(ground.ask("SAVE"), "+OK\r\n");
    ground.align(1000);
    assert_eq!(ground.ask("SAVE"), "+OK\r\n");
}

pub(super) fn rows() -> Vec<Row> {
    let time = |ground: &Ground, limit: u64, amount: u64| {
        save(ground);
        ground.set("save", format!("100000 1 {limit} 1"));
        ground.ask("SET key v");
        let before = saves(ground);
        ground.advance(amount * 1000);
        let has_saved = saves(ground) > before;
        ground.set("save", "");
        has_saved
    };
    let changes = |ground: &Ground, limit: u64, amount: u64| {
        save(ground);
        ground.set("save", format!("1 {limit} 100000 1"));
        (0..amount).for_each(|_| _ = ground.ask("SET key v"));
        let before = saves(ground);
        ground.advance(2000);
        let has_saved = saves(ground) > before;
        ground.set("save", "");
        has_saved
    };
    let again = |ground: &Ground, _: u64, amount: u64| {
        save(ground);
        let dir = ground.stage.shared.config.values().dir.to_text();
        let _ = std::fs::create_dir(format!("{dir}/blocked"));
        ground.set("dbfilename", "blocked");
        ground.ask("SET key v");
        ground.set("save", "1 1");
        ground.advance(2000);
        let before = saves(ground);
        assert!(ground.stage.server.saver.facts().failed, "a dump replaces a directory");
        ground.set("dbfilename", "dump.rdb");
        ground.advance(amount);
        let has_saved = saves(ground) > before;
        ground.set("save", "");
        save(ground);
        has_saved
    };
    vec![
        row("save, seconds", (1, 4000), 1, Above, time),
        row("save, changes", (1, 30), 1, At, changes),
        row("time after a dump that failed", (5, 5), 1000, Above, again),
    ]
}

/// The growth at which the log is rewritten automatically.
pub(super) fn rows_of_the_log() -> Vec<Row> {
    let rewritten = |ground: &Ground| {
        finish(ground);
        ground.stage.shared.log.get().expect("a log").figures().rewrites
    };
    let begin = move |ground: &Ground| {
        ground.set("auto-aof-rewrite-percentage", 0);
        ground.ask("BGREWRITEAOF");
        rewritten(ground);
        let base = ground.stage.shared.log.get().expect("a log").figures();
        while ground.stage.shared.log.get().expect("a log").figures().current_size < 20_000 {
            ground.ask("SET key value");
        }
        (base.base_size, ground.stage.shared.log.get().expect("a log").figures().current_size)
    };
    let size = move |ground: &Ground, limit: u64, amount: u64| {
        let (_, size) = begin(ground);
        let before = rewritten(ground);
        ground.set("auto-aof-rewrite-min-size", size + limit - amount);
        ground.set("auto-aof-rewrite-percentage", 1);
        ground.advance(100);
        let has_begun = rewritten(ground) > before;
        ground.set("auto-aof-rewrite-percentage", 0);
        has_begun
    };
    let growth = move |ground: &Ground, limit: u64, amount: u64| {
        let (base, size) = begin(ground);
        let before = rewritten(ground);
        ground.set("auto-aof-rewrite-min-size", 1);
        let percent = size * 100 / base - 100;
        ground.set("auto-aof-rewrite-percentage", percent + limit - amount);
        ground.advance(100);
        let has_begun = rewritten(ground) > before;
        ground.set("auto-aof-rewrite-percentage", 0);
        has_begun
    };
    vec![
        row("auto-aof-rewrite-min-size", (100, 200), 1, Above, size),
        row("auto-aof-rewrite-percentage", (100, 200), 1, At, growth),
    ]
}

/// The period of verifying data that outlives the process.
pub(super) fn rows_of_a_pool() -> Vec<Row> {
    let scrubbed = |ground: &Ground, limit: u64, amount: u64| {
        ground.set("scrub-every", 0);
        ground.scrub();
        ground.set("scrub-every", limit);
        let passes = &ground.stage.shared.scrub.passes;
        let before = passes.load(std::sync::atomic::Ordering::Relaxed);
        ground.advance(amount);
        ground.scrub();
        passes.load(std::sync::atomic::Ordering::Relaxed) > before
    };
    vec![row("scrub-every", (1, 5000), 1000, At, scrubbed)]
}

#[test]
fn periodic_work_is_done_hz_times_a_second() {
    let ground = Ground::in_memory();
    for hz in [1, 2, 5, 10, 50, 250, 500] {
        ground.set("hz", hz);
        // Let the previous period end.
        ground.pass(1000);
        let is_deleted = |after: u64| {
            ground.pass(after);
            ground.stage.shared.engine.keyspace().count(keyspace::Db::default()).0 == 0
        };
        // A deletion shows that a round took place.
        ground.ask("SET key v PX 1");
        assert!((0..2 * 1000 / hz).any(|_| is_deleted(1)), "hz {hz}: an expired key stays");
        ground.ask("SET key v PX 1");
        let period = 1000 / hz;
        assert!(period < 3 || !is_deleted(period - 1), "hz {hz}: a round comes early");
        let rest = if period < 3 { period } else { 1 };
        assert!(is_deleted(rest), "hz {hz}: a round comes late");
    }
}
