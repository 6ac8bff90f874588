//! Each way of exporting and importing a set of data.
//!
//! The same commands make the data in a pool, with a log and in redis-server. The state of
//! redis-server is expected of the other two; the state of each of the three is expected at the end
//! of each way that begins there.

use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tempfile::TempDir;
use testkit::{Client, Launch, Medium, Reply, Server};

use crate::engine::Smallness;
use crate::files;
use crate::shapes;
use crate::state::{self, Asked, Rules, State};
use crate::values::{Data, Maker, Request, Usage, words};

/// Rounds without a time limit: one with redis-server and one with data that it does not know.
pub(crate) const ROUNDS: u64 = 2;
/// The number of rounds among which cheap shapes are distributed.
const SETS: usize = 40;

/// A server with the data, and its state.
struct Source {
    server: Server,
    expected: State,
}

/// One round.
struct Round {
    data: Data,
    asked: Asked,
    /// Additional options of each server.
    options: Vec<String>,
    smallness: Smallness,
    has_peer: bool,
}

pub(crate) type Done = Result<(), String>;

/// Takes one of the sets of data through all ways.
pub(crate) fn round(seed: u64) -> Done {
    let is_lfu = seed % 4 == 1 || seed % 4 == 2;
    let mut shapes = shapes::dealt(seed, SETS);
    // Every second round is without Redis 7.0.
    let has_peer = seed.is_multiple_of(2);
    if has_peer {
        shapes
            .iter_mut()
            .filter(|one| one.what == shapes::What::Timed)
            .for_each(|one| one.what = shapes::What::Hash);
    }
    let data = Maker::new(seed, now(), is_lfu).make(&shapes);
    let policy = if is_lfu { "allkeys-lfu" } else { "allkeys-lru" };
    let smallness = [Smallness::Usual, Smallness::Least, Smallness::Most][seed as usize / 2 % 3];
    let options =
        ["--maxmemory-policy", policy, "--lfu-decay-time", "5", "--lfu-log-factor", "1000000"];
    let round = Round {
        asked: Asked { field_times: true, is_lfu },
        options: options.map(String::from).into_iter().chain(smallness.directives()).collect(),
        smallness,
        // Redis's listpacks may exceed the maximum block of a pool.
        has_peer: has_peer && !data.is_newer && smallness != Smallness::Most,
        data,
    };
    round.run()
}

/// Returns the time of day, in unix ms.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Fails if a state differs from the expected one.
pub(crate) fn check(way: &str, expected: &State, found: &State, rules: Rules) -> Done {
    match expected.difference(found, rules) {
        Some(what) => Err(format!("{way}: {what}")),
        None => Ok(()),
    }
}

pub(crate) fn send(client: &mut Client, requests: &[Request], tolerated: bool) -> Done {
    let mut selected = None;
    for part in requests.chunk_by(|one, other| one.0 == other.0) {
        let db = part[0].0;
        if selected.replace(db) != Some(db) {
            client.check(&format!("SELECT {db}"), "OK");
        }
        for some in part.chunks(500) {
            let all: Vec<_> = some.iter().map(|(_, words)| words.clone()).collect();
            let replies = client.pipeline(&all).map_err(|error| error.to_string())?;
            let bad = all.iter().zip(&replies).find(|(_, reply)| reply.is_error());
            if let Some((words, reply)) = bad.filter(|_| !tolerated) {
                let words: Vec<String> = words
                    .iter()
                    .take(4)
                    .map(|word| {
                        word.iter()
                            .take(40)
                            .copied()
                            .collect::<Vec<u8>>()
                            .escape_ascii()
                            .to_string()
                    })
                    .collect();
                return Err(format!("{} was refused: {reply}", words.join(" ")));
            }
        }
    }
    client.check("SELECT 0", "OK");
    Ok(())
}

impl Round {
    fn start(&self, launch: Launch) -> Server {
        launch.args(&self.options).start()
    }

    fn start_in(&self, launch: Launch, folder: TempDir) -> Server {
        launch.args(&self.options).start_in(folder)
    }

