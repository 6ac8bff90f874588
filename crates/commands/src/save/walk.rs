//! The keys of a snapshot, read by a thread of its own while those before them are encoded.
//!
//! A few pieces are in memory at once, one of which may be as long as the longest string: one that
//! is being read, one that waits, one that is encoded.

use std::sync::mpsc::sync_channel;
use std::thread;

use keyspace::{Item, Snapshot, SnapshotLost};

use crate::save_options::SaveError;

/// Bytes that are passed on at once.
const PIECE: u64 = 128 << 10;
/// Pieces that wait.
const WAITING: usize = 1;

/// Shows all items, which another thread reads if there is one to be had (`threads`), and drops the
/// snapshot when it is read.
pub(super) fn for_each(
    mut snapshot: Snapshot,
    threads: usize,
    mut each: impl FnMut(Item) -> Result<(), SaveError>,
) -> Result<(), SaveError> {
    if threads < 2 {
        while let Some(piece) = read(&mut snapshot)? {
            piece.into_iter().try_for_each(&mut each)?;
        }
        return Ok(());
    }
    thread::scope(|scope| {
        let (sender, pieces) = sync_channel(WAITING);
        let walk = move || {
            loop {
                let piece = read(&mut snapshot).transpose();
                let is_last = !matches!(piece, Some(Ok(_)));
                // Nobody takes it if the dump is given up.
                if piece.is_some_and(|piece| sender.send(piece).is_err()) || is_last {
                    return;
                }
            }
        };
        thread::Builder::new().name("save-walk".to_owned()).spawn_scoped(scope, walk)?;
        for piece in pieces {
            piece?.into_iter().try_for_each(&mut each)?;
        }
        Ok(())
    })
}

/// Returns the next items; none at the end.
fn read(snapshot: &mut Snapshot) -> Result<Option<Vec<Item>>, SnapshotLost> {
    let (mut piece, mut items, mut bytes) = (Vec::new(), Vec::new(), 0);
    while bytes < PIECE && snapshot.next(&mut items)? {
        bytes += items.iter().map(Item::size).sum::<u64>();
        piece.append(&mut items);
    }
    Ok(Some(piece).filter(|piece| !piece.is_empty()))
}
