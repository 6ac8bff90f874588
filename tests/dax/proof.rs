//! The figures of a run, and the table that collects those of many runs.

use crate::cuts::Tally;
use crate::place::{Setup, program, run};
use std::env;
use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { machines, snapshots, steps } = self;
        write!(f, "machines={machines} snapshots={snapshots} steps={steps} cuts={}", self.cuts())
    }
}

const HEAD: &str =
    "date\tcommit\tbed\tcuts\twhole machine\tsnapshots\tsteps\tlost\tseed\tseconds\n";

/// Adds a row to the table that `DAX_LOG` names. `DAX_COMMIT` says what was tested, if not the tree
/// as it is.
pub(crate) fn record(bed: &str, tally: &Tally, seed: u64, seconds: u64) -> Result<(), Setup> {
    let Ok(path) = env::var("DAX_LOG") else { return Ok(()) };
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let commit = match env::var("DAX_COMMIT") {
        Ok(commit) => commit,
        Err(_) => {
            let describe = ["describe", "--always", "--dirty", "--abbrev=10"];
            run(program("git").current_dir(root).args(describe))?
        }
    };
    let date = run(program("date").args(["-u", "+%F"]))?;
    let mut table = OpenOptions::new().append(true).create(true).open(path)?;
    if table.metadata()?.len() == 0 {
        table.write_all(HEAD.as_bytes())?;
    }
    let Tally { machines, snapshots, steps } = tally;
    let (date, commit, cuts) = (date.trim(), commit.trim(), tally.cuts());
    let row = format!(
        "{date}\t{commit}\t{bed}\t{cuts}\t{machines}\t{snapshots}\t{steps}\t0\t{seed}\t{seconds}\n"
    );
    Ok(table.write_all(row.as_bytes())?)
}
