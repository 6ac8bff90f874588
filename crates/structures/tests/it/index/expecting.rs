//! Growth of an index that expects entries.

use structures::index::Index;

use super::{Hash, Pair, segments};

#[test]
fn an_index_that_expects_entries_asks_for_few_hashes() {
    let keys = 60_000;
    let fill = |wanted| {
        let mut pair = Pair { wanted, ..Pair::new(Hash::Good) };
        for key in 0..keys {
            let cost = pair.put(key, 0).expect("free memory");
            assert!(cost.words <= 128 && cost.published <= 16 + 16 * 4352 + 2048, "{cost:?}");
        }
        pair.check();
        (pair.rehashed.get(), segments(&pair))
    };
    let wanted = Index::depth_for(keys);
    assert_eq!(wanted, 7);
    let (rehashed, blocks) = fill(0);
    let (expecting, expected_blocks) = fill(wanted);
    println!(
        "hashes asked for: {rehashed}, expecting {expecting}; blocks {blocks}, {expected_blocks}"
    );
    assert!(rehashed > keys && expecting < keys / 4);
    assert_eq!(blocks, expected_blocks);
    // The expected entries have not arrived.
    let (_, blocks) = fill(40);
    assert!(blocks < 16 * expected_blocks);
}
