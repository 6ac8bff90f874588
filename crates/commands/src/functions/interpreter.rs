//! The thread's Lua interpreter for function libraries, with the libraries that it has compiled.
//!
//! A thread compiles a library when it first calls one of its functions. Only commands that need
//! the names of all functions (FUNCTION LOAD, or the first FCALL after a start) compile all of
//! them.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use engine::Engine;
use engine::failure::Failure;
use engine::scripts::interpreter_memory::InterpreterSize;
use engine::scripts::libraries::{FunctionPlace, Known, LibraryInfo, Lookup};
use keyspace::Txn;
use script::{Host, Interpreter, Invocation, Library, Outcome};

use super::host::LoadHost;

/// The maximum memory of a thread's interpreter, in bytes.
const MEMORY_LIMIT: usize = 512 << 20;
/// Up to this many compiled libraries are searched for deleted ones after each change.
const FEW: usize = 64;

thread_local! {
    static IDLE: Cell<Option<Box<ThreadLibraries>>> = const { Cell::new(None) };
}

/// An interpreter, and the libraries that it has compiled.
pub(super) struct ThreadLibraries {
    interpreter: Interpreter,
    /// The ID of the engine that it serves.
    engine: u64,
    /// The epoch of the libraries at which `found` was valid.
    epoch: u64,
    /// By library ID.
    compiled: HashMap<u64, Rc<Library>>,
    /// Functions that were called, by the names that were used.
    found: HashMap<Box<[u8]>, CompiledFunction>,
    size: InterpreterSize,
}

/// A function that can be called.
#[derive(Clone)]
pub(super) struct CompiledFunction {
    pub(super) place: FunctionPlace,
    library: Rc<Library>,
}

/// A compiled library that is about to be stored.
pub(super) struct Loaded {
    pub(super) info: Arc<LibraryInfo>,
    library: Rc<Library>,
}

/// The code of each library, or why it cannot be read, by name.
type Codes = Vec<(Vec<u8>, Result<Vec<u8>, keyspace::Error>)>;

/// Passes the interpreter of this thread to `f`; makes one if there is none yet, or if it is in
/// use. A panic loses it, since its state is unknown then.
pub(super) fn with<R>(
    engine: &Engine,
    f: impl FnOnce(&mut ThreadLibraries) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let mut libraries = take(engine)?;
    let done = f(&mut libraries);
    libraries.size.set(libraries.interpreter.used_memory());
    IDLE.set(Some(libraries));
    done
}

fn take(engine: &Engine) -> Result<Box<ThreadLibraries>, Failure> {
    let is_empty = || engine.libraries().with(|known| known.is_empty()) == Some(true);
    if let Some(mut idle) = IDLE.take().filter(|idle| idle.engine == engine.id()) {
        if idle.epoch == engine.libraries().epoch() {
            return Ok(idle);
        }
        // An interpreter without libraries is better made again: that frees all of its memory.
        if idle.compiled.is_empty() || !is_empty() {
            idle.forget_old(engine);
            return Ok(idle);
        }
    }
    let interpreter = Interpreter::of_version(MEMORY_LIMIT, &engine.config().redis_version());
    Ok(Box::new(ThreadLibraries {
        interpreter: interpreter.map_err(|error| Failure::text(error.to_string()))?,
        engine: engine.id(),
        epoch: engine.libraries().epoch(),
        compiled: HashMap::new(),
        found: HashMap::new(),
        size: engine.libraries().interpreters().add(),
    }))
}

impl ThreadLibraries {
    /// Forgets the functions found, and some of the deleted libraries.
    fn forget_old(&mut self, engine: &Engine) {
        self.epoch = engine.libraries().epoch();
        self.found.clear();
        engine.libraries().with(|known| {
            if self.compiled.len() <= FEW || self.compiled.len() > 2 * known.len() {
                let ids: std::collections::HashSet<u64> = known.all().map(|info| info.id).collect();
                self.compiled.retain(|id, _| ids.contains(id));
            }
        });
    }

    /// Compiles a library that a client loads; [`ThreadLibraries::keep`] keeps it.
    pub(super) fn load(
        &mut self,
        engine: &Engine,
        code: &[u8],
        is_new: bool,
    ) -> Result<Loaded, Failure> {
        let mut host = if is_new { LoadHost::new(engine) } else { LoadHost::again(engine) };
        let library = self.interpreter.load_library(code, &mut host);
        let library = library.map_err(|error| Failure::text(error.to_string()))?;
        let info = LibraryInfo {
            id: engine.libraries().new_id(),
            name: library.name().to_owned(),
            functions: library.functions().cloned().collect(),
            failure: None,
        };
        Ok(Loaded { info: Arc::new(info), library: Rc::new(library) })
    }

    /// Keeps the compiled code of a library that is stored.
    pub(super) fn keep(&mut self, loaded: Loaded) {
        self.compiled.insert(loaded.info.id, loaded.library);
    }

