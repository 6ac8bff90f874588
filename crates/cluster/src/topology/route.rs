//! Where a request belongs.
//!
//! The rules and the texts are those of `getNodeByQuery` and `clusterRedirectClient` in Valkey 9.1,
//! which are Redis's but for one: a replica serves subscriptions to channels of its primary's
//! slots.

use super::{Node, Topology};
use crate::flags::Flags;

/// The facts about a request that decide where it belongs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request {
    /// The slots of its keys, or of its channels if they are sharded.
    pub slots: Slots,
    /// Whether it may write. A transaction may if any of its commands may.
    pub is_write: bool,
    /// Whether ASKING came before it, or it is a command that implies ASKING.
    pub is_asking: bool,
    /// Whether READONLY came before it.
    pub is_read_only: bool,
    /// Whether its keys are channels.
    pub is_pubsub: bool,
    /// Whether it is MIGRATE, which moves what is here.
    pub is_migrate: bool,
    /// Whether it also needs keys that an open slot's other node cannot be asked for: MOVE, and
    /// COPY to another database.
    pub needs_closed_slot: bool,
}

/// The slots of the keys of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Slots {
    /// There are no keys.
    #[default]
    None,
    /// All keys have this slot.
    One(u16),
    /// They have more than one.
    Many,
}

impl Slots {
    /// Returns the slots of the same keys and one more, which has this slot.
    #[must_use]
    #[inline]
    pub fn with(self, slot: u16) -> Slots {
        match self {
            Slots::None => Slots::One(slot),
            Slots::One(other) if other == slot => self,
            Slots::One(_) | Slots::Many => Slots::Many,
        }
    }

    /// Returns the slots of the keys of both.
    #[must_use]
    pub fn and(self, others: Slots) -> Slots {
        match others {
            Slots::None => self,
            Slots::One(slot) => self.with(slot),
            Slots::Many => Slots::Many,
        }
    }
}

impl FromIterator<u16> for Slots {
    fn from_iter<I: IntoIterator<Item = u16>>(slots: I) -> Slots {
        slots.into_iter().fold(Slots::None, Slots::with)
    }
}

/// Which keys of a request are here.
#[derive(Clone, Copy, Debug, Default)]
pub struct Presence {
    /// Some are.
    pub has_some: bool,
    /// Some are not.
    pub lacks_some: bool,
    /// There are two different keys.
    pub are_many: bool,
}

impl<'k> FromIterator<(&'k [u8], bool)> for Presence {
    /// Returns which keys are here, of which each is here or not.
    fn from_iter<I: IntoIterator<Item = (&'k [u8], bool)>>(keys: I) -> Presence {
        let (mut presence, mut first) = (Presence::default(), None);
        for (key, is_here) in keys {
            presence.has_some |= is_here;
            presence.lacks_some |= !is_here;
            presence.are_many |= *first.get_or_insert(key) != key;
        }
        presence
    }
}

/// The requests that clients may make while the cluster is down.
#[derive(Clone, Copy, Debug)]
pub struct Health {
    /// The cluster is up.
    pub is_up: bool,
    /// They may read all the same (`cluster-allow-reads-when-down`).
    pub allows_reads: bool,
    /// They may publish all the same (`cluster-allow-pubsubshard-when-down`).
    pub allows_pubsub: bool,
}

/// The place where a request belongs.
#[derive(Clone, Copy, Debug)]
pub enum Route<'t> {
    /// Here.
    Here,
    /// To another node, from now on.
    Moved(u16, &'t Node),
    /// To another node, this time.
    Ask(u16, &'t Node),
    /// Some of its keys are here, some may be elsewhere.
    TryAgain,
    /// Its keys are in more than one slot.
    CrossSlot,
    /// Nobody owns the slot.
    NotServed,
    /// The cluster is down.
    Down,
    /// The cluster is down, and serves only what reads.
    DownForWrites,
}

/// The kind of address by which MOVED and ASK name a node (`cluster-preferred-endpoint-type`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Endpoint {
    /// Its address.
    #[default]
    Ip,
    /// Its host name.
    HostName,
    /// Nothing: the client knows.
    Unknown,
}

/// The connection of a client, which decides the address and port that it is told of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    /// It has TLS.
    pub is_tls: bool,
    /// It came from an IPv6 address.
    pub is_ipv6: bool,
}

