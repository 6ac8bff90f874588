//! The move without a stop of docs/migration.md, line by line, while clients write.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use testkit::{Client, Server};

use super::{check_equal, count_in_log, info, redis, volatile, wait_for_link, wait_until};

/// The lines of each block of commands of a section.
fn blocks(section: &str) -> Vec<Vec<String>> {
    let page = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/migration.md"));
    let page = std::fs::read_to_string(page).expect("the page");
    let (_, text) = page.split_once(&format!("\n## {section}\n")).expect("the section");
    let text = text.split("\n## ").next().expect("a text");
    let blocks = text.split("```sh\n").skip(1).map(|rest| rest.split("```").next());
    blocks.map(|block| block.expect("an end").lines().map(str::to_owned).collect()).collect()
}

/// The servers by the names that the page gives them, and the one that applications write to.
struct Move {
    old: Server,
    new: Server,
    written: AtomicUsize,
    acknowledged: AtomicU64,
    ends: AtomicBool,
}

impl Move {
    fn servers(&self) -> [&Server; 2] {
        [&self.old, &self.new]
    }

    /// Executes a line of the page, and waits for what its comment says.
    fn execute(&self, line: &str) {
        let (command, comment) = line.split_once('#').unwrap_or((line, ""));
        let (server, command) = match command.trim() {
            start if start.starts_with("perdura-server ") => return,
            command => match command.strip_prefix("redis-cli -h old ") {
                Some(command) => (&self.old, command),
                None => (&self.new, command.strip_prefix("redis-cli -p 6380 ").expect("a server")),
            },
        };
        let address = |server: &Server| format!("127.0.0.1 {}", server.port());
        let command = command.replace("old 6379", &address(&self.old));
        let command = command.replace("new 6380", &address(&self.new));
        let mut client = server.client();
        let reply = client.run(&command);
        assert!(!reply.is_error(), "{command}: {reply}");
        if comment.contains("until master_link_status:up") {
            wait_for_link(&mut client);
        }
        if comment.contains("until both are equal") {
            let [mut old, mut new] = self.servers().map(Server::client);
            let offset = |client: &mut Client| info(client, "master_repl_offset");
            wait_until("their offsets differ", || offset(&mut old) == offset(&mut new));
        }
        if comment.contains("give the applications") {
            self.written.fetch_xor(1, SeqCst);
        }
    }

    /// Counts up, and tries again what was refused, where applications write then.
    fn write(&self) {
        while !self.ends.load(SeqCst) {
            let mut client = self.servers()[self.written.load(SeqCst)].client();
            loop {
                let reply = client.run("INCR counter");
                if reply.is_error() {
                    assert!(reply.to_string().contains("READONLY"), "{reply}");
                    std::thread::sleep(Duration::from_millis(1));
                    break;
                }
                self.acknowledged.fetch_add(1, SeqCst);
                if self.ends.load(SeqCst) {
                    return;
                }
            }
        }
    }

    /// Waits until more was written.
    fn wait_for_writes(&self) {
        let before = self.acknowledged.load(SeqCst);
        wait_until("nothing is written", || self.acknowledged.load(SeqCst) > before + 200);
    }
}

#[test]
fn no_write_is_lost_or_doubled_by_the_steps_of_the_page() {
    let of_page = blocks("Without a stop");
    assert_eq!(of_page.len(), 3, "follow, change over, and back");
    let (old, new) = (redis().start(), volatile().start());
    let (written, acknowledged, ends) = Default::default();
    let moved = Move { old, new, written, acknowledged, ends };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| moved.write());
        }
        for block in &of_page {
            moved.wait_for_writes();
            block.iter().for_each(|line| moved.execute(line));
        }
        moved.wait_for_writes();
        moved.ends.store(true, SeqCst);
    });
    let [mut old, mut new] = moved.servers().map(Server::client);
    check_equal(&mut old, &mut new);
    let count = moved.acknowledged.load(SeqCst);
    for client in [&mut old, &mut new] {
        client.check("GET counter", &format!("\"{count}\""));
    }
    // One dump, at the beginning.
    let dumps = moved.servers().map(|server| count_in_log(server, "Full resync from master"));
    assert_eq!(dumps, [0, 1]);
}
