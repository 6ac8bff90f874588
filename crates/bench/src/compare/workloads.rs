//! What each system is given to do.
//!
//! Throughput and latency: values of 4 KiB, 4 threads of 50 clients with 6 commands on their way
//! each, or one client that waits. For throughput, server and generator have cores of their own.
//! For the latency of one client both share one: on two, most of the time would be what the
//! machine takes to wake a core up.

use crate::load::Ycsb;
use crate::results::{Durability, Family, System, Workload, WorkloadKind};

/// Bytes of all values together, where `--keys` says nothing else.
const DATA: u64 = 80 << 20;

/// As many keys as small values get.
const MOST_KEYS: u64 = 200_000;

/// Bytes of a small value.
const SMALL: usize = 32;

/// Bytes of a record of YCSB: ten fields of a hundred.
const RECORD: usize = 1000;

/// Bytes of a value in the mix of types.
const ELEMENT: usize = 100;

/// Commands of the mix of types.
const TYPES: [&str; 11] = [
    "SET __key__ __data__",
    "GET __key__",
    "INCR n:__key__",
    "LPUSH l:__key__ __data__",
    "RPOP l:__key__",
    "HSET h:__key__ field __data__",
    "HGET h:__key__ field",
    "SADD s:__key__ __data__",
    "SISMEMBER s:__key__ __data__",
    "ZADD z:__key__ 1 __data__",
    "ZRANGE z:__key__ 0 9",
];

/// The share of writes among them, in percent.
const TYPES_WRITES: u32 = 63;

/// Writes of one command.
struct Durable {
    id: &'static str,
    title: &'static str,
    value_bytes: usize,
    clients: u32,
    pipeline: u32,
    /// The command that is sent, if it is not SET.
    command: Option<&'static str>,
}

impl Durable {
    /// Small values from fifty clients.
    const fn small(id: &'static str, title: &'static str, pipeline: u32) -> Durable {
        Durable { id, title, value_bytes: SMALL, clients: 50, pipeline, command: None }
    }

    /// Values of 4 KiB from two hundred clients.
    const fn large(id: &'static str, title: &'static str, pipeline: u32) -> Durable {
        Durable { id, title, value_bytes: 4096, clients: 200, pipeline, command: None }
    }

    const fn sends(self, command: &'static str) -> Durable {
        Durable { command: Some(command), ..self }
    }
}

const DURABLE: [Durable; 7] = [
    Durable::small("durable-set-16", "SET, 32 bytes, pipeline 16", 16),
    Durable::small("durable-set-1", "SET, 32 bytes, pipeline 1", 1),
    Durable::small("durable-hset", "HSET, 32 bytes, pipeline 16", 16)
        .sends("HSET h:__key__ field __data__"),
    Durable::small("durable-zadd", "ZADD, pipeline 16", 16).sends("ZADD z:__key__ 1 m:__key__"),
    Durable::small("durable-xadd", "XADD, 32 bytes, pipeline 16", 16)
        .sends("XADD x:__key__ MAXLEN ~ 100 * field __data__"),
    Durable::large("durable-4k-6", "SET, 4 KiB, 200 clients, pipeline 6", 6),
    Durable::large("durable-4k-1", "SET, 4 KiB, 200 clients, pipeline 1", 1),
];

/// What the generator sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Load {
    /// SET and GET.
    Mix,
    /// A workload of YCSB.
    Ycsb(Ycsb),
    /// These commands in turn.
    Commands(Vec<&'static str>),
}

/// A workload with what the generator sends for it.
#[derive(Clone, Debug)]
pub(super) struct Job {
    /// What the results say of it.
    pub(super) workload: Workload,
    /// What is sent.
    pub(super) load: Load,
}

impl Job {
    /// Returns true if a system is given this to do: durable writes say something of systems that
    /// promise them on a disk, and there of the journal and its peers.
    pub(super) fn is_for(&self, system: &System) -> bool {
        let on_disk = matches!(system.place.as_str(), "disk" | "second");
        let promises = matches!(system.durability, Durability::Always | Durability::EverySecond);
        let family = matches!(system.family, Family::PerduraJournal | Family::Redis | Family::Peer);
        self.workload.kind != WorkloadKind::Durable || (on_disk && promises && family)
    }

    /// Returns true if it leaves keys and values as it finds them, so that a job of the same group
    /// can follow in the same server.
    fn continues(&self, other: &Job) -> bool {
        let (a, b) = (&self.workload, &other.workload);
        let same = a.kind == b.kind && (a.keys, a.value_bytes) == (b.keys, b.value_bytes);
        same && self.load == Load::Mix && other.load == Load::Mix
    }
}

/// Jobs that one server can do one after the other, over data that it is filled with once: the
/// fewest writes come first, so that no reads are measured while a disk still works on what was
/// written before.
pub(super) fn groups(jobs: &[Job]) -> Vec<Vec<Job>> {
    jobs.chunk_by(|before, after| after.continues(before)).map(<[Job]>::to_vec).collect()
}

/// The cores of this machine, divided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cores {
    /// The server's.
    pub(super) server: Vec<usize>,
    /// The generator's.
    pub(super) generator: Vec<usize>,
}

impl Cores {
    /// Returns the first core for the server, the others for the generator. With one core they
    /// share it.
    pub(super) fn divide(all: &[usize]) -> Cores {
        match all {
            [] => Cores { server: Vec::new(), generator: Vec::new() },
            [only] => Cores { server: vec![*only], generator: vec![*only] },
            [first, others @ ..] => Cores { server: vec![*first], generator: others.to_vec() },
        }
    }
}

