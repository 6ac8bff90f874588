//! The parts of a guest, from Debian: a kernel with its modules, and a shell.
//!
//! The packages are fetched and unpacked below the target directory, once; nothing is installed,
//! and root is not needed.

use crate::place::{Setup, cache, run};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A kernel, unpacked.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    pub(crate) image: PathBuf,
    modules: PathBuf,
    pub(crate) busybox: PathBuf,
    pub(crate) version: String,
}

impl Kernel {
    /// The stock kernel of a flavour: `cloud-amd64` boots fastest, `amd64` supports machine checks.
    pub(crate) fn fetch(flavour: &str) -> Result<Kernel, Setup> {
        let folder = cache().join(format!("kernel-{flavour}"));
        if !folder.join("complete").exists() {
            unpack(|| kernel_package(flavour), &folder)?;
        }
        let shell = cache().join("busybox");
        if !shell.join("complete").exists() {
            unpack(|| Ok("busybox-static".to_owned()), &shell)?;
        }
        let busybox = first(&shell, &["usr/bin/busybox", "bin/busybox"])?;
        let image = only(&folder.join("boot"), "vmlinuz-")?;
        let name = image.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let version = name.trim_start_matches("vmlinuz-").to_owned();
        let above = first(&folder, &["usr/lib/modules", "lib/modules"])?;
        let modules = above.join(&version);
        if !modules.join("modules.dep").exists() {
            let base = above.ancestors().nth(2).unwrap_or(Path::new("/"));
            run(Command::new(&busybox).arg("depmod").arg("-b").arg(base).arg(&version))?;
        }
        Ok(Kernel { image, modules, busybox, version })
    }

    /// The files of modules, each after those that it needs. A module without a file is built in.
    pub(crate) fn in_order_of_loading(&self, names: &[&str]) -> io::Result<Vec<PathBuf>> {
        let needs = fs::read_to_string(self.modules.join("modules.dep"))?;
        let mut order = Vec::new();
        for name in names {
            self.append(name, &needs, &mut order);
        }
        Ok(order)
    }

    fn append(&self, name: &str, needs: &str, order: &mut Vec<PathBuf>) {
        let file = format!("/{name}.ko");
        let line = needs.lines().find_map(|line| {
            let (path, needed) = line.split_once(':')?;
            path.ends_with(&file).then_some((path, needed))
        });
        let Some((path, needed)) = line else { return };
        let path = self.modules.join(path);
        if order.contains(&path) {
            return;
        }
        for other in needed.split_whitespace() {
            let stem = Path::new(other).file_stem().unwrap_or_default().to_string_lossy();
            self.append(&stem, needs, order);
        }
        order.push(path);
    }
}

/// The package that the meta-package of the newest kernel depends on.
fn kernel_package(flavour: &str) -> Result<String, Setup> {
    let meta = format!("linux-image-{flavour}");
    let text = run(Command::new("apt-cache").args(["depends", &meta]))?;
    let package = text.lines().find_map(|line| {
        let name = line.trim().strip_prefix("Depends: ")?;
        name.starts_with("linux-image-").then(|| name.to_owned())
    });
    package.ok_or_else(|| Setup(format!("apt-cache does not know {meta}")))
}

/// Updates the lists of packages, which needs root.
fn update() -> Result<(), Setup> {
    run(Command::new("apt-get").args(["update", "-qq", "-o", "Acquire::Retries=3"])).map(drop)
}

/// Downloads a package and unpacks it; `complete` is created last. If that fails, the lists of
/// packages are updated: they may be missing, or name a package that has been replaced since.
fn unpack(name: impl Fn() -> Result<String, Setup>, folder: &Path) -> Result<(), Setup> {
    let _ = fs::remove_dir_all(folder);
    let download = folder.join("package");
    fs::create_dir_all(&download)?;
    let fetch = || {
        let package = name()?;
        let options = ["-qq", "-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=3"];
        run(Command::new("apt-get")
            .args(options)
            .args(["download", &package])
            .current_dir(&download))?;
        only(&download, &package)
    };
    let package = fetch().or_else(|_| update().and_then(|()| fetch()))?;
    run(Command::new("dpkg-deb").arg("-x").arg(package).arg(folder))?;
    fs::remove_dir_all(&download)?;
    fs::write(folder.join("complete"), "")?;
    Ok(())
}

fn first(folder: &Path, names: &[&str]) -> Result<PathBuf, Setup> {
    let mut paths = names.iter().map(|name| folder.join(name));
    let found = paths.find(|path| path.exists());
    found.ok_or_else(|| Setup(format!("{}: none of {names:?}", folder.display())))
}

fn only(folder: &Path, prefix: &str) -> Result<PathBuf, Setup> {
    let mut names = fs::read_dir(folder)?.flatten().map(|entry| entry.path());
    let is_it = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix))
    };
    let found = names.find(is_it);
    found.ok_or_else(|| Setup(format!("{}: no {prefix}...", folder.display())))
}
