//! Large values: another thread than the connection's copies them, and nothing else differs.

use std::sync::{Arc, Mutex};

use commands::{Engine, Job, LARGE, Next};
use resp::{Protocol, Writer};

use crate::support::{Client, engine};

/// An engine, and the jobs that it passes to other threads.
fn idle() -> (Arc<Engine>, Arc<Mutex<Vec<Job>>>) {
    let (engine, jobs) = (engine(), Arc::<Mutex<Vec<Job>>>::default());
    let given = Arc::clone(&jobs);
    assert!(engine.set_spawn(move |_, job| {
        given.lock().expect("no panic").push(job);
        true
    }));
    (engine, jobs)
}

fn waiting(engine: &Arc<Engine>) -> Client {
    let mut client = Client::patient(engine);
    client.session.set_can_walk();
    client
}

/// Runs the only job.
#[track_caller]
fn run_job(engine: &Engine, jobs: &Mutex<Vec<Job>>) {
    let mut given = std::mem::take(&mut *jobs.lock().expect("no panic"));
    assert_eq!(given.len(), 1, "one command is with another thread");
    given.pop().expect("one")(engine);
}

/// Runs a line, which must be passed to another thread, and then `left`. Returns both replies.
#[track_caller]
fn run_elsewhere(
    engine: &Arc<Engine>,
    jobs: &Mutex<Vec<Job>>,
    line: &str,
    left: &str,
) -> (String, String) {
    let mut client = waiting(engine);
    assert_eq!(client.run(line), "(blocked)", "{line}");
    run_job(engine, jobs);
    let reply = client.unblocked().expect("it has run");
    (reply, Client::new(engine).run(left))
}

/// Fills a store with values of every type that have an element of `bytes` bytes.
fn fill(engine: &Arc<Engine>, bytes: usize) {
    let mut client = Client::new(engine);
    let large = "v".repeat(bytes);
    client.raw(&["SET", "s", &large[..]]);
    client.raw(&["HSET", "h", "f", &large[..]]);
    client.raw(&["RPUSH", "l", &large[..], "small"]);
    client.raw(&["SADD", "set", &large[..]]);
    client.raw(&["ZADD", "z", "1", &large[..]]);
    client.raw(&["XADD", "x", "1-1", "f", &large[..]]);
    client.run("XGROUP CREATE x g 0");
}

/// Commands that show a large element, with commands that show their effects.
const SHOW: [(&str, &str); 19] = [
    ("GET s", "STRLEN s"),
    ("GETRANGE s 0 -1", "STRLEN s"),
    ("MGET none s", "STRLEN s"),
    ("GETEX s EX 1000", "TTL s"),
    ("GETSET s w", "GET s"),
    ("SET s w GET", "GET s"),
    ("GETDEL s", "EXISTS s"),
    ("HGET h f", "HLEN h"),
    ("HGETALL h", "HLEN h"),
    ("HGETDEL h FIELDS 1 f", "EXISTS h"),
    ("LINDEX l 0", "LLEN l"),
    ("LPOP l", "LRANGE l 0 -1"),
    ("SRANDMEMBER set", "SCARD set"),
    ("SPOP set", "EXISTS set"),
    ("ZPOPMIN z", "EXISTS z"),
    ("XRANGE x - +", "XLEN x"),
    ("XREAD STREAMS x 0", "XLEN x"),
    ("XREADGROUP GROUP g c STREAMS x >", "XPENDING x g"),
    ("SORT l BY nosort", "LLEN l"),
];

#[test]
fn a_reply_with_a_large_element_comes_from_another_thread() {
    for (line, left) in SHOW {
        let (engine, jobs) = idle();
        fill(&engine, LARGE + 1);
        let (reply, after) = run_elsewhere(&engine, &jobs, line, left);

        let (direct, _) = idle();
        fill(&direct, LARGE + 1);
        let expected = Client::new(&direct).run(line);
        assert!(expected.len() > LARGE, "{line} shows what is large");
        assert!(reply == expected, "{line} replies the same");
        assert_eq!(after, Client::new(&direct).run(left), "{line} does the same, once");
    }
}

#[test]
fn a_reply_with_small_elements_comes_at_once() {
    for (line, _) in SHOW {
        let (engine, jobs) = idle();
        fill(&engine, 1000);
        assert!(waiting(&engine).run(line).len() > 1000, "{line}");
        assert!(jobs.lock().expect("no panic").is_empty(), "{line} goes to no other thread");
    }
}

#[test]
fn a_command_that_may_wait_for_data_stays_with_its_client() {
    for line in ["BLPOP l 0", "BZPOPMIN z 0", "XREAD BLOCK 0 STREAMS x 0"] {
        let (engine, jobs) = idle();
        fill(&engine, LARGE + 1);
        assert!(waiting(&engine).run(line).len() > LARGE, "{line}");
        assert!(jobs.lock().expect("no panic").is_empty(), "{line} goes to no other thread");
    }
}

