//! Real DAX: a stock kernel in QEMU with an emulated NVDIMM, ext4 and XFS with `-o dax=always`, a
//! DAX device, and power cuts under load. `make dax CUTS=5` runs all of it and ends with `cuts=5
//! lost=0`. Without that command this does nothing, since each boot takes seconds.
//!
//! The test shows that `MAP_SYNC` is granted and accepted where it should be and nowhere else; that
//! a pool, its growth included, survives what a real file system does with its metadata and its
//! journal at a power cut; that the server recovers every acknowledged write.
//!
//! **Limitation**: QEMU keeps every store of the guest, flushed or not, as if the caches of the
//! processor had been written back at the cut. A missing flush or fence is not noticed here. Those
//! are tested on the simulated medium of `crates/sim`, which disables each flush and fence in turn,
//! and must notice it.
//!
//! Invariant: a cut counts only after the data left by it has been compared with what was
//! acknowledged.

#![forbid(unsafe_code)]

mod campaign;
mod canary;
mod comparison;
mod cuts;
mod debian;
mod domains;
mod image;
mod initramfs;
mod inspect;
mod machine;
mod media;
mod place;
mod programs;
mod proof;

use cuts::{Failure, Tally};
use debian::Kernel;
use fastrand::Rng;
use place::{Setup, cache};
use programs::Programs;
use std::env;
use std::panic::resume_unwind;
use std::process::ExitCode;
use std::thread;
use std::time::Instant;
use testkit::load::Violation;

/// The parts of every guest.
#[derive(Clone)]
struct Bed {
    kernel: Kernel,
    programs: Programs,
}

impl Bed {
    fn make(flavour: &str) -> Result<Bed, Setup> {
        std::fs::create_dir_all(cache())?;
        let server = testkit::perdura_server().to_owned();
        let mut programs = Programs::default();
        programs.add(&server)?;
        programs.add(&server.with_file_name("perdura"))?;
        Ok(Bed { kernel: Kernel::fetch(flavour)?, programs })
    }

    /// The same with `perdura-bench`, which is large.
    fn with_bench(&self) -> Result<Bed, Setup> {
        let mut bed = self.clone();
        bed.programs.add(&testkit::perdura_server().with_file_name("perdura-bench"))?;
        Ok(bed)
    }
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

/// Runs a part, and reports how long it took. If the test bed breaks down the part is tried once
/// more.
fn part<T>(name: &str, mut run: impl FnMut() -> Result<T, Failure>) -> Result<T, Failure> {
    let began = Instant::now();
    let result = run().or_else(|failure| match failure {
        Failure::Setup(what) => {
            println!("{name}: the bed broke down, once more: {what}");
            run()
        }
        lost => Err(lost),
    })?;
    println!("{name}: ok ({} s)", began.elapsed().as_secs());
    Ok(result)
}

/// Runs all parts, half of them beside the others, since a machine of theirs keeps one core busy.
/// The `whole` kernel has features that the other one, which boots faster, lacks.
fn run(bed: &Bed, whole: &Bed, seed: u64) -> Result<Tally, Failure> {
    let only = env::var("DAX_ONLY").unwrap_or_default();
    let wanted = |name: &str| only.is_empty() || only == name;
    let first = || -> Result<(), Failure> {
        if wanted("domains") {
            part("domains", || domains::all(bed))?;
        }
        if wanted("comparison") {
            part("comparison", || comparison::all(bed))?;
        }
        Ok(())
    };
    let second = || {
        if wanted("canary") {
            part("canary", || canary::all(bed, &mut Rng::with_seed(seed)))?;
        }
        if wanted("media") {
            part("media", || media::all(bed, whole))?;
        }
        let cuts = number("DAX_CUTS").unwrap_or(5);
        if !wanted("cuts") || cuts == 0 {
            return Ok(Tally::default());
        }
        let began = Instant::now();
        let tally = part("cuts", || campaign::run(bed, cuts, seed))?;
        let name = format!("QEMU, linux {}, ext4, xfs and device DAX, disk", bed.kernel.version);
        proof::record(&name, &tally, seed, began.elapsed().as_secs())?;
        Ok(tally)
    };
    thread::scope(|scope| {
        let first = scope.spawn(first);
        let tally = second();
        first.join().unwrap_or_else(|panic| resume_unwind(panic))?;
        tally
    })
}

fn main() -> ExitCode {
    if env::var_os("PERDURA_SERVER").is_none() || env::var_os("DAX_CUTS").is_none() {
        println!("real DAX: not run here, since it boots machines; `make dax CUTS=5` does");
        return ExitCode::SUCCESS;
    }
    let beds = Bed::make("cloud-amd64").and_then(|bed| Ok((bed, Bed::make("amd64")?)));
    let (bed, whole) = match beds {
        Ok(beds) => beds,
        Err(what) if env::var_os("DAX_MAY_SKIP").is_some() => {
            println!("real DAX: SKIPPED, nothing was tested: {what}");
            return ExitCode::SUCCESS;
        }
        Err(what) => {
            println!("no bed to test on: {what}");
            return ExitCode::from(2);
        }
    };
    let seed = number("DAX_SEED").unwrap_or_else(|| fastrand::u64(..1_000_000));
    println!("linux {}, seed {seed}", bed.kernel.version);
    match run(&bed, &whole, seed) {
        Ok(tally) => {
            println!("{tally} lost=0");
            ExitCode::SUCCESS
        }
        Err(Failure::Lost(Violation(what))) => {
            println!("LOST, with DAX_SEED={seed}: {what}");
            println!("the media and the console's log are in {}", cache().display());
            ExitCode::FAILURE
        }
        Err(Failure::Setup(what)) => {
            println!("the bed broke down: {what}");
            ExitCode::from(2)
        }
    }
}
