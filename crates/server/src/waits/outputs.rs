//! Output in addition to replies, or at the end of a wait: messages, keyspace events,
//! invalidations, lines of MONITOR, the replies of blocked clients.

use fastrand::Rng;

use super::requests::{Words, describe, words, write_to_any};
use super::stage::{Stage, Visitor};
use super::{bytes, for_each_stage, number};

/// Requests by which a client listens, and requests that send it something.
const NOTIFIED: &[(&str, &str)] = &[
    ("SUBSCRIBE c", "SET a 2; PUBLISH c it"),
    ("PSUBSCRIBE c*", "SET a 2; PUBLISH c it"),
    ("SSUBSCRIBE c", "SET a 2; SPUBLISH c it"),
    ("SUBSCRIBE c", "MULTI; PUBLISH c it; SET a 2; EXEC"),
    ("SSUBSCRIBE c", "MULTI; SET a 2; SPUBLISH c it; EXEC"),
    ("SUBSCRIBE c", "EVAL redis.call('set','a',2)redis.call('publish','c','it') 1 a"),
    ("SUBSCRIBE c", "EVAL redis.call('publish','c','it')redis.call('set','a',2) 0"),
    ("PSUBSCRIBE __key*", "SET a 2"),
    ("SUBSCRIBE __keyevent@0__:del", "DEL a"),
    ("SUBSCRIBE __keyspace@0__:a", "MULTI; GET a; DEL a; EXEC"),
    ("SUBSCRIBE __keyevent@0__:keymiss", "SET a 2; GET nothing"),
    ("SUBSCRIBE __keyevent@0__:expired", "PEXPIRE a 1; DEBUG SLEEP 0.002; GET a"),
    ("MONITOR", "SET a 2; GET a"),
    ("MONITOR", "MULTI; SET a 2; EXEC"),
    ("MONITOR", "EVAL redis.call('set','a',2) 1 a"),
    ("MONITOR", "SET a 2; PING"),
    ("CLIENT TRACKING ON; GET a", "SET a 2"),
    ("CLIENT TRACKING ON; GET a", "DEL a"),
    ("CLIENT TRACKING ON; MGET a b", "MULTI; SET a 2; SET b 2; EXEC"),
    ("CLIENT TRACKING ON OPTIN; CLIENT CACHING YES; GET a", "SET a 2"),
    ("CLIENT TRACKING ON; GET a", "FLUSHALL"),
    ("CLIENT TRACKING ON; GET a", "FLUSHDB ASYNC"),
    ("CLIENT TRACKING ON; GET a", "MULTI; FLUSHDB; EXEC"),
    ("CLIENT TRACKING ON; GET a", "EVAL redis.call('flushall') 0"),
    ("CLIENT TRACKING ON; GET a", "PEXPIRE a 1; DEBUG SLEEP 0.002; GET a"),
    ("CLIENT TRACKING ON BCAST", "SET a 2"),
    ("CLIENT TRACKING ON BCAST PREFIX a", "MULTI; SET a 2; EXEC"),
    ("CLIENT TRACKING ON BCAST", "SET b 1; SET a 2; DEL b"),
];

/// Requests by which a client sends something to itself.
const SENT_TO_ITSELF: &[&str] = &[
    "SUBSCRIBE c; SET a 2; PUBLISH c it",
    "SUBSCRIBE c; MULTI; SET a 2; PUBLISH c it; EXEC; PING",
    "CLIENT TRACKING ON BCAST; SET a 2",
    "CLIENT TRACKING ON; GET a; SET a 2; PING",
    "SUBSCRIBE c; CLIENT REPLY OFF; SET a 2; PUBLISH c it",
    "SUBSCRIBE c; SET a 2; CLIENT REPLY SKIP; PUBLISH c it",
    "MONITOR; SET a 2",
];

