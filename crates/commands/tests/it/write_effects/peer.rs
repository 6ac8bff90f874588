//! The redis-server that the cases are compared with.

use std::time::Duration;

use super::{Case, Mode, Outcome, WATCHED, with_dumps};
use crate::support::wire::{Remote, Reply, describe};
use crate::writes::{self, WAIT};
use testkit::Launch;

/// Clients of a redis-server: one that writes, one for each watched key.
pub(super) struct Redis {
    client: Remote,
    /// The one that blocks.
    waiting: Remote,
    watchers: Vec<Remote>,
}

impl Redis {
    pub(super) fn of(server: &testkit::Server) -> Redis {
        let mut client = Remote::connect(server.address());
        client.call(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
        // The server checks timeouts this often.
        client.call(&["CONFIG", "SET", "hz", "500"]);
        let watchers = WATCHED.map(|(db, _)| {
            let mut watcher = Remote::connect(server.address());
            watcher.call(&["SELECT", &db.to_string()]);
            watcher
        });
        let waiting = Remote::connect(server.address());
        Redis { client, waiting, watchers: watchers.into() }
    }

    pub(super) fn run(&mut self, case: &Case) -> Outcome {
        let lines = case.setup.iter().filter(|line| *line != WAIT).map(|line| case.words(line));
        let setup: Vec<_> = [writes::words("FLUSHALL ASYNC")].into_iter().chain(lines).collect();
        self.client.send(&setup);
        self.client.receive(setup.len());
        if case.setup.iter().any(|line| line == WAIT) {
            std::thread::sleep(Duration::from_millis(2));
        }
        let client = &mut self.client;
        let lines: Vec<Vec<Vec<u8>>> = case
            .lines()
            .iter()
            .map(|line| with_dumps(case.words(line), &mut |words| client.call(words)))
            .collect();
        for ((_, key), watcher) in WATCHED.iter().zip(&mut self.watchers) {
            watcher.send(&[[b"WATCH".to_vec(), case.name(key)]]);
        }
        self.watchers.iter_mut().for_each(|watcher| drop(watcher.receive(1)));
        let reply = match case.mode {
            Mode::Blocked(_) => self.block(&lines),
            _ => {
                self.client.send(&lines);
                self.client.receive(lines.len()).last().map(describe).expect("a request")
            }
        };
        self.watchers.iter_mut().for_each(|watcher| watcher.send(&[["MULTI"], ["EXEC"]]));
        let ends = self.watchers.iter_mut().map(|watcher| watcher.receive(2));
        let broken = ends.map(|replies| replies[1] == Reply::Many(b'*', None)).collect();
        Outcome { reply, broken }
    }

    /// Returns the reply to a blocking request, after the requests that unblock it.
    fn block(&mut self, lines: &[Vec<Vec<u8>>]) -> String {
        self.waiting.send(&lines[..1]);
        let is_blocked = |client: &mut Remote| {
            describe(&client.call(&["INFO", "clients"])).contains("blocked_clients:1")
        };
        assert!((0..10_000).any(|_| is_blocked(&mut self.client)), "it blocks");
        self.client.call(&lines[1]);
        describe(&self.waiting.receive(1)[0])
    }
}

/// The system's redis-server, if it has one.
pub(super) fn redis() -> Option<testkit::Server> {
    let version = std::process::Command::new("redis-server").arg("--version").output();
    match version {
        Ok(_) => Some(Launch::redis().start()),
        Err(_) => {
            println!("there is no redis-server: what it does is not compared");
            None
        }
    }
}
