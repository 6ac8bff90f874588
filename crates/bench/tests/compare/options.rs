//! The effects of options: other devices, emulated media, peers.

use crate::kit::Comparison;
use bench::results::{Family, Results};
use std::fs;

/// Returns a comparison with one short run of each system.
fn short(more: &str) -> Comparison {
    Comparison::new(&format!("--workloads throughput-100 --seconds 0.2 --recovery none {more}"))
}

fn ids(results: &Results) -> Vec<&str> {
    results.systems.iter().map(|system| system.id.as_str()).collect()
}

/// Checks that every system was measured once, without an error.
#[track_caller]
fn all_ran(results: &Results, text: &str) {
    let ran: Vec<&str> = results.runs.iter().map(|run| run.system.as_str()).collect();
    assert_eq!(ran, ids(results), "{text}");
    assert!(results.runs.iter().all(|run| run.operations > 0 && run.errors == 0), "{text}");
}

/// The server, with another persistence domain for its pool.
const SYNCHRONISING: &str = r#"
case "$*" in
    *"--backend pmem"*) exec SERVER "$@" --domain msync ;;
    *) exec SERVER "$@" ;;
esac
"#;

#[test]
fn logs_are_measured_on_a_second_device_and_a_dax_mount_and_the_pool_there() {
    let (second, dax) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("one"));
    let path = |folder: &tempfile::TempDir| folder.path().display().to_string();
    let (second_path, dax_path) = (path(&second), path(&dax));
    let places = format!("--second {second_path} --dax {dax_path}");
    let systems = "--systems perdura-pmem,perdura-aof-no,redis-everysec";
    let mut comparison = short(&format!("{places} {systems}"));
    // Without persistent memory, the pool on the DAX mount must be allowed to use msync.
    let server = testkit::perdura_server();
    let script = SYNCHRONISING.replace("SERVER", &server.display().to_string());
    let server = comparison.script("server", &script);
    comparison.command.env("PERDURA_SERVER", server);
    let text = comparison.check(0);
    let results = comparison.results();
    let found: Vec<_> = results.systems.iter().map(|s| (s.id.as_str(), s.place.as_str())).collect();
    let expected = [
        ("perdura-pmem", "dax"),
        ("perdura-aof-no", "disk"),
        ("perdura-aof-no@second", "second"),
        ("perdura-aof-no@dax", "dax"),
        ("redis-everysec", "disk"),
        ("redis-everysec@second", "second"),
        ("redis-everysec@dax", "dax"),
    ];
    assert_eq!(found, expected, "{text}");
    all_ran(&results, &text);
    let place =
        |id: &str| results.machine.places.iter().find(|p| p.id == id).map(|p| p.path.clone());
    assert_eq!((place("second"), place("dax")), (Some(second_path), Some(dax_path)));
    // The server itself reports the domain of the pool, and nothing is emulated.
    let pool = &results.systems[0];
    assert_eq!((pool.domain.as_deref(), &pool.emulated), (Some("msync"), &None), "{text}");
    // Both folders are where temporary files are, so the second device is the same as the first.
    let same = format!("--second {} is on the same device as", second.path().display());
    assert!(text.contains(&format!("perdura-bench: warning: {same}")), "{text}");
    assert_eq!(results.warnings.len(), 1, "{text}");
    let page = fs::read_to_string(comparison.out().join("report.html")).expect("the report");
    assert!(page.contains(&same), "the page says it");
    for folder in [&second, &dax] {
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0, "all was removed");
    }
}

#[test]
fn a_second_device_that_is_another_one_is_no_reason_to_warn() {
    let memory = tempfile::tempdir_in("/dev/shm").expect("a folder");
    let path = memory.path().display();
    let mut comparison = short(&format!("--second {path} --systems perdura-aof-no@second"));
    let text = comparison.check(0);
    assert!(comparison.results().warnings.is_empty(), "{text}");
    assert!(!text.contains("same device"), "{text}");
}

#[test]
fn a_directory_without_persistent_memory_is_no_dax_mount() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().display();
    let mut comparison = short(&format!("--dax {path} --systems perdura-pmem"));
    let text = comparison.check(2);
    assert!(text.contains("needs persistent memory"), "{text}");
}

#[test]
fn a_peer_is_measured_like_the_others() {
    let mut comparison = short("--systems other-off").peer("other", r#"exec redis-server "$@""#);
    let text = comparison.check(0);
    let results = comparison.results();
    all_ran(&results, &text);
    assert_eq!((ids(&results), results.systems[0].family), (vec!["other-off"], Family::Peer));
}

/// A substitute for a server that was built to emulate media: it records which medium it was to
/// emulate, and removes that option.
const PRETENDER: &str = r#"
emulated=; rest=
while [ $# -gt 0 ]; do
    case $1 in
        --emulate-media) emulated=$2; shift 2 ;;
        *) rest="$rest $1"; shift ;;
    esac
done
echo "$emulated:$rest" >> "$(dirname "$0")/emulated"
exec SERVER $rest
"#;

#[test]
fn emulated_media_and_read_caches_are_systems_of_their_own() {
    let mut comparison = short("--systems perdura-pmem --media optane --read-cache 1mb");
    let server = testkit::perdura_server();
    let script = PRETENDER.replace("SERVER", &server.display().to_string());
    let emulating = comparison.script("emulating", &script);
    comparison.command.arg("--media-server").arg(emulating);
    let text = comparison.check(0);
    let results = comparison.results();
    let expected =
        ["perdura-pmem", "perdura-pmem-cache", "perdura-pmem-optane", "perdura-pmem-optane-cache"];
    assert_eq!(ids(&results), expected, "{text}");
    all_ran(&results, &text);
    let labels: Vec<&str> = results.systems.iter().filter_map(|s| s.emulated.as_deref()).collect();
    assert_eq!(labels.len(), 4, "each is labelled");
    assert!(labels[2..].iter().all(|label| label.contains("delays of optane are added")), "{text}");
    let emulated =
        fs::read_to_string(comparison.folder.path().join("emulated")).expect("its notes");
    let started = |line: &&str| !line.ends_with("--version");
    let emulated: Vec<&str> = emulated.lines().filter(started).collect();
    assert!(emulated.iter().all(|line| line.starts_with("optane:")), "{emulated:?}");
    let cached = emulated.iter().filter(|line| line.ends_with("--read-cache 1mb")).count();
    // Each is started once to be probed and once to be measured.
    assert_eq!((cached, emulated.len()), (2, 4), "{emulated:?}");
    let page = fs::read_to_string(comparison.out().join("report.html")).expect("the report");
    assert!(page.contains("delays of optane are added"), "the page says it");
}

#[test]
fn a_server_that_emulates_no_media_is_named_with_what_it_says() {
    let mut comparison = short("--systems perdura-pmem --media optane");
    let text = comparison.check(1);
    assert!(text.contains("perdura-pmem-optane is left out, it does not start"), "{text}");
    assert!(text.contains("emulate-media"), "its own words: {text}");
    let systems: Vec<_> = comparison.results().runs.into_iter().map(|run| run.system).collect();
    assert_eq!(systems, ["perdura-pmem"], "the other was measured");
}
