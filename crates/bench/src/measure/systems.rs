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
const PERDURA: &[&str] = &["--threads", "1", "--maxmemory", "0"];
const PERDURA_AOF: &[&str] =
    &["--backend", "aof", "--auto-aof-rewrite-percentage", "0", "--appendfsync"];
const POOL: &[&str] = &["--backend", "pmem", "--pool", "perdura.pool", "--pool-size", "16gb"];

const JOURNAL: &[&str] =
    &["--backend", "journal", "--pool", "perdura.pool", "--pool-size", "16gb", "--appendfsync"];

/// All of them.
pub(super) const SYSTEMS: [System; 12] = [
    System {
        name: "redis none",
        program: Program::Redis,
        arguments: &[&["--save", "", "--appendonly", "no"]],
        is_on_disk: false,
    },
    System {
        name: "redis everysec",
        program: Program::Redis,
        arguments: &[REDIS_AOF, &["everysec"]],
        is_on_disk: true,
    },
    System {
        name: "redis always",
        program: Program::Redis,
        arguments: &[REDIS_AOF, &["always"]],
        is_on_disk: true,
    },
    System {
        name: "redis everysec, no RDB base",
        program: Program::Redis,
        arguments: &[REDIS_AOF, &["everysec", "--aof-use-rdb-preamble", "no"]],
        is_on_disk: true,
    },
    System {
        name: "perdura volatile",
        program: Program::Perdura,
        arguments: &[PERDURA, &["--backend", "aof", "--appendonly", "no", "--save", ""]],
        is_on_disk: false,
    },
    System {
        name: "perdura volatile all cores",
        program: Program::Perdura,
        arguments: &[&["--maxmemory", "0", "--backend", "aof", "--appendonly", "no", "--save", ""]],
        is_on_disk: false,
    },
    System {
        name: "perdura pmem emulated",
        program: Program::Perdura,
        arguments: &[PERDURA, POOL, &["--domain", "clwb", "--emulate-pmem"]],
        is_on_disk: false,
    },
    System {
        name: "perdura pmem process",
        program: Program::Perdura,
        arguments: &[PERDURA, POOL, &["--domain", "process"]],
        is_on_disk: false,
    },
    System {
        name: "perdura aof everysec",
        program: Program::Perdura,
        arguments: &[PERDURA, PERDURA_AOF, &["everysec"]],
        is_on_disk: true,
    },
    System {
        name: "perdura aof always",
        program: Program::Perdura,
        arguments: &[PERDURA, PERDURA_AOF, &["always"]],
        is_on_disk: true,
    },
    System {
        name: "perdura journal everysec",
        program: Program::Perdura,
        arguments: &[PERDURA, JOURNAL, &["everysec"]],
        is_on_disk: true,
    },
    System {
        name: "perdura journal always",
        program: Program::Perdura,
        arguments: &[PERDURA, JOURNAL, &["always"]],
        is_on_disk: true,
    },
];

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
