//! Ports for servers, of which each test process has its own.
//!
//! A server that is killed and started again has no port in between. If another process took the
//! port meanwhile, the test would read that process's server. So a process reserves a block of
//! ports, by binding a socket in the abstract namespace that has the block's number in its name:
//! the kernel releases it with the process, however that ends.

use std::net::TcpListener;
use std::ops::Range;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// All ports: below those that the kernel gives to outgoing connections.
const PORTS: Range<u16> = 20_000..32_000;
/// The number of ports in a block.
const BLOCK: u16 = 200;

/// A block of ports that no other process has.
struct Block {
    ports: Range<u16>,
    /// Reserves the block while it is open.
    _reserved: UnixListener,
}

impl Block {
    /// Reserves a block.
    fn reserve() -> Block {
        let blocks = PORTS.len() as u16 / BLOCK;
        let first = fastrand::u16(..blocks);
        let block = (0..blocks).find_map(|n| Block::try_reserve((first + n) % blocks));
        block.expect("one of the blocks of ports is free")
    }

    fn try_reserve(number: u16) -> Option<Block> {
        let name = SocketAddr::from_abstract_name(format!("perdura-test-ports-{number}")).ok()?;
        let reserved = UnixListener::bind_addr(&name).ok()?;
        let start = PORTS.start + number * BLOCK;
        Some(Block { ports: start..start + BLOCK, _reserved: reserved })
    }
}

/// Returns a free port that no other test process uses, also while nothing listens there. No port
/// is returned twice until all of this process's ports have been.
pub fn free_port() -> u16 {
    static OWN: LazyLock<Block> = LazyLock::new(Block::reserve);
    static GIVEN: AtomicUsize = AtomicUsize::new(0);
    loop {
        let number = GIVEN.fetch_add(1, Ordering::Relaxed) % OWN.ports.len();
        let port = OWN.ports.start + number as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_processes_have_a_block_and_its_end_releases_it() {
        // No process looks for its ports in a block so far on.
        let number = fastrand::u16(100..200);
        let block = Block::try_reserve(number).expect("a free block");
        assert!(Block::try_reserve(number).is_none());
        assert!(Block::try_reserve(number + 1).is_some());
        drop(block);
        assert!(Block::try_reserve(number).is_some());
    }

    #[test]
    fn ports_of_a_process_differ() {
        let ports: std::collections::BTreeSet<u16> = (0..50).map(|_| free_port()).collect();
        assert_eq!(ports.len(), 50);
        assert!(ports.iter().all(|port| PORTS.contains(port)));
    }
}
