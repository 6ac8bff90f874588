//! The function libraries and their functions, as all threads share them.
//!
//! The code of the libraries is in the heap. The state here is derived from it when it is first
//! needed, so that a start does not wait for it. It changes together with the heap, while all
//! shards are locked and before the transaction is committed, so that the following commands of the
//! same transaction see it. A change that is not committed after all makes everything here unknown
//! again ([`Uncommitted`]).
//!
//! Each thread compiles the libraries that it calls, and keeps them as long as the library's number
//! is the same.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use script::Function;

use crate::scripts::interpreter_memory::InterpreterMemory;

/// The function libraries of an engine.
#[derive(Default)]
pub struct Libraries {
    state: Mutex<State>,
    /// Changes with each change of the state.
    epoch: AtomicU64,
    ids: AtomicU64,
    /// Memory of the threads' interpreters.
    interpreters: InterpreterMemory,
}

#[derive(Default)]
struct State {
    /// `None` until a thread has read the heap.
    known: Option<Known>,
    /// Changes whose transactions are open.
    uncommitted: usize,
}

/// A library as known without its code.
#[derive(Debug)]
pub struct LibraryInfo {
    /// A number that belongs to this library with this code only.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Its functions.
    pub functions: Vec<Function>,
    /// Why it cannot be loaded; it then has no functions.
    pub failure: Option<String>,
}

impl LibraryInfo {
    fn bytes(&self) -> usize {
        let of_function = |function: &Function| {
            let description = function.description.as_ref().map_or(0, Vec::len);
            size_of::<Function>() + function.name.len() + description
        };
        let functions: usize = self.functions.iter().map(of_function).sum();
        size_of::<LibraryInfo>() + self.name.len() + functions
    }
}

/// All libraries.
#[derive(Default)]
pub struct Known {
    by_name: BTreeMap<String, Arc<LibraryInfo>>,
    /// By the functions' names in lower case, since FCALL ignores case.
    by_function: HashMap<String, Arc<LibraryInfo>>,
}

/// A function that was looked up: its library, and its place among the library's functions.
#[derive(Clone, Debug)]
pub struct FunctionPlace {
    /// The library.
    pub library: Arc<LibraryInfo>,
    pub(crate) at: usize,
}

impl FunctionPlace {
    /// Returns the function.
    pub fn function(&self) -> &Function {
        &self.library.functions[self.at]
    }
}

impl Known {
    /// Returns true if there is a library of this name.
    pub fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// Adds a library, which replaces the one of the same name.
    pub fn insert(&mut self, library: Arc<LibraryInfo>) {
        self.remove(&library.name);
        for function in &library.functions {
            let name = function.name.to_ascii_lowercase();
            self.by_function.entry(name).or_insert_with(|| Arc::clone(&library));
        }
        self.by_name.insert(library.name.clone(), library);
    }

    /// Removes a library.
    pub fn remove(&mut self, name: &str) {
        let Some(library) = self.by_name.remove(name) else { return };
        for function in &library.functions {
            self.by_function.remove(&function.name.to_ascii_lowercase());
        }
    }

    /// Removes all libraries.
    pub fn clear(&mut self) {
        *self = Known::default();
    }

    /// Returns true if there is no library.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Returns how many libraries there are.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Returns the name of the library's first function that also belongs to another library, if
    /// that one `stays`.
    pub fn conflict<'l>(
        &self,
        library: &'l LibraryInfo,
        stays: impl Fn(&str) -> bool,
    ) -> Option<&'l str> {
        let is_taken = |function: &&Function| {
            let owner = self.by_function.get(&function.name.to_ascii_lowercase());
            owner.is_some_and(|owner| owner.name != library.name && stays(&owner.name))
        };
        library.functions.iter().find(is_taken).map(|function| function.name.as_str())
    }

    /// Returns all libraries in the order of their names.
    pub fn all(&self) -> impl Iterator<Item = &Arc<LibraryInfo>> {
        self.by_name.values()
    }

    fn find(&self, function: &str) -> Option<FunctionPlace> {
        let library = self.by_function.get(&function.to_ascii_lowercase())?;
        let is_it = |known: &Function| known.name.eq_ignore_ascii_case(function);
        let at = library.functions.iter().position(is_it)?;
        Some(FunctionPlace { library: Arc::clone(library), at })
    }
}

/// The result of looking up a function.
pub enum Lookup {
    /// The heap was not read yet.
    Unknown,
    /// Another thread is about to commit a change.
    Uncommitted,
    /// The function of this name.
    Found(FunctionPlace),
    /// There is none; with the library that could not be loaded, if there is one.
    None(Option<Arc<LibraryInfo>>),
}

