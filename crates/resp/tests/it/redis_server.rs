//! Error texts, numbers and patterns compared with the system's redis-server.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use resp::number::{LongDouble, parse_f64, parse_i64, write_f64};
use resp::{Limits, Next, Parser, Writer, glob};
use testkit::{Launch, Reply, Server};

/// Returns everything that redis-server sends for these bytes before either side closes the
/// connection.
fn redis_says(server: &Server, request: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(server.address()).expect("a connection");
    let mut reply = Vec::new();
    // The server may have closed the connection before all of the request was sent.
    let _ = stream.write_all(request);
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.read_to_end(&mut reply);
    reply
}

/// Returns our parser's results for them: `+PONG` for every command, then the error.
fn we_say(request: &[u8], limits: &Limits) -> Vec<u8> {
    let (mut parser, mut out) = (Parser::new(), Writer::default());
    loop {
        match parser.next(request, limits) {
            Ok(Next::Command) => out.simple("PONG"),
            Ok(Next::Empty) => {}
            Ok(Next::Partial { .. }) => return out.take(),
            Err(error) => {
                out.protocol_error(&error);
                return out.take();
            }
        }
    }
}

#[track_caller]
fn check(server: &Server, limits: &Limits, request: &[u8]) {
    let shown = |reply: Vec<u8>| reply.escape_ascii().to_string();
    let start = &request[..request.len().min(60)];
    assert_eq!(
        shown(we_say(request, limits)),
        shown(redis_says(server, request)),
        "{}",
        start.escape_ascii()
    );
}

#[test]
fn protocol_errors_are_those_of_redis() {
    let server = Launch::redis().start();
    let limits = Limits::default();
    let requests: &[&[u8]] = &[
        b"*1\r\n$4\r\nPING\r\n",
        b"PING\r\n\"PING\"\n'PING'\r\n \t\x0b PING\r\n",
        b"*0\r\n*-1\r\n*-2147483648\r\n*-99999999999\r\n\r\nPING\r\n",
        b"*1\r\n$4\r\nPINGxy*1\r\n$4\r\nPING\r\n",
        b"*1\rx$4\ryPING\r\n",
        b"*abc\r\n",
        b"*\r\n",
        b"*01\r\n",
        b"*+1\r\n",
        b"* 1\r\n",
        b"*-0\r\n",
        b"*2147483647\r\n",
        b"*2147483648\r\n",
        b"*1048577\r\n$4\r\nPING\r\n",
        b"*99999999999999999999\r\n",
        b"*1\r\n$-1\r\n",
        b"*1\r\n$\r\n",
        b"*1\r\n$04\r\nPING\r\n",
        b"*1\r\n$4x\r\nPING\r\n",
        b"*1\r\n$536870912\r\n",
        b"*1\r\n$536870913\r\n",
        b"*1\r\n:4\r\nPING\r\n",
        b"*1\r\n*1\r\n$4\r\nPING\r\n",
        b"*1\r\n\r\n",
        b"*1\r\n\n\r\n",
        b"*1\r\n\xff\r\n",
        b"*1\r\n'\r\n",
        b"*1\r\nPING",
        b"PING \"x\r\n",
        b"PING 'x\r\n",
        b"PING \"x\"y\r\n",
        b"PING\r\nPING\r\n*1\r\n$4\r\nPING\r\n*1\r\n$x\r\nPING\r\n",
        b"$4\r\n*1\r\n:",
    ];
    for request in requests {
        // A line that is a command of its own would get its own error from redis-server.
        if !request.starts_with(b"$4") {
            check(&server, &limits, request);
        }
    }
    for start in ["*", "*1\r\n$", "PING "] {
        check(&server, &limits, &[start.as_bytes(), &[b'1'; 80 * 1024]].concat());
    }
    check(&server, &limits, &b"*1\r\n".repeat(10_000));
}

#[test]
fn strangers_get_the_limits_of_redis() {
    let server = Launch::redis().args(["--requirepass", "secret"]).start();
    let limits = Limits { authenticated: false, ..Limits::default() };
    check(&server, &limits, b"*10\r\n");
    check(&server, &limits, b"*11\r\n");
    check(&server, &limits, b"*1\r\n$16384\r\n");
    check(&server, &limits, b"*1\r\n$16385\r\n");
    check(&server, &limits, b"*2147483648\r\n");
}

#[test]
fn quotes_are_those_of_redis() {
    let server = Launch::redis().start();
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..500 {
        let pieces =
            ["\"", "'", "\\", "x", "41", "a", " ", "\t", "\\n", "\\\"", "\x0b", "\u{ff}", "\r"];
        let words: String =
            (0..random.usize(0..9)).map(|_| pieces[random.usize(..pieces.len())]).collect();
        let line = format!("ECHO {words}\r\n").into_bytes();
        let ours = echo(&line);
        let theirs = redis_says(&server, &line);
        assert_eq!(ours.escape_ascii().to_string(), theirs.escape_ascii().to_string(), "{words:?}");
    }
}

/// Returns the reply to a line that starts with ECHO.
fn echo(line: &[u8]) -> Vec<u8> {
    let (mut parser, mut out) = (Parser::new(), Writer::default());
    match parser.next(line, &Limits::default()) {
        Ok(_) => match parser.command(0, line).arguments().collect::<Vec<_>>()[..] {
            [name, text] if name == b"ECHO" => out.bulk(text),
            [name, ..] if name == b"ECHO" => {
                out.error("ERR wrong number of arguments for 'echo' command");
            }
            _ => unreachable!("a space follows ECHO"),
        },
        Err(error) => out.protocol_error(&error),
    }
    out.take()
}

