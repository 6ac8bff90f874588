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
    std::fs::read(path).map_err(|error| wrong(what, path, crate::text::os_error(&error)))
}

/// Returns the path that a directive names.
fn path(values: &Values, directive: &'static str) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let value = values.get(directive);
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

/// The directives that name a certificate.
pub(super) struct Names {
    certificate: &'static str,
    key: &'static str,
    password: &'static str,
}

/// The server's certificate for its clients.
pub(super) const SERVER: Names =
    Names { certificate: "tls-cert-file", key: "tls-key-file", password: "tls-key-file-pass" };

/// Its certificate when it is a client itself.
const CLIENT: Names = Names {
    certificate: "tls-client-cert-file",
    key: "tls-client-key-file",
    password: "tls-client-key-file-pass",
};

/// Returns the names of the certificate for use as a client: the server's if there is no other.
pub(super) fn of_client(values: &Values) -> &'static Names {
    if values.get(CLIENT.certificate).is_empty() { &SERVER } else { &CLIENT }
}

/// Returns a certificate, the chain from it to an authority, and its key.
pub(super) fn certificate(
    values: &Values,
    names: &Names,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, TlsError> {
    let path_of = |directive| path(values, directive).ok_or(TlsError::Missing(directive));
    let (file, key_file) = (path_of(names.certificate)?, path_of(names.key)?);
    let chain = certificates(CERTIFICATE, &file, &read(CERTIFICATE, &file)?)?;
    let key = private_key(&key_file, values.get(names.password))?;
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
    if let Some(file) = path(values, "tls-ca-cert-file") {
        for certificate in certificates(AUTHORITIES, &file, &read(AUTHORITIES, &file)?)? {
            roots.add(certificate).map_err(|error| wrong(AUTHORITIES, &file, error))?;
        }
    }
    if let Some(folder) = path(values, "tls-ca-cert-dir") {
        let failed = |error: std::io::Error| {
            wrong("CA certificate(s) directory", &folder, crate::text::os_error(&error))
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
