//! What is compared: every way to run Perdura, redis-server and other peers, each with its program,
//! arguments and directory.
//!
//! All of them run under the same conditions: no save points, no memory limit, and no automatic
//! rewriting of a log, which would fall into some runs and not into others. A server gets one core,
//! and Perdura one thread, since redis-server executes commands on one thread.

use super::names::choose;
use super::options::{Programs, Variants};
use crate::machine;
use crate::results::{Durability, Family, Skipped, System, Version};
use crate::server::Launch;
use std::env;
use std::path::{Path, PathBuf};

/// The label of a pool in `/dev/shm`.
const ON_DRAM: &str = "flushes and fences run on DRAM: a power loss is not survived";

/// The label of a journal in `/dev/shm`.
const JOURNAL_IN_DRAM: &str = "the journal is in DRAM: a power loss is not survived";

/// The maximum size of a pool; its file grows on demand.
const POOL_SIZE: &str = "64gb";

/// Sync policies: the directive's value, its title, and the durability that it promises.
const POLICIES: [(&str, &str, Durability); 3] = [
    ("always", "always", Durability::Always),
    ("everysec", "everysec", Durability::EverySecond),
    ("no", "no sync", Durability::Kernel),
];

/// A directory in which systems may store their data.
#[derive(Clone, Debug)]
pub(crate) struct Ground {
    /// `disk`, `memory`, `second` or `dax`.
    pub(crate) id: &'static str,
    pub(crate) path: PathBuf,
}

/// A system and what is needed to start it.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    /// The system as the results describe it.
    pub(crate) system: System,
    pub(crate) program: PathBuf,
    /// The directory in which the server gets a directory of its own.
    pub(crate) place: PathBuf,
    /// The directory of its journal, if that is in another place.
    pub(crate) journal: Option<PathBuf>,
}

impl Candidate {
    /// Returns how the server is started: on these cores, or on any if the list is empty.
    pub(crate) fn launch(&self, cores: &[usize]) -> Launch {
        Launch {
            program: self.program.clone(),
            arguments: self.system.command[1..].to_vec(),
            place: self.place.clone(),
            journal: self.journal.clone(),
            cores: cores.to_vec(),
        }
    }
}

/// The available systems, and what had to be skipped.
#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) skipped: Vec<Skipped>,
}

impl Catalogue {
    /// Returns all systems that the options allow, without regard to `--systems`.
    pub(crate) fn new(programs: &Programs, variants: &Variants, grounds: &[Ground]) -> Catalogue {
        let mut catalogue = Catalogue::default();
        catalogue.perdura(programs, variants, grounds);
        match on_path("redis-server") {
            Some(program) => catalogue.peer("redis", "Redis", Family::Redis, &program, grounds),
            None => catalogue.skip("redis-server", "it is not on the PATH"),
        }
        for (name, program) in &programs.peer {
            catalogue.peer(name, name, Family::Peer, program, grounds);
        }
        catalogue
    }

    /// Keeps the systems that a name in `wanted` selects, or all if it is empty. Fails if a name
    /// selects none.
    pub(crate) fn choose(&mut self, wanted: &[String]) -> Result<(), String> {
        if wanted.is_empty() {
            return Ok(());
        }
        choose(&mut self.candidates, wanted, "system", |candidate| &candidate.system.id)
    }

    fn skip(&mut self, what: &str, why: &str) {
        self.skipped.push(Skipped { what: what.into(), why: why.into() });
    }

    fn perdura(&mut self, programs: &Programs, variants: &Variants, grounds: &[Ground]) {
        let program = programs.perdura_server();
        self.pools(variants, &program, grounds);
        self.journals(&program, grounds);
        for (id, title, durability) in POLICIES {
            let draft = Draft {
                id: format!("perdura-aof-{id}"),
                title: format!("Perdura AOF {title}"),
                family: Family::PerduraAof,
                durability,
                program: &program,
                arguments: perdura(&["--backend", "aof", "--appendfsync", id]),
            };
            self.on_disks(&draft, grounds);
        }
        let volatile = Draft {
            id: "perdura-volatile".into(),
            title: "Perdura volatile".into(),
            family: Family::PerduraVolatile,
            durability: Durability::None,
            program: &program,
            arguments: perdura(&["--backend", "aof", "--appendonly", "no", "--save", ""]),
        };
        self.on(&volatile, of(grounds, "memory"));
        let further = programs.with.split_whitespace().map(str::to_owned);
        for candidate in &mut self.candidates {
            candidate.system.command.extend(further.clone());
        }
    }

