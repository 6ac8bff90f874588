//! Certificates and keys in PEM files.

use std::path::{Path, PathBuf};

use pkcs8::EncryptedPrivateKeyInfoRef;
use pkcs8::der::SecretDocument;
use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;

use super::{TlsError, x509};
use crate::config::Values;

const CERTIFICATE: &str = "certificate";
const KEY: &str = "private key";
const AUTHORITIES: &str = "CA certificate(s) file";

/// The reason for keys as OpenSSL before 3.0 writes them.
const LEGACY_ENCRYPTION: &str = "its encryption is that of OpenSSL before 3.0, which is not \
    supported; `openssl pkcs8 -topk8 -in FILE` converts it";

fn wrong(what: &'static str, path: &Path, reason: impl ToString) -> TlsError {
    TlsError::File { what, path: path.display().to_string(), reason: reason.to_string() }
}

fn read(what: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|error| wrong(what, path, crate::process::text::os_error(&error)))
}

/// Returns the path that a directive names.
fn path(value: &[u8]) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    (!value.is_empty()).then(|| PathBuf::from(std::ffi::OsStr::from_bytes(value)))
}

fn certificates(
    what: &'static str,
    path: &Path,
    pem: &[u8],
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    match found.map_err(|error| wrong(what, path, error))? {
        none if none.is_empty() => Err(wrong(what, path, "no certificate in PEM format")),
        some => Ok(some),
    }
}

/// Where a certificate is, its key, and the password of that.
pub(super) struct Place<'a> {
    certificate: &'a [u8],
    key: &'a [u8],
    password: &'a [u8],
    /// The directives that name the certificate and the key.
    directives: [&'static str; 2],
}

/// Returns the certificate that the server shows to its clients.
pub(super) fn of_server(values: &Values) -> Place<'_> {
    Place {
        certificate: &values.tls_cert_file,
        key: &values.tls_key_file,
        password: &values.tls_key_file_pass,
        directives: ["tls-cert-file", "tls-key-file"],
    }
}

/// Returns the one that is shown where the server is a client: its own if there is no other.
pub(super) fn of_client(values: &Values) -> Place<'_> {
    if values.tls_client_cert_file.is_empty() {
        return of_server(values);
    }
    Place {
        certificate: &values.tls_client_cert_file,
        key: &values.tls_client_key_file,
        password: &values.tls_client_key_file_pass,
        directives: ["tls-client-cert-file", "tls-client-key-file"],
    }
}

/// Returns a certificate, the chain from it to an authority, and its key.
pub(super) fn certificate(
    place: &Place<'_>,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, TlsError> {
    let [certificate, key] = place.directives;
    let file = path(place.certificate).ok_or(TlsError::Missing(certificate))?;
    let key_file = path(place.key).ok_or(TlsError::Missing(key))?;
    let chain = certificates(CERTIFICATE, &file, &read(CERTIFICATE, &file)?)?;
    let key = private_key(&key_file, place.password)?;
    let key = provider.key_provider.load_private_key(key);
    let key = key.map_err(|error| wrong(KEY, &key_file, error))?;
    if !x509::is_of_key(&chain[0], &*key) {
        return Err(wrong(KEY, &key_file, "it is not the key of the certificate"));
    }
    Ok(CertifiedKey::new(chain, key))
}

fn private_key(path: &Path, password: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    let pem = read(KEY, path)?;
    let has = |text: &[u8]| pem.windows(text.len()).any(|window| window == text);
    if has(b"Proc-Type: 4,ENCRYPTED") {
        return Err(wrong(KEY, path, LEGACY_ENCRYPTION));
    }
    if !has(b"-----BEGIN ENCRYPTED PRIVATE KEY-----") {
        return PrivateKeyDer::from_pem_slice(&pem).map_err(|error| wrong(KEY, path, error));
    }
    if password.is_empty() {
        return Err(wrong(KEY, path, "it is encrypted, and tls-key-file-pass is not set"));
    }
    decrypt(&pem, password).map_err(|reason| wrong(KEY, path, reason))
}

fn decrypt(pem: &[u8], password: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    let text = std::str::from_utf8(pem).map_err(|error| error.to_string())?;
    let (_, document) = SecretDocument::from_pem(text).map_err(|error| error.to_string())?;
    let encrypted = EncryptedPrivateKeyInfoRef::try_from(document.as_bytes())
        .map_err(|error| error.to_string())?;
    let key = encrypted.decrypt(password).map_err(|error| error.to_string())?;
    Ok(PrivatePkcs8KeyDer::from(key.as_bytes().to_vec()).into())
}

/// Returns the authorities that may have signed a client's certificate.
pub(super) fn authorities(values: &Values) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    if let Some(file) = path(&values.tls_ca_cert_file) {
        for certificate in certificates(AUTHORITIES, &file, &read(AUTHORITIES, &file)?)? {
            roots.add(certificate).map_err(|error| wrong(AUTHORITIES, &file, error))?;
        }
    }
    if let Some(folder) = path(&values.tls_ca_cert_dir) {
        let failed = |error: std::io::Error| {
            wrong("CA certificate(s) directory", &folder, crate::process::text::os_error(&error))
        };
        for file in std::fs::read_dir(&folder).map_err(failed)? {
            let file = file.map_err(failed)?.path();
            // As in OpenSSL, files without certificates are ignored.
            if let Ok(found) =
                read(AUTHORITIES, &file).and_then(|pem| certificates(AUTHORITIES, &file, &pem))
            {
                roots.add_parsable_certificates(found);
            }
        }
    }
    if roots.is_empty() { Err(TlsError::NoAuthority) } else { Ok(roots) }
}
