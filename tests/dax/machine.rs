//! A machine whose power can be cut: QEMU without hardware acceleration, with a stock kernel and an
//! emulated NVDIMM or a disk.
//!
//! The host talks to it through a serial port, one shell line at a time, and to its server through
//! a forwarded port. A cut is SIGKILL: the guest's memory is gone, with its page cache, its file
//! system's dirty metadata and its open journal; its stores to the NVDIMM and its
//! writes to the disk are in the image.
//! Dropping a machine cuts it as well.

use crate::cuts::Failure;
use crate::image::{Format, Image};
use crate::initramfs;
use crate::place::{PATIENCE, Setup, program};
use crate::{Bed, debian::Kernel};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};
use testkit::Client;
use testkit::load::Violation;

/// The kind of memory of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// An NVDIMM of a platform that keeps what is written back from the caches.
    Nvdimm,
    /// An NVDIMM of a platform that flushes its caches at power loss.
    NvdimmWithCaches,
    /// virtio-pmem, whose flush is a request to the host.
    Virtio,
    /// No persistent memory: the image is a disk.
    Disk,
}

/// The hardware of a guest.
#[derive(Clone, Debug)]
pub(crate) struct Hardware {
    pub(crate) memory: Memory,
    pub(crate) cpu: &'static str,
}

/// An NVDIMM, and a processor with all features of QEMU.
pub(crate) const USUAL: Hardware = Hardware { memory: Memory::Nvdimm, cpu: "max" };

/// The same without persistent memory.
pub(crate) const WITH_A_DISK: Hardware = Hardware { memory: Memory::Disk, cpu: "max" };

/// A running guest.
pub(crate) struct Machine {
    qemu: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    /// What QEMU itself says.
    errors: PathBuf,
    console: PathBuf,
    monitor: PathBuf,
    port: u16,
}

