//! Whether a request still belongs to this node of a cluster when the shards of its keys are
//! locked.
//!
//! A request is checked twice: when it is admitted ([`super::redirect`]), as in Redis, and here,
//! since its slot may have been given away meanwhile. Who gives a slot away holds the slot's shard
//! until the view says so: a write is refused, or it came before, and the one who gives the slot
//! away sees its key.
//!
//! A key of a slot that is being moved to another node may be here or there. Which of the keys are
//! here is looked up under the locks.

use ::cluster::View;
use ::cluster::topology::route::{Presence, Request as Wanted, Route, Slots};
use keyspace::{Key, Txn, slot};

use super::call::Call;
use super::queue;
use super::slots::{slots_of, takes_channels};
use super::step::Step;
use crate::cluster::InCluster;
use crate::engine::Engine;
use crate::failure::{Done, Failure};
use crate::observe::state::Hold;
use crate::session::Session;
use crate::table::Command;
use crate::table::spec::{ASKING, CommandSpec, MOVES_KEYS, WRITE};

/// The errors of scripts, which say what a script may not do instead of where it could.
const NOT_LOCAL: &str = "ERR Script attempted to access a non local key in a cluster node";
const OTHER_SLOT: &str = "ERR Script attempted to access keys that do not hash to the same slot";
const DOWN: &str = "ERR Script attempted to execute a command while the cluster is down";
/// The error of a write that was admitted before writes were paused for CLUSTER FAILOVER.
const PAUSED: &str = "TRYAGAIN Writes are paused while a replica takes over";
/// The error of the server's own deletion of a key that belongs here by now.
const NOT_DROPPED: &str = "ERR the slot is this node's again";
const READS_ONLY: &str =
    "ERR Script attempted to execute a write command while the cluster is down and readonly";

