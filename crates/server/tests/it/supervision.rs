//! Reports to systemd and to probes while the server starts, serves and ends; its log as JSON.

use std::fs;
use std::io::Write;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use testkit::{Client, Launch, Medium, free_port, perdura_server};

use crate::metrics::get;

/// Ends the process when a test does.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A supervisor's socket, and the messages so far.
struct Supervisor {
    socket: UnixDatagram,
    received: Vec<String>,
}

impl Supervisor {
    fn new(path: &Path) -> Supervisor {
        let socket = UnixDatagram::bind(path).expect("a socket");
        socket.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
        Supervisor { socket, received: Vec::new() }
    }

    /// Waits for a message with this line.
    #[track_caller]
    fn expect(&mut self, line: &str) {
        loop {
            let mut buffer = [0; 1024];
            let length = self.socket.recv(&mut buffer).unwrap_or_else(|error| {
                panic!("no {line}: {error}, but {:?}", self.received);
            });
            let message = String::from_utf8_lossy(&buffer[..length]).into_owned();
            let has_come = message.lines().any(|of_it| of_it == line);
            self.received.push(message);
            if has_come {
                return;
            }
        }
    }

    fn has(&self, line: &str) -> bool {
        self.received.iter().any(|message| message.lines().any(|of_it| of_it == line))
    }
}

fn start(folder: &Path, port: u16, arguments: &[&str]) -> Running {
    let mut command = Command::new(perdura_server());
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--dir"]).arg(folder);
    command.args(["--backend", "aof", "--appendonly", "no", "--save", ""]).args(arguments);
    command.env("NOTIFY_SOCKET", folder.join("notify")).env("WATCHDOG_USEC", "200000");
    command.stdin(Stdio::null()).stdout(Stdio::null());
    Running(command.spawn().expect("the server starts"))
}

/// The dump is a pipe, so that its loading takes until the test writes into it.
#[test]
fn the_start_is_reported_when_data_is_loaded_and_the_end_too() {
    let dump = {
        let server = Launch::perdura_volatile().start();
        let mut client = server.client();
        client.check("SET k v", "OK");
        client.check("SAVE", "OK");
        fs::read(server.folder().join("dump.rdb")).expect("a dump")
    };
    let folder = Medium::Disk.scratch();
    let pipe = folder.path().join("dump.rdb");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
    let mut supervisor = Supervisor::new(&folder.path().join("notify"));
    let (port, metrics) = (free_port(), free_port());
    let more = ["--supervised", "systemd", "--metrics-port", &metrics.to_string()];
    let mut server = start(folder.path(), port, &more);
    supervisor.expect("STATUS=Opening the store");
    // The pipe can be opened for writing once the server has opened it for reading.
    let mut writer = fs::File::options().write(true).open(&pipe).expect("the server loads");
    let is_there = |path| {
        (0..500).find_map(|_| {
            std::thread::sleep(Duration::from_millis(10));
            std::net::TcpStream::connect(("127.0.0.1", metrics)).ok().map(|_| get(metrics, path))
        })
    };
    let ready = is_there("/readyz").expect("an endpoint");
    assert_eq!((ready.status, &ready.body[..12]), (503, "loading data"), "{}", ready.body);
    assert_eq!(get(metrics, "/healthz").status, 200);
    assert!(get(metrics, "/metrics").body.contains("\nperdura_loading 1\n"));
    assert!(!supervisor.has("READY=1"), "{:?}", supervisor.received);
    writer.write_all(&dump).expect("written");
    drop(writer);
    supervisor.expect("READY=1");
    supervisor.expect("WATCHDOG=1");
    supervisor.expect("WATCHDOG=1");
    assert_eq!(get(metrics, "/readyz").status, 200);
    let mut client = Client::connect(([127, 0, 0, 1], port).into()).expect("it serves");
    client.check("GET k", "\"v\"");
    assert_eq!(client.info("server")["process_supervised"], "systemd");
    let _ = client.try_call(&["SHUTDOWN", "NOSAVE"]);
    supervisor.expect("STOPPING=1");
    assert!(server.0.wait().expect("it ends").success());
}

