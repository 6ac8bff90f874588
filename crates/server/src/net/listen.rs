//! Listening sockets, and the treatment of a client before a worker serves it.
//!
//! The main thread accepts. A client is refused with Redis's words if there are too many, or if it
//! comes from elsewhere while nothing protects the server; else it goes to the worker that serves
//! the fewest. A change of `bind`, `port` or `tls-port` closes the old sockets before it opens the
//! new ones, which may overlap with them: 127.0.0.1 cannot be bound next to a socket that listens
//! on all addresses. If the new ones cannot be opened, the configuration undoes the change, and so
//! opens the old ones again. Connections stay.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use commands::Peer;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Handle;
use tokio::sync::mpsc::UnboundedSender;

use crate::config::Values;
use crate::net::ports::{self, Accepting};
use crate::net::socket::{HandOff, UnregisteredSocket};
use crate::net::unix_socket;
use crate::shared::Shared;

const TOO_MANY: &[u8] = b"-ERR max number of clients reached\r\n";
const PROTECTED: &[u8] = b"-DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the default user. In this mode connections are only accepted from the loopback interface. If you want to connect from external computers to Redis you may adopt one of the following solutions: 1) Just disable protected mode sending the command 'CONFIG SET protected-mode no' from the loopback interface by connecting to Redis from the same host the server is running, however MAKE SURE Redis is not publicly accessible from internet if you do so. Use CONFIG REWRITE to make this change permanent. 2) Alternatively you can just disable the protected mode by editing the Redis configuration file, and setting the protected mode option to 'no', and then restarting the server. 3) If you started the server manually just for testing, restart it with the '--protected-mode no' option. 4) Setup a an authentication password for the default user. NOTE: You only need to do one of the above things in order for the server to start accepting connections from the outside.\r\n";

/// The pause after a failed accept (no free descriptors).
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// Why the server does not listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// A socket cannot be opened.
    #[error("Could not create server TCP listening socket {address}: {reason}")]
    Socket {
        /// The address or path.
        address: String,
        /// The system's words.
        reason: String,
    },
    /// No directive says where to listen, or this machine has no address of `bind`.
    #[error(
        "Configured to not listen anywhere, exiting. Set port or tls-port and bind, or unixsocket."
    )]
    Nowhere,
    /// There is a port for metrics, but no address to listen on.
    #[error(
        "metrics-port is {port}, and metrics-bind '{bind}' names no address of this machine: set metrics-bind, or metrics-port 0"
    )]
    NoMetrics {
        /// The value of `metrics-bind`.
        bind: String,
        /// The port.
        port: u16,
    },
}

/// A listening socket; the channel signals that it is closed.
struct Listening {
    socket: TcpListener,
    /// Whether clients speak TLS on it.
    is_encrypted: bool,
    /// Dropped after the socket.
    _closed: Sender<()>,
}

/// Returns the addresses of a `bind` value: for each word, whether it may be missing, and what it
/// resolves to.
fn addresses(bind: &str, port: u16) -> Vec<(String, bool, io::Result<Vec<SocketAddr>>)> {
    let resolve = |word: &str| match word {
        "*" => Ok(vec![SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port)]),
        "::*" => Ok(vec![SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port)]),
        name => match (name, port).to_socket_addrs() {
            Ok(found) => Ok(found.take(1).collect()),
            Err(error) => Err(unresolved(&error)),
        },
    };
    bind.split_ascii_whitespace()
        .map(|word| {
            let name = word.strip_prefix('-').unwrap_or(word);
            (name.to_owned(), name.len() != word.len(), resolve(name))
        })
        .collect()
}

/// Returns why a name has no address, and what works without a name service, which may be missing
/// in a container or for a statically linked program.
fn unresolved(error: &io::Error) -> io::Error {
    let text = error.to_string();
    let reason = text.strip_prefix("failed to lookup address information: ").unwrap_or(&text);
    io::Error::other(format!("{reason}. An address, such as 127.0.0.1, needs no name resolution"))
}

fn listener(address: SocketAddr, backlog: i32) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(backlog)?;
    Ok(socket.into())
}

/// Returns an error if no value says where to listen: checked before anything is opened.
pub(crate) fn is_somewhere(values: &Values) -> Result<(), ListenError> {
    let has_port = values.port != 0 || values.tls_port != 0;
    let by_port = has_port && !values.bind.is_empty();
    if by_port || !values.unixsocket.is_empty() { Ok(()) } else { Err(ListenError::Nowhere) }
}

/// Opens the TCP sockets for `port` that the values name; none for port 0.
fn open_ports(values: &Values, port: u16) -> Result<Vec<std::net::TcpListener>, ListenError> {
    if port == 0 {
        return Ok(Vec::new());
    }
    open(&values.bind.to_text(), port, values.tcp_backlog)
}

