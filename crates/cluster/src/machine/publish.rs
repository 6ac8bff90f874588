//! How a message that a client published reaches the clients of other nodes: it is sent to all of
//! them, or, if its channel is sharded, to those of this node's shard.

use super::{Effect, Machine, Moment};
use crate::flags::Flags;
use crate::message::{Body, Message, Published};
use crate::topology::{LinkId, Node};

impl Machine {
    /// Sends what a client published here to the other nodes.
    pub fn publish(&mut self, published: &Published, moment: &mut Moment<'_>) -> Vec<Effect> {
        let shard = self.topology.me().shard;
        let hidden = Flags::MYSELF.with(Flags::HANDSHAKE);
        let is_receiver =
            |node: &&Node| !node.is(hidden) && (!published.is_sharded || node.shard == shard);
        let links = self
            .topology
            .nodes()
            .filter(is_receiver)
            .filter_map(|node| Some((node.contact.link?, self.takes_light(node))));
        let links: Vec<(LinkId, bool)> = links.collect();
        let light = Message::Light(published.clone()).encode();
        let header = self.header(moment);
        for (link, takes_light) in links {
            if takes_light {
                self.send_bytes(link, light.clone());
            } else {
                self.send(link, header.clone(), Body::Publish(published.clone()));
            }
        }
        self.finish(moment)
    }

    /// Returns true if a node understands a message without a header: it says so, and it has
    /// answered on this link, so that it knows who speaks.
    fn takes_light(&self, node: &Node) -> bool {
        let link = node.contact.link.and_then(|link| self.links.get(&link));
        let since = link.map(|link| link.since);
        node.is(Flags::LIGHT_PUBLISH) && since.is_some() && node.contact.pong_received >= since
    }
}
