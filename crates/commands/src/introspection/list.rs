//! COMMAND COUNT and COMMAND LIST.

use engine::call::Call;
use engine::failure::{Done, SYNTAX};
use engine::spec::category;
use engine::table::Command;
use resp::glob;

pub(super) fn command_count(call: &mut Call<'_>) -> Done {
    let table = call.engine.table();
    call.out
        .integer(table.top().iter().filter(|command| table.is_callable(command)).count() as i64);
    Ok(())
}

pub(super) fn command_list(call: &mut Call<'_>) -> Done {
    match call.args.len() {
        2 => reply_names(call, |_| true),
        5 if call.is(2, "FILTERBY") => {
            let value = call.args[4];
            if call.is(3, "MODULE") {
                reply_names(call, |_| false);
            } else if call.is(3, "ACLCAT") {
                let wanted = category(value).unwrap_or(0);
                reply_names(call, |command| command.spec.categories() & wanted != 0);
            } else if call.is(3, "PATTERN") {
                reply_names(call, |command| {
                    glob::matches_ignoring_case(value, command.full_name().as_bytes())
                });
            } else {
                return Err(SYNTAX.into());
            }
        }
        _ => return Err(SYNTAX.into()),
    }
    Ok(())
}

fn reply_names(call: &mut Call<'_>, wanted: impl Fn(&Command) -> bool) {
    let table = call.engine.table();
    let named = |command: &&Command| table.is_callable(command) && wanted(command);
    call.out.array(table.all().iter().filter(named).count());
    for command in table.all().iter().filter(named) {
        call.out.bulk(command.full_name());
    }
}
