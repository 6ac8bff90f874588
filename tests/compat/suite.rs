//! The suite itself: Debian's source package of the installed `redis-server`, unpacked below the
//! target directory.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::Launch;

use crate::case::Case;
use crate::unit;

/// Why nothing can be run.
#[derive(Debug)]
pub(crate) struct Setup(pub(crate) String);

impl From<io::Error> for Setup {
    fn from(error: io::Error) -> Setup {
        Setup(error.to_string())
    }
}

/// Lines of the suite at which one missing command would end a whole unit, and their replacements.
const LENIENT: [(&str, &str); 3] = [
    ("    r function flush\n", "    catch {r function flush}\n"),
    (
        "        dict set saved_config $param [lindex [r config get $param] 1]\n",
        "        if {[catch {dict set saved_config $param [lindex [r config get $param] 1]}]} continue\n",
    ),
    ("        r config set $param $val\n", "        catch {r config set $param $val}\n"),
];

/// Lines of a unit whose rest would be lost without the script debugger, which does not exist.
const DEBUGGER: (&str, &str) = (
    "    r script debug sync\n    r eval {return 'hello'} 0\n    r eval",
    "    catch {r script debug sync}\n    r eval {return 'hello'} 0\n    r eval",
);

/// Marks the folder as complete; the name changes with the contents.
const COMPLETE: &str = "complete-7";

/// The program that the suite starts as redis-server: that one, or the server that `COMPAT_SERVER`
/// names. Its data is in memory, as Redis's is, with a log if `appendonly yes` says so. Of a mixed
/// run `COMPAT_REDIS_AT` says on which ports redis-server is: the even ones (0) or the odd ones.
const STARTED: &str = "#!/bin/sh
[ -n \"$COMPAT_SERVER\" ] || exec /usr/bin/redis-server \"$@\"
if [ -n \"$COMPAT_REDIS_AT\" ] && [ -f \"$1\" ]; then
    port=$(awk '$1 == \"port\" { print $2 }' \"$1\")
    [ $((port % 2)) != \"$COMPAT_REDIS_AT\" ] || exec /usr/bin/redis-server \"$@\"
fi
own='--backend aof --other-stores ignore --busy-reply-all yes'
case $1 in
    -* | '') exec \"$COMPAT_SERVER\" $own --appendonly no \"$@\" ;;
esac
grep -q -i '^ *appendonly' \"$1\" || own=\"$own --appendonly no\"
case $2 in
    -* | '') file=$1 && shift && exec \"$COMPAT_SERVER\" \"$file\" $own \"$@\" ;;
    *) exec \"$COMPAT_SERVER\" \"$@\" $own ;;
esac
";

/// The unpacked suite.
pub(crate) struct Suite {
    folder: PathBuf,
}

impl Suite {
    /// Downloads and unpacks it, once.
    pub(crate) fn obtain() -> Result<Suite, Setup> {
        let home = target().join("compat");
        let folder = home.join("suite");
        if !folder.join(COMPLETE).exists() {
            println!("fetching the source package of redis");
            let _ = fs::remove_dir_all(&home);
            fs::create_dir_all(&home)?;
            let found = unpack(&home)?;
            fs::rename(found, &folder)?;
            lend_programs(&folder)?;
            make_lenient(&folder.join("tests/support/server.tcl"))?;
            replace(&folder.join("tests/unit/scripting.tcl"), &[DEBUGGER])?;
            fs::write(folder.join(COMPLETE), "")?;
        }
        run(Command::new("tclsh").args(["/dev/null"]))?;
        Ok(Suite { folder })
    }

    /// Returns a copy for one system, since units that start servers keep files in the suite's
    /// folder: two such runs at a time would remove each other's.
    pub(crate) fn copy_for(&self, system: &str) -> Result<Suite, Setup> {
        let folder = self.folder.with_file_name(format!("suite-{system}"));
        if !folder.join(COMPLETE).exists() {
            let _ = fs::remove_dir_all(&folder);
            run(Command::new("cp").arg("-a").arg(&self.folder).arg(&folder))?;
        }
        Ok(Suite { folder })
    }

    /// The folder of the suite.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes the certificates of the cases about TLS, once, with the suite's own program.
    pub(crate) fn make_certificates(&self) -> Result<(), Setup> {
        if self.folder.join("tests/tls/redis.dh").exists() {
            return Ok(());
        }
        run(Command::new("utils/gen-test-certs.sh").current_dir(&self.folder))
    }

    /// The folder for logs and results.
    pub(crate) fn results(&self) -> PathBuf {
        self.folder.with_file_name("results")
    }

    /// Runs a unit against a fresh server, without the cases `left_out`.
    pub(crate) fn run(
        &self,
        unit: &str,
        system: &str,
        launch: Launch,
        left_out: &BTreeSet<String>,
    ) -> Result<Vec<Case>, Setup> {
        unit::run(self, unit, system, launch, left_out)
    }

    /// Runs a unit that starts servers of its own: redis-server, Perdura's, or both (`MIXED`).
    pub(crate) fn run_starter(
        &self,
        unit: &str,
        system: &str,
        left_out: &BTreeSet<String>,
    ) -> Result<Vec<Case>, Setup> {
        unit::run_starter(self, unit, system, left_out)
    }
}

/// The target directory that this test was built into.
fn target() -> PathBuf {
    let test = env::current_exe().expect("a test knows its own executable");
    let profile = test.ancestors().find(|folder| folder.join("deps").is_dir());
    let profile = profile.expect("a test is in a target directory");
    profile.parent().expect("a profile's folder is in the target directory").to_owned()
}

/// Unpacks the source package from the archives that apt uses for programs. Needs no root.
fn unpack(home: &Path) -> Result<PathBuf, Setup> {
    let (sources, lists) = (home.join("sources"), home.join("lists"));
    fs::create_dir_all(&sources)?;
    fs::create_dir_all(lists.join("partial"))?;
    let mut places = vec![PathBuf::from("/etc/apt/sources.list")];
    if let Ok(entries) = fs::read_dir("/etc/apt/sources.list.d") {
        places.extend(entries.flatten().map(|entry| entry.path()));
    }
    for place in places {
        let Ok(text) = fs::read_to_string(&place) else { continue };
        let name = place.file_name().unwrap_or_default();
        fs::write(sources.join(name), for_sources(&text))?;
    }
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args([
            "-qq",
            "-o",
            "Dir::Etc::sourcelist=/dev/null",
            "-o",
            "APT::Sandbox::User=root",
        ]);
        command.arg("-o").arg(format!("Dir::Etc::sourceparts={}", sources.display()));
        command.arg("-o").arg(format!("Dir::State::Lists={}", lists.display()));
        run(command.args(arguments).current_dir(home))
    };
    apt(&["update"])?;
    apt(&["source", "redis"])?;
    let mut entries = fs::read_dir(home)?.flatten().map(|entry| entry.path());
    let found = entries.find(|path| path.join("tests/test_helper.tcl").exists());
    found.ok_or_else(|| Setup("the source package of redis has no tests".into()))
}

