//! Compiles Lua 5.1 from mlua's sources (`lua-src`), configured by `src/lua/numbers.h` and changed
//! as `src/lua/patches.rs` says. mlua itself would compile them unchanged.
//!
//! `lua-src` takes the C compiler and its flags from the environment only, and does not say where
//! the sources are. So this program starts itself again with these variables set, and the second
//! process does the work. The compiler that it finds there is again this program: it changes the
//! file to be compiled, and starts the real compiler.

use std::path::{Path, PathBuf};
use std::process::{Command, exit};
use std::{env, fs, io};

#[path = "src/lua/patches.rs"]
mod patches;

/// Set for the second process.
const IS_CONFIGURED: &str = "PERDURA_LUA_IS_CONFIGURED";

/// The real compiler; set for the second process and its children.
const COMPILER: &str = "PERDURA_LUA_COMPILER";

const HEADER: &str = "numbers.h";
const SOURCES: [&str; 3] = [HEADER, "work.h", "patches.rs"];

fn main() -> io::Result<()> {
    let manifest = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    let folder = Path::new(&manifest).join("src/lua");
    if env::var_os(IS_CONFIGURED).is_none() {
        return start_again(folder);
    }
    // Cargo starts a build script without arguments, and a compiler always gets some.
    if env::args_os().len() > 1 { compile_file() } else { compile() }
}

fn start_again(folder: PathBuf) -> io::Result<()> {
    println!("cargo:rerun-if-changed=build.rs");
    for name in ["CC", "CFLAGS", "CPATH"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    for name in SOURCES {
        println!("cargo:rerun-if-changed={}", folder.join(name).display());
    }
    let compiler = cc::Build::new().cargo_metadata(false).get_compiler();
    let flags = env::var("CFLAGS").unwrap_or_default();
    // A folder may have a space in its name, which `CFLAGS` cannot express.
    let others = env::var_os("CPATH");
    let others = others.iter().flat_map(env::split_paths).collect::<Vec<PathBuf>>();
    let folders = env::join_paths([folder].into_iter().chain(others)).map_err(io::Error::other)?;
    let own = env::current_exe()?;
    // The variable that has precedence over all others.
    let target = env::var("TARGET").unwrap_or_default();
    let status = Command::new(&own)
        .env(IS_CONFIGURED, "yes")
        .env(COMPILER, compiler.path())
        .env(format!("CC_{target}"), &own)
        .env("CFLAGS", format!("{flags} -include {HEADER}"))
        .env("CPATH", folders)
        .status()?;
    exit(status.code().unwrap_or(1));
}

fn compile() -> io::Result<()> {
    let built = lua_src::Build::new().build(lua_src::Lua51);
    println!("cargo:rustc-link-search=native={}", built.lib_dir().display());
    for library in built.libs() {
        // mlua's crates use it, so it must come last for a linker that searches each library only
        // once.
        println!("cargo:rustc-link-lib=static:+whole-archive={library}");
    }
    Ok(())
}

/// Starts the real compiler with the same arguments, and the changed file in place of the original.
fn compile_file() -> io::Result<()> {
    let mut command = Command::new(env::var_os(COMPILER).unwrap_or_default());
    for argument in env::args_os().skip(1) {
        let path = Path::new(&argument);
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let found = patches::PATCHES.iter().find(|(file, _)| *file == name);
        match (found, path.parent()) {
            (Some((_, changes)), Some(original)) => {
                command.arg(changed(path, name, changes)?).arg("-I").arg(original);
            }
            _ => drop(command.arg(&argument)),
        }
    }
    exit(command.status()?.code().unwrap_or(1));
}

/// Writes a file of Lua with the changes. Returns its path.
fn changed(path: &Path, name: &str, changes: &[(&str, &str)]) -> io::Result<PathBuf> {
    let mut text = fs::read_to_string(path)?;
    for (from, to) in changes {
        if text.matches(from).count() != 1 {
            let problem = format!("{name} has this not once: {from}");
            return Err(io::Error::other(problem));
        }
        text = text.replace(from, to);
    }
    let changed = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join(name);
    fs::write(&changed, text)?;
    Ok(changed)
}
