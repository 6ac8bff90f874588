//! FUNCTION DUMP and FUNCTION RESTORE: all libraries in Redis's format, and back.
//!
//! A payload is validated, and each library in it compiled, before anything changes; then all of it
//! is stored by one transaction.

use std::collections::HashSet;

use engine::call::{Call, Run};
use engine::execute::Scope;
use engine::failure::{Done, Failure};
use engine::scripts::libraries::{Known, LibraryInfo};
use engine::spec::*;
use keyspace::{Keyspace, Txn};
use rdb::{Error, Writer, payload};
use script::Interpreter;

use super::interpreter::{self, Loaded, ThreadLibraries};
use super::load::changed;
use super::wrong_arguments;

pub(super) const DUMP: CommandSpec = CommandSpec {
    name: "dump",
    summary: "Dump all functions into a serialized binary payload",
    complexity: "O(N) where N is the number of functions",
    since: "7.0.0",
    group: Group::Scripting,
    arity: 2,
    flags: NOSCRIPT,
    acl: ACL_SCRIPTING,
    run: Run::OwnLocks { run: dump_alone, within: dump },
    ..CommandSpec::EMPTY
};

pub(super) const RESTORE: CommandSpec = CommandSpec {
    name: "restore",
    summary: "Restore all the functions on the given payload",
    complexity: "O(N) where N is the number of functions on the payload",
    arity: -3,
    flags: WRITE | DENYOOM | NOSCRIPT,
    traits: COMPILES,
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    args: &[
        string("serialized-value"),
        oneof(
            "policy",
            &[token("flush", "FLUSH"), token("append", "APPEND"), token("replace", "REPLACE")],
        )
        .optional(),
    ],
    run: Run::OwnLocks { run: restore_alone, within: restore_within },
    ..DUMP
};

/// The error for a payload that no known version of Redis has made.
const BAD_FOOTER: &str = "ERR DUMP payload version or checksum are wrong";
/// The opcode of libraries in release candidates of Redis 7.0.
const OLD_LIBRARY: u8 = 246;

/// How a restore treats existing libraries.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Policy {
    Flush,
    Append,
    Replace,
}

/// A library of a payload.
struct Restored {
    code: Vec<u8>,
    loaded: Loaded,
}

fn dump_alone(call: &mut Call<'_>) -> Done {
    call.engine.transact(call, Scope::All, dump)
}

fn dump(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    call.shows_data = true;
    let mut libraries = Vec::new();
    txn.for_each_library(|name, code| libraries.push((name.to_vec(), code)));
    libraries.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    let mut writer = Writer::new(Vec::new(), true);
    for (name, code) in libraries {
        let code = code.map_err(|error| super::damaged(&name, &error))?;
        let written = writer.function(&code);
        written.map_err(|error| Failure::text(format!("ERR {error}")))?;
    }
    let mut bytes = writer.into_inner();
    payload::append_footer(&mut bytes, rdb::VERSION);
    call.out.bulk(bytes);
    Ok(())
}

fn restore_alone(call: &mut Call<'_>) -> Done {
    let policy = policy(call)?;
    interpreter::with(call.engine, |lua| {
        let restored = compile(call, lua)?;
        lua.know(call.engine, None)?;
        call.engine.transact(call, Scope::All, |call, txn| store(call, lua, txn, restored, policy))
    })
}

fn restore_within(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let policy = policy(call)?;
    interpreter::with(call.engine, |lua| {
        let restored = compile(call, lua)?;
        store(call, lua, txn, restored, policy)
    })
}

fn policy(call: &Call<'_>) -> Result<Policy, Failure> {
    match call.args.len() {
        3 => Ok(Policy::Append),
        4 if call.is(3, "APPEND") => Ok(Policy::Append),
        4 if call.is(3, "REPLACE") => Ok(Policy::Replace),
        4 if call.is(3, "FLUSH") => Ok(Policy::Flush),
        4 => {
            Err("ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE."
                .into())
        }
        _ => Err(wrong_arguments(call)),
    }
}

