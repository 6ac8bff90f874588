//! ROLE: whether this server is a primary or a replica, and of whom.

use engine::call::{Call, Run};
use engine::failure::Done;
use engine::spec::*;

use ::replication::Stage;

pub(crate) const ROLE: CommandSpec = CommandSpec {
    name: "role",
    summary: "Return the role of the instance in the context of replication",
    complexity: "O(1)",
    since: "2.8.12",
    group: Group::Server,
    arity: 1,
    flags: NOSCRIPT | LOADING | STALE | FAST,
    acl: ACL_ADMIN | ACL_DANGEROUS,
    run: Run::Session(role),
    ..CommandSpec::EMPTY
};

fn role(call: &mut Call<'_>) -> Done {
    let replication = call.engine.replication();
    if let Some(primary) = replication.primary() {
        call.out.array(5);
        call.out.bulk("slave");
        call.out.bulk(&primary.host);
        call.out.integer(i64::from(primary.port));
        call.out.bulk(replication.link_state().name());
        let is_synced = replication.is_linked();
        call.out.integer(if is_synced { replication.stream().end() as i64 } else { -1 });
        return Ok(());
    }
    let replicas = replication.replicas().all();
    let online = replicas.iter().filter(|replica| replica.stage() == Stage::Online);
    call.out.array(3);
    call.out.bulk("master");
    call.out.integer(replication.stream().end() as i64);
    call.out.array(online.clone().count());
    for replica in online {
        call.out.array(3);
        call.out.bulk(&replica.host);
        call.out.bulk(replica.port.to_string());
        call.out.bulk(replica.acknowledged().to_string());
    }
    Ok(())
}
