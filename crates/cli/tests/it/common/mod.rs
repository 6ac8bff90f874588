//! Checks of the program's output for all tests.

use std::process::Output;

/// Checks the exit status, and the texts on either of the outputs.
#[track_caller]
pub(crate) fn check(output: &Output, status: i32, says: &[&str]) {
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{text}");
    for part in says {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}
