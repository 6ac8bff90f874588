//! What a client is told, and how: by a push where its protocol has that, else as a message to a channel that another
//! client listens to.

use std::sync::atomic::Ordering::Relaxed;

use resp::{Protocol, Writer};

use crate::client::{Client, Clients};

/// The channel of those that listen for others in the old protocol.
const CHANNEL: &[u8] = b"__redis__:invalidate";

/// What is no longer good.
pub(super) enum News<'a> {
    Keys(&'a [&'a [u8]]),
    Everything,
}

/// Tells a client, or the one that is to be told in its place.
pub(super) fn send(clients: &Clients, client: &Client, news: News<'_>) {
    let Some(redirect) = client.tracking.redirect() else { return };
    if redirect == 0 {
        return post(client, client, news);
    }
    match clients.get(redirect) {
        Some(target) => post(&target, client, news),
        None => tell_of_break(client, redirect),
    }
}

/// Tells `target` of what is no longer good for `client`.
fn post(target: &Client, client: &Client, news: News<'_>) {
    let mut out = Writer::new(protocol(target));
    if out.protocol() == Protocol::Resp3 {
        out.push(2);
        out.bulk("invalidate");
    } else if target.id != client.id && target.is_subscribed() {
        out.array(3);
        out.bulk("message");
        out.bulk(CHANNEL);
    } else {
        // Its replies could not be told from the message.
        return;
    }
    match news {
        News::Keys(keys) => {
            out.array(keys.len());
            keys.iter().for_each(|key| out.bulk(key));
        }
        News::Everything => out.null(),
    }
    target.post(out.as_bytes());
}

/// Tells a client that the one to be told in its place is gone.
fn tell_of_break(client: &Client, redirect: u64) {
    client.tracking.set_broken();
    if protocol(client) == Protocol::Resp3 {
        let mut out = Writer::new(Protocol::Resp3);
        out.push(2);
        out.bulk("tracking-redir-broken");
        out.integer(redirect as i64);
        client.post(out.as_bytes());
    }
}

fn protocol(client: &Client) -> Protocol {
    match client.protocol.load(Relaxed) {
        3 => Protocol::Resp3,
        _ => Protocol::Resp2,
    }
}
