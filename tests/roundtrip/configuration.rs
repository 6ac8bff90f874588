//! Every directive with odd values: for Perdura and redis-server, and then through CONFIG REWRITE
//! and a start.
//!
//! The directives are taken from CONFIG GET *, and their possible words from the error that lists
//! them, so that a new directive is covered without a line here. Directives of both servers must
//! refuse a value with the same text, or accept it and show it alike. Accepted values are then set
//! at random, written, and read by a new process, whose CONFIG GET * must be the same.
//!
//! The minimum and maximum of a directive are taken from its errors, too: values are at and beyond
//! both, with units in any case. One CONFIG SET sets several directives, one of which may be wrong,
//! duplicate or immutable: all are set, or none. A file with the same values in odd quotes, spaces
//! and cases must mean the same to both servers.

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
    "repl-diskless-load", // has a value of Valkey
    "port",               // connections of the test
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
    "repl-backlog-size",   // allocates there
    "cluster-announce-ip", // not validated there
];
/// How often several directives are set at once.
const TOGETHER: usize = 60;
/// Values of every kind, valid and invalid.
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
    b"KEgn",
    b"nmxK",
    b"?",
    b"1 2 3",
    b"pubsub 30mb 8kb 61",
    b"replica 1001 7 5 pubsub 0 0 0",
    b"pubsub 1 2",
    b"normal 5368709120 3gb 9",
    b"normal 0 17 600 pubsub 1kb 0 0",
    b"nobody 1 1 1",
    b"default now",
    b"save nosave",
];

