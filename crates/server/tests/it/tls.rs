//! TLS: clients with and without certificates, certificates that change, and bad input.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
};
use tempfile::TempDir;
use testkit::{Client, Launch, Server, free_port};

/// A certificate for a key that `openssl req -x509 -newkey` encrypted with the password 1234.
const ENCRYPTED: [(&str, &str); 2] = [
    ("encrypted.crt", include_str!("tls/encrypted.crt")),
    ("encrypted.key", include_str!("tls/encrypted.key")),
];

/// A certificate of X.509 version 1 for a key, by `openssl req -new` and `openssl x509 -req` of
/// OpenSSL 3.0.
const VERSION_1: [(&str, &str); 2] =
    [("v1.crt", include_str!("tls/v1.crt")), ("v1.key", include_str!("tls/v1.key"))];

const REFUSED: &str = "Unable to update TLS configuration. Check server logs.";

/// A folder with an authority, and the certificates that it has signed.
struct Authority {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
    root: CertificateDer<'static>,
}

impl Authority {
    fn new() -> Authority {
        let folder = tempfile::tempdir().expect("a folder");
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.distinguished_name.push(DnType::CommonName, "authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = params.self_signed(&key).expect("a certificate");
        std::fs::write(folder.path().join("ca.crt"), root.pem()).expect("written");
        let root = root.der().clone();
        let authority = Authority { folder, issuer: Issuer::new(params, key), root };
        for name in ["server", "client"] {
            authority.sign(name);
        }
        authority
    }

    /// Writes NAME.crt and NAME.key.
    fn sign(&self, name: &str) {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec!["127.0.0.1".into(), name.into()]);
        let mut params = params.expect("parameters");
        params.distinguished_name.push(DnType::CommonName, name);
        let signed = params.signed_by(&key, &self.issuer);
        let pem = signed.expect("a certificate").pem();
        std::fs::write(self.folder.path().join(format!("{name}.crt")), pem).expect("written");
        let pem = key.serialize_pem();
        std::fs::write(self.folder.path().join(format!("{name}.key")), pem).expect("written");
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn arguments(&self, port: u16) -> Vec<String> {
        let values = [
            ("--tls-port", port.to_string()),
            ("--tls-cert-file", self.path("server.crt")),
            ("--tls-key-file", self.path("server.key")),
            ("--tls-ca-cert-file", self.path("ca.crt")),
        ];
        values.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect()
    }

    /// Starts a server that listens with TLS. Returns it and its port.
    fn start(&self, more: &[&str]) -> (Server, u16) {
        let port = free_port();
        let launch = Launch::perdura_volatile().args(self.arguments(port));
        (launch.args(more.iter().copied()).start(), port)
    }

    /// Connects with the certificate of this name, if any.
    fn connect(&self, port: u16, shows: Option<&str>) -> Encrypted {
        self.connect_by(port, shows, &[&TLS12, &TLS13])
    }

    fn connect_by(
        &self,
        port: u16,
        shows: Option<&str>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Encrypted {
        let mut roots = RootCertStore::empty();
        roots.add(self.root.clone()).expect("a root");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .expect("versions")
            .with_root_certificates(roots);
        let config = match shows {
            None => config.with_no_client_auth(),
            Some(name) => {
                let chain = CertificateDer::from_pem_file(self.path(&format!("{name}.crt")));
                let key = PrivateKeyDer::from_pem_file(self.path(&format!("{name}.key")));
                let chain = vec![chain.expect("a certificate")];
                config.with_client_auth_cert(chain, key.expect("a key")).expect("a pair")
            }
        };
        let name = ServerName::try_from("127.0.0.1").expect("a name");
        let session = ClientConnection::new(Arc::new(config), name).expect("a session");
        let socket = TcpStream::connect(("127.0.0.1", port)).expect("connected");
        socket.set_read_timeout(Some(std::time::Duration::from_secs(60))).expect("a timeout");
        StreamOwned::new(session, socket)
    }

    fn client(&self, port: u16) -> Client {
        Client::through(self.connect(port, Some("client")))
    }
}

type Encrypted = StreamOwned<ClientConnection, TcpStream>;

/// Returns true if the stream is served.
fn is_served(stream: Encrypted) -> bool {
    Client::through(stream).try_call(&["PING"]).is_ok_and(|reply| reply.to_string() == "PONG")
}

/// Returns the server's certificate, after a handshake.
fn shown(stream: &mut Encrypted) -> Vec<u8> {
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock).expect("a handshake");
    }
    stream.conn.peer_certificates().expect("certificates")[0].to_vec()
}

