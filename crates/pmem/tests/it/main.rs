//! Tests of regions over files, in one program, so that they are linked once.

mod bounds;
mod domains;
mod growth;
mod journal;
mod lock;
mod media;
