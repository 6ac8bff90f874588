//! Reports on servers that stall, reply with errors or nonsense, or go away.

use crate::mock_server::MockServer;
use crate::{outcome, small, whole};
use bench::load::{Ended, Options, Ratio, Requests, run};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use testkit::Launch;

/// Returns a load of one connection with one outstanding request.
fn single(port: u16) -> Options {
    Options { threads: 1, clients: 1, ratio: Ratio(1, 0), ..small(port) }
}

fn ok(_: usize) -> Option<Vec<u8>> {
    Some(b"+OK\r\n".to_vec())
}

/// The load is 500 requests a second for a second, with 200 ms in the middle without a reply. A
/// hundred requests are due in that time. Each of them waits, though only one is outstanding.
#[test]
fn a_stall_counts_for_every_request_that_was_due() {
    let server = MockServer::start(|number| {
        if number == 200 {
            thread::sleep(Duration::from_millis(200));
        }
        ok(number)
    });
    let options = Options {
        rate_limiting: Some(500),
        requests: Some(Requests::Each(500)),
        ..single(server.port)
    };
    let outcome = whole(&options);
    assert_eq!(outcome.totals.operations, 500);
    let latency = outcome.totals.latency;
    // A fifth of all requests waited between 0 and 200 ms, so a tenth waited at least 100 ms.
    assert!(latency.p90 > 90_000.0, "p90 is {} us", latency.p90);
    assert!(latency.max >= 199_000.0, "the maximum is {} us", latency.max);
}

/// Sequential requests take as long as the sum of their latencies, and the run is no longer than
/// its caller waits for it.
#[test]
fn a_run_of_a_few_requests_has_its_own_length() {
    let server = MockServer::start(ok);
    for requests in [1, 5, 43] {
        let options = Options { requests: Some(Requests::Each(requests)), ..single(server.port) };
        let began = Instant::now();
        let outcome = whole(&options);
        let waited = began.elapsed().as_secs_f64();
        let replies = outcome.totals.latency.mean * requests as f64 / 1e6;
        // Histograms round to a thousandth.
        assert!(replies * 0.998 <= outcome.seconds && outcome.seconds <= waited, "{outcome:?}");
        let counted = outcome.totals.per_second * outcome.seconds;
        assert!((counted - requests as f64).abs() < 1e-6, "{outcome:?}");
    }
}

/// Without a rate no request is due, so the stall affects only one.
#[test]
fn without_a_rate_a_stall_is_one_request() {
    let server = MockServer::start(|number| {
        if number == 50 {
            thread::sleep(Duration::from_millis(200));
        }
        ok(number)
    });
    let outcome = whole(&single(server.port));
    let histogram = &outcome.totals.histogram;
    assert!(histogram.highest() >= 150_000.0, "{} us", histogram.highest());
    // A few of two hundred requests may be slow because the machine itself stalls.
    assert!(histogram.percentile(97.5) < 150_000.0, "{} us", histogram.percentile(97.5));
}

#[test]
fn a_rate_that_is_not_reached_is_said() {
    let server = MockServer::start(|number| {
        thread::sleep(Duration::from_millis(20));
        ok(number)
    });
    let options = Options {
        rate_limiting: Some(1000),
        requests: None,
        test_time: Some(0.5),
        ..single(server.port)
    };
    let outcome = outcome(&options);
    assert!(outcome.unsent > 400, "{} not sent", outcome.unsent);
}

#[test]
fn errors_are_no_operations() {
    let server = Launch::perdura_volatile().start();
    server.client().check("SET memtier-0 text", "OK");
    let options = Options {
        commands: vec!["INCR __key__".into(), "GET __key__".into()],
        key_maximum: 0,
        ..small(server.port())
    };
    let outcome = outcome(&options);
    assert!(!outcome.is_whole());
    let counts: Vec<_> = outcome.classes.iter().map(|class| class.operations).collect();
    assert_eq!(counts, [0, 1000]);
    assert_eq!(outcome.totals.histogram.count(), 1000);
    let (text, count) = outcome.errors.first_key_value().expect("an error");
    assert_eq!((text.as_str(), *count), ("ERR value is not an integer or out of range", 1000));
}

#[track_caller]
fn breaks_off(options: &Options, operations: u64, part: &str) {
    let outcome = outcome(options);
    let Ended::Failed(why) = &outcome.ended else { panic!("it ended: {:?}", outcome.ended) };
    assert!(why.contains(part), "{part} in {why}");
    assert!(why.contains(&options.port.to_string()), "{why}");
    assert_eq!(outcome.totals.operations, operations);
}

#[test]
fn a_server_that_goes_away_leaves_what_was_measured() {
    let server = MockServer::start(|number| if number < 37 { ok(number) } else { None });
    breaks_off(&single(server.port), 37, "closed the connection");
}

#[test]
fn the_last_error_says_why_a_connection_was_closed() {
    let server = MockServer::start(|number| {
        (number == 0).then(|| b"-ERR max number of clients reached\r\n".to_vec())
    });
    breaks_off(&single(server.port), 0, "max number of clients reached");
}

#[test]
fn nonsense_is_shown() {
    let server = MockServer::start(|number| match number {
        0..9 => ok(number),
        _ => Some(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
    });
    breaks_off(&single(server.port), 9, "HTTP/1.1 400 Bad Request");
}

#[test]
fn an_answer_to_nothing_is_nonsense() {
    let server = MockServer::start(|_| Some(b"+OK\r\n+OK\r\n".to_vec()));
    breaks_off(&single(server.port), 1, "nobody asked for");
}

#[test]
fn replies_in_pieces_are_put_together() {
    // Every reply arrives with the beginning of the next one.
    let server = MockServer::start(|number| {
        Some(if number == 0 { b"$3\r\nabc\r\n$3\r".to_vec() } else { b"\nabc\r\n$3\r".to_vec() })
    });
    assert_eq!(whole(&single(server.port)).totals.operations, 200);
}

#[test]
fn a_server_that_stays_silent_does_not_hold_the_run() {
    let cancel = Arc::new(AtomicBool::new(false));
    let silent = Arc::clone(&cancel);
    let server = MockServer::start(move |number| {
        if number == 5 {
            silent.store(true, Ordering::Relaxed);
            thread::sleep(Duration::from_secs(60));
        }
        ok(number)
    });
    let options = Options { requests: None, test_time: Some(60.0), ..single(server.port) };
    let began = Instant::now();
    let outcome = run(&options, &cancel).expect("an outcome");
    assert!(began.elapsed() < Duration::from_secs(10));
    assert_eq!(outcome.ended, Ended::Cancelled);
    assert_eq!((outcome.totals.operations, outcome.unanswered.count()), (5, 1));
}

#[test]
fn a_wrong_password_is_said_before_the_run() {
    let server = Launch::perdura_volatile().args(["--requirepass", "secret"]).start();
    let options = Options { authenticate: Some("wrong".into()), ..small(server.port()) };
    let error = run(&options, &AtomicBool::new(false)).expect_err("refused").to_string();
    assert!(error.contains("WRONGPASS"), "{error}");
}
