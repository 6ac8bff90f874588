//! Results as comma-separated values, one file for each kind of row, for spreadsheets and other
//! people's plots.

use super::findings::{Finding, Verdict};
use crate::results::{Latency, Results};
use std::fmt::Display;

/// Returns a field: quoted where it has to be. What a spreadsheet would take for a formula is made
/// text.
pub(crate) fn field(value: &dyn Display) -> String {
    let mut text = value.to_string();
    let is_number = text.parse::<f64>().is_ok();
    if !is_number && text.starts_with(['=', '+', '-', '@']) {
        text.insert(0, '\'');
    }
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}

fn line(fields: &[&dyn Display]) -> String {
    let fields: Vec<String> = fields.iter().map(|value| field(*value)).collect();
    fields.join(",") + "\n"
}

/// Returns a number, or nothing.
fn maybe(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// Returns file names with their contents.
pub(crate) fn files(results: &Results, findings: &[Finding]) -> Vec<(&'static str, String)> {
    vec![
        ("runs.csv", runs(results)),
        ("recovery.csv", recovery(results)),
        ("ratios.csv", ratios(results, findings)),
        ("device.csv", device(results)),
        ("appends.csv", appends(results)),
    ]
}

fn emulated(results: &Results, system: &str) -> bool {
    results.systems.iter().any(|s| s.id == system && s.emulated.is_some())
}

fn runs(results: &Results) -> String {
    let mut csv = String::from(
        "workload,system,emulated,round,seconds,operations,errors,operations_per_second,mean_us,p50_us,p90_us,p99_us,\
         p99.9_us,p99.99_us,p99.999_us,max_us,server_cpu_us_per_operation,generator_busy,generator_saturated,\
         written_bytes_per_operation\n",
    );
    for run in &results.runs {
        let Latency { mean, p50, p90, p99, p999, p9999, p99999, max } = run.latency;
        csv += &line(&[
            &run.workload,
            &run.system,
            &emulated(results, &run.system),
            &run.round,
            &run.seconds,
            &run.operations,
            &run.errors,
            &run.rate(),
            &mean,
            &p50,
            &p90,
            &p99,
            &p999,
            &p9999,
            &p99999,
            &max,
            &run.server_cpu(),
            &run.generator_busy,
            &run.saturated,
            &maybe(run.written()),
        ]);
    }
    csv
}

fn recovery(results: &Results) -> String {
    let mut csv = String::from(
        "system,emulated,target_bytes,keys,value_bytes,stored_bytes,first_get_seconds,full_rate_seconds,rate_before,\
         rate_after,acknowledged,keys_checked,keys_lost,keys_wrong\n",
    );
    for row in &results.recovery {
        csv += &line(&[
            &row.system,
            &emulated(results, &row.system),
            &row.target_bytes,
            &row.keys,
            &row.value_bytes,
            &row.stored_bytes,
            &maybe(row.first_get_seconds),
            &maybe(row.full_rate_seconds),
            &row.rate_before,
            &row.rate_after,
            &row.acknowledged,
            &row.keys_checked,
            &row.keys_lost,
            &row.keys_wrong,
        ]);
    }
    csv
}

fn ratios(results: &Results, findings: &[Finding]) -> String {
    let mut csv =
        String::from("what,ours,theirs,ratio,lowest,highest,pairs,verdict,generator_saturated\n");
    for found in findings {
        let verdict = match found.verdict() {
            Verdict::Won => "won",
            Verdict::Lost => "lost",
            Verdict::Even => "even",
        };
        csv += &line(&[
            &found.what,
            &results.systems[found.ours].id,
            &results.systems[found.theirs].id,
            &found.ratio.median,
            &found.ratio.lowest,
            &found.ratio.highest,
            &found.ratio.count,
            &verdict,
            &found.saturated,
        ]);
    }
    csv
}

fn device(results: &Results) -> String {
    let mut csv = String::from(
        "dir,medium,domain,method,pattern,reads_percent,block,threads,durable,emulated,skipped,operations,\
         bytes_per_second,lowest,highest,operations_per_second,mean_ns,p50_ns,p99_ns,p99.999_ns,max_ns\n",
    );
    for study in &results.device {
        for row in &study.rows {
            csv += &line(&[
                &study.dir,
                &study.medium,
                &study.domain,
                &row.method,
                &format!("{:?}", row.pattern).to_lowercase(),
                &row.reads_percent,
                &row.block,
                &row.threads,
                &row.durable,
                &row.emulated,
                &row.skipped.as_deref().unwrap_or_default(),
                &row.ops,
                &row.bytes_per_second,
                &row.low,
                &row.high,
                &row.iops,
                &row.mean_ns,
                &row.p50_ns,
                &row.p99_ns,
                &row.p99_999_ns,
                &row.max_ns,
            ]);
        }
    }
    csv
}

fn appends(results: &Results) -> String {
    let mut csv = String::from(
        "dir,medium,emulated,method,records_to_a_fence,ns_per_record,lowest,highest\n",
    );
    for study in &results.device {
        for cost in study.costs.iter().flat_map(|costs| &costs.appends) {
            let rows = study.rows.iter();
            let emulated = rows.filter(|row| row.method == cost.method).any(|row| row.emulated);
            csv += &line(&[
                &study.dir,
                &study.medium,
                &emulated,
                &cost.method,
                &cost.batch,
                &cost.ns_per_record,
                &cost.low,
                &cost.high,
            ]);
        }
    }
    csv
}

#[cfg(test)]
mod tests {
    use super::super::findings::findings;
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn fields_are_quoted_where_they_have_to_be() {
        let check = |value: &dyn Display, expect: &str| assert_eq!(field(value), expect);
        check(&"plain", "plain");
        check(&"a,b", "\"a,b\"");
        check(&"say \"hi\"", "\"say \"\"hi\"\"\"");
        check(&"two\nlines", "\"two\nlines\"");
        check(&"=cmd()", "'=cmd()");
        check(&"@sum", "'@sum");
        check(&-1.5, "-1.5");
        check(&f64::NAN, "NaN");
    }

    #[test]
    fn every_row_has_as_many_fields_as_its_head() {
        let mut sample = sample();
        sample.skipped.clear();
        for study in &mut sample.device {
            study.rows.iter_mut().for_each(|row| row.skipped = None);
        }
        for (name, text) in files(&sample, &findings(&sample)) {
            let mut lines = text.lines();
            let fields = lines.next().expect("a head").split(',').count();
            let rows: Vec<&str> = lines.collect();
            assert!(!rows.is_empty(), "{name}");
            // Titles of loads have commas, and are quoted.
            for row in rows {
                let plain: String = row.split('"').step_by(2).collect();
                assert_eq!(plain.split(',').count(), fields, "{name}: {row}");
            }
        }
    }
}