/// Returns numbers as people write them, as programs write them, and as neither should.
fn number(random: &mut fastrand::Rng) -> String {
    let digits = |random: &mut fastrand::Rng, most: usize| -> String {
        (0..random.usize(..=most)).map(|_| random.digit(10)).collect()
    };
    let sign = ["", "", "-", "+"][random.usize(..4)];
    match random.u8(..12) {
        0..3 => random.i64(-1_000_000..1_000_000).to_string(),
        3..6 => format!("{sign}{}.{}", digits(random, 6), digits(random, 6)),
        6 => format!("{sign}{}.{}", digits(random, 25), digits(random, 25)),
        7 => format!("{sign}{}e{}", digits(random, 6), random.i32(-30..30)),
        8 => format!("{sign}1.{}e{}", digits(random, 30), random.i32(-5100..5100)),
        9 => f64::from_bits(random.u64(..)).to_string(),
        10 => format!("{sign}0x{:x}.{:x}p{}", random.u32(..), random.u16(..), random.i32(-90..90)),
        _ => {
            let odd = [
                "",
                "inf",
                "-Infinity",
                "nan",
                "1e",
                "0x",
                ".",
                "-",
                "1e5 ",
                " 1",
                "1.5.2",
                "0e9999999",
            ];
            odd[random.usize(..odd.len())].to_owned()
        }
    }
}

#[test]
fn incrbyfloat_counts_as_redis() {
    let server = Launch::redis().start();
    let mut random = fastrand::Rng::with_seed(11);
    let pairs: Vec<_> = (0..20_000).map(|_| (number(&mut random), number(&mut random))).collect();
    let commands: Vec<Vec<&str>> = pairs
        .iter()
        .flat_map(|(a, b)| [vec!["SET", "k", a], vec!["INCRBYFLOAT", "k", b]])
        .collect();
    let replies = server.client().pipeline(&commands).expect("replies");
    for ((a, b), reply) in pairs.iter().zip(replies.chunks(2)) {
        let parsed = LongDouble::parse(a.as_bytes()).zip(LongDouble::parse(b.as_bytes()));
        let ours = match parsed.map(|(a, b)| a.checked_add(b)) {
            None => Reply::Error("ERR value is not a valid float".into()),
            Some(None) => Reply::Error("ERR increment would produce NaN or Infinity".into()),
            Some(Some(sum)) => {
                let mut text = Vec::new();
                sum.write(&mut text);
                Reply::Bulk(text)
            }
        };
        assert_eq!(ours, reply[1], "{a} + {b}");
    }
}

#[test]
fn doubles_are_read_and_written_as_redis_does() {
    let server = Launch::redis().start();
    let mut random = fastrand::Rng::with_seed(13);
    let texts: Vec<_> = (0..20_000).map(|_| number(&mut random)).collect();
    let commands: Vec<Vec<&str>> = texts
        .iter()
        .flat_map(|text| [vec!["DEL", "z"], vec!["ZADD", "z", text, "m"], vec!["ZSCORE", "z", "m"]])
        .collect();
    let replies = server.client().pipeline(&commands).expect("replies");
    for (text, reply) in texts.iter().zip(replies.chunks(3)) {
        let ours = match parse_f64(text.as_bytes()) {
            None => Reply::Nil,
            Some(value) => {
                let mut text = Vec::new();
                // A small sorted set keeps whole scores as integers, which have no negative zero.
                write_f64(&mut text, if value == 0.0 { 0.0 } else { value });
                Reply::Bulk(text)
            }
        };
        assert_eq!(ours, reply[2], "{text}");
    }
}

#[test]
fn integers_are_read_as_redis_does() {
    let server = Launch::redis().start();
    let mut random = fastrand::Rng::with_seed(17);
    let texts: Vec<String> = (0..5_000)
        .map(|_| match random.u8(..4) {
            0 => number(&mut random),
            1 => random.i64(..).to_string(),
            2 => (i128::from(random.i64(..)) + i128::from(random.i64(..))).to_string(),
            _ => format!("{}{}", ["-", "0", "+", " ", ""][random.usize(..5)], random.u8(..)),
        })
        .collect();
    let commands: Vec<Vec<&str>> =
        texts.iter().flat_map(|t| [vec!["SET", "k", t], vec!["DECRBY", "k", "0"]]).collect();
    let replies = server.client().pipeline(&commands).expect("replies");
    for (text, reply) in texts.iter().zip(replies.chunks(2)) {
        let ours = parse_i64(text.as_bytes());
        let theirs = if reply[1].is_error() { None } else { reply[1].int() };
        assert_eq!(ours, theirs, "{text}");
    }
}

#[test]
fn patterns_match_as_in_redis() {
    let server = Launch::redis().start();
    let mut random = fastrand::Rng::with_seed(19);
    let mut text = |alphabet: &[u8], most: usize| -> Vec<u8> {
        (0..random.usize(..=most)).map(|_| alphabet[random.usize(..alphabet.len())]).collect()
    };
    let cases: Vec<(Vec<u8>, Vec<u8>)> = (0..20_000)
        .map(|_| (text(b"aab*?[]^-\\c\xf0A", 9), text(b"aabbc-]^\\\xf0\xf1A", 6)))
        .collect();
    let commands: Vec<Vec<&[u8]>> = cases
        .iter()
        .flat_map(|(pattern, key)| {
            [vec![&b"FLUSHALL"[..]], vec![b"SET", key, b""], vec![b"KEYS", pattern]]
        })
        .collect();
    let replies = server.client().pipeline(&commands).expect("replies");
    for ((pattern, key), reply) in cases.iter().zip(replies.chunks(3)) {
        let shown = (pattern.escape_ascii().to_string(), key.escape_ascii().to_string());
        assert_eq!(glob::matches(pattern, key), reply[2].items().len() == 1, "{shown:?}");
    }
}