    /// Adds the pool, on the DAX mount if there is one, and the pool on each emulated medium. Each
    /// is added with a read cache too if one was requested.
    fn pools(&mut self, variants: &Variants, program: &Path, grounds: &[Ground]) {
        let dax = of(grounds, "dax");
        let ground = dax.or_else(|| of(grounds, "memory"));
        let own = ["--backend", "pmem", "--pool", "perdura.pool", "--pool-size", POOL_SIZE];
        let on_dram: &[&str] =
            if dax.is_some() { &[] } else { &["--domain", "clwb", "--emulate-pmem"] };
        let draft = |id: String, title: String, program, more: &[&str]| Draft {
            id,
            title,
            family: Family::PerduraPmem,
            durability: Durability::Always,
            program,
            arguments: perdura(&[&own, on_dram, more].concat()),
        };
        let label = dax.is_none().then(|| ON_DRAM.to_owned());
        let mut media =
            vec![("perdura-pmem".into(), "Perdura PMEM".into(), program, vec![], label)];
        let emulating = variants.media_server.as_deref().unwrap_or(program);
        for medium in &variants.media {
            let label =
                format!("delays of {medium} are added to DRAM: a power loss is not survived");
            let (id, title) =
                (format!("perdura-pmem-{medium}"), format!("Perdura PMEM, as on {medium}"));
            let more = vec!["--emulate-media", medium.as_str()];
            media.push((id, title, emulating, more, Some(label)));
        }
        for (id, title, program, more, label) in media {
            let mut pools = vec![draft(id.clone(), title.clone(), program, &more)];
            if let Some(size) = &variants.read_cache {
                let more = [&more[..], &["--read-cache", size]].concat();
                let (id, title) = (format!("{id}-cache"), format!("{title}, read cache of {size}"));
                pools.push(draft(id, title, program, &more));
            }
            for variant in pools {
                if let Some(candidate) = self.on(&variant, ground) {
                    candidate.system.emulated.clone_from(&label);
                }
            }
        }
    }

    /// Adds the pool on a disk with a journal, under each sync policy, and the pool on a disk with
    /// a journal on the DAX mount or, without one, in memory.
    fn journals(&mut self, program: &Path, grounds: &[Ground]) {
        let own = ["--backend", "journal", "--pool", "perdura.pool", "--pool-size", POOL_SIZE];
        let draft = |id: &str, title: &str, durability, more: &[&str]| Draft {
            id: format!("perdura-journal-{id}"),
            title: format!("Perdura journal{title}"),
            family: Family::PerduraJournal,
            durability,
            program,
            arguments: perdura(&[&own, more].concat()),
        };
        let disks: Vec<Ground> =
            grounds.iter().filter(|g| matches!(g.id, "disk" | "second")).cloned().collect();
        for (id, title, durability) in POLICIES {
            let policy = ["--appendfsync", id];
            self.on_disks(&draft(id, &format!(" {title}"), durability, &policy), &disks);
        }
        let Some(tail) = of(grounds, "dax").or_else(|| of(grounds, "memory")) else { return };
        let mut more = vec!["--appendfsync", "always", "--journal", "JOURNAL"];
        if tail.id != "dax" {
            more.extend(["--emulate-pmem", "yes"]);
        }
        let draft = draft("tail", ", on persistent memory", Durability::Always, &more);
        if let Some(candidate) = self.on(&draft, of(grounds, "disk")) {
            candidate.journal = Some(tail.path.clone());
            candidate.system.emulated = (tail.id != "dax").then(|| JOURNAL_IN_DRAM.to_owned());
        }
    }

    /// Adds redis-server or another server that takes its arguments.
    fn peer(&mut self, id: &str, title: &str, family: Family, program: &Path, grounds: &[Ground]) {
        let draft = |what: &str, title: String, durability, more: &[&str]| Draft {
            id: format!("{id}-{what}"),
            title,
            family,
            durability,
            program,
            arguments: words(&[&["--save", ""], more].concat()),
        };
        for (policy, _, durability) in &POLICIES[..2] {
            let no_rewrite = ["--auto-aof-rewrite-percentage", "0"];
            let more =
                [&["--appendonly", "yes", "--appendfsync", policy][..], &no_rewrite].concat();
            let title = format!("{title} AOF {policy}");
            self.on_disks(&draft(policy, title, *durability, &more), grounds);
        }
        let volatile = format!("{title} volatile");
        let draft = draft("off", volatile, Durability::None, &["--appendonly", "no"]);
        self.on(&draft, of(grounds, "memory"));
    }

    /// Adds a system on the disk, and again on the second device and on the DAX mount if these are
    /// among `grounds`.
    fn on_disks(&mut self, draft: &Draft<'_>, grounds: &[Ground]) {
        for ground in grounds.iter().filter(|ground| ground.id != "memory") {
            let added = self.on(draft, Some(ground));
            if let (Some(candidate), "second" | "dax") = (added, ground.id) {
                let system = &mut candidate.system;
                system.id = format!("{}@{}", system.id, ground.id);
                system.title = format!("{} on {}", system.title, ground.id);
            }
        }
    }

