//! The guest's root: an archive that the kernel unpacks into memory, in the form that cpio calls
//! `newc`.
//!
//! It contains a shell, the requested kernel modules with those that they need, the programs of the
//! test with their libraries, and `init.sh`. It is written again for each guest: that costs less
//! than checking whether an old one would do.

use crate::debian::Kernel;
use crate::programs::Programs;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const LINK: u32 = 0o120_777;

/// Writes the archive: `modules` by name, and the programs in `/bin`.
pub(crate) fn write(
    to: &Path,
    kernel: &Kernel,
    modules: &[&str],
    programs: &Programs,
) -> io::Result<()> {
    let mut archive = Archive::default();
    for folder in ["bin", "dev", "proc", "sys", "tmp", "pm", "plain", "modules"] {
        archive.entry(folder, FOLDER, &[]);
    }
    archive.entry("init", PROGRAM, include_bytes!("init.sh"));
    archive.entry("bin/busybox", PROGRAM, &fs::read(&kernel.busybox)?);
    archive.entry("bin/sh", LINK, b"busybox");
    for (name, path) in &programs.files {
        archive.entry(&format!("bin/{name}"), PROGRAM, &fs::read(path)?);
    }
    for folder in folders(&programs.libraries) {
        archive.entry(&folder, FOLDER, &[]);
    }
    for path in &programs.libraries {
        let name = path.to_string_lossy();
        archive.entry(name.trim_start_matches('/'), PROGRAM, &fs::read(path)?);
    }
    let mut order = String::new();
    for path in kernel.in_order_of_loading(modules)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        archive.entry(&format!("modules/{name}"), PROGRAM, &fs::read(&path)?);
        order.push_str(&name);
        order.push('\n');
    }
    archive.entry("modules/order", PROGRAM, order.as_bytes());
    archive.entry("TRAILER!!!", 0, &[]);
    fs::write(to, archive.bytes)
}

/// Returns the folders of some absolute paths, each after the one that it is in.
fn folders(paths: &BTreeSet<PathBuf>) -> BTreeSet<String> {
    let above = paths.iter().flat_map(|path| path.ancestors().skip(1));
    let names = above.map(|folder| folder.to_string_lossy().trim_start_matches('/').to_owned());
    names.filter(|name| !name.is_empty()).collect()
}

#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        let size = u32::try_from(content.len()).expect("a file of a guest is small");
        let links = 1;
        let name_len = name.len() as u32 + 1;
        // Number, mode, owner, group, links, time, size, four device numbers, the name's length, no
        // checksum.
        let fields = [self.entries, mode, 0, 0, links, 0, size, 0, 0, 0, 0, name_len, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}
