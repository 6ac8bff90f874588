//! Every directive with odd values: to Perdura and to redis-server, and then through CONFIG REWRITE
//! and a start.
//!
//! Which directives there are is asked (CONFIG GET *), and which words one takes is read from the
//! error that lists them, so that a new directive is part of this without a line here. What both
//! know is refused by both in the same words, or accepted and shown alike. What was accepted is
//! then set at random, written, and read by a new process, whose CONFIG GET * is the same.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use tempfile::TempDir;
use testkit::{Client, Medium, Reply, free_port};

use crate::users;

/// Directives that are not set here.
const LEFT_OUT: &[&str] = &[
    "port", // connections of the test
    "bind",
    "tls-port",
    "maxclients",        // depends on the limit of open files
    "maxmemory-clients", // ends connections of the test
    "timeout",
    "requirepass",   // has a test of users
    "dir",           // where the file of the test is
    "appendonly",    // files
    "activedefrag",  // not in each build of redis-server
    "oom-score-adj", // of the process
    "oom-score-adj-values",
    "replicaof", // refused here
    "slaveof",
    "cluster-enabled",
    "pool-size",
    "repl-backlog-size",         // allocates there
    "cluster-announce-hostname", // validated there, without a cluster here
];
/// Values of every kind, right and wrong.
const ODD: &[&[u8]] = &[
    b"",
    b" ",
    b"yes",
    b"NO",
    b"no",
    b"0",
    b"1",
    b"-1",
    b"-0",
    b"007",
    b"+5",
    b"1.5",
    b"5 ",
    b"100",
    b"101",
    b"1k",
    b"3kb",
    b"2Mb",
    b"1gb",
    b"1g",
    b"1t",
    b"1b",
    b"-1mb",
    b"50%",
    b"101%",
    b"-1%",
    b"2147483647",
    b"2147483648",
    b"-2147483648",
    b"4294967295",
    b"4294967296",
    b"9223372036854775807",
    b"9223372036854775808",
    b"18446744073709551615",
    b"-9223372036854775808",
    b"two words",
    b"\"quoted\"",
    b"it's",
    b"back\\slash",
    b"#hash",
    b"tab\there",
    b"line\nend",
    b"\xff\x01\x7f",
    b"{title} {port}",
    b"a/b",
    b"3600 1 60 10",
    b"3600",
    b"60 -1",
    b"50 99.9",
    b"100.1",
    b"KEA",
    b"Kg$",
    b"?",
    b"1 2 3",
    b"pubsub 30mb 8kb 61",
    b"replica 1001 7 5 pubsub 0 0 0",
    b"pubsub 1 2",
    b"nobody 1 1 1",
    b"default now",
    b"save nosave",
];

type Values = BTreeMap<Vec<u8>, Vec<u8>>;
type Accepted = BTreeMap<String, Vec<Vec<u8>>>;

/// A server that was started with a file; ended when dropped.
pub(crate) struct WithFile {
    child: Child,
    pub(crate) client: Client,
    pub(crate) file: PathBuf,
    port: u16,
}

impl Drop for WithFile {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl WithFile {
    /// Starts a program with a file that says its port; `password` is that of the default user.
    pub(crate) fn start(
        program: &Path,
        file: &Path,
        port: u16,
        password: &[u8],
    ) -> Result<WithFile, String> {
        let mut command = Command::new(program);
        command.arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child =
            command.spawn().map_err(|error| format!("{}: {error}", program.display()))?;
        let (began, address) = (Instant::now(), ([127, 0, 0, 1], port).into());
        while began.elapsed() < Duration::from_secs(60) {
            if let Ok(Some(status)) = child.try_wait() {
                let said = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output();
                let said = said.map(|said| [said.stdout, said.stderr].concat()).unwrap_or_default();
                let last: Vec<&[u8]> =
                    said.trim_ascii().rsplit(|byte| *byte == b'\n').take(4).collect();
                return Err(format!(
                    "a server does not start with the file that was written: {status}: {}",
                    String::from_utf8_lossy(&last.join(&b' '))
                ));
            }
            if let Ok(mut client) = Client::connect(address) {
                let is_open =
                    password.is_empty() || client.call(&[b"AUTH".as_slice(), password]).is_ok();
                if is_open && client.run("PING").text() == "PONG" {
                    return Ok(WithFile { child, client, file: file.into(), port });
                }
            }
            thread::sleep(Duration::from_millis(2));
        }
        let _ = child.kill();
        let _ = child.wait();
        Err("a server with a file does not answer".into())
    }

