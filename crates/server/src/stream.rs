//! A client's connection: TCP or unix socket, after one type.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use commands::Peer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// A socket on its way from the acceptor to a worker: not yet known to a runtime.
pub(crate) enum UnregisteredSocket {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

/// A connection for a worker.
pub(crate) type HandOff = (UnregisteredSocket, Peer);

/// A socket that a worker serves.
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl UnregisteredSocket {
    /// Registers the socket with the runtime of the calling thread.
    pub(crate) fn into_stream(self) -> io::Result<Stream> {
        Ok(match self {
            UnregisteredSocket::Tcp(socket) => Stream::Tcp(TcpStream::from_std(socket)?),
            UnregisteredSocket::Unix(socket) => Stream::Unix(UnixStream::from_std(socket)?),
        })
    }
}

impl Stream {
    /// Reads into `buffer`; 0 at the end of the stream. A read that does not fill `buffer` has
    /// emptied the socket, and the runtime knows it: the next call waits without asking the kernel
    /// again.
    #[inline]
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(buffer);
        let read = match self {
            Stream::Tcp(socket) => Pin::new(socket).poll_read(cx, &mut buffer),
            Stream::Unix(socket) => Pin::new(socket).poll_read(cx, &mut buffer),
        };
        read.map_ok(|()| buffer.filled().len())
    }

    /// Returns when there may be something to read, or the end of the stream.
    pub(crate) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Tcp(socket) => socket.poll_read_ready(cx),
            Stream::Unix(socket) => socket.poll_read_ready(cx),
        }
    }

    #[inline]
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self {
            Stream::Tcp(socket) => Pin::new(socket).poll_write(cx, bytes),
            Stream::Unix(socket) => Pin::new(socket).poll_write(cx, bytes),
        }
    }
}
