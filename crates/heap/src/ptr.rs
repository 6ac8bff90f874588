//! A place in the pool, and reading from it.
//!
//! References inside a pool are byte offsets from its first byte, so that a pool may be mapped at
//! any address. Offset 0 is the pool's header, which no structure refers to: it serves as null.

/// The offset of a block, a word or some bytes in the pool, below 2^48; that of a word is a
/// multiple of 8.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Ptr(u64);

impl Ptr {
    /// Refers to nothing.
    pub const NULL: Ptr = Ptr(0);

    /// Returns the place at byte offset `raw` of the pool.
    #[inline]
    pub const fn from_raw(raw: u64) -> Ptr {
        Ptr(raw)
    }

    /// Returns the byte offset in the pool.
    #[inline]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// Returns true if this refers to nothing.
    #[inline]
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }

    /// Returns the place `bytes` further on. An offset read from a damaged pool may wrap; reading
    /// there yields zeros.
    #[inline]
    pub const fn add(self, bytes: u64) -> Ptr {
        Ptr(self.0.wrapping_add(bytes))
    }
}

/// Something that can be read: a locked shard with its open transaction, or a snapshot.
///
/// A place outside the pool, which only a damaged pool refers to, reads as zero or as no bytes and
/// is counted as a fault of the region; it never panics.
pub trait View {
    /// Returns the word at `at`; if the open transaction staged a value for it, that one.
    fn word(&self, at: Ptr) -> u64;

    /// Returns the eight words of the line at `at`, a multiple of 64.
    fn line(&self, at: Ptr) -> [u64; 8] {
        std::array::from_fn(|i| self.word(at.add(8 * i as u64)))
    }

    /// Returns a bit mask of the eight words of the line at `at` that have `tag` in their high 16
    /// bits.
    fn tagged(&self, at: Ptr, tag: u16) -> u8 {
        let bit = |i: usize, word: u64| u8::from((word >> 48) as u16 == tag) << i;
        self.line(at).into_iter().enumerate().fold(0, |bits, (i, word)| bits | bit(i, word))
    }

    /// Returns `len` bytes from `at`. Only for bytes that no transaction logs: once published, they
    /// never change.
    fn bytes(&self, at: Ptr, len: usize) -> &[u8];

    /// Asks the CPU to load the line at `at` soon.
    fn prefetch(&self, at: Ptr);
}
