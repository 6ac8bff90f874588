//! Function libraries and first lines of scripts.

use crate::support::{MEMORY, TestHost, eval, show};
use script::{Flags, Interpreter, Invocation};

fn load_error(source: &str) -> String {
    let mut interpreter = Interpreter::new(MEMORY).expect("an interpreter");
    let loaded = interpreter.load_library(source.as_bytes(), &mut TestHost::default());
    loaded.err().unwrap_or_else(|| panic!("{source} was loaded")).to_string()
}

#[test]
fn the_first_line_of_a_script_declares_flags() {
    let mut interpreter = Interpreter::new(MEMORY).expect("an interpreter");
    let script = interpreter.load(b"#!lua flags=no-writes,allow-oom\nreturn 1").expect("a script");
    let names: Vec<_> = script.flags().expect("flags").names().collect();
    assert_eq!(names, ["no-writes", "allow-oom"]);
    assert_eq!(interpreter.load(b"return 1").expect("a script").flags(), None);
    assert_eq!(eval("#!lua\nreturn 7"), "7");
    for (script, expected) in [
        ("#!lua name=x\nreturn 1", "-ERR Unknown lua shebang option: name=x"),
        ("#!lua flags=x\nreturn 1", "-ERR Unexpected flag in script shebang: x"),
        ("#!luax\nreturn 1", "-ERR Unexpected engine in script shebang: #!luax"),
        ("#!lua flags=no-writes", "-ERR Invalid script shebang"),
    ] {
        assert_eq!(eval(script), expected);
    }
}

#[test]
fn functions_are_registered_and_called() {
    let source = "#!lua name=mylib\n\
        redis.register_function('first', function(keys, args) return {keys[1], args[1]} end)\n\
        redis.register_function{function_name='second', description='what', flags={'no-writes'},\n\
            callback=function(keys, args) return redis.call('nosuch') end}";
    let mut interpreter = Interpreter::new(MEMORY).expect("an interpreter");
    let mut host = TestHost::default();
    let library = interpreter.load_library(source.as_bytes(), &mut host).expect("a library");
    assert_eq!(library.name(), "mylib");
    let functions: Vec<_> = library.functions().cloned().collect();
    assert_eq!(functions.len(), 2);
    assert_eq!((functions[0].name.as_str(), functions[0].flags), ("first", Flags::default()));
    assert_eq!(functions[1].description.as_deref(), Some(&b"what"[..]));
    assert_eq!(functions[1].flags, Flags::NO_WRITES);
    let invocation = Invocation { keys: &[b"k"], arguments: &[b"a"] };
    let mut call = |name: &str| {
        let outcome = interpreter.call_function(&library, name, invocation, &mut host);
        outcome.map(|outcome| show(&outcome.reply, "none"))
    };
    assert_eq!(call("first").as_deref(), Some("[\"k\" \"a\"]"));
    let error =
        "-ERR Unknown Redis command called from script script: second, on @user_function:4.";
    assert_eq!(call("second").as_deref(), Some(error));
    assert_eq!(call("third"), None);
}

#[test]
fn bad_libraries_are_refused_with_redis_texts() {
    let name = "ERR Library names can only contain letters, numbers, or underscores(_) and must be at \
        least one character long";
    let registering = "ERR Error registering functions: ";
    for (source, expected) in [
        ("z", "ERR Missing library metadata".to_owned()),
        ("#!lua\n", "ERR Library name was not given".to_owned()),
        ("#!py name=z\n", "ERR Engine 'py' not found".to_owned()),
        ("#!lua name=z foo=1\n", "ERR Invalid metadata value given: foo=1".to_owned()),
        ("#!lua name=z-\n", name.to_owned()),
        ("#!lua name=q\nreturn 1", "ERR No functions registered".to_owned()),
        (
            "#!lua name=q name=r\n",
            "ERR Invalid metadata value, name argument was given multiple times".to_owned(),
        ),
        (
            "#!lua name=z\nretur",
            "ERR Error compiling function: user_function:2: '=' expected near '<eof>'".to_owned(),
        ),
        (
            "#!lua name=x\nredis.call('x')",
            format!(
                "{registering}ERR user_function:2: Script attempted to access nonexistent global \
                 variable 'call'"
            ),
        ),
        (
            "#!lua name=x\nredis.register_function('a b', function() end)",
            format!("{registering}{name}"),
        ),
        (
            "#!lua name=x\nredis.register_function('x')",
            format!(
                "{registering}ERR calling redis.register_function with a single argument is only \
                 applicable to Lua table (representing named arguments)."
            ),
        ),
    ] {
        assert_eq!(load_error(source), expected, "{source}");
    }
}

#[test]
fn a_library_that_does_not_end_is_given_up() {
    let mut interpreter = Interpreter::new(MEMORY).expect("an interpreter");
    let mut host = TestHost { polls_left: Some(3), ..TestHost::default() };
    let loaded = interpreter.load_library(b"#!lua name=x\nwhile true do end", &mut host);
    let error = loaded.err().expect("an error").to_string();
    assert_eq!(error, "ERR Error registering functions: ERR FUNCTION LOAD timeout");
}
