//! The handshake: what is sent, which answers count, and that cuts, early ends and strange peers
//! change nothing else.

use std::io::{self, BufReader, ErrorKind};

use proptest::prelude::*;
use replication::Id;
use replication::handshake::{Answer, Handshake, HandshakeError, Role, ask_role, handshake};

use crate::pieces::{Pieces, cuts};

const ID: &[u8] = b"0123456789abcdef0123456789abcdef01234567";
const OTHER: &[u8] = b"fedcba9876543210fedcba9876543210fedcba98";

fn id(digits: &[u8]) -> Id {
    Id::parse(digits).expect("an ID")
}

fn resuming() -> Handshake {
    Handshake { resume: Some((id(ID), 41)), listening_port: 7000, ..Handshake::default() }
}

/// Returns the outcome for a peer that answers with these lines, as a text.
fn outcome(asks: &Handshake, lines: &[&str]) -> String {
    let answers = lines.join("\r\n") + "\r\n";
    match handshake(&mut answers.as_bytes(), &mut Vec::new(), asks) {
        Ok(answer) => format!("{answer:?}"),
        Err(error) => error.to_string(),
    }
}

#[track_caller]
fn check(asks: &Handshake, lines: &[&str], expected: &str) {
    assert_eq!(outcome(asks, lines), expected, "{lines:?}");
}

/// Checks the outcome of an answer to PSYNC, by a replica that resumes.
#[track_caller]
fn check_psync(answer: &str, expected: &str) {
    check(&resuming(), &["+PONG", "+OK", "+OK", answer], expected);
}

#[track_caller]
fn check_sent(asks: &Handshake, expected: &[&str]) {
    let mut sent = Vec::new();
    let mut answers = "+PONG\r\n".to_owned() + &"+OK\r\n".repeat(expected.len() - 2);
    answers += &format!("+FULLRESYNC {} 0\r\n", ID.escape_ascii());
    handshake(&mut answers.as_bytes(), &mut sent, asks).unwrap();
    let mut packets = String::new();
    for command in expected {
        let words: Vec<_> = command.split(' ').collect();
        packets += &format!("*{}\r\n", words.len());
        for word in words {
            packets += &format!("${}\r\n{word}\r\n", word.len());
        }
    }
    assert_eq!(sent.escape_ascii().to_string(), packets.as_bytes().escape_ascii().to_string());
}

#[test]
fn a_replica_says_who_it_is_and_what_it_has() {
    let plain = Handshake { listening_port: 6380, ..Handshake::default() };
    let port = "REPLCONF listening-port 6380";
    let capa = "REPLCONF capa eof capa psync2 capa perdura";
    check_sent(&plain, &["PING", port, capa, "PSYNC ? -1"]);
    let all = Handshake {
        user: Some(b"replica".to_vec()),
        password: Some(b"secret".to_vec()),
        announce_ip: Some(b"10.0.0.1".to_vec()),
        version: Some(b"9.1.0".to_vec()),
        resume: Some((id(ID), 41)),
        failover: true,
        ..plain.clone()
    };
    let psync = format!("PSYNC {} 42 FAILOVER", ID.escape_ascii());
    let ip = "REPLCONF ip-address 10.0.0.1";
    let version = "REPLCONF version 9.1.0";
    check_sent(&all, &["PING", "AUTH replica secret", port, ip, capa, version, &psync]);
    let password = Handshake { password: all.password.clone(), ..plain.clone() };
    check_sent(&password, &["PING", "AUTH secret", port, capa, "PSYNC ? -1"]);
    let user = Handshake { user: all.user, failover: true, ..plain };
    check_sent(&user, &["PING", port, capa, "PSYNC ? -1"]);
}

#[test]
fn the_answers_to_psync_are_a_full_dump_or_a_continuation() {
    let id = ID.escape_ascii();
    check_psync(
        &format!("+FULLRESYNC {id} 1234"),
        &format!("Full {{ id: Id({id}), offset: 1234 }}"),
    );
    check_psync("+CONTINUE", "Continue { id: None }");
    let other = OTHER.escape_ascii();
    check_psync(&format!("+CONTINUE {other}"), &format!("Continue {{ id: Some(Id({other})) }}"));
    check_psync(&format!("\n\n\r\n+CONTINUE {id}"), &format!("Continue {{ id: Some(Id({id})) }}"));
}

