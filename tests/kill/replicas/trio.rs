//! A primary and two replicas, as one who runs them sees them: he kills, starts and promotes, and
//! knows of each what a promotion must know.
//!
//! A replica is *whole* if it has followed the present primary since either was started or it was
//! told to, and receives no dump: then it has what it acknowledged, and its offset can be compared.
//! One that is not has dropped that, or says how far it is in another history, and is not promoted;
//! if none is left, the primary is started again where it was.

use super::clients::Shared;
use super::link::Link;
use super::scenario::{Quorum, Scenario};
use fastrand::Rng;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::{Duration, Instant};
use testkit::load::Violation;
use testkit::{Client, Reply, Server};

/// Maximum time for what is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Keys that are there from the beginning, and their length.
const FILLINGS: usize = 1500;
const FILLING: usize = 700;

/// A server and the way to it.
pub(super) struct Node {
    pub(super) server: Server,
    pub(super) link: Link,
    pub(super) is_up: bool,
    /// It has followed the present primary since it was started or told to.
    is_synced: bool,
}

/// The three.
pub(super) struct Trio<'s> {
    pub(super) scenario: &'s Scenario,
    pub(super) nodes: Vec<Node>,
    pub(super) primary: usize,
    pub(super) random: Rng,
    /// What was done in this round, each with its time.
    pub(super) steps: Vec<String>,
    pub(super) began: Instant,
}

/// Fields of INFO about replication.
pub(super) type Facts = BTreeMap<String, String>;

fn violation<T>(what: impl Into<String>) -> Result<T, Violation> {
    Err(Violation(what.into()))
}

