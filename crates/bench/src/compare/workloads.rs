//! The workloads that each system runs.
//!
//! Throughput and latency use values of 4 KiB, sent by 4 threads of 50 clients with 6 outstanding
//! commands each, or by one client that waits for each reply. For throughput, the server and the
//! generator have cores of their own. For the latency of one client both share one core: on two,
//! most of the latency would be the time to wake up a core. Single commands, on strings, on values
//! of a million elements and in scripts, are sent by fifty clients, as redis-benchmark does.

use crate::load::{Kind, Ycsb};
use crate::results::{Durability, Family, System, Workload, WorkloadKind};

/// Bytes of all values together, unless `--keys` is given.
const DATA: u64 = 80 << 20;

/// The maximum number of keys, reached with small values.
const MOST_KEYS: u64 = 200_000;

/// Elements of a large value.
const ELEMENTS: u64 = 1_000_000;

/// Keys of the mix of types, and of the scripts.
const FEW_KEYS: u64 = 20_000;

/// Bytes of a small value.
const SMALL: usize = 32;

/// Bytes of a YCSB record: ten fields of 100 bytes.
const RECORD: usize = 1000;

/// Commands on all types, with TTLs and deletes, sent in turn. Neither the number of keys nor their
/// lengths grow, so any growth is the server's. `__key__` is a different key each time, also in the
/// name of a member.
const TYPES: &str = "\
SET string:__key__ __data__
HSET hash:__key__ member:__key__ __data__
GET string:__key__
LPUSH list:__key__ __data__
SET string:__key__ __data__ EX 60
ZADD zset:__key__ __key__ member:__key__
INCR counter:__key__
SADD set:__key__ member:__key__
XADD stream:__key__ MAXLEN 200 * field __data__
EXPIRE string:__key__ 150
SET string:__key__ __data__
DEL hash:__key__
HGETALL hash:__key__
SETBIT bitmap:__key__ 31000 1
LPUSH list:__key__ __data__
GET string:__key__
SET string:__key__ __data__ EX 5
EXPIRE hash:__key__ 100
UNLINK string:__key__
ZADD zset:__key__ __key__ member:__key__
PFADD hll:__key__ member:__key__
LTRIM list:__key__ 0 50
SETRANGE string:__key__ 3000 patch
EXPIRE list:__key__ 200
HSET hash:__key__ member:__key__ __data__
SREM set:__key__ member:__key__
DEL zset:__key__
ZRANGE zset:__key__ 0 10
SET string:__key__ __data__ EX 120
EXPIRE zset:__key__ 100
SADD set:__key__ member:__key__
UNLINK list:__key__
GET string:__key__
XADD stream:__key__ MAXLEN 200 * field __data__
EXPIRE set:__key__ 30
HDEL hash:__key__ member:__key__
DEL stream:__key__
SET string:__key__ __data__
RPOP list:__key__
UNLINK set:__key__
INCR counter:__key__
EXPIRE stream:__key__ 250
ZREM zset:__key__ member:__key__
HSET hash:__key__ member:__key__ __data__
DEL counter:__key__
SET string:__key__ __data__
EXPIRE bitmap:__key__ 100
UNLINK bitmap:__key__
EXPIRE hll:__key__ 100
DEL hll:__key__";

/// A workload of a single command, on a large value or on short ones.
struct Single {
    id: &'static str,
    data: Data,
    /// The command, and one that undoes its effect if data would grow otherwise.
    commands: &'static [&'static str],
}

const NOTHING: Data = Data::Nothing;
const SORTED_SET: Data = Data::Elements("ZADD big __key__ m:__key__");
const HASH: Data = Data::Elements("HSET big m:__key__ value:__key__");
const SET: Data = Data::Elements("SADD big m:__key__");
const LIST: Data = Data::Elements("RPUSH big value:__key__");
const STREAM: Data = Data::Elements("XADD big __key__-1 field value:__key__");

