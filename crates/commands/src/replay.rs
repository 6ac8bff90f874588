//! Replays the command log: executes every command of it through [`Engine::execute`].
//!
//! During a replay nothing expires, no limit is enforced and nothing is logged: a command must find
//! the state of its first execution. A command that fails is reported and skipped, as in Redis,
//! unless the heap has no space: then the data would differ from the log.

use aof::{Dump, Entry, LoadError, Loader, Progress};
use engine::Engine;
use engine::session::Session;
use engine::table::Lookup;
use resp::{Protocol, Writer};

use crate::load::{LoadDumpError, LoadOptions, load_dump};

/// The number of commands between two reports of progress.
const REPORT_EVERY: u64 = 1024;

/// Why a log could not be replayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// It cannot be read.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// It contains an unknown command.
    #[error("Unknown command '{command}' reading the append only file {file}")]
    UnknownCommand {
        /// The command.
        command: String,
        /// The file.
        file: String,
    },
    /// The dump at the beginning of a file cannot be loaded.
    #[error("Error reading the RDB base of the append only file {file}: {error}")]
    Dump {
        /// The file.
        file: String,
        /// Why.
        error: LoadDumpError,
    },
    /// There is no memory for the data.
    #[error("no free memory for the data of the append only file {file}: {text}")]
    Full {
        /// The file.
        file: String,
        /// The error of the command that found no space.
        text: String,
    },
}

/// Executes every command of a log. `report` is called periodically, and once at the end.
pub fn replay(
    engine: &Engine,
    loader: &mut Loader,
    report: &mut dyn FnMut(Progress),
) -> Result<(), ReplayError> {
    let mut session = engine.connect_replay();
    let mut out = Writer::new(Protocol::Resp2);
    let mut file = String::new();
    let mut words: Vec<&[u8]> = Vec::new();
    loop {
        if loader.loaded().commands.is_multiple_of(REPORT_EVERY) {
            report(loader.progress());
        }
        match loader.next()? {
            None => break,
            Some(Entry::File(name)) => {
                name.clone_into(&mut file);
                engine.disconnect(&mut session);
                session = engine.connect_replay();
            }
            Some(Entry::Dump(dump)) => {
                replay_dump(engine, dump, report)
                    .map_err(|error| ReplayError::Dump { file: file.clone(), error })?;
            }
            Some(Entry::Command(command)) => {
                let mut buffer = reuse(words);
                buffer.extend(command.words());
                replay_one(engine, &mut session, &buffer, &mut out, &file)?;
                words = reuse(buffer);
            }
        }
    }
    engine.disconnect(&mut session);
    report(loader.progress());
    Ok(())
}

fn replay_dump(
    engine: &Engine,
    dump: Dump<'_>,
    report: &mut dyn FnMut(Progress),
) -> Result<(), LoadDumpError> {
    let Progress { done, total } = dump.progress();
    let mut options = LoadOptions {
        verifies: true,
        keeps_expired: true,
        report: &mut |loaded| report(Progress { done: done + loaded.bytes, total }),
    };
    load_dump(engine, dump, &mut options).map(drop)
}

fn replay_one(
    engine: &Engine,
    session: &mut Session,
    words: &[&[u8]],
    out: &mut Writer,
    file: &str,
) -> Result<(), ReplayError> {
    if !matches!(engine.table().find_original(words), Lookup::Found(_)) {
        let command = String::from_utf8_lossy(words[0]).into_owned();
        return Err(ReplayError::UnknownCommand { command, file: file.to_owned() });
    }
    out.clear();
    let _ = engine.execute(session, words, out);
    match out.as_bytes().strip_prefix(b"-") {
        Some(text) => replay_failed(engine, words, text, file),
        None => Ok(()),
    }
}

fn replay_failed(
    engine: &Engine,
    words: &[&[u8]],
    text: &[u8],
    file: &str,
) -> Result<(), ReplayError> {
    let text = String::from_utf8_lossy(text).trim_end().to_owned();
    if text.starts_with("OOM") || text.starts_with("MISCONF") {
        return Err(ReplayError::Full { file: file.to_owned(), text });
    }
    if let Some(host) = engine.host() {
        let command = String::from_utf8_lossy(words[0]);
        host.log(&format!(
            "== CRITICAL == This AOF-loading-client is sending an error to the server: '{text}' \
             after processing the command '{command}'"
        ));
    }
    Ok(())
}

/// Reuses the allocation of a list of borrowed words for words with another lifetime.
fn reuse<'to>(mut words: Vec<&[u8]>) -> Vec<&'to [u8]> {
    words.clear();
    words.into_iter().map(|_| -> &[u8] { &[] }).collect()
}