#[test]
fn a_peer_says_its_role_and_what_it_continues() {
    let ask = |answer: &str| {
        let (mut input, mut sent) = (answer.as_bytes(), Vec::new());
        let role = ask_role(&mut input, &mut sent).map_err(|error| error.to_string());
        assert_eq!(sent, b"*2\r\n$4\r\nINFO\r\n$11\r\nreplication\r\n");
        (role, input.len())
    };
    let bulk = |text: &str| format!("${}\r\n{text}\r\n", text.len());
    let other = OTHER.escape_ascii();
    let text = |first| {
        let second = format!("master_replid2:{other}\r\nsecond_repl_offset:{first}\r\n");
        bulk(&format!(
            "# Replication\r\nrole:master\r\nmaster_replid:{}\r\n{second}",
            "1".repeat(40)
        ))
    };
    let continues = [Some((id(OTHER), 41)), None];
    let primary = Role { is_primary: true, continues, ..Role::default() };
    assert_eq!(ask(&(text(42) + "+more")), (Ok(primary), 5), "no more is taken");
    assert_eq!((primary.until(id(OTHER)), primary.until(id(ID))), (Some(41), None));
    let alone = Role { continues: [None; 2], ..primary };
    assert_eq!(ask(&text(-1)).0, Ok(alone));
    assert!(alone.is_at_start() && !primary.is_at_start());
    assert!(!Role { end: 1, ..alone }.is_at_start());
    assert_eq!(ask(&bulk("role:slave")).0, Ok(Role::default()));
    for answer in [&bulk("role:sentinel"), &bulk(""), "+OK\r\n", "$-1\r\n", "$99999999\r\n"] {
        assert!(ask(answer).0.is_err(), "{answer}");
    }
    let text = text(42);
    for cut in 0..text.len() {
        assert!(ask(&text[..cut]).0.is_err(), "{cut}");
    }
    let refused = ask("-NOPERM no permissions\r\n").0.expect_err("it is refused");
    assert_eq!(refused, "the primary refused: NOPERM no permissions");
}

#[test]
fn errors_are_told_apart() {
    let busy = "the primary cannot serve replicas now: ";
    for line in ["NOMASTERLINK Can't SYNC while not connected with my master", "LOADING Redis is"] {
        check_psync(&format!("-{line}"), &format!("{busy}{line}"));
        check(&resuming(), &[&format!("-{line}")], &format!("{busy}{line}"));
    }
    check(
        &resuming(),
        &["-MASTERDOWN Link"],
        "the primary cannot serve replicas now: MASTERDOWN Link",
    );
    let unknown =
        "the primary does not know PSYNC: it is older than Redis 2.8, or renames the command";
    check_psync("-ERR unknown command `PSYNC`, with args beginning with: `x`", unknown);
    check_psync("-ERR unknown command 'PSYNC'", unknown);
    check_psync("-ERR other", "the primary refused: ERR other");
    check_psync("-LOADINGS", "the primary refused: LOADINGS");
    check(&resuming(), &["-DENIED Redis is"], "the primary refused: DENIED Redis is");
    let refused = "Unable to AUTH to MASTER: ";
    check_psync(
        "-NOAUTH Authentication required.",
        &format!("{refused}NOAUTH Authentication required."),
    );
    check_psync("-NOPERM this user", &format!("{refused}NOPERM this user"));
    let password = Handshake { password: Some(b"x".to_vec()), ..resuming() };
    let wrong = "WRONGPASS invalid username-password pair or user is disabled.";
    check(
        &password,
        &["-NOAUTH Authentication required.", &format!("-{wrong}")],
        &format!("{refused}{wrong}"),
    );
}

#[test]
fn errors_without_an_effect_are_passed_over() {
    let asks = Handshake { version: Some(b"9.1.0".to_vec()), ..resuming() };
    for pong in ["-NOAUTH Authentication required.", "-NOPERM x", "-ERR operation not permitted"] {
        check(
            &asks,
            &[
                pong,
                "-ERR a",
                "",
                "-ERR Unrecognized REPLCONF option: version",
                "-ERR c",
                "+CONTINUE",
            ],
            "Continue { id: None }",
        );
    }
}

