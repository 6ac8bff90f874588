//! Large values: to copy one takes as long as many commands, so that is done by another thread than
//! the connection's, which others wait for.
//!
//! Arguments are large before anything is done. A reply shows itself when the value is read: then
//! the command is undone, and executed again elsewhere. So nothing is looked up for the sake of
//! the few values that are large.

use keyspace::Txn;

use crate::execute::call::Call;
use crate::failure::{Done, Failure};
use crate::session::kept_words::LARGE;

/// Returns true if the arguments of the command are large.
#[inline]
pub(super) fn has_large_arguments(call: &Call<'_>) -> bool {
    // Only what is large as a whole is lent.
    call.session.lent.is_some() && call.args.iter().map(|arg| arg.len()).sum::<usize>() > LARGE
}

/// Makes of what a command runs what ends where its reply becomes large, if it can be executed
/// elsewhere.
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
