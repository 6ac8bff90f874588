//! Peers that do not start, die or lose data; Ctrl-C and SIGKILL; invalid arguments.

use crate::kit::{Comparison, TOOL, lives, said, under_way, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::Path;
use std::process::{Child, Command};

const LONG: &str = "--systems redis-everysec --workloads latency-100 --seconds 10 --recovery none";

/// Starts a long comparison. Returns it with its tool and the server under load.
fn long() -> (Comparison, Child, u32) {
    let mut comparison = Comparison::new(LONG);
    let tool = comparison.command.spawn().expect("the tool runs");
    let server = under_way(&tool, &comparison.out().join("results.json"));
    (comparison, tool, server)
}

#[test]
fn ctrl_c_keeps_what_was_measured_and_leaves_no_child() {
    let (comparison, tool, server) = long();
    kill_process(Pid::from_child(&tool), Signal::INT).expect("SIGINT is sent");
    let output = tool.wait_with_output().expect("the tool ends");
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(!lives(server), "the server was left");
    assert_eq!(comparison.results().partial.as_deref(), Some("interrupted"), "{text}");
    assert!(text.contains("partial: interrupted"), "{text}");
    assert!(comparison.left().is_empty(), "{:?}", comparison.left());
}

#[test]
fn a_tool_that_is_killed_leaves_no_child() {
    let (comparison, mut tool, server) = long();
    tool.kill().expect("SIGKILL is sent");
    tool.wait().expect("the tool ends");
    wait_until("the kernel ends the server", || !lives(server));
    assert!(comparison.results().partial.is_some());
    // The server's directory still exists, and the next tool removes it.
    assert_eq!(comparison.left().len(), 1);
    let mut next = Command::new(TOOL);
    next.args(["compare", "--systems", "nothing", "--out"]).arg(comparison.out());
    next.output().expect("the tool runs");
    assert!(comparison.left().is_empty(), "{:?}", comparison.left());
}

#[test]
fn a_peer_that_does_not_start_is_named_with_its_last_words() {
    let comparison = Comparison::new(
        "--workloads throughput-100 --seconds 0.2 --recovery none \
         --systems perdura-volatile,broken-off",
    );
    let script = "echo 'Fatal: <b>no</b> such luck'; echo Bye; exit 3";
    let mut comparison = comparison.peer("broken", script);
    let output = comparison.command.output().expect("the tool runs");
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("broken-off is left out, it does not start"), "{text}");
    // The summary repeats it.
    let summary = String::from_utf8_lossy(&output.stdout);
    for part in ["left out: broken-off: it does not start", "Fatal: <b>no</b> such luck", "Bye"] {
        assert!(summary.contains(part), "{part}: {text}");
    }
    let results = comparison.results();
    assert_eq!(results.runs.len(), 1, "the other was measured");
    assert_eq!(results.skipped[0].what, "broken-off");
    let page = fs::read_to_string(comparison.out().join("report.html")).expect("the report");
    let said = "<br>Fatal: &lt;b&gt;no&lt;/b&gt; such luck<br>Bye";
    assert!(page.contains("it ended: exit status: 3; the last lines of its log:"), "{text}");
    assert!(page.contains(said), "the page says it");
}

/// A server that dies under load: filling it takes fewer than a thousand commands.
const MORTAL: &str = r#"
redis-server "$@" & server=$!
until redis-cli -p "$2" info stats 2>&1 | grep -q 'commands_processed:[0-9]\{4\}'; do
    sleep 0.1
    kill -0 $server || exit
done
kill -9 $server
echo Fatal: out of luck
exit 3
"#;

#[test]
fn a_server_that_dies_meanwhile_costs_its_own_runs_alone() {
    let mut comparison = Comparison::new(
        "--workloads throughput-100 --seconds 4 --recovery none \
         --systems mortal-off,perdura-volatile",
    )
    .peer("mortal", MORTAL);
    let text = comparison.check(1);
    assert!(text.contains("mortal-off with throughput-100: it ended"), "{text}");
    assert!(text.contains("Fatal: out of luck"), "{text}");
    let results = comparison.results();
    let systems: Vec<_> = results.runs.iter().map(|run| run.system.as_str()).collect();
    assert_eq!(systems, ["perdura-volatile"], "{text}");
}

#[test]
fn a_system_that_forgets_is_caught() {
    let comparison =
        Comparison::new("--workloads none --seconds 0.3 --recovery 1mb --systems forgetful-always");
    // The peer acknowledges writes as durable and stores nothing.
    let mut comparison =
        comparison.peer("forgetful", r#"exec redis-server --port "$2" --dir "$6" --save """#);
    let text = comparison.check(1);
    assert!(text.contains("LOST: forgetful-always"), "{text}");
    let row = &comparison.results().recovery[0];
    assert_eq!((row.keys_lost, row.first_get_seconds), (row.keys, None), "{row:?}");
}

#[test]
fn wrong_arguments_are_refused_before_anything_is_measured() {
    for (arguments, expected) in [
        ("--systems mysql", "no system mysql; there are: perdura-pmem,"),
        ("--workloads tpcc", "no workload tpcc; there are: throughput-0,"),
        ("--recovery 1parsec", "no unit parsec"),
        ("--recovery-value 5", "5 is not in 24..=1048576"),
        ("--peer x=/nonexistent", "there is no program /nonexistent"),
        ("--perdura /nonexistent", "/nonexistent"),
        ("--quick --full", "cannot be used with"),
        ("--recovery 30tb", "are needed"),
        ("--second /nonexistent/x", "--second /nonexistent/x: there is no such directory"),
        ("--dax /nonexistent/x", "--dax /nonexistent/x: there is no such directory"),
        ("--media optane,mram", "[possible values: optane, nvdimm-n, cxl]"),
    ] {
        let mut comparison = Comparison::new(arguments);
        let text = comparison.check(2);
        assert!(text.contains(expected), "{arguments}: {text}");
        assert!(!comparison.out().join("results.json").exists(), "{arguments}");
    }
    assert!(!Path::new("/nonexistent").exists(), "no device was made up");
}