impl Libraries {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a number that each change changes.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Returns a number for a library.
    pub fn new_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    /// Passes the known libraries to `f`; returns `None` if the heap was not read yet.
    pub fn with<R>(&self, f: impl FnOnce(&Known) -> R) -> Option<R> {
        self.state().known.as_ref().map(f)
    }

    /// Returns the memory of the threads' interpreters for libraries.
    pub fn interpreters(&self) -> &InterpreterMemory {
        &self.interpreters
    }

    /// Returns how many bytes the known libraries take here; their code is in the heap.
    pub fn bytes(&self) -> usize {
        self.with(|known| known.all().map(|library| library.bytes()).sum()).unwrap_or(0)
    }

    /// Returns how many functions are known.
    pub fn functions(&self) -> usize {
        self.with(|known| known.by_function.len()).unwrap_or(0)
    }

    /// Looks up a function. With `is_within`, the caller has all shards locked, and uncommitted
    /// changes are its own.
    pub fn find(&self, function: &str, is_within: bool) -> Lookup {
        let state = self.state();
        if state.uncommitted > 0 && !is_within {
            return Lookup::Uncommitted;
        }
        let Some(known) = &state.known else { return Lookup::Unknown };
        match known.find(function) {
            Some(found) => Lookup::Found(found),
            None => {
                let failed = known.all().find(|library| library.failure.is_some());
                Lookup::None(failed.cloned())
            }
        }
    }

    /// Stores the libraries that were read from the heap at an epoch, unless that is over.
    pub fn publish(&self, epoch: u64, known: Known) {
        let mut state = self.state();
        if self.epoch() == epoch && state.known.is_none() {
            state.known = Some(known);
        }
    }

    /// Changes the known libraries. The caller has locked all shards, and keeps the change when its
    /// transaction is committed.
    pub fn change(this: &Arc<Libraries>, change: impl FnOnce(&mut Known)) -> Uncommitted {
        let mut state = this.state();
        state.uncommitted += 1;
        this.epoch.fetch_add(1, Ordering::AcqRel);
        if let Some(known) = &mut state.known {
            change(known);
        }
        drop(state);
        Uncommitted { libraries: Arc::clone(this), is_kept: false }
    }
}

/// A change whose transaction is not yet committed. If it is dropped without being kept, nothing is
/// known any more: the libraries are read from the heap again.
#[must_use]
pub struct Uncommitted {
    libraries: Arc<Libraries>,
    is_kept: bool,
}

impl Uncommitted {
    /// Keeps the change: it is committed.
    pub(crate) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Uncommitted {
    fn drop(&mut self) {
        let mut state = self.libraries.state();
        state.uncommitted -= 1;
        if !self.is_kept {
            state.known = None;
            self.libraries.epoch.fetch_add(1, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use script::Flags;

    fn library(name: &str, functions: &[&str]) -> Arc<LibraryInfo> {
        let function = |name: &&str| Function {
            name: (*name).to_owned(),
            description: None,
            flags: Flags::default(),
        };
        let functions = functions.iter().map(function).collect();
        Arc::new(LibraryInfo { id: 0, name: name.to_owned(), functions, failure: None })
    }

    fn known(libraries: &Libraries) -> Option<Vec<String>> {
        libraries.with(|known| known.all().map(|library| library.name.clone()).collect())
    }

    #[test]
    fn a_change_that_is_not_kept_makes_everything_unknown() {
        let libraries = Arc::<Libraries>::default();
        libraries.publish(libraries.epoch(), Known::default());
        Libraries::change(&libraries, |known| known.insert(library("one", &["f"]))).keep();
        assert_eq!(known(&libraries), Some(vec!["one".to_owned()]));
        let change = Libraries::change(&libraries, Known::clear);
        let epoch = libraries.epoch();
        assert!(matches!(libraries.find("f", false), Lookup::Uncommitted));
        assert!(matches!(libraries.find("f", true), Lookup::None(None)));
        drop(change);
        assert!(matches!(libraries.find("f", false), Lookup::Unknown));
        assert_ne!(libraries.epoch(), epoch);
        // Libraries that were read before are not stored.
        libraries.publish(epoch, Known::default());
        assert_eq!(known(&libraries), None);
    }

    #[test]
    fn functions_are_found_in_any_case_and_conflict_with_those_of_libraries_that_stay() {
        let mut known = Known::default();
        known.insert(library("one", &["f", "g"]));
        let found = known.find("F").map(|place| place.function().name.clone());
        assert_eq!(found, Some("f".to_owned()));
        let other = library("two", &["h", "G"]);
        assert_eq!(known.conflict(&other, |_| true), Some("G"));
        assert_eq!(known.conflict(&other, |name| name != "one"), None);
        assert_eq!(known.conflict(&library("one", &["g"]), |_| true), None);
        known.insert(library("one", &["g"]));
        assert!(known.find("f").is_none());
        known.remove("one");
        assert!(known.find("g").is_none() && known.is_empty());
    }
}
