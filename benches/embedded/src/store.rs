//! What every store does here, in the form that its own manual recommends.

use crate::data::Key;

/// Whatever went wrong, in the words of the store.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The result of a call.
pub type Result<T> = std::result::Result<T, Failure>;

/// An open store, shared by threads.
pub trait Store: Send + Sync {
    /// Sets one value. Where the store was opened durable, it is so when this returns.
    fn put(&self, key: &Key, value: &[u8]) -> Result<()>;

    /// Sets several values in one transaction or atomic batch; durable as a whole where the store
    /// was opened so.
    fn put_all(&self, entries: &[(Key, &[u8])]) -> Result<()>;

    /// Shows a value to `look`, without a copy where the store can do without; whether there is
    /// one.
    fn get(&self, key: &Key, look: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Puts rows into what the store keeps in the order of its keys, in one batch: the same as all
    /// other values, unless the store says otherwise.
    fn put_rows(&self, entries: &[(Key, &[u8])]) -> Result<()> {
        self.put_all(entries)
    }

    /// Shows the values of up to `count` rows to `look`, in the order of their keys, from one on;
    /// how many.
    fn range(&self, from: &Key, count: usize, look: &mut dyn FnMut(&[u8])) -> Result<u64>;

    /// Takes a view of all values as they are now, which stay so while others are set; none where
    /// the store has no such thing.
    fn snapshot(&self) -> Result<Option<Box<dyn View + '_>>>;
}

/// All values as they were at one moment.
pub trait View {
    /// Shows a value to `look`, as [`Store::get`].
    fn get(&self, key: &Key, look: &mut dyn FnMut(&[u8])) -> Result<bool>;
}