#[test]
fn commands_large_values_and_messages_go_through() {
    let authority = Authority::new();
    let (server, port) = authority.start(&[]);
    let mut client = authority.client(port);
    client.check("SET k v", "OK");
    server.client().check("GET k", "\"v\"");
    let large = vec![b'x'; 8 << 20];
    assert!(client.call(&[b"SET", &b"large"[..], &large]).is_ok());
    assert_eq!(client.run("GET large").bytes(), Some(&large[..]));
    let pipeline: Vec<Vec<&[u8]>> = (0..2000).map(|_| vec![&b"GET"[..], b"k"]).collect();
    let replies = client.pipeline(&pipeline).expect("replies");
    assert!(replies.iter().all(|reply| reply.to_string() == "\"v\""));
    // More than the sockets' buffers hold; the client reads only after all was sent.
    let many: Vec<Vec<&[u8]>> = (0..8).map(|_| vec![&b"GET"[..], b"large"]).collect();
    let replies = client.pipeline(&many).expect("replies");
    assert!(replies.into_iter().all(|reply| reply.bytes() == Some(&large[..])));
    client.check("SUBSCRIBE news", "[\"subscribe\", \"news\", (integer) 1]");
    server.client().check("PUBLISH news hello", "(integer) 1");
    let message = client.receive().expect("a message").to_string();
    assert_eq!(message, "[\"message\", \"news\", \"hello\"]");
    let mut blocked = authority.client(port);
    blocked.send(&["BLPOP", "list", "0"]).expect("sent");
    server.client().check("RPUSH list 1", "(integer) 1");
    assert_eq!(blocked.receive().expect("a reply").to_string(), "[\"list\", \"1\"]");
    blocked.check("QUIT", "OK");
    assert!(blocked.receive().is_err(), "the stream has an end");
}

#[test]
fn tls_auth_clients_says_who_needs_a_certificate() {
    let authority = Authority::new();
    let other = Authority::new();
    let (server, port) = authority.start(&[]);
    let mut client = server.client();
    for (value, without, with_another) in
        [("yes", false, false), ("no", true, true), ("optional", true, false)]
    {
        assert!(client.call(&["CONFIG", "SET", "tls-auth-clients", value]).is_ok());
        assert!(is_served(authority.connect(port, Some("client"))), "{value}");
        assert_eq!(is_served(authority.connect(port, None)), without, "{value}");
        // Signed by another authority.
        std::fs::copy(other.path("client.crt"), authority.path("other.crt")).expect("copied");
        std::fs::copy(other.path("client.key"), authority.path("other.key")).expect("copied");
        assert_eq!(is_served(authority.connect(port, Some("other"))), with_another, "{value}");
    }
    client.check("CONFIG SET tls-protocols TLSv1.2", "OK");
    assert!(!is_served(authority.connect_by(port, Some("client"), &[&TLS13])));
    assert!(is_served(authority.connect_by(port, Some("client"), &[&TLS12])));
}

#[test]
fn a_certificate_names_its_user() {
    let authority = Authority::new();
    authority.sign("bob");
    authority.sign("eve");
    let (server, port) = authority.start(&["--tls-auth-clients", "optional"]);
    let mut admin = server.client();
    admin.check("ACL SETUSER bob on >secret ~b:* +@all", "OK");
    admin.check("ACL SETUSER eve off nopass ~* +@all", "OK");
    let who = |shows: Option<&str>| {
        let mut client = Client::through(authority.connect(port, shows));
        client.run("ACL WHOAMI").to_string()
    };
    assert_eq!(who(Some("bob")), "\"default\"", "only where it is asked for");
    admin.check("CONFIG SET tls-auth-clients-user cn", "OK");
    admin.check("CONFIG GET tls-auth-clients-user", "[\"tls-auth-clients-user\", \"CN\"]");
    assert_eq!(who(Some("bob")), "\"bob\"");
    assert_eq!(who(None), "\"default\"");
    let mut bob = Client::through(authority.connect(port, Some("bob")));
    bob.check("SET b:1 x", "OK");
    bob.check(
        "SET a:1 x",
        "(error) NOPERM this user has no permissions to access one of the keys used as arguments",
    );
    admin.check("ACL LOG RESET", "OK");
    // A disabled user and an unknown one are treated like clients without a certificate.
    admin.check("CONFIG SET requirepass pass", "OK");
    for shows in [Some("eve"), Some("client"), None] {
        assert_eq!(who(shows), "(error) NOAUTH Authentication required.", "{shows:?}");
    }
    assert_eq!(who(Some("bob")), "\"bob\"", "no password is needed");
    let denied = admin.run("ACL LOG").to_string();
    assert_eq!(denied.matches("\"tls-cert\"").count(), 2, "{denied}");
    assert!(denied.contains("\"eve\"") && denied.contains("\"client\""), "{denied}");
}