const UNITS: [(&str, i128); 6] =
    [("b", 1), ("K", 1000), ("kB", 1 << 10), ("m", 1_000_000), ("Mb", 1 << 20), ("GB", 1 << 30)];

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
    /// Starts a program with a file that contains its port; `password` is that of the default user.
    pub(crate) fn start(
        program: &Path,
        file: &Path,
        port: u16,
        password: &[u8],
    ) -> Result<WithFile, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", program.display());
        let said_to = file.with_extension("said");
        let said = fs::File::create(&said_to).map_err(failed)?;
        let mut command = Command::new(program);
        command.arg(file).stdin(Stdio::null());
        command.stdout(said.try_clone().map_err(failed)?).stderr(said);
        let mut child = command.spawn().map_err(failed)?;
        let (began, address) = (Instant::now(), ([127, 0, 0, 1], port).into());
        while began.elapsed() < Duration::from_secs(60) {
            if let Ok(Some(status)) = child.try_wait() {
                let said = fs::read(&said_to).unwrap_or_default();
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

/// Returns the words that an error lists as a directive's values.
fn words_of(reply: &Reply) -> Vec<Vec<u8>> {
    let text = reply.text();
    let Some((_, words)) = text.split_once("must be one of the following: ") else {
        return Vec::new();
    };
    words.split(", ").map(|word| word.to_ascii_uppercase().into_bytes()).collect()
}

/// Returns numbers at and beyond the limits in an error, in several spellings.
fn edges(reply: &Reply) -> Vec<Vec<u8>> {
    let text = reply.text();
    let Some((_, limits)) = text.split_once("must be between ") else { return Vec::new() };
    let words: Vec<&str> = limits.split(' ').collect();
    let limits =
        [words.first(), words.get(2)].map(|word| word.and_then(|w| w.parse::<i128>().ok()));
    let mut edges = Vec::new();
    for limit in limits.into_iter().flatten() {
        for number in [limit - 1, limit, limit + 1] {
            edges.push(number.to_string().into_bytes());
        }
        for (unit, size) in UNITS {
            let number = limit / size;
            edges.extend([number, number + 1].map(|n| format!("{n}{unit}").into_bytes()));
        }
    }
    edges
}

/// Returns true if the two servers are known to differ about a value: this server refuses an empty
/// number of bytes and a blank at the end of save points, shows `hz` as it was set, and neither
/// uses process titles nor treats a backslash as a separator of directories.
fn is_apart(name: &str, value: &[u8]) -> bool {
    value.is_empty()
        || match name {
            "save" => value.ends_with(b" "),
            "dbfilename" => value.contains(&b'\\'),
            "hz" | "proc-title-template" => true,
            _ => false,
        }
}

/// Sets odd values here and, if it knows the directive, there. Returns the accepted ones.
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
        let mut at = 0;
        while let Some(odd) = values.get(at).cloned() {
            at += 1;
            let reply = set(ours, &name, &odd);
            if reply.is_ok() {
                accepted.entry(name.clone()).or_default().push(odd.clone());
            }
            for edge in edges(&reply) {
                if !values.contains(&edge) {
                    values.push(edge);
                }
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

/// Returns the directives that both know.
fn of_both(theirs: &mut Client, accepted: &Accepted) -> Vec<String> {
    let there = get(theirs, "*");
    let is_known = |name: &&String| there.contains_key(name.as_bytes());
    accepted.keys().filter(is_known).cloned().collect()
}

/// Writes a directive's name in another case.
fn respelled(name: &str, random: &mut Rng) -> String {
    name.chars().map(|c| if random.bool() { c.to_ascii_uppercase() } else { c }).collect()
}

/// Sets several directives at once: all are set or none, and the error is that of the wrong one.
fn set_together(
    ours: &mut Client,
    theirs: &mut Client,
    accepted: &Accepted,
    random: &mut Rng,
) -> Result<(), String> {
    let names = of_both(theirs, accepted);
    for _ in 0..TOGETHER {
        let mut request = vec![b"CONFIG".to_vec(), b"SET".to_vec()];
        let mut chosen = Vec::new();
        for _ in 0..random.usize(2..6) {
            let name = &names[random.usize(..names.len())];
            if chosen.contains(name) && random.bool() {
                continue;
            }
            let values = &accepted[name];
            let value = match random.u8(..5) {
                0 => ODD[random.usize(..ODD.len())].to_vec(),
                _ => values[random.usize(..values.len())].clone(),
            };
            if is_apart(name, &value) {
                continue;
            }
            chosen.push(name.clone());
            request.extend([respelled(name, random).into_bytes(), value]);
        }
        match random.u8(..12) {
            3 if !chosen.is_empty() => {
                let again = chosen[random.usize(..chosen.len())].clone();
                request.extend([again.clone().into_bytes(), accepted[&again][0].clone()]);
            }
            0 => request.extend([b"no-such-directive".to_vec(), b"1".to_vec()]),
            1 => request.extend([b"databases".to_vec(), b"3".to_vec()]),
            2 => request.push(b"odd".to_vec()),
            _ => {}
        }
        let before = get(ours, "*");
        let (here, there) = (ours.call(&request), theirs.call(&request));
        let what = request.join(&b' ').escape_ascii().to_string();
        if here != there {
            return Err(format!("{what}: here {here}, there {there}"));
        }
        if !here.is_ok() {
            difference(&format!("{what}, which was refused"), &before, &get(ours, "*"))?;
        }
        for name in &chosen {
            let shown =
                [get(ours, name), get(theirs, name)].map(|values| values.into_values().next());
            if shown[0] != shown[1] {
                let [here, there] = shown.map(|value| text(&value.unwrap_or_default()));
                return Err(format!("{name} after {what}: here \"{here}\", there \"{there}\""));
            }
        }
    }
    Ok(())
}

/// Writes a value as a file may contain it: in quotes of either kind, with escapes, or bare.
fn spelled(value: &[u8], random: &mut Rng) -> Vec<u8> {
    let is_plain = !value.is_empty()
        && value.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(byte));
    match random.u8(..4) {
        0 if is_plain => value.to_vec(),
        1 if value.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'\\') => {
            let escaped = String::from_utf8_lossy(value).replace('\'', "\\'");
            format!("'{escaped}'").into_bytes()
        }
        _ => {
            let byte = |byte: &u8| match byte {
                b'\n' => "\\n".to_owned(),
                b'\t' => "\\t".to_owned(),
                b'"' | b'\\' => format!("\\{}", char::from(*byte)),
                0x20..0x7f if random.u8(..4) > 0 => char::from(*byte).to_string(),
                other => format!("\\x{other:02x}"),
            };
            format!("\"{}\"", value.iter().map(byte).collect::<String>()).into_bytes()
        }
    }
}

/// Starts both servers with one file in odd spellings, and compares their values.
fn read_alike(
    folder: &TempDir,
    accepted: &Accepted,
    names: &[String],
    random: &mut Rng,
) -> Result<(), String> {
    let mut lines = Vec::new();
    for name in names {
        let value = &accepted[name][random.usize(..accepted[name].len())];
        // Several words become several lines or words there, which `set_together` handles.
        if is_apart(name, value) || value.contains(&b' ') || random.bool() {
            continue;
        }
        let pad = |random: &mut Rng| [" ", "\t", "  \t "][random.usize(..3)].as_bytes().to_vec();
        let name = respelled(name, random).into_bytes();
        let end: &[u8] = [b"\n".as_slice(), b"\r\n", b" \t\n"][random.usize(..3)];
        lines.extend([pad(random), name, pad(random), spelled(value, random), end.to_vec()]);
    }
    let mut shown = Vec::new();
    for (program, more) in [
        (testkit::perdura_server(), "backend aof\nother-stores ignore\n"),
        (Path::new("redis-server"), ""),
    ] {
        let port = free_port();
        let file = first_file(folder, "alike", port, more);
        let mut bytes = fs::read(&file).map_err(|error| error.to_string())?;
        bytes.extend(lines.concat());
        fs::write(&file, bytes).map_err(|error| error.to_string())?;
        let mut server = WithFile::start(program, &file, port, b"")
            .map_err(|why| format!("{why}: {}", text(&lines.concat())))?;
        let all = get(&mut server.client, "*");
        shown.push(
            all.into_iter().filter(|(name, _)| names.contains(&text(name))).collect::<Values>(),
        );
    }
    difference("a file in odd spellings", &shown[1], &shown[0])
}

/// Sets about three of four directives, each to one of its accepted values.
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

/// Rewrites the configuration, and starts again with it.
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
    let signature =
        once.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"# Generated"));
    if signature.count() > 1 {
        return Err("CONFIG REWRITE: the file is signed twice".into());
    }
    // After the second rewrite each class of clients has a line of its own.
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
    set_together(&mut ours.client, &mut theirs.client, &accepted, &mut random)?;
    let names = of_both(&mut theirs.client, &accepted);
    let alike = Medium::Disk.scratch();
    read_alike(&alike, &accepted, &names, &mut random)?;
    for _ in 0..4 {
        ours = rewrite(ours, &mut random, &accepted)?;
    }
    // A file written by redis-server is read here. It writes numbers above 63 bits as negative
    // ones.
    let mut readable = accepted.clone();
    readable.remove("maxmemory");
    set_some(&mut theirs.client, &readable, &mut random);
    let before = get(&mut theirs.client, "*");
    theirs.client.check("CONFIG REWRITE", "OK");
    // Only one server at a time may use the folder.
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
