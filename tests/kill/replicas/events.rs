//! What happens to three servers while clients work: the events, drawn at random, at moments drawn
//! at random.
//!
//! None of them may cost what was acknowledged. So a primary is only given up where the documents
//! promise that its replicas have everything: with one of two replicas in the quorum both must be
//! reached and whole, with both of two one suffices. Where nobody may be promoted, a primary that
//! keeps its data is started again in its place, and one that does not is not killed.

use super::clients::Shared;
use super::link::Fault;
use super::report::Figures;
use super::scenario::Quorum;
use super::trio::Trio;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::{Duration, Instant};
use testkit::load::Violation;

/// Those who make events.
pub(super) struct Events<'r, 's> {
    pub(super) trio: &'r mut Trio<'s>,
    pub(super) shared: &'r Shared,
    pub(super) figures: &'r mut Figures,
}

type Done = Result<(), Violation>;

impl Events<'_, '_> {
    /// Lets one event happen.
    pub(super) fn next(&mut self) -> Done {
        self.pause(300, 120);
        self.trio.refresh()?;
        if self.trio.scenario.returns {
            return self.next_of_one_primary();
        }
        match self.trio.random.u8(..22) {
            0..=6 => self.lose_primary(),
            7..=9 => self.lose_replica(),
            10 => self.lose_both(),
            11 => self.lose_all(),
            12 | 13 => self.fault(),
            14 | 15 => self.failover(),
            16 => self.kill_links(),
            17 => self.configure(),
            18 | 19 => self.split(),
            20 => self.heal(),
            _ => self.trio.settle(),
        }
    }

    /// Lets one event happen, in which no other server becomes the primary.
    fn next_of_one_primary(&mut self) -> Done {
        match self.trio.random.u8(..16) {
            0..=4 => self.come_back(),
            5..=7 => self.lose_replica(),
            8 => self.lose_all(),
            9..=11 => self.fault(),
            12 => self.kill_links(),
            13 => self.configure(),
            14 => self.heal(),
            _ => self.trio.settle(),
        }
    }

    /// Kills the primary while all replicas follow, and starts it again: they must continue.
    pub(super) fn come_back(&mut self) -> Done {
        let primary = self.trio.primary;
        self.trio.settle()?;
        self.trio.wait("the primary keeps no place", |trio| {
            // It says so when a crash cannot take that back.
            let told = "Replicas can continue after a crash of this server";
            let is_kept = trio.nodes[primary].server.log().contains(told);
            Ok(is_kept && trio.number(primary, "persistence", "pool_stream_offset")?.is_some())
        })?;
        self.pause(400, 150);
        self.trio.note(format!("kill of the primary {primary}, which comes back"));
        self.trio.kill(primary);
        self.pause(10, 20);
        self.trio.bring_up(primary);
        self.figures.primaries += 1;
        self.figures.in_place += 1;
        self.trio.settle()?;
        let number = |field| self.trio.number(primary, "stats", field);
        let (full, partial) = (number("sync_full")?, number("sync_partial_ok")?);
        if full != Some(0) || partial.is_none_or(|partial| partial < 2) {
            return Err(Violation(format!(
                "after a kill of the primary {full:?} replicas got a dump, {partial:?} continued"
            )));
        }
        self.figures.returned += 1;
        Ok(())
    }

    /// Waits until clients got some more replies, or for a moment in which they get none.
    fn pause(&mut self, replies: u64, ms: u64) {
        let wait = Duration::from_millis(self.trio.random.u64(..ms));
        let (began, replies) = (Instant::now(), self.trio.random.u64(..replies));
        let before = self.shared.acknowledged.load(SeqCst);
        while began.elapsed() < wait && self.shared.acknowledged.load(SeqCst) < before + replies {
            thread::sleep(Duration::from_micros(200));
        }
    }

