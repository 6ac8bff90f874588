//! What is compared: every way to run Perdura, redis-server and other peers, each with its program,
//! arguments and place.
//!
//! All of them are set to the same terms: no save points, no limit of memory, and no automatic
//! rewriting of a log, which would fall into some runs and not into others. A server has one core,
//! and Perdura one thread for it, since redis-server executes on one.

use super::options::Options;
use crate::results::{Durability, Family, Skipped, System};
use std::env;
use std::path::{Path, PathBuf};

/// What is next to every figure of a pool in `/dev/shm`.
const ON_DRAM: &str = "flushes and fences run on DRAM: a power loss is not survived";

/// What is next to every figure of a journal in `/dev/shm`.
const JOURNAL_IN_DRAM: &str = "the journal is in DRAM: a power loss is not survived";

/// Address space of a pool; its file grows as it is needed.
const POOL_SIZE: &str = "64gb";

/// When a write to a file is synced: the directive's value, its title, the promise.
const POLICIES: [(&str, &str, Durability); 3] = [
    ("always", "always", Durability::Always),
    ("everysec", "everysec", Durability::EverySecond),
    ("no", "no sync", Durability::Kernel),
];

/// A directory that systems may be given.
#[derive(Clone, Debug)]
pub(super) struct Ground {
    /// `disk`, `memory`, `second` or `dax`.
    pub(super) id: &'static str,
    /// Where it is.
    pub(super) path: PathBuf,
}

/// A system with what is needed to start it.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    /// What the results say of it.
    pub(super) system: System,
    /// The program.
    pub(super) program: PathBuf,
    /// The directory below which it gets one of its own.
    pub(super) place: PathBuf,
    /// The directory of its journal, if that is elsewhere.
    pub(super) journal: Option<PathBuf>,
}

/// The systems, and those that could not be had.
#[derive(Debug, Default)]
pub(super) struct Catalogue {
    pub(super) candidates: Vec<Candidate>,
    pub(super) skipped: Vec<Skipped>,
}

impl Catalogue {
    /// Returns all systems that the options allow, whatever `--systems` says.
    pub(super) fn new(options: &Options, grounds: &[Ground]) -> Catalogue {
        let mut catalogue = Catalogue::default();
        catalogue.perdura(options, grounds);
        match on_path("redis-server") {
            Some(program) => catalogue.peer("redis", "Redis", Family::Redis, &program, grounds),
            None => catalogue.skip("redis-server", "it is not on the PATH"),
        }
        for (name, program) in &options.peer {
            catalogue.peer(name, name, Family::Peer, program, grounds);
        }
        catalogue
    }

    /// Leaves those whose names begin with one of `wanted`; names one of these that fits nothing.
    pub(super) fn choose(&mut self, wanted: &[String]) -> Result<(), String> {
        let fits = |wanted: &str, id: &str| {
            id == wanted || id.strip_prefix(wanted).is_some_and(|rest| rest.starts_with(['-', '@']))
        };
        for name in wanted {
            if !self.candidates.iter().any(|candidate| fits(name, &candidate.system.id)) {
                let all: Vec<_> = self.candidates.iter().map(|c| c.system.id.as_str()).collect();
                return Err(format!("no system {name}; there are: {}", all.join(", ")));
            }
        }
        if !wanted.is_empty() {
            let chosen =
                |candidate: &Candidate| wanted.iter().any(|name| fits(name, &candidate.system.id));
            self.candidates.retain(chosen);
        }
        Ok(())
    }

    fn skip(&mut self, what: &str, why: &str) {
        self.skipped.push(Skipped { what: what.into(), why: why.into() });
    }

    fn perdura(&mut self, options: &Options, grounds: &[Ground]) {
        let program = options.perdura_server();
        self.pools(options, &program, grounds);
        self.journals(&program, grounds);
        for (id, title, durability) in POLICIES {
            let arguments = perdura(&["--backend", "aof", "--appendfsync", id]);
            let named = Named::new(&format!("perdura-aof-{id}"), &format!("Perdura AOF {title}"));
            self.on_disks(&named, Family::PerduraAof, durability, &program, &arguments, grounds);
        }
        if let Some(memory) = grounds.iter().find(|ground| ground.id == "memory") {
            let named = Named::new("perdura-volatile", "Perdura volatile");
            let arguments = perdura(&["--backend", "aof", "--appendonly", "no", "--save", ""]);
            self.add(
                &named,
                Family::PerduraVolatile,
                Durability::None,
                &program,
                &arguments,
                memory,
            );
        }
    }

