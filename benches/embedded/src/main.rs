//! `benches/embedded.sh` runs this: Perdura's library compared with redb, fjall, sled, LMDB and
//! RocksDB.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Parser;
use perdura_embedded::document::Document;
use perdura_embedded::plan::Plan;
use perdura_embedded::report::Report;
use perdura_embedded::results::Results;
use perdura_embedded::store::Result;
use perdura_embedded::systems::System;
use perdura_embedded::{child, machine};

/// Perdura's library compared with other embedded stores: rates with each write durable and
/// without, on a disk and in /dev/shm; and kill -9 under load, with the time to the first answer
/// and a look for every acknowledged write.
///
/// Medians of rounds in which the stores take turns. Writes embedded.md, .json, .tsv and
/// embedded-kill.tsv.
#[derive(Parser)]
#[command(name = "embedded.sh")]
struct Arguments {
    /// A rough run of some five minutes, on a slow machine with fewer rounds.
    #[arg(long)]
    quick: bool,
    /// Begins no round that would not end within this many seconds [default: none, quick 330].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    time_limit: Option<u64>,
    /// How often everything is measured [default: 5, quick 3].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: Option<u64>,
    /// Seconds for each workload, store and round [default: 0.5, quick 0.1].
    #[arg(long)]
    seconds: Option<f64>,
    /// Keys of 100 bytes; of 4 KiB there are a tenth [default: 200000, quick 50000].
    #[arg(long, value_parser = clap::value_parser!(u64).range(10..))]
    keys: Option<u64>,
    /// Systems whose names contain one of these words, comma-separated: "durable disk" or
    /// "perdura,redb". All by default.
    #[arg(long)]
    systems: Option<String>,
    /// Lists the systems and ends.
    #[arg(long)]
    list: bool,
    /// Leaves the kills out.
    #[arg(long)]
    no_kill: bool,
    /// Where the files of stores on a disk lie.
    #[arg(long, default_value = "target")]
    disk: PathBuf,
    /// Where the files of stores in memory lie.
    #[arg(long, default_value = "/dev/shm")]
    memory: PathBuf,
    /// Where the results go.
    #[arg(long, default_value = "target/measure")]
    out: PathBuf,
    /// A document whose lines between `<!-- embedded: begin -->` and `<!-- embedded: end -->`
    /// become the report.
    #[arg(long)]
    document: Option<PathBuf>,
    /// What a child does; for this program's own use.
    #[arg(long, hide = true)]
    child: Option<String>,
}

impl Arguments {
    fn systems(&self) -> Result<Vec<System>> {
        let words = self.systems.as_deref().unwrap_or_default();
        let words: Vec<String> = words.split(',').map(str::to_lowercase).collect();
        let is_meant = |system: &System| {
            let id = system.id().to_lowercase();
            words.iter().any(|word| id.contains(word.as_str()))
        };
        let systems: Vec<System> = System::all().into_iter().filter(is_meant).collect();
        if systems.is_empty() {
            return Err("no system has such a name; --list shows all".into());
        }
        Ok(systems)
    }

    fn plan(&self, systems: Vec<System>) -> Result<Plan> {
        let keys = self.keys.unwrap_or(if self.quick { 50_000 } else { 200_000 });
        let seconds = self.seconds.unwrap_or(if self.quick { 0.1 } else { 0.5 });
        if !(0.001..=3600.0).contains(&seconds) {
            return Err("--seconds must be from 0.001 to 3600".into());
        }
        std::fs::create_dir_all(&self.disk)?;
        Ok(Plan {
            rounds: self.rounds.unwrap_or(if self.quick { 3 } else { 5 }) as usize,
            seconds,
            sizes: vec![(100, keys), (4096, keys / 10)],
            kill_keys: if self.no_kill { 0 } else { keys },
            load: Duration::from_secs_f64(seconds.min(1.0) * 2.0),
            disk: self.disk.clone(),
            memory: self.memory.clone(),
            systems,
            time_limit: self.time_limit.or(self.quick.then_some(330)).map(Duration::from_secs),
        })
    }
}

/// Measures, writes the report, and says whether every store kept what it promised.
fn measure(arguments: &Arguments) -> Result<bool> {
    let plan = arguments.plan(arguments.systems()?)?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let document = arguments.document.as_deref().map(Document::open).transpose()?;
    let mut results = Results::create(&arguments.out)?;
    let mut lines = vec![format!("Command line: `benches/embedded.sh {}`", command_line())];
    lines.extend(machine::lines(&plan.disk, &plan.memory));
    let rounds = plan.run(&mut results, &|| stop.load(Ordering::Relaxed))?;
    lines.push(format!("rounds: {rounds}"));
    let sizes: Vec<usize> = plan.sizes.iter().map(|(len, _)| *len).collect();
    let report = Report::new(&results, &plan.systems, &sizes, lines);
    let text = report.markdown();
    println!("{text}");
    std::fs::write(arguments.out.join("embedded.md"), &text)?;
    std::fs::write(arguments.out.join("embedded.json"), serde_json::to_vec_pretty(&report)?)?;
    eprintln!("results are in {}", arguments.out.display());
    if let Some(document) = document {
        document.fill(&text)?;
    }
    let broken = report.broken_promises();
    broken.iter().for_each(|system| eprintln!("{system} lost what it had acknowledged"));
    if stop.load(Ordering::Relaxed) {
        return Err("stopped: the report covers what was measured until then".into());
    }
    Ok(broken.is_empty() && results.problems.is_empty())
}

fn command_line() -> String {
    std::env::args().skip(1).collect::<Vec<_>>().join(" ")
}

fn run() -> Result<bool> {
    let arguments = Arguments::parse();
    if let Some(task) = &arguments.child {
        child::run(task)?;
        return Ok(true);
    }
    if arguments.list {
        System::all().iter().for_each(|system| println!("{}", system.id()));
        return Ok(true);
    }
    measure(&arguments)
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("embedded.sh: {failure}");
            ExitCode::FAILURE
        }
    }
}
