//! The scenarios of scenarios.py by redis-rs: `redis_rs scenarios` or `redis_rs writes`.

use std::collections::{BTreeMap, BTreeSet};
use std::env::{args, var};
use std::fs::{OpenOptions, read, read_to_string};
use std::io::Write as _;
use std::time::Duration;

use futures_util::StreamExt as _;
use redis::aio::{ConnectionManager, ConnectionManagerConfig, MultiplexedConnection};
use redis::caching::CacheConfig;
use redis::streams::{
    StreamAutoClaimOptions, StreamAutoClaimReply, StreamId, StreamPendingReply, StreamReadOptions,
    StreamReadReply,
};
use redis::{
    AsyncCommands as _, AsyncConnectionConfig, Client, ErrorKind, ExistenceCheck, FromRedisValue,
    IntoConnectionInfo as _, Pipeline, ProtocolVersion, RedisError, RedisResult, ScanOptions,
    Script, SetExpiry, SetOptions, TlsCertificates, Value, cmd, pipe,
};
use serde_json::{Value as Json, json};
use tokio::time::sleep;

type Connection = MultiplexedConnection;

fn environment(name: &str) -> String {
    var(name).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn protocol() -> ProtocolVersion {
    match environment("CLIENTS_PROTOCOL").as_str() {
        "3" => ProtocolVersion::RESP3,
        _ => ProtocolVersion::RESP2,
    }
}

fn client_of(database: i64, user: Option<(&str, &str)>) -> RedisResult<Client> {
    let info = environment("CLIENTS_URL").into_connection_info()?;
    let mut settings = info.redis_settings().clone().set_protocol(protocol()).set_db(database);
    if let Some((name, password)) = user {
        settings = settings.set_username(name).set_password(password);
    }
    Client::open(info.set_redis_settings(settings))
}

fn client() -> RedisResult<Client> {
    client_of(0, None)
}

fn tls_client() -> RedisResult<Client> {
    let info = environment("CLIENTS_TLS_URL").into_connection_info()?;
    let settings = info.redis_settings().clone().set_protocol(protocol());
    let authority = read(environment("CLIENTS_CA"))?;
    let certificates = TlsCertificates { client_tls: None, root_cert: Some(authority) };
    Client::build_with_tls(info.set_redis_settings(settings), certificates)
}

async fn connect() -> RedisResult<Connection> {
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    client()?.get_multiplexed_async_connection_with_config(&config).await
}

/// The first word of the error that the server replies.
fn code<T>(reply: RedisResult<T>) -> Option<String> {
    reply.err().map(|error| word(&error))
}

fn word(error: &RedisError) -> String {
    match error.kind() {
        ErrorKind::AuthenticationFailed => "WRONGPASS".to_owned(),
        _ => error.code().unwrap_or("none").to_owned(),
    }
}

/// Sends a request until the reply is as expected.
async fn until<T: FromRedisValue>(
    connection: &mut Connection,
    request: &redis::Cmd,
    is_done: impl Fn(&T) -> bool,
) -> RedisResult<()> {
    while !is_done(&request.query_async(connection).await?) {
        sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

async fn connection() -> RedisResult<Json> {
    let mut other = client_of(3, None)?.get_multiplexed_async_connection().await?;
    let () = cmd("CLIENT").arg("SETNAME").arg("reader").query_async(&mut other).await?;
    let info: String = cmd("CLIENT").arg("INFO").query_async(&mut other).await?;
    let fields: BTreeMap<_, _> =
        info.split_whitespace().filter_map(|field| field.split_once('=')).collect();
    let number = |name| fields[name].parse::<u32>().unwrap_or(u32::MAX);
    Ok(json!([fields["name"], number("db"), number("resp")]))
}

async fn values(c: &mut Connection) -> RedisResult<Json> {
    let absent = SetOptions::default().conditional_set(ExistenceCheck::NX);
    let expiring = absent.clone().with_expiration(SetExpiry::EX(100));
    let first: Option<String> = c.set_options("value", "one", expiring).await?;
    let second: Option<String> = c.set_options("value", "two", absent).await?;
    let some: Vec<Option<String>> = c.mget(&["value", "missing"]).await?;
    let number: i64 = c.incr("number", 1).await?;
    let ttl: i64 = c.ttl("value").await?;
    let deleted: i64 = c.del(&["value", "number", "missing"]).await?;
    let in_time = (1..=100).contains(&ttl);
    Ok(json!([first.is_some(), second.is_some(), some, number, in_time, deleted]))
}

async fn binary(c: &mut Connection) -> RedisResult<Json> {
    let key: Vec<u8> = (0..=255).collect();
    let value = key.repeat(4096);
    let () = c.set(&key, &value).await?;
    let read: Vec<u8> = c.get(&key).await?;
    let length: usize = c.strlen(&key).await?;
    Ok(json!([length, read == value]))
}

async fn types(c: &mut Connection) -> RedisResult<Json> {
    let () = c.hset_multiple("hash", &[("a", "1"), ("b", "2")]).await?;
    let () = c.rpush("list", &["x", "y"]).await?;
    let () = c.sadd("set", &["p", "q"]).await?;
    let () = c.zadd_multiple("sorted", &[(1.0, "low"), (2.5, "high")]).await?;
    let hash: BTreeMap<String, String> = c.hgetall("hash").await?;
    let list: Vec<String> = c.lrange("list", 0, -1).await?;
    let set: BTreeSet<String> = c.smembers("set").await?;
    let sorted: Vec<(String, f64)> = c.zrange_withscores("sorted", 0, -1).await?;
    Ok(json!([hash, list, set, sorted]))
}

async fn pipeline(c: &mut Connection) -> RedisResult<Json> {
    let mut requests = Pipeline::new();
    for _ in 0..1000 {
        requests.incr("count", 1);
    }
    requests.lpush("count", "x").get("count").ignore_errors();
    let mut replies: Vec<RedisResult<Value>> = requests.query_async(c).await?;
    let read: String = redis::from_redis_value(replies.pop().expect("a reply")?)?;
    let wrong = code(replies.pop().expect("a reply"));
    let last: i64 = redis::from_redis_value(replies.pop().expect("a reply")?)?;
    Ok(json!([last, wrong, read]))
}

async fn transaction(c: &mut Connection) -> RedisResult<Json> {
    let requests = pipe().atomic().set("watched", 1).ignore().incr("watched", 1).clone();
    let (number,): (i64,) = requests.query_async(c).await?;
    let mut watcher = connect().await?;
    let () = cmd("WATCH").arg("watched").query_async(&mut watcher).await?;
    let () = c.set("watched", "other").await?;
    let done: Option<()> = pipe().atomic().set("watched", "mine").query_async(&mut watcher).await?;
    let value: String = c.get("watched").await?;
    Ok(json!([number, done.is_none(), value]))
}

async fn pubsub(c: &mut Connection) -> RedisResult<Json> {
    let mut subscriber = client()?.get_async_pubsub().await?;
    subscriber.subscribe("news").await?;
    subscriber.psubscribe("n?ws").await?;
    let receivers: i64 = c.publish("news", "hello").await?;
    let mut messages = subscriber.into_on_message();
    let first = messages.next().await.expect("a message");
    let second = messages.next().await.expect("a message");
    drop(messages);
    let publish = cmd("PUBLISH").arg("news").arg("nobody").clone();
    until(c, &publish, |receivers: &i64| *receivers == 0).await?;
    let pattern: String = second.get_pattern()?;
    Ok(json!([
        receivers,
        [first.get_channel_name(), &first.get_payload::<String>()?],
        [&pattern, second.get_channel_name(), &second.get_payload::<String>()?],
    ]))
}

async fn blocking(c: &mut Connection) -> RedisResult<Json> {
    let mut blocked = connect().await?;
    let nothing: Option<(String, String)> = blocked.blpop("queue", 0.1).await?;
    let waiting = tokio::spawn(async move { blocked.blpop("queue", 60.0).await });
    let clients = cmd("INFO").arg("clients").clone();
    until(c, &clients, |info: &String| info.contains("blocked_clients:1")).await?;
    let () = c.rpush("queue", "job").await?;
    let popped: (String, String) = waiting.await.expect("no panic")?;
    let () = c.zadd("urgent", "first", 1).await?;
    let urgent: (String, String, f64) = c.bzpopmin("urgent", 1.0).await?;
    Ok(json!([nothing, popped, urgent]))
}

async fn scripts(c: &mut Connection) -> RedisResult<Json> {
    let script = Script::new("return redis.call('INCRBY', KEYS[1], ARGV[1])");
    let first: i64 = script.key("scripted").arg(40).invoke_async(c).await?;
    let () = cmd("SCRIPT").arg("FLUSH").query_async(c).await?;
    let second: i64 = script.key("scripted").arg(2).invoke_async(c).await?;
    let library = "#!lua name=greetings\nredis.register_function('greet', \
                   function(keys, args) return 'hello ' .. args[1] end)";
    let () = cmd("FUNCTION").arg("LOAD").arg(library).query_async(c).await?;
    let failing = Script::new("return redis.error_reply('MINE it is')");
    let failed: RedisResult<()> = failing.invoke_async(c).await;
    let greeting: String = cmd("FCALL").arg("greet").arg(0).arg("you").query_async(c).await?;
    Ok(json!([first, second, code(failed), greeting]))
}

async fn streams(c: &mut Connection) -> RedisResult<Json> {
    let () = c.xgroup_create_mkstream("stream", "group", "0").await?;
    for number in 1..=3 {
        let () = c.xadd("stream", format!("{number}-1"), &[("n", number)]).await?;
    }
    let two = StreamReadOptions::default().group("group", "alice").count(2);
    let read: StreamReadReply = c.xread_options(&["stream"], &[">"], &two).await?;
    let mut first = Vec::new();
    for entry in &read.keys[0].ids {
        first.push(json!([entry.id, { "n": entry.get::<String>("n") }]));
    }
    let acknowledged: i64 = c.xack("stream", "group", &["1-1"]).await?;
    let pending: StreamPendingReply = c.xpending("stream", "group").await?;
    let pending = match pending {
        StreamPendingReply::Data(data) => json!([data.count, data.start_id, data.end_id]),
        _ => Json::Null,
    };
    let options = StreamAutoClaimOptions::default();
    let claimed: StreamAutoClaimReply =
        c.xautoclaim_options("stream", "group", "bob", 0, "0", options).await?;
    let wait = StreamReadOptions::default().group("group", "bob").block(1000);
    let rest: StreamReadReply = c.xread_options(&["stream"], &[">"], &wait).await?;
    let length: i64 = c.xlen("stream").await?;
    let ids = |entries: &[StreamId]| entries.iter().map(|entry| json!(entry.id)).collect();
    let (claimed, rest): (Json, Json) = (ids(&claimed.claimed), ids(&rest.keys[0].ids));
    Ok(json!([first, acknowledged, pending, claimed, rest, length]))
}

async fn scans(c: &mut Connection) -> RedisResult<Json> {
    let names: Vec<String> = (0..1000).map(|number| format!("scan:{number}")).collect();
    let pairs: Vec<_> = names.iter().map(|name| (name, "x")).collect();
    let () = c.mset(&pairs).await?;
    let () = c.hset_multiple("scanned:hash", &pairs).await?;
    let () = c.sadd("scanned:set", &names).await?;
    let scored: Vec<_> = names.iter().map(|name| (1, name)).collect();
    let () = c.zadd_multiple("scanned:sorted", &scored).await?;
    let strings = ScanOptions::default().with_pattern("scan:*").with_count(100).with_type("string");
    let keys = count(c.scan_options::<String>(strings).await?).await?;
    let fields = count(c.hscan::<_, (String, String)>("scanned:hash").await?).await?;
    let members = count(c.sscan::<_, String>("scanned:set").await?).await?;
    let scores = count(c.zscan::<_, (String, f64)>("scanned:sorted").await?).await?;
    Ok(json!([keys, fields, members, scores]))
}

/// Returns the number of different items that a scan finds.
async fn count<T: FromRedisValue + std::fmt::Debug + Unpin + Send>(
    mut scan: redis::AsyncIter<'_, T>,
) -> RedisResult<usize> {
    let mut found = BTreeSet::new();
    while let Some(item) = scan.next_item().await {
        found.insert(format!("{:?}", item?));
    }
    Ok(found.len())
}

async fn tls() -> RedisResult<Json> {
    let mut c = tls_client()?.get_multiplexed_async_connection().await?;
    let () = c.set("app:key", "one").await?;
    let user: String = cmd("ACL").arg("WHOAMI").query_async(&mut c).await?;
    let value: String = c.get("app:key").await?;
    let other = code(c.get::<_, Value>("key").await);
    let flush = code(cmd("FLUSHALL").query_async::<()>(&mut c).await);
    let wrong = client_of(0, Some(("app", "wrong")))?;
    let refused = code(wrong.get_multiplexed_async_connection().await);
    Ok(json!([user, value, other, flush, refused]))
}

async fn caching(c: &mut Connection) -> RedisResult<Json> {
    if !matches!(protocol(), ProtocolVersion::RESP3) {
        return Ok(Json::Null);
    }
    let config = AsyncConnectionConfig::new().set_cache_config(CacheConfig::default());
    let mut cached = client()?.get_multiplexed_async_connection_with_config(&config).await?;
    let () = c.set("cached", "old").await?;
    let first: String = cached.get("cached").await?;
    let second: String = cached.get("cached").await?;
    let hits = cached.get_cache_statistics().map_or(0, |statistics| statistics.hit);
    let () = c.set("cached", "new").await?;
    until(&mut cached, cmd("GET").arg("cached"), |value: &String| value == "new").await?;
    Ok(json!([first, second, hits == 1]))
}

async fn run_scenarios() -> RedisResult<()> {
    let c = &mut connect().await?;
    println!("connection {}", connection().await?);
    println!("values {}", values(c).await?);
    println!("binary {}", binary(c).await?);
    println!("types {}", types(c).await?);
    println!("pipeline {}", pipeline(c).await?);
    println!("transaction {}", transaction(c).await?);
    println!("pubsub {}", pubsub(c).await?);
    println!("blocking {}", blocking(c).await?);
    println!("scripts {}", scripts(c).await?);
    println!("streams {}", streams(c).await?);
    println!("scans {}", scans(c).await?);
    println!("tls {}", tls().await?);
    println!("caching {}", caching(c).await?);
    Ok(())
}

async fn run_writes() -> RedisResult<()> {
    let path = environment("CLIENTS_LEDGER");
    let mut ledger = OpenOptions::new().append(true).open(&path)?;
    let config = ConnectionManagerConfig::new().set_number_of_retries(0);
    let mut c = ConnectionManager::new_with_config(tls_client()?, config).await?;
    for number in 1.. {
        if read_to_string(&path)?.contains("stop") {
            break;
        }
        let reply: RedisResult<()> = c.set(format!("app:write:{number}"), number).await;
        let event = if reply.is_ok() { "sent" } else { "unsure" };
        ledger.write_all(format!("{event} {number}\n").as_bytes())?;
        if reply.is_err() {
            sleep(Duration::from_millis(10)).await;
        }
    }
    Ok(())
}

#[tokio::main]
async fn main() -> RedisResult<()> {
    rustls::crypto::ring::default_provider().install_default().expect("the first provider");
    match args().nth(1).as_deref() {
        Some("scenarios") => run_scenarios().await,
        _ => run_writes().await,
    }
}
