//! Results as comma-separated values, one file for each kind of row, for spreadsheets and other
//! people's plots.
//!
//! The columns are the fields of a row of the results, under their names; those of a part have the
//! part's name before theirs. Next to them is what follows from a row.

use super::findings::{Finding, Verdict};
use crate::results::Results;
use serde_json::{Map, Value, json};

/// Returns a field: quoted where it has to be. What a spreadsheet would take for a formula is made
/// text.
fn field(value: &Value) -> String {
    let mut text = match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if value.is_string() && text.starts_with(['=', '+', '-', '@']) {
        text.insert(0, '\'');
    }
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}

/// Adds the fields of an object to a row.
fn flatten(row: &mut Map<String, Value>, prefix: &str, fields: Map<String, Value>) {
    for (name, value) in fields {
        match value {
            Value::Object(fields) => flatten(row, &format!("{prefix}{name}_"), fields),
            value => drop(row.insert(format!("{prefix}{name}"), value)),
        }
    }
}

/// Returns a file with a line for each row, whose fields are those of some objects.
fn file(rows: Vec<Vec<Value>>) -> String {
    let whole = |parts: Vec<Value>| {
        let mut row = Map::new();
        for part in parts {
            if let Value::Object(fields) = part {
                flatten(&mut row, "", fields);
            }
        }
        row
    };
    let rows: Vec<_> = rows.into_iter().map(whole).collect();
    let mut names: Vec<&String> = rows.iter().flat_map(Map::keys).collect();
    names.sort();
    names.dedup();
    let head = names.iter().map(|name| (*name).clone()).collect::<Vec<_>>().join(",");
    let mut csv = head + "\n";
    for row in &rows {
        let fields = names.iter().map(|name| field(row.get(*name).unwrap_or(&Value::Null)));
        csv += &(fields.collect::<Vec<_>>().join(",") + "\n");
    }
    csv
}

/// Returns file names with their contents.
pub(crate) fn files(results: &Results, findings: &[Finding]) -> Vec<(&'static str, String)> {
    let emulated = |system: &str| {
        let is_it = results.systems.iter().any(|s| s.id == system && s.emulated.is_some());
        json!({ "emulated": is_it })
    };
    let runs = results.runs.iter().map(|run| {
        let follows = json!({
            "operations_per_second": run.rate(),
            "server_cpu_us_per_operation": run.server_cpu(),
            "written_bytes_per_operation": run.written(),
        });
        let mut run = json!(run);
        // Parts of the latency: the same twice where there are only reads or only writes.
        run.as_object_mut().into_iter().for_each(|run| {
            run.remove("writes");
            run.remove("reads");
        });
        vec![run.clone(), emulated(run["system"].as_str().unwrap_or_default()), follows]
    });
    let recovery = results.recovery.iter().map(|row| vec![json!(row), emulated(&row.system)]);
    let ratios = findings.iter().map(|found| {
        let verdict = match found.verdict() {
            Verdict::Won => "won",
            Verdict::Lost => "lost",
            Verdict::Even => "even",
        };
        let ratio = &found.ratio;
        vec![json!({
            "what": found.what,
            "ours": results.systems[found.ours].id,
            "theirs": results.systems[found.theirs].id,
            "ratio": ratio.median,
            "lowest": ratio.lowest,
            "highest": ratio.highest,
            "pairs": ratio.count,
            "verdict": verdict,
            "generator_saturated": found.saturated,
        })]
    });
    let of_medium = |study: &crate::results::DeviceStudy| json!({ "dir": study.dir, "medium": study.medium, "domain": study.domain });
    let device = results
        .device
        .iter()
        .flat_map(|study| study.rows.iter().map(move |row| vec![of_medium(study), json!(row)]));
    let appends = results.device.iter().flat_map(|study| {
        let appends = study.costs.iter().flat_map(|costs| &costs.appends);
        appends.map(move |cost| vec![of_medium(study), json!(cost)])
    });
    vec![
        ("runs.csv", file(runs.collect())),
        ("recovery.csv", file(recovery.collect())),
        ("ratios.csv", file(ratios.collect())),
        ("device.csv", file(device.collect())),
        ("appends.csv", file(appends.collect())),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::findings::findings;
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn fields_are_quoted_where_they_have_to_be() {
        let check = |value: Value, expect: &str| assert_eq!(field(&value), expect);
        check(json!("plain"), "plain");
        check(json!("a,b"), "\"a,b\"");
        check(json!("say \"hi\"\n"), "\"say \"\"hi\"\"\n\"");
        check(json!("=cmd()"), "'=cmd()");
        check(json!(-1.5), "-1.5");
        check(Value::Null, "");
    }

    #[test]
    fn every_row_has_the_fields_of_its_head() {
        let sample = sample();
        let files = files(&sample, &findings(&sample));
        for (name, text) in &files {
            let head: Vec<&str> = text.lines().next().expect("a head").split(',').collect();
            assert!(text.lines().count() > 1 && head.is_sorted(), "{name}: {head:?}");
            // Titles and reasons have commas, and are quoted.
            for row in text.lines().skip(1) {
                let plain: String = row.split('"').step_by(2).collect();
                assert_eq!(plain.split(',').count(), head.len(), "{name}: {row}");
            }
        }
        for column in ["latency_p99", "operations_per_second", "system", "emulated"] {
            assert!(files[0].1.lines().next().expect("a head").contains(column), "{column}");
        }
    }
}