    fn read(&self, server: &Server) -> State {
        state::read(&mut server.client(), self.asked)
    }

    fn read_peer(&self, server: &Server) -> State {
        state::read(&mut server.client(), Asked { field_times: false, ..self.asked })
    }

    /// Makes the data in a server.
    fn fill(&self, launch: Launch, is_peer: bool) -> Result<Source, String> {
        let server = self.start(launch);
        let mut client = server.client();
        send(&mut client, &self.data.requests, false)?;
        // From now on the seen-time of consumers differs from their active-time.
        thread::sleep(Duration::from_millis(3));
        send(&mut client, &self.data.later, false)?;
        let asked = Asked { field_times: !is_peer, ..self.asked };
        let mut expected = state::read(&mut client, asked);
        self.set_usage(&mut client, &mut expected)?;
        Ok(Source { server, expected })
    }

    /// Sets how some keys were used. For those the set values are expected, and nothing for the
    /// others.
    fn set_usage(&self, client: &mut Client, expected: &mut State) -> Done {
        expected.keys.values_mut().for_each(|fields| drop(fields.remove("use")));
        for (db, key, usage) in &self.data.usage {
            client.check(&format!("SELECT {db}"), "OK");
            let payload = client.call(&words([b"DUMP", key]));
            let payload = payload.bytes().ok_or("DUMP found no key")?.to_vec();
            let fields = expected.keys.get_mut(&(*db, key.clone())).ok_or("a key is missing")?;
            let expires = fields["expires"].int().unwrap_or(0).max(0).to_string();
            let (option, number, shown) = match usage {
                Usage::Idle(idle) => ("IDLETIME", *idle, state::used(*idle as i64)),
                Usage::Frequency(frequency) => ("FREQ", *frequency, Reply::Int(*frequency as i64)),
            };
            fields.insert("use".into(), shown);
            let reply = client.call(&words([
                b"RESTORE",
                key,
                expires.as_bytes(),
                &payload,
                b"REPLACE",
                b"ABSTTL",
                option.as_bytes(),
                number.to_string().as_bytes(),
            ]));
            if !reply.is_ok() {
                return Err(format!("RESTORE with {option}: {reply}"));
            }
            let found = client.call(&words([b"OBJECT", option.as_bytes(), key])).int();
            if found.is_none_or(|found| found.abs_diff(number as i64) > 100) {
                return Err(format!("RESTORE with {option} {number}: it is {found:?}"));
            }
        }
        client.check("SELECT 0", "OK");
        Ok(())
    }

    fn run(&self) -> Done {
        let pool = self.fill(Launch::perdura_pmem(), false)?;
        // A rewrite would convert it to a dump, which keeps less.
        let never = ["--auto-aof-rewrite-percentage", "0"];
        let log = self.fill(Launch::perdura_aof("no").args(never), false)?;
        let near = Rules { near: true, other_clock: true, ..Rules::ALL };
        check("the same commands over a log", &pool.expected, &log.expected, near)?;
        let peer = match self.has_peer {
            true => Some(self.fill(Launch::redis(), true)?),
            false => None,
        };
        if let Some(peer) = &peer {
            check("the same commands in redis-server", &peer.expected, &pool.expected, near)?;
            self.load_from_peer(peer)?;
        }
        self.payloads(&pool, peer.as_ref())?;
        self.load_from_pool(pool)?;
        self.load_from_log(log)
    }

