//! The figures of a scenario, and the table in which those of many runs are kept.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;
use std::process::Command;

/// What a scenario did.
#[derive(Default)]
pub(crate) struct Figures {
    pub(crate) kills: u64,
    pub(crate) terminations: u64,
    /// Starts that were killed before they were through.
    pub(crate) starts_killed: u64,
    /// Steps acknowledged.
    pub(crate) steps: u64,
    /// Commands refused for want of room.
    pub(crate) refused: u64,
    /// Clients that were told that nothing more can be written.
    pub(crate) out_of_service: u64,
    pub(crate) seconds: f64,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { kills, terminations, starts_killed, steps, refused, .. } = self;
        let Figures { out_of_service, seconds, .. } = self;
        write!(f, "kills={kills} terminations={terminations} starts_killed={starts_killed} ")?;
        write!(f, "steps={steps} refused={refused} ")?;
        write!(f, "out_of_service={out_of_service} seconds={seconds:.1} lost=0")
    }
}

const HEAD: &str = "date\tcommit\tbackend\tkills\tterminations\tstarts killed\tsteps\trefused\tout of service\tlost\tseed\tseconds";

/// Adds a row to the table that `KILL_LOG` names.
pub(crate) fn add(backend: &str, figures: &Figures, seed: u64) {
    let Ok(path) = std::env::var("KILL_LOG") else { return };
    let Figures { kills, terminations, starts_killed, steps, refused, .. } = figures;
    let Figures { out_of_service, seconds, .. } = figures;
    let commit = std::env::var("KILL_COMMIT")
        .unwrap_or_else(|_| said("git", &["describe", "--always", "--dirty", "--abbrev=10"]));
    let row = format!(
        "{}\t{commit}\t{backend}\t{kills}\t{terminations}\t{starts_killed}\t{steps}\t{refused}\t{out_of_service}\t0\t{seed}\t{seconds:.0}",
        said("date", &["-u", "+%F"])
    );
    let table = OpenOptions::new().append(true).create(true).open(&path);
    let mut table = table.unwrap_or_else(|error| panic!("{path}: {error}"));
    let is_new = table.metadata().is_ok_and(|metadata| metadata.len() == 0);
    let head = if is_new { format!("{HEAD}\n") } else { String::new() };
    table.write_all(format!("{head}{row}\n").as_bytes()).expect("a row is written");
}

/// What a program prints, on one line.
fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.unwrap_or_else(|_| "unknown".into())
}
