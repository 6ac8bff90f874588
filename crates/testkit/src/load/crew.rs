//! Several clients at once, with keys that all of them share: a counter, two keys that one MSET
//! sets to the same value, and four that one script does.

use crate::load::step::{BRIEF, databases};
use crate::load::{ALIKE, Habits, Knowledge, Load, Stop, Violation, lock};
use crate::{Client, Reply};
use std::io;
use std::sync::{Arc, Mutex};
use std::thread;

/// Several clients.
pub struct Crew {
    loads: Vec<Load>,
}

/// A view of what clients know while they run.
pub struct View {
    loads: Vec<(usize, Habits, Arc<Mutex<Knowledge>>)>,
}

impl View {
    /// The number of steps acknowledged since the beginning.
    pub fn steps(&self) -> u64 {
        self.loads.iter().map(|(_, _, knowledge)| lock(knowledge).steps).sum()
    }

    /// Begins, before a copy of the medium is taken: everything acknowledged by now must be in it.
    pub fn begin(&self) {
        for (_, _, knowledge) in &self.loads {
            let mut knowledge = lock(knowledge);
            knowledge.viewed = Some(knowledge.known.clone());
        }
    }

    /// Ends, after the copy was taken: everything sent since the beginning may be in it. Returns
    /// the clients that verify a server over the copy.
    pub fn end(&self) -> Crew {
        let of = |(number, habits, knowledge): &(usize, Habits, Arc<Mutex<Knowledge>>)| {
            let known = lock(knowledge).viewed.take().unwrap_or_default();
            Load::from_known(*number, *habits, known)
        };
        Crew { loads: self.loads.iter().map(of).collect() }
    }
}

impl Crew {
    /// Returns a view of what the clients know, also while they run.
    pub fn view(&self) -> View {
        let of = |load: &Load| (load.number, load.habits, Arc::clone(&load.knowledge));
        View { loads: self.loads.iter().map(of).collect() }
    }

    /// Makes this many clients, at most 6, whose commands follow from the seed.
    pub fn new(clients: usize, seed: u64, habits: Habits) -> Crew {
        Crew { loads: (0..clients).map(|number| Load::new(number, seed, habits)).collect() }
    }

    /// Loads a server through connections that `connect` makes, while `meanwhile` runs, which must
    /// end the server. Returns how many clients were told that nothing more can be written.
    pub fn run<T>(
        &mut self,
        connect: impl Fn() -> io::Result<Client> + Sync,
        meanwhile: impl FnOnce() -> T,
    ) -> Result<(T, usize), Violation> {
        let connect = &connect;
        thread::scope(|scope| {
            let run = |load: &mut Load| match connect() {
                Ok(mut client) => load.run(&mut client),
                Err(_) => Ok(Stop::Broken),
            };
            let running: Vec<_> =
                self.loads.iter_mut().map(|load| scope.spawn(move || run(load))).collect();
            let result = meanwhile();
            let mut refused = 0;
            for load in running {
                let stop = load.join().expect("a client's thread")?;
                refused += usize::from(stop != Stop::Broken);
            }
            Ok((result, refused))
        })
    }

    /// Compares the server's data with what the clients know, and continues from there.
    pub fn verify(&mut self, client: &mut Client) -> Result<(), Violation> {
        self.loads.iter_mut().try_for_each(|load| load.verify(client))?;
        let shared = self.verify_shared(client)?;
        for db in (0..16).filter(|db| *db != BRIEF) {
            let of_load = |load: &Load| match databases(load.number).contains(&db) {
                true => load.keys(db),
                false => 0,
            };
            let expected =
                self.loads.iter().map(of_load).sum::<usize>() + if db == 0 { shared } else { 0 };
            client.call(&["SELECT", &db.to_string()]);
            let keys = client.run("DBSIZE");
            if keys != Reply::Int(expected as i64) {
                let names = client.run("KEYS *");
                return Err(Violation(format!(
                    "DBSIZE of database {db} is {keys}, {expected} keys are readable: {names}"
                )));
            }
        }
        Ok(())
    }

    /// Returns the number of shared keys that exist.
    fn verify_shared(&mut self, client: &mut Client) -> Result<usize, Violation> {
        let shared = client.run("GET shared").int().unwrap_or(0);
        let known = self.loads.iter().map(|load| {
            let known = &mut lock(&load.knowledge).known;
            (std::mem::take(&mut known.shared), std::mem::take(&mut known.seen))
        });
        let (mut acknowledged, mut sent, mut seen) = (0, 0, 0);
        for ((done, open), reported) in known {
            (acknowledged, sent, seen) =
                (acknowledged + done, sent + done + open, seen.max(reported));
        }
        if !(acknowledged.max(seen)..=sent).contains(&shared) {
            return Err(Violation(format!(
                "the shared counter is {shared}, not in {acknowledged}..={sent}, and was {seen} in a reply"
            )));
        }
        if let Some(first) = self.loads.first() {
            lock(&first.knowledge).known.shared.0 = shared;
        }
        let pair = alike(client, &["pair:a", "pair:b"], "half of an MSET")?;
        Ok(usize::from(shared > 0) + pair + alike(client, &ALIKE, "half of a script")?)
    }

    #[cfg(test)]
    pub(super) fn knowledge(&self, load: usize) -> Arc<Mutex<Knowledge>> {
        Arc::clone(&self.loads[load].knowledge)
    }

    /// The number of steps acknowledged since the beginning.
    pub fn steps(&self) -> u64 {
        self.view().steps()
    }

    /// The number of scripts acknowledged since the beginning, without those on shared keys.
    pub fn scripts(&self) -> u64 {
        self.loads.iter().map(|load| lock(&load.knowledge).scripts).sum()
    }

    /// The number of commands refused for lack of space since the beginning.
    pub fn refused(&self) -> u64 {
        self.loads.iter().map(|load| load.refused).sum()
    }
}

/// Returns how many of these keys exist: all, with the same value, or none.
fn alike(client: &mut Client, keys: &[&str], otherwise: &str) -> Result<usize, Violation> {
    let found = client.run(&format!("MGET {}", keys.join(" ")));
    match found.items() {
        [first, others @ ..] if others.iter().all(|other| other == first) => {
            Ok(if first.bytes().is_some() { keys.len() } else { 0 })
        }
        _ => Err(Violation(format!("{otherwise}: {found}"))),
    }
}