/// Opens a TCP socket for each address of a `bind` value.
pub(crate) fn open(
    bind: &str,
    port: u16,
    backlog: i32,
) -> Result<Vec<std::net::TcpListener>, ListenError> {
    let mut open = Vec::new();
    for (name, optional, found) in addresses(bind, port) {
        let opened = found.and_then(|all| {
            all.into_iter()
                .map(|address| listener(address, backlog))
                .collect::<io::Result<Vec<_>>>()
        });
        match opened {
            Ok(listeners) => open.extend(listeners),
            Err(error) if optional && is_unavailable(&error) => {}
            Err(error) => {
                let reason = crate::process::text::os_error(&error);
                return Err(ListenError::Socket { address: format!("{name}:{port}"), reason });
            }
        }
    }
    Ok(open)
}

/// Returns true if this machine lacks the address, or does not support its family.
fn is_unavailable(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let code = error.raw_os_error();
    error.kind() == io::ErrorKind::AddrNotAvailable
        || [Errno::AFNOSUPPORT, Errno::PFNOSUPPORT, Errno::PROTONOSUPPORT, Errno::NOPROTOOPT]
            .iter()
            .any(|errno| code == Some(errno.raw_os_error()))
}

/// Starts to accept; called once, on the main thread's runtime.
pub(crate) fn start(
    shared: &Arc<Shared>,
    senders: Vec<UnboundedSender<HandOff>>,
    values: &Values,
) -> Result<(), ListenError> {
    let _ = shared.ports.runtime.set(Handle::current());
    let _ = shared.ports.senders.set(senders);
    replace(shared, values)?;
    let path = values.unixsocket.to_text();
    if !path.is_empty() {
        return start_unix(shared, Path::new(&path), values);
    }
    let accepting = shared.ports.accepting.lock().unwrap_or_else(PoisonError::into_inner);
    if accepting.is_empty() { Err(ListenError::Nowhere) } else { Ok(()) }
}

/// Listens where the values say, and no longer where it did before; nowhere if that fails.
pub(crate) fn replace(shared: &Arc<Shared>, values: &Values) -> Result<(), ListenError> {
    let (Some(runtime), Some(senders)) = (shared.ports.runtime.get(), shared.ports.senders.get())
    else {
        return Ok(());
    };
    let mut accepting = shared.ports.accepting.lock().unwrap_or_else(PoisonError::into_inner);
    ports::close(&mut accepting);
    let plain = open_ports(values, values.port)?.into_iter().map(|socket| (socket, false));
    let encrypted = open_ports(values, values.tls_port)?.into_iter().map(|socket| (socket, true));
    let _entered = runtime.enter();
    for (socket, is_encrypted) in plain.chain(encrypted) {
        let socket = TcpListener::from_std(socket).map_err(|error| ListenError::Socket {
            address: values.bind.to_text(),
            reason: crate::process::text::os_error(&error),
        })?;
        let (sender, closed) = channel();
        let listening = Listening { socket, is_encrypted, _closed: sender };
        let task = runtime.spawn(accept_tcp(listening, Arc::clone(shared), senders.clone()));
        accepting.push(Accepting { task, closed });
    }
    Ok(())
}

fn start_unix(shared: &Arc<Shared>, path: &Path, values: &Values) -> Result<(), ListenError> {
    let wrong = |error: io::Error| ListenError::Socket {
        address: path.display().to_string(),
        reason: crate::process::text::os_error(&error),
    };
    let socket = unix_socket::bind(path, values.unixsocketperm).map_err(wrong)?;
    socket.listen(values.tcp_backlog).map_err(wrong)?;
    shared.ports.note_unix(path);
    let listener = UnixListener::from_std(socket.into()).map_err(wrong)?;
    let senders = shared.ports.senders.get().cloned().unwrap_or_default();
    tokio::spawn(accept_unix(listener, path.to_owned(), Arc::clone(shared), senders));
    Ok(())
}

/// Logs where the server listens.
pub(crate) fn log_ports(values: &Values) {
    let socket = values.unixsocket.to_text();
    if !socket.is_empty() {
        tracing::info!("The server is now ready to accept connections at {socket}");
    }
    match (values.port, values.tls_port) {
        (0, 0) => tracing::info!("Ready to accept connections"),
        (port, 0) => tracing::info!("Ready to accept connections on port {port}"),
        (0, port) => tracing::info!("Ready to accept connections on port {port} with TLS"),
        (port, encrypted) => {
            tracing::info!(
                "Ready to accept connections on port {port}, and on port {encrypted} with TLS"
            );
        }
    }
}

