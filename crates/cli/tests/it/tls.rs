//! Backups, imports and exports of servers that use TLS.

use std::fs;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;
use testkit::{Launch, Server, free_port};

use crate::common::check;
use crate::transfer::{digest, fill, perdura};

/// A folder with an authority, and a certificate that it has signed for a server of another name.
struct Authority(TempDir);

impl Authority {
    fn new() -> Authority {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, pem: String| {
            fs::write(folder.path().join(name), pem).expect("written");
        };
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.distinguished_name.push(DnType::CommonName, "authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        write("ca.crt", params.self_signed(&key).expect("a certificate").pem());
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec!["db.example".into()]).expect("parameters");
        write("own.crt", params.signed_by(&key, &issuer).expect("a certificate").pem());
        write("own.key", key.serialize_pem());
        Authority(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// Starts a server that requires certificates of its clients, and listens with TLS. Returns it
    /// and its port.
    fn start(&self, more: &[&str]) -> (Server, u16) {
        let port = free_port();
        let launch = Launch::perdura_volatile().args(["--tls-port", &port.to_string()]);
        let launch = launch.args(["--enable-debug-command", "local"]).args([
            "--tls-cert-file",
            &self.path("own.crt"),
            "--tls-key-file",
            &self.path("own.key"),
            "--tls-ca-cert-file",
            &self.path("ca.crt"),
        ]);
        (launch.args(more.iter().copied()).start(), port)
    }
}

#[test]
fn keys_come_out_of_and_into_servers_that_are_encrypted() {
    let authority = Authority::new();
    let (server, port) = authority.start(&["--requirepass", "secret"]);
    let mut client = server.client();
    client.check("AUTH secret", "OK");
    fill(&mut client);
    let expect = digest(&mut client);
    let (ca, cert, key) =
        (authority.path("ca.crt"), authority.path("own.crt"), authority.path("own.key"));
    let tls = ["--cacert", ca.as_str(), "--cert", &cert, "--key", &key];
    let from = format!("rediss://:secret@127.0.0.1:{port}");
    let dump = authority.path("live.rdb");
    let backup = |more: &[&str]| {
        let _ = fs::remove_file(&dump);
        perdura(&[&["backup", "--from", &from, "--to", &dump], more].concat())
    };
    check(&backup(&tls), 0, &["is verified: keys=17 libraries=1 expired=0"]);
    // Into another server, which requires no certificate of its clients.
    let (target, target_port) = authority.start(&["--tls-auth-clients", "no"]);
    let to = format!("127.0.0.1:{target_port}");
    let restored = perdura(&["restore", &dump, "--to", &to, "--tls", "--cacert", &ca]);
    check(&restored, 0, &["keys=17 libraries=1 kept=0"]);
    assert_eq!(digest(&mut target.client()), expect);
    // And key by key, into one of its databases.
    let to = format!("rediss://localhost:{target_port}/9");
    let import = ["import", &from, "--to", &to, "--replace"];
    let imported = perdura(&[&import, &tls[..]].concat());
    check(&imported, 0, &["keys=17"]);
    let mut client = target.client();
    client.check("SELECT 9", "OK");
    client.check("GET number", "\"12345\"");
    let exported = perdura(&["export", &to, "--format", "resp", "--cacert", &ca]);
    check(&exported, 0, &["12345"]);
}

#[test]
fn who_is_not_known_is_refused_by_either_side() {
    let authority = Authority::new();
    let (_server, port) = authority.start(&[]);
    let from = format!("rediss://127.0.0.1:{port}");
    let to = authority.path("refused.rdb");
    let refused = |more: &[&str], why: &str| {
        check(&perdura(&[&["backup", "--from", &from, "--to", &to], more].concat()), 2, &[why]);
    };
    let (ca, cert, key) =
        (authority.path("ca.crt"), authority.path("own.crt"), authority.path("own.key"));
    refused(&["--cacert", &ca], "");
    let gone = Authority::new().path("ca.crt");
    refused(&["--cacert", &gone, "--cert", &cert, "--key", &key], "No such file");
    let other = Authority::new();
    let of_other = other.path("ca.crt");
    refused(&["--cacert", &of_other, "--cert", &cert, "--key", &key], "invalid peer certificate");
    refused(&["--cacert", &ca, "--cert", &cert, "--key", &cert], &cert);
    refused(&["--cacert", &key], "no certificate in PEM format");
    refused(&["--cert", &cert], "--key");
    // A server that does not speak TLS.
    let plain = Launch::perdura_volatile().start();
    let from = format!("127.0.0.1:{}", plain.port());
    let done = perdura(&["backup", "--from", &from, "--to", &to, "--tls", "--cacert", &ca]);
    assert_eq!(done.status.code(), Some(2));
}