/// A command that blocks, and the requests that unblock it.
const BLOCKED: &[(&str, &str)] = &[
    ("BLPOP new other 0", "RPUSH new a"),
    ("BRPOP other new 0", "MULTI; RPUSH new a; EXEC"),
    ("BLMPOP 0 2 other new LEFT", "RPUSH new a b"),
    ("BLMOVE new other LEFT RIGHT 0", "RPUSH new a"),
    ("BLMOVE new l1 LEFT RIGHT 0", "EVAL redis.call('rpush','new','a') 1 new"),
    ("BLMOVE new a LEFT RIGHT 0", "RPUSH new a"),
    ("BRPOPLPUSH new new 0", "RPUSH new a"),
    ("BLPOP new 0", "RENAME l1 new"),
    ("BLPOP new 0", "COPY l1 new"),
    ("BLPOP new 0", "EVAL redis.call('rpush','new','a') 0"),
    ("BLPOP other 0", "SELECT 1; DEL other; RPUSH other a; SWAPDB 0 1"),
    ("BZPOPMIN new other 0", "ZADD new 1 a"),
    ("BZPOPMAX new 0", "ZADD new 1 a"),
    ("BZMPOP 0 2 other new MIN", "ZADD new 1 a"),
    ("BZPOPMIN new 0", "ZRANGESTORE new z1 0 -1"),
    ("XREAD BLOCK 0 STREAMS new x1 0 $", "XADD new 1-1 f v"),
    ("XREAD BLOCK 0 STREAMS new x1 0 $", "XADD x1 6-1 f v"),
    ("XREADGROUP GROUP g alice BLOCK 0 STREAMS x1 >", "XADD x1 6-1 f v"),
    ("XREADGROUP GROUP g alice BLOCK 0 STREAMS x1 >", "DEL x1"),
    ("XREADGROUP GROUP g alice BLOCK 0 STREAMS x1 >", "XGROUP DESTROY x1 g"),
    ("XREADGROUP GROUP g alice BLOCK 0 STREAMS x1 >", "SET x1 v"),
    ("XREADGROUP GROUP g alice BLOCK 0 STREAMS x1 >", "FLUSHALL"),
];

/// Requests that make a command block that would have found something.
const EMPTIED: &[(&str, &str)] = &[
    ("DEL l1", "BLPOP l1 0"),
    ("MULTI; LTRIM l1 9 9; EXEC", "BLMOVE l1 other LEFT RIGHT 0"),
    ("ZREM z1 a b hello", "BZPOPMIN z1 0"),
    ("XDEL x1 5-2 5-3", "XREAD BLOCK 0 STREAMS x1 5-1"),
    ("DEL l1", "BLPOP other l1 0"),
    ("DEL z1", "BZMPOP 0 3 other new z1 MIN"),
];

/// Requests by which a client that listens to `c` sends itself a message, or is sent one, after
/// others' writes.
const SENT_AFTER: &[&str] = &[
    "PUBLISH c it",
    "PUBLISH c it; PING",
    "MULTI; PUBLISH c it; SUBSCRIBE d; EXEC",
    "CLIENT REPLY OFF; PUBLISH c it",
    "CLIENT REPLY SKIP; PUBLISH c it",
    "EVAL redis.call('publish','c','it') 0",
];

/// The words of requests that are separated by semicolons. The text of a script is one word.
fn requests(lines: &str) -> Vec<Words> {
    lines.split("; ").map(words).collect()
}

/// Returns a client that has sent these requests and got their replies.
fn prepare(stage: &Stage, lines: &[Words], worker: usize) -> Visitor {
    let mut visitor = stage.visit(worker);
    stage.send(&mut visitor, &bytes(lines));
    // In the newer protocol subscriptions are confirmed by pushes.
    let replied = lines.iter().filter(|words| !words[0].ends_with(b"SUBSCRIBE")).count();
    stage.replies(&mut visitor, replied);
    stage.run_idle();
    visitor.forget();
    visitor
}

/// Holds the log back while `writer` writes. Returns what `listener` has received by then, and
/// whether it received something afterwards.
fn notify(
    stage: &Stage,
    writer: &mut Visitor,
    listener: &mut Visitor,
    writes: &[Words],
) -> Result<(Vec<u8>, bool), String> {
    let end = stage.end();
    stage.shut();
    stage.send(writer, &bytes(writes));
    stage.run_idle();
    let has_written = stage.end() > end;
    let (early, own) = (listener.received().to_vec(), writer.received().to_vec());
    stage.open();
    stage.run_idle();
    let wrong = |what: &str, bytes: &[u8]| {
        let (backend, policy, bytes) = (stage.backend, stage.policy, bytes.escape_ascii());
        Err(format!("{what}, with {backend:?} and {policy}, of {}: {bytes}", describe(writes)))
    };
    if has_written && !own.is_empty() {
        return wrong("a client that tells others was answered before its write is safe", &own);
    }
    if has_written && !early.is_empty() {
        return wrong("a client was told of a write that is not safe", &early);
    }
    if has_written && !stage.is_safe() {
        return wrong("something was sent and the write is not safe", listener.received());
    }
    Ok((listener.received().to_vec(), has_written))
}

