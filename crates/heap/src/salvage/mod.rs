//! Reading a pool that cannot be opened, for what is sound in it.
//!
//! [`Salvage::open`] takes a private copy of a pool's pages and refuses nothing that the rest of
//! the pool can stand without: a damaged header is put together again from both copies, else
//! guessed from the spans; a damaged log is applied as far as it is sound; of a span whose word in
//! the span table is lost, its own header says the class. What was damaged is listed as
//! [`SalvageNote`]s. What the bytes of a block mean, and whether they are sound, is the business of
//! the layer above, as always.
//!
//! Nothing is reserved, committed or written to the file: there is no log to write to. Bitmaps
//! decide nothing for a block that is reached, since what leads to it verifies what it finds there;
//! they tell blocks in use from freed ones where nothing leads to them any more
//! ([`Salvage::allocated`]).

mod header;
mod log;
mod marks;
mod note;
mod reader;
mod shapes;

pub use marks::Marks;
pub use note::{SalvageError, SalvageNote};
pub use reader::Salvage;
