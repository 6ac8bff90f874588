//! LATENCY.

use std::collections::VecDeque;

use engine::call::{Call, Run};
use engine::failure::{Done, Failure};
use engine::observe::state::Sample;
use engine::spec::*;

use super::graph;
use super::help;

pub(crate) const LATENCY: CommandSpec = CommandSpec {
    name: "latency",
    summary: "A container for latency diagnostics commands",
    complexity: "Depends on subcommand.",
    since: "2.8.13",
    group: Group::Server,
    arity: -2,
    subs: &[
        &LATENCY_DOCTOR,
        &LATENCY_GRAPH,
        &LATENCY_HELP,
        &LATENCY_HISTOGRAM,
        &LATENCY_HISTORY,
        &LATENCY_LATEST,
        &LATENCY_RESET,
    ],
    ..CommandSpec::EMPTY
};

const LATENCY_DOCTOR: CommandSpec = CommandSpec {
    name: "doctor",
    summary: "Return a human readable latency analysis report.",
    complexity: "O(1)",
    since: "2.8.13",
    group: Group::Server,
    arity: 2,
    flags: ADMIN | NOSCRIPT | LOADING | STALE,
    tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
    run: Run::Session(latency_doctor),
    ..CommandSpec::EMPTY
};

const LATENCY_GRAPH: CommandSpec = CommandSpec {
    name: "graph",
    summary: "Return a latency graph for the event.",
    complexity: "O(1)",
    since: "2.8.13",
    group: Group::Server,
    arity: 3,
    flags: ADMIN | NOSCRIPT | LOADING | STALE,
    tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
    args: &[string("event")],
    run: Run::Session(latency_graph),
    ..CommandSpec::EMPTY
};

const LATENCY_HELP: CommandSpec = CommandSpec {
    name: "help",
    summary: "Show helpful text about the different subcommands.",
    complexity: "O(1)",
    since: "2.8.13",
    group: Group::Server,
    arity: 2,
    flags: LOADING | STALE,
    run: Run::Session(latency_help),
    ..CommandSpec::EMPTY
};

const LATENCY_HISTOGRAM: CommandSpec = CommandSpec {
    name: "histogram",
    summary: "Return the cumulative distribution of latencies of a subset of commands or all.",
    complexity: "O(N) where N is the number of commands with latency information being retrieved.",
    since: "7.0.0",
    group: Group::Server,
    arity: -2,
    flags: ADMIN | NOSCRIPT | LOADING | STALE,
    tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
    args: &[string("command").optional().multiple()],
    run: Run::Session(latency_histogram),
    ..CommandSpec::EMPTY
};

const LATENCY_HISTORY: CommandSpec = CommandSpec {
    name: "history",
    summary: "Return timestamp-latency samples for the event.",
    complexity: "O(1)",
    since: "2.8.13",
    group: Group::Server,
    arity: 3,
    flags: ADMIN | NOSCRIPT | LOADING | STALE,
    tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
    args: &[string("event")],
    run: Run::Session(latency_history),
    ..CommandSpec::EMPTY
};

const LATENCY_LATEST: CommandSpec = CommandSpec {
    name: "latest",
    summary: "Return the latest latency samples for all events.",
    complexity: "O(1)",
    since: "2.8.13",
    group: Group::Server,
    arity: 2,
    flags: ADMIN | NOSCRIPT | LOADING | STALE,
    tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
    run: Run::Session(latency_latest),
    ..CommandSpec::EMPTY
};

const LATENCY_RESET: CommandSpec = CommandSpec {
    name: "reset",
    summary: "Reset latency data for one or more events.",
    complexity: "O(1)",
    since: "2.8.13",
    group: Group::Server,
    arity: -2,
    flags: ADMIN | NOSCRIPT | LOADING | STALE,
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    args: &[string("event").optional().multiple()],
    run: Run::Session(latency_reset),
    ..CommandSpec::EMPTY
};

