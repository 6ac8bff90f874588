//! Malicious or ignorant clients: they may lose their own connection, but affect nobody else.
//!
//! Each test also runs against redis-server if Redis defines the outcome. A bystander, connected
//! before, must be answered during and after; the server's memory stays within its limits.
//! limits allow.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use testkit::{Client, Launch, Server};

/// The maximum time for the server to notice what a client did.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs the same test on redis-server and on Perdura with these options.
fn on_both(options: &[&str], test: impl Fn(&Server, &mut Client)) {
    for launch in [Launch::redis(), Launch::perdura_volatile()] {
        let server = launch.args(options.iter().copied()).start();
        let mut bystander = server.client();
        bystander.check("SET kept value", "OK");
        test(&server, &mut bystander);
        bystander.check("GET kept", "\"value\"");
        server.client().check("GET kept", "\"value\"");
        assert!(!server.log().contains("panicked"), "{}", server.log());
    }
}

fn connect(server: &Server) -> TcpStream {
    TcpStream::connect(server.address()).expect("a connection")
}

/// Bytes of the server's resident memory.
fn resident(server: &Server) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("a process");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("its memory");
    let kilobytes = line.split_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok());
    kilobytes.expect("a number") * 1024
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Returns true if the server closes the connection, possibly after a reply.
fn is_closed(mut stream: &TcpStream) -> bool {
    stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => true,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
    out
}

#[test]
fn a_length_that_is_only_claimed_costs_no_memory() {
    on_both(&[], |server, bystander| {
        let before = resident(server);
        let claimants: Vec<TcpStream> = (0..40)
            .map(|_| {
                let mut stream = connect(server);
                stream.write_all(b"*2\r\n$4\r\nECHO\r\n$536870912\r\nabc").expect("a request");
                stream
            })
            .collect();
        bystander.check("PING", "PONG");
        thread::sleep(Duration::from_millis(300));
        bystander.check("PING", "PONG");
        let grown = resident(server).saturating_sub(before);
        assert!(grown < 200 << 20, "40 claims of 512 MiB cost {} MiB", grown >> 20);
        drop(claimants);
    });
}

#[test]
fn many_arguments_that_are_only_claimed_cost_no_memory() {
    on_both(&[], |server, bystander| {
        let before = resident(server);
        let claimants: Vec<TcpStream> = (0..40)
            .map(|_| {
                let mut stream = connect(server);
                stream.write_all(b"*2147483647\r\n$4\r\nMSET\r\n").expect("a request");
                stream
            })
            .collect();
        bystander.check("PING", "PONG");
        let grown = resident(server).saturating_sub(before);
        assert!(grown < 100 << 20, "40 claims cost {} MiB", grown >> 20);
        drop(claimants);
    });
}

#[test]
fn a_large_argument_arrives_whole() {
    on_both(&[], |server, _| {
        let mut client = server.client();
        let value: Vec<u8> = (0..20 << 20).map(|n| (n % 251) as u8).collect();
        client.send(&[&b"SET"[..], b"large", &value]).expect("a request");
        assert!(client.receive().expect("a reply").is_ok());
        assert_eq!(client.call(&["GET", "large"]).bytes(), Some(&value[..]));
        client.check("DEL large", "(integer) 1");
    });
}

#[test]
fn a_client_that_never_reads_is_closed() {
    let limit = ["--client-output-buffer-limit", "normal 10mb 0 0"];
    on_both(&limit, |server, bystander| {
        let value = vec![b'v'; 1 << 20];
        bystander.call(&[&b"SET"[..], b"large", &value]);
        let before = resident(server);
        let mut deaf = connect(server);
        deaf.set_write_timeout(Some(PATIENCE)).expect("a time limit");
        // The server may close the connection in the middle of this.
        let _ = deaf.write_all(&command(&[b"GET", b"large"]).repeat(300));
        let closed = |client: &mut Client| client.info("clients")["connected_clients"] == "1";
        wait_until("the client is still connected", || closed(bystander));
        let grown = resident(server).saturating_sub(before);
        assert!(grown < 100 << 20, "a client that never reads cost {} MiB", grown >> 20);
        bystander.check("DEL large", "(integer) 1");
    });
}

