//! The subcommands that show something: CAT, DRYRUN, GETUSER, LIST, LOG, USERS, WHOAMI.

use engine::call::Call;
use engine::failure::{Done, Failure};
use engine::session::permissions::check_rules;
use engine::session::users::{Reason, Selector};
use engine::spec::{ACL_NAMES, category};
use engine::table::Lookup;

use super::print;
use super::users::{rules_parser, user_lines};

/// The number of entries that LOG shows by default.
const SHOWN: usize = 10;

pub(super) fn cat(call: &mut Call<'_>) -> Done {
    let [_, _, name] = call.args else {
        if call.args.len() > 3 {
            return Err(wrong_number(call));
        }
        call.out.array(ACL_NAMES.len());
        ACL_NAMES.iter().for_each(|(_, name)| call.out.bulk(name));
        return Ok(());
    };
    let Some(category) = category(name) else {
        return Err(with_name("ERR Unknown category '", name, "'"));
    };
    let all = call.engine.table().all().iter();
    let members: Vec<String> = all
        .filter(|command| command.spec.categories() & category != 0)
        .map(|command| command.full_name())
        .collect();
    call.out.array(members.len());
    members.iter().for_each(|name| call.out.bulk(name));
    Ok(())
}

pub(super) fn wrong_number(call: &Call<'_>) -> Failure {
    let text = "ERR unknown subcommand or wrong number of arguments for '";
    with_name(text, call.args[1], "'. Try ACL HELP.")
}

pub(super) fn with_name(before: &str, name: &[u8], after: &str) -> Failure {
    Failure::text([before.as_bytes(), name, after.as_bytes()].concat())
}

pub(super) fn dry_run(call: &mut Call<'_>) -> Done {
    let (name, args) = (call.args[2], &call.args[3..]);
    let Some(user) = call.engine.users().get(name) else {
        return Err(with_name("ERR User '", name, "' not found"));
    };
    let Lookup::Found(command) = call.engine.table().find(args) else {
        return Err(with_name("ERR Command '", args[0], "' not found"));
    };
    if !command.spec.accepts(args.len()) {
        let name = command.full_name();
        let text = format!("ERR wrong number of arguments for '{name}' command");
        return Err(Failure::text(text));
    }
    let Err(denied) = check_rules(&user.rules(), command, args) else {
        call.out.ok();
        return Ok(());
    };
    let name = command.full_name();
    let (verb, what, name) = match denied.reason {
        Reason::Command => ("run", "command", name.as_bytes()),
        Reason::Key => ("access", "key", before_zero(args[denied.at])),
        Reason::Auth | Reason::Channel => ("access", "channel", before_zero(args[denied.at])),
    };
    let begin = format!("This user has no permissions to {verb} the '");
    call.out.bulk([begin.as_bytes(), name, format!("' {what}").as_bytes()].concat());
    Ok(())
}

/// Returns the text up to a zero byte, where it ends for Redis.
fn before_zero(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or_default()
}

pub(super) fn get_user(call: &mut Call<'_>) -> Done {
    let Some(user) = call.engine.users().get(call.args[2]) else {
        call.out.null();
        return Ok(());
    };
    let rules = user.rules();
    call.out.map(6);
    call.out.bulk("flags");
    let flags = print::flags(&rules);
    call.out.set(flags.len());
    flags.iter().for_each(|flag| call.out.bulk(flag));
    call.out.bulk("passwords");
    call.out.array(rules.passwords.len());
    rules.passwords.iter().for_each(|digest| call.out.bulk(digest));
    show_selector(call, &rules.root);
    call.out.bulk("selectors");
    call.out.array(rules.selectors.len());
    for selector in &rules.selectors {
        call.out.map(3);
        show_selector(call, selector);
    }
    Ok(())
}

fn show_selector(call: &mut Call<'_>, selector: &Selector) {
    let commands = print::commands(&rules_parser(call.engine), selector);
    call.out.bulk("commands");
    call.out.bulk(commands);
    call.out.bulk("keys");
    call.out.bulk(print::keys(&selector.keys));
    call.out.bulk("channels");
    call.out.bulk(print::channels(&selector.channels));
}

pub(super) fn list(call: &mut Call<'_>) -> Done {
    let lines = user_lines(call.engine);
    call.out.array(lines.len());
    lines.iter().for_each(|line| call.out.bulk(line));
    Ok(())
}

pub(super) fn users(call: &mut Call<'_>) -> Done {
    let users = call.engine.users().list();
    call.out.array(users.len());
    users.iter().for_each(|user| call.out.bulk(user.name()));
    Ok(())
}

pub(super) fn who_am_i(call: &mut Call<'_>) -> Done {
    call.out.bulk(call.session.user.name());
    Ok(())
}

pub(super) fn log(call: &mut Call<'_>) -> Done {
    let count = match call.args {
        [_, _] => SHOWN,
        [_, _, _] if call.is(2, "reset") => {
            call.engine.users().log.reset();
            call.out.ok();
            return Ok(());
        }
        [_, _, _] => usize::try_from(call.int(2)?).unwrap_or(0),
        _ => return Err(wrong_number(call)),
    };
    let now_ms = call.now_ms();
    let entries = call.engine.users().log.newest(count);
    call.out.array(entries.len());
    for entry in entries {
        call.out.map(7);
        call.out.bulk("count");
        call.out.integer(entry.count as i64);
        call.out.bulk("reason");
        call.out.bulk(entry.reason.name());
        call.out.bulk("context");
        call.out.bulk(entry.context.name());
        call.out.bulk("object");
        call.out.bulk(entry.object);
        call.out.bulk("username");
        call.out.bulk(entry.username);
        call.out.bulk("age-seconds");
        call.out.double(now_ms.saturating_sub(entry.at_ms) as f64 / 1000.0);
        call.out.bulk("client-info");
        call.out.bulk(entry.client);
    }
    Ok(())
}