    /// Makes links to the primary faulty.
    fn fault(&mut self) -> Done {
        let random = &mut self.trio.random;
        let fault = match random.u8(..8) {
            0 => Fault::Cut,
            1 => Fault::CutAfter(random.u64(..2000)),
            2 => Fault::CutAfter(random.u64(..500_000)),
            3 => Fault::Stall,
            4 => Fault::StallStream,
            5 => Fault::StallReplies,
            6 => Fault::HalfOpen,
            _ => Fault::Slow(random.u64(100..4000)),
        };
        let link = &self.trio.nodes[self.trio.primary].link;
        let place = match self.trio.random.u8(..3) {
            0 => None,
            _ => Some(self.trio.random.usize(..link.count().max(1))),
        };
        link.spoil(place, fault);
        self.figures.faults += 1;
        self.trio.note(format!("{fault:?} of link {place:?} to {}", self.trio.primary));
        Ok(())
    }

    /// Lets what is stalled go on, or cuts it.
    fn heal(&mut self) -> Done {
        let resumes = self.trio.random.bool();
        self.trio.note(if resumes { "stalled links go on" } else { "faulty links are cut" });
        for node in &self.trio.nodes {
            if resumes { node.link.resume() } else { node.link.heal() }
        }
        Ok(())
    }

    /// Makes sure that the primary may be lost with what it alone holds.
    fn prepare(&mut self) -> Done {
        if self.trio.scenario.is_durable || self.trio.candidate()?.is_some() {
            return Ok(());
        }
        self.trio.note("all are made to follow first");
        self.trio.settle()
    }

    /// Ends the primary, and promotes a replica or starts it again.
    fn lose_primary(&mut self) -> Done {
        self.prepare()?;
        if self.trio.random.u8(..4) > 0 {
            self.fault()?;
            self.pause(200, 60);
        }
        let old = self.trio.primary;
        if self.trio.random.u8(..6) == 0 {
            self.trio.note(format!("SIGTERM of the primary {old}"));
            self.trio.terminate(old)?;
            self.figures.terminations += 1;
        } else {
            self.trio.note(format!("kill of the primary {old}"));
            self.trio.kill(old);
            self.figures.primaries += 1;
        }
        if self.trio.scenario.is_durable && self.trio.random.u8(..6) == 0 {
            self.trio.note("it is started again");
            self.trio.bring_up(old);
            self.figures.in_place += 1;
            return Ok(());
        }
        self.replace()
    }

    /// Finds a primary in place of the one that is away.
    fn replace(&mut self) -> Done {
        if self.trio.random.u8(..4) == 0 {
            self.heal()?;
        }
        let old = self.trio.primary;
        let Some(new) = self.trio.candidate()? else {
            if !self.trio.scenario.is_durable {
                return Err(Violation("nobody can be promoted".into()));
            }
            self.trio.note(format!("nobody can be promoted: {old} is started again"));
            self.trio.bring_up(old);
            self.figures.in_place += 1;
            return Ok(());
        };
        self.trio.note(format!("promotion of {new}"));
        self.trio.promote(new, self.shared)?;
        self.figures.promotions += 1;
        self.take_along(old)
    }

    /// Makes the others follow a new primary: the third, and the old one, which may be away.
    fn take_along(&mut self, old: usize) -> Done {
        let third = 3 - old - self.trio.primary;
        if self.trio.nodes[third].is_up {
            self.pause(50, 20);
            self.trio.follow(third)?;
        }
        self.pause(100, 60);
        if self.trio.nodes[old].is_up {
            return self.trio.follow(old);
        }
        let is_safe = self.trio.scenario.quorum == Quorum::All;
        if is_safe && self.trio.nodes[third].is_up && self.trio.random.u8(..3) == 0 {
            self.trio.note(format!("{old} comes back as a primary"));
            self.trio.bring_up_alone(old);
            self.pause(50, 40);
            return self.trio.follow(old);
        }
        if self.trio.random.bool() {
            self.trio.note(format!("{old} comes back"));
            self.trio.bring_up(old);
        }
        Ok(())
    }

