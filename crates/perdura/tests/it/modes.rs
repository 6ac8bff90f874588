//! Permissions of a store's files: only the owner may read files that the library makes; existing
//! files keep the permissions that an administrator gave them.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use perdura::prelude::*;
use perdura::{DomainRequest, Durability, Options, Perdura};

const DOMAINS: [DomainRequest; 2] = [DomainRequest::Process, DomainRequest::Journal];

fn options(pool: &Path, domain: DomainRequest) -> Options {
    let options = Options::new(pool).limit(64 << 20).domain(domain).background(false);
    options.journal_size(1 << 20).durability(Durability::Os)
}

/// The pool's file, and its journal's.
fn files(folder: &Path, domain: DomainRequest) -> [PathBuf; 2] {
    ["pool", "pool.journal"].map(|name| folder.join(format!("{domain:?} {name}")))
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("a file").permissions().mode() & 0o7777
}

/// Makes an empty file as an administrator does.
fn make(path: &Path, mode: u32) {
    fs::write(path, "").expect("a file");
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("its mode");
}

/// Writes, closes, and reads again.
fn check_use(options: &Options) {
    let store = Perdura::open(options.clone()).expect("a store");
    store.set("name", "Ada").expect("space");
    store.close().expect("closed");
    let store = Perdura::open(options.clone()).expect("the store again");
    assert_eq!(store.get("name"), Ok(Some(b"Ada".to_vec())));
}

#[test]
fn files_that_the_library_makes_are_their_owners_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    for domain in DOMAINS {
        let [pool, journal] = files(folder.path(), domain);
        check_use(&options(&pool, domain));
        assert_eq!(mode(&pool), 0o600);
        assert_eq!(journal.exists(), domain == DomainRequest::Journal);
        if journal.exists() {
            assert_eq!(mode(&journal), 0o600);
        }
    }
}

#[test]
fn empty_files_that_are_there_keep_the_mode_that_they_have() {
    let folder = tempfile::tempdir().expect("a folder");
    for (domain, given) in DOMAINS.into_iter().flat_map(|d| [(d, 0o644), (d, 0o660)]) {
        let folder = folder.path().join(format!("{given:o}"));
        fs::create_dir_all(&folder).expect("a folder");
        let [pool, journal] = files(&folder, domain);
        make(&pool, given);
        make(&journal, given);
        check_use(&options(&pool, domain));
        assert_eq!((mode(&pool), mode(&journal)), (given, given));
    }
}

/// Files next to a pool do not become readable because the pool is.
#[test]
fn a_journal_and_a_backup_do_not_take_the_mode_of_the_pool() {
    let folder = tempfile::tempdir().expect("a folder");
    let [pool, journal] = files(folder.path(), DomainRequest::Journal);
    make(&pool, 0o644);
    let store = Perdura::open(options(&pool, DomainRequest::Journal)).expect("a store");
    let copy = folder.path().join("copy");
    store.backup(&copy).expect("a copy");
    assert_eq!((mode(&pool), mode(&journal), mode(&copy)), (0o644, 0o600, 0o600));
}
