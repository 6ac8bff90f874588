//! A program in C is compiled, run, and killed while it writes.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How the program is linked.
#[derive(Clone, Copy)]
enum Linked {
    Shared,
    Static,
}

/// Returns the folder in which Cargo put the libraries, and this test.
fn libraries() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own executable");
    test.parent().expect("a folder").to_owned()
}

/// Compiles the program as strictly as the compiler can.
fn compile(folder: &Path, linked: Linked) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = folder.join("program");
    let mut cc = Command::new("cc");
    cc.args(["-std=c99", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-Werror", "-pedantic"]);
    cc.arg("-I").arg(root.join("include")).arg(root.join("tests/c/program.c"));
    match linked {
        Linked::Shared => {
            cc.arg("-L").arg(libraries()).arg("-lperdura_capi");
            cc.arg(format!("-Wl,-rpath,{}", libraries().display()));
        }
        Linked::Static => {
            cc.arg(libraries().join("libperdura_capi.a")).args(["-lpthread", "-ldl", "-lm"]);
        }
    }
    let output = cc.arg("-o").arg(&program).output().expect("a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

#[track_caller]
fn run(program: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().expect("the program runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {}\n{text}{errors}", output.status);
    text
}

fn check_calls(linked: Linked) {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(folder.path(), linked);
    let pool = folder.path().join("pool");
    let pool = pool.to_str().expect("UTF-8");
    assert_eq!(run(&program, &["calls", pool]), "every call did what it says\n");
}

#[test]
fn a_program_in_c_uses_every_function_of_the_shared_library() {
    check_calls(Linked::Shared);
}

#[test]
fn and_of_the_static_one() {
    check_calls(Linked::Static);
}

/// Checks that the program calls everything that the header declares.
#[test]
fn the_program_leaves_no_function_out() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(root.join(path)).expect("a file");
    let (header, program) = (read("include/perdura.h"), read("tests/c/program.c"));
    // A function is declared with its first argument, or none, in the same line.
    let names = header.lines().filter(|line| !line.starts_with([' ', '/'])).filter_map(|line| {
        let at = line.find("perdura_")?;
        line[at..].split_once('(').map(|(name, _)| name)
    });
    let names: Vec<&str> = names.collect();
    assert!(names.len() > 20, "{names:?}");
    let idle: Vec<_> = names.iter().filter(|name| !program.contains(&format!("{name}("))).collect();
    assert!(idle.is_empty(), "{idle:?}");
}

#[test]
fn what_a_call_acknowledged_survives_kill_9() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(folder.path(), Linked::Shared);
    let pool = folder.path().join("pool");
    let pool = pool.to_str().expect("UTF-8");
    let mut writer = Command::new(&program);
    let mut writer =
        writer.args(["write", pool]).stdout(Stdio::piped()).spawn().expect("the program runs");
    let output = BufReader::new(writer.stdout.take().expect("its output"));
    let mut acknowledged = 0;
    // Everything that it wrote is read, including what was in the pipe when it was killed.
    for line in output.lines() {
        acknowledged = line.expect("a line").parse::<i64>().expect("a number");
        if acknowledged == 3000 {
            writer.kill().expect("a running program"); // SIGKILL
        }
    }
    let ended = writer.wait().expect("its status");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended), Some(9));
    assert!(acknowledged >= 3000);
    let said = run(&program, &["check", pool, &acknowledged.to_string()]);
    assert_eq!(said, "no transfer is lost, and none is half\n");
}
