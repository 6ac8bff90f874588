//! Lines lost by the medium: under one key, while the server is stopped or while it serves.
//!
//! The kernel is told by sysfs of a bad sector under a value, or the processor reports a machine
//! check there, as real hardware would. The server must name the damage and continue: the damaged
//! key answers with an error and can be set again, and its neighbour on the same page, as all other
//! keys, answers as before.
//!
//! With a machine check the neighbours on that page may be lost too: Linux removes the whole page
//! from its memory map, so that nothing can read the other lines any more, unless the server was
//! faster. Keys that are not on the page must exist.

use crate::Bed;
use crate::cuts::Failure;
use crate::image::{Format, Image};
use crate::machine::{Hardware, Machine, Memory, USUAL};
use crate::place::wait_until;
use testkit::Client;
use testkit::load::Violation;

const MEDIUM: u64 = 320 << 20;
const MOUNT: &str = "fsdax && mount -t ext4 -o dax=always /dev/pmem0 /pm";
const SERVER: &str = "--dir /pm --backend auto --pool perdura.pool --pool-size 128mb";
const CHECK: &str = "perdura check --quiet /pm/perdura.pool";

const KEYS: usize = 256;
/// Bytes of a value: it contains a whole sector, and two or three values share a page.
const VALUE: usize = 1600;
const SECTOR: u64 = 512;
const PAGE: u64 = 4096;
/// Bytes of an entry before its value: three words and the key.
const HEAD: u64 = 3 * 8 + 7;

/// Tests both ways in which a line goes bad.
pub(crate) fn all(bed: &Bed, whole: &Bed) -> Result<(), Failure> {
    a_bad_sector_under_a_key(bed)?;
    a_machine_check_under_a_key(whole)
}

fn name(key: usize) -> String {
    format!("key:{key:03}")
}

fn value(key: usize) -> String {
    format!("<value of {key:03}>").repeat(VALUE)[..VALUE].to_owned()
}

fn check(what: &str, found: &str, expected: &str) -> Result<(), Violation> {
    if found.contains(expected) {
        return Ok(());
    }
    let short = |text: &str| text.chars().take(200).collect::<String>();
    Err(Violation(format!("{what}: {} was expected, not {}", short(expected), short(found))))
}

fn fill(client: &mut Client) {
    for key in 0..KEYS {
        client.call(&["SET", &name(key), &value(key)]);
    }
}

/// The position of a key's value in the image.
struct Place {
    key: usize,
    at: u64,
}

impl Place {
    /// The first sector that is completely inside the value.
    fn sector(&self) -> u64 {
        self.at.next_multiple_of(SECTOR)
    }

    /// Returns true if a part of the entry is on a page.
    fn is_on(&self, page: u64) -> bool {
        self.at - HEAD < page + PAGE && page < self.at + VALUE as u64
    }
}

/// Returns the positions of all values, in order; each occurs once.
fn places(image: &Image) -> Result<Vec<Place>, Failure> {
    let mut places = Vec::new();
    for at in image.find(b"key:")? {
        let bytes = image.read(at, name(0).len() + VALUE)?;
        let is_it = |key: &usize| bytes == format!("{}{}", name(*key), value(*key)).as_bytes();
        if let Some(key) = (0..KEYS).find(is_it) {
            places.push(Place { key, at: at + name(key).len() as u64 });
        }
    }
    let found = places.len();
    places.dedup_by_key(|place| place.key);
    if found == KEYS && places.len() == KEYS {
        return Ok(places);
    }
    Err(Violation(format!("{found} places of {KEYS} keys")).into())
}

/// Returns a key far inside a run of entries, so that its page contains only entries.
fn victim(places: &[Place]) -> Result<&Place, Failure> {
    let is_far_inside = |run: &&[Place]| run[6].at - run[0].at < 7 * 2 * VALUE as u64;
    let run = places.windows(7).find(is_far_inside);
    Ok(&run.ok_or_else(|| Violation("the entries are scattered".into()))?[5])
}

/// Checks that `victim` is damaged and reports it, as some `others` may; that all other keys are
/// intact; and that the damaged ones can be written again. Returns the number of damaged keys.
fn only_these_are_lost(
    machine: &mut Machine,
    client: &mut Client,
    victim: usize,
    others: &[usize],
) -> Result<usize, Failure> {
    let mut lost = Vec::new();
    for key in 0..KEYS {
        let reply = client.call(&["GET", &name(key)]).to_string();
        if key == victim || others.contains(&key) && reply.contains("MEDIAERR") {
            check(&name(key), &reply, "MEDIAERR")?;
            lost.push(key);
        } else {
            check(&name(key), &reply, &value(key))?;
        }
    }
    let damaged = client.info("persistence").remove("damaged_keys").unwrap_or_default();
    check("INFO's damaged_keys", &format!("={damaged}."), &format!("={}.", lost.len()))?;
    let log = log_that_names(machine, &lost)?;
    for &key in &lost {
        check("the log", &log, &format!("key \"{}\"", name(key)))?;
        let reply = client.call(&["SET", &name(key), "again"]).to_string();
        check("a damaged key that is set again", &reply, "OK")?;
        let reply = client.call(&["GET", &name(key)]).to_string();
        check("a damaged key that was set again", &reply, "\"again\"")?;
    }
    Ok(lost.len())
}

