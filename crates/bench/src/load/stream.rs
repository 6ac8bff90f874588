//! A connection to the server: over TCP or a Unix domain socket, greeted and ready for requests.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use super::Error;
use super::options::{Options, Protocol};
use super::reply::{Reply, Version, decode};
use super::template::write_request;

/// Where the server listens.
#[derive(Clone, Debug)]
enum Place {
    Tcp(Vec<SocketAddr>),
    Unix(PathBuf),
}

/// The server, and how to begin with it.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    place: Place,
    name: String,
    pub(crate) version: Version,
    greeting: Vec<u8>,
    greetings: usize,
    timeout: Option<Duration>,
}

impl Target {
    /// Returns the one that the options name. A name is looked up here, once.
    pub(crate) fn new(options: &Options) -> Result<Target, Error> {
        let (place, name) = match &options.unix_socket {
            Some(path) => (Place::Unix(path.clone()), path.display().to_string()),
            None => {
                let name = format!("{}:{}", options.server, options.port);
                (Place::Tcp(look_up(options, &name)?), name)
            }
        };
        let version = match options.protocol {
            Protocol::Redis | Protocol::Resp2 => Version::Resp2,
            Protocol::Resp3 => Version::Resp3,
        };
        let (greeting, greetings) = greeting(options);
        let timeout = match options.connection_timeout {
            0 => None,
            seconds => Some(Duration::from_secs(seconds)),
        };
        Ok(Target { place, name, version, greeting, greetings, timeout })
    }

    /// Returns a new connection, on which requests can be sent.
    pub(crate) async fn connect(&self) -> Result<Stream, Error> {
        let unable = |source: io::Error| Error::Connect { server: self.name.clone(), source };
        let connecting = self.open();
        let opened = match self.timeout {
            Some(time) => tokio::time::timeout(time, connecting)
                .await
                .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "timed out"))),
            None => connecting.await,
        };
        let mut stream = opened.map_err(unable)?;
        if self.greetings > 0 {
            stream.write_all(&self.greeting).await.map_err(unable)?;
            self.welcome(&mut stream).await?;
        }
        Ok(stream)
    }

    async fn open(&self) -> io::Result<Stream> {
        match &self.place {
            Place::Tcp(addresses) => {
                let stream = TcpStream::connect(addresses.as_slice()).await?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
            Place::Unix(path) => Ok(Stream::Unix(UnixStream::connect(path).await?)),
        }
    }

    /// Reads the replies to the greeting, which must be no errors.
    async fn welcome(&self, stream: &mut Stream) -> Result<(), Error> {
        let mut bytes = Vec::new();
        let mut replies = 0;
        while replies < self.greetings {
            // The answer to HELLO 3 is the first that comes in RESP3, which contains RESP2's
            // errors.
            let decoded = decode(&bytes, self.version);
            match decoded.map_err(|why| Error::Failed(self.says(&why)))? {
                Some((Reply::Error(text), _)) => {
                    return Err(Error::Refused { server: self.name.clone(), text: text.into() });
                }
                Some((_, length)) => {
                    bytes.drain(..length);
                    replies += 1;
                }
                None => {
                    let read = stream.read_buf(&mut bytes).await;
                    let read = read
                        .map_err(|source| Error::Connect { server: self.name.clone(), source })?;
                    if read == 0 {
                        return Err(Error::Failed(self.says("the connection was closed")));
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns a sentence about the server.
    pub(crate) fn says(&self, what: &str) -> String {
        format!("{}: {what}", self.name)
    }
}

fn look_up(options: &Options, name: &str) -> Result<Vec<SocketAddr>, Error> {
    let found = (options.server.as_str(), options.port).to_socket_addrs();
    let found = found.map_err(|source| Error::Connect { server: name.to_owned(), source })?;
    let wanted = |address: &SocketAddr| {
        !(options.ipv4 && address.is_ipv6() || options.ipv6 && address.is_ipv4())
    };
    let addresses: Vec<_> = found.filter(wanted).collect();
    if addresses.is_empty() {
        return Err(Error::Options(format!("{name} has no address of that kind (-4, -6)")));
    }
    Ok(addresses)
}

/// Returns what is sent first, and how many replies it has.
fn greeting(options: &Options) -> (Vec<u8>, usize) {
    let mut bytes = Vec::new();
    let mut replies = 0;
    let mut send = |words: &[&str]| {
        write_request(&mut bytes, words);
        replies += 1;
    };
    if let Some(credentials) = &options.authenticate {
        match credentials.split_once(':') {
            Some((user, password)) => send(&["AUTH", user, password]),
            None => send(&["AUTH", credentials]),
        }
    }
    match options.protocol {
        Protocol::Redis => {}
        Protocol::Resp2 => send(&["HELLO", "2"]),
        Protocol::Resp3 => send(&["HELLO", "3"]),
    }
    if options.select_db > 0 {
        send(&["SELECT", &options.select_db.to_string()]);
    }
    (bytes, replies)
}

/// A connection.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    /// Does nothing: nothing is buffered here.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
