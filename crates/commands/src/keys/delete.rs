//! DEL, UNLINK, EXISTS, TOUCH. Values are always freed in the background, so DEL and UNLINK are
//! alike.

use engine::call::{Call, Run};
use engine::failure::Done;
use engine::notify::events::EventClass;
use engine::spec::*;
use keyspace::Txn;

pub(crate) const DEL: CommandSpec = CommandSpec {
    name: "del",
    summary: "Delete a key",
    complexity: "O(N) where N is the number of keys that will be removed. When a key to remove holds a value other than a string, the individual complexity for this key is O(M) where M is the number of elements in the list, set, sorted set or hash. Removing a single key that holds a string value is O(1).",
    since: "1.0.0",
    group: Group::Generic,
    arity: -2,
    flags: WRITE,
    traits: REPLACES,
    acl: ACL_KEYSPACE,
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    keys: &[KeySpec::rest(1, 1, KEY_RM | KEY_DELETE)],
    args: &[key("key", 0).multiple()],
    run: Run::Keys(del),
    ..CommandSpec::EMPTY
};

pub(crate) const UNLINK: CommandSpec = CommandSpec {
    name: "unlink",
    summary: "Delete a key asynchronously in another thread. Otherwise it is just as DEL, but non blocking.",
    complexity: "O(1) for each key removed regardless of its size. Then the command does O(N) work in a different thread in order to reclaim memory, where N is the number of allocations the deleted objects where composed of.",
    since: "4.0.0",
    group: Group::Generic,
    arity: -2,
    flags: WRITE | FAST,
    traits: REPLACES,
    acl: ACL_KEYSPACE,
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    keys: &[KeySpec::rest(1, 1, KEY_RM | KEY_DELETE)],
    args: &[key("key", 0).multiple()],
    run: Run::Keys(del),
    ..CommandSpec::EMPTY
};

fn del(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let mut deleted = 0;
    for key in call.keys {
        if txn.keys().delete(call.session.db, key)? {
            deleted += 1;
            call.notify(EventClass::Generic, "del", key);
        }
    }
    if deleted > 0 {
        call.wrote();
    }
    call.out.integer(deleted);
    Ok(())
}

pub(crate) const EXISTS: CommandSpec = CommandSpec {
    name: "exists",
    summary: "Determine if a key exists",
    complexity: "O(N) where N is the number of keys to check.",
    since: "1.0.0",
    group: Group::Generic,
    arity: -2,
    flags: READONLY | FAST,
    acl: ACL_KEYSPACE,
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    keys: &[KeySpec::rest(1, 1, KEY_RO)],
    history: &[("3.0.3", "Accepts multiple `key` arguments.")],
    args: &[key("key", 0).multiple()],
    run: Run::Keys(exists),
    ..CommandSpec::EMPTY
};

fn exists(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let found = call.keys.iter().filter(|key| txn.look(call.session.db, key).is_some());
    call.out.integer(found.count() as i64);
    Ok(())
}

pub(crate) const TOUCH: CommandSpec = CommandSpec {
    name: "touch",
    summary: "Alters the last access time of a key(s). Returns the number of existing keys specified.",
    complexity: "O(N) where N is the number of keys that will be touched.",
    since: "3.2.1",
    group: Group::Generic,
    arity: -2,
    flags: READONLY | FAST,
    traits: TOUCHES,
    acl: ACL_KEYSPACE,
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    keys: &[KeySpec::rest(1, 1, KEY_RO)],
    args: &[key("key", 0).multiple()],
    run: Run::Keys(touch),
    ..CommandSpec::EMPTY
};

fn touch(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let found = call.keys.iter().filter(|key| txn.find(call.session.db, key).is_some());
    call.out.integer(found.count() as i64);
    Ok(())
}