impl<'s> Trio<'s> {
    /// Starts a primary and two replicas.
    pub(super) fn start(scenario: &'s Scenario, random: Rng) -> Result<Trio<'s>, Violation> {
        let nodes = (0..3).map(|_| {
            let link = Link::listen();
            let server = scenario.launch(link.port(), None).start();
            link.lead_to(server.port());
            Node { server, link, is_up: true, is_synced: false }
        });
        let (nodes, steps) = (nodes.collect(), Vec::new());
        let mut trio = Trio { scenario, nodes, primary: 0, random, steps, began: Instant::now() };
        trio.settle()?;
        trio.fill()?;
        Ok(trio)
    }

    /// Writes what makes a dump long enough to break in the middle.
    fn fill(&self) -> Result<(), Violation> {
        let value = "x".repeat(FILLING);
        let set = |n: usize| vec!["SET".to_owned(), format!("filling:{n}"), value.clone()];
        let sets: Vec<Vec<String>> = (0..FILLINGS).map(set).collect();
        let replies = self.nodes[self.primary].server.client().pipeline(&sets);
        match replies.map(|replies| replies.iter().all(Reply::is_ok)) {
            Ok(true) => Ok(()),
            other => violation(format!("nothing can be written: {other:?}")),
        }
    }

    pub(super) fn note(&mut self, step: impl Into<String>) {
        self.steps.push(format!("{} ms {}", self.began.elapsed().as_millis(), step.into()));
    }

    /// Returns the places of the two that are not the primary.
    pub(super) fn others(&self) -> [usize; 2] {
        [(self.primary + 1) % 3, (self.primary + 2) % 3]
    }

    /// Returns one of the two at random.
    pub(super) fn any_other(&mut self) -> usize {
        self.others()[self.random.usize(..2)]
    }

    /// Sends commands to a server and returns the last reply.
    pub(super) fn ask(&self, at: usize, lines: &[&str]) -> Result<Reply, Violation> {
        let call = || -> io::Result<Reply> {
            let mut client = Client::connect(self.nodes[at].server.address())?;
            let words = |line: &&str| line.split(' ').map(str::to_owned).collect();
            let lines: Vec<Vec<String>> = lines.iter().map(words).collect();
            let replies = client.pipeline(&lines)?;
            replies.into_iter().next_back().ok_or(io::ErrorKind::InvalidInput.into())
        };
        call().or_else(|error| violation(format!("server {at} did not answer {lines:?}: {error}")))
    }

    fn check(&self, at: usize, lines: &[&str]) -> Result<(), Violation> {
        match self.ask(at, lines)? {
            reply if reply.is_ok() => Ok(()),
            reply => violation(format!("server {at} answered {lines:?} by {reply}")),
        }
    }

    /// Returns what a server says about replication.
    pub(super) fn facts(&self, at: usize) -> Result<Facts, Violation> {
        let text = self.ask(at, &["INFO replication"])?.text();
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        Ok(fields.map(|(name, value)| (name.into(), value.trim_end().into())).collect())
    }

    /// Returns a number that a server says in INFO; none if it is negative.
    pub(super) fn number(
        &self,
        at: usize,
        section: &str,
        field: &str,
    ) -> Result<Option<u64>, Violation> {
        let text = self.ask(at, &[&format!("INFO {section}")])?.text();
        let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        Ok(line.and_then(|value| value.trim().parse().ok()))
    }

    /// Waits until something is so.
    pub(super) fn wait(
        &mut self,
        what: &str,
        mut is_so: impl FnMut(&mut Self) -> Result<bool, Violation>,
    ) -> Result<(), Violation> {
        let began = Instant::now();
        while !is_so(self)? {
            if began.elapsed() > PATIENCE {
                let all: Vec<_> = (0..3).map(|at| (at, self.facts(at).ok())).collect();
                return violation(format!("after {PATIENCE:?} {what}: {all:?}"));
            }
            thread::sleep(Duration::from_millis(3));
        }
        Ok(())
    }

    /// Kills a server.
    pub(super) fn kill(&mut self, at: usize) {
        self.nodes[at].server.kill();
        (self.nodes[at].is_up, self.nodes[at].is_synced) = (false, false);
    }

    /// Asks a server to end.
    pub(super) fn terminate(&mut self, at: usize) -> Result<(), Violation> {
        let status = self.nodes[at].server.terminate();
        (self.nodes[at].is_up, self.nodes[at].is_synced) = (false, false);
        match status.success() {
            true => Ok(()),
            false => violation(format!("SIGTERM was answered by a failure of server {at}")),
        }
    }

    /// Starts a server that is away: as a replica of the primary, unless it is the primary. That
    /// one has a new history, with which the offsets of the old one cannot be compared.
    pub(super) fn bring_up(&mut self, at: usize) {
        let follows = (at != self.primary).then(|| self.nodes[self.primary].link.port());
        if follows.is_none() {
            self.nodes.iter_mut().for_each(|node| node.is_synced = false);
        }
        self.start_node(at, follows);
    }

    /// Starts a server that is away as a primary, which others may have replaced.
    pub(super) fn bring_up_alone(&mut self, at: usize) {
        self.start_node(at, None);
    }

    fn start_node(&mut self, at: usize, follows: Option<u16>) {
        let launch = self.scenario.launch(self.nodes[at].link.port(), follows);
        self.nodes[at].server.start_as(launch);
        self.nodes[at].is_up = true;
    }

    /// Makes a server that is up a replica of the primary. Whoever was connected to it has to ask
    /// anew who that is, as Sentinel does it. While a dump arrives the server refuses it.
    pub(super) fn follow(&mut self, at: usize) -> Result<(), Violation> {
        let port = self.nodes[self.primary].link.port();
        self.nodes[at].is_synced = false;
        let follow = format!("REPLICAOF 127.0.0.1 {port}");
        self.wait(&format!("server {at} does not become a replica"), |trio| {
            let reply = trio.ask(at, &["MULTI", &follow, "CLIENT KILL TYPE normal", "EXEC"])?;
            let is_done = |item: &Reply| !item.is_error();
            match &reply {
                Reply::Array(items) if items.iter().all(is_done) => Ok(true),
                Reply::Error(text) if text.starts_with("EXECABORT") => Ok(false),
                _ => violation(format!("server {at} answered {follow} by {reply}")),
            }
        })
    }

    /// Makes a server the primary, for itself and for clients.
    pub(super) fn promote(&mut self, at: usize, shared: &Shared) -> Result<(), Violation> {
        self.check(at, &["REPLICAOF NO ONE"])?;
        self.set_primary(at, shared);
        Ok(())
    }

    /// Notes that a server is the primary.
    pub(super) fn set_primary(&mut self, at: usize, shared: &Shared) {
        self.primary = at;
        self.nodes.iter_mut().for_each(|node| node.is_synced = false);
        shared.primary.store(at, SeqCst);
    }

    /// Sees which replicas have caught up with the primary. One whose link is up may not have
    /// noticed yet that the primary was started again: then it has another history.
    pub(super) fn refresh(&mut self) -> Result<(), Violation> {
        if !self.nodes[self.primary].is_up {
            return Ok(());
        }
        let history = self.facts(self.primary)?.remove("master_replid").unwrap_or_default();
        let port = self.nodes[self.primary].link.port().to_string();
        for at in self.others() {
            if self.nodes[at].is_up && !self.nodes[at].is_synced {
                let facts = self.facts(at)?;
                let is = |field: &str, value: &str| facts.get(field).is_some_and(|v| v == value);
                self.nodes[at].is_synced = is("role", "slave")
                    && is("master_port", &port)
                    && is("master_replid", &history)
                    && is("master_link_status", "up")
                    && is("master_sync_in_progress", "0");
            }
        }
        Ok(())
    }

    /// Returns how far a replica is, if it is whole. If all must acknowledge, one that does not
    /// follow keeps all that was acknowledged, unless it lost its data.
    pub(super) fn whole(&self, at: usize) -> Result<Option<u64>, Violation> {
        let keeps_all = self.nodes[at].is_synced || self.scenario.quorum == Quorum::All;
        if !self.nodes[at].is_up || !keeps_all {
            return Ok(None);
        }
        let facts = self.facts(at)?;
        let number = |field: &str| facts.get(field)?.parse::<u64>().ok();
        let is_syncing = number("master_sync_in_progress") != Some(0);
        Ok(number("slave_repl_offset").filter(|offset| *offset > 1 && !is_syncing))
    }

    /// Returns the replica that may be promoted while the primary is away, if there is one.
    pub(super) fn candidate(&mut self) -> Result<Option<usize>, Violation> {
        let [one, other] = self.others();
        let place = |offset: Option<u64>, at: usize| offset.map(|offset| (offset, at));
        let found = [place(self.whole(one)?, one), place(self.whole(other)?, other)];
        let picks_any = self.random.bool();
        Ok(match (found, self.scenario.quorum) {
            // Each of them has all that was acknowledged.
            ([Some((_, one)), Some((_, other))], Quorum::All) if picks_any => {
                Some(if self.random.bool() { one } else { other })
            }
            ([one, other], Quorum::All) => one.max(other).map(|(_, at)| at),
            // The one that has most is known only if both are reached.
            ([Some(one), Some(other)], Quorum::One | Quorum::None) => Some(one.max(other).1),
            ([Some(one), Some(other)], Quorum::OneAndBehind) => Some(one.min(other).1),
            _ => None,
        })
    }

    /// Heals all links, starts those that are away, and waits until all follow the primary.
    pub(super) fn settle(&mut self) -> Result<(), Violation> {
        self.nodes.iter().for_each(|node| node.link.heal());
        if !self.nodes[self.primary].is_up {
            self.bring_up(self.primary);
        }
        for at in self.others() {
            if !self.nodes[at].is_up {
                self.bring_up(at);
            }
            let port = self.nodes[self.primary].link.port().to_string();
            let facts = self.facts(at)?;
            if facts.get("role").is_none_or(|role| role != "slave")
                || facts.get("master_port") != Some(&port)
            {
                self.follow(at)?;
            }
        }
        self.wait("the replicas do not follow the primary", |trio| {
            trio.refresh()?;
            Ok(trio.others().iter().all(|at| trio.nodes[*at].is_synced))
        })
    }

    /// Returns the end of each server's log.
    pub(super) fn logs(&self) -> String {
        let end = |text: &str| {
            let lines: Vec<&str> = text.lines().collect();
            lines[lines.len().saturating_sub(25)..].join("\n")
        };
        let logs = self.nodes.iter().enumerate().map(|(at, node)| {
            let role = if at == self.primary { ", the primary" } else { "" };
            format!("--- server {at} at {}{role}\n{}", node.server.port(), end(&node.server.log()))
        });
        logs.collect::<Vec<_>>().join("\n")
    }
}
