//! COMMAND GETKEYS and GETKEYSANDFLAGS: the words of a request that are keys, and how they are
//! used.

use engine::call::Call;
use engine::failure::Done;
use engine::spec::{KEY_FLAG_NAMES, KEY_NOT_KEY, NO_MANDATORY_KEYS};
use engine::table::{Command, Lookup};

pub(super) fn command_getkeys(call: &mut Call<'_>) -> Done {
    let keys = parse(call)?;
    call.out.array(keys.len());
    keys.iter().for_each(|(key, _)| call.out.bulk(key));
    Ok(())
}

pub(super) fn command_getkeysandflags(call: &mut Call<'_>) -> Done {
    let keys = parse(call)?;
    call.out.array(keys.len());
    for (key, flags) in keys {
        call.out.array(2);
        call.out.bulk(key);
        reply_key_flags(call, flags);
    }
    Ok(())
}

/// Replies with the names of a key's flags.
pub(super) fn reply_key_flags(call: &mut Call<'_>, flags: u16) {
    call.out.set(flags.count_ones() as usize);
    for (_, name) in KEY_FLAG_NAMES.iter().filter(|(bit, _)| flags & bit != 0) {
        call.out.simple(name);
    }
}

type Keys<'a> = Vec<(&'a [u8], u16)>;

fn parse<'a>(call: &Call<'a>) -> Result<Keys<'a>, engine::failure::Failure> {
    let args = &call.args[2..];
    let Lookup::Found(command) = call.engine.table().find(args) else {
        return Err("ERR Invalid command specified".into());
    };
    if command.spec.keys.iter().all(|spec| spec.flags & KEY_NOT_KEY != 0) {
        return Err("ERR The command has no key arguments".into());
    }
    if !command.spec.accepts(args.len()) {
        return Err("ERR Invalid number of arguments specified for command".into());
    }
    match keys(command, args).unwrap_or_default() {
        keys if keys.is_empty() && !command.spec.has(NO_MANDATORY_KEYS) => {
            Err("ERR Invalid arguments specified for command".into())
        }
        keys => Ok(keys),
    }
}

fn keys<'a>(command: &Command, args: &[&'a [u8]]) -> Option<Keys<'a>> {
    if let Some(own) = command.spec.own_keys {
        let flags = command.spec.keys.first().map_or(0, |spec| spec.flags);
        return Some(own(args).map(|at| (args[at], flags)).collect());
    }
    let mut keys = Keys::new();
    for spec in command.spec.keys {
        let flags = command.spec.key_flags.map_or(spec.flags, |flags| flags(args));
        if !spec.each(args, |at| keys.push((args[at], flags))) {
            return None;
        }
    }
    Some(keys)
}
