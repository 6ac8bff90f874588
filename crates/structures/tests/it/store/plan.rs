//! The possible transactions.

use structures::list::Side;

use super::{BLOBS, State};

/// One transaction.
#[derive(Debug)]
pub enum Plan {
    Put {
        keys: Vec<u64>,
        value: u64,
    },
    Remove(Vec<u64>),
    RemoveAll,
    Defragment(u64),
    Create {
        blob: usize,
        len: usize,
        seed: u64,
        detached: bool,
    },
    Append {
        blob: usize,
        len: usize,
        seed: u64,
    },
    SetRange {
        blob: usize,
        at: usize,
        len: usize,
        seed: u64,
    },
    Drop(usize),
    Reclaim(usize),
    Add {
        keys: Vec<u64>,
        value: u64,
    },
    Take(Vec<u64>),
    TakeRun {
        from: usize,
        most: usize,
    },
    TakeAll,
    Relocate(u64),
    Push {
        side: Side,
        count: usize,
        len: usize,
        seed: u64,
    },
    Pop {
        side: Side,
        count: usize,
    },
    Trim {
        side: Side,
        count: usize,
    },
    Change {
        at: usize,
        len: usize,
        seed: u64,
        insert: bool,
    },
    /// Removes every other element from one side.
    Thin(Side),
    MoveNode(u64),
    DropList,
}

impl Plan {
    /// Returns a random plan that fits the state.
    pub fn random(state: &State, random: &mut fastrand::Rng) -> Plan {
        let some_keys = |random: &mut fastrand::Rng, count: usize| {
            let count = 1 + random.usize(..count);
            (0..count).map(|_| random.u64(..2000)).collect::<Vec<_>>()
        };
        let blob = random.usize(..BLOBS);
        let seed = random.u64(..);
        let span_len = 200_000usize.saturating_sub(state.blobs[blob].len()).max(1);
        let most = [50, 5000, 70_000][random.usize(..3)];
        let len = 1 + random.usize(..most.min(span_len));
        let (items, elements) = (state.items.len(), state.list.len());
        let side = if random.bool() { Side::Head } else { Side::Tail };
        let element = [20, 200, 3000, 70_000][random.usize(..100) / 30];
        let few_keys = state.keys.len() < 450 && random.bool();
        match random.u32(..44) {
            _ if few_keys => {
                Plan::Put { keys: (0..150).map(|_| random.u64(..2000)).collect(), value: seed }
            }
            0..7 => Plan::Put { keys: some_keys(random, 60), value: seed },
            7..10 => Plan::Remove(some_keys(random, 60)),
            10 if random.u32(..6) == 0 => Plan::RemoveAll,
            10 | 11 => Plan::Defragment(random.u64(..)),
            12 | 13 => Plan::Create { blob, len, seed, detached: random.bool() },
            14 | 15 => Plan::Append { blob, len, seed },
            16 | 17 => Plan::SetRange { blob, at: random.usize(..span_len), len, seed },
            18 => Plan::Drop(blob),
            19 | 20 => Plan::Reclaim(1 + random.usize(..30)),
            21 if items > 300 && random.u32(..3) == 0 => Plan::TakeAll,
            21 | 22 => Plan::Take(some_keys(random, 120)),
            23 => Plan::TakeRun { from: random.usize(..=items), most: random.usize(..150) },
            24 => Plan::Relocate(random.u64(..=items as u64)),
            25 if elements > 100 && random.bool() => Plan::DropList,
            25 => Plan::Thin(side),
            26..29 => Plan::Pop { side, count: random.usize(..60) },
            29 => Plan::Trim { side, count: random.usize(..=elements) },
            30 => Plan::MoveNode(random.u64(..=elements as u64)),
            31..33 if elements > 0 => {
                let (at, insert) = (random.usize(..elements), random.bool());
                Plan::Change { at, len: random.usize(..element), seed, insert }
            }
            31..38 => {
                let count = if element > 1000 { 2 } else { 1 + random.usize(..80) };
                Plan::Push { side, count, len: random.usize(..element), seed: seed >> 1 }
            }
            _ => Plan::Add { keys: some_keys(random, 120), value: seed },
        }
    }
}