/// Why a payload is refused.
enum Refused {
    Payload(Error),
    Library(Failure),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        Refused::Payload(error)
    }
}

/// Reads the libraries of the payload, and compiles each.
fn compile(call: &Call<'_>, lua: &mut ThreadLibraries) -> Result<Vec<Restored>, Failure> {
    let (mut known, mut restored) = (Known::default(), Vec::new());
    let read = payload::functions(call.args[2], Keyspace::MAX_STRING as u64, |code| {
        let loaded = compile_one(call, lua, &known, &code).map_err(Refused::Library)?;
        known.insert(loaded.info.clone());
        restored.push(Restored { code, loaded });
        Ok(())
    });
    match read {
        Ok(()) => Ok(restored),
        Err(Refused::Library(failure)) => Err(failure),
        Err(Refused::Payload(error)) => Err(match error {
            Error::Version { .. } | Error::Checksum { .. } => BAD_FOOTER.into(),
            Error::Cut { .. } if call.args[2].len() < payload::FOOTER => BAD_FOOTER.into(),
            Error::Type { kind: OLD_LIBRARY, .. } => {
                "ERR Pre-GA function format not supported".into()
            }
            Error::Type { .. } => "ERR given type is not a function".into(),
            _ => "ERR Failed loading library payload".into(),
        }),
    }
}

/// Compiles a library, whose names must all differ from those before it.
fn compile_one(
    call: &Call<'_>,
    lua: &mut ThreadLibraries,
    before: &Known,
    code: &[u8],
) -> Result<Loaded, Failure> {
    let name = Interpreter::library_name(code);
    let name = name.map_err(|error| Failure::text(error.to_string()))?;
    if before.has(&name) {
        return Err(Failure::text(format!("ERR Library '{name}' already exists")));
    }
    let loaded = lua.load(call.engine, code, !call.session.replay)?;
    check_functions(before, &loaded.info, |_| true)?;
    Ok(loaded)
}

fn check_functions(known: &Known, library: &LibraryInfo, stays: impl Fn(&str) -> bool) -> Done {
    match known.conflict(library, stays) {
        Some(function) => Err(Failure::text(format!("ERR Function {function} already exists"))),
        None => Ok(()),
    }
}

fn store(
    call: &mut Call<'_>,
    lua: &mut ThreadLibraries,
    txn: &mut Txn<'_>,
    restored: Vec<Restored>,
    policy: Policy,
) -> Done {
    lua.know(call.engine, Some(txn))?;
    if policy != Policy::Flush {
        let checked = call.engine.libraries().with(|known| check(known, &restored, policy));
        checked.unwrap_or(Ok(()))?;
    } else {
        txn.libraries().flush()?;
    }
    for Restored { code, loaded } in &restored {
        txn.libraries().put(loaded.info.name.as_bytes(), code)?;
    }
    changed(call, |known| {
        if policy == Policy::Flush {
            known.clear();
        }
        // All replaced libraries are removed first: a function may have moved to another library.
        restored.iter().for_each(|library| known.remove(&library.loaded.info.name));
        restored.iter().for_each(|library| known.insert(library.loaded.info.clone()));
    });
    restored.into_iter().for_each(|library| lua.keep(library.loaded));
    call.out.ok();
    Ok(())
}

/// Refuses libraries that conflict with existing ones that stay.
fn check(known: &Known, restored: &[Restored], policy: Policy) -> Done {
    let is_there = |library: &&Restored| known.has(&library.loaded.info.name);
    if policy == Policy::Append
        && let Some(library) = restored.iter().find(is_there)
    {
        let name = &library.loaded.info.name;
        return Err(Failure::text(format!("ERR Library {name} already exists")));
    }
    let replaced: HashSet<&str> =
        restored.iter().map(|library| library.loaded.info.name.as_str()).collect();
    let stays = |name: &str| !replaced.contains(name);
    restored.iter().try_for_each(|library| check_functions(known, &library.loaded.info, stays))
}
