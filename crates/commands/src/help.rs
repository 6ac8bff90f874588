//! The HELP subcommand of containers.

use engine::call::Call;

/// Replies with a container's help: a head line, the given lines, and a line about HELP itself.
pub(crate) fn reply_help(call: &mut Call<'_>, lines: &[&str]) {
    let name = call.command.parent.map_or("", |parent| parent.name).to_uppercase();
    call.out.array(lines.len() + 3);
    call.out.simple(format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    lines.iter().for_each(|line| call.out.simple(line));
    call.out.simple("HELP");
    call.out.simple("    Prints this help.");
}
