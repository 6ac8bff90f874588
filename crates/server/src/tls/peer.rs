//! Whose a client's certificate is.

use rustls::pki_types::CertificateDer;
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::der::asn1::ObjectIdentifier;

/// The attribute `commonName` of X.520.
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

/// Returns the first common name (CN) of the certificate's subject, as the bytes of its text.
pub(super) fn common_name(certificate: &CertificateDer<'_>) -> Option<Vec<u8>> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let mut attributes = certificate.tbs_certificate().subject().iter();
    let name = attributes.find(|attribute| attribute.oid == COMMON_NAME)?;
    Some(name.value.value().to_vec())
}
