//! `perdura-bench compare --dax`: on a mount with DAX it measures pools as they are, and the report
//! does not call them emulated; on a mount without it, it refuses. Figures measured in a guest mean
//! nothing.

use crate::Bed;
use crate::cuts::Failure;
use crate::image::{Format, Image};
use crate::machine::{Machine, USUAL};
use testkit::load::Violation;

const MEDIUM: u64 = 640 << 20;
const COMPARE: &str = "perdura-bench compare --perdura /bin/perdura-server \
    --systems perdura-pmem --workloads throughput-30 --rounds 1 --seconds 1 --keys 500 --recovery none --no-device --out /tmp/bench";

/// One short round of a pool on persistent memory.
pub(crate) fn all(bed: &Bed) -> Result<(), Failure> {
    let image = Image::make("comparison", Format::Ext4, MEDIUM, true)?;
    let mut machine = Machine::boot(&bed.with_bench()?, &USUAL, &image)?;
    machine.run("fsdax && mount -t ext4 -o dax=always /dev/pmem0 /pm")?;
    let (status, said) = machine.shell(&format!("{COMPARE} --dax /plain 2>&1"))?;
    check("a folder without DAX", status != 0 && said.contains("in /plain: "), &said)?;
    let (status, said) = machine.shell(&format!("{COMPARE} --dax /pm 2>&1"))?;
    check("the comparison", status == 0, &said)?;
    check("real persistent memory", !said.contains("PMEM is emulated"), &said)?;
    let results = machine.run("cat /tmp/bench/results.json")?;
    check("the pool's domain", results.contains("\"clwb\""), &results)?;
    check("figures of the pool", results.contains("\"system\": \"perdura-pmem\""), &results)?;
    let left = machine.run("ls -A /pm")?;
    check("nothing is left on the medium", left.trim() == "lost+found", &left)?;
    println!("  perdura-bench compare --dax: a pool with MAP_SYNC, clwb, not called emulated");
    Ok(())
}

fn check(what: &str, holds: bool, found: &str) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation(format!("{what}: {found}"))) }
}
