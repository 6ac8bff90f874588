//! The subcommands that change users or their file: DELUSER, GENPASS, LOAD, SAVE, SETUSER.

use engine::call::{Call, Next};
use engine::failure::{Done, Failure};
use engine::host::Host;
use engine::session::users::DEFAULT;

use super::list::{with_name, wrong_number};
use super::parse::joined;
use super::users::{
    is_name, kill_clients_of, kill_unentitled, read_users, replace_users, rules_parser, user_lines,
};

const NO_FILE: &str = "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store users in the Redis configuration.";
const BITS: &str = "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096";
const MAX_BITS: i64 = 4096;

pub(super) fn set_user(call: &mut Call<'_>) -> Done {
    let (engine, name) = (call.engine, call.args[2]);
    if !is_name(name) {
        return Err("ERR Usernames can't contain spaces or null characters".into());
    }
    let words = joined(&call.args[3..]).map_err(|word| {
        with_name("ERR Unmatched parenthesis in acl selector starting at '", word, "'.")
    })?;
    let users = engine.users();
    let _one_at_a_time = users.change();
    let parser = rules_parser(engine);
    let known = users.get(name);
    let mut rules = known.as_ref().map_or(parser.new_user(), |user| (*user.rules()).clone());
    for word in &words {
        parser.apply(&mut rules, word).map_err(|error| {
            with_name("ERR Error in ACL SETUSER modifier '", word, &format!("': {error}"))
        })?;
    }
    users.set(name, rules);
    if let Some(user) = known
        && kill_unentitled(engine, &user, Some(call.session.id()))
    {
        call.next = Next::Close;
    }
    call.out.ok();
    Ok(())
}

pub(super) fn del_user(call: &mut Call<'_>) -> Done {
    let names = &call.args[2..];
    if names.contains(&DEFAULT) {
        return Err("ERR The 'default' user cannot be removed".into());
    }
    let users = call.engine.users();
    let one_at_a_time = users.change();
    let gone: Vec<_> = names.iter().filter_map(|name| users.remove(name)).collect();
    drop(one_at_a_time);
    if kill_clients_of(call.engine, &gone, Some(call.session.id())) {
        leave(call);
    }
    call.out.integer(gone.len() as i64);
    Ok(())
}

/// Closes the connection, which has lost its user, after the reply.
fn leave(call: &mut Call<'_>) {
    call.engine.permissions().log_out(call.session);
    call.next = Next::Close;
}

pub(super) fn gen_pass(call: &mut Call<'_>) -> Done {
    let bits = match call.args {
        [_, _] => 256,
        [_, _, _] => call.int(2)?,
        _ => return Err(wrong_number(call)),
    };
    if !(1..=MAX_BITS).contains(&bits) {
        return Err(BITS.into());
    }
    let digits = (bits as usize).div_ceil(4);
    let mut bytes = vec![0; digits.div_ceil(2)];
    let filled = call.engine.host().is_some_and(|host| host.fill_random(&mut bytes).is_ok());
    if !filled {
        return Err("ERR there is no source of random bytes".into());
    }
    let mut text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    text.truncate(digits);
    call.out.bulk(text);
    Ok(())
}

fn host<'a>(call: &Call<'a>) -> Result<&'a dyn Host, Failure> {
    let host = call.engine.host().filter(|host| host.acl_file().is_some());
    host.ok_or_else(|| NO_FILE.into())
}

pub(super) fn load(call: &mut Call<'_>) -> Done {
    let (engine, host) = (call.engine, host(call)?);
    let one_at_a_time = engine.users().change();
    let name = host.acl_file().unwrap_or_default();
    let text = host.read_acl_file().map_err(|why| {
        let text = format!("ERR Error loading ACLs, opening file '{name}': {why}");
        Failure::text(text)
    })?;
    let users = read_users(engine, &name, &text);
    let users = users.map_err(|wrong| Failure::text(format!("ERR {wrong}")))?;
    let is_own_gone = replace_users(engine, users, Some(call.session.id()));
    drop(one_at_a_time);
    if is_own_gone {
        leave(call);
    }
    call.out.ok();
    Ok(())
}

pub(super) fn save(call: &mut Call<'_>) -> Done {
    let host = host(call)?;
    let _one_at_a_time = call.engine.users().change();
    let mut text = Vec::new();
    for line in user_lines(call.engine) {
        text.extend_from_slice(&line);
        text.push(b'\n');
    }
    if let Err(why) = host.write_acl_file(&text) {
        host.log(&format!("Saving ACLs failed: {why}"));
        return Err("ERR There was an error trying to save the ACLs. Please check the server logs for more information".into());
    }
    call.out.ok();
    Ok(())
}
