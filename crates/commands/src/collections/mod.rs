//! Code that commands on collections of several types share.

pub(crate) mod gathered;
pub(crate) mod random;
pub(crate) mod scan;

use engine::call::Words;

/// Returns the requests at the front that pop one element and have no count, at most so many.
pub(crate) fn pops_of_one<'r, 'a>(requests: &'r [Words<'a>], most: u64) -> &'r [Words<'a>] {
    let plain = requests.iter().take_while(|args| args.len() == 2).count();
    &requests[..plain.min(usize::try_from(most).unwrap_or(plain))]
}
