//! Perdura and redis-server, and running a case on both.
//!
//! Consecutive steps of one client are sent in one write. Nothing waits for a fixed time:
//! background effects are polled until they occur, or for [`PATIENCE`].

use crate::alike::alike;
use crate::rules_text::Peer;
use crate::steps::{ADMIN, Act, CLIENTS, Case, Step, Words};
use std::fs;
use std::time::{Duration, Instant};
use testkit::{Client, Launch, Medium, Reply, Server};

/// The maximum time for a background effect.
const PATIENCE: Duration = Duration::from_secs(10);
/// The maximum number of commands in one write.
const BURST: usize = 64;
/// Stands for the reply of a closed connection.
const CLOSED: &str = "the connection has ended";
/// Counters of denials, and the reasons in ACL LOG that they count.
const DENIED: [(&str, &str); 4] = [
    ("acl_access_denied_auth", "auth"),
    ("acl_access_denied_cmd", "command"),
    ("acl_access_denied_key", "key"),
    ("acl_access_denied_channel", "channel"),
];
/// Resets the default user to its state after a start.
const OPEN: &str = "ACL SETUSER default reset on nopass ~* &* +@all";
/// The name of the file of users, in each server's directory.
pub(crate) const USERS: &str = "users.acl";

/// The first difference between two servers.
pub(crate) struct Difference {
    /// The index of the step.
    pub(crate) at: usize,
    pub(crate) ours: Reply,
    pub(crate) theirs: Reply,
}

/// Both servers.
pub(crate) struct Both {
    /// Perdura, and redis-server.
    pub(crate) servers: [Server; 2],
    pub(crate) peer: Peer,
}

fn start(launch: Launch) -> Server {
    let folder = Medium::Disk.scratch();
    let users = folder.path().join(USERS);
    fs::write(&users, "").expect("a file of users");
    launch.args(["--aclfile".into(), users.into_os_string()]).start_in(folder)
}

impl Both {
    pub(crate) fn start() -> Both {
        let ours = ["--busy-reply-all", "yes", "--enable-debug-command", "yes"];
        let ours = Launch::perdura_volatile().args(ours);
        let servers = [start(ours), start(Launch::redis())];
        let peer = Peer::of(&mut servers[0].client(), &mut servers[1].client());
        Both { servers, peer }
    }

    /// Runs a case. Returns the first difference.
    pub(crate) fn run(&self, case: &Case) -> Option<Difference> {
        let mut talk = Talk {
            both: self,
            case,
            clients: [const { None }; CLIENTS],
            kept: None,
            is_denied: false,
            counts_denied: false,
        };
        for client in talk.clients(ADMIN) {
            client.pipeline(&case.setup).expect("both servers are there");
        }
        let is_run = |a: &Step, b: &Step| a.is_call() && b.is_call() && a.client == b.client;
        let mut at = 0;
        for steps in case.steps.chunk_by(is_run).flat_map(|steps| steps.chunks(BURST)) {
            if let Some(difference) = talk.steps(at, steps) {
                return Some(difference);
            }
            at += steps.len();
        }
        None
    }

    /// Returns rules without commands that redis-server does not know; other requests unchanged.
    fn known_to_redis(&self, words: Words) -> Words {
        if words[0] != b"ACL" {
            return words;
        }
        let words: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
        crate::steps::words(&self.peer.known(&words.join(" ")))
    }

    /// Returns the lines of both logs after this mark.
    pub(crate) fn logged(&self, mark: &str) -> [Vec<String>; 2] {
        self.servers.each_ref().map(|server| {
            let log = server.log();
            let after = |line: &str| Some(line.split_once(mark)?.1.trim_end().to_owned());
            log.lines().filter_map(after).collect()
        })
    }
}

/// The connections of a case.
struct Talk<'b> {
    both: &'b Both,
    case: &'b Case,
    clients: [Option<[Client; 2]>; CLIENTS],
    /// The replies that are kept to be given to the other server later.
    kept: Option<[Reply; 2]>,
    is_denied: bool,
    /// True if both have forgotten earlier denials.
    counts_denied: bool,
}