/// Returns the log once it names these keys, or after a while: a reply may arrive before its log
/// line.
fn log_that_names(machine: &mut Machine, keys: &[usize]) -> Result<String, Failure> {
    let mut log = machine.log()?;
    for _ in 0..100 {
        if keys.iter().all(|key| log.contains(&format!("key \"{}\"", name(*key)))) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
        log = machine.log()?;
    }
    Ok(log)
}

/// The kernel knows of a bad sector before the server maps it.
fn a_bad_sector_under_a_key(bed: &Bed) -> Result<(), Failure> {
    let image = Image::make("media", Format::Ext4, MEDIUM, true)?;
    let mut machine = Machine::boot(bed, &USUAL, &image)?;
    machine.run(MOUNT)?;
    fill(&mut machine.serve(SERVER)?);
    machine.run("kill -TERM $server; wait $server")?;
    let places = places(&image)?;
    let lost = victim(&places)?;
    let page = lost.sector() & !(PAGE - 1);
    let neighbours = places.iter().filter(|place| place.is_on(page)).count() - 1;
    let sector = image.inside(lost.sector()) / SECTOR;
    machine.run(&format!("echo {sector} 1 >/sys/block/pmem0/badblocks"))?;
    let (status, said) = machine.shell(CHECK)?;
    check("perdura check", &format!("{status}: {said}"), "1: ")?;
    check("perdura check", &said, &name(lost.key))?;
    let named = said.matches("key \"key:").count();
    check("keys that perdura check names", &format!("={named}."), "=1.")?;
    let mut client = machine.serve(SERVER)?;
    only_these_are_lost(&mut machine, &mut client, lost.key, &[])?;
    machine.run("kill -TERM $server; wait $server")?;
    let (status, said) = machine.shell(CHECK)?;
    check("perdura check after the key was set again", &format!("{status}: {said}"), "0: ")?;
    println!(
        "  a bad sector: 1 of {KEYS} keys is damaged, for the server and for `perdura check`, and not the {neighbours} beside it on its page"
    );
    Ok(())
}

/// The processor finds a bad line while the server has it mapped.
fn a_machine_check_under_a_key(bed: &Bed) -> Result<(), Failure> {
    let hardware = Hardware { memory: Memory::Nvdimm, cpu: "max,vendor=GenuineIntel" };
    let image = Image::make("media", Format::Ext4, MEDIUM, true)?;
    let mut machine = Machine::boot(bed, &hardware, &image)?;
    machine.run(MOUNT)?;
    // Processes that have the page mapped are notified at once, not when they access it: emulated
    // memory never fails.
    machine.run("echo 1 >/proc/sys/vm/memory_failure_early_kill")?;
    let mut client = machine.serve(SERVER)?;
    fill(&mut client);
    let places = places(&image)?;
    let victim = victim(&places)?;
    let page = victim.sector() & !(PAGE - 1);
    let others: Vec<usize> =
        places.iter().filter(|place| place.is_on(page)).map(|place| place.key).collect();
    // Emulated memory can still be read, and would be by a server that is faster than the kernel's
    // bookkeeping.
    let sector = image.inside(victim.sector()) / SECTOR;
    machine.run(&format!("echo {sector} 1 >/sys/block/pmem0/badblocks"))?;
    let start = machine.run("printf '%d' $(cat /sys/bus/nd/devices/region0/resource)")?;
    let start: u64 = start.trim().parse().map_err(|_| Violation(start))?;
    // Uncorrected, signalled, with an address: found by scrubbing, so that no instruction waits for
    // it.
    let address = start + victim.sector();
    machine.monitor(&format!("mce 0 9 0xbd000000000000c0 0x5 {address:#x} 0x86"))?;
    machine.run("until dmesg | grep -q 'Memory failure'; do sleep 0.1; done")?;
    // The kernel reports it before the server is notified.
    wait_until("a media error that the server has heard of", || {
        client.info("persistence")["media_errors"] != "0"
    })?;
    let lost = only_these_are_lost(&mut machine, &mut client, victim.key, &others)?;
    let most = others.len();
    println!("  a machine check: {lost} of {KEYS} keys damaged, of {most} on its page");
    Ok(())
}
