//! Memory: the limits of data and of clients, and the reports of a full store.

mod clients;
mod full_store;
mod limits;

pub use clients::ClientMemory;
pub use full_store::FullStore;
pub use limits::MemoryLimits;