fn begin(stage: &Stage) {
    drop(super::begin(stage, &[], 0));
}

/// Returns the number of a client.
fn id(stage: &Stage, visitor: &mut Visitor) -> String {
    stage.send(visitor, &bytes(&[words("CLIENT ID")]));
    let reply = stage.replies(visitor, 1);
    visitor.forget();
    String::from_utf8_lossy(&reply).trim_matches([':', '\r', '\n']).to_owned()
}

#[track_caller]
fn check_notified(stage: &Stage, listens: &str, writes: &str, worker: usize) {
    begin(stage);
    let listens_by = requests(&format!("HELLO 3; {listens}"));
    let mut listener = prepare(stage, &listens_by, worker);
    let mut writer = stage.visit(0);
    let notified = notify(stage, &mut writer, &mut listener, &requests(writes));
    let (notified, _) = notified.unwrap_or_else(|violation| panic!("{violation}: {listens}"));
    assert!(!notified.is_empty(), "nobody is told who did {listens}, of {writes}");
}

#[test]
fn listeners_are_notified_when_the_write_is_safe() {
    for_each_stage(|stage| {
        stage.shared.engine.set_events(commands::EventClasses::parse(b"AKEmn"));
        for (at, (listens, writes)) in NOTIFIED.iter().enumerate() {
            check_notified(stage, listens, writes, at % 2);
            check_notified(stage, listens, writes, (at + 1) % 2);
        }
    });
}

#[test]
fn blocked_listeners_are_notified_when_the_write_is_safe() {
    for_each_stage(|stage| {
        stage.shared.engine.set_events(commands::EventClasses::parse(b"AKEmn"));
        for (at, (listens, writes)) in NOTIFIED.iter().enumerate() {
            begin(stage);
            let listens_by = requests(&format!("HELLO 3; {listens}"));
            let mut listener = prepare(stage, &listens_by, at % 2);
            stage.send(&mut listener, &bytes(&[words("BLPOP nothing 0")]));
            listener.forget();
            let mut writer = stage.visit(0);
            let notified = notify(stage, &mut writer, &mut listener, &requests(writes));
            let (notified, _) =
                notified.unwrap_or_else(|violation| panic!("{violation}: {listens}"));
            assert!(!notified.is_empty(), "nobody is told who did {listens}, of {writes}");
        }
    });
}

#[test]
fn redirected_invalidations_leave_when_the_write_is_safe() {
    for_each_stage(|stage| {
        for writes in ["SET a 2", "DEL a", "FLUSHALL", "MULTI; SET a 2; EXEC"] {
            begin(stage);
            let listens = requests("SUBSCRIBE __redis__:invalidate");
            let mut listener = stage.visit(1);
            let target = id(stage, &mut listener);
            stage.send(&mut listener, &bytes(&listens));
            stage.replies(&mut listener, 1);
            listener.forget();
            let tracks = requests(&format!("CLIENT TRACKING ON REDIRECT {target}; GET a"));
            let _reader = prepare(stage, &tracks, 0);
            let mut writer = stage.visit(0);
            let notified = notify(stage, &mut writer, &mut listener, &requests(writes));
            let (notified, _) = notified.unwrap_or_else(|violation| panic!("{violation}"));
            assert!(!notified.is_empty(), "nobody is told of {writes}");
        }
    });
}

#[test]
fn what_a_client_sends_itself_waits_for_its_write() {
    for_each_stage(|stage| {
        for lines in SENT_TO_ITSELF {
            begin(stage);
            let lines = requests(lines);
            let at = lines.iter().position(|words| words[0] == b"SET" || words[0] == b"MULTI");
            let (listens, writes) = lines.split_at(at.expect("a write"));
            let listens = [&[words("HELLO 3")], listens].concat();
            let mut client = stage.visit(1);
            stage.send(&mut client, &bytes(&listens));
            stage.run_idle();
            client.forget();
            let mut other = stage.visit(0);
            let notified = notify(stage, &mut client, &mut other, writes);
            notified.unwrap_or_else(|violation| panic!("{violation}"));
            assert!(!client.received().is_empty(), "it tells itself nothing: {}", describe(writes));
        }
    });
}

