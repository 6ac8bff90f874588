//! Options that do not fit together are refused before anything is sent, with what to do instead.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::Error;
use super::options::Options;
use super::types::Pattern;

/// Refuses what cannot be followed, and sees to it that this many connections may be opened.
pub(crate) fn check(options: &Options) -> Result<(), Error> {
    match complaint(options) {
        Some(complaint) => Err(Error::Options(complaint)),
        None => allow_connections(options),
    }
}

/// Returns the first thing that is wrong.
fn complaint(options: &Options) -> Option<String> {
    let above_zero = [
        ("--threads", options.threads as u64),
        ("--clients", options.clients as u64),
        ("--pipeline", options.pipeline as u64),
        ("--run-count", options.run_count as u64),
        ("--rate-limiting", options.rate_limiting.unwrap_or(1)),
        ("--reconnect-interval", options.reconnect_interval.unwrap_or(1)),
        ("--multi-key-get", options.multi_key_get.unwrap_or(1)),
    ];
    if let Some((name, _)) = above_zero.iter().find(|(_, number)| *number == 0) {
        return Some(format!("{name} must be above 0"));
    }
    if options.test_time.is_some_and(|time| !(time > 0.0 && time < 1e9)) {
        return Some("--test-time must be a number of seconds above 0".into());
    }
    if options.test_time.is_some() && options.requests.is_some() {
        return Some(
            "--test-time and --requests both say when a run ends: give one of them".into(),
        );
    }
    keys(options).or_else(|| values(options)).or_else(|| waits(options))
}

fn keys(options: &Options) -> Option<String> {
    if options.key_minimum > options.key_maximum {
        return Some("--key-minimum must not be above --key-maximum".into());
    }
    if options.key_maximum >= 1 << 53 {
        return Some("--key-maximum must be below 2^53".into());
    }
    let commands = &options.commands.0;
    let patterns: Vec<Pattern> = if commands.is_empty() {
        vec![options.key_pattern.set, options.key_pattern.get]
    } else {
        commands.iter().map(|command| command.pattern).collect()
    };
    let has = |pattern: Pattern| patterns.contains(&pattern);
    if has(Pattern::Zipf) && options.key_maximum == 0 {
        return Some("the pattern Z draws keys from 1 on: --key-maximum must be above 0".into());
    }
    if has(Pattern::Parallel) && patterns.iter().any(|pattern| *pattern != Pattern::Parallel) {
        return Some(
            "the pattern P divides the keys between connections: it must be that of every command"
                .into(),
        );
    }
    if (options.key_stddev.is_some() || options.key_median.is_some()) && !has(Pattern::Gaussian) {
        return Some("--key-stddev and --key-median speak of the pattern G only".into());
    }
    if options.key_zipf_exp.is_some() && !has(Pattern::Zipf) && options.ycsb.is_none() {
        return Some("--key-zipf-exp speaks of the pattern Z and of --ycsb only".into());
    }
    if options.key_zipf_exp.is_some_and(|exponent| !(exponent > 0.0 && exponent < 5.0)) {
        return Some("--key-zipf-exp must lie between 0 and 5".into());
    }
    if options.key_stddev.is_some_and(|deviation| !(deviation > 0.0 && deviation.is_finite())) {
        return Some("--key-stddev must be above 0".into());
    }
    let (low, high) = (options.key_minimum as f64, options.key_maximum as f64);
    if options.key_median.is_some_and(|median| !(low..=high).contains(&median)) {
        return Some("--key-median must lie between --key-minimum and --key-maximum".into());
    }
    None
}

