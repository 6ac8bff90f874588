//! `perdura-bench throughput`, `recovery`, `memory`, `types`, `settings`, `stalls` and
//! `generators`, in small: what they print, and that nothing is left.

#![forbid(unsafe_code)]

use std::fs;
use std::process::Command;
use testkit::perdura_server;

/// Runs a measurement: what it prints, and its raw figures.
#[track_caller]
fn measured(name: &str, arguments: &[&str]) -> (String, Vec<Vec<String>>) {
    let disk = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_perdura-bench"));
    command.arg(name).env("PERDURA_SERVER", perdura_server());
    command.arg("--disk").arg(disk.path()).args(["--client-core", "0"]).args(arguments);
    let output = command.output().expect("the program runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {text}\n{errors}");
    let raw = fs::read_to_string(disk.path().join(format!("{name}.tsv"))).expect("raw figures");
    let left: Vec<_> = fs::read_dir(disk.path()).expect("the folder").flatten().collect();
    assert_eq!(left.len(), 1, "{left:?}");
    let lines = raw.lines().skip(1).map(|line| line.split('\t').map(str::to_owned).collect());
    (text, lines.collect())
}

#[track_caller]
fn number(cell: &str) -> f64 {
    cell.parse().unwrap_or_else(|error| panic!("{cell}: {error}"))
}

#[test]
fn throughput_has_rates_times_and_ratios() {
    let systems = "perdura volatile,perdura pmem emulated,perdura aof always";
    let arguments = ["--systems", systems, "--sizes", "32", "--pipelines", "16", "--rounds", "1"];
    let (text, raw) = measured("throughput", &[&arguments[..], &["--scale", "0.01"]].concat());
    assert!(
        text.contains("## 32 bytes, pipeline 16, 50 clients, 10000 operations a run"),
        "{text}"
    );
    assert!(text.contains("- SET a second, perdura pmem emulated to perdura volatile: "), "{text}");
    assert!(text.contains("## Latency of SET of 32 bytes"), "{text}");
    assert_eq!(raw.len(), 9, "SET, GET and latency of three systems: {raw:?}");
    for line in raw {
        assert!(number(&line[6]) > 100.0 && number(&line[9]) > 0.0, "{line:?}");
    }
}

#[test]
fn a_restart_answers_the_last_write() {
    for what in ["strings", "hashes", "hash", "zset"] {
        let arguments = ["--what", what, "--keys", "500,1000", "--rounds", "1"];
        let systems = ["--systems", "perdura pmem process,perdura aof everysec"];
        let (text, raw) = measured("recovery", &[&arguments[..], &systems[..]].concat());
        assert!(text.contains(&format!("kill -9, {what}, median of 1")), "{text}");
        assert_eq!(raw.len(), 4, "{raw:?}");
        assert!(raw.iter().all(|line| number(&line[2]) > 0.0), "{raw:?}");
    }
}

#[test]
fn a_restart_under_load_replays_words() {
    let arguments = ["--systems", "perdura pmem process", "--keys", "1000", "--rounds", "1"];
    let (text, raw) = measured("recovery", &[&arguments[..], &["--load", "1"]].concat());
    assert!(text.contains("words at most"), "{text}");
    assert!(number(&raw[0][3]) > 0.0, "{raw:?}");
}

#[test]
fn a_key_takes_more_than_its_bytes() {
    let arguments = ["--systems", "perdura volatile,perdura pmem process", "--keys", "20000,10000"];
    let (text, raw) = measured("memory", &arguments);
    assert!(text.contains("10000 keys: heap"), "{text}");
    let keys: Vec<&str> = raw.iter().map(|line| line[1].as_str()).collect();
    assert_eq!(keys, ["10000", "20000", "10000", "20000"]);
    assert!(raw.iter().all(|line| (48.0..400.0).contains(&number(&line[2]))), "{raw:?}");
}

#[test]
fn types_have_rates_and_bytes_per_element() {
    let arguments = ["--systems", "perdura volatile", "--rounds", "1", "--scale", "0.02"];
    let more = ["--members", "2000", "--pipelines", "16", "--tests", "lpop,zadd,xadd,lrange"];
    let (text, raw) = measured("types", &[&arguments[..], &more[..]].concat());
    let tests = |kind: &str| -> Vec<&str> {
        raw.iter().filter(|line| line[0] == kind).map(|line| line[2].as_str()).collect()
    };
    let small = ["LPOP", "ZADD", "XADD", "LRANGE_100", "LRANGE_300", "LRANGE_500", "LRANGE_600"];
    assert_eq!(tests("small"), small);
    assert_eq!(tests("large").len(), 7, "{raw:?}");
    assert_eq!(tests("memory"), ["sorted set", "hash", "set", "list", "stream"]);
    assert!(text.contains("## Bytes of memory per element, 2000 elements"), "{text}");
}