#[test]
fn a_request_beyond_the_query_buffer_is_closed() {
    on_both(&["--client-query-buffer-limit", "1mb"], |server, bystander| {
        let mut stream = connect(server);
        // Small arguments that never become a command; Redis does not count an argument in a buffer
        // of its own.
        let _ = stream.write_all(b"*1000000\r\n");
        let piece = b"$1000\r\n".iter().chain(&[b'x'; 999]).copied().collect::<Vec<u8>>();
        let _ = stream.write_all(&[&b"$2000000\r\n"[..], &piece.repeat(1900)].concat());
        assert!(is_closed(&stream));
        bystander.check("PING", "PONG");
    });
}

#[test]
fn empty_requests_take_no_memory() {
    on_both(&[], |server, bystander| {
        for empty in ["\n", "\r\n", "   \n", "*0\r\n", "*-1\r\n"] {
            let before = resident(server);
            let mut stream = connect(server);
            let piece = empty.repeat((1 << 20) / empty.len());
            for _ in 0..24 {
                stream.write_all(piece.as_bytes()).expect("empty requests");
                bystander.check("PING", "PONG");
            }
            stream.write_all(b"PING\r\n").expect("a request");
            let mut reply = [0; 7];
            stream.read_exact(&mut reply).expect("a reply");
            assert_eq!(&reply, b"+PONG\r\n");
            let grown = resident(server).saturating_sub(before);
            assert!(grown < 12 << 20, "{empty:?} cost {} MiB", grown >> 20);
        }
    });
}

/// A browser's request, with a command in its body, ends at the first word that is recognized.
#[test]
fn http_is_not_taken_for_commands() {
    on_both(&[], |server, bystander| {
        let body = "SET planted 1\r\n";
        for head in ["POST / HTTP/1.1", "GET / HTTP/1.1\r\nHost: here", "host: here"] {
            let mut stream = connect(server);
            let _ = write!(stream, "{head}\r\n{body}");
            assert!(is_closed(&stream), "{head}");
        }
        if !server.log().contains("Redis is starting") {
            // In the place of a header before `Host:`, where Redis executes it.
            for method in ["GET", "PUT", "OPTIONS", "head"] {
                let mut stream = connect(server);
                let _ = write!(stream, "{method} / HTTP/1.1\r\n{body}Host: here\r\n\r\n");
                assert!(is_closed(&stream), "{method}");
            }
        }
        let mut stream = connect(server);
        let _ = stream.write_all(&[command(&[b"Post", b"x"]), body.into()].concat());
        assert!(is_closed(&stream));
        bystander.check("EXISTS planted", "(integer) 0");
        bystander.check("PING", "PONG");
    });
}

#[test]
fn a_command_may_arrive_byte_by_byte() {
    on_both(&[], |server, bystander| {
        let mut slow = connect(server);
        slow.set_nodelay(true).expect("an option");
        for byte in b"*2\r\n$4\r\nECHO\r\n$3\r\na\r\n\r\nECHO 'b c'\r\n" {
            slow.write_all(&[*byte]).expect("a byte");
            bystander.check("PING", "PONG");
        }
        slow.shutdown(Shutdown::Write).expect("an end");
        let mut replies = String::new();
        slow.read_to_string(&mut replies).expect("replies");
        assert_eq!(replies, "$3\r\na\r\n\r\n$3\r\nb c\r\n");
    });
}

