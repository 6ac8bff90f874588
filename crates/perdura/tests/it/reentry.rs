//! Calls of a store from inside its own closures: an error, whether or not the shards coincide.

use std::time::Duration;

use perdura::prelude::*;
use perdura::{
    BitInteger, BitOperation, BitRange, Error, GeoPoint, Options, Order, Perdura, StreamId,
    Transaction,
};

fn volatile() -> Perdura {
    let options = Options::volatile().limit(64 << 20).background(false);
    Perdura::open(options).expect("a store in memory")
}

/// Some twenty keys, so that some share a shard with `k` and some do not.
fn keys() -> impl Iterator<Item = String> {
    (0..20).map(|n| format!("key-{n}"))
}

/// Makes a call of each kind on a key. Returns the errors.
fn calls(store: &Perdura, key: &str) -> Vec<(&'static str, Option<Error>)> {
    let minute = Duration::from_secs(60);
    let large = "v".repeat(40_000);
    let integer = BitInteger::unsigned(8).expect("eight bits");
    let place = GeoPoint { longitude: 1.0, latitude: 2.0 };
    vec![
        ("get", store.get(key).err()),
        ("get_with", store.get_with(key, |_| ()).err()),
        ("set", store.set(key, "v").err()),
        ("set, large", store.set(key, &large).err()),
        ("set_for", store.set_for(key, "v", minute).err()),
        ("increment", store.increment(key, 1).err()),
        ("append", store.append(key, "v").err()),
        ("exists", store.exists(key).err()),
        ("delete", store.delete(key).err()),
        ("expire", store.expire(key, minute).err()),
        ("persist", store.persist(key).err()),
        ("ttl", store.ttl(key).err()),
        ("transaction", store.transaction(&[key], |_| Ok::<_, Error>(())).err()),
        ("hash_set", store.hash_set(key, "f", "v").err()),
        ("set_members", store.set_members(key).err()),
        ("push_back", store.push_back(key, "e").err()),
        ("sort", store.sort(key, Order::Numbers).err()),
        ("score", store.sorted_set_score(key, "m").err()),
        ("create_group", store.create_group(key, "g", StreamId::MIN).err()),
        ("bit_count", store.bit_count(key, BitRange::All).err()),
        ("bit_field_get", store.bit_field_get(key, integer, 0).err()),
        ("bit_op", store.bit_op(key, BitOperation::And, &["other"]).err()),
        ("pf_count", store.pf_count(&[key, "other"]).err()),
        ("geo_add", store.geo_add(key, "m", place).err()),
    ]
}

fn all_are_refused(store: &Perdura) {
    for key in keys() {
        for (call, error) in calls(store, &key) {
            assert_eq!(error, Some(Error::Reentrant), "{call} {key}");
        }
    }
    assert!(!store.maintain());
}

#[test]
fn a_call_inside_of_a_transaction_is_refused_in_any_shard() {
    let store = volatile();
    store.set("k", "before").expect("space");
    let inner = store.transaction(&["k"], |tx| {
        all_are_refused(&store);
        assert_eq!(store.len(), 1, "this takes no lock");
        tx.set("k", "after")
    });
    assert_eq!((inner, store.get("k")), (Ok(()), Ok(Some(b"after".to_vec()))));
}

#[test]
fn so_is_a_call_from_where_a_value_is_shown() {
    let store = volatile();
    for len in [5, 40_000] {
        store.set("k", vec![b'v'; len]).expect("space");
        assert_eq!(store.get_with("k", |_| all_are_refused(&store)), Ok(true));
    }
}

/// A key whose bytes are computed by a call of the store.
struct Nosy<'s>(&'s Perdura);

impl AsRef<[u8]> for Nosy<'_> {
    fn as_ref(&self) -> &[u8] {
        match self.0.get("k") {
            Err(Error::Reentrant) => b"refused",
            _ => b"k",
        }
    }
}

#[test]
fn so_is_a_call_from_an_argument() {
    let store = volatile();
    assert_eq!(store.hash_set("k", Nosy(&store), "v"), Ok(true));
    assert_eq!(store.hash_get("k", "refused"), Ok(Some(b"v".to_vec())));
}

/// A value whose bytes are computed by a call of the transaction that it is given to.
struct NosyInside<'t, 's>(&'t Transaction<'s>);

impl AsRef<[u8]> for NosyInside<'_, '_> {
    fn as_ref(&self) -> &[u8] {
        match self.0.get("other") {
            Err(Error::Reentrant) => b"refused",
            _ => b"answered",
        }
    }
}

#[test]
fn so_is_a_call_of_a_transaction_from_an_argument_of_its_own_operation() {
    let store = volatile();
    let keys = ["stream", "hash", "other"];
    let done = store.transaction(&keys, |tx| {
        let tx = &*tx;
        tx.set("other", "v")?;
        // The operation makes the fields one by one.
        let fields = keys.iter().map(|key| (key, format!("{:?}", tx.get(key))));
        let id = tx.append_entry("stream", fields)?.expect("an ID");
        let entries = tx.entries("stream", id..=id, 1)?;
        let values = entries[0].fields.iter().map(|(_, value)| value.as_slice());
        assert_eq!(values.collect::<Vec<_>>(), [b"Err(Reentrant)"; 3]);
        tx.create_group("stream", "g", StreamId::MIN)?;
        let mut deleted = Vec::new();
        let ids = std::iter::once(id).inspect(|_| deleted.push(tx.delete("stream")));
        assert_eq!(tx.acknowledge("stream", "g", ids), Ok(0));
        assert_eq!(deleted, [Err(Error::Reentrant)]);
        tx.hash_set("hash", "f", NosyInside(tx))?;
        assert_eq!(tx.hash_get("hash", "f"), Ok(Some(b"refused".to_vec())));
        // Between its operations the transaction works as before.
        tx.get("other")
    });
    assert_eq!(done, Ok(Some(b"v".to_vec())));
    assert_eq!((store.len(), store.stream_len("stream")), (3, Ok(1)));
}

#[test]
fn a_refused_call_undoes_the_transaction_that_hands_its_error_on() {
    let store = volatile();
    let failed = store.transaction(&["k"], |tx| {
        tx.set("k", "v")?;
        store.set("elsewhere", "v")
    });
    assert_eq!((failed, store.len()), (Err(Error::Reentrant), 0));
}

#[test]
fn the_store_serves_again_after_the_closure_also_after_a_panic() {
    let store = volatile();
    let panicking = || store.transaction(&["k"], |_| -> Result<(), Error> { panic!("a closure") });
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panicking)).is_err());
    for key in keys() {
        assert_eq!(store.set(&key, "v"), Ok(()));
    }
}

#[test]
fn another_store_can_be_called_and_other_threads_are_not_refused() {
    let (store, other) = (volatile(), volatile());
    let both = store.transaction(&["k"], |tx| {
        other.transaction(&["k"], |inner| inner.set("k", "v"))?;
        assert_eq!(other.get("k"), Ok(Some(b"v".to_vec())));
        assert_eq!(store.get("k"), Err(Error::Reentrant));
        let free = keys().find(|key| {
            std::thread::scope(|scope| {
                let asked = scope.spawn(|| other.set(key, "v"));
                asked.join().expect("no panic").is_ok()
            })
        });
        assert_eq!(free.as_deref(), Some("key-0"));
        tx.set("k", "v")
    });
    assert_eq!(both, Ok(()));
}
