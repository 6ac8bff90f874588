//! Users: what each may do, alone, in transactions and in scripts, and how a change affects
//! existing sessions.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use commands::{Engine, Next};

use crate::support::{Client, engine};

const NO_KEY: &str =
    "(error) NOPERM this user has no permissions to access one of the keys used as arguments";
const NO_CHANNEL: &str =
    "(error) NOPERM this user has no permissions to access one of the channels used as arguments";
const WRONG_PASS: &str = "(error) WRONGPASS invalid username-password pair or user is disabled.";

fn no_command(name: &str) -> String {
    format!("(error) NOPERM this user has no permissions to run the \\'{name}\\' command")
}

/// A client of a new user of these rules, and one of the default user.
fn limited(rules: &str) -> (Arc<Engine>, Client, Client) {
    let engine = engine();
    let mut admin = Client::new(&engine);
    admin.check(&format!("ACL SETUSER u on nopass {rules}"), "OK");
    let mut client = Client::new(&engine);
    client.check("AUTH u x", "OK");
    client.check("HELLO 2 AUTH u y SETNAME me", &client_greeting(&client));
    (engine, admin, client)
}

fn client_greeting(client: &Client) -> String {
    let id = client.session.id();
    format!(
        "[\"server\", \"redis\", \"version\", \"7.0.15\", \"proto\", (integer) 2, \"id\", \
         (integer) {id}, \"mode\", \"standalone\", \"role\", \"master\", \"modules\", []]"
    )
}

#[test]
fn passwords_are_compared_by_their_hashes() {
    let engine = engine();
    let mut client = Client::new(&engine);
    client.check("ACL SETUSER u >one >two", "OK");
    client.check("AUTH u one", WRONG_PASS);
    client.check("ACL SETUSER u on", "OK");
    client.check("AUTH u one", "OK");
    client.check("AUTH u three", WRONG_PASS);
    client.check("ACL WHOAMI", &no_command("acl|whoami"));
    client.check("AUTH default x", "OK");
    client.check("ACL SETUSER u <one", "OK");
    client.check("AUTH u one", WRONG_PASS);
    client.check("AUTH u two", "OK");
    client.check("AUTH nobody two", WRONG_PASS);
    assert_eq!(engine.clients().list().len(), 1);
}

#[test]
fn commands_keys_and_channels_are_checked() {
    let (_, mut admin, mut client) =
        limited("~k* %R~r* %W~w* &c* +@all -get +config|get -config|set");
    client.check("GET k", &no_command("get"));
    client.check("CONFIG SET maxmemory 0", &no_command("config|set"));
    client.check("SET x v", NO_KEY);
    client.check("SET k v", "OK");
    client.check("MSET k v x v", NO_KEY);
    client.check("STRLEN r", "(integer) 0");
    client.check("APPEND r x", NO_KEY);
    client.check("LPUSH w x", "(integer) 1");
    client.check("LRANGE w 0 -1", NO_KEY);
    client.check("COPY r w", "(integer) 0");
    client.check("COPY w r", NO_KEY);
    client.check("PUBLISH c x", "(integer) 0");
    client.check("PUBLISH d x", NO_CHANNEL);
    client.check("SUBSCRIBE d", NO_CHANNEL);
    client.check("PSUBSCRIBE c1*", NO_CHANNEL);
    client.check("SSUBSCRIBE d", NO_CHANNEL);
    client.check("UNSUBSCRIBE d", "[\"unsubscribe\", \"d\", (integer) 0]");
    client.check(
        "SORT k BY x*",
        "(error) ERR BY option of SORT denied due to insufficient ACL permissions.",
    );
    admin.check(
        "ACL DRYRUN u SET x v",
        "\"This user has no permissions to access the \\'x\\' key\"",
    );
    admin.check("ACL DRYRUN u SET k v", "OK");
}