    /// Ends a replica and starts it again, now or later.
    fn lose_replica(&mut self) -> Done {
        let at = self.trio.any_other();
        if self.trio.nodes[at].is_up {
            if self.trio.random.u8(..4) == 0 {
                self.trio.note(format!("SIGTERM of the replica {at}"));
                self.trio.terminate(at)?;
                self.figures.terminations += 1;
            } else {
                self.trio.note(format!("kill of the replica {at}"));
                self.trio.kill(at);
                self.figures.replicas += 1;
            }
        }
        if self.trio.random.u8(..3) > 0 {
            self.pause(100, 60);
            self.trio.note(format!("{at} comes back"));
            self.trio.bring_up(at);
        }
        Ok(())
    }

    /// Kills the primary and a replica.
    fn lose_both(&mut self) -> Done {
        let victim = self.trio.any_other();
        let survivor = 3 - self.trio.primary - victim;
        if !self.trio.scenario.is_durable {
            if self.trio.scenario.quorum != Quorum::All {
                return Ok(());
            }
            if self.trio.whole(survivor)?.is_none() {
                self.trio.settle()?;
            }
        }
        let mut both = [self.trio.primary, victim];
        self.trio.random.shuffle(&mut both);
        for at in both {
            self.trio.note(format!("kill of {at}"));
            self.trio.kill(at);
            self.pause(20, 10);
        }
        (self.figures.primaries, self.figures.replicas) =
            (self.figures.primaries + 1, self.figures.replicas + 1);
        self.replace()
    }

    /// Kills all three, which must keep their data by themselves.
    fn lose_all(&mut self) -> Done {
        if !self.trio.scenario.is_durable {
            return Ok(());
        }
        self.trio.note("kill of all three");
        for at in 0..3 {
            self.trio.kill(at);
        }
        self.figures.primaries += 1;
        self.figures.replicas += 2;
        self.figures.in_place += 1;
        self.trio.settle()
    }

    /// Ends the links without ending a server.
    fn kill_links(&mut self) -> Done {
        let (at, line) = match self.trio.random.bool() {
            true => (self.trio.any_other(), "CLIENT KILL TYPE master"),
            false => (self.trio.primary, "CLIENT KILL TYPE replica"),
        };
        if self.trio.nodes[at].is_up {
            self.trio.note(format!("{line} at {at}"));
            self.trio.ask(at, &[line])?;
            self.figures.faults += 1;
        }
        Ok(())
    }

    /// Sets how much of the stream is kept, and how long replies wait.
    fn configure(&mut self) -> Done {
        let backlog = if self.trio.random.bool() { "16384" } else { "67108864" };
        let timeout = if self.trio.random.bool() { "0" } else { "100" };
        self.trio.note(format!("backlog {backlog}, timeout {timeout}"));
        for at in 0..3 {
            if self.trio.nodes[at].is_up {
                // Without a log or a pool a dump must not begin where a promotion may follow.
                if self.trio.scenario.is_durable {
                    self.trio.ask(at, &[&format!("CONFIG SET repl-backlog-size {backlog}")])?;
                }
                self.trio.ask(at, &[&format!("CONFIG SET repl-acknowledge-timeout {timeout}")])?;
            }
        }
        Ok(())
    }

    /// Promotes a replica while its primary lives on.
    fn split(&mut self) -> Done {
        let (old, new) = (self.trio.primary, self.trio.any_other());
        let is_safe = self.trio.scenario.quorum == Quorum::All && self.trio.nodes[old].is_up;
        if !is_safe || self.trio.whole(new)?.is_none() {
            return Ok(());
        }
        self.trio.note(format!("promotion of {new} beside {old}"));
        self.trio.promote(new, self.shared)?;
        self.figures.splits += 1;
        self.pause(100, 60);
        let third = 3 - old - new;
        let order = if self.trio.random.bool() { [third, old] } else { [old, third] };
        for at in order {
            if self.trio.nodes[at].is_up {
                self.trio.note(format!("{at} follows {new}"));
                self.trio.follow(at)?;
                self.pause(100, 60);
            }
        }
        Ok(())
    }