#[test]
fn a_certificate_is_renewed_while_the_server_runs() {
    let authority = Authority::new();
    let (server, port) = authority.start(&[]);
    let mut admin = server.client();
    let mut open = authority.connect(port, Some("client"));
    let first = shown(&mut open);
    authority.sign("next");
    let (certificate, key) = (authority.path("next.crt"), authority.path("next.key"));
    let set = |admin: &mut Client, certificate: &str, key: &str| {
        let words = ["CONFIG", "SET", "tls-cert-file", certificate, "tls-key-file", key];
        admin.call(&words).to_string()
    };
    // A key that does not match the certificate, and files that are no certificates or keys.
    for wrong in ["server.key", "ca.crt", "none"] {
        let reply = set(&mut admin, &certificate, &authority.path(wrong));
        assert!(reply.ends_with(REFUSED), "{wrong}: {reply}");
        assert!(
            server
                .log()
                .contains(&format!("Failed to load private key: {}", authority.path(wrong)))
        );
    }
    assert_eq!(shown(&mut authority.connect(port, Some("client"))), first);
    assert!(admin.run("CONFIG GET tls-cert-file").to_string().contains("server.crt"));
    assert_eq!(set(&mut admin, &certificate, &key), "OK");
    assert_ne!(shown(&mut authority.connect(port, Some("client"))), first);
    // The same paths have new files.
    let second = shown(&mut authority.connect(port, Some("client")));
    authority.sign("next");
    assert_eq!(set(&mut admin, &certificate, &key), "OK");
    assert_ne!(shown(&mut authority.connect(port, Some("client"))), second);
    assert!(is_served(open), "who was there stays");
}

#[test]
fn an_encrypted_key_needs_its_password() {
    let authority = Authority::new();
    for (name, content) in ENCRYPTED {
        std::fs::write(authority.path(name), content).expect("written");
    }
    let (server, port) = authority.start(&["--tls-auth-clients", "no"]);
    let mut admin = server.client();
    let (certificate, key) = (authority.path("encrypted.crt"), authority.path("encrypted.key"));
    let files = ["tls-cert-file", &certificate, "tls-key-file", &key];
    let set = |admin: &mut Client, password: &str| {
        let words = [&["CONFIG", "SET", "tls-key-file-pass", password], &files[..]].concat();
        admin.call(&words).to_string()
    };
    assert!(set(&mut admin, "").ends_with(REFUSED));
    assert!(server.log().contains("tls-key-file-pass is not set"), "{}", server.log());
    assert!(set(&mut admin, "12345").ends_with(REFUSED));
    assert_eq!(set(&mut admin, "1234"), "OK");
    // The new one is shown now, and this client does not trust it.
    assert!(!is_served(authority.connect(port, None)));
}

#[test]
fn a_certificate_of_version_1_is_shown() {
    let authority = Authority::new();
    for (name, content) in VERSION_1 {
        std::fs::write(authority.path(name), content).expect("written");
    }
    let (server, port) = authority.start(&["--tls-auth-clients", "no"]);
    let mut admin = server.client();
    let (certificate, key) = (authority.path("v1.crt"), authority.path("v1.key"));
    let words = ["CONFIG", "SET", "tls-cert-file", &certificate, "tls-key-file"];
    let wrong = authority.path("server.key");
    assert!(admin.call(&[&words[..], &[&*wrong]].concat()).to_string().ends_with(REFUSED));
    assert!(server.log().contains("it is not the key of the certificate"), "{}", server.log());
    assert!(admin.call(&[&words[..], &[&*key]].concat()).is_ok());
    // OpenSSL clients accept such a certificate from a server, rustls clients do not.
    let output = Command::new("redis-cli")
        .args(["-p", &port.to_string(), "--tls", "--cacert", &certificate, "PING"])
        .output()
        .expect("redis-cli");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "PONG", "{output:?}");
}