    /// DUMP of each key, and RESTORE in another server.
    fn payloads(&self, from: &Source, peer: Option<&Source>) -> Done {
        let server = self.start(Launch::perdura_volatile());
        self.restored(&mut from.server.client(), &mut server.client(), &from.expected)?;
        let rules = Rules { near_expiry: true, ..Rules::DUMP };
        check("DUMP and RESTORE", &from.expected, &self.read(&server), rules)?;
        for (name, launch) in files::later_peers() {
            let other = self.start(launch);
            self.restored(&mut from.server.client(), &mut other.client(), &from.expected)?;
            let rules = Rules { encodings: false, ..rules };
            check(
                &format!("DUMP and RESTORE in {name}"),
                &from.expected,
                &self.read_peer(&other),
                rules,
            )?;
        }
        let Some(peer) = peer else { return Ok(()) };
        let there = self.start(Launch::redis());
        self.restored(&mut from.server.client(), &mut there.client(), &from.expected)?;
        check(
            "DUMP here, RESTORE in redis-server",
            &from.expected,
            &self.read_peer(&there),
            rules,
        )?;
        let here = self.start(Launch::perdura_volatile());
        self.restored(&mut peer.server.client(), &mut here.client(), &peer.expected)?;
        check("DUMP in redis-server, RESTORE here", &peer.expected, &self.read(&here), rules)?;
        same_payloads(&from.server, &peer.server, &from.expected)
    }

    fn restored(&self, from: &mut Client, to: &mut Client, expected: &State) -> Done {
        restore(from, to, expected, &self.data.usage)
    }

    /// Returns the rules for a pool made by a program, which knows only the default limits.
    fn of_program(&self) -> Rules {
        Rules { encodings: self.smallness == Smallness::Usual, ..Rules::POOL }
    }

    fn load_from_peer(&self, peer: &Source) -> Done {
        let mut client = peer.server.client();
        client.check("SAVE", "OK");
        let dump = peer.server.folder().join("dump.rdb");
        let rules = Rules::DUMP;
        let here = self.load(&dump);
        check("a dump of redis-server, loaded here", &peer.expected, &self.read(&here), rules)?;
        drop(here);
        let here = self.pool(&["import", &files::text(&dump), "--to"])?;
        check(
            "a dump of redis-server, by perdura import",
            &peer.expected,
            &self.read(&here),
            self.of_program(),
        )?;
        drop(here);
        client.check("CONFIG SET appendonly yes", "OK");
        files::wait_for_rewrite(&mut client);
        let folder = files::copy(&peer.server.folder().join("appendonlydir"));
        let here = self.start_in(Launch::perdura_aof("no"), folder);
        check("a log of redis-server, loaded here", &peer.expected, &self.read(&here), rules)
    }

    /// Starts a server in memory that loads a dump.
    fn load(&self, dump: &Path) -> Server {
        let folder = Medium::Disk.scratch();
        std::fs::copy(dump, folder.path().join("dump.rdb")).expect("a dump can be copied");
        self.start_in(Launch::perdura_volatile(), folder)
    }

    /// Runs `perdura` so that it makes a pool, and starts a server over it.
    fn pool(&self, arguments: &[&str]) -> Result<Server, String> {
        let folder = Medium::Memory.scratch();
        let pool = files::text(&folder.path().join("perdura.pool"));
        files::perdura(&[arguments, &[&pool]].concat())?;
        Ok(self.start_in(Launch::perdura_pmem(), folder))
    }

    fn load_from_pool(&self, mut source: Source) -> Done {
        let Source { server, expected } = &mut source;
        let mut client = server.client();
        // DUMP counted as a use.
        self.set_usage(&mut client, expected)?;
        client.check("SAVE", "OK");
        let address = format!("127.0.0.1:{}", server.port());
        let folder = Medium::Disk.scratch();
        let (dump, backup) =
            (server.folder().join("dump.rdb"), files::text(&folder.path().join("b.rdb")));
        self.dump(&dump, expected)?;

        files::perdura(&["backup", "--quiet", "--from", &address, "--to", &backup])?;
        let there = self.pool(&["restore", "--quiet", &backup, "--to"])?;
        check("perdura backup and restore", expected, &self.read(&there), self.of_program())?;
        drop(there);

        let exported = files::perdura(&["export", "--quiet", &address, "--format", "resp"])?;
        let there = self.start(Launch::perdura_volatile());
        files::feed(&mut there.client(), &exported)?;
        check("perdura export as commands", expected, &self.read(&there), Rules::COMMANDS)?;
        drop(there);

        let there = self.start(Launch::perdura_volatile());
        files::perdura(&[
            "import",
            "--quiet",
            &format!("redis://{address}"),
            "--to",
            &format!("127.0.0.1:{}", there.port()),
        ])?;
        let there_now = self.read(&there);
        check("perdura import from server to server", expected, &there_now, Rules::POOL)?;
        drop(there);
        self.migrate(server, expected)?;

        // Access times are only in memory.
        let rules = Rules { usage: false, ..Rules::ALL };
        server.kill();
        let pool = files::text(&server.folder().join("perdura.pool"));
        let there = self.pool(&["backup", "--quiet", "--from", &pool, "--as", "pool", "--to"])?;
        check(
            "perdura backup of a pool as a pool",
            expected,
            &self.read(&there),
            self.of_program(),
        )?;
        drop(there);
        server.start_again();
        check("kill -9 over a pool", expected, &self.read(server), rules)
    }