fn latency_history(call: &mut Call<'_>) -> Done {
    let events = call.engine.admin().latency.events();
    let name = String::from_utf8_lossy(call.args[2]);
    let samples = events.get(&*name).map(|series| &series.samples);
    call.out.array(samples.map_or(0, VecDeque::len));
    for sample in samples.into_iter().flatten() {
        call.out.array(2);
        call.out.integer(sample.unix_s as i64);
        call.out.integer(sample.ms as i64);
    }
    Ok(())
}

fn latency_latest(call: &mut Call<'_>) -> Done {
    let events = call.engine.admin().latency.events();
    call.out.array(events.len());
    for (name, series) in events.iter() {
        let last = series.samples.back().copied().unwrap_or(Sample { unix_s: 0, ms: 0 });
        call.out.array(4);
        call.out.bulk(name);
        call.out.integer(last.unix_s as i64);
        call.out.integer(last.ms as i64);
        call.out.integer(series.worst_ms as i64);
    }
    Ok(())
}

fn latency_reset(call: &mut Call<'_>) -> Done {
    let mut events = call.engine.admin().latency.events();
    let before = events.len();
    if call.args.len() == 2 {
        events.clear();
    }
    for name in &call.args[2..] {
        events.remove(&*String::from_utf8_lossy(name));
    }
    call.out.integer((before - events.len()) as i64);
    Ok(())
}

fn latency_graph(call: &mut Call<'_>) -> Done {
    let name = String::from_utf8_lossy(call.args[2]).into_owned();
    let series = call.engine.admin().latency.events().get(&name).cloned();
    let Some(series) = series else {
        return Err(Failure::text(format!("ERR No samples available for event '{name}'")));
    };
    let graph = graph::graph(&name, &series, call.now_ms() / 1000);
    call.out.verbatim(*b"txt", graph);
    Ok(())
}

fn latency_doctor(call: &mut Call<'_>) -> Done {
    let admin = call.engine.admin();
    let threshold = admin.latency.threshold_ms();
    let report = graph::diagnosis(&admin.latency.events(), threshold, admin.slow_log.slower_than());
    call.out.verbatim(*b"txt", report);
    Ok(())
}

fn latency_histogram(call: &mut Call<'_>) -> Done {
    let table = call.engine.table();
    let histograms = &call.engine.admin().histograms;
    let mut rows = Vec::new();
    if call.args.len() == 2 {
        rows.extend(table.all());
    }
    for name in &call.args[2..] {
        let Some(command) = table.by_full_name(name) else { continue };
        rows.push(command);
        rows.extend(table.subs(command));
    }
    let rows: Vec<_> =
        rows.iter().filter_map(|c| Some((c.full_name(), histograms.of(c.id)?))).collect();
    call.out.map(rows.len());
    for (name, counts) in rows {
        call.out.bulk(name);
        call.out.map(2);
        call.out.bulk("calls");
        call.out.integer(counts.total as i64);
        call.out.bulk("histogram_usec");
        let cumulative = counts.cumulative();
        call.out.map(cumulative.len());
        for (micros, count) in cumulative {
            call.out.integer(micros as i64);
            call.out.integer(count as i64);
        }
    }
    Ok(())
}

fn latency_help(call: &mut Call<'_>) -> Done {
    help(
        call,
        &[
            "DOCTOR",
            "    Return a human readable latency analysis report.",
            "GRAPH <event>",
            "    Return an ASCII latency graph for the <event> class.",
            "HISTORY <event>",
            "    Return time-latency samples for the <event> class.",
            "LATEST",
            "    Return the latest latency samples for all events.",
            "RESET [<event> ...]",
            "    Reset latency data of one or more <event> classes.",
            "    (default: reset all data for all event classes)",
            "HISTOGRAM [COMMAND ...]",
            "    Return a cumulative distribution of latencies in the format of a histogram for the specified command names.",
            "    If no commands are specified then all histograms are replied.",
        ],
    )
}