#[test]
fn a_script_and_a_transaction_that_read_what_is_large_move_as_a_whole() {
    let (engine, jobs) = idle();
    fill(&engine, LARGE + 1);
    let mut client = waiting(&engine);
    let script = "redis.call('INCR', KEYS[2]) return #redis.call('GET', KEYS[1])";
    let expected = format!("(integer) {}", LARGE + 1);
    client.raw(&["EVAL", script, "2", "s", "{s}n"]);
    assert_eq!(client.outcome.next, Next::Block);
    run_job(&engine, &jobs);
    assert_eq!(client.unblocked(), Some(expected));
    client.check("GET {s}n", "\"1\"");

    client.run("MULTI");
    client.run("INCR n");
    client.run("GET s");
    assert_eq!(client.run("EXEC"), "(blocked)");
    run_job(&engine, &jobs);
    let reply = client.unblocked().expect("it has run");
    assert!(reply.len() > LARGE, "{}", &reply[..100.min(reply.len())]);
    client.check("GET n", "\"1\"");
}

#[test]
fn a_transaction_that_changes_its_user_is_executed_as_a_whole() {
    let (engine, jobs) = idle();
    fill(&engine, LARGE + 1);
    let mut client = waiting(&engine);
    Client::new(&engine).run("ACL SETUSER low on >p ~* +exec +get +eval");
    client.run("MULTI");
    client.run("SET a 1");
    client.run("AUTH low p");
    client.run("GET s");
    let reply = client.run("EXEC");
    assert!(reply.starts_with("[OK, OK, ") && reply.len() > LARGE, "{}", &reply[..100]);
    assert!(jobs.lock().expect("no panic").is_empty());
    Client::new(&engine).check("GET a", "\"1\"");

    let mut client = waiting(&engine);
    client.run("MULTI");
    client.run("SET a 2");
    client.run("AUTH low p");
    client.raw(&["EVAL", "return #redis.call('GET', KEYS[1])", "1", "s"]);
    assert_eq!(client.run("EXEC"), "(blocked)");
    Client::new(&engine).check("GET a", "\"1\"");
    run_job(&engine, &jobs);
    assert!(client.unblocked().is_some_and(|reply| reply.starts_with("[OK, OK, ")));
    Client::new(&engine).check("GET a", "\"2\"");
}

#[test]
fn pipelined_commands_that_meet_what_is_large_are_executed_one_by_one() {
    for line in ["GET s", "HGET h f", "LPOP l"] {
        let (engine, jobs) = idle();
        fill(&engine, LARGE + 1);
        let mut client = waiting(&engine);
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert!(client.pipeline(&[words("INCR n"), words(line)]).is_none(), "{line}");
        client.check("GET n", "(nil)");
        client.check("LLEN l", "(integer) 2");
        assert!(jobs.lock().expect("no panic").is_empty());
        assert!(client.pipeline(&[words("INCR n"), words("LLEN l")]).is_some());
    }
}

#[test]
fn large_arguments_are_executed_where_they_lie_by_another_thread() {
    let (engine, jobs) = idle();
    let mut client = waiting(&engine);
    let input = Arc::new([b"MSETlargeother".as_slice(), &vec![b'v'; LARGE + 1]].concat());
    let (first, second) = input[14..].split_at(LARGE / 2);
    let args = [&input[..4], &input[4..9], first, &input[9..14], second];
    let mut out = Writer::new(Protocol::Resp2);
    client.session.lend(Some(Arc::clone(&input)));
    let outcome = engine.execute(&mut client.session, &args, &mut out);
    client.session.lend(None);
    assert_eq!((outcome.next, out.len()), (Next::Block, 0));
    assert_eq!(Arc::strong_count(&input), 2, "it is lent, and not copied");
    Client::new(&engine).check("EXISTS large", "(integer) 0");
    run_job(&engine, &jobs);
    assert_eq!(Arc::strong_count(&input), 1, "it is given back");
    assert_eq!(client.unblocked().as_deref(), Some("OK"));
    client.check("STRLEN large", &format!("(integer) {}", LARGE / 2));
    client.check("STRLEN other", &format!("(integer) {}", LARGE / 2 + 1));
}

