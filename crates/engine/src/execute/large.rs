//! Large values: copying one takes as long as many commands, so a thread other than the
//! connection's does it, since other clients wait for that one.
//!
//! Large arguments are seen before anything is done. A large reply is noticed when the value is
//! read: then the command is undone, and executed again elsewhere. So nothing is looked up for the
//! sake of the few values that are large.

use keyspace::Txn;

use crate::execute::call::Call;
use crate::failure::{Done, Failure};
use crate::session::kept_words::LARGE;

/// Returns true if the arguments of the command are large.
#[inline]
pub(super) fn has_large_arguments(call: &Call<'_>) -> bool {
    // Only requests that are large as a whole are lent.
    call.session.lent.is_some() && call.args.iter().map(|arg| arg.len()).sum::<usize>() > LARGE
}

/// Wraps a command's function so that it fails, to be executed elsewhere, if its reply becomes
/// large and it can be moved.
pub(super) fn unless_large<R>(run: R) -> impl FnOnce(&mut Call<'_>, &mut Txn<'_>) -> Done
where
    R: FnOnce(&mut Call<'_>, &mut Txn<'_>) -> Done,
{
    move |call, txn| {
        if !call.may_move() {
            return run(call, txn);
        }
        call.out.begin_limit(LARGE);
        let done = run(call, txn);
        if call.out.end_limit() { Err(Failure::takes_long(None)) } else { done }
    }
}
