//! Checks that `include/perdura.h` matches the sources.

use std::fs;
use std::path::Path;

/// `WRITE_HEADER=1 cargo test -p perdura-capi` writes the header.
#[test]
fn the_header_is_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_root_or_default(root);
    let bindings = cbindgen::Builder::new().with_crate(root).with_config(config).generate();
    let mut text = Vec::new();
    bindings.expect("sources that cbindgen understands").write(&mut text);
    let text = String::from_utf8(text).expect("UTF-8");
    let path = root.join("include/perdura.h");
    if std::env::var_os("WRITE_HEADER").is_some() {
        fs::write(&path, &text).expect("a writable header");
    }
    let header = fs::read_to_string(&path).unwrap_or_default();
    assert!(header == text, "run WRITE_HEADER=1 cargo test -p perdura-capi; expected:\n{text}");
}