/// Returns which keys are here.
pub(super) fn presence(session: &Session, keys: &[Key<'_>], txn: &Txn<'_>) -> Presence {
    keys.iter().map(|key| (key.bytes(), txn.peek(session.db, key).is_some())).collect()
}

/// Returns what decides where a request belongs, but for its slots.
pub(super) fn wanted(part: &InCluster, spec: &CommandSpec, is_write: bool) -> Wanted {
    Wanted {
        slots: Slots::None,
        is_write,
        is_asking: part.is_asking() || spec.has(ASKING),
        is_read_only: part.is_read_only,
        is_pubsub: takes_channels(spec),
        is_migrate: spec.is(MOVES_KEYS),
        needs_closed_slot: false,
    }
}

/// Returns the error that sends a client elsewhere.
pub(super) fn refusal(session: &Session, view: &View, route: Route<'_>) -> Done {
    match route.error(view.endpoint(), session.client.peer.connection()) {
        Some(text) => Err(Failure::text(text)),
        None => Ok(()),
    }
}

impl Engine {
    /// Refuses a call that belongs to another node by now. The shards of its keys are locked.
    #[inline]
    pub(super) fn check_place_locked(&self, call: &Call<'_>, txn: &Txn<'_>) -> Done {
        if !self.cluster().is_on() || call.session.replay {
            return Ok(());
        }
        let is_write = || queue::may_write(self, call.session, call.command, call.args);
        self.check_hold(call.session, is_write)?;
        if call.keys.is_empty() {
            return Ok(());
        }
        let step = Step::in_call(call);
        self.check_steps_locked(call.session, call.command.spec, &[step], txn)
    }

    /// Refuses the commands of a transaction that belong to another node by now. Their shards are
    /// locked.
    pub fn check_place_of_steps(
        &self,
        session: &Session,
        command: &Command,
        steps: &[Step<'_>],
        txn: &Txn<'_>,
    ) -> Done {
        if !self.cluster().is_on() || session.replay {
            return Ok(());
        }
        let is_write = |step: &Step<'_>| queue::may_write(self, session, step.command, step.args);
        self.check_hold(session, || steps.iter().any(is_write))?;
        self.check_steps_locked(session, command.spec, steps, txn)
    }

    /// Refuses a write that was admitted before writes were paused for a replica that takes over,
    /// which was told since that nothing more comes.
    fn check_hold(&self, session: &Session, is_write: impl FnOnce() -> bool) -> Done {
        let is_exempt = session.cluster.as_deref().is_some_and(|part| part.is_exempt);
        if self.admin().holds_writes_for(Hold::Cluster) && !is_exempt && is_write() {
            return Err(PAUSED.into());
        }
        Ok(())
    }

    fn check_steps_locked(
        &self,
        session: &Session,
        spec: &CommandSpec,
        steps: &[Step<'_>],
        txn: &Txn<'_>,
    ) -> Done {
        let Some(part) = session.cluster.as_deref() else { return Ok(()) };
        if part.is_exempt {
            let view = self.cluster().view().filter(|_| part.drops);
            let may_hold = |step: &Step<'_>| {
                let mut slots = step.keys.iter().map(|key| slot(key.bytes()));
                view.as_ref().is_some_and(|view| slots.any(|slot| view.may_hold(slot)))
            };
            return if steps.iter().any(may_hold) { Err(NOT_DROPPED.into()) } else { Ok(()) };
        }
        let slots = steps.iter().fold(Slots::None, |slots, step| {
            slots.and(slots_of(step.command.spec, step.args, step.keys))
        });
        let serves = |view: &View| matches!(slots, Slots::One(slot) if view.serves(slot));
        if slots == Slots::None
            || part.is_current(self.cluster()) && part.view().is_some_and(serves)
        {
            return Ok(());
        }
        let Some(view) = self.cluster().view() else { return Ok(()) };
        let is_write = steps.iter().any(|step| step.command.spec.has(WRITE));
        let is_pubsub = steps.iter().any(|step| takes_channels(step.command.spec));
        let wanted = Wanted { slots, is_pubsub, ..wanted(part, spec, is_write) };
        let keys = steps.iter().flat_map(|step| step.keys);
        let is_here = |key: &Key<'_>| txn.peek(session.db, key).is_some();
        let route = view.route(wanted, || keys.map(|key| (key.bytes(), is_here(key))).collect());
        refusal(session, &view, route)
    }

    /// Returns how many requests from the front are for slots that are served here without a doubt.
    pub(super) fn count_served(&self, session: &mut Session, steps: &[Step<'_>]) -> usize {
        let part = session.cluster.get_or_insert_default();
        if part.is_asking() {
            return 0;
        }
        let Some(view) = part.refresh(self.cluster()) else { return 0 };
        let is_served = |step: &Step<'_>| {
            let slots = slots_of(step.command.spec, step.args, step.keys);
            matches!(slots, Slots::One(slot) if view.serves(slot))
        };
        steps.iter().position(|step| !is_served(step)).unwrap_or(steps.len())
    }

    /// Returns true if the view of the cluster is still the one that a session has used.
    pub(super) fn has_current_view(&self, session: &Session) -> bool {
        let part = session.cluster.as_deref();
        !self.cluster().is_on()
            || part.is_some_and(|part| part.is_current(self.cluster()))
                && !self.admin().holds_writes_for(Hold::Cluster)
    }

    /// Refuses a command of a script whose keys are not here. The shards of the keys are locked.
    /// `of_script` is the slot of the script's keys; none if it may use several.
    pub fn check_place_in_script(
        &self,
        session: &Session,
        step: &Step<'_>,
        of_script: Option<&mut Slots>,
        txn: &Txn<'_>,
    ) -> Done {
        let spec = step.command.spec;
        let slots = slots_of(spec, step.args, step.keys);
        let none = InCluster::default();
        let part = session.cluster.as_deref().unwrap_or(&none);
        if slots == Slots::None || session.replay || part.is_exempt {
            return Ok(());
        }
        let Some(view) = self.cluster().view() else { return Ok(()) };
        let wanted = Wanted { slots, ..wanted(part, spec, spec.has(WRITE)) };
        let text = match view.route(wanted, || presence(session, step.keys, txn)) {
            Route::Here => return one_slot(slots, of_script),
            Route::Down => DOWN,
            Route::DownForWrites => READS_ONLY,
            Route::CrossSlot => OTHER_SLOT,
            _ => NOT_LOCAL,
        };
        Err(text.into())
    }
}

/// Refuses a second slot of a script.
fn one_slot(slots: Slots, of_script: Option<&mut Slots>) -> Done {
    let (Slots::One(slot), Some(of_script)) = (slots, of_script) else { return Ok(()) };
    *of_script = of_script.with(slot);
    if *of_script == Slots::Many { Err(OTHER_SLOT.into()) } else { Ok(()) }
}
