//! A replica without space for its primary's data: the link stops and says why, reads are served,
//! and the replica goes on when there is space.

use testkit::{Client, Launch};

use super::{check_equal, count_in_log, follow, info, quiet, volatile};
use super::{wait_for_link, wait_for_log, wait_until};

/// Returns launches with little space.
fn small() -> [Launch; 2] {
    let journal = quiet(Launch::perdura_journal("everysec")).args(["--journal-size", "4mb"]);
    [quiet(Launch::perdura_pmem()), journal].map(|launch| launch.args(["--pool-size", "32mb"]))
}

/// Writes 60 MB in values of this length.
fn fill(client: &mut Client, length: usize) {
    let value = "v".repeat(length);
    let count = 60_000_000 / length;
    let lines: Vec<Vec<String>> = (0..count)
        .map(|number| ["SET", &format!("key:{number}"), &value].map(str::to_owned).into())
        .collect();
    for lines in lines.chunks(1000) {
        for reply in client.pipeline(lines).expect("replies") {
            assert!(reply.is_ok(), "{reply}");
        }
    }
}

#[test]
fn a_stream_without_space_waits_for_it() {
    // Short commands are executed several at a time.
    for (launch, length) in small().into_iter().zip([1000, 100_000]) {
        let primary = volatile().args(["--repl-backlog-size", "100mb"]).start();
        let mut client = primary.client();
        client.check("SET before 1", "OK");
        let replica = super::start_replica(launch, &primary);
        let mut reader = replica.client();
        fill(&mut client, length);
        client.check("SET after 1", "OK");
        wait_for_log(&replica, "'SET' of the primary finds no space: OOM");
        wait_until("it does not try again", || count_in_log(&replica, "finds no space") >= 2);
        wait_until("it is linked", || info(&mut reader, "master_link_status") == "down");
        reader.check("GET before", "\"1\"");
        reader.check("EXISTS after", "(integer) 0");
        reader.check("CONFIG SET pool-size 256mb", "OK");
        wait_for_link(&mut reader);
        check_equal(&mut client, &mut reader);
        assert_eq!(count_in_log(&replica, "Full resync"), 1, "{}", replica.log());
    }
}

#[test]
fn a_link_is_slowed_down_before_the_journal_is_full() {
    let primary = volatile().args(["--repl-backlog-size", "100mb"]).start();
    let mut client = primary.client();
    client.check("SET before 1", "OK");
    // The primary's commands are executed several at a time: the space for these is left.
    let launch = quiet(Launch::perdura_journal("everysec")).args(["--journal-size", "1mb"]);
    let replica = super::start_replica(launch, &primary);
    let mut reader = replica.client();
    let set = |number: usize| ["SET", &format!("key:{number}"), "value"].map(str::to_owned).into();
    let lines: Vec<Vec<String>> = (0..20_000).map(set).collect();
    client.send_pipeline(&lines).expect("it is sent");
    for _ in &lines {
        assert!(client.receive().expect("a reply").is_ok());
    }
    check_equal(&mut client, &mut reader);
    let facts = reader.info("persistence");
    let number = |name: &str| facts[name].parse::<u64>().expect("a number");
    assert!(number("journal_written_bytes") > 2 << 20, "{facts:?}");
    // Some may come while it grows.
    assert!(number("journal_full_waits") <= 3, "{facts:?}");
    assert_eq!(count_in_log(&replica, "Full resync"), 1, "{}", replica.log());
}

#[test]
fn a_dump_without_space_is_had_again_when_there_is_some() {
    for launch in small() {
        let primary = volatile().start();
        let mut client = primary.client();
        fill(&mut client, 100_000);
        let replica = launch.start();
        let mut reader = replica.client();
        reader.check("SET own 1", "OK");
        follow(&mut reader, primary.port());
        wait_for_log(&replica, "the dump could not be loaded: ");
        wait_until("it does not try again", || {
            count_in_log(&replica, "the dump could not be loaded: ") >= 2
        });
        let log = replica.log();
        assert!(log.contains("full") || log.contains("space"), "{log}");
        reader.check("CONFIG SET pool-size 256mb", "OK");
        wait_for_link(&mut reader);
        check_equal(&mut client, &mut reader);
        reader.check("EXISTS own", "(integer) 0");
    }
}
