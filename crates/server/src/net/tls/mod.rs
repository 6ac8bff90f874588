//! TLS: the `tls-*` directives as configurations of rustls, which new connections use.
//!
//! A change reads all files again and replaces the configuration as a whole, or changes nothing:
//! connections that are open keep the one with which they began.

mod client;
mod files;
mod suites;
mod x509;

use std::io;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::server::{
    ClientHello, NoServerSessionStorage, ResolvesServerCert, ServerSessionMemoryCache,
    WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use self::client::Client;
use crate::config::Values;
use crate::config::choice::{ClientCertificates, UserOfCertificate};
use crate::config::special::USUAL_SESSIONS;

/// How long a client may take for its handshake: it holds one of `maxclients` meanwhile.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

/// The type of a TLS record that begins a handshake (RFC 8446, 5.1). A client that sends something
/// else gets no reply, since it could not read an alert.
const HANDSHAKE: u8 = 22;

/// Why the directives are no valid configuration.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A directive that must be set is not.
    #[error("No {0} configured!")]
    Missing(&'static str),
    /// Client certificates cannot be verified.
    #[error(
        "Either tls-ca-cert-file or tls-ca-cert-dir must be specified when tls-cluster or tls-auth-clients are enabled!"
    )]
    NoAuthority,
    /// A file does not contain what its directive needs.
    #[error("Failed to load {what}: {path}: {reason}")]
    File {
        /// The expected content.
        what: &'static str,
        /// The path of the file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No protocol is left.
    #[error("Failed to configure tls-protocols '{0}': use TLSv1.2, TLSv1.3 or both")]
    Protocols(String),
    /// No cipher suite is left.
    #[error("Failed to configure {directive} '{value}': it may name {known}")]
    Suites {
        /// The directive.
        directive: &'static str,
        /// Its value.
        value: String,
        /// The known names.
        known: String,
    },
    /// The parts do not match.
    #[error("Failed to configure TLS: {0}")]
    Unusable(#[from] rustls::Error),
}

/// The present configuration, for new connections.
#[derive(Default)]
pub(crate) struct Tls {
    /// The acceptor of clients; none before there is a `tls-port`.
    server: RwLock<Option<Acceptor>>,
    /// The configuration of connections to other servers; none if they are not encrypted.
    client: RwLock<Option<Client>>,
}

/// Returns true if any connection is to be encrypted.
pub(crate) fn is_wanted(values: &Values) -> bool {
    values.tls_port != 0 || values.tls_cluster || values.tls_replication
}

impl Tls {
    /// Reads the files that `values` name.
    pub(crate) fn configure(&self, values: &Values) -> Result<(), TlsError> {
        let server = Acceptor {
            handshake: TlsAcceptor::from(Arc::new(build(values)?)),
            names_user: values.tls_auth_clients_user == UserOfCertificate::CommonName,
        };
        let calls = values.tls_cluster || values.tls_replication;
        let client = if calls { Some(Client::new(values)?) } else { None };
        *self.server.write().unwrap_or_else(PoisonError::into_inner) = Some(server);
        *self.client.write().unwrap_or_else(PoisonError::into_inner) = client;
        Ok(())
    }

    /// Returns the server's part of a handshake.
    pub(crate) fn acceptor(&self) -> Option<Acceptor> {
        self.server.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the client's part of a handshake, if connections to other servers are encrypted.
    pub(crate) fn client(&self) -> Option<Client> {
        self.client.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The server's part of a handshake.
#[derive(Clone)]
pub(crate) struct Acceptor {
    handshake: TlsAcceptor,
    /// Whether a client's certificate names its user.
    names_user: bool,
}

/// The encrypted stream of a client.
pub(crate) type TlsStream = tokio_rustls::server::TlsStream<TcpStream>;

impl Acceptor {
    /// Completes the handshake. Returns the stream, and the name of the user from the client's
    /// certificate, if certificates name users.
    pub(crate) async fn accept(
        self,
        socket: TcpStream,
    ) -> io::Result<(TlsStream, Option<Vec<u8>>)> {
        let stream = tokio::time::timeout(HANDSHAKE_WITHIN, self.shake_hands(socket)).await??;
        let user = match stream.get_ref().1.peer_certificates() {
            Some([certificate, ..]) if self.names_user => x509::common_name(certificate),
            _ => None,
        };
        Ok((stream, user))
    }

    async fn shake_hands(&self, socket: TcpStream) -> io::Result<TlsStream> {
        let mut first = [0];
        socket.peek(&mut first).await?;
        if first != [HANDSHAKE] {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it does not speak TLS"));
        }
        self.handshake.accept(socket).await
    }
}

/// The one certificate of the server, whatever name a client asks for.
#[derive(Debug)]
struct Certificate(Arc<CertifiedKey>);

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

fn provider(values: &Values) -> Result<Arc<CryptoProvider>, TlsError> {
    let (new, old) = (values.tls_ciphersuites.to_text(), values.tls_ciphers.to_text());
    let cipher_suites = suites::chosen(&new, &old)?;
    Ok(Arc::new(CryptoProvider { cipher_suites, ..ring::default_provider() }))
}

fn build(values: &Values) -> Result<ServerConfig, TlsError> {
    let provider = provider(values)?;
    let protocols = suites::protocols(&values.tls_protocols.to_text())?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&protocols)?;
    let certificate = Arc::new(files::certificate(&files::of_server(values), &provider)?);
    let builder = match values.tls_auth_clients {
        ClientCertificates::No => builder.with_no_client_auth(),
        when @ (ClientCertificates::Yes | ClientCertificates::Optional) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(
                Arc::new(files::authorities(values)?),
                provider,
            );
            let verifier = match when {
                ClientCertificates::Optional => verifier.allow_unauthenticated(),
                _ => verifier,
            };
            let verifier = verifier.build().map_err(|_| TlsError::NoAuthority)?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_cert_resolver(Arc::new(Certificate(certificate)));
    config.ignore_client_order = values.tls_prefer_server_ciphers;
    if values.tls_session_caching {
        let sessions = match values.tls_session_cache_size {
            0 => USUAL_SESSIONS,
            sessions => sessions,
        };
        config.session_storage = ServerSessionMemoryCache::new(sessions);
    } else {
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    Ok(config)
}