/// Commands that visit many elements between bounds, with commands that show their effects.
const MANY: [(&str, &str); 15] = [
    ("ZRANGEBYSCORE z 1 (19999", "ZCARD z"),
    ("ZRANGE z (0 19999 BYSCORE LIMIT 0 15000", "ZCARD z"),
    ("ZRANGESTORE t z (0 (19000 BYSCORE", "ZCARD t"),
    ("ZREMRANGEBYSCORE z (0 (19000", "ZCARD z"),
    ("XRANGE x 2 19999", "XLEN x"),
    ("XREAD STREAMS x 5", "XLEN x"),
    ("XTRIM x MAXLEN 3", "XLEN x"),
    ("XTRIM x MINID 19000", "XLEN x"),
    ("GEOSEARCH g FROMLONLAT 10 10 BYBOX 400 400 km", "ZCARD g"),
    ("GEOSEARCHSTORE t g FROMLONLAT 10 10 BYBOX 400 400 km", "ZCARD t"),
    ("XREADGROUP GROUP new c STREAMS x >", "XPENDING x new"),
    ("XREADGROUP GROUP new c COUNT 2000 STREAMS x >", "XPENDING x new"),
    ("XREADGROUP GROUP old c NOACK STREAMS x >", "XPENDING x old"),
    ("XREADGROUP GROUP read c STREAMS x 0", "XPENDING x read"),
    ("XREADGROUP GROUP read d COUNT 1 CLAIM 99999 STREAMS x >", "XPENDING x read"),
];

/// Fills a store with a sorted set `z`, a stream `x` or geospatial items `g`, whichever a command
/// names, of 20,000 elements.
fn fill_many(engine: &Arc<Engine>, line: &str) {
    let mut client = Client::new(engine);
    let key = line.split(' ').find(|word| ["z", "x", "g"].contains(word)).expect("one of them");
    for n in (0..20_000).step_by(1000) {
        let numbers = n..n + 1000;
        let words: Vec<String> = match key {
            "z" => numbers.flat_map(|n| [n.to_string(), format!("m{n}")]).collect(),
            "g" => numbers
                .flat_map(|n| [format!("10.{n:05}"), format!("10.{n:05}"), format!("m{n}")])
                .collect(),
            _ => {
                numbers.for_each(|n| {
                    client.run(&format!("XADD x {}-1 f v", n + 1));
                });
                continue;
            }
        };
        let add = if key == "z" { "ZADD" } else { "GEOADD" };
        let words = [add, key].into_iter().chain(words.iter().map(String::as_str));
        client.raw(&words.collect::<Vec<_>>());
    }
    for group in ["new 0", "old 5", "read 0"] {
        client.run(&format!("XGROUP CREATE x {group}"));
    }
    if line.contains("GROUP read") {
        client.run("XREADGROUP GROUP read c COUNT 12000 STREAMS x >");
    }
}

#[test]
fn what_lies_between_bounds_is_counted_before_it_is_read() {
    for (line, left) in MANY {
        let (engine, jobs) = idle();
        fill_many(&engine, line);
        let (reply, after) = run_elsewhere(&engine, &jobs, line, left);

        let (direct, _) = idle();
        fill_many(&direct, line);
        assert!(reply == Client::new(&direct).run(line), "{line} replies the same");
        assert_eq!(after, Client::new(&direct).run(left), "{line} does the same, once");
    }
}

#[test]
fn few_elements_between_bounds_are_read_at_once() {
    let few = [
        "ZRANGEBYSCORE z 1 (19999 LIMIT 10 10",
        "ZREMRANGEBYSCORE z (0 (9",
        "XRANGE x 2 19999 COUNT 10",
        "XREAD COUNT 5 STREAMS x 5",
        "XREAD STREAMS x 19990",
        "XTRIM x MAXLEN 19998",
        "XTRIM x MINID 3",
        "XREADGROUP GROUP new c COUNT 1000 STREAMS x >",
        "XREADGROUP GROUP new c STREAMS x 0",
        "GEOSEARCH g FROMLONLAT 10 10 BYRADIUS 100 m",
    ];
    for line in few {
        let (engine, jobs) = idle();
        fill_many(&engine, line);
        assert!(!waiting(&engine).run(line).is_empty(), "{line}");
        assert!(jobs.lock().expect("no panic").is_empty(), "{line} goes to no other thread");
    }
}

#[test]
fn a_long_transaction_is_left_to_another_thread_before_its_keys_are_looked_up() {
    let long = ["x".repeat(2 << 10), "x".repeat(LARGE / 4)];
    for (value, commands) in long.iter().zip([2000, 5]) {
        let (engine, jobs) = idle();
        let mut client = waiting(&engine);
        client.run("MULTI");
        for n in 0..commands {
            client.raw(&["SET", &format!("key:{n}"), value]);
        }
        assert_eq!(client.run("EXEC"), "(blocked)", "{commands} commands");
        Client::new(&engine).check("DBSIZE", "(integer) 0");
        run_job(&engine, &jobs);
        assert!(client.unblocked().is_some_and(|reply| reply.starts_with("[OK, OK")));
        Client::new(&engine).check("DBSIZE", &format!("(integer) {commands}"));
        client.check("PING", "PONG");
    }
}
