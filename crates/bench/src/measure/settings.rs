//! What a setting costs a request: TLS, a user with few rights, metrics that are scraped.
//!
//! One server has all of them; what differs is how the clients reach it, or whether somebody
//! scrapes it meanwhile. So each figure is the ratio of two runs that follow each other.

use super::Measurement;
use super::bench::{Bench, fill};
use super::common::{Common, Numbers, factor, numbers};
use super::print::{Raw, median, shown};
use super::redis_benchmark::{self, Load};
use super::systems::{Program, System};
use crate::server::{Failure, Server, free_port};
use crate::stats::ratio;
use crate::table::{Table, cells};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const CLIENTS: u64 = 50;
const KEYS: u64 = 100_000;
const VALUE_BYTES: u64 = 32;
/// Operations of a run: about a second or two.
const OPERATIONS: f64 = 150_000.0;
const PIPELINED_OPERATIONS: f64 = 1_000_000.0;
/// How often metrics are scraped: many times as often as Prometheus does.
const SCRAPE: Duration = Duration::from_secs(1);

/// CPU time per request of SET and GET with TLS, a limited user, and metrics, to that without.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    common: Common,
    /// How often each system has its turn.
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Operations of a run, times this.
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = factor)]
    scale: f64,
    /// Requests that a client sends at once, separated by commas.
    #[arg(long, value_name = "NUMBERS", default_value = "1,16", value_parser = numbers)]
    pipelines: Numbers,
}

/// How the clients of a run reach the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Setting {
    Plain,
    Tls,
    LimitedUser,
    Scraped,
}

const SETTINGS: [(Setting, &str); 4] = [
    (Setting::Plain, "plain"),
    (Setting::Tls, "TLS"),
    (Setting::LimitedUser, "limited user"),
    (Setting::Scraped, "metrics, a scrape a second"),
];

impl Setting {
    fn is_of(self, program: Program) -> bool {
        self != Setting::Scraped || program == Program::Perdura
    }
}

/// CPU microseconds of a request: of a system, a setting and a test, a round each.
type Samples = Vec<Vec<[Vec<f64>; 2]>>;

impl Measurement for Options {
    const SYSTEMS: &[&str] = &["redis none", "perdura volatile"];

    fn common(&self) -> &Common {
        &self.common
    }

    fn measure(&self, bench: &Bench<'_>, systems: &[&'static System]) -> Result<(), Failure> {
        let head = ["system", "setting", "test", "pipeline", "rate", "cpu_us"];
        let mut raw = self.common.raw("settings", &head)?;
        let no_folder = || Failure::of(bench.disk.display());
        let folder = tempfile::tempdir_in(&bench.disk).map_err(no_folder())?;
        certify(folder.path())?;
        let certificates = std::path::absolute(folder.path()).map_err(no_folder())?;
        for pipeline in &self.pipelines.0 {
            let usual = if *pipeline > 1 { PIPELINED_OPERATIONS } else { OPERATIONS };
            let requests = (usual * self.scale).max(1000.0) as u64;
            let load = Load { requests, clients: CLIENTS, pipeline: *pipeline, keys: KEYS };
            let mut found: Samples = vec![vec![Default::default(); SETTINGS.len()]; systems.len()];
            bench.rounds(self.rounds, systems.len(), |at| {
                one(bench, systems[at], &certificates, load, &mut found[at], &mut raw)
            })?;
            let title =
                format!("Pipeline {pipeline}, {CLIENTS} clients, {requests} requests a run");
            print(&title, systems, &found);
        }
        raw.finish();
        Ok(())
    }
}