    /// Adds the pool, on the DAX mount when there is one, and as if on slower media.
    fn pools(&mut self, options: &Options, program: &Path, grounds: &[Ground]) {
        let dax = grounds.iter().find(|ground| ground.id == "dax");
        let Some(ground) = dax.or_else(|| grounds.iter().find(|ground| ground.id == "memory"))
        else {
            return;
        };
        let pool = |more: &[&str]| {
            let own = ["--backend", "pmem", "--pool", "perdura.pool", "--pool-size", POOL_SIZE];
            let emulation: &[&str] =
                if dax.is_some() { &[] } else { &["--domain", "clwb", "--emulate-pmem"] };
            perdura(&[&own, emulation, more].concat())
        };
        let mut add = |named: &Named, program: &Path, more: &[&str], label: Option<String>| {
            let (family, always) = (Family::PerduraPmem, Durability::Always);
            self.add(named, family, always, program, &pool(more), ground);
            if let Some(last) = self.candidates.last_mut() {
                last.system.emulated = label;
            }
        };
        let on_dram = dax.is_none().then(|| ON_DRAM.to_owned());
        let mut media =
            vec![(Named::new("perdura-pmem", "Perdura PMEM"), program, Vec::new(), on_dram)];
        let emulating = options.media_server.as_deref().unwrap_or(program);
        for medium in &options.media {
            let named = Named::new(
                &format!("perdura-pmem-{medium}"),
                &format!("Perdura PMEM, as on {medium}"),
            );
            let label =
                format!("delays of {medium} are added to DRAM: a power loss is not survived");
            media.push((named, emulating, vec!["--emulate-media", medium.as_str()], Some(label)));
        }
        for (named, program, more, label) in media {
            add(&named, program, &more, label.clone());
            if let Some(size) = &options.read_cache {
                let cached = Named {
                    id: format!("{}-cache", named.id),
                    title: format!("{}, read cache of {size}", named.title),
                };
                add(&cached, program, &[&more[..], &["--read-cache", size]].concat(), label);
            }
        }
    }

    /// Adds the pool on a disk with a journal, under each policy; and with a journal on persistent
    /// memory, or in memory.
    fn journals(&mut self, program: &Path, grounds: &[Ground]) {
        let own = ["--backend", "journal", "--pool", "perdura.pool", "--pool-size", POOL_SIZE];
        let with = |more: &[&str]| perdura(&[&own, more].concat());
        let disks: Vec<Ground> =
            grounds.iter().filter(|g| matches!(g.id, "disk" | "second")).cloned().collect();
        for (id, title, durability) in POLICIES {
            let named =
                Named::new(&format!("perdura-journal-{id}"), &format!("Perdura journal {title}"));
            let arguments = with(&["--appendfsync", id]);
            let family = Family::PerduraJournal;
            self.on_disks(&named, family, durability, program, &arguments, &disks);
        }
        let of = |id: &str| grounds.iter().find(|ground| ground.id == id);
        let (Some(disk), Some(tail)) = (of("disk"), of("dax").or_else(|| of("memory"))) else {
            return;
        };
        let named = Named::new("perdura-journal-tail", "Perdura journal, on persistent memory");
        let mut arguments = with(&["--appendfsync", "always", "--journal", "JOURNAL"]);
        if tail.id != "dax" {
            arguments.extend(words(&["--emulate-pmem", "yes"]));
        }
        let (family, always) = (Family::PerduraJournal, Durability::Always);
        self.add(&named, family, always, program, &arguments, disk);
        if let Some(last) = self.candidates.last_mut() {
            last.journal = Some(tail.path.clone());
            last.system.emulated = (tail.id != "dax").then(|| JOURNAL_IN_DRAM.to_owned());
        }
    }

    /// Adds redis-server or one that takes its arguments.
    fn peer(&mut self, id: &str, title: &str, family: Family, program: &Path, grounds: &[Ground]) {
        let with = |more: &[&str]| words(&[&["--save", ""], more].concat());
        for (policy, durability) in
            [("always", Durability::Always), ("everysec", Durability::EverySecond)]
        {
            let arguments = with(&[
                "--appendonly",
                "yes",
                "--appendfsync",
                policy,
                "--auto-aof-rewrite-percentage",
                "0",
            ]);
            let named = Named::new(&format!("{id}-{policy}"), &format!("{title} AOF {policy}"));
            self.on_disks(&named, family, durability, program, &arguments, grounds);
        }
        if let Some(memory) = grounds.iter().find(|ground| ground.id == "memory") {
            let named = Named::new(&format!("{id}-off"), &format!("{title} volatile"));
            let arguments = with(&["--appendonly", "no"]);
            self.add(&named, family, Durability::None, program, &arguments, memory);
        }
    }

