//! The server's log: one line per event, in the form of Redis's log.
//!
//! `4711:M 21 Nov 2026 03:09:37.308 * Ready to accept connections`: process, role, time (UTC),
//! level (`.` debug, `-` verbose, `*` notice, `#` warning), text. Events come from `tracing`, whose
//! levels TRACE, DEBUG, INFO and WARN represent Redis's four.
//!
//! With `log-format json` a line is an object with `time` (RFC 3339, UTC), `level` (the names of
//! `loglevel`), `pid` and `message`, whatever the message contains; panics are lines like others.
//!
//! Parts of a message that clients chose stay on its line: control characters are escaped.
//!
//! The level changes while the server runs. The file is opened for appending, and opened again if
//! its path now has another file, or none: it may be rotated by renaming it.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{self, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::{FmtContext, MakeWriter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::{LookupSpan, Registry};
use tracing_subscriber::reload;

use crate::config::Values;
use crate::config::choice::{LogFormat, LogLevel};

/// How a line is written.
struct Format(LogFormat);

impl<S, N> FormatEvent<S, N> for Format
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut out: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let (sign, level) = match *event.metadata().level() {
            Level::TRACE => ('.', "debug"),
            Level::DEBUG => ('-', "verbose"),
            Level::INFO => ('*', "notice"),
            Level::WARN | Level::ERROR => ('#', "warning"),
        };
        let now = commands::Clock::unix_ms(&commands::SystemClock);
        let pid = std::process::id();
        match self.0 {
            LogFormat::Text => {
                write!(out, "{pid}:M {} {sign} ", crate::process::text::date(now))?;
                let mut message = String::new();
                context.format_fields(Writer::new(&mut message), event)?;
                writeln!(out, "{}", commands::in_line(message.as_bytes()))
            }
            LogFormat::Json => {
                let mut message = String::new();
                context.format_fields(Writer::new(&mut message), event)?;
                let (time, message) =
                    (crate::process::text::timestamp(now), serde_json::json!(message));
                writeln!(
                    out,
                    r#"{{"time":"{time}","level":"{level}","pid":{pid},"message":{message}}}"#
                )
            }
        }
    }
}

/// Permissions of a new file: it names clients and their commands.
const PRIVATE: u32 = 0o600;

/// The file at a path.
struct LogFile {
    path: PathBuf,
    file: Mutex<File>,
}

impl LogFile {
    fn open(path: &Path) -> io::Result<LogFile> {
        // The working directory may change later.
        let path = path::absolute(path)?;
        let file = Mutex::new(append_to(&path)?);
        Ok(LogFile { path, file })
    }

    /// Writes to the file that is at the path now. If that cannot be opened, the old file is kept.
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_at(&file, &self.path)
            && let Ok(new) = append_to(&self.path)
        {
            *file = new;
        }
        file.write(bytes)
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    File::options().append(true).create(true).mode(PRIVATE).open(path)
}

fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(own), Ok(there)) = (file.metadata(), fs::metadata(path)) else { return false };
    (own.dev(), own.ino()) == (there.dev(), there.ino())
}

#[derive(Clone)]
enum Target {
    Stdout,
    File(Arc<LogFile>),
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Target::Stdout => io::stdout().write(bytes),
            Target::File(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Target::Stdout => io::stdout().flush(),
            Target::File(_) => Ok(()),
        }
    }
}

impl<'a> MakeWriter<'a> for Target {
    type Writer = Target;

    fn make_writer(&'a self) -> Target {
        self.clone()
    }
}

/// Whether the log was started on standard output.
static TO_STDOUT: AtomicBool = AtomicBool::new(false);
static LEVEL: OnceLock<reload::Handle<LevelFilter, Registry>> = OnceLock::new();

fn filter(loglevel: LogLevel) -> LevelFilter {
    match loglevel {
        LogLevel::Debug => LevelFilter::TRACE,
        LogLevel::Verbose => LevelFilter::DEBUG,
        LogLevel::Notice => LevelFilter::INFO,
        LogLevel::Warning => LevelFilter::WARN,
    }
}

/// Starts the log; `logfile` is empty for standard output. Only the first call has an effect.
pub(crate) fn start(values: &Values) -> io::Result<()> {
    let (logfile, format) = (values.logfile.to_text(), values.log_format);
    let target = if logfile.is_empty() {
        Target::Stdout
    } else {
        Target::File(Arc::new(LogFile::open(Path::new(&logfile))?))
    };
    let (level, handle) = reload::Layer::new(filter(values.loglevel));
    let lines = tracing_subscriber::fmt::layer()
        .event_format(Format(format))
        .with_ansi(false)
        .with_writer(target);
    let log = tracing_subscriber::registry().with(level).with(lines);
    if tracing::subscriber::set_global_default(log).is_ok() {
        let _ = LEVEL.set(handle);
        TO_STDOUT.store(logfile.is_empty(), Relaxed);
        if format == LogFormat::Json {
            std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
        }
    }
    Ok(())
}

/// Reports why the server ends, once to each reader: in the log, and on standard error unless that
/// shows the log already.
pub(crate) fn fatal(text: &str) {
    tracing::error!("Fatal error: {text}");
    if !TO_STDOUT.load(Relaxed) {
        eprintln!("perdura-server: {text}");
    }
}

/// Changes the level.
pub(crate) fn set_level(loglevel: LogLevel) {
    if let Some(handle) = LEVEL.get() {
        let _ = handle.modify(|level| *level = filter(loglevel));
    }
}