fn values(options: &Options) -> Option<String> {
    /// Redis's limit for a string.
    const LONGEST: u64 = 512 << 20;
    if options.data_size == Some(0) || options.data_size_range.is_some_and(|span| span.low == 0) {
        return Some(
            "a value must have a byte: --data-size and --data-size-range begin at 1".into(),
        );
    }
    let longest = options
        .data_size_list
        .iter()
        .flat_map(|sizes| sizes.0.iter().map(|(size, _)| *size))
        .chain(options.data_size_range.map(|span| span.high))
        .chain(options.data_size.map(|size| size as u64))
        .max();
    let reach = longest.unwrap_or(0).saturating_add(options.data_offset);
    if reach > LONGEST {
        return Some("a value, with its --data-offset, must not exceed 512 MiB".into());
    }
    if options.data_offset > 0 {
        if options.expiry_range.is_some() {
            return Some("--data-offset writes with SETRANGE, which sets no --expiry-range".into());
        }
        if options.data_size_range.is_some() || options.data_size_list.is_some() {
            return Some("--data-offset needs values of one --data-size".into());
        }
        if options.multi_key_get.is_some() {
            return Some("--data-offset reads with GETRANGE, --multi-key-get with MGET".into());
        }
    }
    if options.expiry_range.is_some_and(|span| span.low == 0) {
        return Some("--expiry-range must begin at 1 second or later".into());
    }
    if !options.commands.0.is_empty() {
        let given = [
            ("--expiry-range", options.expiry_range.is_some()),
            ("--data-offset", options.data_offset > 0),
            ("--multi-key-get", options.multi_key_get.is_some()),
            ("--wait-ratio", options.wait_ratio.is_some()),
        ];
        let (name, _) = given.iter().find(|(_, given)| *given)?;
        return Some(format!("{name} speaks of SET and GET: leave it out, or --command"));
    }
    None
}

fn waits(options: &Options) -> Option<String> {
    let described = options.num_slaves.is_some() || options.wait_timeout.is_some();
    if described && options.wait_ratio.is_none() {
        return Some("--num-slaves and --wait-timeout speak of WAIT: give a --wait-ratio".into());
    }
    match options.wait_ratio {
        Some(ratio) if ratio.0 == 0 => Some("--wait-ratio must count SETs: 10:1".into()),
        Some(_) if options.ratio.0 == 0 => {
            Some("--wait-ratio waits after SETs, and the --ratio has none".into())
        }
        _ => None,
    }
}

/// Raises the limit of open files as far as it must be and may be.
fn allow_connections(options: &Options) -> Result<(), Error> {
    /// Files that are open anyway, and those of each thread.
    const OTHERS: u64 = 32;
    let (threads, clients) = (options.threads as u64, options.clients as u64);
    // A timer for each connection where requests have their times.
    let each = if options.rate_limiting.is_some() { 2 } else { 1 };
    let needed = threads.saturating_mul(clients.saturating_mul(each) + OTHERS) + OTHERS;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let highest = limit.maximum.map_or(needed, |maximum| maximum.min(needed));
    let raised =
        setrlimit(Resource::Nofile, Rlimit { current: Some(highest), maximum: limit.maximum });
    if raised.is_err() || highest < needed {
        return Err(Error::Options(format!(
            "{} connections need {needed} open files, and {highest} are allowed: take fewer --clients, or raise `ulimit -n`",
            threads.saturating_mul(clients)
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    #[track_caller]
    fn refused(line: &str, part: &str) {
        let words = ["load"].into_iter().chain(line.split(' '));
        let options = Line::try_parse_from(words).expect("a command line").options;
        let complaint = complaint(&options).unwrap_or_else(|| panic!("{line} was taken"));
        assert!(complaint.contains(part), "{line}: {complaint}");
    }

    #[test]
    fn what_does_not_fit_together_is_named() {
        refused("--threads 0", "--threads");
        refused("--pipeline 0", "--pipeline");
        refused("--test-time 0", "--test-time");
        refused("--test-time 2 -n 5", "--test-time and --requests");
        refused("-n allkeys --test-time 2", "--test-time and --requests");
        refused("--data-size 0", "--data-size");
        refused("--data-size-range 0-4", "--data-size-range");
        refused("--key-maximum 0 --key-pattern Z:R", "pattern Z");
        refused("--key-maximum 0 --command=GET --command-key-pattern Z", "pattern Z");
        refused("--key-minimum 5 --key-maximum 4", "--key-minimum");
        refused("--key-stddev 5", "pattern G");
        refused("--key-zipf-exp 1", "pattern Z");
        refused("--key-zipf-exp 5 --key-pattern Z:Z", "between 0 and 5");
        refused("--key-median 5 --key-minimum 10 --key-pattern G:R", "--key-median");
        refused("--command=GET --command-key-pattern P --command=SET", "every command");
        refused("--command=GET --multi-key-get 3", "--multi-key-get");
        refused("-d 536870912 --data-offset 1", "512 MiB");
        refused("--data-offset 1 --expiry-range 1-2", "SETRANGE");
        refused("--expiry-range 0-2", "--expiry-range");
        refused("--num-slaves 1-2", "--wait-ratio");
        refused("--wait-ratio 1:1 --ratio 0:1", "--ratio");
    }

    #[test]
    fn the_defaults_fit_together() {
        assert_eq!(complaint(&Options::default()), None);
    }
}