#[test]
fn a_line_that_answers_nothing_ends_the_handshake() {
    let id = ID.escape_ascii().to_string();
    let none = |to: &str, line: &str| {
        format!("the peer's answer to {to} is none that a primary gives: {line}")
    };
    check(&resuming(), &["HTTP/1.1 400 Bad Request"], &none("PING", "HTTP/1.1 400 Bad Request"));
    check(&resuming(), &["+OK"], &none("PING", "OK"));
    check(&resuming(), &["$4", "PONG"], &none("PING", "$4"));
    check(&resuming(), &["+PONG", ":1"], &none("REPLCONF", ":1"));
    check(&resuming(), &["\u{1b}[1m"], &none("PING", "\\u{1b}[1m"));
    for answer in [
        "OK".to_owned(),
        "FULLRESYNC".to_owned(),
        format!("FULLRESYNC {id}"),
        format!("FULLRESYNC {id} -1"),
        format!("FULLRESYNC {id} 1x"),
        format!("FULLRESYNC {id} 99999999999999999999"),
        format!("FULLRESYNC {id} 1 2"),
        format!("FULLRESYNC {} 1", &id[1..]),
        format!("CONTINUE {}", &id[1..]),
        format!("CONTINUE {id} 1"),
        "RDBCHANNELSYNC 5".to_owned(),
    ] {
        check_psync(&format!("+{answer}"), &none("PSYNC", &answer));
    }
    for answer in ["CONTINUE", &format!("CONTINUE {id}")] {
        let lines = ["+PONG", "+OK", "+OK", &format!("+{answer}")];
        check(&Handshake::default(), &lines, &none("PSYNC", answer));
    }
}

/// A dialogue with keep-alive newlines, and what follows it.
const ANSWERS: &[u8] = b"\n+PONG\r\n+OK\r\n-ERR no\r\n\n\n+CONTINUE \
    fedcba9876543210fedcba9876543210fedcba98\r\n\n*1\r\n$4\r\nPING\r\n";
const FOLLOWING: &[u8] = b"\n*1\r\n$4\r\nPING\r\n";

#[test]
fn it_does_not_matter_where_answers_are_cut_and_nothing_beyond_is_taken() {
    for at in cuts(ANSWERS.len()) {
        let mut input = Pieces::cut(ANSWERS, &at, false);
        let answer = handshake(&mut input, &mut Vec::new(), &resuming()).unwrap();
        assert_eq!(answer, Answer::Continue { id: Some(id(OTHER)) }, "{at:?}");
        assert_eq!(input.rest(), FOLLOWING, "{at:?}");
    }
}

#[test]
fn a_connection_that_ends_early_is_an_error() {
    for end in 0..ANSWERS.len() - FOLLOWING.len() {
        let result = handshake(&mut &ANSWERS[..end], &mut Vec::new(), &resuming());
        assert!(
            matches!(&result, Err(HandshakeError::Io(e)) if e.kind() == ErrorKind::UnexpectedEof),
            "{end}: {result:?}"
        );
    }
}

#[test]
fn an_answer_without_an_end_is_refused() {
    let mut endless = BufReader::new(io::repeat(b'+'));
    let result = handshake(&mut endless, &mut Vec::new(), &resuming());
    assert!(matches!(result, Err(HandshakeError::LineTooLong)), "{result:?}");
}

/// A peer that closed its end.
struct Closed(ErrorKind);

impl io::Write for Closed {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(self.0.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_a_peer_said_before_it_closed_is_told() {
    let said = b"-ERR max number of clients reached\r\n";
    let run = |input: &[u8], kind| {
        handshake(&mut &input[..], &mut Closed(kind), &resuming()).unwrap_err().to_string()
    };
    let refused = "the primary refused: ERR max number of clients reached";
    assert_eq!(run(said, ErrorKind::BrokenPipe), refused);
    assert_eq!(run(said, ErrorKind::TimedOut), "the connection to the primary failed: timed out");
}

proptest! {
    #[test]
    fn no_answers_panic(lines in prop::collection::vec(
        "[+-]?(PONG|OK|FULLRESYNC|CONTINUE)?[ 0-9a-f\\r]{0,45}\\n",
        0..8,
    )) {
        let input = "+PONG\n".to_owned() + &lines.concat();
        let _ = handshake(&mut input.as_bytes(), &mut Vec::new(), &resuming());
    }
}
