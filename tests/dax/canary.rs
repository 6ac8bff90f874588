//! The test bed itself must be able to fail: lost acknowledged writes are noticed, in both ways of
//! checking.

use crate::Bed;
use crate::cuts::{DISK, Failure, OldCopy, Subject};
use crate::image::Format;
use fastrand::Rng;
use testkit::load::Violation;

/// Injects one fault after the other; an unnoticed one is a violation.
pub(crate) fn all(bed: &Bed, random: &mut Rng) -> Result<(), Failure> {
    acknowledging_too_early(bed, random)?;
    mapping_without_sync(bed, random)?;
    looking_at_an_older_copy(bed, random)
}

/// The clients must miss their writes: a server that does not start proves nothing about them.
fn noticed(what: &str, result: Result<(), Failure>) -> Result<(), Failure> {
    match result {
        Err(Failure::Lost(Violation(how))) if how.starts_with("client ") => {
            println!("  {what}: noticed ({})", how.chars().take(90).collect::<String>());
            Ok(())
        }
        Err(Failure::Lost(Violation(how))) => {
            Err(Violation(format!("{what}: noticed by no client: {how}")).into())
        }
        Err(setup) => Err(setup),
        Ok(()) => Err(Violation(format!("{what}: nobody noticed")).into()),
    }
}

/// A server whose replies do not wait until its journal is synced.
fn acknowledging_too_early(bed: &Bed, random: &mut Rng) -> Result<(), Failure> {
    let server = "--dir /pm --backend journal --appendfsync no --pool-size 384mb".to_owned();
    let mut subject = Subject::over(bed, "canary", Format::Disk, DISK, server, random.u64(..))?;
    let machine = subject.come_back()?;
    subject.cut(machine, random, OldCopy::MANY, 0)?;
    noticed("a server that acknowledges too early", subject.come_back().map(drop))
}

/// A pool on a DAX file system that is mapped without `MAP_SYNC` and never synced: its bytes reach
/// the medium, but not the file system's metadata about them. The file system keeps that in memory
/// until it commits its journal, by default every five seconds: by then a slow machine may not have
/// begun to write.
fn mapping_without_sync(bed: &Bed, random: &mut Rng) -> Result<(), Failure> {
    let mount = "fsdax && mount -t ext4 -o dax=always,commit=3600 /dev/pmem0 /pm";
    let server = "--dir /pm --backend pmem --domain process --pool-size 384mb".to_owned();
    let mut subject = Subject::over(bed, "canary", Format::Ext4, mount, server, random.u64(..))?;
    let machine = subject.come_back()?;
    subject.cut(machine, random, OldCopy::MANY, 0)?;
    noticed("a pool mapped without MAP_SYNC", subject.come_back().map(drop))
}

/// A copy of the medium that lacks the last half second.
fn looking_at_an_older_copy(bed: &Bed, random: &mut Rng) -> Result<(), Failure> {
    let mut subject = Subject::new(bed, "canary", Format::Ext4, random.u64(..))?;
    let machine = subject.come_back()?;
    subject.keep_an_old_copy(machine, random)?;
    noticed("a copy that lacks the last writes", subject.look_into_the_copy())
}
