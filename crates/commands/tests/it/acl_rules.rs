//! Rules as text: what is parsed, printed and refused.

use commands::{Engine, read_users_file, set_users, user_lines, user_lines_with};
use engine::session::users::Rules;

use crate::support::{Client, engine, wire};

/// Makes `name` a new user with these rules.
fn set(client: &mut Client, name: &str, rules: &str) -> String {
    let words = rules.split(' ').filter(|word| !word.is_empty());
    let words: Vec<&str> = ["ACL", "SETUSER", name, "reset"].into_iter().chain(words).collect();
    wire::show(&client.raw(&words))
}

/// Reads something of a user's rules.
fn of_rules<R>(engine: &Engine, name: &str, read: impl FnOnce(&Rules) -> R) -> R {
    read(&engine.users().get(name.as_bytes()).expect("a user").rules())
}

/// Returns which commands a user may execute.
fn commands_of(engine: &Engine, name: &str) -> Vec<bool> {
    let ids = 0..engine.table().len();
    of_rules(engine, name, |rules| ids.map(|id| rules.root.commands.has(id)).collect())
}

fn check_commands(line: &str, expected: &str) {
    let engine = engine();
    let mut client = Client::new(&engine);
    assert_eq!(set(&mut client, "u", line), "OK", "{line}");
    let lines = user_lines(&engine);
    let printed = lines.iter().find(|line| line.starts_with(b"user u ")).expect("the user");
    let printed = String::from_utf8_lossy(printed);
    let (_, printed) = printed.split_once("resetchannels ").expect("no channel");
    assert_eq!(printed, expected, "{line}");
    assert_eq!(set(&mut client, "again", printed), "OK", "{line}");
    assert_eq!(commands_of(&engine, "again"), commands_of(&engine, "u"), "{line}");
}

#[test]
fn a_pattern_after_all_of_them_is_refused_before_it_is_read() {
    let mut client = Client::new(&engine());
    let refused =
        |word, why| format!("(error) ERR Error in ACL SETUSER modifier \\'{word}\\': {why}");
    assert_eq!(set(&mut client, "u", "~* %X~a"), refused("%X~a", KEY_AFTER_ALL));
    assert_eq!(set(&mut client, "u", "&* &a\tb"), refused("&a\\tb", CHANNEL_AFTER_ALL));
    assert_eq!(set(&mut client, "u", "%X~a"), refused("%X~a", "Syntax error"));
}

const KEY_AFTER_ALL: &str = "Adding a pattern after the * pattern (or the \\'allkeys\\' flag) is \
    not valid and does not have any effect. Try \\'resetkeys\\' to \
    start with an empty list of patterns";
const CHANNEL_AFTER_ALL: &str = "Adding a pattern after the * pattern (or the \\'allchannels\\' \
    flag) is not valid and does not have any effect. Try \\'resetchannels\\' to \
    start with an empty list of channels";

#[test]
fn commands_are_printed_as_categories_and_what_differs() {
    check_commands("on", "-@all");
    check_commands("+@all", "+@all");
    check_commands("+@all -get +get", "+@all");
    check_commands("+@hash", "-@all +@hash");
    check_commands("+@all -@dangerous", "+@all -@dangerous");
    check_commands("+get +select|0 +SELECT|1 +select|0", "-@all +get +select|0 +select|1");
    check_commands("+config -config|set", "-@all +config -config|set");
    check_commands("+config|get", "-@all +config|get");
    check_commands("+@all -debug +debug|sleep", "+@all -debug +debug|sleep");
    check_commands("+debug|sleep +debug", "-@all +debug");
    check_commands("+@all -@all", "-@all");
    check_commands("+@all -cluster +cluster|info", "+@all -cluster +cluster|info");
    check_commands("+cluster|info -cluster +psync", "-@all +psync");
}

#[test]
fn every_category_is_printed_by_its_name() {
    for (_, name) in engine::spec::ACL_NAMES {
        check_commands(&format!("+@{name}"), &format!("-@all +@{name}"));
        check_commands(&format!("+@all -@{name}"), &format!("+@all -@{name}"));
    }
}

