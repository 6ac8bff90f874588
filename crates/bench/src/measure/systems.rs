//! The systems that are measured, by name, with their arguments.
//!
//! None rewrites its log by itself, which would happen in some runs and not in others.

/// Which program a system runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    Perdura,
    Redis,
}

/// A way to run a server.
#[derive(Debug)]
pub(crate) struct System {
    pub(super) name: &'static str,
    pub(super) program: Program,
    arguments: &'static [&'static [&'static str]],
    /// Whether its directory must be on a disk.
    pub(super) is_on_disk: bool,
}

impl System {
    /// Returns its arguments; a caller replaces `PORT` and `DIR`.
    pub(super) fn arguments(&self) -> Vec<String> {
        let place = ["--port", "PORT", "--bind", "127.0.0.1", "--dir", "DIR"];
        let own = self.arguments.iter().copied().flatten().copied();
        place.into_iter().chain(own).map(str::to_owned).collect()
    }

    /// Returns true if it is a pool with a journal.
    pub(super) fn has_journal(&self) -> bool {
        self.arguments.contains(&JOURNAL)
    }
}

const REDIS_AOF: &[&str] =
    &["--save", "", "--appendonly", "yes", "--auto-aof-rewrite-percentage", "0", "--appendfsync"];
const ONE_THREAD: &[&str] = &["--threads", "1"];
const NO_LIMIT: &[&str] = &["--maxmemory", "0"];
const VOLATILE: &[&str] = &["--backend", "aof", "--appendonly", "no", "--save", ""];
const PERDURA_AOF: &[&str] =
    &["--backend", "aof", "--auto-aof-rewrite-percentage", "0", "--appendfsync"];
const POOL: &[&str] = &["--backend", "pmem", "--pool", "perdura.pool", "--pool-size", "16gb"];

const JOURNAL: &[&str] =
    &["--backend", "journal", "--pool", "perdura.pool", "--pool-size", "16gb", "--appendfsync"];

const fn in_memory(
    name: &'static str,
    program: Program,
    arguments: &'static [&'static [&'static str]],
) -> System {
    System { name, program, arguments, is_on_disk: false }
}

const fn on_disk(
    name: &'static str,
    program: Program,
    arguments: &'static [&'static [&'static str]],
) -> System {
    System { name, program, arguments, is_on_disk: true }
}

/// All of them.
pub(super) const SYSTEMS: [System; 12] = {
    use Program::{Perdura, Redis};
    [
        in_memory("redis none", Redis, &[&["--save", "", "--appendonly", "no"]]),
        on_disk("redis everysec", Redis, &[REDIS_AOF, &["everysec"]]),
        on_disk("redis always", Redis, &[REDIS_AOF, &["always"]]),
        on_disk(
            "redis everysec, no RDB base",
            Redis,
            &[REDIS_AOF, &["everysec", "--aof-use-rdb-preamble", "no"]],
        ),
        in_memory("perdura volatile", Perdura, &[ONE_THREAD, NO_LIMIT, VOLATILE]),
        in_memory("perdura volatile all cores", Perdura, &[NO_LIMIT, VOLATILE]),
        in_memory(
            "perdura pmem emulated",
            Perdura,
            &[ONE_THREAD, NO_LIMIT, POOL, &["--domain", "clwb", "--emulate-pmem"]],
        ),
        in_memory(
            "perdura pmem process",
            Perdura,
            &[ONE_THREAD, NO_LIMIT, POOL, &["--domain", "process"]],
        ),
        on_disk(
            "perdura aof everysec",
            Perdura,
            &[ONE_THREAD, NO_LIMIT, PERDURA_AOF, &["everysec"]],
        ),
        on_disk("perdura aof always", Perdura, &[ONE_THREAD, NO_LIMIT, PERDURA_AOF, &["always"]]),
        on_disk(
            "perdura journal everysec",
            Perdura,
            &[ONE_THREAD, NO_LIMIT, JOURNAL, &["everysec"]],
        ),
        on_disk("perdura journal always", Perdura, &[ONE_THREAD, NO_LIMIT, JOURNAL, &["always"]]),
    ]
};

/// Returns the system of a name: a comma in a name can be left out, since it separates names.
pub(super) fn named(name: &str) -> Option<&'static System> {
    SYSTEMS.iter().find(|system| system.name == name || system.name.replace(',', "") == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_are_found_by_name() {
        for system in &SYSTEMS {
            assert_eq!(named(system.name).map(|found| found.name), Some(system.name));
        }
        let found = named("redis everysec no RDB base").map(|found| found.name);
        assert_eq!(found, Some("redis everysec, no RDB base"));
        assert!(named("redis").is_none());
    }

    #[test]
    fn arguments_begin_with_the_place() {
        let arguments = SYSTEMS[2].arguments();
        assert_eq!(arguments[..2], ["--port", "PORT"]);
        assert_eq!(arguments[arguments.len() - 2..], ["--appendfsync", "always"]);
    }
}
