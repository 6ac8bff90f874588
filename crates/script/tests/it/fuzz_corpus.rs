//! Runs the body of the fuzz target on its committed corpus.

use std::fs;
use std::path::Path;

#[path = "../../../../fuzz/bodies/script.rs"]
mod target;

#[test]
fn scripts_of_the_corpus() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/script"));
    let mut replayed = 0;
    for entry in fs::read_dir(folder).expect("the corpus") {
        let path = entry.expect("an entry").path();
        println!("{}", path.display());
        target::check(&fs::read(&path).expect("an input"));
        replayed += 1;
    }
    assert!(replayed > 0, "{} is empty", folder.display());
}
