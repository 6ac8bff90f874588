//! The examples print what they should.

use std::process::Command;

#[track_caller]
fn check(name: &str, says: &[&str]) {
    let output = Command::new(testkit::example(name)).output().expect("the example runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {}\n{errors}", output.status);
    let text = String::from_utf8_lossy(&output.stdout);
    for said in says {
        assert!(text.contains(said), "{name} does not say {said:?}:\n{text}");
    }
}

#[test]
fn the_library_keeps_what_a_killed_program_was_promised() {
    check("embedded", &["the child was killed", "4 keys", "greeting:  hello"]);
}

#[test]
fn hashes_and_sets_are_changed_together() {
    check("articles", &["Fences: 1 tags", "Redo logs: 2 tags"]);
}

#[test]
fn jobs_move_from_list_to_list_in_a_transaction() {
    check("lists", &["fold: 3 waiting", "running: wash", "waiting 0: dry", "waiting 1: fold"]);
}

#[test]
fn players_have_ranks_and_move_between_boards() {
    check("leaderboard", &["edsger has 405", "relegated: ada", "1. grace 420.5", "3. barbara 390"]);
}

#[test]
fn a_stream_keeps_the_newest_entries() {
    check("streams", &["1000 entries are kept", "hour 500 degrees 20", "hour 501 degrees 21"]);
}

#[test]
fn workers_share_a_stream_and_take_over_what_is_left() {
    check(
        "streams",
        &[
            "ada was given 10, grace 5; 7 are done",
            "grace claims 8",
            "8 are pending, 8 of them given out twice",
        ],
    );
}

#[test]
fn visitors_are_counted_bit_by_bit_and_about() {
    check(
        "visitors",
        &[
            "monday: 1500 users",
            "both days: 500 users",
            "the first of them behind user 7: 12",
            "pages within 3 % of 20000: true",
        ],
    );
}

#[test]
fn cities_are_found_around_one_of_them() {
    check(
        "nearby",
        &["Vienna: 524 km", "Potsdam: 27 km", "Hamburg: 255 km", "3 cities are in the region"],
    );
}

#[test]
fn a_job_queue_loses_no_job_to_a_kill() {
    check(
        "job_queue",
        &[
            "the child was killed; all jobs that it reported are done",
            "every job that was enqueued is done once: true",
        ],
    );
}

#[test]
fn sessions_are_there_after_a_kill_until_they_end() {
    check(
        "sessions",
        &[
            "the child was killed; all sessions that it reported are there",
            "sessions of u3 after logging out everywhere: 0",
            "t4 has expired: true",
        ],
    );
}

#[test]
fn limits_and_bills_agree_after_a_kill() {
    check(
        "metering",
        &[
            "the child was killed; bills and limits agree",
            "c07 used 50, some requests were refused: true",
            "billed to c07: 50",
        ],
    );
}