    /// Adds the same system on the disk, and on the second device when there is one.
    fn on_disks(
        &mut self,
        named: &Named,
        family: Family,
        durability: Durability,
        program: &Path,
        arguments: &[String],
        grounds: &[Ground],
    ) {
        for ground in grounds {
            match ground.id {
                "disk" => self.add(named, family, durability, program, arguments, ground),
                "second" | "dax" => {
                    let there = Named {
                        id: format!("{}@{}", named.id, ground.id),
                        title: format!("{} on {}", named.title, ground.id),
                    };
                    self.add(&there, family, durability, program, arguments, ground);
                }
                _ => {}
            }
        }
    }

    fn add(
        &mut self,
        named: &Named,
        family: Family,
        durability: Durability,
        program: &Path,
        arguments: &[String],
        ground: &Ground,
    ) {
        let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy();
        let mut command = vec![name.into_owned()];
        command.extend(words(&["--port", "PORT", "--bind", "127.0.0.1", "--dir", "DIR"]));
        command.extend_from_slice(arguments);
        let system = System {
            id: named.id.clone(),
            title: named.title.clone(),
            family,
            durability,
            place: ground.id.to_owned(),
            domain: None,
            emulated: None,
            command,
        };
        let (program, place) = (program.to_owned(), ground.path.clone());
        self.candidates.push(Candidate { system, program, place, journal: None });
    }
}

/// The names of a system.
struct Named {
    id: String,
    title: String,
}

impl Named {
    fn new(id: &str, title: &str) -> Named {
        Named { id: id.into(), title: title.into() }
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn perdura(own: &[&str]) -> Vec<String> {
    let common = ["--threads", "1", "--maxmemory", "0", "--auto-aof-rewrite-percentage", "0"];
    words(&[&common, own].concat())
}

/// Returns an executable of that name in a directory of the PATH.
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

    fn ids(catalogue: &Catalogue) -> Vec<&str> {
        let ours = catalogue.candidates.iter().filter(|c| c.system.family != Family::Redis);
        ours.map(|candidate| candidate.system.id.as_str()).collect()
    }

    #[test]
    fn each_log_is_tried_on_each_device() {
        let options = Options::for_tests();
        let catalogue = Catalogue::new(&options, &grounds(&["disk", "memory", "second"]));
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
        let options = Options { media: vec!["optane".into()], ..Options::for_tests() };
        let options = Options { read_cache: Some("64mb".into()), ..options };
        let mut catalogue = Catalogue::new(&options, &grounds(&["disk", "memory"]));
        catalogue.choose(&["perdura-pmem".into()]).expect("it is there");
        let expected = [
            "perdura-pmem",
            "perdura-pmem-cache",
            "perdura-pmem-optane",
            "perdura-pmem-optane-cache",
        ];
        assert_eq!(ids(&catalogue), expected);
        assert!(catalogue.candidates.iter().all(|c| c.system.emulated.is_some()));

        let dax = Catalogue::new(&Options::for_tests(), &grounds(&["disk", "memory", "dax"]));
        let pool = &dax.candidates[0].system;
        assert_eq!((pool.place.as_str(), &pool.emulated), ("dax", &None));
        assert!(!pool.command.contains(&"--emulate-pmem".to_owned()), "{:?}", pool.command);
    }

    #[test]
    fn a_journal_is_on_persistent_memory_or_labelled() {
        let tail = |ids: &[&'static str]| {
            let catalogue = Catalogue::new(&Options::for_tests(), &grounds(ids));
            let found = catalogue.candidates.into_iter();
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

    #[test]
    fn systems_are_chosen_by_name() {
        let new = || Catalogue::new(&Options::for_tests(), &grounds(&["disk", "memory", "second"]));
        let mut catalogue = new();
        catalogue.choose(&["perdura-aof-always".into(), "perdura-volatile".into()]).expect("known");
        assert_eq!(
            ids(&catalogue),
            ["perdura-aof-always", "perdura-aof-always@second", "perdura-volatile"]
        );
        let mut catalogue = new();
        catalogue.choose(&["perdura-aof-no@second".into()]).expect("known");
        assert_eq!(ids(&catalogue), ["perdura-aof-no@second"]);
        let mut catalogue = new();
        catalogue.choose(&["perdura".into()]).expect("known");
        assert_eq!(ids(&catalogue).len(), 15);
        let error = new().choose(&["mysql".into()]).expect_err("unknown");
        assert!(error.contains("no system mysql; there are: perdura-pmem, "), "{error}");
    }
}
