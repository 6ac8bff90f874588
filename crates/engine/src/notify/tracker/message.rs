//! Messages about changed keys: a push if the client's protocol has that, else a message to a
//! channel that another client listens to.

use std::sync::atomic::Ordering::Relaxed;

use resp::{Protocol, Writer};

use crate::session::client::{Client, Clients};

/// The channel of clients that listen for others in the old protocol.
const CHANNEL: &[u8] = b"__redis__:invalidate";

/// The keys whose copies are no longer valid.
#[derive(Clone, Copy)]
pub(crate) enum News<'a> {
    Keys(&'a [&'a [u8]]),
    Everything,
}

/// An invalidation message, encoded once for each protocol of its receivers.
pub(crate) struct Message<'a> {
    news: News<'a>,
    /// See [`Client::post`].
    after: u64,
    encoded: [Vec<u8>; 2],
}

impl<'a> Message<'a> {
    pub(crate) fn new(news: News<'a>, after: u64) -> Message<'a> {
        Message { news, after, encoded: Default::default() }
    }

    /// Notifies a client, or the one that it redirects to.
    pub(crate) fn send(&mut self, clients: &Clients, client: &Client) {
        let Some(redirect) = client.tracking.redirect() else { return };
        if redirect == 0 {
            return self.post(client, false);
        }
        match clients.get(redirect) {
            Some(target) => self.post(&target, true),
            None => notify_of_broken_redirect(client, redirect),
        }
    }

    fn post(&mut self, target: &Client, is_redirected: bool) {
        let protocol = protocol(target);
        if protocol == Protocol::Resp2 && !(is_redirected && target.is_subscribed()) {
            // It could not tell replies from the message.
            return;
        }
        let encoded = &mut self.encoded[usize::from(protocol == Protocol::Resp3)];
        if encoded.is_empty() {
            *encoded = encode(self.news, protocol);
        }
        target.post(encoded, self.after);
    }
}

fn encode(news: News<'_>, protocol: Protocol) -> Vec<u8> {
    let mut out = Writer::new(protocol);
    if protocol == Protocol::Resp3 {
        out.push(2);
        out.bulk("invalidate");
    } else {
        out.array(3);
        out.bulk("message");
        out.bulk(CHANNEL);
    }
    match news {
        News::Keys(keys) => {
            out.array(keys.len());
            keys.iter().for_each(|key| out.bulk(key));
        }
        News::Everything => out.null(),
    }
    out.take()
}

/// Notifies a client that the client it redirects to is gone.
fn notify_of_broken_redirect(client: &Client, redirect: u64) {
    client.tracking.set_broken();
    if protocol(client) == Protocol::Resp3 {
        let mut out = Writer::new(Protocol::Resp3);
        out.push(2);
        out.bulk("tracking-redir-broken");
        out.integer(redirect as i64);
        client.post(out.as_bytes(), 0);
    }
}

fn protocol(client: &Client) -> Protocol {
    match client.protocol.load(Relaxed) {
        3 => Protocol::Resp3,
        _ => Protocol::Resp2,
    }
}
