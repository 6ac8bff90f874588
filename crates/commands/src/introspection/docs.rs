//! COMMAND DOCS: the documentation of all commands, which redis-cli reads for its hints.

use engine::call::Call;
use engine::failure::Done;
use engine::spec::*;
use engine::table::Command;

pub(super) fn command_docs(call: &mut Call<'_>) -> Done {
    let table = call.engine.table();
    let wanted: Vec<&Command> = match &call.args[2..] {
        [] => table.top().iter().filter(|command| table.is_callable(command)).collect(),
        names => names.iter().filter_map(|name| table.by_full_name(name)).collect(),
    };
    call.out.map(wanted.len());
    for command in wanted {
        reply_entry(call, command);
    }
    Ok(())
}

fn reply_entry(call: &mut Call<'_>, command: &Command) {
    call.out.bulk(command.full_name());
    reply_docs(call, command);
}

fn reply_docs(call: &mut Call<'_>, command: &Command) {
    let spec = command.spec;
    let subs = call.engine.table().subs(command);
    let fields = 3
        + usize::from(!spec.complexity.is_empty())
        + if spec.deprecated.is_some() { 2 } else { 0 }
        + usize::from(spec.deprecated.is_some() || !spec.doc_flags.is_empty())
        + usize::from(!spec.history.is_empty())
        + usize::from(!spec.args.is_empty())
        + usize::from(!subs.is_empty());
    call.out.map(fields);
    field(call, "summary", spec.summary);
    field(call, "since", spec.since);
    field(call, "group", spec.group.name());
    if !spec.complexity.is_empty() {
        field(call, "complexity", spec.complexity);
    }
    let deprecated = spec.deprecated.map(|_| "deprecated");
    let flags = deprecated.iter().chain(spec.doc_flags);
    if flags.clone().next().is_some() {
        call.out.bulk("doc_flags");
        call.out.set(flags.clone().count());
        flags.for_each(|flag| call.out.simple(flag));
    }
    if let Some(deprecated) = &spec.deprecated {
        field(call, "deprecated_since", deprecated.since);
        field(call, "replaced_by", deprecated.instead);
    }
    if !spec.history.is_empty() {
        call.out.bulk("history");
        call.out.set(spec.history.len());
        for (version, change) in spec.history {
            call.out.array(2);
            call.out.bulk(version);
            call.out.bulk(change);
        }
    }
    if !spec.args.is_empty() {
        call.out.bulk("arguments");
        reply_args(call, spec.args);
    }
    if !subs.is_empty() {
        call.out.bulk("subcommands");
        call.out.map(subs.len());
        subs.iter().for_each(|sub| reply_entry(call, sub));
    }
}

fn field(call: &mut Call<'_>, name: &str, value: &str) {
    call.out.bulk(name);
    call.out.bulk(value);
}

fn reply_args(call: &mut Call<'_>, args: &[Arg]) {
    call.out.array(args.len());
    args.iter().for_each(|arg| reply_arg(call, arg));
}

fn reply_arg(call: &mut Call<'_>, arg: &Arg) {
    let (kind, spec_index, inner) = match arg.kind {
        ArgKind::String => ("string", None, None),
        ArgKind::Integer => ("integer", None, None),
        ArgKind::Double => ("double", None, None),
        ArgKind::Key(spec) => ("key", Some(spec), None),
        ArgKind::Pattern => ("pattern", None, None),
        ArgKind::KeyPattern(spec) => ("pattern", Some(spec), None),
        ArgKind::UnixTime => ("unix-time", None, None),
        ArgKind::PureToken => ("pure-token", None, None),
        ArgKind::OneOf(of) => ("oneof", None, Some(of)),
        ArgKind::Block(of) => ("block", None, Some(of)),
    };
    let texts = [
        ("token", arg.token),
        ("summary", arg.summary),
        ("since", arg.since),
        ("deprecated_since", arg.deprecated),
    ];
    // The token of MIGRATE's empty key is the empty string.
    let is_printed = |name: &str, text: &str| {
        !text.is_empty() || name == "token" && matches!(arg.kind, ArgKind::PureToken)
    };
    let texts = texts.iter().filter(|(name, text)| is_printed(name, text));
    let flags = [
        (arg.is_optional, "optional"),
        (arg.is_multiple, "multiple"),
        (arg.is_multiple_token, "multiple_token"),
    ];
    let flags = flags.iter().filter(|(set, _)| *set);
    let flag_count = flags.clone().count();
    call.out.map(
        2 + usize::from(spec_index.is_some())
            + texts.clone().count()
            + usize::from(flag_count > 0)
            + usize::from(inner.is_some()),
    );
    field(call, "name", arg.name);
    field(call, "type", kind);
    if let Some(index) = spec_index {
        call.out.bulk("key_spec_index");
        call.out.integer(i64::from(index));
    }
    texts.for_each(|(name, text)| field(call, name, text));
    if flag_count > 0 {
        call.out.bulk("flags");
        call.out.set(flag_count);
        flags.for_each(|(_, name)| call.out.simple(name));
    }
    if let Some(inner) = inner {
        call.out.bulk("arguments");
        reply_args(call, inner);
    }
}