#[test]
fn a_message_waits_for_all_that_came_before_it() {
    for_each_stage(|stage| {
        for (at, lines) in SENT_AFTER.iter().enumerate() {
            begin(stage);
            let mut client = prepare(stage, &requests("HELLO 3; SUBSCRIBE c"), at % 2);
            let mut writer = stage.visit(0);
            stage.shut();
            stage.send(&mut writer, &bytes(&[words("SET a 2")]));
            stage.send(&mut client, &bytes(&requests(lines)));
            let early = client.received();
            let is_message = early.windows(7).any(|part| part == b"message");
            assert!(!is_message, "a message left before a write that came first: {lines}");
            stage.open();
            let late = client.received();
            let is_message = late.windows(7).any(|part| part == b"message");
            assert!(is_message, "there is no message of {lines}: {}", late.escape_ascii());
        }
    });
}

#[test]
fn a_wait_ends_when_what_ended_it_is_safe() {
    for_each_stage(|stage| {
        for (at, (blocks, writes)) in BLOCKED.iter().enumerate() {
            begin(stage);
            let _bob = prepare(stage, &requests("XREADGROUP GROUP g bob STREAMS x1 >"), 0);
            let mut blocked = stage.visit(at % 2);
            stage.send(&mut blocked, &bytes(&[words(blocks)]));
            let mut writer = stage.visit(0);
            let notified = notify(stage, &mut writer, &mut blocked, &requests(writes));
            let (notified, _) =
                notified.unwrap_or_else(|violation| panic!("{violation}: {blocks}"));
            assert!(!notified.is_empty(), "{blocks} does not end by {writes}");
        }
    });
}

#[test]
fn a_wait_that_others_end_waits_for_what_began_it() {
    for_each_stage(|stage| {
        for (writes, blocks) in EMPTIED {
            begin(stage);
            let (mut writer, mut ender) = (stage.visit(0), stage.visit(0));
            let mut blocked = stage.visit(1);
            let number = id(stage, &mut blocked);
            stage.shut();
            stage.send(&mut writer, &bytes(&requests(writes)));
            stage.send(&mut blocked, &bytes(&[words(blocks)]));
            stage.send(&mut ender, &bytes(&[words(&format!("CLIENT UNBLOCK {number}"))]));
            let early = blocked.received().to_vec();
            assert!(
                early.is_empty(),
                "a null shows a write that is not safe: {blocks} after {writes}, with {:?} and {}",
                stage.backend,
                stage.policy
            );
            let ended = ender.received();
            assert_eq!(ended, b":1\r\n", "{blocks} does not wait");
            stage.open();
            stage.replies(&mut blocked, 1);
        }
    });
}

#[test]
fn a_wait_whose_time_is_over_waits_for_what_began_it() {
    for_each_stage(|stage| {
        begin(stage);
        let (mut writer, mut blocked) = (stage.visit(0), stage.visit(1));
        stage.shut();
        stage.send(&mut writer, &bytes(&[words("DEL l1")]));
        stage.send(&mut blocked, &bytes(&[words("BLPOP other l1 0.002")]));
        let early = stage.wait_for_barrier(&mut blocked, 1);
        assert!(early.is_empty(), "a null shows a write that is not safe");
        stage.open();
        assert_eq!(stage.replies(&mut blocked, 1), b"*-1\r\n");
    });
}

#[test]
fn lines_and_events_of_any_write_leave_when_it_is_safe() {
    const LISTENS: &[&str] = &["MONITOR", "PSUBSCRIBE __key*", "CLIENT TRACKING ON BCAST"];
    let (mut random, mut count) = (Rng::with_seed(number("WAITS_SEED", 1)), 0);
    let cases = number("WAITS_CASES", 60);
    for_each_stage(|stage| {
        stage.shared.engine.set_events(commands::EventClasses::parse(b"AKEmn"));
        for at in 0..cases as usize {
            begin(stage);
            let listens = LISTENS[at % LISTENS.len()];
            let mut listener = prepare(stage, &requests(&format!("HELLO 3; {listens}")), at % 2);
            let writes = write_to_any(&stage.shared.engine, &mut random);
            let mut writer = stage.visit(0);
            let notified = notify(stage, &mut writer, &mut listener, &writes);
            let (notified, _) =
                notified.unwrap_or_else(|violation| panic!("{violation}: {listens}"));
            count += usize::from(!notified.is_empty());
        }
    });
    assert!(count as u64 > cases, "who listens was told of {count} writes only");
}
