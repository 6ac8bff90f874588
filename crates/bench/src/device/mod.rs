//! What a medium can do by itself: `perdura-bench device`.
//!
//! The same questions that fio with its libpmem engine and the studies of NVDIMMs asked: how fast
//! blocks of some sizes are read and written, at random and in sequence, alone and mixed, by each
//! way that there is to get bytes to a medium; and what a fence, a flush and an append to a log
//! cost, of which every commit of the heap is made. A comparison of servers is read with this
//! next to it: a system cannot be faster than what it is on.
//!
//! [`study`] measures one medium (`Medium` knows what durability means there) and gives rows of the
//! results. Instructions and mappings belong to `pmem`; here is no unsafe code, so each thread has
//! a [`Partition`](pmem::Partition) of its own.

mod cell;
mod cli;
mod costs;
mod error;
mod medium;
mod method;
mod options;
mod pattern;
mod study;
mod target;

pub(crate) use cli::Arguments;
pub(crate) use options::Options;
pub(crate) use study::study;

use crate::report::tables;
use crate::results::{DeviceStudy, FORMAT, Results};
use crate::units::Unit;
use crate::{Verdict, interrupt, machine};
use indicatif::{ProgressBar, ProgressStyle};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// Measures what the command line asks for, prints it, and writes it to a file if asked.
pub(crate) fn run(arguments: &Arguments) -> Verdict {
    if let Some(Err(error)) = arguments.json.as_deref().map(Results::can_save) {
        eprintln!("perdura-bench: --json {error}");
        return Verdict::Refused;
    }
    let stop = interrupt::listen();
    let start = Instant::now();
    let mut results = Results { format: FORMAT, machine: machine::here(), ..Results::default() };
    let mut verdict = Verdict::Done;
    for options in arguments.options() {
        if stop.load(Relaxed) {
            break;
        }
        let bar = bar(options.cells() as u64, &options.dir.display().to_string(), arguments.quiet);
        let outcome = study(&options, stop, &mut |done, _| bar.set_position(done));
        bar.finish_and_clear();
        match outcome {
            Ok(study) => {
                print(&study);
                results.device.push(study);
            }
            Err(error) => {
                eprintln!("perdura-bench: {error}");
                verdict = Verdict::Partly;
            }
        }
    }
    if stop.load(Relaxed) {
        eprintln!("perdura-bench: interrupted: what is missing was not measured");
        results.partial = Some("interrupted".into());
        verdict = Verdict::Partly;
    }
    if results.device.is_empty() {
        return Verdict::Refused;
    }
    results.machine.seconds = start.elapsed().as_secs_f64();
    if let Some(path) = &arguments.json
        && let Err(error) = results.save(path)
    {
        eprintln!("perdura-bench: {error}");
        return Verdict::Partly;
    }
    verdict
}

fn print(study: &DeviceStudy) {
    println!("{}: {}", study.dir, study.medium);
    println!("  domain {}, lines written back by {}", study.domain, study.write_back);
    println!("  {}", study.note);
    let size = Unit::Bytes.show(study.size as f64);
    println!("  a file of {size}, {} s for each row", study.seconds);
    tables::costs(study).iter().for_each(|sentence| println!("  {sentence}"));
    println!("\n{}", tables::device(study).markdown());
}

/// Returns a bar over the rows. It shows on a terminal only.
fn bar(rows: u64, what: &str, quiet: bool) -> ProgressBar {
    if quiet {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(rows);
    let form = "{msg} {bar:32} {pos} of {len} rows  {eta} left";
    if let Ok(style) = ProgressStyle::with_template(form) {
        bar.set_style(style);
    }
    bar.set_message(what.to_owned());
    bar
}
