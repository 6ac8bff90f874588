//! How the server treats each kind of memory: it claims persistent memory only if the kernel
//! confirms it.

use crate::Bed;
use crate::cuts::Failure;
use crate::image::{Format, Image};
use crate::machine::{Hardware, Machine, Memory, USUAL};
use testkit::load::Violation;

const MEDIUM: u64 = 320 << 20;

/// Tests all kinds, with a line of output for each.
pub(crate) fn all(bed: &Bed) -> Result<(), Failure> {
    let eadr = Hardware { memory: Memory::NvdimmWithCaches, ..USUAL };
    let old = Hardware { cpu: "qemu64", ..USUAL };
    for format in [Format::Ext4, Format::Xfs] {
        takes_persistent_memory(bed, &USUAL, format, "clwb")?;
    }
    takes_persistent_memory(bed, &eadr, Format::Ext4, "eadr")?;
    takes_persistent_memory(bed, &old, Format::Ext4, "clwb")?;
    takes_a_device(bed)?;
    claims_nothing(bed, Memory::Virtio, "/dev/pmem0", "-o dax=always")?;
    claims_nothing(bed, Memory::Disk, "/dev/vda", "")
}

#[track_caller]
fn check(what: &str, holds: bool, found: &str) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation(format!("{what}: {found}"))) }
}

/// If `MAP_SYNC` is granted the server chooses the pool by itself, and its writes survive a power
/// cut.
fn takes_persistent_memory(
    bed: &Bed,
    hardware: &Hardware,
    format: Format,
    domain: &str,
) -> Result<(), Failure> {
    let name =
        format!("{} on {:?} with processor {}", format.name(), hardware.memory, hardware.cpu);
    let image = Image::make("domains", format, MEDIUM, true)?;
    let mount = format!("fsdax && mount -t {} -o dax=always /dev/pmem0 /pm", format.name());
    let server = "--dir /pm --backend auto --pool perdura.pool --pool-size 128mb";
    let mut machine = Machine::boot(bed, hardware, &image)?;
    machine.run(&mount)?;
    let mut client = machine.serve(server)?;
    let log = machine.log()?;
    let expected = format!("backend=pmem domain={domain} durability=\"a write is durable");
    check(&name, log.contains(&expected), &log)?;
    check(&name, log.contains("is persistent memory"), &log)?;
    let flags = machine.run("grep -A30 /pm/perdura.pool /proc/$server/smaps | grep VmFlags")?;
    check("mapped with MAP_SYNC", flags.contains(" sf"), &flags)?;
    client.check("SET greeting hello", "OK");
    let info = client.info("persistence");
    let found = format!("{info:?}");
    check(&name, found.contains(domain), &found)?;
    machine.cut();

    let mut machine = Machine::boot(bed, hardware, &image)?;
    machine.run(&mount)?;
    let mut client = machine.serve(server)?;
    client.check("GET greeting", "\"hello\"");
    let known =
        machine.run("tr ' ' '\\n' </proc/cpuinfo | grep -x -e clwb -e clflush | sort -u")?;
    check("the processor", known.contains("clwb") == (hardware.cpu != "qemu64"), &known)?;
    println!("  {name}: pmem, {domain}; it has {}", known.replace('\n', ", "));
    Ok(())
}

/// A DAX device has no file system to ask: its size comes from sysfs, and it maps whole huge pages
/// only.
fn takes_a_device(bed: &Bed) -> Result<(), Failure> {
    let image = Image::make("domains", Format::Device, MEDIUM, true)?;
    let server = "--backend auto --pool /dev/dax0.0";
    let mut machine = Machine::boot(bed, &USUAL, &image)?;
    machine.run("devdax")?;
    let bytes = machine.run("cat /sys/bus/dax/devices/dax0.0/size")?;
    image.overwrite(b"somebody else's data")?;
    let (status, said) = machine.shell(&format!("perdura-server {server} </dev/null 2>&1"))?;
    check(
        "a device that holds something else",
        status != 0 && said.contains("not a Perdura pool"),
        &said,
    )?;
    image.overwrite(&[0; 4096])?;
    let mut client = machine.serve(server)?;
    let log = machine.log()?;
    check("device", log.contains("backend=pmem domain=clwb"), &log)?;
    for n in 0..2000 {
        client.call(&["SET", &format!("key{n}"), &"v".repeat(n)]);
    }
    machine.run("kill -TERM $server; wait $server")?;
    let mut client = machine.serve(server)?;
    client.check("DBSIZE", "(integer) 2000");
    machine.cut();

    let mut machine = Machine::boot(bed, &USUAL, &image)?;
    machine.run("devdax")?;
    let mut client = machine.serve(server)?;
    client.check("STRLEN key1999", "(integer) 1999");
    println!("  a DAX device of {bytes} bytes: pmem, clwb");
    Ok(())
}

/// If `MAP_SYNC` is refused the server gives the pool a journal, or refuses to start if its options
/// exclude one.
fn claims_nothing(bed: &Bed, memory: Memory, device: &str, options: &str) -> Result<(), Failure> {
    let name = format!("ext4 on {memory:?}");
    let hardware = Hardware { memory, ..USUAL };
    let image = Image::make("domains", Format::Ext4, MEDIUM, false)?;
    let mut machine = Machine::boot(bed, &hardware, &image)?;
    let mount = format!("appears {device} && mount -t ext4 {options} {device} /pm");
    machine.run(&mount)?;
    let (status, said) =
        machine.shell("perdura-server --dir /pm --backend pmem --domain auto 2>&1 </dev/null")?;
    check(&name, status != 0, "the pool was taken")?;
    for choice in
        ["refuses MAP_SYNC", "the journal", "domain msync", "domain process", "AOF backend"]
    {
        check(&name, said.contains(choice), &said)?;
    }
    let server = "--dir /pm --backend auto --appendfsync always --journal-size 16mb";
    let mut client = machine.serve(server)?;
    let log = machine.log()?;
    check(&name, log.contains("backend=journal"), &log)?;
    check(&name, log.contains("is not persistent memory (no MAP_SYNC)"), &log)?;
    client.check("SET greeting hello", "OK");
    machine.cut();

    let mut machine = Machine::boot(bed, &hardware, &image)?;
    machine.run(&mount)?;
    let mut client = machine.serve(server)?;
    client.check("GET greeting", "\"hello\"");
    println!("  {name}: journal; a pool without is refused by name");
    Ok(())
}