/// Runs all settings of one system, in another order each round.
fn one(
    bench: &Bench<'_>,
    system: &System,
    folder: &Path,
    load: Load,
    found: &mut [[Vec<f64>; 2]],
    raw: &mut Raw,
) -> Result<(), Failure> {
    let (tls, metrics) = (free_port().to_string(), free_port());
    let place = |name: &str| folder.join(name).display().to_string();
    let mut arguments = vec!["--tls-port".into(), tls.clone(), "--tls-auth-clients".into()];
    arguments.extend(["no".into(), "--tls-cert-file".into(), place("cert.pem")]);
    arguments.extend(["--tls-key-file".into(), place("key.pem")]);
    arguments.extend(["--tls-ca-cert-file".into(), place("cert.pem")]);
    if system.program == Program::Perdura {
        arguments.extend(["--metrics-port".into(), metrics.to_string()]);
    }
    let server = bench.start(system, &[bench.server_core], &arguments)?;
    fill(&server, 0, KEYS, VALUE_BYTES as usize)?;
    server.ask::<()>(
        "ACL SETUSER limited on >secret ~key:* +@read +@write +@connection +config|get",
    )?;
    let ca = place("cert.pem");
    let round = found[0][0].len();
    for turn in 0..SETTINGS.len() {
        let at = (round + turn) % SETTINGS.len();
        let (setting, name) = SETTINGS[at];
        if !setting.is_of(system.program) {
            continue;
        }
        let way: &[&str] = match setting {
            Setting::Plain | Setting::Scraped => &[],
            Setting::Tls => &["-p", &tls, "--tls", "--cacert", &ca],
            Setting::LimitedUser => &["--user", "limited", "-a", "secret"],
        };
        let ends = AtomicBool::new(false);
        let scraped = (setting == Setting::Scraped).then_some(metrics);
        thread::scope(|scope| {
            let ends = &ends;
            let scraper = scraped.map(|port| scope.spawn(move || scrape(port, ends)));
            let ran = tests(bench, &server, load, way, |test, row, cpu| {
                found[at][test].push(cpu);
                raw.add(cells![system.name, name, ["SET", "GET"][test], load.pipeline, row, cpu])
            });
            ends.store(true, Ordering::Relaxed);
            let scrapes = scraper.map(|scraper| scraper.join().unwrap_or(0));
            match scrapes {
                Some(0) => Err(Failure::Generator("no scrape of the metrics succeeded".into())),
                _ => ran,
            }
        })?;
    }
    Ok(())
}

/// Runs SET and GET; `add` gets the number of the test, its rate and its CPU time.
fn tests(
    bench: &Bench<'_>,
    server: &Server,
    load: Load,
    way: &[&str],
    mut add: impl FnMut(usize, f64, f64) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let size = VALUE_BYTES.to_string();
    for (number, test) in ["set", "get"].into_iter().enumerate() {
        let what = [way, &["-t", test, "-d", &size]].concat();
        let (rows, cpu) = redis_benchmark::run(bench, server, bench.client_core, load, &what)?;
        add(number, rows[rows.len() - 1].rate, cpu)?;
    }
    Ok(())
}

/// Scrapes until the end; how often it was answered.
fn scrape(port: u16, ends: &AtomicBool) -> u32 {
    let mut answered = 0;
    while !ends.load(Ordering::Relaxed) {
        let next = Instant::now() + SCRAPE;
        let mut text = String::new();
        let read = TcpStream::connect(("127.0.0.1", port)).and_then(|mut stream| {
            stream
                .write_all(b"GET /metrics HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")?;
            stream.read_to_string(&mut text)
        });
        answered += u32::from(read.is_ok() && text.contains("perdura_commands"));
        while Instant::now() < next && !ends.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(10));
        }
    }
    answered
}

/// Makes a key and a certificate for it.
fn certify(folder: &Path) -> Result<(), Failure> {
    let mut command = Command::new("openssl");
    command.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]);
    command.args(["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]);
    command.args(["-keyout", "key.pem", "-out", "cert.pem"]).current_dir(folder);
    let output = command.output();
    let output = output.map_err(Failure::of("openssl"))?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(()) } else { Err(Failure::Generator(errors)) }
}

/// Prints CPU times and their ratios: to the plain run of the same server, and to the first system
/// with the same setting.
fn print(title: &str, systems: &[&System], found: &Samples) {
    println!("\n## {title}\n");
    let mut table = Table::new(["", "us CPU, SET", "to plain", "us CPU, GET", "to plain"]);
    for (system, settings) in systems.iter().zip(found) {
        for ((_, name), tests) in SETTINGS.iter().zip(settings) {
            if tests[0].is_empty() {
                continue;
            }
            let mut row = cells![format!("{}, {name}", system.name)];
            for (test, plain) in tests.iter().zip(&settings[0]) {
                row.extend([format!("{:.2}", median(test)), shown(ratio(test, plain))]);
            }
            table.add(row);
        }
    }
    println!("{}", table.markdown());
    for (system, settings) in systems.iter().zip(found).skip(1) {
        for ((_, name), (own, first)) in SETTINGS.iter().zip(settings.iter().zip(&found[0])) {
            for (test, number) in [("SET", 0), ("GET", 1)] {
                if !first[number].is_empty() {
                    let ratio = shown(ratio(&own[number], &first[number]));
                    println!(
                        "- {name}, CPU time of a {test}, {} to {}: {ratio}",
                        system.name, systems[0].name
                    );
                }
            }
        }
    }
}