/// Commands on random elements of a value with a million elements, and commands on short values.
const SINGLES: [Single; 14] = [
    Single::new("type-zadd", SORTED_SET, &["ZADD big __key__ m:__key__"]),
    Single::new("type-zrank", SORTED_SET, &["ZRANK big m:__key__"]),
    Single::new("type-zscore", SORTED_SET, &["ZSCORE big m:__key__"]),
    Single::new("type-zrange", SORTED_SET, &["ZRANGE big __key__ +inf BYSCORE LIMIT 0 10"]),
    Single::new("type-hset", HASH, &["HSET big m:__key__ value:__key__"]),
    Single::new("type-hget", HASH, &["HGET big m:__key__"]),
    Single::new("type-sismember", SET, &["SISMEMBER big m:__key__"]),
    Single::new("type-lrange", LIST, &["LRANGE big 0 99"]),
    Single::new("type-xrange", STREAM, &["XRANGE big __key__ + COUNT 10"]),
    Single::new("type-lpush", NOTHING, &["LPUSH list __data__", "RPOP list"]),
    Single::new("type-sadd", NOTHING, &["SADD set m:__key__", "SPOP set"]),
    Single::new("type-zpopmin", NOTHING, &["ZADD zset __key__ m:__key__", "ZPOPMIN zset"]),
    Single::new("type-xadd", NOTHING, &["XADD stream MAXLEN ~ 1000 * field __data__"]),
    Single::new("type-incr", NOTHING, &["INCR counter:__key__"]),
];

/// Scripts with their names; each gets a key and a value.
const SCRIPTS: [(&str, &str); 6] = [
    ("script-nothing", "return 1"),
    ("script-get", "return redis.call('get', KEYS[1])"),
    ("script-set", "redis.call('set', KEYS[1], ARGV[1])"),
    ("script-1000-gets", "for i=1,1000 do redis.call('get', KEYS[1]) end"),
    ("script-1000-sets", "for i=1,1000 do redis.call('set', KEYS[1], ARGV[1]) end"),
    ("script-1000-keys", "for i=1,1000 do redis.call('set', 'key:' .. i, ARGV[1]) end"),
];

/// The number of SETs in a transaction.
const TRANSACTION: usize = 1000;

impl Single {
    const fn new(id: &'static str, data: Data, commands: &'static [&'static str]) -> Single {
        Single { id, data, commands }
    }
}

/// The load that the generator sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Load {
    /// SET and GET.
    Mix,
    /// A YCSB workload.
    Ycsb(Ycsb),
    /// These commands, in turn.
    Commands(Vec<String>),
    /// A script, with a key and a value.
    Script(&'static str),
}

/// The data with which a server is filled before the clock starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Data {
    Nothing,
    /// A string for each key.
    Strings,
    /// One value of as many elements as there are keys, each added by this command.
    Elements(&'static str),
}

/// A workload, what the generator sends for it, and the data it needs.
#[derive(Clone, Debug)]
pub(super) struct Job {
    /// The workload as the results describe it.
    pub(super) workload: Workload,
    pub(super) load: Load,
    pub(super) data: Data,
}

impl Job {
    /// Returns a job over strings.
    fn strings(workload: Workload, load: Load) -> Job {
        Job { workload, load, data: Data::Strings }
    }

    /// Returns a job of commands over this many keys, none of which exists at the start.
    fn commands(workload: Workload, keys: u64, commands: Vec<String>) -> Job {
        let writes = commands.iter().filter(|line| {
            let name = line.split(' ').next().unwrap_or_default();
            Kind::of(name, line.contains("__data__")) == Kind::Write
        });
        let share = writes.count() * 100 / commands.len().max(1);
        let workload = Workload { keys, writes_percent: share as u32, ..workload };
        Job { workload, load: Load::Commands(commands), data: Data::Nothing }
    }

    /// Returns true if a system runs this job. Durable writes run on disks only, on systems that
    /// promise durability there: the journal and its peers.
    pub(super) fn is_for(&self, system: &System) -> bool {
        let on_disk = matches!(system.place.as_str(), "disk" | "second");
        let promises = matches!(system.durability, Durability::Always | Durability::EverySecond);
        let family = matches!(system.family, Family::PerduraJournal | Family::Redis | Family::Peer);
        self.workload.kind != WorkloadKind::Durable || (on_disk && promises && family)
    }

