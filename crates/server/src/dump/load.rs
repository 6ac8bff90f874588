//! Loading the data at the start, if it is not in a pool.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::config::Values;
use crate::durability::append_only::{self, AppendOnly};
use crate::host::Server;
use crate::net::listen;
use crate::pool::other_stores;
use crate::replication::position;
use crate::shared::Shared;

/// Bytes in which a dump has said all about itself.
const HEAD: u64 = 4096;

/// Why the data could not be loaded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadingError {
    #[error(transparent)]
    Log(#[from] append_only::StartError),
    #[error("Fatal error loading the DB: {}: {why}. Exiting.", path.display())]
    Dump { path: std::path::PathBuf, why: String },
}

/// Loads the log or the dump, and lets clients in.
pub(crate) fn load(shared: &Arc<Shared>, server: &Server) -> Result<(), LoadingError> {
    let values = shared.config.values();
    shared.loading.begin(shared.engine.clock().unix_ms());
    if server.is_logged() {
        load_log(shared, server, &values)?;
    } else {
        load_dump(shared, &values)?;
    }
    server.saver.set_unchanged();
    shared.engine.config().set_loading(false);
    listen::log_ports(&values);
    shared.supervisor.ready();
    Ok(())
}

fn load_log(
    shared: &Arc<Shared>,
    server: &Server,
    values: &Values,
) -> Result<(), append_only::StartError> {
    let options = append_only::options(values);
    let show = |progress: aof::Progress| {
        shared.loading.show(progress.done, progress.total);
        shared.supervisor.loading(progress.done, progress.total, shared.engine.clock().monotonic());
    };
    let log = Arc::new(append_only::load(options.clone(), &shared.engine, &show)?);
    let of_values = Arc::clone(shared);
    let engine = Arc::clone(&shared.engine);
    let append_only = AppendOnly::new(log, engine, options, move || of_values.config.values());
    shared.attach_log(append_only.log());
    let _ = server.append_only.set(append_only);
    Ok(())
}

/// Loads the dump into memory, as Redis does without an append-only file.
fn load_dump(shared: &Shared, values: &Values) -> Result<(), LoadingError> {
    let path = other_stores::dump(values);
    let failed = |why: String| LoadingError::Dump { path: path.clone(), why };
    let opened = std::fs::File::open(&path).and_then(|file| Ok((file.metadata()?.len(), file)));
    let (total, mut file) =
        opened.map_err(|error| failed(crate::process::text::os_error(&error)))?;
    let started = std::time::Instant::now();
    // It may be a pipe, which can be read once.
    let mut head = Vec::new();
    let read = file.by_ref().take(HEAD).read_to_end(&mut head);
    read.map_err(|error| failed(crate::process::text::os_error(&error)))?;
    let place = commands::place_of(&head[..]).and_then(position::of_dump);
    let mut last = started;
    let mut options = commands::LoadOptions {
        verifies: values.rdbchecksum,
        // Replicas that continue are told when they are gone.
        keeps_expired: place.is_some() || shared.engine.replication().is_replica(),
        report: &mut |loaded| {
            shared.loading.show(loaded.bytes, total);
            shared.supervisor.loading(loaded.bytes, total, shared.engine.clock().monotonic());
            if last.elapsed() >= append_only::REPORT_EVERY {
                last = std::time::Instant::now();
                let share = loaded.bytes as f64 * 100.0 / total.max(1) as f64;
                tracing::info!("Loading the RDB file: {share:.1} % ({} keys)", loaded.keys);
            }
        },
    };
    let file = std::io::BufReader::with_capacity(1 << 20, head.as_slice().chain(file));
    let loaded = commands::load_dump(&shared.engine, file, &mut options);
    let loaded = loaded.map_err(|error| {
        tracing::warn!("{error}");
        tracing::warn!("Terminating server after rdb file reading failure.");
        failed(error.to_string())
    })?;
    if let Some(place) = place {
        position::restore(shared, &place).map_err(|error| failed(error.to_string()))?;
    }
    shared.loading.keys.store(loaded.keys, Relaxed);
    shared.loading.expired.store(loaded.expired, Relaxed);
    tracing::info!(
        "Done loading RDB, keys loaded: {}, keys expired: {}, empty keys skipped: {}.",
        loaded.keys,
        loaded.expired,
        loaded.empty
    );
    tracing::info!("DB loaded from disk: {:.3} seconds", started.elapsed().as_secs_f64());
    Ok(())
}
