//! A stream of bytes to a running server, plain or encrypted, authenticated as the user in its
//! address.
//!
//! The address (`rediss://`) or, for all servers, `--tls` requests encryption. As in redis-cli, any
//! certificate that the authorities of `--cacert` have signed is accepted, since servers are called
//! by addresses that their certificates do not name. The system's authorities sign for anybody, so
//! for them the name must match.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use redis::{Client, Cmd, ConnectionAddr};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore,
    SignatureScheme, StreamOwned,
};

use crate::arguments::TlsOptions;
use crate::dump::BUFFER;

/// How long a server may take to accept a connection.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a server may neither send nor take anything: it may be busy with a large value, a
/// script or another dump.
const SILENCE: Duration = Duration::from_secs(600);

/// The longest line of a server's answer here.
const LONGEST_LINE: u64 = 4096;

/// Files in which systems keep the authorities that they trust.
const SYSTEM_AUTHORITIES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// A running server, and how connections to it are encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerAddress {
    /// `redis://[[user]:password@]host[:port][/database]`, `rediss://` alike, or
    /// `redis+unix:///path[?db=database]`.
    url: String,
    tls: TlsOptions,
}

/// A stream of bytes in both directions.
pub(super) trait Socket: Read + Write + Send {}

impl Socket for TcpStream {}
impl Socket for UnixStream {}
impl Socket for StreamOwned<ClientConnection, TcpStream> {}

/// An authenticated connection.
pub(super) type Stream = BufReader<Box<dyn Socket>>;

impl ServerAddress {
    pub(super) fn new(url: String, tls: &TlsOptions) -> ServerAddress {
        ServerAddress { url, tls: tls.clone() }
    }

    /// Returns it without its password.
    pub(super) fn shown(&self) -> String {
        match (self.url.split_once("://"), self.url.rsplit_once('@')) {
            (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
            _ => self.url.clone(),
        }
    }

    /// Returns the address without encryption, and whether connections are encrypted.
    fn parts(&self) -> (String, bool) {
        match self.url.strip_prefix("rediss://") {
            Some(rest) => (format!("redis://{rest}"), true),
            None => (self.url.clone(), self.tls.tls && self.url.starts_with("redis://")),
        }
    }

    /// Returns the database in the address, if it names one.
    pub(super) fn database(&self) -> Option<u64> {
        let (scheme, rest) = self.url.split_once("://")?;
        let is_named = if scheme.ends_with("unix") {
            rest.contains("?db=") || rest.contains("&db=")
        } else {
            rest.split_once('/').is_some_and(|(_, name)| !name.is_empty())
        };
        if !is_named {
            return None;
        }
        let client = Client::open(self.parts().0).ok()?;
        let database = client.get_connection_info().redis_settings().db();
        u64::try_from(database).ok()
    }

    /// Connects and authenticates.
    pub(super) fn connect(&self) -> io::Result<Stream> {
        let (url, is_encrypted) = self.parts();
        let client = Client::open(url).map_err(io::Error::other)?;
        let info = client.get_connection_info();
        let socket: Box<dyn Socket> = match info.addr() {
            ConnectionAddr::Tcp(host, port) if is_encrypted => {
                let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
                let config = Arc::new(config(&self.tls)?);
                let session = ClientConnection::new(config, name).map_err(io::Error::other)?;
                Box::new(StreamOwned::new(session, tcp(host, *port)?))
            }
            ConnectionAddr::Tcp(host, port) => Box::new(tcp(host, *port)?),
            ConnectionAddr::Unix(path) => {
                let socket = UnixStream::connect(path)?;
                socket.set_read_timeout(Some(SILENCE))?;
                socket.set_write_timeout(Some(SILENCE))?;
                Box::new(socket)
            }
            other => return Err(io::Error::other(format!("{other}: not supported"))),
        };
        let mut stream = BufReader::with_capacity(BUFFER, socket);
        let settings = info.redis_settings();
        if let Some(password) = settings.password() {
            let user = settings.username().map(str::as_bytes);
            let words = [Some(&b"AUTH"[..]), user, Some(password.as_bytes())];
            let words: Vec<&[u8]> = words.into_iter().flatten().collect();
            command(&mut stream, &words)?;
        }
        if let Some(database) = self.database() {
            command(&mut stream, &[b"SELECT", database.to_string().as_bytes()])?;
        }
        Ok(stream)
    }
}

fn tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(socket) => {
                socket.set_nodelay(true)?;
                socket.set_read_timeout(Some(SILENCE))?;
                socket.set_write_timeout(Some(SILENCE))?;
                return Ok(socket);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Encodes a request.
pub(super) fn pack(words: &[&[u8]], out: &mut Vec<u8>) {
    let mut command = Cmd::new();
    for word in words {
        command.arg(*word);
    }
    command.write_packed_command(out);
}

pub(super) fn send(to: &mut Stream, words: &[&[u8]]) -> io::Result<()> {
    let mut packed = Vec::new();
    pack(words, &mut packed);
    to.get_mut().write_all(&packed)?;
    to.get_mut().flush()
}

/// Sends a command and returns the line of its reply.
pub(super) fn command(stream: &mut Stream, words: &[&[u8]]) -> io::Result<String> {
    send(stream, words)?;
    line(stream)
}

/// Reads a line; an error reply becomes an error.
pub(super) fn line(from: &mut Stream) -> io::Result<String> {
    let mut line = Vec::new();
    from.take(LONGEST_LINE).read_until(b'\n', &mut line)?;
    if line.pop() != Some(b'\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let line = String::from_utf8_lossy(&line).trim_end().to_owned();
    match line.strip_prefix('-') {
        Some(text) => Err(io::Error::other(text.to_owned())),
        None => Ok(line),
    }
}

fn config(options: &TlsOptions) -> io::Result<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().map_err(io::Error::other)?;
    let builder = match &options.cacert {
        None => builder.with_root_certificates(system_authorities()?),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| wrong(path, error))?;
            }
            let roots = Arc::new(roots);
            let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider);
            let verifier = verifier.build().map_err(io::Error::other)?;
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyName(verifier)))
        }
    };
    let (Some(cert), Some(key)) = (&options.cert, &options.key) else {
        return Ok(builder.with_no_client_auth());
    };
    let own = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|error| wrong(key, error))?;
    let config = builder.with_client_auth_cert(certificates(cert)?, own);
    config.map_err(|error| wrong(cert, error))
}