    /// Returns true if this job can run after `other` in the same server, over the same data:
    /// neither of them changes the number of keys or the sizes of values.
    fn continues(&self, other: &Job) -> bool {
        let (a, b) = (&self.workload, &other.workload);
        let same = a.kind == b.kind && (a.keys, a.value_bytes) == (b.keys, b.value_bytes);
        let is_kept = match self.data {
            Data::Nothing => false,
            Data::Strings => self.load == Load::Mix && other.load == Load::Mix,
            Data::Elements(_) => true,
        };
        same && self.data == other.data && is_kept
    }
}

/// Splits the jobs into groups that one server can run one after the other, over data with which it
/// is filled once. Jobs with few writes come first, so that no reads are measured while a disk
/// still processes earlier writes.
pub(super) fn groups(jobs: &[Job]) -> Vec<Vec<Job>> {
    jobs.chunk_by(|before, after| after.continues(before)).map(<[Job]>::to_vec).collect()
}

/// The cores of this machine, divided between the server and the generator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cores {
    pub(super) server: Vec<usize>,
    pub(super) generator: Vec<usize>,
}

impl Cores {
    /// Assigns the first core to the server and the others to the generator. With one core they
    /// share it.
    pub(super) fn divide(all: &[usize]) -> Cores {
        match all {
            [] => Cores { server: Vec::new(), generator: Vec::new() },
            [only] => Cores { server: vec![*only], generator: vec![*only] },
            [first, others @ ..] => Cores { server: vec![*first], generator: others.to_vec() },
        }
    }
}

/// Returns all workloads, in the order in which reports show them.
pub(super) fn all(cores: &Cores, keys: Option<u64>) -> Vec<Job> {
    let catalogue = Catalogue { cores, keys };
    let parts = [
        catalogue.shares_of_writes(),
        catalogue.ycsb(),
        catalogue.durable(),
        catalogue.strings(),
        catalogue.types(),
        catalogue.scripts(),
    ];
    parts.into_iter().flatten().collect()
}

/// The settings that all workloads share.
struct Catalogue<'a> {
    cores: &'a Cores,
    keys: Option<u64>,
}

