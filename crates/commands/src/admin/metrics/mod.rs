//! The numbers of INFO as Prometheus reads them.
//!
//! Nothing is counted for this page alone. When it is requested, it is written from the counters of
//! INFO, LATENCY and CONFIG RESETSTAT. Unlike INFO it locks no shard, so that a scrape neither
//! waits for a long command nor delays one.
//!
//! Names follow Prometheus's conventions (base units, `_total` for counters). After the prefix they
//! are those of the usual exporter for Redis if it has them, so that a board is easily adapted.

mod data;
mod page;
mod process;
mod replication;

use engine::Engine;
use page::Page;

/// Returns all metrics in Prometheus's text format.
pub fn metrics(engine: &Engine) -> String {
    let facts = engine.host().map(|host| host.facts()).unwrap_or_default();
    let mut page = Page::default();
    process::server(&mut page, engine, &facts);
    process::clients(&mut page, engine, &facts);
    process::commands(&mut page, engine);
    process::latencies(&mut page, engine);
    process::errors(&mut page, engine);
    replication::replication(&mut page, engine);
    data::keyspace(&mut page, engine);
    data::memory(&mut page, engine, &facts);
    data::heap(&mut page, engine, &facts);
    data::read_cache(&mut page, engine);
    data::persistence(&mut page, engine, &facts.persistence);
    data::recovery(&mut page, &facts.persistence);
    data::damage(&mut page, engine, &facts.persistence);
    data::snapshot(&mut page, engine);
    if let Some(host) = engine.host() {
        data::disks(&mut page, &host.disks());
    }
    data::rdb(&mut page, engine, &facts.persistence.rdb);
    if let Some(journal) = &facts.persistence.journal {
        data::journal(&mut page, journal);
    }
    if let Some(aof) = &facts.persistence.aof {
        data::aof(&mut page, aof);
    }
    page.into_text()
}