    /// Finds out which libraries exist, if that was not done before. `txn` is the transaction of
    /// the caller, which has locked all shards; `None` if the caller has locked nothing.
    pub(super) fn know(&mut self, engine: &Engine, txn: Option<&Txn<'_>>) -> Result<(), Failure> {
        while engine.libraries().with(|_| ()).is_none() {
            let epoch = engine.libraries().epoch();
            let codes = match txn {
                Some(txn) => codes_of(txn),
                None => read(engine, None, |txn| Ok(codes_of(txn)))?,
            };
            let mut known = Known::default();
            for (name, code) in codes {
                known.insert(self.compile_stored(engine, &name, code));
            }
            engine.libraries().publish(epoch, known);
        }
        Ok(())
    }

    fn compile_stored(
        &mut self,
        engine: &Engine,
        name: &[u8],
        code: Result<Vec<u8>, keyspace::Error>,
    ) -> Arc<LibraryInfo> {
        let loaded = match code {
            Ok(code) => self.load(engine, &code, false),
            Err(error) => Err(super::damaged(name, &error)),
        };
        let name = String::from_utf8_lossy(name).into_owned();
        match loaded {
            Ok(loaded) => {
                let info = Arc::clone(&loaded.info);
                self.keep(loaded);
                info
            }
            Err(failure) => {
                let why = String::from_utf8_lossy(failure.as_bytes()).into_owned();
                if let Some(host) = engine.host() {
                    host.log(&format!("The function library '{name}' cannot be loaded: {why}"));
                }
                let id = engine.libraries().new_id();
                Arc::new(LibraryInfo { id, name, functions: Vec::new(), failure: Some(why) })
            }
        }
    }

    /// Returns the compiled function of this name, if there is one. `txn` is as in
    /// [`ThreadLibraries::know`].
    pub(super) fn find(
        &mut self,
        engine: &Engine,
        name: &[u8],
        txn: Option<&Txn<'_>>,
    ) -> Result<Option<CompiledFunction>, Failure> {
        let Ok(text) = str::from_utf8(name) else { return Ok(None) };
        loop {
            if self.epoch != engine.libraries().epoch() {
                self.forget_old(engine);
            }
            if let Some(found) = self.found.get(name) {
                return Ok(Some(found.clone()));
            }
            let place = match engine.libraries().find(text, txn.is_some()) {
                Lookup::Found(place) => place,
                Lookup::None(None) => return Ok(None),
                Lookup::None(Some(failed)) => return Err(not_loaded(&failed)),
                Lookup::Unknown => {
                    self.know(engine, txn)?;
                    continue;
                }
                // A client that changes libraries keeps all shards locked until it has committed.
                Lookup::Uncommitted => {
                    let any = engine.keyspace().key(b"");
                    drop(engine.try_lock_keys(Some(&[any]), engine.clock().unix_ms())?);
                    continue;
                }
            };
            if let Some(found) = self.compiled(engine, place, txn)? {
                self.found.insert(name.into(), found.clone());
                return Ok(Some(found));
            }
        }
    }

    /// Compiles the library of a function if that was not done before; `None` if the library has
    /// changed meanwhile.
    fn compiled(
        &mut self,
        engine: &Engine,
        place: FunctionPlace,
        txn: Option<&Txn<'_>>,
    ) -> Result<Option<CompiledFunction>, Failure> {
        if let Some(library) = self.compiled.get(&place.library.id) {
            return Ok(Some(CompiledFunction { place, library: Rc::clone(library) }));
        }
        let name = place.library.name.as_bytes();
        let epoch = self.epoch;
        // While the shard is locked nobody changes a library.
        let code = |txn: &Txn<'_>| match engine.libraries().epoch() == epoch {
            true => txn.library(name).map_err(|error| super::damaged(name, &error)),
            false => Ok(None),
        };
        let code = match txn {
            Some(txn) => code(txn)?,
            None => read(engine, Some(name), code)?,
        };
        let Some(code) = code else { return Ok(None) };
        let library = self.load(engine, &code, false)?.library;
        self.compiled.insert(place.library.id, Rc::clone(&library));
        Ok(Some(CompiledFunction { place, library }))
    }

    /// Calls a function.
    pub(super) fn call(
        &mut self,
        function: &CompiledFunction,
        invocation: Invocation<'_>,
        host: &mut dyn Host,
    ) -> Option<Outcome> {
        let name = &function.place.function().name;
        self.interpreter.call_function(&function.library, name, invocation, host)
    }
}

fn codes_of(txn: &Txn<'_>) -> Codes {
    let mut codes = Codes::new();
    txn.for_each_library(|name, code| codes.push((name.to_vec(), code)));
    codes
}

/// Reads one library, or all of them, in a transaction of its own; reads again if a media error is
/// found meanwhile.
fn read<R>(
    engine: &Engine,
    library: Option<&[u8]>,
    read: impl Fn(&Txn<'_>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let keyspace = engine.keyspace();
    let done = keyspace.retry_losses(Failure::has_unresolved_losses, |losses| {
        let key = library.map(|name| [keyspace.key(name)]);
        let keys = key.as_ref().map(|key| key.as_slice());
        let done = read(&engine.try_lock_keys(keys, engine.clock().unix_ms())?);
        keyspace.check_losses(losses)?;
        done
    });
    done.map_err(Failure::at_last)
}

fn not_loaded(library: &LibraryInfo) -> Failure {
    let (name, why) = (&library.name, library.failure.as_deref().unwrap_or_default());
    Failure::text(format!(
        "ERR Function not found. It may be one of the library '{name}', which cannot be loaded: {why}"
    ))
}
