//! Lines that the medium lost: under one key, while the server is away or while it serves.
//!
//! The kernel is told of a bad sector under a value by sysfs, or the processor reports a machine check there, as the
//! board would. The server must name the damage for that key alone: its neighbour on the same page of memory, and every
//! other key, answers as before; the damaged one can be deleted or set again; and the server goes on.

use crate::Bed;
use crate::cuts::Failure;
use crate::image::{Format, Image};
use crate::machine::{Hardware, Machine, Memory, USUAL};
use testkit::Client;
use testkit::load::Violation;

const MEDIUM: u64 = 320 << 20;
const MOUNT: &str = "fsdax && mount -t ext4 -o dax=always /dev/pmem0 /pm";
const SERVER: &str = "--dir /pm --backend auto --pool perdura.pool --pool-size 128mb";

/// Keys, and the bytes of each value: a whole sector lies inside one, and two of them share a page.
const KEYS: usize = 64;
const VALUE: usize = 1600;
const SECTOR: u64 = 512;

/// Both ways for a line to go bad.
pub(crate) fn all(bed: &Bed) -> Result<(), Failure> {
    a_bad_sector_under_a_key(bed)?;
    a_machine_check_under_a_key()
}

fn name(key: usize) -> String {
    format!("key:{key:02}")
}

fn value(key: usize) -> String {
    format!("<value of {:02}>", key).repeat(VALUE.div_ceil(13))[..VALUE].to_owned()
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

/// Where a sector inside a key's value begins in the image.
fn sector_under(image: &Image, key: usize) -> Result<u64, Failure> {
    let entry = format!("{}{}", name(key), value(key));
    match image.find(entry.as_bytes())?[..] {
        [at] => Ok((at + name(key).len() as u64).next_multiple_of(SECTOR)),
        ref all => {
            Err(Violation(format!("{} is {} times in the image", name(key), all.len())).into())
        }
    }
}

/// One key is damaged and says so; all others are whole; the damaged one can be written again.
fn one_key_is_lost(machine: &mut Machine, client: &mut Client, lost: usize) -> Result<(), Failure> {
    let reply = client.call(&["GET", &name(lost)]).to_string();
    check("the damaged key", &reply, "MEDIAERR")?;
    for key in (0..KEYS).filter(|key| *key != lost) {
        let reply = client.call(&["GET", &name(key)]).to_string();
        check(&name(key), &reply, &value(key))?;
    }
    let info = client.info("persistence");
    check("INFO", &format!("{:?}", info.get("damaged_keys")), "\"1\"")?;
    check("the log", &machine.log()?, &format!("key \"{}\"", name(lost)))?;
    let reply = client.call(&["SET", &name(lost), "again"]).to_string();
    check("the damaged key, set again", &reply, "OK")?;
    let reply = client.call(&["GET", &name(lost)]).to_string();
    check("the damaged key, set again", &reply, "\"again\"")?;
    Ok(())
}

/// The kernel knows of a bad sector before the server maps it.
fn a_bad_sector_under_a_key(bed: &Bed) -> Result<(), Failure> {
    let image = Image::make("media", Format::Ext4, MEDIUM, true)?;
    let mut machine = Machine::boot(bed, &USUAL, &image)?;
    machine.run(MOUNT)?;
    fill(&mut machine.serve(SERVER)?);
    machine.run("kill -TERM $server; wait $server")?;
    let lost = 17;
    let sector = image.inside(sector_under(&image, lost)?) / SECTOR;
    machine.run(&format!("echo {sector} 1 >/sys/block/pmem0/badblocks"))?;
    let mut client = machine.serve(SERVER)?;
    one_key_is_lost(&mut machine, &mut client, lost)?;
    println!("  a bad sector: one key of {KEYS} is lost, and says so");
    Ok(())
}

/// The processor meets a bad line while the server has it mapped.
fn a_machine_check_under_a_key() -> Result<(), Failure> {
    let bed = Bed::make("amd64")?;
    let hardware = Hardware { memory: Memory::Nvdimm, cpu: "max,vendor=GenuineIntel" };
    let image = Image::make("media", Format::Ext4, MEDIUM, true)?;
    let mut machine = Machine::boot(&bed, &hardware, &image)?;
    machine.run(MOUNT)?;
    // Processes that have the page mapped hear of it at once, not when they touch it: emulated memory never refuses.
    machine.run("echo 1 >/proc/sys/vm/memory_failure_early_kill")?;
    let mut client = machine.serve(SERVER)?;
    fill(&mut client);
    let lost = 42;
    let start = machine.run("printf '%d' $(cat /sys/bus/nd/devices/region0/resource)")?;
    let start: u64 = start.trim().parse().map_err(|_| Violation(start))?;
    let address = start + sector_under(&image, lost)?;
    // Uncorrected, signalled, with an address: found by scrubbing, so that no instruction waits for it.
    machine.monitor(&format!("mce 0 9 0xbd000000000000c0 0x5 {address:#x} 0x86"))?;
    machine.run("until dmesg | grep -q 'Memory failure'; do sleep 0.1; done")?;
    one_key_is_lost(&mut machine, &mut client, lost)?;
    println!("  a machine check: one key of {KEYS} is lost, and says so");
    Ok(())
}
