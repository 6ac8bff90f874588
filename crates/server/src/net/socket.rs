//! A client's connection: TCP, TCP with TLS, or a Unix socket, as one type.

use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll};

use commands::Peer;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::net::tls::{Acceptor, TlsStream};

/// A socket on its way from the acceptor to a worker, not yet registered with a runtime.
pub(crate) enum UnregisteredSocket {
    Tcp(std::net::TcpStream),
    Tls(std::net::TcpStream, Acceptor),
    Unix(std::os::unix::net::UnixStream),
}

/// A connection handed to a worker.
pub(crate) type HandOff = (UnregisteredSocket, Peer);

/// A socket that a worker serves.
pub(crate) enum Stream {
    Tcp(TcpStream),
    Tls(Box<TlsStream>),
    Unix(UnixStream),
}

/// A socket that is registered with the calling thread's runtime.
pub(crate) enum Registered {
    /// It can be served.
    Ready(Stream),
    /// It can be served after a handshake.
    Handshake(TcpStream, Acceptor),
}

impl UnregisteredSocket {
    /// Registers the socket with the runtime of the calling thread.
    pub(crate) fn register(self) -> io::Result<Registered> {
        Ok(match self {
            UnregisteredSocket::Tcp(socket) => {
                Registered::Ready(Stream::Tcp(TcpStream::from_std(socket)?))
            }
            UnregisteredSocket::Tls(socket, acceptor) => {
                Registered::Handshake(TcpStream::from_std(socket)?, acceptor)
            }
            UnregisteredSocket::Unix(socket) => {
                Registered::Ready(Stream::Unix(UnixStream::from_std(socket)?))
            }
        })
    }
}

impl Stream {
    /// Reads into `buffer`; 0 at the end of the stream. A read that does not fill `buffer` has
    /// emptied the socket, and the runtime knows it: the next call waits without another system
    /// call.
    #[inline]
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(buffer);
        let read = match self {
            Stream::Tcp(socket) => Pin::new(socket).poll_read(cx, &mut buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(cx, &mut buffer),
            Stream::Unix(socket) => Pin::new(socket).poll_read(cx, &mut buffer),
        };
        read.map_ok(|()| buffer.filled().len())
    }

    /// Completes when there may be something to read, or at the end of the stream.
    pub(crate) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Tcp(socket) => socket.poll_read_ready(cx),
            Stream::Tls(stream) => match stream.get_ref() {
                (socket, session) if session.wants_read() => socket.poll_read_ready(cx),
                // The data that has arrived was decrypted already, or nothing will come any more.
                _ => Poll::Ready(Ok(())),
            },
            Stream::Unix(socket) => socket.poll_read_ready(cx),
        }
    }

    /// Returns true if the client has closed its end, whatever it sent before that.
    pub(crate) fn is_closed(&self) -> bool {
        let socket = match self {
            Stream::Tcp(socket) => socket.as_fd(),
            Stream::Tls(stream) => stream.get_ref().0.as_fd(),
            Stream::Unix(socket) => socket.as_fd(),
        };
        let mut sockets = [PollFd::from_borrowed_fd(socket, PollFlags::RDHUP)];
        poll(&mut sockets, Some(&Timespec::default())).is_ok_and(|closed| closed > 0)
    }

    #[inline]
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self {
            Stream::Tcp(socket) => Pin::new(socket).poll_write(cx, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Unix(socket) => Pin::new(socket).poll_write(cx, bytes),
        }
    }

    /// Sends written data that is still buffered here: with TLS, records that the socket did not
    /// take.
    #[inline]
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Tls(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Tcp(_) | Stream::Unix(_) => Poll::Ready(Ok(())),
        }
    }

    /// Returns true if no written data is still buffered here.
    pub(crate) fn is_flushed(&self) -> bool {
        match self {
            Stream::Tls(stream) => !stream.get_ref().1.wants_write(),
            Stream::Tcp(_) | Stream::Unix(_) => true,
        }
    }

    /// Tells the client that nothing follows, if the protocol can express that.
    pub(crate) fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Tcp(_) | Stream::Unix(_) => Poll::Ready(Ok(())),
        }
    }
}
