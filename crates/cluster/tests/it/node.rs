//! A simulated node: the machine, its file, and a model of its data.

use cluster::machine::{Effect, Machine, Moment, Settings};
use cluster::message::Text;
use cluster::topology::{NodePorts, Topology};
use cluster::{Clock, Id};

use crate::network::Number;

/// The node timeout of every simulated node.
pub(crate) const TIMEOUT: u64 = 1000;

/// A node.
pub(crate) struct Node {
    pub(crate) number: Number,
    /// None while it is crashed.
    pub(crate) machine: Option<Machine>,
    /// The file as it was made durable, and as it was written last.
    durable: String,
    written: String,
    /// How often it was started.
    pub(crate) starts: u64,
    /// The world's time at its start: its steady clock begins there.
    began: u64,
    /// The error of its time of day, in milliseconds.
    pub(crate) skew: i64,
    /// The end of the replication stream that it has.
    pub(crate) offset: u64,
    /// The primary that it replicates.
    pub(crate) follows: Option<Id>,
    /// When it heard of its primary last.
    pub(crate) heard_at: u64,
    /// Whether it receives a copy of its primary's data, and has none meanwhile.
    pub(crate) is_loading: bool,
    pub(crate) random: fastrand::Rng,
    settings: Settings,
    /// A mistake: nothing is saved.
    pub(crate) forgets_saves: bool,
}

pub(crate) fn ip(number: Number) -> Text {
    Text::parse(format!("10.0.0.{}", number + 1).as_bytes()).expect("an address")
}

impl Node {
    pub(crate) fn new(number: Number, seed: u64, settings: &Settings) -> Node {
        let mut random = fastrand::Rng::with_seed(seed);
        let topology = Topology::new(0, &mut random);
        let settings =
            Settings { ports: NodePorts { tcp: 7000, tls: 0, bus: 17_000 }, ..settings.clone() };
        let file = topology.to_file(Clock::default(), false);
        Node {
            number,
            machine: Some(Machine::new(topology, settings.clone())),
            durable: file.clone(),
            written: file,
            starts: 1,
            began: 0,
            skew: 0,
            offset: 0,
            follows: None,
            heard_at: 0,
            is_loading: false,
            random,
            settings,
            forgets_saves: false,
        }
    }

    pub(crate) fn clock(&self, time: u64) -> Clock {
        let day = 1_700_000_000_000_u64 + time;
        Clock { steady: time - self.began, wall: day.saturating_add_signed(self.skew) }
    }

    /// Lets the machine do a step, if the node is up. Does what belongs to the node itself, and
    /// returns the rest.
    pub(crate) fn step(
        &mut self,
        time: u64,
        step: impl FnOnce(&mut Machine, &mut Moment<'_>) -> Vec<Effect>,
    ) -> Vec<Effect> {
        let clock = self.clock(time);
        let data_age = time.saturating_sub(self.heard_at);
        let Some(machine) = &mut self.machine else { return Vec::new() };
        let mut moment = Moment {
            clock,
            offset: self.offset,
            data_age,
            is_synced: !self.is_loading,
            has_data: !self.is_loading,
            random: &mut self.random,
        };
        let effects = step(machine, &mut moment);
        if let Some(Effect::Save { is_durable }) = effects.first()
            && !self.forgets_saves
        {
            self.written = machine.file(clock);
            if *is_durable {
                self.durable.clone_from(&self.written);
            }
        }
        effects
    }

    pub(crate) fn crash(&mut self) {
        self.machine = None;
    }

    /// Starts again with the file: as it was made durable, or with what was written since.
    pub(crate) fn restart(&mut self, time: u64) {
        let is_durable = self.random.bool();
        let text = if is_durable { self.durable.clone() } else { self.written.clone() };
        self.began = time;
        self.starts += 1;
        self.follows = None;
        self.heard_at = time;
        let clock = Clock { steady: 0, wall: 1_700_000_000_000 + time };
        let topology = Topology::from_file(&text, clock, false, &mut self.random);
        let topology = topology.unwrap_or_else(|error| panic!("{error} in:\n{text}"));
        self.durable.clone_from(&text);
        self.written = text;
        self.machine = Some(Machine::new(topology, self.settings.clone()));
    }

    pub(crate) fn topology(&self) -> Option<&Topology> {
        self.machine.as_ref().map(Machine::topology)
    }

    pub(crate) fn id(&self) -> Option<Id> {
        self.topology().map(Topology::my_id)
    }

    /// Returns true if it is up, and for itself a primary with slots.
    pub(crate) fn leads(&self) -> bool {
        self.topology().is_some_and(|topology| topology.is_voter(topology.me()))
    }
}