    /// Exchanges roles by FAILOVER, with what may go wrong meanwhile.
    fn failover(&mut self) -> Done {
        let (old, target) = (self.trio.primary, self.trio.any_other());
        let random = &mut self.trio.random;
        let ms = random.u64(1..400);
        let (names_target, forces) = (random.bool(), random.bool());
        let forces = forces && self.trio.scenario.quorum == Quorum::All;
        let port = self.trio.nodes[target].link.port();
        let mut line = format!("FAILOVER TIMEOUT {ms}");
        if names_target || forces {
            line.push_str(&format!(" TO 127.0.0.1 {port}"));
        }
        if forces {
            line.push_str(" FORCE");
        }
        let reply = self.trio.ask(old, &[&line])?;
        self.trio.note(format!("{line} at {old}: {reply}"));
        if !reply.is_ok() {
            return Ok(());
        }
        self.pause(100, 30);
        let event = self.trio.random.u8(..7);
        let target_was_killed = event == 3 && self.trio.nodes[target].is_up;
        match event {
            0 => self.fault()?,
            1 => self.trio.nodes[target].link.spoil(None, Fault::Cut),
            3 if target_was_killed => self.kill_target(target),
            2 if self.may_lose_primary()? => return self.lose_primary_within_failover(),
            _ => {}
        }
        self.pause(100, 30);
        self.heal()?;
        self.trio.wait("the failover goes on", |trio| {
            trio.nodes.iter().for_each(|node| node.link.heal());
            let facts = trio.facts(old)?;
            Ok(facts.get("master_failover_state").is_some_and(|state| state == "no-failover"))
        })?;
        let mut masters = self.masters()?;
        if masters.is_empty() && target_was_killed {
            // It was the primary, with the old one as its only replica.
            self.trio.note(format!("promotion of {old}"));
            self.trio.promote(old, self.shared)?;
            masters.push(old);
        }
        let [new] = masters[..] else {
            return Err(Violation(format!("after a failover the primaries are {masters:?}")));
        };
        if new == old {
            self.trio.note("it was given up");
            self.figures.given_up += 1;
            return Ok(());
        }
        self.trio.note(format!("{new} is the primary"));
        self.trio.set_primary(new, self.shared);
        self.figures.failovers += 1;
        let third = 3 - old - new;
        if self.trio.nodes[third].is_up {
            self.pause(50, 30);
            self.trio.follow(third)?;
        }
        Ok(())
    }

    /// Kills the replica that is to be the primary, or is it already, and starts it again as a
    /// replica.
    fn kill_target(&mut self, target: usize) {
        self.trio.note(format!("kill of {target} within the failover"));
        self.trio.kill(target);
        self.figures.replicas += 1;
        self.pause(50, 30);
        self.trio.bring_up(target);
    }

    fn may_lose_primary(&mut self) -> Result<bool, Violation> {
        Ok(self.trio.scenario.is_durable || self.trio.candidate()?.is_some())
    }

    /// Returns who says that it is a primary.
    fn masters(&self) -> Result<Vec<usize>, Violation> {
        let mut masters = Vec::new();
        for at in 0..3 {
            if self.trio.nodes[at].is_up
                && self.trio.facts(at)?.get("role").is_some_and(|role| role == "master")
            {
                masters.push(at);
            }
        }
        Ok(masters)
    }

    /// Kills a primary that hands its role over: the replica may have it already.
    fn lose_primary_within_failover(&mut self) -> Done {
        let old = self.trio.primary;
        self.trio.note(format!("kill of {old} within the failover"));
        self.trio.kill(old);
        self.figures.primaries += 1;
        // What was sent in its name must not arrive later.
        self.trio.nodes.iter().for_each(|node| node.link.spoil(None, Fault::Cut));
        self.pause(10, 20);
        let Some(new) = self.masters()?.first().copied() else { return self.replace() };
        self.trio.note(format!("{new} is the primary"));
        self.trio.set_primary(new, self.shared);
        self.figures.failovers += 1;
        self.take_along(old)
    }
}
