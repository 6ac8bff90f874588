//! The server under load: its address, and how to open a connection.

use super::Error;
use super::options::Options;
use super::replies::Replies;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The server, and the request that authenticates a connection.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    addresses: Vec<SocketAddr>,
    name: String,
    greeting: Vec<u8>,
}

impl Target {
    /// Returns the server that the options name. Its name is resolved once, here.
    pub(crate) fn new(options: &Options) -> Result<Target, Error> {
        let name = format!("{}:{}", options.server, options.port);
        let found = (options.server.as_str(), options.port).to_socket_addrs();
        let unable = |source| Error::Connect { server: name.clone(), source };
        let addresses = found.map_err(unable)?.collect();
        let mut greeting = Vec::new();
        if let Some(credentials) = &options.authenticate {
            let words: Vec<&str> = credentials.splitn(2, ':').collect();
            greeting = redis::cmd("AUTH").arg(words).get_packed_command();
        }
        Ok(Target { addresses, name, greeting })
    }

    /// Opens a connection on which requests can be sent.
    pub(crate) async fn connect(&self) -> Result<TcpStream, Error> {
        let unable = |source: io::Error| Error::Connect { server: self.name.clone(), source };
        let mut stream = TcpStream::connect(self.addresses.as_slice()).await.map_err(unable)?;
        stream.set_nodelay(true).map_err(unable)?;
        if self.greeting.is_empty() {
            return Ok(stream);
        }
        stream.write_all(&self.greeting).await.map_err(unable)?;
        let (mut replies, mut bytes) = (Replies::default(), [0; 4096]);
        loop {
            let read = stream.read(&mut bytes).await.map_err(unable)?;
            let mut reply = None;
            let fed = replies.feed(&bytes[..read], |found| reply = Some(found));
            fed.map_err(|why| self.failed(&why))?;
            match reply.map(|reply| reply.error) {
                Some(None) => return Ok(stream),
                Some(Some(text)) => {
                    return Err(self.failed(&format!("it refuses the connection: {text}")));
                }
                None if read == 0 => return Err(self.failed("the connection was closed")),
                None => {}
            }
        }
    }

    /// Returns an error that names the server.
    pub(crate) fn failed(&self, what: &str) -> Error {
        Error::Failed(format!("{}: {what}", self.name))
    }
}