#[test]
fn what_is_no_rule_is_refused_with_its_reason() {
    const UNKNOWN: &str = "Unknown command or category name in ACL";
    const SYNTAX: &str = "Syntax error";
    const HASH: &str = "The password hash must be exactly 64 characters and contain only \
        lowercase hexadecimal characters";
    let mut client = Client::new(&engine());
    for (line, word, why) in [
        ("+nothing", "+nothing", UNKNOWN),
        ("+@nothing", "+@nothing", UNKNOWN),
        ("-get|x", "-get|x", UNKNOWN),
        ("+config|nothing", "+config|nothing", UNKNOWN),
        ("+config|get|x", "+config|get|x", "Allowing first-arg of a subcommand is not supported"),
        ("+get|", "+get|", SYNTAX),
        ("+get|a\tb", "+get|a\\tb", SYNTAX),
        ("nothing", "nothing", SYNTAX),
        ("%~a", "%~a", SYNTAX),
        ("%X~a", "%X~a", SYNTAX),
        ("%RR~a", "%RR~a", SYNTAX),
        ("%", "%", SYNTAX),
        ("~a\tb", "~a\\tb", SYNTAX),
        ("&a\0", "&a\\x00", SYNTAX),
        ("(on)", "(on)", SYNTAX),
        ("(~a) x)", "x)", SYNTAX),
        ("allkeys ~a", "~a", KEY_AFTER_ALL),
        ("&* &a", "&a", CHANNEL_AFTER_ALL),
        ("<x", "<x", "The password you are trying to remove from the user does not exist"),
        ("#ab", "#ab", HASH),
        ("!ab", "!ab", HASH),
    ] {
        let expected = format!("(error) ERR Error in ACL SETUSER modifier \\'{word}\\': {why}");
        assert_eq!(set(&mut client, "u", line), expected);
    }
    let expected = "(error) ERR Unmatched parenthesis in acl selector starting at \\'(+get\\'.";
    assert_eq!(set(&mut client, "u", "on (+get ~a"), expected);
}

/// Reads a file of users.
fn read(text: &str) -> Result<commands::UserSet, String> {
    read_users_file("users.acl", text.as_bytes(), false)
}

#[test]
fn a_line_says_all_of_a_user() {
    let engine = engine();
    let text = "user a on nopass sanitize-payload ~k* %R~r %W~w resetchannels &c -@all +get \
                (~x resetchannels -@all +set)\n\
                user b off #9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 \
                ~* &* +@all";
    set_users(&engine, read(text).expect("users"));
    let lines: Vec<String> =
        user_lines(&engine).iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect();
    let expected: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..2], expected);
    assert_eq!(lines[2], "user default on nopass ~* &* +@all");
    assert_eq!(user_lines_with(&engine, b"").len(), 2);
    engine.permissions().set_default_password(b"x");
    assert_eq!(user_lines_with(&engine, b"x").len(), 2);
    assert_eq!(user_lines_with(&engine, b"y").len(), 3);
}

#[test]
fn a_wrong_file_names_each_line_and_word() {
    let end = "WARNING: ACL errors detected, no change to the previously active ACL rules was \
               performed";
    for (text, expected) in [
        (
            "user a on\n\n  user b +nothing",
            "users.acl:3: Error in applying operation '+nothing': Unknown command or category \
             name in ACL. ",
        ),
        ("# users", "users.acl:1 should start with user keyword followed by the username. "),
        ("user", "users.acl:1 should start with user keyword followed by the username. "),
        ("user a\nuser a on", "WARNING: Duplicate user 'a' found on line 2. "),
        ("user a (+get ~x", "users.acl:1: Unmatched parenthesis in selector definition."),
        ("user a\0b on", "'users.acl:1: username 'a\0b' contains invalid characters. "),
        ("user a no\nuser b yes", "users.acl:1: Syntax error. users.acl:2: Syntax error. "),
    ] {
        let wrong = read(text).map(|_| ()).expect_err(text);
        assert_eq!(wrong, format!("{expected}{end}"), "{text}");
    }
}

#[test]
fn a_user_who_is_deleted_meanwhile_is_nobody() {
    let engine = engine();
    assert_eq!(set(&mut Client::new(&engine), "u", "on nopass"), "OK");
    assert!(engine.permissions().user_who(b"u", |rules| rules.is_enabled).is_some());
    assert!(engine.permissions().user_who(b"u", |_| false).is_none());
    // As if another thread deleted the user just after the rules were found to permit it.
    let is_deleted_meanwhile = |rules: &Rules| {
        engine.users().remove(b"u");
        rules.is_enabled
    };
    assert!(engine.permissions().user_who(b"u", is_deleted_meanwhile).is_none());
}