/// Returns all workloads, in the order in which they are shown.
pub(super) fn all(cores: &Cores, keys: Option<u64>) -> Vec<Job> {
    let keys = |value: usize| keys.unwrap_or_else(|| (DATA / value as u64).min(MOST_KEYS));
    let many =
        |id: String, title: String, kind, writes, value_bytes, distribution: &str| Workload {
            id,
            title,
            kind,
            writes_percent: writes,
            value_bytes,
            keys: keys(value_bytes),
            distribution: distribution.into(),
            clients: 200,
            threads: 4,
            pipeline: 6,
            server_cores: cores.server.clone(),
            generator_cores: cores.generator.clone(),
        };
    let mut jobs = Vec::new();
    let mut add = |workload, load| jobs.push(Job { workload, load });
    for writes in [0, 30, 70, 100] {
        let (id, title) =
            (format!("throughput-{writes}"), format!("4 KiB, 200 clients, {writes} % writes"));
        add(many(id, title, WorkloadKind::Throughput, writes, 4096, "uniform"), Load::Mix);
    }
    for writes in [0, 30, 70, 100] {
        let (id, title) =
            (format!("latency-{writes}"), format!("4 KiB, one client, {writes} % writes"));
        let workload = Workload {
            clients: 1,
            threads: 1,
            pipeline: 1,
            generator_cores: cores.server.clone(),
            ..many(id, title, WorkloadKind::Latency, writes, 4096, "uniform")
        };
        add(workload, Load::Mix);
    }
    for writes in [0, 100] {
        let (id, title) =
            (format!("small-{writes}"), format!("32 bytes, 200 clients, {writes} % writes"));
        add(many(id, title, WorkloadKind::Small, writes, SMALL, "uniform"), Load::Mix);
    }
    for (ycsb, letter, writes, what) in YCSB {
        let (id, title) =
            (format!("ycsb-{}", letter.to_ascii_lowercase()), format!("YCSB {letter}: {what}"));
        let distribution = if *ycsb == Ycsb::D { "latest" } else { "Zipf 0.99" };
        let workload = many(id, title, WorkloadKind::Ycsb, *writes, RECORD, distribution);
        add(workload, Load::Ycsb(*ycsb));
    }
    for Durable { id, title, value_bytes, clients, pipeline, command } in DURABLE {
        let kind = WorkloadKind::Durable;
        let usual = many(id.into(), title.into(), kind, 100, value_bytes, "uniform");
        let load = command.map_or(Load::Mix, |line| Load::Commands(vec![line]));
        add(Workload { clients, threads: 2, pipeline, ..usual }, load);
    }
    let title = "strings, lists, hashes, sets and sorted sets".to_owned();
    let kind = WorkloadKind::Types;
    let mix = many("types".into(), title, kind, TYPES_WRITES, ELEMENT, "uniform");
    add(mix, Load::Commands(TYPES.to_vec()));
    jobs
}

const YCSB: &[(Ycsb, char, u32, &str)] = &[
    (Ycsb::A, 'A', 50, "half reads, half updates"),
    (Ycsb::B, 'B', 5, "95 % reads, 5 % updates"),
    (Ycsb::C, 'C', 0, "reads"),
    (Ycsb::D, 'D', 5, "95 % reads of the latest, 5 % inserts"),
    (Ycsb::E, 'E', 5, "95 % scans, 5 % inserts"),
    (Ycsb::F, 'F', 33, "half reads, half reads with a write of what was read"),
];

/// Leaves the workloads whose names begin with one of `wanted`; names one of these that fits
/// nothing.
pub(super) fn choose(jobs: &mut Vec<Job>, wanted: &[String]) -> Result<(), String> {
    let fits = |wanted: &str, id: &str| {
        id == wanted || id.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('-'))
    };
    for name in wanted {
        if !jobs.iter().any(|job| fits(name, &job.workload.id)) {
            let all: Vec<_> = jobs.iter().map(|job| job.workload.id.as_str()).collect();
            return Err(format!("no workload {name}; there are: {}", all.join(", ")));
        }
    }
    jobs.retain(|job| wanted.iter().any(|name| fits(name, &job.workload.id)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_and_generator_share_a_core_only_for_one_client() {
        let cores = Cores::divide(&[2, 3, 5]);
        assert_eq!((cores.server.as_slice(), cores.generator.as_slice()), (&[2][..], &[3, 5][..]));
        for job in all(&cores, None) {
            let shared = job.workload.server_cores == job.workload.generator_cores;
            assert_eq!(shared, job.workload.clients == 1, "{}", job.workload.id);
        }
        let one = Cores::divide(&[4]);
        assert_eq!(one.server, one.generator);
    }

    #[test]
    fn workloads_are_chosen_by_name() {
        let cores = Cores::divide(&[0, 1]);
        let mut jobs = all(&cores, None);
        choose(&mut jobs, &["latency".into(), "ycsb-a".into()]).expect("known");
        let ids: Vec<_> = jobs.iter().map(|job| job.workload.id.as_str()).collect();
        assert_eq!(ids, ["latency-0", "latency-30", "latency-70", "latency-100", "ycsb-a"]);
        let mut jobs = all(&cores, None);
        let error = choose(&mut jobs, &["through".into()]).expect_err("half a name");
        assert!(error.contains("no workload through"), "{error}");
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
        assert_eq!(groups.iter().map(Vec::len).sum::<usize>(), jobs.len());
    }
}
