//! The contents of a certificate: its subject and its key.
//!
//! Rustls does not reveal them, and compares keys only in certificates of X.509 version 3. With
//! OpenSSL 3.0, `openssl x509 -req` makes version 1 if no extensions are requested, as in Redis's
//! script for certificates.

use rustls::pki_types::CertificateDer;
use rustls::sign::SigningKey;
use x509_cert::Certificate;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::{Decode, Encode};

/// The attribute `commonName` of X.520.
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

/// Returns the first common name (CN) of the certificate's subject, as the bytes of its text.
pub(super) fn common_name(certificate: &CertificateDer<'_>) -> Option<Vec<u8>> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let mut attributes = certificate.tbs_certificate().subject().iter();
    let name = attributes.find(|attribute| attribute.oid == COMMON_NAME)?;
    Some(name.value.value().to_vec())
}

/// Returns true if this is a certificate with the public part of this key.
pub(super) fn is_of_key(certificate: &CertificateDer<'_>, key: &dyn SigningKey) -> bool {
    let Ok(certificate) = Certificate::from_der(certificate) else { return false };
    let named = certificate.tbs_certificate().subject_public_key_info().to_der();
    matches!((named, key.public_key()), (Ok(named), Some(key)) if named == *key)
}