/// Converts a list of archives to their sources.
fn for_sources(text: &str) -> String {
    let line = |line: &str| match line.strip_prefix("deb ") {
        Some(rest) => format!("deb-src {rest}\n"),
        None if line.starts_with("Types:") => "Types: deb-src\n".to_owned(),
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

/// Provides Redis's programs in the places where a build would have put them; some cases start them
/// there.
fn lend_programs(folder: &Path) -> Result<(), Setup> {
    for name in ["redis-cli", "redis-benchmark", "redis-check-rdb", "redis-check-aof"] {
        let installed = Path::new("/usr/bin").join(name);
        std::os::unix::fs::symlink(installed, folder.join("src").join(name))?;
    }
    let server = folder.join("src/redis-server");
    fs::write(&server, STARTED)?;
    fs::set_permissions(&server, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

fn make_lenient(path: &Path) -> Result<(), Setup> {
    let mut text = fs::read_to_string(path)?;
    let begin = text.find("proc run_external_server_test");
    let begin = begin.ok_or_else(|| Setup("the suite has another form than that of 7.0".into()))?;
    let body = text.split_off(begin);
    fs::write(path, text + &replaced(body, &LENIENT)?)?;
    Ok(())
}

/// Replaces lines of a file of the suite.
fn replace(path: &Path, lines: &[(&str, &str)]) -> Result<(), Setup> {
    let text = fs::read_to_string(path)?;
    fs::write(path, replaced(text, lines)?)?;
    Ok(())
}

fn replaced(mut text: String, lines: &[(&str, &str)]) -> Result<String, Setup> {
    for (strict, lenient) in lines {
        if !text.contains(strict) {
            return Err(Setup(format!("the suite has no line {strict:?}")));
        }
        text = text.replacen(strict, lenient, 1);
    }
    Ok(text)
}

/// Runs a program to its end, or returns its error message.
fn run(command: &mut Command) -> Result<(), Setup> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| Setup(format!("{name}: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    Err(Setup(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr))))
}
