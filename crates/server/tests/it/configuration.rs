//! Configuration as an administrator sees it: directives, the file and its rewriting, addresses,
//! the size of a pool.

use crate::administration::{error, start};
use std::time::Duration;
use testkit::{Client, Launch, free_port};

#[test]
fn directives_are_read_and_set() {
    let server = start(&["--timeout", "100", "--save", "900", "1"]);
    let mut client = server.client();
    client.check("CONFIG GET timeout", "[\"timeout\", \"100\"]");
    client.check("CONFIG GET save", "[\"save\", \"900 1\"]");
    client.check("CONFIG SET timeout 5 tcp-keepalive 60", "OK");
    client.check("CONFIG GET timeout", "[\"timeout\", \"5\"]");
    assert_eq!(client.run("CONFIG GET *").items().len() % 2, 0);
    assert!(client.run("CONFIG GET *max*").items().len() > 20);
    error(
        &mut client,
        "CONFIG SET timeout 6 nosuch 1",
        "ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'",
    );
    error(
        &mut client,
        "CONFIG SET timeout 6 maxclients x",
        "ERR CONFIG SET failed (possibly related to argument 'maxclients') - argument couldn't be parsed into an integer",
    );
    client.check("CONFIG GET timeout", "[\"timeout\", \"5\"]");
    error(&mut client, "CONFIG REWRITE", "ERR The server is running without a config file");
}

/// A server that was started with a configuration file; it ends when dropped.
pub(crate) struct WithFile(std::process::Child);

