//! COMMAND and COMMAND INFO: the command table in Redis's form.

use engine::call::Call;
use engine::failure::Done;
use engine::spec::*;
use engine::table::Command;

use super::getkeys::reply_key_flags;

pub(super) fn command(call: &mut Call<'_>) -> Done {
    let table = call.engine.table();
    let top = || table.top().iter().filter(|command| table.is_callable(command));
    call.out.array(top().count());
    top().for_each(|command| reply_info(call, command));
    Ok(())
}

pub(super) fn command_info(call: &mut Call<'_>) -> Done {
    if call.args.len() == 2 {
        return command(call);
    }
    call.out.array(call.args.len() - 2);
    for name in &call.args[2..] {
        match call.engine.table().by_full_name(name) {
            Some(command) => reply_info(call, command),
            None => call.out.null(),
        }
    }
    Ok(())
}

fn reply_info(call: &mut Call<'_>, command: &Command) {
    let spec = command.spec;
    let (first, last, step) = legacy_range(spec.keys);
    call.out.array(10);
    call.out.bulk(command.full_name());
    call.out.integer(i64::from(spec.arity));
    reply_flags(call, spec);
    call.out.integer(i64::from(first));
    call.out.integer(i64::from(last));
    call.out.integer(i64::from(step));
    let categories = spec.categories();
    call.out.set(categories.count_ones() as usize);
    for (_, name) in ACL_NAMES.iter().filter(|(bit, _)| categories & bit != 0) {
        call.out.simple(format!("@{name}"));
    }
    call.out.set(spec.tips.len());
    spec.tips.iter().for_each(|tip| call.out.bulk(tip));
    call.out.set(spec.keys.len());
    spec.keys.iter().for_each(|key| reply_key_spec(call, key));
    let subs = call.engine.table().subs(command);
    call.out.set(subs.len());
    subs.iter().for_each(|sub| reply_info(call, sub));
}

fn reply_flags(call: &mut Call<'_>, spec: &CommandSpec) {
    let has = |(bit, _): &&(u32, &str)| spec.has(*bit);
    let movable = movable(spec.keys);
    let known = FLAG_NAMES.iter().filter(has).count();
    call.out.set(known + usize::from(movable));
    for (bit, name) in FLAG_NAMES {
        if *bit == ALLOW_BUSY && movable {
            call.out.simple("movablekeys");
        }
        if spec.has(*bit) {
            call.out.simple(name);
        }
    }
}

fn reply_key_spec(call: &mut Call<'_>, key: &KeySpec) {
    call.out.map(if key.notes.is_empty() { 3 } else { 4 });
    if !key.notes.is_empty() {
        call.out.bulk("notes");
        call.out.bulk(key.notes);
    }
    call.out.bulk("flags");
    reply_key_flags(call, key.flags);
    call.out.bulk("begin_search");
    match key.begin {
        Begin::Index(at) => reply_part(call, "index", &[("index", Value::Int(at as i64))]),
        Begin::Keyword(word, from) => reply_part(
            call,
            "keyword",
            &[("keyword", Value::Text(word)), ("startfrom", Value::Int(i64::from(from)))],
        ),
        Begin::Unknown => reply_part(call, "unknown", &[]),
    }
    call.out.bulk("find_keys");
    match key.find {
        Find::Range { last, step, limit } => reply_part(
            call,
            "range",
            &[
                ("lastkey", Value::Int(i64::from(last))),
                ("keystep", Value::Int(step as i64)),
                ("limit", Value::Int(limit as i64)),
            ],
        ),
        Find::KeyNum { at, first, step } => reply_part(
            call,
            "keynum",
            &[
                ("keynumidx", Value::Int(at as i64)),
                ("firstkey", Value::Int(first as i64)),
                ("keystep", Value::Int(step as i64)),
            ],
        ),
        Find::Unknown => reply_part(call, "unknown", &[]),
    }
}

enum Value {
    Int(i64),
    Text(&'static str),
}

fn reply_part(call: &mut Call<'_>, kind: &str, fields: &[(&str, Value)]) {
    call.out.map(2);
    call.out.bulk("type");
    call.out.bulk(kind);
    call.out.bulk("spec");
    call.out.map(fields.len());
    for (name, value) in fields {
        call.out.bulk(name);
        match value {
            Value::Int(number) => call.out.integer(*number),
            Value::Text(text) => call.out.bulk(text),
        }
    }
}
