//! Time limits for connections that are not clients yet: those that begin TLS, and those that ask
//! for metrics.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tokio::sync::oneshot;

use super::ground::Ground;
use super::{At, Row, row};
use crate::config::Values;
use crate::metrics::http;
use crate::net::tls::Tls;

/// Returns both ends of a connection; the second is the server's.
fn pair(ground: &Ground) -> (TcpStream, tokio::net::TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let client = TcpStream::connect(listener.local_addr().expect("one")).expect("a connection");
    let (served, _) = listener.accept().expect("the same");
    [&client, &served].iter().for_each(|socket| socket.set_nonblocking(true).expect("a flag"));
    let _inside = ground.stage.runtime.enter();
    (client, tokio::net::TcpStream::from_std(served).expect("a socket"))
}

/// Returns a TLS configuration for clients, with a self-signed certificate.
fn tls() -> Tls {
    let folder = tempfile::tempdir().expect("a folder");
    let own = rcgen::generate_simple_self_signed([String::from("server")]).expect("a certificate");
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("crt"), own.cert.pem()).expect("written");
    std::fs::write(path("key"), own.signing_key.serialize_pem()).expect("written");
    let mut values = Values::default();
    for (name, value) in [
        ("tls-port", "1"),
        ("tls-auth-clients", "no"),
        ("tls-cert-file", &path("crt")),
        ("tls-key-file", &path("key")),
    ] {
        values.set(name.as_bytes(), &[value.as_bytes()]).expect("a directive");
    }
    let tls = Tls::default();
    tls.configure(&values).expect("a configuration");
    tls
}

/// Returns true if the server gives up a client that has sent this, after some time.
fn is_given_up(ground: &Ground, tls: &Tls, sent: &[u8], ms: u64) -> bool {
    let (mut client, served) = pair(ground);
    client.write_all(sent).expect("a short one");
    let ended = Arc::new(AtomicBool::new(false));
    let (acceptor, done) = (tls.acceptor().expect("configured"), Arc::clone(&ended));
    ground.stage.runtime.spawn(async move {
        assert!(acceptor.accept(served).await.is_err(), "there was no handshake");
        done.store(true, Relaxed);
    });
    ground.stage.run_idle();
    ground.pass(ms);
    ended.load(Relaxed)
}

/// Returns what an HTTP client that has sent this has received after some time, and whether its
/// connection has ended.
fn answer(ground: &Ground, sent: &[u8], ms: u64) -> (String, bool) {
    let (mut client, served) = pair(ground);
    client.write_all(sent).expect("a short one");
    let (_sender, yields) = oneshot::channel();
    let ended = Arc::new(AtomicBool::new(false));
    let done = Arc::clone(&ended);
    ground.stage.runtime.spawn(async move {
        http::serve(served, yields, |_| async { None }).await;
        done.store(true, Relaxed);
    });
    ground.stage.run_idle();
    ground.pass(ms);
    let mut bytes = [0; 4096];
    let read = client.read(&mut bytes).unwrap_or(0);
    (String::from_utf8_lossy(&bytes[..read]).into_owned(), ended.load(Relaxed))
}

pub(super) fn rows() -> Vec<Row> {
    let tls = Arc::new(tls());
    let handshake = |sent: &'static [u8]| {
        let tls = Arc::clone(&tls);
        move |ground: &Ground, _: u64, amount: u64| is_given_up(ground, &tls, sent, amount)
    };
    let request = |sent: &'static [u8]| {
        move |ground: &Ground, _: u64, amount: u64| answer(ground, sent, amount).0.contains(" 408 ")
    };
    let lingers = |ground: &Ground, _: u64, amount: u64| {
        let (text, has_ended) = answer(ground, b"GET /nothing HTTP/1.1\r\n\r\n", amount);
        assert!(text.contains(" 404 "), "{text}");
        has_ended
    };
    vec![
        row("a TLS handshake", (10, 10), 1000, At, handshake(b"")),
        row("a TLS handshake that has begun", (10, 10), 1000, At, handshake(b"\x16\x03\x01")),
        row("a request for metrics", (5, 5), 1000, At, request(b"")),
        row("a request for metrics that has begun", (5, 5), 1000, At, request(b"GET /metrics")),
        row("what follows an answer", (1, 1), 1000, At, lingers),
    ]
}