impl Catalogue<'_> {
    /// Returns a workload of two hundred clients over values of this size.
    fn many(&self, id: String, title: String, kind: WorkloadKind, value_bytes: usize) -> Workload {
        let usual = (DATA / value_bytes as u64).min(MOST_KEYS);
        Workload {
            id,
            title,
            kind,
            writes_percent: 0,
            value_bytes,
            keys: self.keys.unwrap_or(usual),
            distribution: "uniform".into(),
            clients: 200,
            threads: 4,
            pipeline: 6,
            server_cores: self.cores.server.clone(),
            generator_cores: self.cores.generator.clone(),
        }
    }

    fn shares_of_writes(&self) -> Vec<Job> {
        let job = |(id, kind, value_bytes, title, writes_percent): (&str, _, _, &str, u32)| {
            let title = format!("{title}, {writes_percent} % writes");
            let usual = self.many(format!("{id}-{writes_percent}"), title, kind, value_bytes);
            let workload = match kind {
                WorkloadKind::Latency => Workload {
                    clients: 1,
                    threads: 1,
                    pipeline: 1,
                    generator_cores: self.cores.server.clone(),
                    ..usual
                },
                _ => usual,
            };
            Job::strings(Workload { writes_percent, ..workload }, Load::Mix)
        };
        let shares = [0, 30, 70, 100];
        let throughput =
            shares.map(|w| ("throughput", WorkloadKind::Throughput, 4096, "4 KiB, 200 clients", w));
        let latency =
            shares.map(|w| ("latency", WorkloadKind::Latency, 4096, "4 KiB, one client", w));
        let small =
            [0, 100].map(|w| ("small", WorkloadKind::Small, SMALL, "32 bytes, 200 clients", w));
        throughput.into_iter().chain(latency).chain(small).map(job).collect()
    }

    fn ycsb(&self) -> Vec<Job> {
        let job = |(ycsb, letter, writes_percent, what): &(Ycsb, char, u32, &str)| {
            let id = format!("ycsb-{}", letter.to_ascii_lowercase());
            let distribution = if *ycsb == Ycsb::D { "latest" } else { "Zipf 0.99" }.into();
            let title = format!("YCSB {letter}: {what}");
            let usual = self.many(id, title, WorkloadKind::Ycsb, RECORD);
            let workload = Workload { distribution, writes_percent: *writes_percent, ..usual };
            Job::strings(workload, Load::Ycsb(*ycsb))
        };
        YCSB.iter().map(job).collect()
    }

    /// Returns durable writes with one command: small values from fifty clients, and values of
    /// 4 KiB from two hundred.
    fn durable(&self) -> Vec<Job> {
        let job = |id: &str, title: &str, value_bytes, pipeline, load| {
            let kind = WorkloadKind::Durable;
            let usual = self.many(format!("durable-{id}"), title.into(), kind, value_bytes);
            let clients = if value_bytes == SMALL { 50 } else { usual.clients };
            let writes_percent = 100;
            Job::strings(Workload { clients, threads: 2, pipeline, writes_percent, ..usual }, load)
        };
        let sends = |line: &str| Load::Commands(vec![line.into()]);
        let hset = sends("HSET h:__key__ field __data__");
        let zadd = sends("ZADD z:__key__ 1 m:__key__");
        let xadd = sends("XADD x:__key__ MAXLEN ~ 100 * field __data__");
        vec![
            job("set-16", "SET, 32 bytes, pipeline 16", SMALL, 16, Load::Mix),
            job("set-1", "SET, 32 bytes, pipeline 1", SMALL, 1, Load::Mix),
            job("hset", "HSET, 32 bytes, pipeline 16", SMALL, 16, hset),
            job("zadd", "ZADD, pipeline 16", SMALL, 16, zadd),
            job("xadd", "XADD, 32 bytes, pipeline 16", SMALL, 16, xadd),
            job("4k-6", "SET, 4 KiB, 200 clients, pipeline 6", 4096, 6, Load::Mix),
            job("4k-1", "SET, 4 KiB, 200 clients, pipeline 1", 4096, 1, Load::Mix),
        ]
    }

    /// Returns SET and GET jobs of fifty clients, as redis-benchmark sends them.
    fn strings(&self) -> Vec<Job> {
        let mut jobs = Vec::new();
        for (size, bytes, value_bytes) in [("32", "32 bytes", SMALL), ("4k", "4 KiB", 4096)] {
            for pipeline in [1, 16] {
                for (name, writes_percent) in [("GET", 0), ("SET", 100)] {
                    let id = format!("strings-{}-{size}-{pipeline}", name.to_ascii_lowercase());
                    let title = format!("{name}, {bytes}, 50 clients, pipeline {pipeline}");
                    let usual = self.many(id, title, WorkloadKind::Strings, value_bytes);
                    let usual = Workload { clients: 50, threads: 1, pipeline, ..usual };
                    jobs.push(Job::strings(Workload { writes_percent, ..usual }, Load::Mix));
                }
            }
        }
        jobs
    }

    fn types(&self) -> Vec<Job> {
        let title = "a mix of strings, lists, hashes, sets, sorted sets and streams".to_owned();
        let usual = self.many("types".into(), title, WorkloadKind::Types, RECORD);
        let mix: Vec<String> = TYPES.lines().map(str::to_owned).collect();
        let mix = Job::commands(usual, self.keys.unwrap_or(FEW_KEYS), mix);
        let single = |Single { id, data, commands }| {
            let kind = WorkloadKind::Type;
            let title = commands.join(" and ").replace("__", "").to_owned();
            let usual = self.many(id.into(), title, kind, SMALL);
            let usual = Workload { clients: 50, threads: 1, pipeline: 16, ..usual };
            let commands = commands.iter().map(|line| (*line).to_owned()).collect();
            Job { data, ..Job::commands(usual, self.keys.unwrap_or(ELEMENTS), commands) }
        };
        std::iter::once(mix).chain(SINGLES.map(single)).collect()
    }

    /// Returns the scripts, and a transaction with as many commands as the long scripts.
    fn scripts(&self) -> Vec<Job> {
        let keys = self.keys.unwrap_or(FEW_KEYS);
        let usual = |id: &str, title: &str| {
            let usual = self.many(id.into(), title.into(), WorkloadKind::Scripts, SMALL);
            Workload { keys, clients: 50, threads: 1, pipeline: 1, ..usual }
        };
        let script = |(id, text): (&str, &'static str)| {
            let workload = Workload { writes_percent: 100, ..usual(id, text) };
            Job { load: Load::Script(text), ..Job::commands(workload, keys, Vec::new()) }
        };
        let mut commands = vec!["SET __key__ __data__".to_owned(); TRANSACTION];
        commands.insert(0, "MULTI".into());
        commands.push("EXEC".into());
        let pipeline = commands.len() as u32;
        let transaction = usual("script-multi", "MULTI, 1000 SET, EXEC by one client");
        let transaction = Workload { clients: 1, pipeline, ..transaction };
        let transaction = Job::commands(transaction, keys, commands);
        SCRIPTS.map(script).into_iter().chain([transaction]).collect()
    }
}

