//! A dump is delivered only when its data is durable, if replies wait for that.

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use commands::{CommandLog, Engine, EngineOptions, ReplyLog, SaveError, SaveOptions};
use keyspace::Db;

use crate::support::{Client, volatile};

/// A log that becomes durable only when a sync is requested, or fails then.
#[derive(Default)]
struct SlowLog {
    end: AtomicU64,
    durable: AtomicU64,
    fails: AtomicBool,
    /// The events, in order.
    events: Mutex<Vec<String>>,
}

impl SlowLog {
    fn note(&self, event: String) {
        self.events.lock().expect("no panic").push(event);
    }
}

impl ReplyLog for SlowLog {
    fn end(&self) -> u64 {
        self.end.load(Relaxed)
    }

    fn is_synchronous(&self) -> bool {
        true
    }

    fn failure(&self) -> Option<String> {
        self.fails.load(Relaxed).then(|| "Input/output error".into())
    }

    fn is_on(&self) -> bool {
        true
    }

    fn is_synced(&self, offset: u64) -> bool {
        offset <= self.durable.load(Relaxed)
    }

    fn sync_to(&self, offset: u64) -> bool {
        self.note(format!("sync {offset}"));
        let goes_well = !self.fails.load(Relaxed);
        if goes_well {
            self.durable.fetch_max(offset, Relaxed);
        }
        goes_well
    }
}

impl CommandLog for SlowLog {
    fn append(&self, _: Db, _: Db, bytes: &[u8]) -> u64 {
        self.end.fetch_add(bytes.len() as u64, Relaxed) + bytes.len() as u64
    }
}

/// Records that bytes are written.
struct Recorded(Arc<SlowLog>);

impl Write for Recorded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.note("write".into());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn save(engine: &Engine, log: &Arc<SlowLog>) -> Result<(), SaveError> {
    let options = SaveOptions {
        stream: &|| None,
        compresses: true,
        has_checksum: true,
        is_base: false,
        is_for_valkey: false,
        is_background: false,
        backend: "test",
        spool: &|| Err(std::io::Error::other("nothing is large")),
        go_on: &|_| true,
    };
    commands::save(engine, Recorded(Arc::clone(log)), &options, || log.note("cut".into())).map(drop)
}

#[test]
fn what_a_dump_has_is_durable_before_the_first_byte_of_it_is_written() {
    let log = Arc::new(SlowLog::default());
    let given: Arc<dyn CommandLog> = Arc::clone(&log) as _;
    let options = EngineOptions { log: Some(given), ..EngineOptions::new(volatile(4, 64 << 20)) };
    let engine = Arc::new(Engine::new(options));
    let mut client = Client::new(&engine);
    client.check("SET key value", "OK");
    let end = log.end();
    assert!(end > 0);
    log.events.lock().expect("no panic").clear();
    save(&engine, &log).expect("a dump");
    let events = log.events.lock().expect("no panic").split_off(0);
    assert_eq!(events[..3], ["cut", &*format!("sync {end}"), "write"]);
    // All of it is durable now.
    save(&engine, &log).expect("a dump");
    let events = log.events.lock().expect("no panic").split_off(0);
    assert_eq!(events[..2], ["cut", "write"]);
    client.check("SET key other", "OK");
    log.durable.store(end, Relaxed);
    log.events.lock().expect("no panic").clear();
    log.fails.store(true, Relaxed);
    let refused = save(&engine, &log).expect_err("a sync that fails").to_string();
    assert_eq!(refused, "the AOF file failed: Input/output error");
    assert_eq!(
        log.events.lock().expect("no panic")[..],
        ["cut".into(), format!("sync {}", log.end())]
    );
}
