//! Loading an append-only file from any bytes gives an error or commands, never a panic; what was
//! loaded once, its broken tail cut off, loads again the same with nothing more to cut off, and
//! takes further commands.
//!
//! The input is up to four files, separated by two bytes FF: the manifest, the base, two
//! increments. They are in memory.

use std::collections::BTreeMap;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use aof::{Entry, Loaded, Loader, LogFile, Options, Storage};

const NAMES: [&str; 4] = [
    "appendonly.aof.manifest",
    "appendonly.aof.1.base.aof",
    "appendonly.aof.1.incr.aof",
    "appendonly.aof.2.incr.aof",
];

type Words = Vec<Vec<u8>>;

/// The body of the target.
pub(crate) fn check(data: &[u8]) {
    let files = Arc::new(Memory::default());
    let mut options = Options::new("dir");
    let folder = Path::new("dir").join(&options.dirname);
    for (name, bytes) in NAMES.iter().zip(sections(data)) {
        files.put(folder.join(name), bytes);
    }
    options.storage = files;

    let Some((_, commands, _)) = load(&options) else { return };
    let (again, same, loader) = load(&options).expect("what was loaded once loads again");
    assert_eq!(commands, same);
    assert_eq!(again.cut_off, 0);

    let Ok(log) = loader.into_log() else { return };
    log.append(0, 0, b"*1\r\n$4\r\nPING\r\n");
    log.sync_all().expect("memory takes everything");
    drop(log);
    let (_, longer, _) = load(&options).expect("what was appended to loads again");
    assert_eq!(longer.last(), Some(&vec![b"PING".to_vec()]));
    assert_eq!(longer[..commands.len()], commands);
}

/// Returns all commands, unless there is an error. As for every reader of a log, those after a
/// MULTI count only once its EXEC is there.
fn load(options: &Options) -> Option<(Loaded, Vec<Words>, Loader)> {
    let mut loader = Loader::open(options.clone()).ok()?;
    let (mut commands, mut multi) = (Vec::<Words>::new(), None);
    while let Some(entry) = loader.next().ok()? {
        let Entry::Command(command) = entry else { continue };
        let words: Words = command.words().map(<[u8]>::to_vec).collect();
        assert!(!words.is_empty());
        if words[0].eq_ignore_ascii_case(b"multi") {
            multi = Some(commands.len());
        } else if words[0].eq_ignore_ascii_case(b"exec") {
            multi = None;
        }
        commands.push(words);
    }
    let loaded = loader.loaded();
    assert_eq!(loaded.commands, commands.len() as u64);
    commands.truncate(multi.unwrap_or(commands.len()));
    Some((loaded, commands, loader))
}

fn sections(mut data: &[u8]) -> Vec<Vec<u8>> {
    let mut sections = Vec::new();
    while let Some(at) = data.windows(2).position(|pair| pair == [0xff, 0xff]) {
        sections.push(data[..at].to_vec());
        data = &data[at + 2..];
    }
    sections.push(data.to_vec());
    sections
}

type Bytes = Arc<Mutex<Vec<u8>>>;

/// Files in memory that take everything.
#[derive(Default)]
struct Memory(Mutex<BTreeMap<PathBuf, Bytes>>);

impl Memory {
    fn put(&self, path: PathBuf, bytes: Vec<u8>) {
        self.0.lock().expect("one thread").insert(path, Arc::new(Mutex::new(bytes)));
    }

    fn get(&self, path: &Path) -> io::Result<Bytes> {
        let files = self.0.lock().expect("one thread");
        files.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

struct InMemory(Bytes);

impl LogFile for InMemory {
    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody panicked").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.0.lock().expect("nobody panicked").resize(len as usize, 0);
        Ok(())
    }
}

impl Storage for Memory {
    fn create_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn is_dir(&self, path: &Path) -> bool {
        self.get(path).is_err()
    }

    fn len(&self, path: &Path) -> io::Result<Option<u64>> {
        Ok(self.get(path).ok().map(|file| file.lock().expect("nobody panicked").len() as u64))
    }

    fn append_to(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        if self.get(path).is_err() {
            self.put(path.to_owned(), Vec::new());
        }
        Ok(Arc::new(InMemory(self.get(path)?)))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        self.put(path.to_owned(), Vec::new());
        self.append_to(path)
    }

    fn read(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        let bytes = self.get(path)?.lock().expect("nobody panicked").clone();
        Ok(Box::new(Cursor::new(bytes)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut files = self.0.lock().expect("one thread");
        let file = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0
            .lock()
            .expect("one thread")
            .remove(path)
            .map(drop)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
}