#[test]
fn what_is_not_tls_ends_its_own_connection_only() {
    let authority = Authority::new();
    let (server, port) = authority.start(&[]);
    let mut served = authority.client(port);
    // Half of a handshake, many times.
    let waiting: Vec<TcpStream> = (0..200)
        .map(|_| {
            let mut socket = TcpStream::connect(("127.0.0.1", port)).expect("connected");
            socket.write_all(&[22, 3, 1, 2, 0, 1, 0]).expect("sent");
            socket
        })
        .collect();
    // Plain text on the TLS port, and the reverse.
    let mut socket = TcpStream::connect(("127.0.0.1", port)).expect("connected");
    socket.write_all(b"*1\r\n$4\r\nPING\r\n").expect("sent");
    let mut answer = Vec::new();
    let _ = socket.read_to_end(&mut answer);
    assert!(answer.is_empty(), "no reply, and no alert either: {answer:?}");
    assert!(!is_served(authority.connect(server.port(), Some("client"))));
    // A client that renegotiates, or sends bytes that are no record after the handshake.
    let mut stream = authority.connect(port, Some("client"));
    shown(&mut stream);
    stream.sock.write_all(&[0xff; 4096]).expect("sent");
    assert!(!is_served(stream));
    served.check("PING", "PONG");
    assert!(is_served(authority.connect(port, Some("client"))));
    drop(waiting);
}

#[test]
fn a_start_that_cannot_encrypt_is_refused() {
    let authority = Authority::new();
    let refused = |leave: &str, more: &[&str]| {
        let arguments = authority.arguments(free_port());
        let kept = arguments.chunks(2).filter(|pair| pair[0] != leave).flatten().cloned();
        let launch = Launch::perdura_volatile().args(kept).args(more.iter().copied());
        let ended = launch.run_to_end();
        assert!(!ended.status.success(), "{leave} {more:?}");
        ended.log
    };
    let text = refused("--tls-cert-file", &[]);
    assert!(text.contains("No tls-cert-file configured!"), "{text}");
    let text = refused("--tls-ca-cert-file", &[]);
    assert!(text.contains("Either tls-ca-cert-file or tls-ca-cert-dir"), "{text}");
    let text = refused("", &["--tls-protocols", "SSLv3"]);
    assert!(text.contains("tls-protocols 'SSLv3'"), "{text}");
    let text = refused("", &["--tls-ciphers", "RC4-MD5"]);
    assert!(text.contains("tls-ciphers 'RC4-MD5'"), "{text}");
}

#[test]
fn the_ports_change_places_while_the_server_runs() {
    let authority = Authority::new();
    let (server, port) = authority.start(&[]);
    let mut client = authority.client(port);
    let plain = server.port().to_string();
    client.check("CONFIG SET port 0", "OK");
    assert!(client.call(&["CONFIG", "SET", "tls-port", &plain]).is_ok());
    assert!(is_served(authority.connect(server.port(), Some("client"))));
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "the old port is closed");
    assert_eq!(client.info("server")["tcp_port"], plain);
    client.check("CONFIG SET tls-port 0", "OK");
    assert!(client.call(&["CONFIG", "SET", "port", &plain]).is_ok());
    server.client().check("PING", "PONG");
    client.check("PING", "PONG");
}

#[test]
fn migrate_encrypts_with_tls_cluster() {
    let authority = Authority::new();
    let (from, _) = authority.start(&["--tls-cluster", "yes"]);
    let (to, port) = authority.start(&[]);
    let mut client = from.client();
    client.check("SET k v", "OK");
    // The plain port of the other server does not speak TLS.
    let plain = to.port().to_string();
    let reply = client.call(&["MIGRATE", "127.0.0.1", &plain, "k", "0", "2000"]).to_string();
    assert!(reply.contains("IOERR"), "{reply}");
    client.check("EXISTS k", "(integer) 1");
    let reply = client.call(&["MIGRATE", "127.0.0.1", &port.to_string(), "k", "0", "5000"]);
    assert_eq!(reply.to_string(), "OK");
    to.client().check("GET k", "\"v\"");
    // A server without a known authority's signature gets nothing.
    let stranger = Authority::new();
    let (_stranger, port) = stranger.start(&["--tls-auth-clients", "no"]);
    client.check("SET k v", "OK");
    let reply = client.call(&["MIGRATE", "127.0.0.1", &port.to_string(), "k", "0", "2000"]);
    assert!(reply.to_string().contains("IOERR"), "{reply}");
    client.check("EXISTS k", "(integer) 1");
}

#[test]
fn redis_cli_is_served() {
    let authority = Authority::new();
    let (_server, port) = authority.start(&[]);
    let run = |certificate: &[&str]| {
        let mut command = Command::new("redis-cli");
        command.args(["-p", &port.to_string(), "--tls", "--cacert", &authority.path("ca.crt")]);
        command.args(certificate).args(["SET", "k", "v"]);
        let output = command.output().expect("redis-cli");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    let (certificate, key) = (authority.path("client.crt"), authority.path("client.key"));
    assert!(Path::new(&certificate).exists());
    assert_eq!(run(&["--cert", &certificate, "--key", &key]), "OK");
    assert_ne!(run(&[]), "OK");
}
