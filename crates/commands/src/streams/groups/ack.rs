//! XACK.

use engine::call::{Call, Run};
use engine::failure::Done;
use engine::spec::*;
use keyspace::{StreamId, Txn};

use crate::streams::{id, stream_to_read};

pub(crate) const XACK: CommandSpec = CommandSpec {
    name: "xack",
    summary: "Marks a pending message as correctly processed, effectively removing it from the pending entries list of the consumer group. Return value of the command is the number of messages successfully acknowledged, that is, the IDs we were actually able to resolve in the PEL.",
    complexity: "O(1) for each message ID processed.",
    since: "5.0.0",
    group: Group::Stream,
    arity: -4,
    flags: WRITE | FAST,
    acl: ACL_STREAM,
    keys: &[KeySpec::one(1, KEY_RW | KEY_UPDATE)],
    args: &[key("key", 0), string("group"), string("id").multiple()],
    run: Run::Keys(xack),
    ..CommandSpec::EMPTY
};

fn xack(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let name = call.args[2];
    let group = match stream_to_read(call, txn)? {
        Some(stream) => stream.group(name)?,
        None => None,
    };
    let Some(group) = group else {
        call.out.integer(0);
        return Ok(());
    };
    let ids = call.args[3..].iter().map(|word| id::strict(word, 0));
    let ids: Vec<StreamId> = ids.collect::<Result<_, _>>()?;
    let acknowledged = txn.streams().edit(call.db(), &call.key(0), |edit| {
        ids.iter().try_fold(0, |sum, id| Ok(sum + i64::from(edit.acknowledge(&group, *id)?)))
    })?;
    if acknowledged > 0 {
        call.wrote();
    }
    call.out.integer(acknowledged);
    Ok(())
}
