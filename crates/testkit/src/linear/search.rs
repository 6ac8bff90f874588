//! The definition, as a search through all orders (Wing and Gong, 1993): too slow for anything but
//! short histories, with which the criteria are compared.

use super::Call;

/// Returns true if some order of the calls respects real time, and `step` accepts each in turn;
/// calls that are open may be left out.
pub(super) fn is_linearizable<A, S: Clone>(
    calls: &[Call<A>],
    state: &S,
    step: &impl Fn(&S, &A) -> Option<S>,
) -> bool {
    is_linearizable_of(&calls.iter().collect::<Vec<_>>(), state, step)
}

/// Does the same for references.
fn is_linearizable_of<A, S: Clone>(
    calls: &[&Call<A>],
    state: &S,
    step: &impl Fn(&S, &A) -> Option<S>,
) -> bool {
    if calls.iter().all(|call| call.ended == Call::<A>::OPEN) {
        return true;
    }
    (0..calls.len()).any(|next| {
        let call = calls[next];
        let is_first = !calls.iter().any(|other| other.is_before(call));
        let Some(after) = is_first.then(|| step(state, &call.what)).flatten() else {
            return false;
        };
        let mut left = calls.to_vec();
        left.remove(next);
        is_linearizable_of(&left, &after, step)
    })
}
