//! Protocols and cipher suites by the names that OpenSSL, and so redis.conf, gives them.
//!
//! The lists are read as OpenSSL reads them: unknown names are ignored, and only a list that leaves
//! nothing is an error. rustls offers the suites with forward secrecy and authenticated encryption
//! alone, and TLS 1.2 and 1.3.

use rustls::crypto::ring::cipher_suite::*;
use rustls::version::{TLS12, TLS13};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};

use super::TlsError;

type Named = (&'static str, SupportedCipherSuite);

/// The suites of TLS 1.3, in the order of preference.
static SUITES_13: [Named; 3] = [
    ("TLS_AES_256_GCM_SHA384", TLS13_AES_256_GCM_SHA384),
    ("TLS_AES_128_GCM_SHA256", TLS13_AES_128_GCM_SHA256),
    ("TLS_CHACHA20_POLY1305_SHA256", TLS13_CHACHA20_POLY1305_SHA256),
];

/// The suites of TLS 1.2, in the order of preference.
static SUITES_12: [Named; 6] = [
    ("ECDHE-ECDSA-AES256-GCM-SHA384", TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-RSA-AES256-GCM-SHA384", TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-ECDSA-AES128-GCM-SHA256", TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    ("ECDHE-RSA-AES128-GCM-SHA256", TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    ("ECDHE-RSA-CHACHA20-POLY1305", TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
];

/// Words that stand for all suites.
const ALL: [&str; 3] = ["ALL", "DEFAULT", "HIGH"];

/// Returns the suites that `tls-ciphersuites` (TLS 1.3) and `tls-ciphers` (before) name; an empty
/// list names all.
pub(super) fn chosen(
    ciphersuites: &str,
    ciphers: &str,
) -> Result<Vec<SupportedCipherSuite>, TlsError> {
    let mut chosen = of_list("tls-ciphersuites", ciphersuites, &SUITES_13)?;
    chosen.extend(of_list("tls-ciphers", ciphers, &SUITES_12)?);
    Ok(chosen)
}

fn of_list(
    directive: &'static str,
    list: &str,
    known: &'static [Named],
) -> Result<Vec<SupportedCipherSuite>, TlsError> {
    let mut chosen: Vec<&'static Named> = Vec::new();
    let words = list.split([':', ',', ' ']).filter(|word| !word.is_empty());
    let list_or_all = if list.is_empty() { vec!["ALL"] } else { words.collect() };
    for word in list_or_all {
        let (removes, name) = match word.strip_prefix(['-', '!']) {
            Some(name) => (true, name),
            None => (false, word.strip_prefix('+').unwrap_or(word)),
        };
        let is_meant = |suite: &Named| ALL.contains(&name) || suite.0 == name;
        if removes {
            chosen.retain(|suite| !is_meant(suite));
        } else {
            let is_new = |suite: &&Named| !chosen.iter().any(|other| other.0 == suite.0);
            let new: Vec<_> = known.iter().filter(|s| is_meant(s)).filter(is_new).collect();
            chosen.extend(new);
        }
    }
    if chosen.is_empty() {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        let (value, known) = (list.to_owned(), names.join(", "));
        return Err(TlsError::Suites { directive, value, known });
    }
    Ok(chosen.into_iter().map(|(_, suite)| *suite).collect())
}

/// Returns the versions that `tls-protocols` names; an empty list names all.
pub(super) fn protocols(list: &str) -> Result<Vec<&'static SupportedProtocolVersion>, TlsError> {
    let names = |version: &str| {
        list.is_empty() || list.split_whitespace().any(|word| word.eq_ignore_ascii_case(version))
    };
    let known = [("TLSv1.2", &TLS12), ("TLSv1.3", &TLS13)];
    let chosen: Vec<_> =
        known.iter().filter(|(name, _)| names(name)).map(|(_, version)| *version).collect();
    if chosen.is_empty() { Err(TlsError::Protocols(list.to_owned())) } else { Ok(chosen) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ciphers(list: &str) -> Option<Vec<&'static str>> {
        let chosen = of_list("tls-ciphers", list, &SUITES_12).ok()?;
        let name = |suite: SupportedCipherSuite| {
            SUITES_12.iter().find(|(_, known)| *known == suite).map_or("", |(name, _)| *name)
        };
        Some(chosen.into_iter().map(name).collect())
    }

    #[test]
    fn a_list_is_read_as_openssl_reads_it() {
        let (a, b) = ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES256-GCM-SHA384");
        assert_eq!(ciphers(""), ciphers("DEFAULT"));
        assert_eq!(ciphers("").map(|all| all.len()), Some(6));
        assert_eq!(ciphers(&format!("{a}:AES128-SHA:{b}:{a}")), Some(vec![a, b]));
        assert_eq!(ciphers(&format!("DEFAULT:!{a}")).map(|some| some.len()), Some(5));
        assert_eq!(ciphers(&format!("{a},{b}:-{a}")), Some(vec![b]));
        assert_eq!(ciphers("-ALL:AES128-SHA256"), None);
        let why = chosen("", "AES128-SHA256").expect_err("no suite").to_string();
        assert!(why.contains("tls-ciphers 'AES128-SHA256'") && why.contains(a), "{why}");
        let both = chosen("TLS_AES_128_GCM_SHA256", a).expect("two suites");
        assert_eq!(both, [TLS13_AES_128_GCM_SHA256, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]);
    }

    #[test]
    fn old_protocols_alone_are_refused() {
        let count = |list| protocols(list).map(|some| some.len()).ok();
        assert_eq!(count(""), Some(2));
        assert_eq!(count("TLSv1.2"), Some(1));
        assert_eq!(count("TLSv1 TLSv1.1 tlsv1.3"), Some(1));
        assert_eq!(count("TLSv1 TLSv1.1"), None);
    }
}
