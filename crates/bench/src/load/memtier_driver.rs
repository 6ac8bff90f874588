//! memtier_benchmark in place of our own generator: the same options, the same kind of outcome.
//!
//! It is for checking our figures against those of the tool that the field uses. What only we have
//! is refused.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::options::{Options, Protocol, SizePattern};
use super::outcome::{Ended, Outcome};
use super::{Error, check, memtier};

/// Its name on the `PATH`.
const PROGRAM: &str = "memtier_benchmark";

/// How soon its end is noticed.
const LOOK: Duration = Duration::from_millis(10);

/// Returns true if memtier_benchmark is there.
pub fn is_installed() -> bool {
    let mut command = Command::new(PROGRAM);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Does with memtier_benchmark what [`super::run`] does: once, whatever `run_count` says.
///
/// # Errors
/// Where it is not there, has no such option, or measured nothing.
pub fn run(options: &Options, cancel: &AtomicBool) -> Result<Outcome, Error> {
    check::check(options)?;
    let failed = |what: &str, why: &dyn std::fmt::Display| {
        Error::Failed(format!("{PROGRAM}: {what}: {why}"))
    };
    let folder = tempfile::tempdir().map_err(|e| failed("no scratch directory", &e))?;
    let (json, log) = (folder.path().join("out.json"), folder.path().join("log"));
    let errors = File::create(&log).map_err(|e| failed("no log", &e))?;
    let mut command = Command::new(PROGRAM);
    command.args(arguments(options, &json)?);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
    let mut child = command.spawn().map_err(|e| failed("it does not start", &e))?;
    let (status, cpu) = wait(&mut child, cancel).map_err(|e| failed("it is lost", &e))?;
    let printed = String::from_utf8_lossy(&fs::read(&log).unwrap_or_default()).into_owned();
    let text = fs::read_to_string(&json).unwrap_or_default();
    let mut outcome = memtier::outcome(&text, &printed).map_err(|why| {
        let last = printed.lines().rfind(|line| line.contains("error")).unwrap_or(&why);
        failed(&format!("no results ({status})"), &last)
    })?;
    if cancel.load(Ordering::Relaxed) {
        outcome.ended = Ended::Cancelled;
    } else if !status.success() {
        outcome.ended = Ended::Failed(format!("{PROGRAM} ended: {status}"));
    }
    outcome.generator.cpu_seconds = cpu.as_secs_f64();
    outcome.generator.cpu_per_operation =
        cpu.as_secs_f64() * 1e6 / outcome.totals.operations.max(1) as f64;
    // Of all threads together: it does not say more.
    let could = outcome.seconds * options.threads as f64;
    outcome.generator.busiest = if could > 0.0 { cpu.as_secs_f64() / could } else { 0.0 };
    outcome.generator.saturated = outcome.generator.busiest > super::SATURATED;
    Ok(outcome)
}

/// Waits for its end, and asks for it once when told to. Its CPU time is read after its end, before
/// it is forgotten.
fn wait(child: &mut Child, cancel: &AtomicBool) -> std::io::Result<(ExitStatus, Duration)> {
    let pid = Pid::from_child(child);
    let peek = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    let mut asked = false;
    while waitid(WaitId::Pid(pid), peek)?.is_none() {
        if cancel.load(Ordering::Relaxed) && !asked {
            kill_process(pid, Signal::INT)?;
            asked = true;
        }
        thread::sleep(LOOK);
    }
    let cpu = cpu_time(child.id()).unwrap_or_default();
    Ok((child.wait()?, cpu))
}

/// Returns the fourteenth and fifteenth field of `/proc/PID/stat`, in ticks.
fn cpu_time(pid: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let ticks = ticks()? + ticks()?;
    Some(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

/// Returns its command line.
fn arguments(options: &Options, json: &Path) -> Result<Vec<OsString>, Error> {
    if options.ycsb.is_some() {
        return Err(Error::Options(format!("{PROGRAM} has no --ycsb")));
    }
    let mut words: Vec<OsString> = vec!["--hide-histogram".into(), "--json-out-file".into()];
    words.push(json.into());
    let mut give = |name: &str, value: &dyn ToString| {
        words.push(name.into());
        words.push(value.to_string().into());
    };
    match &options.unix_socket {
        Some(path) => give("--unix-socket", &path.display()),
        None => {
            give("--server", &options.server);
            give("--port", &options.port);
        }
    }
    let protocol = match options.protocol {
        Protocol::Redis => "redis",
        Protocol::Resp2 => "resp2",
        Protocol::Resp3 => "resp3",
    };
    give("--protocol", &protocol);
    give("--threads", &options.threads);
    give("--clients", &options.clients);
    give("--pipeline", &options.pipeline);
    give("--key-prefix", &options.key_prefix);
    give("--key-maximum", &options.key_maximum);
    give("--print-percentiles", &options.print_percentiles);
    give("--select-db", &options.select_db);
    if let Some(time) = options.test_time {
        give("--test-time", &time.ceil());
    }
    for (name, value) in given(options) {
        if let Some(value) = value {
            give(name, &value);
        }
    }
    if options.commands.0.is_empty() {
        give("--ratio", &options.ratio);
        give("--key-pattern", &options.key_pattern);
    }
    for command in &options.commands.0 {
        give("--command", &command.text);
        give("--command-ratio", &command.ratio);
        give("--command-key-pattern", &command.pattern);
    }
    let switches = [
        ("--ipv4", options.ipv4),
        ("--ipv6", options.ipv6),
        ("--random-data", options.random_data),
        ("--distinct-client-seed", options.distinct_client_seed),
        ("--randomize", options.randomize),
    ];
    words.extend(switches.iter().filter(|(_, on)| *on).map(|(name, _)| OsString::from(name)));
    Ok(words)
}

/// Options that need not be given, each with its text.
fn given(options: &Options) -> Vec<(&'static str, Option<String>)> {
    fn text<T: ToString>(value: Option<&T>) -> Option<String> {
        value.map(T::to_string)
    }
    let above_zero = |number: u64| (number > 0).then(|| number.to_string());
    let range = options.data_size_range.is_some();
    let pattern = match options.data_size_pattern {
        SizePattern::R => "R",
        SizePattern::S => "S",
    };
    vec![
        ("--authenticate", options.authenticate.clone()),
        ("--connection-timeout", above_zero(options.connection_timeout)),
        ("--reconnect-interval", text(options.reconnect_interval.as_ref())),
        ("--requests", text(options.requests.as_ref())),
        ("--rate-limiting", text(options.rate_limiting.as_ref())),
        ("--multi-key-get", text(options.multi_key_get.as_ref())),
        ("--expiry-range", text(options.expiry_range.as_ref())),
        // It refuses 0, which is what it begins with anyway.
        ("--key-minimum", above_zero(options.key_minimum)),
        ("--data-offset", above_zero(options.data_offset)),
        ("--wait-ratio", text(options.wait_ratio.as_ref())),
        ("--num-slaves", text(options.num_slaves.as_ref())),
        ("--wait-timeout", text(options.wait_timeout.as_ref())),
        ("--data-size", text(options.data_size.as_ref())),
        ("--data-size-range", text(options.data_size_range.as_ref())),
        ("--data-size-list", text(options.data_size_list.as_ref())),
        ("--data-size-pattern", range.then(|| pattern.to_owned())),
        ("--key-stddev", text(options.key_stddev.as_ref())),
        ("--key-median", text(options.key_median.as_ref())),
        ("--key-zipf-exp", text(options.key_zipf_exp.as_ref())),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{Ratio, Ycsb};

    fn line(options: &Options) -> String {
        let words = arguments(options, Path::new("out.json")).expect("a command line");
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        format!(" {} ", words.join(" "))
    }

    #[test]
    fn options_go_over_by_their_names() {
        let options = Options {
            port: 7000,
            pipeline: 6,
            ratio: Ratio(30, 70),
            data_size: Some(4096),
            test_time: Some(9.5),
            distinct_client_seed: true,
            ..Options::default()
        };
        let line = line(&options);
        for part in [
            "--port 7000",
            "--pipeline 6",
            "--ratio 30:70",
            "--data-size 4096",
            "--test-time 10",
            "--distinct-client-seed",
            "--json-out-file out.json",
        ] {
            assert!(line.contains(&format!(" {part} ")), "{part} in {line}");
        }
        assert!(!line.contains("--requests"), "{line}");
    }

    #[test]
    fn commands_take_the_place_of_ratio_and_pattern() {
        let commands = crate::load::Commands(vec![crate::load::Command::new("PING")]);
        let line = line(&Options { commands, ..Options::default() });
        assert!(
            line.contains("--command PING --command-ratio 1 --command-key-pattern R"),
            "{line}"
        );
        assert!(!line.contains(" --ratio ") && !line.contains(" --key-pattern "), "{line}");
    }

    #[test]
    fn what_it_does_not_have_is_refused() {
        let options = Options { ycsb: Some(Ycsb::A), ..Options::default() };
        assert!(arguments(&options, Path::new("x")).is_err());
    }
}