#[test]
fn nobody_is_notified_unless_that_is_asked_for() {
    let folder = Medium::Disk.scratch();
    let supervisor = Supervisor::new(&folder.path().join("notify"));
    let port = free_port();
    let _server = start(folder.path(), port, &["--supervised", "no"]);
    let mut client = (0..3000).find_map(|_| {
        std::thread::sleep(Duration::from_millis(10));
        Client::connect(([127, 0, 0, 1], port).into()).ok()
    });
    let client = client.as_mut().expect("it serves");
    assert_eq!(client.info("server")["process_supervised"], "no");
    supervisor.socket.set_nonblocking(true).expect("set");
    assert!(supervisor.socket.recv(&mut [0; 64]).is_err());
}

#[test]
fn every_line_of_a_json_log_is_an_object() {
    let mut server = Launch::perdura_volatile().args(["--log-format", "json"]).start();
    let mut client = server.client();
    let script = "redis.log(redis.LOG_WARNING, 'a\\n\"b\" \\\\ \\127')";
    assert!(!client.call(&["EVAL", script, "0"]).is_error());
    assert!(server.terminate().success());
    let log = server.log();
    let lines: Vec<serde_json::Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}")))
        .collect();
    for line in &lines {
        let text = |name: &str| line[name].as_str().unwrap_or_else(|| panic!("{name} of {line}"));
        assert!(text("time").ends_with('Z') && text("time").len() == 24, "{line}");
        assert!(["debug", "verbose", "notice", "warning"].contains(&text("level")), "{line}");
        assert!(!text("message").is_empty() && line["pid"].is_u64(), "{line}");
    }
    let has = |part: &str| {
        lines.iter().any(|line| line["message"].as_str().is_some_and(|text| text.contains(part)))
    };
    assert!(has("Ready to accept connections"), "{log}");
    assert!(has("bye bye"), "{log}");
    let of_script = lines.iter().find(|line| line["message"] == "a\\n\"b\" \\ \\u{7f}");
    assert_eq!(of_script.expect(&log)["level"], "warning", "{log}");
}

#[test]
fn a_log_that_was_renamed_goes_on_in_a_new_file() {
    let folder = Medium::Disk.scratch();
    let path = folder.path().join("server.log");
    let launch = Launch::perdura_volatile().args(["--logfile", path.to_str().expect("a name")]);
    let mut server = launch.start();
    let mut client = server.client();
    let log = |client: &mut Client, text: &str| {
        let script = format!("redis.log(redis.LOG_WARNING, '{text}')");
        assert!(!client.call(&["EVAL", &script, "0"]).is_error());
    };
    log(&mut client, "before");
    let old = folder.path().join("server.log.1");
    fs::rename(&path, &old).expect("renamed");
    log(&mut client, "after");
    let text = |path: &Path| fs::read_to_string(path).expect("a log");
    assert!(text(&old).contains("before") && !text(&old).contains("after"));
    assert!(text(&path).contains("after") && !text(&path).contains("before"));
    assert!(server.terminate().success());
    assert!(text(&path).contains("bye bye"));
}

/// The dump that SIGTERM asks for waits for the end of the script, which never comes.
#[test]
fn a_save_that_a_signal_asked_for_is_given_up_by_shutdown_nosave() {
    let launch = Launch::perdura_volatile().args(["--save", "3600 1"]);
    let mut server = launch.args(["--busy-reply-threshold", "200"]).start();
    let mut client = server.client();
    client.check("SET k v", "OK");
    let mut of_script = server.client();
    of_script
        .send(&["EVAL", "while true do redis.call('INCR', KEYS[1]) end", "1", "n"])
        .expect("sent");
    std::thread::sleep(Duration::from_millis(500));
    let signalled = Command::new("kill").args(["-TERM", &server.pid().to_string()]).status();
    assert!(signalled.expect("kill runs").success());
    while !server.log().contains("Saving the final RDB snapshot") {
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = client.try_call(&["SHUTDOWN", "NOSAVE"]);
    server.wait();
    assert!(server.log().contains("bye bye"), "{}", server.log());
}

#[test]
fn help_needs_no_reader() {
    for option in ["--help", "--version"] {
        let full = fs::File::options().write(true).open("/dev/full").expect("there is one");
        let run = |stdout: Stdio| {
            let mut command = Command::new(perdura_server());
            command.arg(option).stdout(stdout).output().expect("it runs")
        };
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        assert!(run(writer.into()).status.success(), "{option}");
        let refused = run(full.into());
        let error = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{option}: {error}");
        assert!(error.starts_with("perdura-server: No space left on device"), "{error}");
    }
}
