//! Checks a copy of the medium: the pool recovers, holds what the clients know, and is intact.
//!
//! The server that opens it runs on the host, where the pool is a plain file. It accepts the pool,
//! which was made by another machine and not closed, because the pool records that its stores
//! survive a power loss.

use crate::cuts::Failure;
use crate::image::{Format, extract};
use heap::Heap;
use keyspace::{Checked, Keyspace};
use pmem::{DomainRequest, MapOptions, Region};
use std::path::Path;
use testkit::Launch;
use testkit::load::{Crew, Violation};

/// The pool's name on its file system, and that of its journal.
pub(crate) const POOL: &str = "perdura.pool";
const JOURNAL: &str = "perdura.pool.journal";

/// Recovers the pool of a copied medium and compares it with what the clients know. A device
/// contains nothing but its pool.
pub(crate) fn copy_holds(copy: &Path, format: Format, crew: &mut Crew) -> Result<Checked, Failure> {
    let pool = match format {
        Format::Device => copy.to_owned(),
        Format::Ext4 | Format::Xfs | Format::Disk => {
            let pool = copy.with_extension("pool");
            if !extract(copy, POOL, &pool)? {
                return Err(Violation("the pool is not there".into()).into());
            }
            pool
        }
    };
    let path = pool.display().to_string();
    let launch = match format {
        Format::Disk => {
            extract(copy, JOURNAL, &pool.with_extension("pool.journal"))?;
            Launch::perdura().args(["--backend", "journal"])
        }
        _ => Launch::perdura().args(["--backend", "pmem", "--domain", "process"]),
    };
    let mut server = launch.args(["--pool", &path]).start();
    let mut client = server.client();
    crew.verify(&mut client)?;
    drop(client);
    if !server.terminate().success() {
        return Err(Violation(format!("the pool cannot be closed: {}", server.log())).into());
    }
    whole(&pool)
}

/// Verifies every checksum and count of a closed pool, and that the reachable blocks are the
/// allocated ones.
fn whole(pool: &Path) -> Result<Checked, Failure> {
    let failed = |what: &dyn std::fmt::Display| Failure::from(Violation(what.to_string()));
    let options =
        MapOptions { domain: DomainRequest::Process, create: false, ..MapOptions::new(0) };
    let region = Region::open(pool, &options).map_err(|error| failed(&error))?;
    let (heap, _) = Heap::open(region, [0; 16]).map_err(|error| failed(&error))?;
    Keyspace::new(heap, 0).check().map_err(|error| failed(&error))
}
