//! The smallest part of a sequence that still fails.
//!
//! Parts are left out, large ones first; if the rest still fails, it continues without them, until
//! no single step can be left out any more.

/// Returns the smallest part for which `fails` holds; it must hold for the whole.
pub(crate) fn smallest<T: Clone>(mut steps: Vec<T>, mut fails: impl FnMut(&[T]) -> bool) -> Vec<T> {
    let mut part = steps.len().div_ceil(2);
    while part > 0 {
        let (mut at, before) = (0, steps.len());
        while at < steps.len() {
            let end = steps.len().min(at + part);
            let rest = [&steps[..at], &steps[end..]].concat();
            if fails(&rest) {
                steps = rest;
            } else {
                at = end;
            }
        }
        if part > 1 || steps.len() == before {
            part /= 2;
        }
    }
    steps
}
