//! An ordinary client library, as applications use it: the `redis` crate, in RESP2 and RESP3.
//!
//! The same statements run against redis-server, to notice a test that asks for too much.

use redis::{Commands, Connection, ErrorKind, RedisResult};
use std::collections::HashSet;
use std::time::{Duration, Instant};
use testkit::{Launch, Server};

fn connect(server: &Server, protocol: &str) -> Connection {
    let url = format!("redis://{}/?protocol={protocol}", server.address());
    let client = redis::Client::open(url).expect("an address");
    client.get_connection().expect("a connection")
}

fn strings(c: &mut Connection) -> RedisResult<()> {
    let () = c.set("greeting", "hello")?;
    assert_eq!(c.get::<_, String>("greeting")?, "hello");
    assert_eq!(c.append::<_, _, i64>("greeting", " there")?, 11);
    assert_eq!(c.getrange::<_, String>("greeting", 6, -1)?, "there");
    assert_eq!(c.get::<_, Option<String>>("missing")?, None);
    let () = c.mset(&[("a", "1"), ("b", "2")])?;
    assert_eq!(c.mget::<_, Vec<Option<i64>>>(&["a", "missing", "b"])?, [Some(1), None, Some(2)]);
    assert_eq!(c.incr::<_, _, i64>("a", 41)?, 42);
    let binary: Vec<u8> = (0..=255).collect();
    let () = c.set(&binary, &binary)?;
    assert_eq!(c.get::<_, Vec<u8>>(&binary)?, binary);
    Ok(())
}

fn expiry(c: &mut Connection) -> RedisResult<()> {
    let () = c.set_ex("session", "token", 100)?;
    assert!((90..=100).contains(&c.ttl::<_, i64>("session")?));
    assert!(c.persist::<_, bool>("session")?);
    assert_eq!(c.ttl::<_, i64>("session")?, -1);
    assert!(c.pexpire::<_, bool>("session", 1)?);
    let started = Instant::now();
    while c.exists::<_, bool>("session")? {
        assert!(started.elapsed() < Duration::from_secs(10), "it does not expire");
    }
    Ok(())
}

fn transactions(c: &mut Connection) -> RedisResult<()> {
    let () = c.set("stock", 10)?;
    let left: (i64, i64) = redis::transaction(c, &["stock"], |c, pipe| {
        let stock: i64 = c.get("stock")?;
        pipe.set("stock", stock - 1).ignore().get("stock").incr("sold", 1).query(c)
    })?;
    assert_eq!(left, (9, 1));
    let replies: Vec<i64> = redis::pipe().incr("n", 1).incr("n", 1).del("n").query(c)?;
    assert_eq!(replies, [1, 2, 1]);
    Ok(())
}

fn scanning(c: &mut Connection) -> RedisResult<()> {
    let mut pipe = redis::pipe();
    for n in 0..1000 {
        pipe.set(format!("scan:{n}"), n).ignore();
    }
    let () = pipe.query(c)?;
    let found: HashSet<String> = c.scan_match("scan:*")?.collect::<RedisResult<_>>()?;
    assert_eq!(found.len(), 1000);
    Ok(())
}

fn errors(c: &mut Connection) -> RedisResult<()> {
    let () = c.set("text", "no number")?;
    let refused = c.incr::<_, _, i64>("text", 1).unwrap_err();
    assert_eq!(refused.detail(), Some("value is not an integer or out of range"));
    let unknown = redis::cmd("NOSUCH").query::<()>(c).unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::Server(redis::ServerErrorKind::ResponseError));
    assert_eq!(c.get::<_, String>("text")?, "no number");
    Ok(())
}

fn check(launch: Launch) {
    let server = launch.start();
    for protocol in ["resp2", "resp3"] {
        let c = &mut connect(&server, protocol);
        for session in [strings, expiry, transactions, scanning, errors] {
            session(c).unwrap_or_else(|e| panic!("{protocol}: {e}"));
            let () = redis::cmd("FLUSHALL").query(c).expect("an empty keyspace");
        }
    }
}

#[test]
fn a_pool_serves_the_redis_crate() {
    check(Launch::perdura_pmem());
}

#[test]
fn a_server_with_an_append_only_file_serves_the_redis_crate() {
    check(Launch::perdura_aof("everysec"));
}

#[test]
fn redis_serves_the_redis_crate() {
    check(Launch::redis());
}