const YCSB: &[(Ycsb, char, u32, &str)] = &[
    (Ycsb::A, 'A', 50, "half reads, half updates"),
    (Ycsb::B, 'B', 5, "95 % reads, 5 % updates"),
    (Ycsb::C, 'C', 0, "reads"),
    (Ycsb::D, 'D', 5, "95 % reads of the latest, 5 % inserts"),
    (Ycsb::E, 'E', 5, "95 % scans, 5 % inserts"),
    (Ycsb::F, 'F', 33, "half reads, half reads with a write of what was read"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_and_generator_share_a_core_only_if_one_waits_for_the_other() {
        let cores = Cores::divide(&[2, 3, 5]);
        assert_eq!((cores.server.as_slice(), cores.generator.as_slice()), (&[2][..], &[3, 5][..]));
        for job in all(&cores, None) {
            let shared = job.workload.server_cores == job.workload.generator_cores;
            let waits = job.workload.clients == 1 && job.workload.pipeline == 1;
            assert_eq!(shared, waits, "{}", job.workload.id);
        }
        let one = Cores::divide(&[4]);
        assert_eq!(one.server, one.generator);
    }

    #[test]
    fn jobs_over_the_same_data_are_a_group() {
        let jobs = all(&Cores::divide(&[0, 1]), None);
        let groups = groups(&jobs);
        let ids = |group: &Vec<Job>| {
            group.iter().map(|job| job.workload.id.clone()).collect::<Vec<_>>().join(" ")
        };
        let ids: Vec<String> = groups.iter().map(ids).collect();
        assert_eq!(ids[0], "throughput-0 throughput-30 throughput-70 throughput-100");
        assert_eq!(ids[1], "latency-0 latency-30 latency-70 latency-100");
        assert_eq!(ids[2..4], ["small-0 small-100", "ycsb-a"]);
        assert!(ids.contains(&"type-hset type-hget".into()), "{ids:?}");
        assert_eq!(groups.iter().map(Vec::len).sum::<usize>(), jobs.len());
    }

    #[test]
    fn every_type_is_written_given_a_ttl_and_deleted() {
        for kind in ["string", "hash", "list", "set", "zset", "stream", "bitmap", "hll"] {
            let key = format!(" {kind}:__key__");
            let of_kind = |command: &str| {
                TYPES.lines().any(|line| line.starts_with(&(command.to_owned() + &key)))
            };
            assert!(of_kind("EXPIRE") && (of_kind("DEL") || of_kind("UNLINK")), "{kind}");
        }
    }
}
