//! Power cuts under load: of the whole machine, and as copies of its medium while it runs.
//!
//! Clients that know what was acknowledged write next to redis-benchmark. After a cut the machine
//! is booted again, its file system replays its journal, and the server must have what the clients
//! know. Far more often, the machine is only stopped for some milliseconds while its medium is
//! copied: the copy is checked on the host, and the machine continues.

use crate::Bed;
use crate::image::{Format, Image};
use crate::inspect::{POOL, copy_holds};
use crate::machine::{Machine, USUAL, WITH_A_DISK};
use crate::place::{Setup, program, wait_until};
use fastrand::Rng;
use std::net::SocketAddr;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;
use testkit::Client;
use testkit::load::{Crew, Habits, View, Violation};

const CLIENTS: usize = 5;

/// The number of steps acknowledged before a cut of the whole machine: without any, nothing can be
/// lost.
const AT_STAKE: u64 = 100;

/// The guest reads its clock from the board, to the second.
const HABITS: Habits = Habits { lag: 3_000, ..Habits::USUAL };

/// The database that the clients leave to others.
const OTHERS: &str = "8";

/// How a disk is mounted.
pub(crate) const DISK: &str = "appears /dev/vda && mount -t ext4 /dev/vda /pm";

/// Bytes of the medium, and the maximum size of the pool on it.
const MEDIUM: u64 = 512 << 20;
const POOL_SIZE: &str = "384mb";

/// Why a campaign ends early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The test bed cannot be set up, or broke down.
    Setup(Setup),
    /// Perdura lost acknowledged data.
    Lost(Violation),
}

impl From<Setup> for Failure {
    fn from(setup: Setup) -> Failure {
        Failure::Setup(setup)
    }
}

impl From<Violation> for Failure {
    fn from(violation: Violation) -> Failure {
        Failure::Lost(violation)
    }
}

/// Counts of what was tested.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) machines: u64,
    pub(crate) snapshots: u64,
    pub(crate) steps: u64,
}

impl Tally {
    pub(crate) fn cuts(&self) -> u64 {
        self.machines + self.snapshots
    }

    pub(crate) fn add(&mut self, other: Tally) {
        self.machines += other.machines;
        self.snapshots += other.snapshots;
        self.steps += other.steps;
    }
}

/// One medium with its clients, from the first boot to the last.
pub(crate) struct Subject<'b> {
    bed: &'b Bed,
    pub(crate) image: Image,
    mount: &'static str,
    server: String,
    crew: Crew,
    pub(crate) tally: Tally,
}