impl Topology {
    /// Returns where a request belongs. Which of its keys are here is asked if its slot is open.
    pub fn route(
        &self,
        request: Request,
        health: Health,
        presence: impl FnOnce() -> Presence,
    ) -> Route<'_> {
        let slot = match request.slots {
            Slots::None => return Route::Here,
            Slots::Many => return Route::CrossSlot,
            Slots::One(slot) => slot,
        };
        let Some(owner) = self.owner(slot) else { return Route::NotServed };
        let me = self.me();
        let sees_open_slots = me.is_primary() || request.is_read_only;
        let is_ours = owner.id == self.my_primary();
        let to = self.migrating_to(slot).filter(|_| sees_open_slots && is_ours);
        let is_importing = sees_open_slots && to.is_none() && self.importing_from(slot).is_some();
        let is_open = to.is_some() || is_importing;
        if is_open && request.needs_closed_slot {
            return Route::TryAgain;
        }
        if let Some(down) = down(request, health) {
            return down;
        }
        if is_open && request.is_migrate && me.is_primary() {
            return Route::Here;
        }
        let presence = if is_open && !request.is_pubsub { presence() } else { Presence::default() };
        if let Some(to) = to
            && presence.lacks_some
        {
            return match self.node(to) {
                _ if presence.has_some => Route::TryAgain,
                Some(to) => Route::Ask(slot, to),
                None => Route::NotServed,
            };
        }
        if is_importing && request.is_asking {
            let is_partial = presence.are_many && presence.lacks_some;
            return if is_partial { Route::TryAgain } else { Route::Here };
        }
        let reads_replica = (request.is_read_only || request.is_pubsub) && !request.is_write;
        if owner.is(Flags::MYSELF) || reads_replica && me.is_replica() && is_ours {
            return Route::Here;
        }
        Route::Moved(slot, owner)
    }
}

fn down<'t>(request: Request, health: Health) -> Option<Route<'t>> {
    let is_allowed = if request.is_pubsub { health.allows_pubsub } else { health.allows_reads };
    match health.is_up {
        true => None,
        false if !is_allowed => Some(Route::Down),
        false if request.is_write && !request.is_pubsub => Some(Route::DownForWrites),
        false => None,
    }
}

impl Route<'_> {
    /// Returns the error for the client, without the `-`; none if the request belongs here.
    pub fn error(&self, endpoint: Endpoint, client: Connection) -> Option<String> {
        let text = match self {
            Route::Here => return None,
            Route::Moved(slot, node) => return Some(named("MOVED", *slot, node, endpoint, client)),
            Route::Ask(slot, node) => return Some(named("ASK", *slot, node, endpoint, client)),
            Route::TryAgain => "TRYAGAIN Multiple keys request during rehashing of slot",
            Route::CrossSlot => "CROSSSLOT Keys in request don't hash to the same slot",
            Route::NotServed => "CLUSTERDOWN Hash slot not served",
            Route::Down => "CLUSTERDOWN The cluster is down",
            Route::DownForWrites => {
                "CLUSTERDOWN The cluster is down and only accepts read commands"
            }
        };
        Some(text.to_owned())
    }
}

fn named(word: &str, slot: u16, node: &Node, endpoint: Endpoint, client: Connection) -> String {
    format!("{word} {slot} {}:{}", node.endpoint(endpoint, client), node.client_port(client.is_tls))
}

impl Node {
    /// Returns what a client is to connect to.
    pub fn endpoint(&self, endpoint: Endpoint, client: Connection) -> &str {
        match endpoint {
            Endpoint::Unknown => "",
            Endpoint::HostName if self.announced.host_name.is_empty() => "?",
            Endpoint::HostName => self.announced.host_name.as_str(),
            Endpoint::Ip => self.client_ip(client),
        }
    }

    /// Returns the address that a client is to connect to.
    pub fn client_ip(&self, client: Connection) -> &str {
        let announced = match client.is_ipv6 {
            true => &self.announced.client_ipv6,
            false => &self.announced.client_ipv4,
        };
        if announced.is_empty() { self.ip.as_str() } else { announced.as_str() }
    }

    /// Returns the port that clients are to connect to.
    pub fn client_port(&self, is_tls: bool) -> u16 {
        let (announced, own) = if is_tls {
            (self.announced.client_tls_port, self.ports.tls)
        } else {
            (self.announced.client_port, self.ports.tcp)
        };
        if announced != 0 { announced } else { own }
    }
}
