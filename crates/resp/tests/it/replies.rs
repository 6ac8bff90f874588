//! The reply writer in both protocols, byte for byte as in redis-server 7.0.15.

use resp::{Protocol, ProtocolError, Writer};

#[track_caller]
fn check(write: impl Fn(&mut Writer), resp2: &str, resp3: &str) {
    for (protocol, expected) in [(Protocol::Resp2, resp2), (Protocol::Resp3, resp3)] {
        let mut writer = Writer::new(protocol);
        write(&mut writer);
        assert_eq!(
            writer.as_bytes().escape_ascii().to_string(),
            expected.as_bytes().escape_ascii().to_string()
        );
    }
}

#[track_caller]
fn both(write: impl Fn(&mut Writer), expected: &str) {
    check(write, expected, expected);
}

#[test]
fn what_both_protocols_share() {
    both(|w| w.ok(), "+OK\r\n");
    both(|w| w.simple("PONG"), "+PONG\r\n");
    both(|w| w.integer(-7), ":-7\r\n");
    both(|w| w.integer(i64::MIN), ":-9223372036854775808\r\n");
    both(|w| w.bulk(""), "$0\r\n\r\n");
    both(|w| w.bulk("nine char"), "$9\r\nnine char\r\n");
    both(|w| w.bulk("ten chars!"), "$10\r\nten chars!\r\n");
    both(|w| w.bulk_integer(-42), "$3\r\n-42\r\n");
    both(|w| w.array(3), "*3\r\n");
    both(|w| w.array(1234), "*1234\r\n");
}

#[test]
fn what_they_say_differently() {
    check(|w| w.null(), "$-1\r\n", "_\r\n");
    check(|w| w.null_array(), "*-1\r\n", "_\r\n");
    check(|w| w.bulk_or_null(None), "$-1\r\n", "_\r\n");
    check(|w| w.boolean(true), ":1\r\n", "#t\r\n");
    check(|w| w.boolean(false), ":0\r\n", "#f\r\n");
    check(|w| w.double(0.1), "$19\r\n0.10000000000000001\r\n", ",0.10000000000000001\r\n");
    check(|w| w.double(3.0), "$1\r\n3\r\n", ",3\r\n");
    check(|w| w.double(f64::INFINITY), "$3\r\ninf\r\n", ",inf\r\n");
    check(|w| w.double(f64::NEG_INFINITY), "$4\r\n-inf\r\n", ",-inf\r\n");
    check(|w| w.big_number(b"123"), "$3\r\n123\r\n", "(123\r\n");
    check(|w| w.verbatim(*b"txt", "a text"), "$6\r\na text\r\n", "=10\r\ntxt:a text\r\n");
    check(|w| w.map(2), "*4\r\n", "%2\r\n");
    check(|w| w.set(5), "*5\r\n", "~5\r\n");
    check(|w| w.push(2), "*2\r\n", ">2\r\n");
}

#[test]
fn an_error_stays_on_one_line() {
    both(|w| w.error("ERR no such key"), "-ERR no such key\r\n");
    both(|w| w.error("ERR a\r\nb\r\n"), "-ERR a  b\r\n");
    both(|w| w.error("\r\n"), "-\r\n");
    both(
        |w| w.protocol_error(&ProtocolError::ExpectedBulk(b'\n')),
        "-ERR Protocol error: expected '$', got ' '\r\n",
    );
}

#[test]
fn a_bulk_string_can_be_written_in_pieces() {
    both(
        |w| {
            w.bulk_header(5);
            w.raw(b"ab");
            w.raw(b"cde");
            w.bulk_end();
        },
        "$5\r\nabcde\r\n",
    );
}

#[test]
fn a_length_can_be_given_afterwards() {
    let nested = |w: &mut Writer| {
        w.ok();
        let outer = w.deferred();
        w.integer(1);
        let inner = w.deferred();
        (0..12).for_each(|n| w.integer(n % 10));
        w.finish_set(inner, 12);
        w.finish_map(outer, 1);
    };
    let elements: String = (0..12).map(|n| format!(":{}\r\n", n % 10)).collect();
    check(
        nested,
        &format!("+OK\r\n*2\r\n:1\r\n*12\r\n{elements}"),
        &format!("+OK\r\n%1\r\n:1\r\n~12\r\n{elements}"),
    );
    both(
        |w| {
            let empty = w.deferred();
            w.finish_array(empty, 0);
        },
        "*0\r\n",
    );
}

#[test]
fn a_failed_command_takes_back_what_it_wrote() {
    both(
        |w| {
            w.ok();
            let mark = w.mark();
            w.array(2);
            w.bulk("half");
            w.truncate(mark);
            w.error("ERR no");
        },
        "+OK\r\n-ERR no\r\n",
    );
}

#[test]
fn the_protocol_may_change_on_the_way() {
    let mut writer = Writer::append_to(b"+OK\r\n".to_vec(), Protocol::Resp2);
    writer.null();
    writer.set_protocol(Protocol::Resp3);
    writer.null();
    assert_eq!(writer.take(), b"+OK\r\n$-1\r\n_\r\n");
    assert!(writer.is_empty());
}