    /// Kills it and starts a program with its file.
    pub(crate) fn again(self, program: &Path, password: &[u8]) -> Result<WithFile, String> {
        let (file, port) = (self.file.clone(), self.port);
        drop(self);
        WithFile::start(program, &file, port, password)
    }
}

pub(crate) fn first_file(folder: &TempDir, name: &str, port: u16, more: &str) -> PathBuf {
    let file = folder.path().join(format!("{name}.conf"));
    let text = format!(
        "# The first line.\nport {port}\nbind 127.0.0.1\ndir {}\nappendonly no\nsave \"\"\n\
         # In the middle.\nenable-protected-configs yes\n\
         syslog-ident \"an \\\"odd\\\" one\\x01\\xff\"\nproc-title-template \"{{title}} 'x'\"\n{more}",
        folder.path().display()
    );
    fs::write(&file, text).expect("a file can be written");
    file
}

fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

fn get(client: &mut Client, name: &str) -> Values {
    let reply = client.run(&format!("CONFIG GET {name}"));
    let pairs = reply.items().chunks_exact(2);
    let bytes = |reply: &Reply| reply.bytes().unwrap_or_default().to_vec();
    pairs.map(|pair| (bytes(&pair[0]), bytes(&pair[1]))).collect()
}

fn set(client: &mut Client, name: &str, value: &[u8]) -> Reply {
    client.call(&[b"CONFIG".as_slice(), b"SET", name.as_bytes(), value])
}

/// Returns the words that an error says a directive takes.
fn words_of(reply: &Reply) -> Vec<Vec<u8>> {
    let text = reply.text();
    let Some((_, words)) = text.split_once("must be one of the following: ") else {
        return Vec::new();
    };
    words.split(", ").map(|word| word.to_ascii_uppercase().into_bytes()).collect()
}

/// Returns true if the two are known to differ about a value: this server takes no empty number of
/// bytes and no blank at the end of save points, shows `hz` as it was set, and neither uses process
/// titles nor takes a backslash for a separator of directories.
fn is_apart(name: &str, value: &[u8]) -> bool {
    value.is_empty()
        || match name {
            "save" => value.ends_with(b" "),
            "dbfilename" => value.contains(&b'\\'),
            "hz" | "proc-title-template" => true,
            _ => false,
        }
}

/// Sets odd values here and, where it knows the directive, there; what was accepted.
fn compare(ours: &mut Client, theirs: &mut Client) -> Result<Accepted, Vec<String>> {
    let (mut accepted, mut different) = (Accepted::new(), Vec::new());
    let there = get(theirs, "*");
    for (name, value) in get(ours, "*") {
        let known = there.get(&name);
        let name = text(&name);
        if LEFT_OUT.contains(&name.as_str()) || name.starts_with("tls-") {
            continue;
        }
        let mut values: Vec<Vec<u8>> = ODD.iter().map(|value| value.to_vec()).collect();
        values.extend(words_of(&set(ours, &name, b"no such word")));
        for odd in values {
            let reply = set(ours, &name, &odd);
            if reply.is_ok() {
                accepted.entry(name.clone()).or_default().push(odd.clone());
            }
            if known.is_none() || is_apart(&name, &odd) {
                continue;
            }
            let other = set(theirs, &name, &odd);
            let shown =
                [get(ours, &name), get(theirs, &name)].map(|values| values.into_values().next());
            if reply != other {
                different.push(format!(
                    "CONFIG SET {name} \"{}\": here {reply}, there {other}",
                    text(&odd)
                ));
            } else if reply.is_ok() && shown[0] != shown[1] {
                let [here, there] = shown.map(|value| text(&value.unwrap_or_default()));
                different.push(format!(
                    "CONFIG GET {name} after \"{}\": here \"{here}\", there \"{there}\"",
                    text(&odd)
                ));
            }
        }
        set(ours, &name, &value);
        if let Some(value) = known {
            set(theirs, &name, value);
        }
    }
    if different.is_empty() { Ok(accepted) } else { Err(different) }
}

/// Sets some of what is accepted; at least one in two directives.
fn set_some(client: &mut Client, accepted: &Accepted, random: &mut Rng) {
    for (name, values) in accepted {
        if random.u8(..4) > 0 {
            set(client, name, &values[random.usize(..values.len())]);
        }
    }
}

fn difference(what: &str, before: &Values, after: &Values) -> Result<(), String> {
    for (name, value) in before {
        let found = after.get(name).ok_or_else(|| format!("{what}: {} is gone", text(name)))?;
        if found != value {
            let [name, value, found] = [name, value, found].map(|bytes| text(bytes));
            return Err(format!("{what}: {name} \"{value}\" came as \"{found}\""));
        }
    }
    Ok(())
}

/// Writes what is set, and starts again with it.
fn rewrite(
    mut server: WithFile,
    random: &mut Rng,
    accepted: &Accepted,
) -> Result<WithFile, String> {
    set_some(&mut server.client, accepted, random);
    let before = get(&mut server.client, "*");
    server.client.check("CONFIG REWRITE", "OK");
    let read = |file: &Path| fs::read(file).map_err(|error| error.to_string());
    let once = read(&server.file)?;
    for comment in ["# The first line.\n", "# In the middle.\n"] {
        if !once.windows(comment.len()).any(|part| part == comment.as_bytes()) {
            return Err(format!("CONFIG REWRITE: the comment {comment:?} is gone"));
        }
    }
    // The second time each class of clients has a line of its own.
    server.client.check("CONFIG REWRITE", "OK");
    let twice = read(&server.file)?;
    server.client.check("CONFIG REWRITE", "OK");
    if read(&server.file)? != twice {
        return Err("CONFIG REWRITE once more: the file is another one".into());
    }
    let mut server = server.again(testkit::perdura_server(), b"")?;
    difference("CONFIG REWRITE and a start", &before, &get(&mut server.client, "*"))?;
    Ok(server)
}

/// One round.
pub(crate) fn round(seed: u64) -> Result<(), String> {
    let mut random = Rng::with_seed(seed);
    let folder = Medium::Disk.scratch();
    let ports = [free_port(), free_port()];
    let file = first_file(&folder, "ours", ports[0], "backend aof\nother-stores ignore\n");
    let mut ours = WithFile::start(testkit::perdura_server(), &file, ports[0], b"")?;
    let file = first_file(&folder, "theirs", ports[1], "");
    let mut theirs = WithFile::start(Path::new("redis-server"), &file, ports[1], b"")?;
    let accepted = compare(&mut ours.client, &mut theirs.client).map_err(|all| {
        all.iter().skip(1).for_each(|one| println!("  also: {one}"));
        format!("{} (and {} more)", all[0], all.len() - 1)
    })?;
    for _ in 0..4 {
        ours = rewrite(ours, &mut random, &accepted)?;
    }
    // What redis-server writes is read here.
    set_some(&mut theirs.client, &accepted, &mut random);
    let before = get(&mut theirs.client, "*");
    theirs.client.check("CONFIG REWRITE", "OK");
    // One server at a time has the folder.
    drop(ours);
    let mut here = theirs.again(testkit::perdura_server(), b"")?;
    let after = get(&mut here.client, "*");
    let both: Values = before
        .into_iter()
        .filter(|(name, _)| after.contains_key(name) && !LEFT_OUT.contains(&text(name).as_str()))
        .collect();
    difference("a file that redis-server wrote", &both, &after)?;
    drop(here);
    users::round(&mut random)
}