impl Drop for WithFile {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn start_with_file(file: &std::path::Path, port: u16) -> (WithFile, Client) {
    let mut command = std::process::Command::new(testkit::perdura_server());
    command.arg(file).args(["--port", &port.to_string(), "--appendonly", "no"]);
    command.stdout(std::process::Stdio::null());
    let server = WithFile(command.spawn().expect("started"));
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
    for _ in 0..6000 {
        if let Ok(client) = Client::connect(address) {
            return (server, client);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the server does not listen");
}

#[test]
fn commands_have_other_names_for_clients_and_in_the_log_their_own() {
    let names = ["SET put", "xadd append_entry", "FLUSHALL \"\"", "DEBUG \"\"", "flushdb flushall"];
    let launch = |names: &[&str]| {
        let lines = names.iter().map(|line| format!("--rename-command {line}"));
        Launch::perdura_aof("always").args(lines)
    };
    let mut server = launch(&names).start();
    let mut client = server.client();
    client.check("PUT k v", "OK");
    client.check("EVAL \"return redis.call('put', 'k2', 'v')\" 1 k2", "OK");
    client.check("MULTI", "OK");
    client.check("pUt k3 v", "QUEUED");
    client.check("EXEC", "[OK]");
    client.check("APPEND_ENTRY s 1-* f v", "\"1-0\"");
    for line in ["SET k v", "DEBUG SLEEP 0", "FLUSHDB", "XADD s * f v"] {
        let name = line.split(' ').next().expect("a name");
        let reply = client.run(line).text();
        assert!(reply.starts_with(&format!("ERR unknown command '{name}'")), "{line}: {reply}");
    }
    client.check("COMMAND INFO set", "[(nil)]");
    client.check("COMMAND LIST FILTERBY PATTERN set", "[\"set\"]");
    client.check("COMMAND LIST FILTERBY PATTERN flushall", "[]");
    client.check("ACL SETUSER limited on nopass ~* +set +ping", "OK");
    client.check("ACL DRYRUN limited put k v", "OK");
    let read = ["GET k", "GET k2", "GET k3", "XLEN s"];
    let before = read.map(|line| client.run(line));
    // The log has the original names of commands, so that it is readable under any others.
    for names in [&names[..], &[], &["set other"]] {
        server.terminate();
        server.start_as(launch(names));
        let mut client = server.client();
        assert_eq!(read.map(|line| client.run(line)), before, "{names:?}");
    }
    for (line, why) in [
        ("nosuch x", "No such command in rename-command"),
        ("get SET", "Target command name already exists"),
    ] {
        let ended = launch(&[line]).run_to_end();
        let text = format!("{ended:?}");
        assert!(text.contains(why) && text.contains("at line"), "{line}: {text}");
    }
}

#[test]
fn a_rewritten_file_is_read_at_the_next_start() {
    let scratch = testkit::Medium::Disk.scratch();
    let file = scratch.path().join("perdura.conf");
    let dir = scratch.path().display();
    let text =
        format!("# mine\ndir {dir}\ntimeout 7\nmaxmemory 100mb\nrename-command flushdb badger\n");
    std::fs::write(&file, text).expect("written");
    let port = free_port();
    let (server, mut client) = start_with_file(&file, port);
    client.check("CONFIG GET timeout", "[\"timeout\", \"7\"]");
    client.check("CONFIG SET timeout 8 slowlog-max-len 5 requirepass \"a b\"", "OK");
    client.check("CONFIG REWRITE", "OK");
    drop(server);
    let text = std::fs::read_to_string(&file).expect("read");
    for line in [
        "# mine",
        "timeout 8",
        "maxmemory 100mb",
        "slowlog-max-len 5",
        "requirepass \"a b\"",
        "rename-command flushdb badger",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} in {text}");
    }
    let (_server, mut client) = start_with_file(&file, port);
    client.check("AUTH \"a b\"", "OK");
    client.check("CONFIG GET slowlog-max-len", "[\"slowlog-max-len\", \"5\"]");
}

/// Returns true if a server listens at the address.
fn answers(address: ([u8; 4], u16)) -> bool {
    Client::connect(std::net::SocketAddr::from(address)).is_ok_and(|mut client| {
        client.try_call(&["PING"]).is_ok_and(|reply| reply.to_string() == "PONG")
    })
}

#[test]
fn bind_and_port_change_to_addresses_that_overlap_with_the_old_ones() {
    let server = start(&["--bind", "*"]);
    let mut client = server.client();
    let port = u16::try_from(
        client.run("CONFIG GET port").items()[1].text().parse::<u32>().expect("a number"),
    )
    .expect("a port");
    assert!(answers(([127, 0, 0, 2], port)));
    client.check("CONFIG SET bind 127.0.0.1", "OK");
    client.check("CONFIG GET bind", "[\"bind\", \"127.0.0.1\"]");
    assert!(answers(([127, 0, 0, 1], port)) && !answers(([127, 0, 0, 2], port)));
    client.check("CONFIG SET bind *", "OK");
    assert!(answers(([127, 0, 0, 2], port)));

    const REFUSED: &str = "ERR CONFIG SET failed (possibly related to argument 'bind') - Failed to bind to specified addresses.";
    error(&mut client, "CONFIG SET bind \"127.0.0.1 192.0.2.1\"", REFUSED);
    client.check("CONFIG GET bind", "[\"bind\", \"*\"]");
    assert!(answers(([127, 0, 0, 2], port)), "it listens again where it did");

    let other = free_port();
    client.check(&format!("CONFIG SET port {other} bind 127.0.0.1"), "OK");
    assert!(answers(([127, 0, 0, 1], other)) && !answers(([127, 0, 0, 1], port)));
    client.check(&format!("CONFIG SET bind * port {port}"), "OK");
    assert!(answers(([127, 0, 0, 2], port)) && !answers(([127, 0, 0, 1], other)));
    client.check("PING", "PONG");
}

#[test]
fn the_smallest_pool_that_the_configuration_takes_is_one_that_works() {
    for size in ["16777216", "64mb"] {
        let launch = Launch::perdura_pmem().args(["--pool-size", size]);
        let mut server = launch.start();
        let value = "v".repeat(100_000);
        assert_eq!(server.client().call(&["SET", "k", &value]).to_string(), "OK", "{size}");
        server.kill();
        server.start_again();
        assert_eq!(server.client().call(&["GET", "k"]).bytes(), Some(value.as_bytes()), "{size}");
    }
    let refused = Launch::perdura_pmem().args(["--pool-size", "16777215"]).run_to_end();
    assert!(refused.log.contains("argument must be between 16777216 and"), "{}", refused.log);
}

/// Fills a store with values of 100,000 bytes. Returns how many it took.
fn fill(client: &mut Client, prefix: &str) -> usize {
    let value = "v".repeat(100_000);
    let is_taken = |n: &usize| {
        let reply = client.call(&["SET", &format!("{prefix}{n}"), &value]).to_string();
        assert!(reply == "OK" || reply.contains("OOM the store is full"), "{reply}");
        reply == "OK"
    };
    (0..10_000).take_while(is_taken).count()
}

#[test]
fn the_limit_of_a_pool_is_said_at_the_start_and_raised_while_it_is_served() {
    for launch in [Launch::perdura_pmem(), Launch::perdura_journal("everysec")] {
        let mut server = launch.args(["--pool-size", "32mb"]).start();
        let mut client = server.client();
        let limit = |client: &mut Client| client.info("persistence")["pool_limit"].clone();
        let said = format!("The pool may grow to {} bytes (pool-size)", limit(&mut client));
        assert!(server.log().contains(&said), "{}", server.log());
        let memory = client.info("memory");
        assert!(memory["maxmemory"].parse::<u64>().expect("a number") > 16 << 20, "{memory:?}");
        for name in ["mem_fragmentation_ratio", "allocator_frag_ratio"] {
            assert_eq!(memory[name], "1.00", "{name} of an empty store");
        }
        let stored = fill(&mut client, "a");
        assert!((150..320).contains(&stored), "{stored} values in 32 MiB");
        assert!(client.info("persistence")["writes_refused"].contains("the store is full"));
        client.check("CONFIG SET pool-size 64mb", "OK");
        assert_eq!(client.info("persistence")["writes_refused"], "");
        let more = fill(&mut client, "b");
        assert!(more > 230, "{more} more in 64 MiB");
        for (size, why) in [("1000gb", "without a restart"), ("17mb", "already")] {
            let reply = client.call(&["CONFIG", "SET", "pool-size", size]).to_string();
            assert!(reply.contains(why), "{reply}");
        }
        server.kill();
        server.start_again();
        let mut client = server.client();
        client.check("DBSIZE", &format!("(integer) {}", stored + more));
    }
}

#[test]
fn keys_are_evicted_only_near_the_raised_limit_of_a_pool() {
    let arguments = ["--pool-size", "32mb", "--maxmemory-policy", "allkeys-random"];
    let server = Launch::perdura_pmem().args(arguments).start();
    let mut client = server.client();
    let value = "v".repeat(100_000);
    let mut kept_of = |keys: std::ops::Range<u32>| {
        keys.for_each(|n| client.check(&format!("SET {n} {value}"), "OK"));
        let size = client.run("DBSIZE").to_string();
        size["(integer) ".len()..].parse::<u32>().expect("a number")
    };
    let kept = kept_of(0..500);
    assert!(kept < 320, "{kept} values in 32 MiB");
    server.client().check("CONFIG SET pool-size 64mb", "OK");
    let more = kept_of(500..1000);
    assert!(more > kept * 3 / 2, "{more} values in 64 MiB, after {kept} in 32 MiB");
}

#[test]
fn a_pool_is_never_larger_than_its_limit() {
    for (size, bytes) in [("16mb", 16 << 20), ("64mb", 64 << 20), ("300mb", 300 << 20)] {
        let server = Launch::perdura_pmem().args(["--pool-size", size]).start();
        let info = server.client().info("persistence");
        let [taken, limit]: [u64; 2] =
            ["pool_size", "pool_limit"].map(|name| info[name].parse().expect("a number"));
        assert!(taken <= limit && limit <= bytes, "{size}: {taken} taken, {limit} at most");
    }
}