#[test]
fn dumps_are_loaded_and_saved() {
    if Command::new("redis-server").arg("--version").output().is_err() {
        eprintln!("not tested: no redis-server");
        return;
    }
    let arguments = ["--keys", "3000", "--rounds", "1", "--seconds", "1", "--no-moves"];
    let (text, raw) = measured("snapshots", &arguments);
    assert!(text.contains("## A dump of 3000 keys, "), "{text}");
    assert!(text.contains("- p99.9 while a save runs, perdura volatile all cores"), "{text}");
    let whats: Vec<&str> = raw.iter().map(|line| line[0].as_str()).collect();
    assert_eq!(whats, ["load", "save", "SET"].repeat(2));
    for line in raw {
        let figure = if line[0] == "SET" { &line[5] } else { &line[2] };
        assert!(number(figure) > 0.0, "{line:?}");
    }
}

#[test]
fn what_settings_cost_is_compared_with_none() {
    let arguments = ["--systems", "perdura volatile", "--pipelines", "16", "--rounds", "1"];
    let (text, raw) = measured("settings", &[&arguments[..], &["--scale", "0.01"]].concat());
    assert!(text.contains("## Pipeline 16, 50 clients, 10000 requests a run"), "{text}");
    let settings: Vec<&str> = raw.iter().map(|line| line[1].as_str()).step_by(2).collect();
    assert_eq!(settings, ["plain", "TLS", "limited user", "metrics, a scrape a second"]);
    assert!(raw.iter().all(|line| number(&line[4]) > 0.0 && number(&line[5]) > 0.0), "{raw:?}");
}

#[test]
fn generators_are_compared_with_ours() {
    if Command::new("redis-server").arg("--version").output().is_err() {
        eprintln!("not tested: no redis-server");
        return;
    }
    let arguments = ["--rounds", "1", "--requests", "20000", "--sizes", "32", "--pipelines", "16"];
    let (text, raw) = measured("generators", &arguments);
    assert!(text.contains("## SET of 32 bytes, pipeline 16, 50 clients"), "{text}");
    let ours = raw.iter().filter(|line| line[0] == "perdura-bench load");
    assert!(ours.clone().count() == 2, "{raw:?}");
    assert!(ours.clone().all(|line| number(&line[4]) + number(&line[5]) > 0.0), "{raw:?}");
}

#[test]
fn what_is_unknown_is_refused_by_name() {
    let check = |arguments: &[&str], part: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_perdura-bench"));
        let output = command.args(arguments).output().expect("the program runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(part), "{errors}");
    };
    check(&["throughput", "--systems", "mysql"], "no system mysql; there are: redis none; ");
    check(&["types", "--tests", "lpush,foo"], "no test foo; there are: lpush,");
    check(&["recovery", "--what", "hash", "--load", "1"], "--load sets strings");
    check(&["memory", "--keys", "1,x"], "x is not a number");
}

#[test]
fn a_long_run_has_its_minutes_and_pictures() {
    let disk = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_perdura-bench"));
    command.arg("soak").env("PERDURA_SERVER", perdura_server()).arg("--disk").arg(disk.path());
    command.args(["--client-core", "0", "--minutes", "2", "--minute", "1", "--keys", "100"]);
    let output = command.args(["--journal-mib", "1,2"]).output().expect("the program runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("perdura journal everysec, 2 MiB"), "{text}");
    let raw = fs::read_to_string(disk.path().join("soak.tsv")).expect("raw figures");
    let rows: Vec<Vec<&str>> = raw.lines().skip(1).map(|line| line.split('\t').collect()).collect();
    assert_eq!(rows.len(), 4, "{raw}");
    for row in &rows {
        assert!(number(row[3]) > 0.0 && number(row[5]) > 0.0 && number(row[12]) > 0.0, "{row:?}");
    }
    for picture in ["soak-latency.svg", "soak-sizes.svg"] {
        let svg = fs::read_to_string(disk.path().join(picture)).expect("a picture");
        assert!(svg.starts_with("<svg") && svg.contains("class=\"mark"), "{picture}");
    }
    let left = fs::read_dir(disk.path()).expect("the folder").count();
    assert_eq!(left, 3, "no server's directory is left");
}

#[test]
fn long_commands_are_measured_by_those_who_wait() {
    let disk = tempfile::tempdir().expect("a folder");
    let scenarios = "nothing,sunionstore+readers,exec,flushall";
    let mut command = Command::new(env!("CARGO_BIN_EXE_perdura-bench"));
    command.arg("stalls").env("PERDURA_SERVER", perdura_server()).arg("--disk").arg(disk.path());
    command.args(["--threads", "2", "--members", "1500", "--seconds", "0.2"]);
    let output =
        command.args(["--scenarios", scenarios, "--connections", "2"]).output().expect("a run");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("## perdura volatile, --threads 2: 1500 members, 2 probes"), "{text}");
    let raw = fs::read_to_string(disk.path().join("stalls.tsv")).expect("raw figures");
    let rows: Vec<Vec<&str>> = raw.lines().skip(1).map(|line| line.split('\t').collect()).collect();
    let names: Vec<&str> = rows.iter().step_by(4).map(|row| row[1]).collect();
    assert_eq!(names, scenarios.split(',').collect::<Vec<_>>());
    for row in &rows {
        assert!(number(row[3]) >= 10.0 && row[4] == "0" && row[5] == "0", "{row:?}");
        assert!(number(row[6]) > 0.0 && number(row[6]) <= number(row[9]), "{row:?}");
        assert_eq!((number(row[10]) > 0.0, row[12]), (row[1] != "nothing", ""), "{row:?}");
    }
}