    /// Loads a dump made here in each way.
    fn dump(&self, dump: &Path, expected: &State) -> Done {
        let there = self.load(dump);
        check("SAVE and a start", expected, &self.read(&there), Rules::DUMP)?;
        drop(there);
        let there = self.pool(&["import", "--quiet", &files::text(dump), "--to"])?;
        check("SAVE and perdura import", expected, &self.read(&there), self.of_program())?;
        drop(there);
        let peers = self.has_peer.then(|| ("redis-server", Launch::redis()));
        for (name, launch) in peers.into_iter().chain(files::later_peers()) {
            if self.data.is_newer && name == "Valkey 9" {
                continue;
            }
            let folder = Medium::Disk.scratch();
            std::fs::copy(dump, folder.path().join("dump.rdb")).expect("a dump can be copied");
            let there = self.start_in(launch, folder);
            let rules = Rules { encodings: name == "redis-server", ..Rules::DUMP };
            check(
                &format!("SAVE here, a start of {name}"),
                expected,
                &self.read_peer(&there),
                rules,
            )?;
        }
        Ok(())
    }

    fn migrate(&self, from: &Server, expected: &State) -> Done {
        let there = self.start(Launch::perdura_volatile());
        let mut client = from.client();
        let port = there.port().to_string();
        let keys: Vec<_> = expected.keys.keys().collect();
        for some in keys.chunk_by(|one, other| one.0 == other.0).flat_map(|part| part.chunks(300)) {
            let db = some[0].0.to_string();
            client.check(&format!("SELECT {db}"), "OK");
            let mut request = words([
                b"MIGRATE",
                b"127.0.0.1",
                port.as_bytes(),
                b"",
                db.as_bytes(),
                b"30000",
                b"COPY",
                b"KEYS",
            ]);
            request.extend(some.iter().map(|(_, name)| name.clone()));
            let reply = client.call(&request);
            if !reply.is_ok() {
                return Err(format!("MIGRATE: {reply}"));
            }
        }
        let found = State { libraries: expected.libraries.clone(), ..self.read(&there) };
        let rules = Rules { usage: false, near_expiry: true, ..Rules::DUMP };
        check("MIGRATE", expected, &found, rules)
    }

    fn load_from_log(&self, mut source: Source) -> Done {
        let Source { server, expected } = &mut source;
        // Commands are executed again: this changes when consumers were seen, and keys used.
        let again = Rules { usage: false, near: true, ..Rules::ALL };
        server.crash();
        check("kill -9 over a log", expected, &self.read(server), again)?;
        let mut expected = self.read(server);
        expected.keys.values_mut().for_each(|fields| drop(fields.remove("use")));
        let mut client = server.client();
        self.set_usage(&mut client, &mut expected)?;
        self.rewrite(server, &expected, true)?;
        self.set_usage(&mut server.client(), &mut expected)?;
        self.rewrite(server, &expected, false)
    }

