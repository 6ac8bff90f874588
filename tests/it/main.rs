//! Tests of complete servers, of the library's examples, and of documents, in one program, so that
//! they are linked once.

#![forbid(unsafe_code)]

mod aof_failure;
mod append_only;
mod bad_input;
mod client_library;
mod durability;
mod examples;
mod fuzz_corpus;
mod hit_ratio;
mod kill_canary;
mod older_journal;
mod protocol_abuse;
mod protocol_differential;
mod restart;
mod smoke;
