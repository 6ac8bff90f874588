//! memtier_benchmark's options that are not supported: whoever uses them is told so by name.

/// Each with what to do instead.
const UNSUPPORTED: &[(&[&str], &str)] = &[
    (
        &["--tls", "--cert", "--key", "--cacert", "--tls-skip-verify", "--tls-protocols", "--sni"],
        "connections are not encrypted: put a TLS tunnel between, or leave it out",
    ),
    (&["--cluster-mode"], "one server is measured, not a cluster: leave it out"),
    (&["--uri", "-u"], "name the server by --server, --port, --authenticate and --select-db"),
    (
        &["--data-import", "--data-verify", "--verify-only", "--generate-keys", "--no-expiry"],
        "data is generated, not imported: see --data-size and --key-pattern",
    ),
    (
        &["--monitor-input", "--monitor-pattern"],
        "commands are not read from a file: give each with --command",
    ),
    (
        &["--scan-incremental-iteration", "--scan-incremental-max-iterations"],
        "cursors are not followed: leave it out",
    ),
    (
        &["--clients-start", "--clients-step", "--step-duration"],
        "the number of connections does not grow: run once for each --clients",
    ),
    (
        &[
            "--reconnect-on-error",
            "--max-reconnect-attempts",
            "--reconnect-backoff-factor",
            "--thread-conn-start-min-jitter-micros",
            "--thread-conn-start-max-jitter-micros",
        ],
        "a connection that fails ends the run, and all are made before it begins: leave it out",
    ),
    (
        &[
            "--statsd-host",
            "--statsd-port",
            "--statsd-prefix",
            "--statsd-run-label",
            "--graphite-port",
        ],
        "figures go to --json-out-file",
    ),
    (
        &["--client-stats", "--show-config", "--command-stats-breakdown", "--debug", "-D"],
        "all figures, with the command line, go to --json-out-file",
    ),
];

/// Returns what to say about an option that is memtier_benchmark's and not ours.
pub(crate) fn advice(option: &str) -> Option<String> {
    let name = option.split('=').next().unwrap_or(option);
    let (_, advice) = UNSUPPORTED.iter().find(|(names, _)| names.contains(&name))?;
    Some(format!("memtier_benchmark's option {name} is not supported: {advice}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Options;
    use clap::{Args, Command};

    #[test]
    fn an_option_is_either_built_or_listed() {
        let built = Options::augment_args(Command::new("load"));
        for name in UNSUPPORTED.iter().flat_map(|(names, _)| *names) {
            let name = name.trim_start_matches('-');
            let known = |arg: &clap::Arg| arg.get_long() == Some(name);
            assert!(!built.get_arguments().any(known), "--{name} is built");
        }
    }

    #[test]
    fn advice_names_the_option() {
        let advice = advice("--tls-protocols=TLSv1.2").expect("advice");
        assert!(advice.contains("--tls-protocols is not supported"), "{advice}");
        assert_eq!(super::advice("--threads"), None);
    }
}