    /// Adds a system on a ground; adds nothing if the ground is `None`.
    fn on(&mut self, draft: &Draft<'_>, ground: Option<&Ground>) -> Option<&mut Candidate> {
        let ground = ground?;
        let program = draft.program;
        let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy();
        let mut command = vec![name.into_owned()];
        command.extend(words(&["--port", "PORT", "--bind", "127.0.0.1", "--dir", "DIR"]));
        command.extend_from_slice(&draft.arguments);
        let system = System {
            id: draft.id.clone(),
            title: draft.title.clone(),
            family: draft.family,
            durability: draft.durability,
            place: ground.id.to_owned(),
            domain: None,
            emulated: None,
            command,
        };
        let (program, place) = (program.to_owned(), ground.path.clone());
        self.candidates.push(Candidate { system, program, place, journal: None });
        self.candidates.last_mut()
    }
}

/// A system before its directory is chosen.
struct Draft<'a> {
    id: String,
    title: String,
    family: Family,
    durability: Durability,
    program: &'a Path,
    arguments: Vec<String>,
}

fn of<'a>(grounds: &'a [Ground], id: &str) -> Option<&'a Ground> {
    grounds.iter().find(|ground| ground.id == id)
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn perdura(own: &[&str]) -> Vec<String> {
    let common = ["--threads", "1", "--maxmemory", "0", "--auto-aof-rewrite-percentage", "0"];
    words(&[&common, own].concat())
}

/// Returns the versions of the programs of systems.
pub(crate) fn versions<'a>(candidates: impl IntoIterator<Item = &'a Candidate>) -> Vec<Version> {
    let mut versions: Vec<Version> = Vec::new();
    for Candidate { system, program, .. } in candidates {
        let name = match system.family {
            Family::Peer => system.id.split('-').next().unwrap_or_default(),
            _ => &system.command[0],
        };
        if !versions.iter().any(|known| known.program == name) {
            versions.push(machine::version(name, program));
        }
    }
    versions
}

/// Returns the first file of that name in the directories of the PATH.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grounds(ids: &[&'static str]) -> Vec<Ground> {
        ids.iter().map(|id| Ground { id, path: PathBuf::from("/dev/shm") }).collect()
    }

    fn catalogue(ids: &[&'static str]) -> Catalogue {
        Catalogue::new(&Programs::default(), &Variants::default(), &grounds(ids))
    }

    fn ids(catalogue: &Catalogue) -> Vec<&str> {
        let ours = catalogue.candidates.iter().filter(|c| c.system.family != Family::Redis);
        ours.map(|candidate| candidate.system.id.as_str()).collect()
    }

    #[test]
    fn each_log_is_tried_on_each_device() {
        let catalogue = catalogue(&["disk", "memory", "second"]);
        let expected = [
            "perdura-pmem",
            "perdura-journal-always",
            "perdura-journal-always@second",
            "perdura-journal-everysec",
            "perdura-journal-everysec@second",
            "perdura-journal-no",
            "perdura-journal-no@second",
            "perdura-journal-tail",
            "perdura-aof-always",
            "perdura-aof-always@second",
            "perdura-aof-everysec",
            "perdura-aof-everysec@second",
            "perdura-aof-no",
            "perdura-aof-no@second",
            "perdura-volatile",
        ];
        assert_eq!(ids(&catalogue), expected);
    }

    #[test]
    fn a_pool_outside_of_dax_is_labelled() {
        let variants = Variants { media: vec!["optane".into()], ..Variants::default() };
        let variants = Variants { read_cache: Some("64mb".into()), ..variants };
        let places = grounds(&["disk", "memory"]);
        let mut found = Catalogue::new(&Programs::default(), &variants, &places);
        found.choose(&["perdura-pmem".into()]).expect("it is there");
        let expected = [
            "perdura-pmem",
            "perdura-pmem-cache",
            "perdura-pmem-optane",
            "perdura-pmem-optane-cache",
        ];
        assert_eq!(ids(&found), expected);
        assert!(found.candidates.iter().all(|c| c.system.emulated.is_some()));

        let dax = catalogue(&["disk", "memory", "dax"]);
        let pool = &dax.candidates[0].system;
        assert_eq!((pool.place.as_str(), &pool.emulated), ("dax", &None));
        assert!(!pool.command.contains(&"--emulate-pmem".to_owned()), "{:?}", pool.command);
    }

    #[test]
    fn a_journal_is_on_persistent_memory_or_labelled() {
        let tail = |ids: &[&'static str]| {
            let found = catalogue(ids).candidates.into_iter();
            found.filter(|c| c.system.id == "perdura-journal-tail").collect::<Vec<_>>()
        };
        let [found] = &tail(&["disk", "memory"])[..] else { panic!("one") };
        assert_eq!(found.system.emulated.as_deref(), Some(JOURNAL_IN_DRAM));
        assert!(found.journal.is_some() && found.system.place == "disk");
        let command = &found.system.command;
        assert!(command.windows(2).any(|two| two == ["--journal", "JOURNAL"]), "{command:?}");
        let [found] = &tail(&["disk", "memory", "dax"])[..] else { panic!("one") };
        assert_eq!(found.system.emulated, None);
        assert!(tail(&["disk"]).is_empty());
    }
}
