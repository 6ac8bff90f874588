//! LATENCY GRAPH and LATENCY DOCTOR: samples as a picture and in words.

use std::collections::BTreeMap;

use engine::observe::state::Series;

const COLUMNS: usize = 80;
const ROWS: usize = 4;
const FILL: [u8; 3] = *b"_o#";

/// Returns a picture of the samples, each column labelled with its age.
pub(super) fn graph(event: &str, series: &Series, now_s: u64) -> String {
    let of = |pick: fn(u64, u64) -> u64| series.samples.iter().map(|s| s.ms).reduce(pick);
    let (high, low) = (of(u64::max).unwrap_or(0), of(u64::min).unwrap_or(0));
    let mut out = format!(
        "{event} - high {high} ms, low {low} ms (all time high {} ms)\n{}\n",
        series.worst_ms,
        "-".repeat(COLUMNS)
    );
    let columns: Vec<(u64, String)> =
        series.samples.iter().map(|s| (s.ms - low, age(now_s.saturating_sub(s.unix_s)))).collect();
    for (at, chunk) in columns.chunks(COLUMNS).enumerate() {
        if at > 0 {
            out.push('\n');
        }
        picture(&mut out, chunk, (high - low).max(1));
    }
    out
}

fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

fn picture(out: &mut String, columns: &[(u64, String)], range: u64) {
    let steps = (FILL.len() * ROWS) as u64;
    for row in 0..ROWS {
        let base = (ROWS - row - 1) * FILL.len();
        for (value, _) in columns {
            let step = (value * steps / range).min(steps - 1) as usize;
            out.push(match step.checked_sub(base) {
                None => ' ',
                Some(at) => FILL.get(at).map_or('|', |c| char::from(*c)),
            });
        }
        out.push('\n');
    }
    out.push_str(&" ".repeat(columns.len()));
    out.push('\n');
    let longest = columns.iter().map(|(_, label)| label.len()).max().unwrap_or(0);
    for at in 0..longest {
        let letter = |label: &String| label.as_bytes().get(at).map_or(' ', |c| char::from(*c));
        out.extend(columns.iter().map(|(_, label)| letter(label)));
        out.push('\n');
    }
}

/// Explains what the samples mean, and what to do about it.
pub(super) fn diagnosis(
    events: &BTreeMap<String, Series>,
    threshold_ms: u64,
    slower_than_us: i64,
) -> String {
    if events.is_empty() && threshold_ms == 0 {
        return "I'm sorry, Dave, I can't do that. Latency monitoring is disabled in this Redis instance. You may use \"CONFIG SET latency-monitor-threshold <milliseconds>.\" in order to enable it. If we weren't in a deep space mission I'd suggest to take a look at https://redis.io/topics/latency-monitor.\n".into();
    }
    if events.is_empty() {
        return "Dave, no latency spike was observed during the lifetime of this Redis instance, not in the slightest bit. I honestly think you ought to sit down calmly, take a stress pill, and think things over.\n".into();
    }
    let mut out = String::from(
        "Dave, I have observed latency spikes in this Redis instance. You don't mind talking about it, do you Dave?\n\n",
    );
    for (at, (name, series)) in events.iter().enumerate() {
        out.push_str(&spikes(at + 1, name, series));
    }
    let advice = advice(events, threshold_ms, slower_than_us);
    if advice.is_empty() {
        out.push_str("\nWhile there are latency events logged, I'm not able to suggest any easy fix. Please use the Redis community to get some help, providing this report in your help request.\n");
    } else {
        out.push_str("\nI have a few advices for you:\n\n");
        advice.iter().for_each(|line| out.push_str(&format!("- {line}\n")));
    }
    out
}

fn spikes(number: usize, name: &str, series: &Series) -> String {
    let count = series.samples.len().max(1) as u64;
    let average = series.samples.iter().map(|s| s.ms).sum::<u64>() / count;
    let deviation = series.samples.iter().map(|s| s.ms.abs_diff(average)).sum::<u64>() / count;
    let first = series.samples.front().map_or(0, |s| s.unix_s);
    let last = series.samples.back().map_or(0, |s| s.unix_s);
    let period = (last - first).max(1) as f64 / count as f64;
    format!(
        "{number}. {name}: {count} latency spikes (average {average}ms, mean deviation {deviation}ms, period {period:.2} sec). Worst all time event {}ms.\n",
        series.worst_ms
    )
}

fn advice(
    events: &BTreeMap<String, Series>,
    threshold_ms: u64,
    slower_than_us: i64,
) -> Vec<String> {
    let mut lines = Vec::new();
    let limit_us = threshold_ms * 1000;
    if events.contains_key("command") {
        if slower_than_us < 0 {
            lines.push(format!("There are latency issues with potentially slow commands you are using. Try to enable the Slow Log Redis feature using the command 'CONFIG SET slowlog-log-slower-than {limit_us}'. If the Slow log is disabled Redis is not able to log slow commands execution for you."));
        } else if slower_than_us as u64 > limit_us {
            lines.push(format!("Your current Slow Log configuration only logs events that are slower than your configured latency monitor threshold. Please use 'CONFIG SET slowlog-log-slower-than {limit_us}'."));
        }
        lines.push("Check your Slow Log to understand what are the commands you are running which are too slow to execute. Please check https://redis.io/commands/slowlog for more information.".into());
    }
    if events.contains_key("fast-command") {
        lines.push("The system is slow to execute code that makes no system calls: lower its load, use a machine of its own, or look for a noisy neighbour ('redis-cli --intrinsic-latency 100').".into());
    }
    if events.keys().any(|name| name.starts_with("aof-")) {
        lines.push("It is strongly advised to use local disks for persistence, SSD disks if possible, and to keep other disk intensive processes away from them.".into());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::observe::state::Sample;

    #[test]
    fn a_graph_has_a_column_per_sample() {
        let samples = [(100, 1), (130, 5), (160, 12)];
        let samples = samples.into_iter().map(|(unix_s, ms)| Sample { unix_s, ms }).collect();
        let series = Series { samples, worst_ms: 20 };
        let expect = [
            "command - high 12 ms, low 1 ms (all time high 20 ms)",
            &"-".repeat(80),
            "  #",
            "  |",
            " o|",
            "_||",
            "   ",
            "141",
            "m00",
            " ss",
            "",
        ];
        let got = graph("command", &series, 170);
        assert_eq!(got, expect.join("\n"));
    }
}
