//! What was measured, kept in memory for the report and appended at once to files, so that an end
//! in the midst keeps it.

use std::fs::{File, create_dir_all};
use std::io::Write;
use std::path::Path;

use crate::cell::Figure;
use crate::kill::Found;
use crate::store::Result;
use crate::systems::System;

/// A figure of one round.
pub struct Row {
    /// Which round.
    pub round: usize,
    /// Of which system, by [`System::id`].
    pub system: String,
    /// Bytes of a value.
    pub len: usize,
    /// What was measured.
    pub figure: Figure,
}

/// What was found after one kill.
pub struct Kill {
    /// Of which system, by [`System::id`].
    pub system: String,
    /// What was found.
    pub found: Found,
}

/// All results so far.
pub struct Results {
    /// Rates.
    pub rows: Vec<Row>,
    /// After kills.
    pub kills: Vec<Kill>,
    /// What could not be measured, and why.
    pub problems: Vec<String>,
    rates: File,
    found: File,
}

impl Results {
    /// Begins `embedded.tsv` and `embedded-kill.tsv` in a folder.
    pub fn create(folder: &Path) -> Result<Results> {
        create_dir_all(folder)?;
        let mut rates = File::create(folder.join("embedded.tsv"))?;
        writeln!(rates, "round\tsystem\tbytes\tworkload\tthreads\toperations\tper_second\tcpu_us")?;
        let mut found = File::create(folder.join("embedded-kill.tsv"))?;
        writeln!(found, "round\tsystem\tfirst_answer_ms\tacknowledged\tlost")?;
        Ok(Results { rows: Vec::new(), kills: Vec::new(), problems: Vec::new(), rates, found })
    }

    /// Adds the figures of one child.
    pub fn add(
        &mut self,
        round: usize,
        system: &System,
        len: usize,
        figures: Vec<Figure>,
    ) -> Result<()> {
        let system = system.id();
        for figure in figures {
            let Figure { workload, threads, operations, rate, cpu } = &figure;
            let workload = workload.title();
            writeln!(
                self.rates,
                "{round}\t{system}\t{len}\t{workload}\t{threads}\t{operations}\t{rate:.1}\t{cpu:.3}"
            )?;
            self.rows.push(Row { round, system: system.clone(), len, figure });
        }
        Ok(())
    }

    /// Adds what was found after a kill.
    pub fn add_kill(&mut self, round: usize, system: &System, found: Found) -> Result<()> {
        let system = system.id();
        let Found { first_answer, acknowledged, lost } = &found;
        writeln!(self.found, "{round}\t{system}\t{first_answer:.2}\t{acknowledged}\t{lost}")?;
        self.kills.push(Kill { system, found });
        Ok(())
    }
}