#[test]
fn every_key_that_migrate_moves_is_checked() {
    let (_, mut admin, mut client) = limited("~a ~b ~keys +migrate");
    for (line, allowed) in [
        ("a 0 1", true),
        ("x 0 1", false),
        ("\"\" 0 1 KEYS a b", true),
        ("\"\" 0 1 KEYS a x", false),
        // A key or a password with the same name as the option.
        ("\"\" 0 1 KEYS x keys b", false),
        ("\"\" 0 1 KEYS keys a", true),
        ("\"\" 0 1 AUTH2 keys keys COPY KEYS a", true),
        ("\"\" 0 1 AUTH keys KEYS x", false),
    ] {
        let reply = admin.run(&format!("ACL DRYRUN u MIGRATE h 1 {line}"));
        assert_eq!(reply == "OK", allowed, "{line}: {reply}");
        if !allowed {
            client.check(&format!("MIGRATE h 1 {line}"), NO_KEY);
        }
    }
    admin.check("COMMAND GETKEYS MIGRATE h 1 \"\" 0 1 KEYS a b", "[\"a\", \"b\"]");
    admin.check("COMMAND GETKEYS MIGRATE h 1 \"\" 0 1", "[\"\"]");
}

#[test]
fn one_selector_has_to_allow_all_of_a_command() {
    let (_, _, mut client) = limited("+get ~a* (+set %W~b* ) (+set ~c*)");
    client.check("GET a", "(nil)");
    client.check("GET c", NO_KEY);
    client.check("SET c v", "OK");
    client.check("SET b v GET", NO_KEY);
    client.check("SET b v", "OK");
    client.check("DEL c", &no_command("del"));
}

#[test]
fn a_queue_is_checked_when_it_is_filled_and_when_it_is_executed() {
    let (_, mut admin, mut client) = limited("~k* +@all -get");
    client.check("MULTI", "OK");
    client.check("GET k", &no_command("get"));
    client.check("EXEC", "(error) EXECABORT Transaction discarded because of previous errors.");
    client.check("MULTI", "OK");
    client.check("SET k 1", "QUEUED");
    client.check("INCR k", "QUEUED");
    client.check("APPEND k x", "QUEUED");
    admin.check("ACL SETUSER u -incr", "OK");
    let reply = client.run("EXEC");
    let refused = "(error) NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no longer allowed for the following reason: no permission to execute the command or subcommand";
    assert_eq!(reply, format!("[OK, {refused}, (integer) 2]"));
    client.check("MULTI", "OK");
    admin.check("ACL SETUSER u -exec", "OK");
    client.check(
        "EXEC",
        "(error) EXECABORT Transaction discarded because of: NOPERM this user has no permissions to run the \\'exec\\' command",
    );
}

#[test]
fn scripts_call_what_their_user_may() {
    let (_, _, mut client) = limited("~k* &c +@all -get");
    let mut script = |code: &str| {
        let reply = client.raw(&["EVAL", code, "0"]);
        String::from_utf8_lossy(&reply).trim_end().to_owned()
    };
    for (code, expected) in [
        ("return redis.pcall('get', 'k').err", "can't run this command or subcommand"),
        ("return redis.pcall('set', 'x', 1).err", "can't access at least one of the keys"),
        ("return redis.pcall('publish', 'x', 1).err", "can't publish to the channel"),
    ] {
        let reply = script(code);
        assert!(
            reply.contains("ERR The user executing the script ") && reply.contains(expected),
            "{reply}"
        );
    }
    assert_eq!(script("return redis.call('set', 'k', 1)"), "+OK");
    assert_eq!(script("return redis.acl_check_cmd('get', 'k')"), "$-1");
    assert_eq!(script("return redis.acl_check_cmd('set', 'k', 1)"), ":1");
    assert_eq!(script("return redis.acl_check_cmd('set', 'x', 1)"), "$-1");
}

#[test]
fn a_run_of_commands_ends_before_one_that_is_denied() {
    let (engine, _, mut client) = limited("~k* +set");
    let set = |key: &str| ["SET", key, "v"].map(str::to_owned).to_vec();
    assert!(client.pipeline(&[set("k1"), set("k2")]).is_some());
    assert!(client.pipeline(&[set("k3"), set("k4"), set("x")]).is_none());
    let mut admin = Client::new(&engine);
    admin.check("EXISTS k1 k2 k3 k4", "(integer) 4");
    admin.check("EXISTS x", "(integer) 0");
}

#[test]
fn a_deleted_user_has_no_sessions() {
    let (engine, mut admin, mut client) = limited("~* &* +@all");
    client.check("SET k v", "OK");
    admin.check("ACL DELUSER u nobody", "(integer) 1");
    assert!(client.session.client.killed.load(Relaxed));
    // Before its connection is closed it may do nothing.
    client.check("GET k", "(error) NOAUTH Authentication required.");
    admin.check("GET k", "\"v\"");
    // A client that deletes its own user still gets the reply.
    admin.check("ACL SETUSER me on nopass +@all", "OK");
    let mut own = Client::new(&engine);
    own.check("AUTH me x", "OK");
    own.check("ACL DELUSER me", "(integer) 1");
    assert_eq!(own.outcome.next, Next::Close);
    assert!(!own.session.client.killed.load(Relaxed));
}