/// Leaves a default user that lets the next case in, however this one ended.
impl Drop for Talk<'_> {
    fn drop(&mut self) {
        let is_of_users = |step: &Step| match &step.act {
            Act::Call(words) => {
                words.iter().any(|word| word == b"default" || word == b"requirepass")
            }
            act => matches!(act, Act::WriteFiles(_)),
        };
        if self.case.steps.iter().any(is_of_users) {
            for client in self.clients[ADMIN].iter_mut().flatten() {
                let _ = client.try_call(&crate::steps::words(OPEN));
            }
        }
    }
}

fn received(client: &mut Client) -> Reply {
    client.receive().unwrap_or_else(|_| Reply::Error(CLOSED.into()))
}

fn called(client: &mut Client, words: &Words) -> Reply {
    client.try_call(words).unwrap_or_else(|_| Reply::Error(CLOSED.into()))
}

/// Asks until the reply is as expected, or for [`PATIENCE`].
fn asked_until(mut ask: impl FnMut() -> Reply, is_it: impl Fn(&Reply) -> bool) -> Reply {
    let began = Instant::now();
    loop {
        let reply = ask();
        if is_it(&reply) || began.elapsed() > PATIENCE {
            return reply;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl Talk<'_> {
    fn clients(&mut self, client: usize) -> &mut [Client; 2] {
        let protocol = if client == ADMIN { 3 } else { self.case.protocol };
        let both = self.both;
        self.clients[client].get_or_insert_with(|| {
            both.servers.each_ref().map(|server| {
                let mut client = server.client();
                let reply = client.run(&format!("HELLO {protocol}"));
                assert!(!reply.is_error(), "{reply}");
                client
            })
        })
    }

    fn call(&mut self, client: usize, words: &Words) -> [Reply; 2] {
        self.clients(client).each_mut().map(|client| called(client, words))
    }

    /// Runs steps of one client: several calls, or one other step.
    fn steps(&mut self, at: usize, steps: &[Step]) -> Option<Difference> {
        let client = steps[0].client;
        if !steps[0].is_call() {
            let replies = self.act(client, &steps[0].act);
            return self.compare(at, &steps[0], replies);
        }
        let words = |step: &Step| match &step.act {
            Act::Call(words) => Some(words.clone()),
            _ => None,
        };
        let all: Vec<Words> = steps.iter().filter_map(words).collect();
        for client in self.clients(client) {
            // If the connection is closed, there are no replies either.
            let _ = client.send_pipeline(&all);
        }
        let mut first = None;
        for (n, step) in steps.iter().enumerate() {
            let replies = self.clients(client).each_mut().map(received);
            let difference = self.compare(at + n, step, replies);
            first = first.or(difference);
            if first.is_some() {
                break;
            }
        }
        first
    }

    fn compare(
        &mut self,
        at: usize,
        step: &Step,
        [ours, theirs]: [Reply; 2],
    ) -> Option<Difference> {
        if let Act::Call(words) = &step.act
            && words.get(1).is_some_and(|word| word == b"DRYRUN")
        {
            self.is_denied = !theirs.is_ok();
        }
        let same = alike((step.alike, self.is_denied), &self.both.peer, &ours, &theirs);
        (!same).then_some(Difference { at, ours, theirs })
    }

    fn act(&mut self, client: usize, act: &Act) -> [Reply; 2] {
        match act {
            Act::Call(words) => self.call(client, words),
            Act::Send(words) => {
                for client in self.clients(client) {
                    let _ = client.send(words);
                }
                both_ok()
            }
            Act::Receive => self.clients(client).each_mut().map(received),
            Act::IsOpen => self.is_open(client),
            Act::AwaitBlocked => {
                self.awaited("INFO clients", |reply| reply.text().contains("blocked_clients:1"))
            }
            Act::AwaitBusy => self.awaited("PING", Reply::is_error),
            Act::Exchange(words, make) => {
                let [ours, theirs] = self.call(client, words);
                let known = |words: Words| self.both.known_to_redis(words);
                let requests = [make(&theirs), make(&ours).map(known)];
                let mut requests = requests.iter();
                self.clients(client).each_mut().map(|client| match requests.next() {
                    Some(Some(words)) => called(client, words),
                    _ => Reply::Nil,
                })
            }
            Act::WriteFiles(text) => {
                for server in &self.both.servers {
                    fs::write(server.folder().join(USERS), text).expect("a file of users");
                }
                both_ok()
            }
            Act::Keep(words) => {
                self.kept = Some(self.call(client, words));
                both_ok()
            }
            Act::Give(make) => {
                let [ours, theirs] = self.kept.clone().unwrap_or([Reply::Nil, Reply::Nil]);
                let mut requests = [make(&theirs), make(&ours)].into_iter().flatten();
                self.clients(client).each_mut().map(|client| match requests.next() {
                    Some(words) => called(client, &words),
                    None => Reply::Nil,
                })
            }
            Act::ForgetDenied => {
                self.counts_denied = true;
                self.call(ADMIN, &crate::steps::words("CONFIG RESETSTAT"));
                self.call(ADMIN, &crate::steps::words("ACL LOG RESET"))
            }
            Act::CountDenied if self.counts_denied => self.denied(),
            Act::CountDenied => both_ok(),
            Act::SwapFiles => {
                let paths = self.both.servers.each_ref().map(|server| server.folder().join(USERS));
                let [ours, theirs] =
                    paths.each_ref().map(|path| fs::read(path).unwrap_or_default());
                let [of_ours, of_theirs] = &paths;
                fs::write(of_ours, theirs).expect("a file of users");
                let ours = String::from_utf8_lossy(&ours);
                let known: Vec<String> =
                    ours.lines().map(|line| self.both.peer.known(line)).collect();
                fs::write(of_theirs, known.join("\n")).expect("a file of users");
                both_ok()
            }
        }
    }

    /// Returns the number of denials since the log and the counters were reset, by reason.
    fn denied(&mut self) -> [Reply; 2] {
        let [ours, theirs] = self.clients(ADMIN);
        let info = ours.run("INFO stats").text();
        let log = theirs.run("ACL LOG 1000");
        let count = |entry: &Reply, reason: &str| {
            let Reply::Map(fields) = entry else { return 0 };
            let field = |name: &str| fields.iter().find(|(field, _)| field.text() == name);
            let is_it = field("reason").is_some_and(|(_, value)| value.text() == reason);
            match field("count") {
                Some((_, Reply::Int(times))) if is_it => *times,
                _ => 0,
            }
        };
        let lines = DENIED.map(|(field, reason)| {
            let line = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
            let times: i64 = log.items().iter().map(|entry| count(entry, reason)).sum();
            [line.unwrap_or("none").trim().to_owned(), times.to_string()]
        });
        [0, 1].map(|at| Reply::Simple(lines.each_ref().map(|line| line[at].as_str()).join(" ")))
    }

    /// Asks on the administrator's connections until both replies are as expected.
    fn awaited(&mut self, line: &str, is_it: impl Fn(&Reply) -> bool) -> [Reply; 2] {
        let clients = self.clients(ADMIN);
        clients.each_mut().map(|client| {
            match asked_until(|| client.run(line), |reply| is_it(reply)) {
                reply if is_it(&reply) => Reply::Simple("OK".into()),
                reply => reply,
            }
        })
    }

    /// Asks whether a connection is open; Perdura may close it a moment later.
    fn is_open(&mut self, client: usize) -> [Reply; 2] {
        let ping: Words = vec![b"PING".to_vec()];
        let [ours, theirs] = self.clients(client);
        let theirs = called(theirs, &ping);
        let is_same = |reply: &Reply| *reply == theirs || !reply.is_error() && !theirs.is_error();
        let ours = asked_until(|| called(ours, &ping), is_same);
        [ours, theirs]
    }
}

fn both_ok() -> [Reply; 2] {
    [Reply::Simple("OK".into()), Reply::Simple("OK".into())]
}