#[test]
fn silent_clients_are_closed_after_the_timeout() {
    on_both(&["--timeout", "1"], |server, bystander| {
        let mut spoke = Instant::now();
        let silent: Vec<TcpStream> = (0..20)
            .map(|_| {
                let mut stream = connect(server);
                stream.write_all(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100\r\nhalf").expect("a request");
                stream
            })
            .collect();
        let closed = thread::spawn(move || silent.iter().all(is_closed));
        // A client that sends something periodically stays; after a long silence it may be gone as
        // well.
        while !closed.is_finished() {
            thread::sleep(Duration::from_millis(50));
            let sent = Instant::now();
            match bystander.try_call(&["PING"]) {
                Ok(reply) => assert_eq!(reply.text(), "PONG"),
                Err(error) => {
                    let silent = spoke.elapsed();
                    assert_ne!(error.kind(), ErrorKind::WouldBlock, "no reply");
                    assert!(silent > Duration::from_millis(700), "closed after {silent:?}");
                    *bystander = server.client();
                }
            }
            spoke = sent;
        }
        assert!(closed.join().expect("the silent clients"));
    });
}

#[test]
fn strangers_cannot_nest_or_send_much() {
    for launch in [Launch::redis(), Launch::perdura_volatile()] {
        let server = launch.args(["--requirepass", "secret"]).start();
        let ask = |request: &[u8]| {
            let mut stream = connect(&server);
            let _ = stream.write_all(request);
            let _ = stream.shutdown(Shutdown::Write);
            let mut reply = String::new();
            let _ = stream.read_to_string(&mut reply);
            reply
        };
        assert_eq!(ask(&b"*1\r\n".repeat(1000)), "-ERR Protocol error: expected '$', got '*'\r\n");
        assert_eq!(ask(b"*11\r\n"), "-ERR Protocol error: unauthenticated multibulk length\r\n");
        assert_eq!(
            ask(b"*2\r\n$4\r\nECHO\r\n$16385\r\n"),
            "-ERR Protocol error: unauthenticated bulk length\r\n"
        );
        let auth_then_much = [
            command(&[b"AUTH", b"secret"]),
            command(&[&b"DEL"[..], b"k"].repeat(10)),
            command(&[b"STRLEN", &[b'x'; 20_000]]),
        ];
        assert_eq!(ask(&auth_then_much.concat()), "+OK\r\n:0\r\n:0\r\n");
        assert_eq!(ask(b"GET k\r\n"), "-NOAUTH Authentication required.\r\n");
    }
}

#[test]
fn clients_beyond_the_limit_are_notified() {
    on_both(&["--maxclients", "20"], |server, bystander| {
        // The clients that waited for the start may still be counted.
        wait_until("nobody else is here", || bystander.info("clients")["connected_clients"] == "1");
        let guests: Vec<Client> = (0..19)
            .map(|_| {
                let mut client = server.client();
                client.check("PING", "PONG");
                client
            })
            .collect();
        let mut refused = String::new();
        let mut stream = connect(server);
        let _ = stream.read_to_string(&mut refused);
        assert_eq!(refused, "-ERR max number of clients reached\r\n");
        bystander.check("PING", "PONG");
        drop(guests);
        wait_until("no place becomes free", || {
            server.client().try_call(&["PING"]).is_ok_and(|reply| reply.text() == "PONG")
        });
    });
}

#[test]
fn a_long_pipeline_is_answered_in_order() {
    on_both(&[], |server, _| {
        const COMMANDS: usize = 100_000;
        let mut writer = connect(server);
        let mut reader = writer.try_clone().expect("a second handle");
        let sender = thread::spawn(move || -> std::io::Result<()> {
            for n in 0..COMMANDS {
                if n % 2 == 0 {
                    writer.write_all(&command(&[b"ECHO", n.to_string().as_bytes()]))?;
                } else {
                    writer.write_all(format!("ECHO {n}\r\n").as_bytes())?;
                }
            }
            Ok(())
        });
        let expected: String =
            (0..COMMANDS).map(|n| format!("${}\r\n{n}\r\n", n.to_string().len())).collect();
        let mut replies = vec![0; expected.len()];
        reader.read_exact(&mut replies).expect("replies");
        sender.join().expect("the sender").expect("all was sent");
        assert_eq!(String::from_utf8_lossy(&replies), expected);
    });
}

#[test]
fn rubbish_from_many_sides_hurts_nobody() {
    on_both(&[], |server, bystander| {
        let mut random = fastrand::Rng::with_seed(23);
        for _ in 0..300 {
            let mut stream = connect(server);
            let len = random.usize(1..3000);
            let mut rubbish: Vec<u8> = (0..len).map(|_| random.u8(..)).collect();
            if random.bool() {
                rubbish.splice(0..0, *b"*3\r\n$3\r\nSET\r\n");
            }
            let _ = stream.write_all(&rubbish);
            bystander.check("PING", "PONG");
        }
        wait_until("connections are left over", || {
            bystander.info("clients")["connected_clients"] == "1"
        });
    });
}
