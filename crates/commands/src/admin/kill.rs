//! CLIENT KILL: which clients are meant, and their end.

use std::sync::Arc;

use crate::call::{Call, Next, Run};
use crate::client::Client;
use crate::engine::Engine;
use crate::failure::{Done, Failure, SYNTAX};
use crate::spec::*;

pub(super) const CLIENT_KILL: CommandSpec = CommandSpec {
    name: "kill",
    summary: "Kill the connection of a client",
    complexity: "O(N) where N is the number of client connections",
    since: "2.4.0",
    group: Group::Connection,
    arity: -3,
    flags: ADMIN | NOSCRIPT | LOADING | STALE,
    acl: ACL_CONNECTION,
    history: &[
        ("2.8.12", "Added new filter format."),
        ("2.8.12", "`ID` option."),
        ("3.2.0", "Added `master` type in for `TYPE` option."),
        (
            "5.0.0",
            "Replaced `slave` `TYPE` with `replica`. `slave` still supported for backward compatibility.",
        ),
        ("6.2.0", "`LADDR` option."),
    ],
    args: &[oneof(
        "filter",
        &[
            string("ip:port").deprecated("2.8.12"),
            oneof(
                "new-format",
                &[
                    integer("client-id").token("ID").since("2.8.12").optional(),
                    oneof(
                        "normal_master_slave_pubsub",
                        &[
                            token("normal", "NORMAL"),
                            token("master", "MASTER").since("3.2.0"),
                            token("slave", "SLAVE"),
                            token("replica", "REPLICA").since("5.0.0"),
                            token("pubsub", "PUBSUB"),
                        ],
                    )
                    .token("TYPE")
                    .since("2.8.12")
                    .optional(),
                    string("username").token("USER").optional(),
                    string("ip:port").token("ADDR").optional(),
                    string("ip:port").token("LADDR").since("6.2.0").optional(),
                    string("yes/no").token("SKIPME").optional(),
                    integer("maxage").token("MAXAGE").since("7.4.0").optional(),
                ],
            )
            .multiple(),
        ],
    )],
    run: Run::Session(client_kill),
    ..CommandSpec::EMPTY
};

/// Kinds of clients that may be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Normal,
    Master,
    Replica,
    Pubsub,
}

impl Type {
    /// Returns what a client is: nobody replicates.
    pub(super) fn of(client: &Client) -> Type {
        if client.is_subscribed() { Type::Pubsub } else { Type::Normal }
    }

    pub(super) fn named(word: &[u8]) -> Option<Type> {
        match word.to_ascii_lowercase().as_slice() {
            b"normal" => Some(Type::Normal),
            b"master" => Some(Type::Master),
            b"slave" | b"replica" => Some(Type::Replica),
            b"pubsub" => Some(Type::Pubsub),
            _ => None,
        }
    }
}

/// What CLIENT KILL looks for: all that is given must hold.
#[derive(Default)]
pub(super) struct Filter {
    pub(super) id: Option<u64>,
    pub(super) kind: Option<Type>,
    pub(super) addr: Option<Vec<u8>>,
    pub(super) laddr: Option<Vec<u8>>,
    pub(super) user: Option<Vec<u8>>,
    pub(super) skip: Option<u64>,
    /// The client came then, unix ms, or before.
    pub(super) came_by: Option<u64>,
}

impl Filter {
    fn admits(&self, client: &Client) -> bool {
        self.id.is_none_or(|id| id == client.id)
            && self.skip.is_none_or(|id| id != client.id)
            && self.kind.is_none_or(|kind| kind == Type::of(client))
            && self.addr.as_ref().is_none_or(|addr| addr == client.peer.addr.as_bytes())
            && self.laddr.as_ref().is_none_or(|addr| addr == client.peer.laddr.as_bytes())
            && self.came_by.is_none_or(|latest| client.since_ms <= latest)
            && self.user.as_ref().is_none_or(|name| *name == client.user_name())
    }

    /// Returns the clients that the filter lets through.
    pub(super) fn find(&self, engine: &Engine) -> Vec<Arc<Client>> {
        let mut found = engine.clients().list();
        found.retain(|client| self.admits(client));
        found
    }
}

pub(super) fn client_type(word: &[u8]) -> Result<Type, Failure> {
    Type::named(word).ok_or_else(|| {
        let word = String::from_utf8_lossy(word);
        Failure::text(format!("ERR Unknown client type '{word}'"))
    })
}

fn client_kill(call: &mut Call<'_>) -> Done {
    let own = call.session.id();
    if call.args.len() == 3 {
        let filter = Filter { addr: Some(call.args[2].to_vec()), ..Filter::default() };
        if kill(call, &filter) == 0 {
            return Err("ERR No such client".into());
        }
        call.out.ok();
        return Ok(());
    }
    let filter = filter(call, own)?;
    let killed = kill(call, &filter);
    call.out.integer(killed);
    Ok(())
}

fn filter(call: &Call<'_>, own: u64) -> Result<Filter, Failure> {
    let mut filter = Filter { skip: Some(own), ..Filter::default() };
    if !call.args.len().is_multiple_of(2) {
        return Err(SYNTAX.into());
    }
    for at in (2..call.args.len()).step_by(2) {
        let value = call.args[at + 1];
        match () {
            () if call.is(at, "id") => {
                let id = call.int(at + 1).ok().filter(|id| *id > 0);
                let id = id.ok_or("ERR client-id should be greater than 0")?;
                filter.id = Some(id as u64);
            }
            () if call.is(at, "maxage") => {
                let age = call.int(at + 1).ok();
                let age = age.ok_or("ERR maxage is not an integer or out of range")?;
                let age = u64::try_from(age).ok().filter(|age| *age > 0);
                let age = age.ok_or("ERR maxage should be greater than 0")?;
                filter.came_by = Some(call.now_ms().saturating_sub(age.saturating_mul(1000)));
            }
            () if call.is(at, "type") => filter.kind = Some(client_type(value)?),
            () if call.is(at, "addr") => filter.addr = Some(value.to_vec()),
            () if call.is(at, "laddr") => filter.laddr = Some(value.to_vec()),
            () if call.is(at, "user") => {
                if call.engine.users().get(value).is_none() {
                    let name = String::from_utf8_lossy(value);
                    return Err(Failure::text(format!("ERR No such user '{name}'")));
                }
                filter.user = Some(value.to_vec());
            }
            () if call.is(at, "skipme") && call.is(at + 1, "yes") => filter.skip = Some(own),
            () if call.is(at, "skipme") && call.is(at + 1, "no") => filter.skip = None,
            () => return Err(SYNTAX.into()),
        }
    }
    Ok(filter)
}

/// Kills whom the filter finds. A client that kills itself still gets its reply.
fn kill(call: &mut Call<'_>, filter: &Filter) -> i64 {
    let found = filter.find(call.engine);
    for client in &found {
        if client.id == call.session.id() {
            call.next = Next::Close;
        } else {
            client.kill();
        }
    }
    found.len() as i64
}
