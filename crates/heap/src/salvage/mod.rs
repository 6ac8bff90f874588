//! Reads the sound parts of a pool that cannot be opened.
//!
//! [`Salvage::open`] takes a private copy of a pool's pages and tolerates all damage that leaves
//! the rest readable: a damaged header is reconstructed from both copies, or else guessed from the
//! spans; a damaged log is applied as far as it is sound; if a span's word in the span table is
//! lost, the span's own header gives its class. Damage is listed as [`SalvageNote`]s. As always,
//! the meaning of a block's bytes, and whether they are sound, is the business of the layer above.
//!
//! Nothing is reserved, committed or written to the file: there is no log to write to. Bitmaps do
//! not matter for a block that is reached, since whatever leads to it verifies what it finds there;
//! they tell blocks in use from freed ones when nothing leads to them any more
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
