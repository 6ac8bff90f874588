//! A number of power cuts, in rounds of several kinds, ordered so that a few of them already cover
//! most cases.

use crate::Bed;
use crate::cuts::{Failure, OldCopy, Subject, Tally};
use crate::image::Format;
use fastrand::Rng;

/// One cut of a whole machine, and the snapshots before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Round {
    /// On ext4, whose copies can be inspected.
    Ext4,
    /// On XFS, without snapshots.
    Xfs,
    /// On a DAX device.
    Device,
    /// On a disk, with a journal.
    Disk,
    /// On a new medium of this format, in a pool that grows all the time.
    Growing(Format),
    /// While the server is starting, and thus recovering from the cut before.
    Early(Format),
}

const ROUNDS: [Round; 15] = [
    Round::Disk,
    Round::Ext4,
    Round::Xfs,
    Round::Device,
    Round::Growing(Format::Ext4),
    Round::Early(Format::Ext4),
    Round::Early(Format::Disk),
    Round::Growing(Format::Disk),
    Round::Ext4,
    Round::Disk,
    Round::Xfs,
    Round::Device,
    Round::Early(Format::Xfs),
    Round::Disk,
    Round::Growing(Format::Ext4),
];

impl Round {
    fn is_copied(self) -> bool {
        matches!(self, Round::Ext4 | Round::Device | Round::Disk | Round::Growing(_))
    }
}

/// Runs this many cuts: one in eight, and at least four, of the whole machine; the others are
/// snapshots.
pub(crate) fn run(bed: &Bed, cuts: u64, seed: u64) -> Result<Tally, Failure> {
    let mut random = Rng::with_seed(seed);
    let machines = cuts.div_ceil(8).max(4).min(cuts);
    let mut snapshots = cuts - machines;
    let rounds: Vec<Round> = ROUNDS.into_iter().cycle().take(machines as usize).collect();
    let mut ext4 = Subject::new(bed, "ext4", Format::Ext4, seed)?;
    let mut xfs = Subject::new(bed, "xfs", Format::Xfs, seed)?;
    let mut device = Subject::new(bed, "device", Format::Device, seed)?;
    let mut disk = Subject::new(bed, "disk", Format::Disk, seed)?;
    let mut grown = Tally::default();
    for (number, round) in rounds.iter().enumerate() {
        let copied = rounds[number..].iter().filter(|round| round.is_copied()).count() as u64;
        let share = if round.is_copied() { snapshots.div_ceil(copied) } else { 0 };
        match round {
            Round::Ext4 => cut(&mut ext4, &mut random, share)?,
            Round::Xfs => cut(&mut xfs, &mut random, 0)?,
            Round::Device => cut(&mut device, &mut random, share)?,
            Round::Disk => cut(&mut disk, &mut random, share)?,
            Round::Growing(format) => grown.add(grow(bed, *format, &mut random, share)?),
            Round::Early(Format::Disk) => disk.cut_early(&mut random)?,
            Round::Early(Format::Xfs) => xfs.cut_early(&mut random)?,
            Round::Early(_) => ext4.cut_early(&mut random)?,
        }
        snapshots -= share;
        println!("  {round:?}, with {share} snapshots");
    }
    let mut tally = grown;
    for mut subject in [ext4, xfs, device, disk] {
        if subject.tally.machines > 0 {
            subject.come_back()?.cut();
        }
        tally.add(subject.tally);
    }
    Ok(tally)
}

/// Recovers from the previous cut, and makes the next one.
fn cut(subject: &mut Subject<'_>, random: &mut Rng, snapshots: u64) -> Result<(), Failure> {
    let machine = subject.come_back()?;
    subject.cut(machine, random, OldCopy::MANY, snapshots)?;
    if subject.image.format != Format::Xfs {
        subject.look_into_the_medium()?;
    }
    Ok(())
}

fn grow(bed: &Bed, format: Format, random: &mut Rng, snapshots: u64) -> Result<Tally, Failure> {
    let mut subject = Subject::new(bed, "growing", format, random.u64(..))?;
    let machine = subject.come_back()?;
    subject.cut(machine, random, OldCopy::LARGE, snapshots)?;
    subject.look_into_the_medium()?;
    subject.come_back()?.cut();
    Ok(subject.tally)
}
