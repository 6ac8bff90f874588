//! Rules as text: what is parsed, printed and refused.

use keyspace::Keyspace;
use std::sync::Arc;

use engine::Engine;
use engine::session::users::Rules;

use super::parse::{Parser, RuleError, joined};
use super::print;
use super::users::{UserSet, read_users, rules_parser, set_users, user_lines, user_lines_with};
use crate::create::EngineOptions;

fn engine() -> Engine {
    let heap = heap::Heap::volatile(16 << 20, &heap::CreateOptions::default()).expect("a heap");
    Engine::new(EngineOptions::new(Arc::new(Keyspace::new(heap, 0))))
}

fn words(line: &str) -> Vec<&[u8]> {
    line.split(' ').map(str::as_bytes).collect()
}

/// The rules of a new user after these words.
fn rules(parser: &Parser<'_>, line: &str) -> Result<Rules, RuleError> {
    let mut rules = parser.new_user();
    for word in joined(&words(line)).expect("pairs of parentheses") {
        parser.apply(&mut rules, &word)?;
    }
    Ok(rules)
}

fn check_commands(line: &str, expected: &str) {
    let engine = engine();
    let parser = rules_parser(&engine);
    let rules = rules(&parser, line).expect(line);
    let printed = print::commands(&parser, &rules.root);
    assert_eq!(String::from_utf8_lossy(&printed), expected, "{line}");
    let again = self::rules(&parser, &String::from_utf8_lossy(&printed)).expect("what is printed");
    let ids = 0..parser.table.len();
    let has = |rules: &Rules| -> Vec<bool> {
        ids.clone().map(|id| rules.root.commands.has(id)).collect()
    };
    assert_eq!(has(&again), has(&rules), "{line}");
}

#[test]
fn a_pattern_after_all_of_them_is_refused_before_it_is_read() {
    let engine = engine();
    let parser = rules_parser(&engine);
    assert_eq!(rules(&parser, "~* %X~a"), Err(RuleError::KeyAfterAll));
    assert_eq!(rules(&parser, "&* &a\tb"), Err(RuleError::ChannelAfterAll));
    assert_eq!(rules(&parser, "%X~a"), Err(RuleError::Syntax));
}

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
    let engine = engine();
    let parser = rules_parser(&engine);
    for (line, expected) in [
        ("+nothing", RuleError::Unknown),
        ("+@nothing", RuleError::Unknown),
        ("-get|x", RuleError::Unknown),
        ("+config|nothing", RuleError::Unknown),
        ("+config|get|x", RuleError::FirstArgumentOfSubcommand),
        ("+get|", RuleError::Syntax),
        ("+get|a\tb", RuleError::Syntax),
        ("nothing", RuleError::Syntax),
        ("%~a", RuleError::Syntax),
        ("%X~a", RuleError::Syntax),
        ("%RR~a", RuleError::Syntax),
        ("%", RuleError::Syntax),
        ("~a\tb", RuleError::Syntax),
        ("&a\0", RuleError::Syntax),
        ("(on)", RuleError::Syntax),
        ("(~a) x)", RuleError::Syntax),
        ("allkeys ~a", RuleError::KeyAfterAll),
        ("&* &a", RuleError::ChannelAfterAll),
        ("<x", RuleError::NoSuchPassword),
        ("#ab", RuleError::Hash),
        ("!ab", RuleError::Hash),
    ] {
        let mut rules = parser.new_user();
        let mut result = Ok(());
        for word in joined(&words(line)).expect(line) {
            result = result.and_then(|()| parser.apply(&mut rules, &word));
        }
        assert_eq!(result, Err(expected), "{line}");
    }
    assert_eq!(joined(&words("on (+get ~a")), Err(&b"(+get"[..]));
}

#[test]
fn a_line_says_all_of_a_user() {
    let engine = engine();
    let text = "user a on nopass sanitize-payload ~k* %R~r %W~w resetchannels &c -@all +get \
                (~x resetchannels -@all +set)\n\
                user b off #9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 \
                ~* &* +@all";
    set_users(&engine, read_users(&engine, "users.acl", text.as_bytes()).expect("users"));
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
    let engine = engine();
    let read = |text: &str| {
        let set: Result<UserSet, String> = read_users(&engine, "users.acl", text.as_bytes());
        set.map(|_| ()).expect_err(text)
    };
    let end = "WARNING: ACL errors detected, no change to the previously active ACL rules was \
               performed";
    for (text, expected) in [
        (
            "user a on\n\n  user b +nothing",
            "users.acl:3: Error in applying operation '+nothing': Unknown command or category name in ACL. ",
        ),
        ("# users", "users.acl:1 should start with user keyword followed by the username. "),
        ("user", "users.acl:1 should start with user keyword followed by the username. "),
        ("user a\nuser a on", "WARNING: Duplicate user 'a' found on line 2. "),
        ("user a (+get ~x", "users.acl:1: Unmatched parenthesis in selector definition."),
        ("user a\0b on", "'users.acl:1: username 'a\0b' contains invalid characters. "),
        ("user a no\nuser b yes", "users.acl:1: Syntax error. users.acl:2: Syntax error. "),
    ] {
        assert_eq!(read(text), format!("{expected}{end}"), "{text}");
    }
    assert_eq!(user_lines(&engine).len(), 1);
}

#[test]
fn a_user_who_is_deleted_meanwhile_is_nobody() {
    let engine = engine();
    engine.users().set(b"u", rules(&rules_parser(&engine), "on nopass").expect("rules"));
    assert!(engine.permissions().user_who(b"u", |rules| rules.is_enabled).is_some());
    assert!(engine.permissions().user_who(b"u", |_| false).is_none());
    // As if another thread deleted the user just after the rules were found to permit it.
    let is_deleted_meanwhile = |rules: &Rules| {
        engine.users().remove(b"u");
        rules.is_enabled
    };
    assert!(engine.permissions().user_who(b"u", is_deleted_meanwhile).is_none());
}
