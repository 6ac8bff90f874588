//! Byte strings.

use heap::{Full, Shard, View};
use structures::blob::{Blob, Reservation};

use super::FIRST_BLOB;

pub fn replace(
    shard: &mut Shard<'_>,
    blob: usize,
    change: impl FnOnce(&mut Shard<'_>, Blob) -> Result<Blob, Full>,
) -> Result<(), Full> {
    let root = shard.root(FIRST_BLOB + blob);
    let old = Blob::from_word(shard.word(root));
    let new = change(shard, old)?;
    if new != old {
        shard.set(root, new.word());
    }
    Ok(())
}

pub fn create_detached(shard: &mut Shard<'_>, content: &[u8]) -> Result<Blob, Full> {
    let mut reservation = Reservation::new(content.len() as u64);
    while !reservation.reserve(shard, 2)? {}
    let blob = reservation.fill(|at, piece| {
        piece.copy_from_slice(&content[at as usize..at as usize + piece.len()]);
    })?;
    reservation.adopt(shard);
    Ok(blob)
}
