//! The server as a client of another one: MIGRATE with `tls-cluster yes`.

use std::io;
use std::net::{IpAddr, TcpStream};
use std::sync::Arc;

use commands::admin::Wire;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error,
    SignatureScheme, StreamOwned,
};

use super::{TlsError, files, provider, suites};
use crate::config::Values;

/// The client's part of handshakes.
#[derive(Clone)]
pub(crate) struct Client(Arc<ClientConfig>);

impl Client {
    pub(super) fn new(values: &Values) -> Result<Client, TlsError> {
        let provider = provider(values)?;
        let protocols = suites::protocols(&values.tls_protocols.to_text())?;
        let own: CertifiedKey = files::certificate(&files::of_client(values), &provider)?;
        let roots = Arc::new(files::authorities(values)?);
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider));
        let verifier = verifier.build().map_err(|_| TlsError::NoAuthority)?;
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&protocols)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyName(verifier)))
            .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(own)));
        Ok(Client(Arc::new(config)))
    }

    /// Encrypts a connection to `address`; the handshake is done with the first bytes.
    pub(crate) fn connect(&self, socket: TcpStream, address: IpAddr) -> io::Result<Box<dyn Wire>> {
        let name = ServerName::from(address);
        let session = ClientConnection::new(Arc::clone(&self.0), name).map_err(io::Error::other)?;
        Ok(Box::new(StreamOwned::new(session, socket)))
    }
}

/// Accepts the certificate of any server that an authority has signed, as Redis does: servers are
/// called by address, and their certificates name none.
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
    ) -> Result<ServerCertVerified, Error> {
        // The name is verified last.
        match self.0.verify_server_cert(end_entity, intermediates, name, ocsp, now) {
            Err(Error::InvalidCertificate(
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
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
