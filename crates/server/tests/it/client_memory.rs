//! Memory of clients and of the process: reported, counted toward limits, and given back.

use crate::administration::{field, start};
use std::time::{Duration, Instant};
use testkit::{Client, Launch};

#[test]
fn what_the_process_takes_counts_where_the_data_is_in_the_same_memory() {
    let number = |client: &mut Client, name: &str| -> u64 {
        client.info("memory")[name].parse().expect("a number")
    };
    let server = Launch::perdura_volatile().start();
    let mut client = server.client();
    let startup = number(&mut client, "used_memory_startup");
    assert!(startup > 100_000, "{startup}");
    assert!(number(&mut client, "used_memory") >= startup);
    client.check(&format!("CONFIG SET maxmemory {}", startup - 1), "OK");
    client.check("SET k v", "(error) OOM command not allowed when used memory > 'maxmemory'.");
    client.check(&format!("CONFIG SET maxmemory {}", startup + 100_000), "OK");
    client.check("SET k v", "OK");

    let server = Launch::perdura_pmem().start();
    let mut client = server.client();
    assert_eq!(number(&mut client, "used_memory_startup"), 0);
    assert_eq!(number(&mut client, "used_memory"), 0);
}

/// Returns the line of a client in CLIENT LIST, once it is as expected.
#[track_caller]
fn line_of(observer: &mut Client, id: i64, what: &str, is_so: impl Fn(&str) -> bool) -> String {
    let began = Instant::now();
    loop {
        let list = observer.run("CLIENT LIST").text();
        let start = format!("id={id} ");
        let line = list.lines().find(|line| line.starts_with(&start)).unwrap_or_default();
        if is_so(line) {
            return line.to_owned();
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{what}: {line}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn id_of(client: &mut Client) -> i64 {
    client.run("CLIENT ID").int().expect("an id")
}

#[test]
fn the_memory_of_clients_is_reported_and_limited() {
    let server = start(&[]);
    let (mut client, mut unread) = (server.client(), server.client());
    client.check(&format!("SET large {}", "v".repeat(512 << 10)), "OK");
    let id = id_of(&mut unread);
    // The sockets hold up to tens of MiB of them.
    let gets = vec![vec!["GET".to_owned(), "large".to_owned()]; 160];
    unread.send_pipeline(&gets).expect("sent");
    let number = |line: &str, name: &str| field(line, name).parse::<usize>().expect("a number");
    let line = line_of(&mut client, id, "replies wait", |line| number(line, "omem") > 20 << 20);
    assert!(number(&line, "tot-mem") > number(&line, "omem") && number(&line, "oll") > 1, "{line}");
    let reported: usize = client.info("memory")["mem_clients_normal"].parse().expect("a number");
    assert!(reported > 20 << 20, "{reported}");

    client.check("CONFIG SET maxmemory 100mb maxmemory-clients 10%", "OK");
    line_of(&mut client, id, "it is evicted", str::is_empty);
    assert_eq!(client.info("stats")["evicted_clients"], "1");
    let began = Instant::now();
    while !server.log().contains("Evicting client: id=") {
        assert!(began.elapsed() < Duration::from_secs(30), "{}", server.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    client.check("CONFIG RESETSTAT", "OK");
    assert_eq!(client.info("stats")["evicted_clients"], "0");
    client.check("STRLEN large", &format!("(integer) {}", 512 << 10));
}

#[test]
fn a_request_that_is_still_arriving_is_counted_and_takes_what_it_needs() {
    let server = start(&[]);
    let (mut observer, mut slow) = (server.client(), server.client());
    let id = id_of(&mut slow);
    let value = "v".repeat(200_000);
    let request = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$200000\r\n{value}\r\n");
    slow.send_raw(&request.as_bytes()[..150_000]).expect("sent");
    let number = |line: &str, name: &str| field(line, name).parse::<usize>().expect("a number");
    // The numbers are stored one after the other.
    line_of(&mut observer, id, "it arrives, and all of it counts", |line| {
        let parts = ["qbuf", "qbuf-free", "argv-mem"].map(|name| number(line, name));
        let [arrived, free, arguments] = parts;
        let all = number(line, "tot-mem");
        arrived == 150_000 && free <= 150_000 && arguments > 0 && all > parts.iter().sum()
    });
    slow.send_raw(&request.as_bytes()[150_000..]).expect("sent");
    assert_eq!(slow.receive().expect("a reply").text(), "OK");
    observer.check("STRLEN k", "(integer) 200000");
    line_of(&mut observer, id, "nothing is left of it", |line| number(line, "argv-mem") == 0);
}

#[test]
fn who_sends_byte_by_byte_takes_no_more_space_for_it() {
    let server = start(&[]);
    let (mut observer, mut slow) = (server.client(), server.client());
    let id = id_of(&mut slow);
    // Each time the server checks it as an idle client.
    for byte in b"*1000000" {
        std::thread::sleep(Duration::from_millis(1100));
        slow.send_raw(&[*byte]).expect("sent");
    }
    let is_there = |line: &str| field(line, "qbuf") == "8";
    let line = line_of(&mut observer, id, "it has arrived", is_there);
    let spare: usize = field(&line, "qbuf-free").parse().expect("a number");
    assert!(spare <= 16 << 10, "{line}");
}

#[test]
fn an_idle_client_keeps_no_buffers() {
    let server = start(&[]);
    let (mut observer, mut silent, mut idle) = (server.client(), server.client(), server.client());
    let is_free = |line: &str| field(line, "qbuf-free") == "0" && field(line, "rbs") == "0";
    idle.check(&format!("SET k {}", "v".repeat(100_000)), "OK");
    idle.run("GET k");
    let id = id_of(&mut idle);
    line_of(&mut observer, id, "buffers are released", is_free);
    line_of(&mut observer, id - 1, "who sends nothing has none", is_free);
    for client in [&mut silent, &mut idle] {
        client.check("STRLEN k", "(integer) 100000");
        client.check("PING", "PONG");
    }
}