    /// Rewrites the log, as a dump or as commands, and loads it here and elsewhere.
    fn rewrite(&self, server: &mut Server, expected: &State, as_dump: bool) -> Done {
        let (how, rules) = match as_dump {
            true => ("as a dump", Rules::DUMP),
            false => ("as commands", Rules::COMMANDS),
        };
        let mut client = server.client();
        client.check(
            &format!("CONFIG SET aof-use-rdb-preamble {}", if as_dump { "yes" } else { "no" }),
            "OK",
        );
        client.run("BGREWRITEAOF");
        files::wait_for_rewrite(&mut client);
        drop(client);
        server.crash();
        check(&format!("a log rewritten {how}, and kill -9"), expected, &self.read(server), rules)?;
        let log = server.folder().join("appendonlydir");
        if self.has_peer {
            let launch = Launch::redis().args(["--appendonly", "yes"]);
            let there = self.start_in(launch, files::copy(&log));
            check(
                &format!("a log rewritten {how}, loaded by redis-server"),
                expected,
                &self.read_peer(&there),
                rules,
            )?;
        }
        let there = self.pool(&["import", "--quiet", &files::text(&log), "--to"])?;
        check(
            &format!("a log rewritten {how}, by perdura import"),
            expected,
            &self.read(&there),
            Rules { encodings: self.of_program().encodings, usage: false, ..rules },
        )
    }
}

/// Copies each key by DUMP and RESTORE: with an absolute or a relative TTL, with its usage if that
/// was set, over an existing key or not.
pub(crate) fn restore(
    from: &mut Client,
    to: &mut Client,
    expected: &State,
    usage: &[(usize, Vec<u8>, Usage)],
) -> Done {
    for (at, ((db, key), fields)) in expected.keys.iter().enumerate() {
        for client in [&mut *from, &mut *to] {
            client.check(&format!("SELECT {db}"), "OK");
        }
        let left = from.call(&words([b"PTTL", key])).int().unwrap_or(0).max(0);
        let expires = fields["expires"].int().unwrap_or(0).max(0);
        let payload = from.call(&words([b"DUMP", key]));
        let payload = payload.bytes().ok_or("DUMP found no key")?;
        let ttl = if at % 2 == 0 { expires } else { left }.to_string();
        let mut request = words([b"RESTORE", key, ttl.as_bytes(), payload]);
        if at % 2 == 0 {
            request.push(b"ABSTTL".into());
        }
        if at % 3 == 0 {
            to.call(&words([b"SADD", key, b"before"]));
            request.push(b"REPLACE".into());
        }
        let usage = usage.iter().find(|(d, name, _)| (d, name) == (db, key));
        match usage {
            Some((_, _, Usage::Idle(_))) => {
                let idle = state::idle(&fields["use"]).to_string();
                request.extend(words([b"IDLETIME", idle.as_bytes()]));
            }
            Some((_, _, Usage::Frequency(n))) => {
                request.extend(words([b"FREQ", n.to_string().as_bytes()]))
            }
            None => {}
        }
        let reply = to.call(&request);
        if !reply.is_ok() {
            return Err(format!("RESTORE of {}: {reply}", key.escape_ascii()));
        }
    }
    let libraries = from.run("FUNCTION DUMP");
    let libraries = libraries.bytes().ok_or("FUNCTION DUMP answers no payload")?;
    let reply = to.call(&words([b"FUNCTION", b"RESTORE", libraries]));
    if reply.is_ok() { Ok(()) } else { Err(format!("FUNCTION RESTORE: {reply}")) }
}

/// Fails if DUMP answers something else than redis-server, unless the payload has the order of a
/// table, or times.
fn same_payloads(here: &Server, there: &Server, expected: &State) -> Done {
    let (mut ours, mut theirs) = (here.client(), there.client());
    for ((db, key), fields) in &expected.keys {
        let is_table = fields["encoding"].text() == "hashtable";
        if is_table || fields["type"].text() == "stream" {
            continue;
        }
        for client in [&mut ours, &mut theirs] {
            client.check(&format!("SELECT {db}"), "OK");
        }
        let request = words([b"DUMP", key]);
        if ours.call(&request) != theirs.call(&request) {
            let (name, encoding) = (key.escape_ascii(), fields["encoding"].text());
            return Err(format!("DUMP here and in redis-server: {name} ({encoding}) differs"));
        }
    }
    Ok(())
}