async fn accept_tcp(
    listening: Listening,
    shared: Arc<Shared>,
    senders: Vec<UnboundedSender<HandOff>>,
) {
    loop {
        match listening.socket.accept().await {
            Ok((stream, from)) => {
                let Ok(socket) = stream.into_std() else { continue };
                let _ = socket.set_nodelay(true);
                keep_alive(&socket, shared.limits.keepalive_s.load(Relaxed));
                let laddr = socket.local_addr().map_or_else(|_| String::new(), |a| a.to_string());
                let peer = Peer {
                    id: shared.engine.clients().reserve(),
                    addr: from.to_string(),
                    laddr,
                    fd: i64::from(socket.as_raw_fd()),
                    local: from.ip().to_canonical().is_loopback(),
                    is_tls: listening.is_encrypted,
                };
                let socket = match shared.tls.acceptor() {
                    _ if !listening.is_encrypted => UnregisteredSocket::Tcp(socket),
                    Some(acceptor) => UnregisteredSocket::Tls(socket, acceptor),
                    None => continue,
                };
                admit(&shared, &senders, socket, peer);
            }
            Err(error) => failed(&error).await,
        }
    }
}

async fn accept_unix(
    listener: UnixListener,
    path: std::path::PathBuf,
    shared: Arc<Shared>,
    senders: Vec<UnboundedSender<HandOff>>,
) {
    let name = format!("{}:0", path.display());
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let Ok(socket) = stream.into_std() else { continue };
                let fd = i64::from(socket.as_raw_fd());
                let (id, addr) = (shared.engine.clients().reserve(), name.clone());
                let peer = Peer { id, addr, laddr: name.clone(), fd, local: true, is_tls: false };
                admit(&shared, &senders, UnregisteredSocket::Unix(socket), peer);
            }
            Err(error) => failed(&error).await,
        }
    }
}

/// Logs a failed accept, and waits for a while.
pub(crate) async fn failed(error: &io::Error) {
    if error.kind() != io::ErrorKind::ConnectionAborted {
        tracing::warn!("Accepting client connection: {}", crate::process::text::os_error(error));
        tokio::time::sleep(AFTER_FAILURE).await;
    }
}

fn keep_alive(socket: &std::net::TcpStream, seconds: u64) {
    if seconds == 0 {
        return;
    }
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(seconds))
        .with_interval(Duration::from_secs((seconds / 3).max(1)))
        .with_retries(3);
    let _ = SockRef::from(socket).set_tcp_keepalive(&keepalive);
}

pub(crate) fn admit(
    shared: &Shared,
    senders: &[UnboundedSender<HandOff>],
    raw: UnregisteredSocket,
    peer: Peer,
) {
    shared.accepted.fetch_add(1, Relaxed);
    let serving: usize = shared.meters.iter().map(|meter| meter.serving.load(Relaxed)).sum();
    if serving as u64 >= shared.limits.max_clients.load(Relaxed) {
        shared.rejected.fetch_add(1, Relaxed);
        return refuse(raw, TOO_MANY);
    }
    let open = shared.limits.protected.load(Relaxed)
        && !peer.local
        && shared.engine.permissions().needs_no_password();
    if open {
        shared.rejected.fetch_add(1, Relaxed);
        return refuse(raw, PROTECTED);
    }
    let least = (0..senders.len()).min_by_key(|at| shared.meters[*at].serving.load(Relaxed));
    let Some(at) = least else { return };
    shared.meters[at].serving.fetch_add(1, Relaxed);
    // A worker that is gone means that the server is ending.
    let _ = senders[at].send((raw, peer));
}

/// Sends as much as fits into the socket's buffer, and closes it. A client that wants to speak TLS
/// gets no reason, as in Redis: a handshake would be more work for the server than the refusal
/// saves.
fn refuse(raw: UnregisteredSocket, text: &[u8]) {
    use std::io::Write;
    let _ = match raw {
        UnregisteredSocket::Tcp(mut socket) => socket.write(text),
        UnregisteredSocket::Tls(..) => Ok(0),
        UnregisteredSocket::Unix(mut socket) => socket.write(text),
    };
}

#[cfg(test)]
mod tests {
    use super::addresses;

    #[test]
    fn bind_names_addresses() {
        let check = |bind: &str, expect: &[(&str, bool)]| {
            let got: Vec<(String, bool)> = addresses(bind, 7)
                .into_iter()
                .map(|(_, optional, found)| (found.expect("resolved")[0].to_string(), optional))
                .collect();
            let expect: Vec<(String, bool)> =
                expect.iter().map(|(a, o)| ((*a).to_owned(), *o)).collect();
            assert_eq!(got, expect, "{bind}");
        };
        check("* -::*", &[("0.0.0.0:7", false), ("[::]:7", true)]);
        check("127.0.0.1 ::1", &[("127.0.0.1:7", false), ("[::1]:7", false)]);
        check("", &[]);
    }
}
