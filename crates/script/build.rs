//! Compiles Lua 5.1 from the sources that mlua brings (`lua-src`), configured by
//! `src/lua/numbers.h`; mlua would compile them as they are.
//!
//! `lua-src` takes flags for the C compiler from the environment only. Therefore this program
//! starts itself again with these set, and the second process does the work.

use std::path::{Path, PathBuf};
use std::process::{Command, exit};
use std::{env, io};

/// Set for the second process.
const IS_CONFIGURED: &str = "PERDURA_LUA_IS_CONFIGURED";

const HEADER: &str = "numbers.h";

fn main() -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lua");
    if env::var_os(IS_CONFIGURED).is_some() {
        compile();
        return Ok(());
    }
    println!("cargo:rerun-if-changed=build.rs");
    for name in ["CC", "CFLAGS", "CPATH"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    println!("cargo:rerun-if-changed={}", folder.join(HEADER).display());
    let flags = env::var("CFLAGS").unwrap_or_default();
    // A folder may have a space in its name, which `CFLAGS` cannot express.
    let others = env::var_os("CPATH");
    let others = others.iter().flat_map(env::split_paths).collect::<Vec<PathBuf>>();
    let folders = env::join_paths([folder].into_iter().chain(others)).map_err(io::Error::other)?;
    let status = Command::new(env::current_exe()?)
        .env(IS_CONFIGURED, "yes")
        .env("CFLAGS", format!("{flags} -include {HEADER}"))
        .env("CPATH", folders)
        .status()?;
    exit(status.code().unwrap_or(1));
}

fn compile() {
    let built = lua_src::Build::new().build(lua_src::Lua51);
    println!("cargo:rustc-link-search=native={}", built.lib_dir().display());
    for library in built.libs() {
        // mlua's crates use it, and a linker that looks at libraries once looks at them last.
        println!("cargo:rustc-link-lib=static:+whole-archive={library}");
    }
}
