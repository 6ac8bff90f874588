//! Commands that take effect later than they were sent, after the user has lost the right to them.
//! SECURITY.md has the table.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use commands::{Engine, EngineOptions, Next};

use crate::support::{Client, TestClock, engine, volatile, wire};

const NO_KEY: &str =
    "(error) NOPERM this user has no permissions to access one of the keys used as arguments";

fn no_command(name: &str) -> String {
    format!("(error) NOPERM this user has no permissions to run the \\'{name}\\' command")
}

/// A client of a new user that may do everything and that waits when it is blocked, and a client of
/// the default user.
fn pair(engine: &Arc<Engine>) -> (Client, Client) {
    let mut admin = Client::new(engine);
    admin.check("ACL SETUSER u on nopass ~* &* +@all", "OK");
    (of_user(engine), admin)
}

fn of_user(engine: &Arc<Engine>) -> Client {
    let mut client = Client::patient(engine);
    client.session.set_can_walk();
    client.check("AUTH u x", "OK");
    client
}

fn is_closed(client: &Client) -> bool {
    client.session.client.killed.load(Relaxed)
}

/// The messages that other clients or the server have sent to a client, besides replies.
fn heard(client: &Client) -> String {
    let mut bytes = Vec::new();
    let _ = client.session.client.take_pushes(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A command that blocks, and what then happens to its key.
#[derive(Clone, Copy)]
struct Case {
    command: &'static str,
    /// Fills or deletes the key.
    fill: &'static str,
    /// A command whose reply is `left` if nothing was taken from the key or written elsewhere.
    shows: &'static str,
    left: &'static str,
}

const fn case(
    command: &'static str,
    fill: &'static str,
    shows: &'static str,
    left: &'static str,
) -> Case {
    Case { command, fill, shows, left }
}

const BLOCKED: &[Case] = &[
    case("BLPOP j k 0", "RPUSH k a", "LRANGE k 0 -1", "[\"a\"]"),
    case("BRPOP k 0", "RPUSH k a", "LRANGE k 0 -1", "[\"a\"]"),
    case("BLMPOP 0 1 k LEFT", "RPUSH k a", "LRANGE k 0 -1", "[\"a\"]"),
    case("BLMOVE k l LEFT RIGHT 0", "RPUSH k a", "LRANGE k 0 -1", "[\"a\"]"),
    case("BRPOPLPUSH k l 0", "RPUSH k a", "EXISTS k l", "(integer) 1"),
    case("BZPOPMIN k 0", "ZADD k 1 a", "ZRANGE k 0 -1", "[\"a\"]"),
    case("BZPOPMAX k 0", "ZADD k 1 a", "ZRANGE k 0 -1", "[\"a\"]"),
    case("BZMPOP 0 1 k MIN", "ZADD k 1 a", "ZRANGE k 0 -1", "[\"a\"]"),
    case("XREAD BLOCK 0 STREAMS k 0", "XADD k 1-1 f v", "XLEN k", "(integer) 1"),
    case(
        "XREADGROUP GROUP g c BLOCK 0 STREAMS s >",
        "XADD s 1-1 f v",
        "XPENDING s g",
        NOTHING_PENDING,
    ),
    case("XREADGROUP GROUP g c BLOCK 0 STREAMS s >", "DEL s", "EXISTS s", "(integer) 0"),
    case("XREADGROUP GROUP g c BLOCK 0 STREAMS s >", "XGROUP DESTROY s g", "XLEN s", "(integer) 0"),
];
const NOTHING_PENDING: &str = "[(integer) 0, (nil), (nil), (nil)]";

/// Blocks a client, changes the rules of its user, and fills the key. Returns the client's reply.
fn blocked(rules: &str, Case { command, fill, shows, left }: Case) -> String {
    let engine = engine();
    let (mut client, mut admin) = pair(&engine);
    admin.run("XGROUP CREATE s g $ MKSTREAM");
    client.check(command, "(blocked)");
    admin.check(&format!("ACL SETUSER u {rules}"), "OK");
    assert_eq!(client.unblocked(), None, "{command} waits on");
    admin.run(fill);
    let reply = client.unblocked().expect(command);
    admin.check(shows, left);
    let entry = "\"reason\", \"key\", \"context\", \"toplevel\"";
    let logged = admin.run("ACL LOG");
    assert_eq!(logged.contains(entry), reply == NO_KEY, "{logged}");
    reply
}

#[test]
fn a_blocked_client_gets_nothing_of_a_key_that_was_taken_from_it() {
    for &row in BLOCKED {
        assert_eq!(blocked("resetkeys", row), NO_KEY, "{}", row.command);
    }
    // The whole command is checked, as when it is sent: another of its keys, or its target.
    assert_eq!(blocked("resetkeys ~k", BLOCKED[0]), NO_KEY);
    assert_eq!(blocked("resetkeys ~k", BLOCKED[3]), NO_KEY);
    assert_eq!(blocked("resetkeys %R~*", BLOCKED[5]), NO_KEY);
}

#[test]
fn a_blocked_client_gets_nothing_by_a_command_that_was_taken_from_it() {
    for &row in BLOCKED {
        let name = row.command.split(' ').next().expect("a name").to_lowercase();
        let reply = blocked(&format!("-{name}"), row);
        assert_eq!(reply, no_command(&name), "{}", row.command);
    }
}

#[test]
fn what_a_blocked_client_may_not_have_is_the_next_ones() {
    let engine = engine();
    let (mut first, mut admin) = pair(&engine);
    let mut second = Client::patient(&engine);
    first.check("BLPOP k 0", "(blocked)");
    second.check("BLPOP k 0", "(blocked)");
    admin.check("ACL SETUSER u resetkeys ~other", "OK");
    admin.check("RPUSH k a", "(integer) 1");
    assert_eq!(first.unblocked().as_deref(), Some(NO_KEY));
    assert_eq!(second.unblocked().as_deref(), Some("[\"k\", \"a\"]"));
    // A right that is restored before the key is filled was never missed.
    first.check("BLPOP other 0", "(blocked)");
    admin.check("ACL SETUSER u resetkeys", "OK");
    admin.check("ACL SETUSER u ~other", "OK");
    admin.check("RPUSH other a", "(integer) 1");
    assert_eq!(first.unblocked().as_deref(), Some("[\"other\", \"a\"]"));
}

#[test]
fn a_blocked_client_whose_user_is_switched_off_is_served_and_one_without_a_user_is_closed() {
    let engine = engine();
    let (mut client, mut admin) = pair(&engine);
    client.check("BLPOP k 0", "(blocked)");
    admin.check("ACL SETUSER u off resetpass >other", "OK");
    admin.check("RPUSH k a", "(integer) 1");
    assert_eq!(client.unblocked().as_deref(), Some("[\"k\", \"a\"]"));
    client.check("BLPOP k 0", "(blocked)");
    admin.check("ACL DELUSER u", "(integer) 1");
    assert!(is_closed(&client));
    admin.check("RPUSH k a", "(integer) 1");
    assert_eq!(client.unblocked(), None);
    admin.check("LLEN k", "(integer) 1");
}

#[test]
fn who_monitors_is_closed_without_the_command_and_hears_nothing_more() {
    let engine = engine();
    let (mut client, mut admin) = pair(&engine);
    client.check("MONITOR", "OK");
    admin.check("ACL SETUSER u -get", "OK");
    admin.check("SET k v", "OK");
    assert!(!is_closed(&client) && heard(&client).contains("\"SET\" \"k\" \"v\""));
    admin.check("ACL SETUSER u -monitor", "OK");
    admin.check("SET k secret", "OK");
    assert!(is_closed(&client));
    assert_eq!(heard(&client), "");
}

#[test]
fn who_tracks_keys_is_closed_without_the_command_and_hears_nothing_more() {
    for tracking in ["ON", "ON BCAST", "ON REDIRECT"] {
        let engine = engine();
        let (mut client, mut admin) = pair(&engine);
        let mut other = Client::new(&engine);
        other.run("HELLO 3");
        client.run("HELLO 3");
        let (tracking, hears) = match tracking {
            "ON REDIRECT" => (format!("{tracking} {}", other.session.id()), &other),
            _ => (tracking.to_owned(), &client),
        };
        let hears = Arc::clone(&hears.session.client);
        let heard = || {
            let mut bytes = Vec::new();
            let _ = hears.take_pushes(&mut bytes);
            bytes.windows(10).filter(|word| word == b"invalidate").count()
        };
        client.check(&format!("CLIENT TRACKING {tracking}"), "OK");
        client.run("GET k");
        admin.check("SET k 1", "OK");
        assert_eq!(heard(), 1, "{tracking}");
        client.run("GET k");
        // The client knows the name already: as in Redis, its copy is invalidated.
        admin.check("ACL SETUSER u resetkeys", "OK");
        admin.check("SET k 2", "OK");
        assert_eq!((heard(), is_closed(&client)), (1, false), "{tracking}");
        admin.check("ACL SETUSER u ~*", "OK");
        client.run("GET k");
        admin.check("ACL SETUSER u -client|tracking", "OK");
        admin.check("SET k 3", "OK");
        assert!(is_closed(&client), "{tracking}");
        assert_eq!(heard(), if tracking.contains("REDIRECT") { 1 } else { 0 }, "{tracking}");
    }
}

#[test]
fn who_listens_is_closed_without_the_channel_and_hears_nothing_more() {
    let engine = engine();
    let mut admin = pair(&engine).1;
    let mut listeners = ["SUBSCRIBE c", "PSUBSCRIBE c*", "SSUBSCRIBE c"].map(|line| {
        let mut client = of_user(&engine);
        client.run(line);
        client
    });
    let publish = |admin: &mut Client| {
        admin.run("PUBLISH c text");
        admin.run("SPUBLISH c text");
    };
    publish(&mut admin);
    assert!(listeners.iter().all(|client| heard(client).contains("text")));
    admin.check("ACL SETUSER u resetchannels", "OK");
    publish(&mut admin);
    assert!(listeners.iter_mut().all(|client| is_closed(client) && heard(client).is_empty()));
}

#[test]
fn who_begins_while_the_right_is_taken_away_does_not_go_on() {
    for (begin, taken) in [
        ("SUBSCRIBE c", "resetchannels"),
        ("MONITOR", "-monitor"),
        ("CLIENT TRACKING ON BCAST", "-client|tracking"),
    ] {
        let engine = engine();
        let mut admin = pair(&engine).1;
        for _ in 0..200 {
            admin.check("ACL SETUSER u ~* &* +@all", "OK");
            let mut client = of_user(&engine);
            let reply = std::thread::scope(|scope| {
                let begins = scope.spawn(|| client.run(begin));
                admin.check(&format!("ACL SETUSER u {taken}"), "OK");
                begins.join().expect("no panic")
            });
            assert!(is_closed(&client) || reply.contains("NOPERM"), "{begin}: {reply}");
            engine.disconnect(&mut client.session);
        }
    }
}

/// A command that waits for a shard, which another client has locked.
#[test]
fn a_command_that_waits_for_a_lock_is_refused_when_its_right_was_taken_away_meanwhile() {
    for (line, rules) in [("SET k v", "resetkeys"), ("SET k v", "-set"), ("DBSIZE", "-dbsize")] {
        let clock = TestClock::new(1000);
        let keyspace = volatile(4, 64 << 20);
        let options =
            EngineOptions { clock: Arc::clone(&clock) as _, ..EngineOptions::new(keyspace) };
        let engine = Arc::new(Engine::new(options));
        let (mut client, mut admin) = pair(&engine);
        clock.advance_ms(1000);
        let txn = engine.keyspace().begin_all(2000);
        let seen = Arc::clone(&client.session.client);
        let reply = std::thread::scope(|scope| {
            let waits = scope.spawn(|| client.run(line));
            // Wait until it is admitted.
            while seen.seen_ms.load(Relaxed) != 2000 {
                std::thread::yield_now();
            }
            admin.check(&format!("ACL SETUSER u {rules}"), "OK");
            drop(txn);
            waits.join().expect("no panic")
        });
        assert!(reply.starts_with("(error) NOPERM"), "{line} after {rules}: {reply}");
        admin.check("EXISTS k", "(integer) 0");
    }
}

#[test]
fn a_command_in_steps_is_refused_when_its_right_was_taken_away_meanwhile() {
    let engine = engine();
    let (mut client, mut admin) = pair(&engine);
    admin.check("DEBUG POPULATE 20000", "OK");
    assert_eq!(client.raw(&["KEYS", "*"]), b"");
    assert_eq!(client.outcome.next, Next::Walk);
    admin.check("ACL SETUSER u -keys", "OK");
    let mut out = resp::Writer::new(resp::Protocol::Resp2);
    while engine.go_on(&mut client.session, &mut out).is_none() {}
    assert_eq!(wire::show(&out.take()), no_command("keys"));
}

#[test]
fn exec_reports_that_a_watched_key_changed_and_its_commands_are_checked() {
    let engine = engine();
    let (mut client, mut admin) = pair(&engine);
    for (change, expected) in [("SET k v", "(nil)"), ("SET other v", "[(error) NOPERM")] {
        admin.check("ACL SETUSER u ~*", "OK");
        client.check("WATCH k", "OK");
        client.check("MULTI", "OK");
        client.check("GET k", "QUEUED");
        admin.check("ACL SETUSER u resetkeys", "OK");
        admin.check(change, "OK");
        let reply = client.run("EXEC");
        assert!(reply.starts_with(expected), "{reply}");
    }
}

#[test]
fn a_paused_command_is_checked_when_the_pause_is_over() {
    let engine = engine();
    let (mut client, mut admin) = pair(&engine);
    admin.check("CLIENT PAUSE 100000 WRITE", "OK");
    let mut sent = |expected: Next| {
        let mut batch = engine.batch();
        batch.push(&[b"SET", b"k", b"v"]);
        let mut out = resp::Writer::new(resp::Protocol::Resp2);
        let done = engine.execute_batch(&mut client.session, &mut batch, &mut out);
        assert_eq!(done.next, expected);
        out.take()
    };
    assert_eq!(sent(Next::Paused), b"");
    admin.check("ACL SETUSER u resetkeys", "OK");
    admin.check("CLIENT UNPAUSE", "OK");
    assert_eq!(wire::show(&sent(Next::Reply)), NO_KEY);
}

#[test]
fn each_call_of_a_script_is_checked_when_it_is_made() {
    let engine = engine();
    let (mut client, mut admin) = pair(&engine);
    let shard = engine.keyspace().key(b"k").shard();
    let script = "for i = 1, 10000000 do
            local reply = redis.pcall('get', KEYS[1])
            if type(reply) == 'table' and reply.err then return reply.err end
        end";
    let reply = std::thread::scope(|scope| {
        let runs = scope.spawn(|| wire::show(&client.raw(&["EVAL", script, "1", "k"])));
        // It has begun when it has locked its shard.
        while engine.keyspace().try_begin(std::iter::once(shard), 0).is_some() {
            std::thread::yield_now();
        }
        admin.check("ACL SETUSER u resetkeys", "OK");
        runs.join().expect("no panic")
    });
    // The latter if it had not reached its first call.
    assert!(reply.contains("access at least one of the keys") || reply == NO_KEY, "{reply}");
}
