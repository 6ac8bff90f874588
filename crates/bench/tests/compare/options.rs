//! What the options lead to: other devices, emulated media, peers, memtier_benchmark, a
//! generator at its limit.

use crate::kit::Comparison;
use bench::results::{Family, Results};
use std::path::Path;
use std::{env, fs};

/// One short run of each system.
const SHORT: &[&str] = &["--workloads", "throughput-100", "--seconds", "0.2", "--recovery", "none"];

fn short(more: &[&str]) -> Comparison {
    Comparison::new(&[SHORT, more].concat())
}

fn ids(results: &Results) -> Vec<&str> {
    results.systems.iter().map(|system| system.id.as_str()).collect()
}

/// Every system was measured once, without an error.
#[track_caller]
fn all_ran(results: &Results, text: &str) {
    let ran: Vec<&str> = results.runs.iter().map(|run| run.system.as_str()).collect();
    assert_eq!(ran, ids(results), "{text}");
    assert!(results.runs.iter().all(|run| run.operations > 0 && run.errors == 0), "{text}");
}

/// The server, with another domain for its pool.
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
    let systems = "perdura-pmem,perdura-aof-no,redis-everysec";
    let places = ["--second", &second_path, "--dax", &dax_path, "--systems", systems];
    let mut comparison = short(&places);
    // Without persistent memory the pool there must at least be allowed to synchronise.
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
    // The server itself says what a pool there is worth, and nothing of it is emulated.
    let pool = &results.systems[0];
    assert_eq!((pool.domain.as_deref(), &pool.emulated), (Some("msync"), &None), "{text}");
    // Both folders lie where temporary files do: that is no other device.
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
    let path = memory.path().display().to_string();
    let mut comparison = short(&["--second", &path, "--systems", "perdura-aof-no@second"]);
    let text = comparison.check(0);
    assert!(comparison.results().warnings.is_empty(), "{text}");
    assert!(!text.contains("same device"), "{text}");
}

#[test]
fn a_directory_without_persistent_memory_is_no_dax_mount() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().display().to_string();
    let mut comparison = short(&["--dax", &path, "--systems", "perdura-pmem"]);
    let text = comparison.check(2);
    assert!(text.contains("needs persistent memory"), "{text}");
}

#[test]
fn a_peer_is_measured_like_the_others() {
    let mut comparison =
        short(&["--systems", "other-off"]).peer("other", r#"exec redis-server "$@""#);
    let text = comparison.check(0);
    let results = comparison.results();
    all_ran(&results, &text);
    assert_eq!((ids(&results), results.systems[0].family), (vec!["other-off"], Family::Peer));
}

/// A stand-in for a server that was built to play media: it notes what it was asked to play and
/// leaves that out.
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
    let options = ["--systems", "perdura-pmem", "--emulate", "optane", "--read-cache", "1mb"];
    let mut comparison = short(&options);
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
    // Each is started once to be asked and once to be measured.
    assert_eq!((cached, emulated.len()), (2, 4), "{emulated:?}");
    let page = fs::read_to_string(comparison.out().join("report.html")).expect("the report");
    assert!(page.contains("delays of optane are added"), "the page says it");
}

#[test]
fn a_server_that_emulates_no_media_is_named_with_what_it_says() {
    let mut comparison = short(&["--systems", "perdura-pmem", "--media", "optane"]);
    let text = comparison.check(1);
    assert!(text.contains("perdura-pmem-optane is left out, it does not start"), "{text}");
    assert!(text.contains("emulate-media"), "its own words: {text}");
    let systems: Vec<_> = comparison.results().runs.into_iter().map(|run| run.system).collect();
    assert_eq!(systems, ["perdura-pmem"], "the other was measured");
}

/// A stand-in for memtier_benchmark, with its options and its JSON: it sets a key and hands over
/// what another one measured.
const MEMTIER: &str = r#"
[ "$1" = --version ] && { echo "memtier_benchmark 2.0.0 (stand-in)"; exit; }
echo "$*" >> "$(dirname "$0")/asked"
while [ $# -gt 0 ]; do
    case $1 in
        --json-out-file) json=$2 ;;
        --port) port=$2 ;;
    esac
    shift
done
redis-cli -p "$port" set memtier-1 mine > /dev/null
WORK
cp SAMPLE "$json"
"#;

