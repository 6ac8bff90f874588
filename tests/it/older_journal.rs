//! A pool and its journal as a killed server of an older version left them: a journal of format 4,
//! whose batches are of lines. They are in the tree as their lines that are not zeros: the length
//! of the file, then an offset and 64 bytes for each.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use testkit::{Client, Launch};

const FILES: [(&str, &[u8]); 2] = [
    ("perdura.pool", include_bytes!("pools/journal-4.pool.lines")),
    ("perdura.pool.journal", include_bytes!("pools/journal-4.journal.lines")),
];

fn unpack(packed: &[u8], path: &Path) {
    let (len, lines) = packed.split_first_chunk().expect("a length");
    let file = File::create(path).expect("a file");
    file.set_len(u64::from_le_bytes(*len)).expect("a sparse file");
    for line in lines.chunks_exact(72) {
        let (at, bytes) = line.split_first_chunk().expect("an offset");
        file.write_all_at(bytes, u64::from_le_bytes(*at)).expect("space");
    }
}

/// Checks everything that the older server acknowledged before it was killed.
fn check_old(client: &mut Client) {
    for n in 0..40 {
        let value = if n % 3 == 0 { "(nil)".to_owned() } else { format!("\"value of {n}\"") };
        client.check(&format!("GET key:{n}"), &value);
    }
    for n in 0..10 {
        let value = format!("\"{}\"", "x".repeat(n));
        client.check(&format!("HGET hash:{} \"field {n}\"", n % 3), &value);
        client.check(&format!("LINDEX list {n}"), &format!("\"element {n}\""));
    }
    client.check("GET long", &format!("\"{}\"", "y".repeat(3000)));
    client.check("GET counter", "\"20\"");
}

/// The second start reads batches of lines, and batches of words after them.
#[test]
fn an_older_journal_is_read_whole_and_continued() {
    let mut server = Launch::perdura().start();
    server.kill();
    for (name, packed) in FILES {
        unpack(packed, &server.folder().join(name));
    }
    server.start_again();
    let mut client = server.client();
    check_old(&mut client);
    (0..50).for_each(|n| client.check(&format!("SET new:{n} {n}"), "OK"));
    server.kill();
    server.start_again();
    let mut client = server.client();
    check_old(&mut client);
    (0..50).for_each(|n| client.check(&format!("GET new:{n}"), &format!("\"{n}\"")));
    client.check("DBSIZE", &format!("(integer) {}", 26 + 3 + 3 + 50));
}