fn system_authorities() -> io::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let found = SYSTEM_AUTHORITIES.iter().find_map(|path| certificates(Path::new(path)).ok());
    roots.add_parsable_certificates(found.unwrap_or_default());
    match roots.is_empty() {
        true => Err(io::Error::other("the system has no authorities: name some with --cacert")),
        false => Ok(roots),
    }
}

fn certificates(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let pem = read(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match found.map_err(|error| wrong(path, error))? {
        none if none.is_empty() => Err(wrong(path, "no certificate in PEM format")),
        some => Ok(some),
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    fs::read(path).map_err(|error| wrong(path, error))
}

fn wrong(path: &Path, why: impl ToString) -> io::Error {
    io::Error::other(format!("{}: {}", path.display(), why.to_string()))
}

/// Accepts the certificate of any server that an authority has signed.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        // The name is verified last.
        match self.0.verify_server_cert(end_entity, intermediates, name, ocsp, now) {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_password() {
        let check = |url: &str, expect: &str| {
            let address = ServerAddress::new(url.into(), &TlsOptions::default());
            assert_eq!(address.shown(), expect);
        };
        check("redis://h:1/2", "redis://h:1/2");
        check("redis://:secret@h:1", "redis://h:1");
        check("rediss://user:sec@ret@h", "rediss://h");
        check("h:1", "h:1");
    }

    #[test]
    fn an_address_says_whether_it_is_encrypted_and_which_database_is_meant() {
        let check = |url: &str, tls: bool, expect: (bool, Option<u64>)| {
            let options = TlsOptions { tls, ..TlsOptions::default() };
            let address = ServerAddress::new(url.into(), &options);
            assert_eq!((address.parts().1, address.database()), expect, "{url}");
        };
        check("redis://h:1/2", false, (false, Some(2)));
        check("redis://h:1/2", true, (true, Some(2)));
        check("rediss://h", false, (true, None));
        check("rediss://user:word@h:1/3", false, (true, Some(3)));
        check("rediss://h/", false, (true, None));
        check("redis+unix:///run/redis.sock", true, (false, None));
        check("redis+unix:///run/redis.sock?db=4", false, (false, Some(4)));
    }
}