impl<'b> Subject<'b> {
    /// Makes a new medium for a pool: in persistent memory, or with a journal, synced before each
    /// reply.
    pub(crate) fn new(
        bed: &'b Bed,
        name: &str,
        format: Format,
        seed: u64,
    ) -> Result<Subject<'b>, Setup> {
        let mount = match format {
            Format::Ext4 => "fsdax && mount -t ext4 -o dax=always /dev/pmem0 /pm",
            Format::Xfs => "fsdax && mount -t xfs -o dax=always /dev/pmem0 /pm",
            Format::Device => "devdax",
            Format::Disk => DISK,
        };
        let pool = if format == Format::Device { "/dev/dax0.0" } else { POOL };
        let journal = match format {
            Format::Disk => "--backend journal --journal-size 16mb --appendfsync always",
            _ => "",
        };
        let server = format!("--dir /pm --pool {pool} --pool-size {POOL_SIZE} {journal}");
        Subject::over(bed, name, format, mount, server, seed)
    }

    /// Makes a new medium with this mount and these arguments of the server.
    pub(crate) fn over(
        bed: &'b Bed,
        name: &str,
        format: Format,
        mount: &'static str,
        server: String,
        seed: u64,
    ) -> Result<Subject<'b>, Setup> {
        let image = Image::make(name, format, MEDIUM, format != Format::Disk)?;
        let crew = Crew::new(CLIENTS, seed, HABITS);
        Ok(Subject { bed, image, mount, server, crew, tally: Tally::default() })
    }

    fn boot(&self) -> Result<Machine, Setup> {
        let hardware = if self.image.format == Format::Disk { WITH_A_DISK } else { USUAL };
        let mut machine = Machine::boot(self.bed, &hardware, &self.image)?;
        machine.run(self.mount)?;
        Ok(machine)
    }

    /// Boots, and compares the server's data with what the clients know.
    pub(crate) fn come_back(&mut self) -> Result<Machine, Failure> {
        let mut machine = self.boot()?;
        if self.image.format == Format::Xfs && self.tally.machines > 0 {
            let (status, said) = machine.shell("perdura check --quiet /pm/perdura.pool")?;
            if status != 0 {
                return Err(Violation(format!("perdura check: {status}: {said}")).into());
            }
        }
        // A server that does not start after a cut has lost everything.
        let mut client = machine.serve(&self.server)?;
        self.crew.verify(&mut client)?;
        Ok(machine)
    }

    /// Cuts the power while the server is starting, and thus recovering.
    pub(crate) fn cut_early(&mut self, random: &mut Rng) -> Result<(), Failure> {
        let mut machine = self.boot()?;
        machine.begin_to_serve(&self.server)?;
        thread::sleep(Duration::from_millis(random.u64(..400)));
        machine.cut();
        self.tally.machines += 1;
        Ok(())
    }

    /// Loads the machine, copies its medium this many times meanwhile, and cuts its power.
    pub(crate) fn cut(
        &mut self,
        machine: Machine,
        random: &mut Rng,
        old_copy: OldCopy,
        snapshots: u64,
    ) -> Result<(), Failure> {
        let address = machine.address();
        let view = self.crew.view();
        let before = view.steps();
        let (tally, image) = (&mut self.tally, &self.image);
        let mut benchmark = old_copy.start(address)?;
        let meanwhile = || {
            for _ in 0..snapshots {
                thread::sleep(Duration::from_millis(random.u64(5..500)));
                snapshot(&machine, image, &view)?;
                tally.snapshots += 1;
            }
            thread::sleep(Duration::from_millis(random.u64(20..1500)));
            wait_until("steps acknowledged", || view.steps() >= before + AT_STAKE)?;
            machine.cut();
            tally.machines += 1;
            Ok::<(), Failure>(())
        };
        let result = self.crew.run(|| Client::connect(address), meanwhile);
        let _ = benchmark.kill();
        let _ = benchmark.wait();
        self.tally.steps = self.crew.steps();
        result?.0
    }

    /// Copies the medium, loads the machine a little longer, and cuts its power: the copy lacks the
    /// last writes.
    pub(crate) fn keep_an_old_copy(
        &mut self,
        mut machine: Machine,
        random: &mut Rng,
    ) -> Result<(), Failure> {
        machine.run("sync")?;
        self.image.copy(&self.image.place_of_copy())?;
        self.cut(machine, random, OldCopy::MANY, 0)
    }

    /// Compares the last copy with what the clients know now.
    pub(crate) fn look_into_the_copy(&self) -> Result<(), Failure> {
        let view = self.crew.view();
        view.begin();
        copy_holds(&self.image.place_of_copy(), self.image.format, &mut view.end()).map(drop)
    }

    /// The medium left by the power cut must be intact before anything has mounted it.
    pub(crate) fn look_into_the_medium(&self) -> Result<(), Failure> {
        self.image.copy(&self.image.place_of_copy())?;
        self.look_into_the_copy()
    }
}

/// Copies the medium at one moment, and compares it with what the clients know at that moment.
fn snapshot(machine: &Machine, image: &Image, view: &View) -> Result<(), Failure> {
    let copy = image.place_of_copy();
    view.begin();
    machine.stop()?;
    let copied = image.copy(&copy);
    let mut crew = view.end();
    machine.go_on()?;
    copied?;
    copy_holds(&copy, image.format, &mut crew).map(drop)
}

/// The writes that redis-benchmark adds to the clients'.
#[derive(Clone, Copy)]
pub(crate) struct OldCopy {
    keys: u32,
    bytes: u32,
}

impl OldCopy {
    /// Many writes, in a pool that grows periodically.
    pub(crate) const MANY: OldCopy = OldCopy { keys: 50_000, bytes: 1_000 };
    /// Large values, so that the pool grows all the time.
    pub(crate) const LARGE: OldCopy = OldCopy { keys: 9_000, bytes: 16_000 };

    /// Writes until the connections break.
    fn start(self, address: SocketAddr) -> Result<Child, Setup> {
        let mut command = program("redis-benchmark");
        let words = format!(
            "-h 127.0.0.1 -p {} -t set,incr,mset -r {} -d {} --dbnum {OTHERS} -c 4 -P 4 -n 100000000 -l -q",
            address.port(),
            self.keys,
            self.bytes
        );
        command.args(words.split(' '));
        Ok(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?)
    }
}