#[test]
fn listeners_are_closed_that_lose_a_channel() {
    let (engine, mut admin, mut client) = limited("+@all &a* &b");
    let mut pattern = Client::new(&engine);
    pattern.check("AUTH u x", "OK");
    client.run("SUBSCRIBE a1");
    pattern.run("PSUBSCRIBE a*");
    let killed = |client: &Client| client.session.client.killed.load(Relaxed);
    admin.check("ACL SETUSER u &c", "OK");
    assert!(!killed(&client) && !killed(&pattern));
    admin.check("ACL SETUSER u resetchannels &a?", "OK");
    assert!(!killed(&client) && killed(&pattern));
    admin.check("ACL SETUSER u allchannels", "OK");
    assert!(!killed(&client));
    admin.check("ACL SETUSER u resetchannels", "OK");
    assert!(killed(&client));
}

#[test]
fn the_default_user_decides_who_has_to_authenticate() {
    let engine = engine();
    let mut admin = Client::new(&engine);
    admin.check("ACL SETUSER default off", "OK");
    let mut client = Client::new(&engine);
    client.check("PING", "(error) NOAUTH Authentication required.");
    client.check("AUTH default x", WRONG_PASS);
    admin.check("ACL SETUSER default on", "OK");
    client.check("PING", "PONG");
    admin.check("ACL SETUSER default >secret", "OK");
    admin.check("PING", "PONG");
    client.check("PING", "(error) NOAUTH Authentication required.");
    client.check("AUTH secret", "OK");
    client.check("PING", "PONG");
}

#[test]
fn what_is_denied_is_logged_and_counted() {
    let (_, mut admin, mut client) = limited("~k* +@all -get");
    client.run("GET k");
    client.run("GET k");
    client.run("SET x v");
    client.run("AUTH nobody x");
    client.raw(&["EVAL", "return redis.pcall('get', 'k')", "0"]);
    let log = admin.run("ACL LOG");
    for (count, reason, context, object, user) in [
        (1, "command", "lua", "get", "u"),
        (1, "auth", "toplevel", "AUTH", "nobody"),
        (1, "key", "toplevel", "x", "u"),
        (2, "command", "toplevel", "get", "u"),
    ] {
        let entry = format!(
            "\"count\", (integer) {count}, \"reason\", \"{reason}\", \"context\", \"{context}\", \
             \"object\", \"{object}\", \"username\", \"{user}\", \"age-seconds\""
        );
        assert!(log.contains(&entry), "{entry} in {log}");
    }
    let info = admin.run("INFO stats");
    for line in ["auth:1", "cmd:3", "key:1", "channel:0"] {
        assert!(info.contains(&format!("acl_access_denied_{line}")), "{line} in {info}");
    }
    admin.check("ACL LOG RESET", "OK");
    admin.check("ACL LOG", "[]");
}

#[test]
fn a_change_that_is_wrong_changes_nothing() {
    let engine = engine();
    let mut client = Client::new(&engine);
    client.check(
        "ACL SETUSER u on +get nonsense",
        "(error) ERR Error in ACL SETUSER modifier \\'nonsense\\': Syntax error",
    );
    client.check("ACL GETUSER u", "(nil)");
    client.check("ACL SETUSER u on ~k", "OK");
    client.run("ACL SETUSER u off ~j +nothing");
    client.check(
        "ACL LIST",
        "[\"user default on nopass ~* &* +@all\", \"user u on ~k resetchannels -@all\"]",
    );
}

#[test]
fn dry_run_names_a_key_up_to_a_zero_byte() {
    let (_, mut admin, _) = limited("+get");
    let reply = admin.raw(&["ACL", "DRYRUN", "u", "get", "a\0b"]);
    let reply = String::from_utf8_lossy(&reply);
    assert!(reply.ends_with("access the 'a' key\r\n"), "{reply}");
}

#[test]
fn a_category_lists_containers_and_their_subcommands() {
    let reply = Client::new(&engine()).run("ACL CAT slow");
    for name in ["\"memory\"", "\"memory|usage\""] {
        assert!(reply.contains(name), "{name}: {reply}");
    }
}
