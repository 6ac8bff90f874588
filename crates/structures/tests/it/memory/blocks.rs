//! The blocks of the store, found at once by any address in them: a block begins with a line of 64
//! bytes, which no other block shares.

const LINE: u64 = 64;

#[derive(Clone, Debug, Default)]
pub(super) struct Block {
    pub(super) capacity: usize,
    /// Length of the bytes that readers may know, from the start.
    pub(super) published: Option<usize>,
    /// Reserved by the open transaction.
    pub(super) fresh: bool,
    /// Freed by the open transaction.
    pub(super) freed: bool,
    /// Ranges written before publication: one from the start if in order, else single ones.
    pub(super) written: Vec<std::ops::Range<usize>>,
}

/// One place for each line.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    /// The block that begins with the line.
    begun: Vec<Option<Block>>,
    /// The first line of the block that the line is in, or was in.
    first: Vec<usize>,
}

impl Blocks {
    pub(super) fn insert(&mut self, at: u64, block: Block) {
        assert!(at.is_multiple_of(LINE));
        let (first, end) = ((at / LINE) as usize, (at + block.capacity as u64).div_ceil(LINE));
        if self.first.len() < end as usize {
            self.first.resize(end as usize, 0);
            self.begun.resize(end as usize, None);
        }
        self.first[first..end as usize].fill(first);
        self.begun[first] = Some(block);
    }

    pub(super) fn remove(&mut self, at: u64) -> Option<Block> {
        self.begun.get_mut((at / LINE) as usize)?.take()
    }

    /// Returns the block that begins at an address.
    pub(super) fn get(&self, at: u64) -> Option<&Block> {
        let block = self.begun.get((at / LINE) as usize)?;
        block.as_ref().filter(|_| at.is_multiple_of(LINE))
    }

    pub(super) fn get_mut(&mut self, at: u64) -> Option<&mut Block> {
        let block = self.begun.get_mut((at / LINE) as usize)?;
        block.as_mut().filter(|_| at.is_multiple_of(LINE))
    }

    /// Returns the block that an address is in, and where it begins.
    pub(super) fn with(&self, at: u64) -> Option<(u64, &Block)> {
        let first = *self.first.get((at / LINE) as usize)?;
        let (start, block) = (first as u64 * LINE, self.begun[first].as_ref()?);
        (at < start + block.capacity as u64).then_some((start, block))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Block)> {
        let places = self.begun.iter().enumerate();
        places.filter_map(|(line, block)| Some((line as u64 * LINE, block.as_ref()?)))
    }
}
