//! The connections to other nodes: each is served by two loops, one that reads messages and one
//! that writes them. What they read goes to the task of the bus, through a channel that holds few
//! messages, so that a node that sends more than can be read waits.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use ::cluster::LinkId;
use ::cluster::message::{Message, PREFIX_LEN, length};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{Sender, UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;

use super::unsent::Unsent;
use crate::net::listen;

/// For how long what waits is sent on a connection that ends.
const SENDS_WITHIN: Duration = Duration::from_secs(1);

/// Something that happened to a connection.
pub(super) enum LinkEvent {
    /// Another node has connected.
    Accepted(TcpStream),
    /// A connection that this node makes is there.
    Connected(LinkId, TcpStream),
    /// A message came.
    Received(LinkId, Box<Message>),
    /// A connection has ended, or could not be made.
    Closed(LinkId),
}

/// All connections.
pub(super) struct Links {
    open: BTreeMap<LinkId, Outgoing>,
    events: Sender<LinkEvent>,
    unsent: Arc<Unsent>,
}

/// The side of a connection that the bus holds.
struct Outgoing {
    messages: UnboundedSender<Vec<u8>>,
    unsent: Arc<AtomicU64>,
    task: AbortHandle,
}

impl Links {
    pub(super) fn new(events: Sender<LinkEvent>, unsent: Arc<Unsent>) -> Links {
        Links { open: BTreeMap::new(), events, unsent }
    }

    /// Accepts connections of other nodes, from now on.
    pub(super) fn listen(&self, listener: TcpListener) {
        let events = self.events.clone();
        tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => {
                        if events.send(LinkEvent::Accepted(stream)).await.is_err() {
                            return;
                        }
                    }
                    Err(error) => listen::failed(&error).await,
                }
            }
        });
    }

    /// Connects to a node.
    pub(super) fn connect(&self, link: LinkId, ip: &str, port: u16, timeout: Duration) {
        let events = self.events.clone();
        let address = ip.parse().map(|ip| SocketAddr::new(ip, port));
        tokio::spawn(async move {
            let event = match address {
                Ok(address) => {
                    let connected = tokio::time::timeout(timeout, TcpStream::connect(address));
                    match connected.await {
                        Ok(Ok(stream)) => LinkEvent::Connected(link, stream),
                        Ok(Err(_)) | Err(_) => LinkEvent::Closed(link),
                    }
                }
                Err(_) => LinkEvent::Closed(link),
            };
            let _ = events.send(event).await;
        });
    }

    /// Begins to read and write on a connection.
    pub(super) fn open(&mut self, link: LinkId, stream: TcpStream) {
        let (messages, outgoing) = unbounded_channel();
        let unsent = Arc::new(AtomicU64::new(0));
        self.unsent.links().insert(link, Arc::clone(&unsent));
        let events = self.events.clone();
        let task = tokio::spawn(converse(link, stream, outgoing, Arc::clone(&unsent), events));
        self.open.insert(link, Outgoing { messages, unsent, task: task.abort_handle() });
    }

    /// Ends a connection: what waits is sent, unless the node does not read it.
    pub(super) fn close(&mut self, link: LinkId) {
        self.unsent.links().remove(&link);
        let Some(Outgoing { messages, task, .. }) = self.open.remove(&link) else { return };
        drop(messages);
        tokio::spawn(async move {
            tokio::time::sleep(SENDS_WITHIN).await;
            task.abort();
        });
    }

    /// Counts a connection that is closed since too much waits on it.
    pub(super) fn count_closed(&self) {
        self.unsent.closed.fetch_add(1, Relaxed);
    }

    /// Sends a message. Returns false if more than `limit` bytes wait already.
    pub(super) fn send(&self, link: LinkId, message: Vec<u8>, limit: u64) -> bool {
        let Some(outgoing) = self.open.get(&link) else { return true };
        let len = message.len() as u64;
        let before = outgoing.unsent.fetch_add(len, Relaxed);
        // If it has ended, the bus is told soon.
        let _ = outgoing.messages.send(message);
        limit == 0 || before + len <= limit
    }
}

async fn converse(
    link: LinkId,
    stream: TcpStream,
    mut messages: UnboundedReceiver<Vec<u8>>,
    unsent: Arc<AtomicU64>,
    events: Sender<LinkEvent>,
) {
    let _ = stream.set_nodelay(true);
    let (reader, mut writer) = stream.into_split();
    let writes = async {
        while let Some(message) = messages.recv().await {
            writer.write_all(&message).await?;
            unsent.fetch_sub(message.len() as u64, Relaxed);
        }
        io::Result::Ok(())
    };
    let reads = read(link, BufReader::new(reader), &events);
    let ended = tokio::select! {
        ended = reads => ended,
        ended = writes => ended,
    };
    if let Err(error) = ended {
        tracing::debug!("A connection of the cluster's bus ended: {error}");
    }
    let _ = events.send(LinkEvent::Closed(link)).await;
}

async fn read(
    link: LinkId,
    mut reader: BufReader<OwnedReadHalf>,
    events: &Sender<LinkEvent>,
) -> io::Result<()> {
    loop {
        let mut prefix = [0; PREFIX_LEN];
        reader.read_exact(&mut prefix).await?;
        let total = length(&prefix).map_err(io::Error::other)?;
        let mut bytes = prefix.to_vec();
        // The buffer grows with what comes, not with what was announced.
        let rest = total.saturating_sub(PREFIX_LEN) as u64;
        (&mut reader).take(rest).read_to_end(&mut bytes).await?;
        if bytes.len() < total {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match Message::decode(&bytes) {
            Ok(message) => {
                let event = LinkEvent::Received(link, Box::new(message));
                if events.send(event).await.is_err() {
                    return Ok(());
                }
            }
            Err(error) if error.ends_link() => return Err(io::Error::other(error)),
            Err(error) => tracing::debug!("A message of the cluster's bus is skipped: {error}"),
        }
    }
}