/// A comparison of the pool alone, with a stand-in for memtier_benchmark that does some work too.
fn with_memtier(work: &str, more: &[&str]) -> Comparison {
    let usual = ["--driver", "memtier", "--systems", "perdura-pmem", "--seconds", "1"];
    let mut comparison = Comparison::new(&[&usual[..], &["--recovery", "none"], more].concat());
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sample/memtier.json");
    let script = MEMTIER.replace("SAMPLE", &sample.display().to_string()).replace("WORK", work);
    comparison.script("memtier_benchmark", &script);
    let path = env::var("PATH").expect("a PATH");
    let own = comparison.folder.path().display().to_string();
    comparison.command.env("PATH", format!("{own}:{path}"));
    comparison
}

#[test]
fn memtier_benchmark_makes_the_load_where_it_is_asked_to() {
    let mut comparison = with_memtier("", &["--workloads", "throughput-30,ycsb-d"]);
    let text = comparison.check(0);
    let results = comparison.results();
    assert_eq!(results.plan.driver, "memtier");
    assert_eq!(results.runs.len(), 1, "{text}");
    assert_eq!((results.runs[0].seconds, results.runs[0].saturated), (2.003, false), "{text}");
    let skipped = results.skipped.iter().find(|skipped| skipped.what == "ycsb-d");
    assert!(skipped.is_some_and(|skipped| skipped.why.contains("memtier_benchmark has neither")));
    assert!(results.machine.versions.iter().any(|version| version.text.contains("stand-in")));
    let asked = fs::read_to_string(comparison.folder.path().join("asked")).expect("its notes");
    let paper = ["--threads 4", "--clients 50", "--pipeline 6", "--data-size 4096", "--ratio 3:7"];
    for option in paper {
        assert!(asked.contains(option), "{option} in {asked}");
    }
}

#[test]
fn the_real_memtier_benchmark_is_served() {
    if !bench::load::memtier_driver::is_installed() {
        println!("SKIPPED, nothing was tested: memtier_benchmark is not on the PATH");
        return;
    }
    let systems = "perdura-pmem,perdura-aof-everysec";
    let mut comparison = Comparison::new(&[
        "--driver",
        "memtier",
        "--systems",
        systems,
        "--workloads",
        "throughput-70,latency-70",
        "--seconds",
        "1",
        "--recovery",
        "none",
    ]);
    let text = comparison.check(0);
    let results = comparison.results();
    assert_eq!(results.runs.len(), 4, "{text}");
    for run in &results.runs {
        assert!(run.operations > 0 && run.errors == 0 && run.latency.p50 > 0.0, "{run:?}");
        assert!(run.writes.is_some() && run.reads.is_some(), "{run:?}");
    }
}

#[test]
fn without_memtier_benchmark_its_driver_is_refused() {
    let mut comparison = short(&["--driver", "memtier", "--systems", "perdura-pmem"]);
    comparison.command.env("PATH", comparison.folder.path());
    let text = comparison.check(2);
    assert!(text.contains("memtier_benchmark is not on the PATH"), "{text}");
}

/// Uses three seconds of CPU time, however long the machine takes for them.
const BUSY: &str = r#"
trap 'done=yes' XCPU
ulimit -S -t 3
while [ -z "$done" ]; do :; done
ulimit -S -t unlimited
"#;

#[test]
fn a_generator_at_its_limit_is_distinguished_from_a_slow_server() {
    let all = rustix::thread::sched_getaffinity(None).expect("cores");
    let cores: Vec<usize> =
        (0..rustix::thread::CpuSet::MAX_CPU).filter(|core| all.is_set(*core)).take(2).collect();
    if cores.len() < 2 {
        println!("SKIPPED, nothing was tested: it takes two cores");
        return;
    }
    let mut comparison = with_memtier(BUSY, &["--workloads", "throughput-30,latency-30"]);
    let mut two = rustix::thread::CpuSet::new();
    cores.iter().for_each(|core| two.set(*core));
    // A child has the cores of the thread that starts it: one is the server's, the other the
    // generator's.
    let text = std::thread::scope(|scope| {
        let run = scope.spawn(|| {
            rustix::thread::sched_setaffinity(None, &two).expect("two cores");
            comparison.check(0)
        });
        run.join().expect("a run")
    });
    let results = comparison.results();
    let found: Vec<_> = results.runs.iter().map(|r| (r.workload.as_str(), r.saturated)).collect();
    // For the latency of one client both share a core: how busy it is tells nothing there.
    assert_eq!(found, [("throughput-30", true), ("latency-30", false)], "{text}");
    assert!(text.contains("CPU, generator saturated"), "{text}");
    let page = fs::read_to_string(comparison.out().join("report.html")).expect("the report");
    assert!(page.contains("Generator saturated"), "the page says it");
}