impl Machine {
    /// Boots a guest and waits for its shell; the image is not mounted. The guest's other files lie
    /// beside the image.
    pub(crate) fn boot(bed: &Bed, hardware: &Hardware, image: &Image) -> Result<Machine, Setup> {
        let file = |end| image.path.with_extension(end);
        let root = file("cpio");
        initramfs::write(&root, &bed.kernel, &modules(hardware, image), &bed.programs)?;
        let port = testkit::free_port();
        let console = file("console.log");
        let monitor = file("monitor");
        let _ = fs::remove_file(&monitor);
        let mut command = program("setpriv");
        command.args(["--pdeathsig", "KILL", "nice", "-n", "10", "qemu-system-x86_64"]);
        memory(&mut command, hardware, image);
        start_of(&mut command, &bed.kernel, &root);
        devices(&mut command, port, &console, &monitor);
        let errors = file("qemu.log");
        let stderr = fs::File::create(&errors)?;
        let mut qemu =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr).spawn()?;
        let input = qemu.stdin.take().expect("standard input is a pipe");
        let output = qemu.stdout.take().expect("standard output is a pipe");
        let (sender, lines) = channel();
        thread::spawn(move || {
            let mut output = BufReader::new(output);
            let mut line = Vec::new();
            while output.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                line.clear();
                if sender.send(text).is_err() {
                    break;
                }
            }
        });
        let mut machine = Machine { qemu, input, lines, errors, console, monitor, port };
        machine.answer("the boot")?;
        Ok(machine)
    }

    /// Runs a line of shell. Returns its status and output.
    pub(crate) fn shell(&mut self, line: &str) -> Result<(i32, String), Setup> {
        writeln!(self.input, "{line}")?;
        self.answer(line)
    }

    /// Runs a line that must succeed.
    pub(crate) fn run(&mut self, line: &str) -> Result<String, Setup> {
        match self.shell(line)? {
            (0, output) => Ok(output),
            (status, output) => Err(Setup(format!("in the guest: {line}: {status}: {output}"))),
        }
    }

    fn answer(&mut self, what: &str) -> Result<(i32, String), Setup> {
        let mut output = Vec::new();
        let end = Instant::now() + PATIENCE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else {
                let said = fs::read_to_string(&self.errors).unwrap_or_default();
                return Err(Setup(format!("{what}: no answer; {said}{}", self.last_words())));
            };
            match line.strip_prefix("= ").and_then(|status| status.parse().ok()) {
                Some(status) => return Ok((status, output.join("\n").trim_end().to_owned())),
                None => output.push(line),
            }
        }
    }

    /// The last lines of the kernel's log.
    pub(crate) fn last_words(&self) -> String {
        let text = fs::read(&self.console).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }

    /// The address of the guest's server.
    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// Starts the server in the guest without waiting; its log is `/tmp/server.log` there.
    pub(crate) fn begin_to_serve(&mut self, arguments: &str) -> Result<(), Setup> {
        let usual = "--port 6379 --bind 0.0.0.0 --protected-mode no";
        let line = format!(
            "perdura-server {usual} {arguments} </dev/null >/tmp/server.log 2>&1 & server=$!"
        );
        self.run(&line).map(drop)
    }

    /// Starts the server in the guest and waits until it answers.
    pub(crate) fn serve(&mut self, arguments: &str) -> Result<Client, Failure> {
        self.begin_to_serve(arguments)?;
        let end = Instant::now() + PATIENCE;
        loop {
            let client = Client::connect(self.address()).and_then(|mut client| {
                client.set_patience(Duration::from_secs(5))?;
                let reply = client.try_call(&["PING"])?;
                client.set_patience(PATIENCE)?;
                Ok((client, reply.to_string()))
            });
            match client {
                Ok((client, reply)) if reply == "PONG" => return Ok(client),
                _ if self.shell("kill -0 $server")?.0 != 0 => {
                    return Err(Violation(format!("the server ended: {}", self.log()?)).into());
                }
                _ if Instant::now() > end => {
                    let log = self.log()?;
                    return Err(Violation(format!("the server does not answer: {log}")).into());
                }
                _ => thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// The output of the guest's server.
    pub(crate) fn log(&mut self) -> Result<String, Setup> {
        self.run("cat /tmp/server.log")
    }

    /// Stops the machine: nothing changes its memory until it continues.
    pub(crate) fn stop(&self) -> Result<(), Setup> {
        let id = Pid::from_child(&self.qemu);
        kill_process(id, Signal::STOP).map_err(std::io::Error::from)?;
        waitid(WaitId::Pid(id), WaitIdOptions::STOPPED).map_err(std::io::Error::from)?;
        Ok(())
    }

    /// Lets the machine continue.
    pub(crate) fn go_on(&self) -> Result<(), Setup> {
        let id = Pid::from_child(&self.qemu);
        Ok(kill_process(id, Signal::CONT).map_err(std::io::Error::from)?)
    }

    /// Sends a command to QEMU's monitor.
    pub(crate) fn monitor(&self, command: &str) -> Result<String, Setup> {
        let mut socket = UnixStream::connect(&self.monitor)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        prompt(&mut socket)?;
        writeln!(socket, "{command}")?;
        prompt(&mut socket)
    }

    /// Cuts the power.
    pub(crate) fn cut(self) {
        drop(self);
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}

fn prompt(socket: &mut UnixStream) -> Result<String, Setup> {
    let mut said = Vec::new();
    let mut byte = [0];
    while !said.ends_with(b"(qemu) ") {
        socket.read_exact(&mut byte)?;
        said.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&said).into_owned())
}

fn modules(hardware: &Hardware, image: &Image) -> Vec<&'static str> {
    let mut names = vec!["virtio_pci", "virtio_net"];
    names.extend(match hardware.memory {
        Memory::Nvdimm | Memory::NvdimmWithCaches => &["nfit", "nd_pmem"][..],
        Memory::Virtio => &["virtio_pmem", "nd_pmem"],
        Memory::Disk => &["virtio_blk"],
    });
    names.extend(match image.format {
        Format::Ext4 | Format::Disk => &["crc32c_generic", "ext4"][..],
        Format::Xfs => &["crc32c_generic", "xfs"],
        Format::Device => &["device_dax", "dax_pmem"],
    });
    names
}

fn memory(command: &mut Command, hardware: &Hardware, image: &Image) {
    let (path, bytes) = (image.path.display(), image.bytes);
    let file = format!("memory-backend-file,id=medium,share=on,mem-path={path},size={bytes}");
    let (machine, device) = match hardware.memory {
        Memory::Nvdimm => ("q35,nvdimm=on,nvdimm-persistence=mem-ctrl", "nvdimm,memdev=medium"),
        Memory::NvdimmWithCaches => {
            ("q35,nvdimm=on,nvdimm-persistence=cpu", "nvdimm,memdev=medium")
        }
        Memory::Virtio => ("q35", "virtio-pmem-pci,memdev=medium"),
        Memory::Disk => ("q35", "virtio-blk-pci,drive=medium"),
    };
    command.args(["-machine", machine, "-m", "768M,slots=2,maxmem=8G"]);
    if hardware.memory == Memory::Disk {
        let drive = format!("id=medium,file={path},format=raw,if=none,cache=writeback");
        command.args(["-drive", &drive]);
    } else {
        command.args(["-object", &file]);
    }
    command.args(["-device", device, "-accel", "tcg,tb-size=256", "-cpu", hardware.cpu]);
}

fn start_of(command: &mut Command, kernel: &Kernel, root: &Path) {
    command.arg("-kernel").arg(&kernel.image).arg("-initrd").arg(root).args([
        "-append",
        // On a busy host the timer's first ticks are late, and the kernel would regard the timer as
        // broken.
        "console=ttyS0 panic=-1 mitigations=off random.trust_cpu=on no_timer_check quiet",
        "-smp",
        "1",
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-no-reboot",
    ]);
}

fn devices(command: &mut Command, port: u16, console: &Path, monitor: &Path) {
    let net = format!("user,id=net,hostfwd=tcp:127.0.0.1:{port}-:6379");
    command.args(["-netdev", &net, "-device", "virtio-net-pci,netdev=net,romfile="]);
    command.arg("-serial").arg(format!("file:{}", console.display()));
    command.args(["-chardev", "stdio,id=shell,signal=off", "-serial", "chardev:shell"]);
    command.arg("-monitor").arg(format!("unix:{},server,nowait", monitor.display()));
}
