//! HELLO: protocol version, authentication and name in one command.

use std::sync::PoisonError;

use engine::call::{Call, Run};
use engine::failure::{Done, Failure};
use engine::session::Session;
use engine::spec::*;
use resp::Protocol;

pub(crate) const HELLO: CommandSpec = CommandSpec {
    name: "hello",
    summary: "Handshake with Redis",
    complexity: "O(1)",
    since: "6.0.0",
    group: Group::Connection,
    arity: -1,
    flags: NOSCRIPT | LOADING | STALE | FAST | NO_AUTH | ALLOW_BUSY,
    acl: ACL_CONNECTION,
    history: &[(
        "6.2.0",
        "`protover` made optional; when called without arguments the command reports the current connection's context.",
    )],
    args: &[block(
        "arguments",
        &[
            integer("protover"),
            block("username_password", &[string("username"), string("password")])
                .token("AUTH")
                .optional(),
            string("clientname").token("SETNAME").optional(),
        ],
    )
    .optional()],
    redact: Some(redact),
    run: Run::Session(hello),
    ..CommandSpec::EMPTY
};

#[derive(Default)]
struct Options<'a> {
    protocol: Option<Protocol>,
    login: Option<(&'a [u8], &'a [u8])>,
    name: Option<&'a [u8]>,
}

/// Hides the name and the password after AUTH.
fn redact(words: &mut [&[u8]]) {
    if let Some(at) = words.iter().position(|word| word.eq_ignore_ascii_case(b"auth")) {
        words.iter_mut().skip(at + 1).take(2).for_each(|word| *word = REDACTED);
    }
}

fn hello(call: &mut Call<'_>) -> Done {
    let options = parse(call.args)?;
    if let Some((user, password)) = options.login {
        call.engine.permissions().authenticate(call.session, user, password, call.args[0])?;
    }
    if call.engine.permissions().must_authenticate(call.session) {
        return Err(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise \
                    the HELLO AUTH <user> <pass> option can be used to authenticate the \
                    client and select the RESP protocol version at the same time"
                .into(),
        );
    }
    if let Some(name) = options.name {
        set_name(call.session, name)?;
    }
    if let Some(protocol) = options.protocol {
        call.session.set_protocol(protocol);
        call.out.set_protocol(protocol);
    }
    greet(call);
    Ok(())
}

fn parse<'a>(args: &[&'a [u8]]) -> Result<Options<'a>, Failure> {
    let mut options = Options::default();
    let Some((version, mut rest)) = args[1..].split_first() else { return Ok(options) };
    options.protocol = match resp::number::parse_i64(version) {
        Some(2) => Some(Protocol::Resp2),
        Some(3) => Some(Protocol::Resp3),
        Some(_) => return Err("NOPROTO unsupported protocol version".into()),
        None => return Err("ERR Protocol version is not an integer or out of range".into()),
    };
    while let Some((word, more)) = rest.split_first() {
        rest = match more {
            [user, password, more @ ..] if word.eq_ignore_ascii_case(b"AUTH") => {
                options.login = Some((user, password));
                more
            }
            [name, more @ ..] if word.eq_ignore_ascii_case(b"SETNAME") => {
                check_name(name)?;
                options.name = Some(name);
                more
            }
            _ => {
                let mut text = b"ERR Syntax error in HELLO option '".to_vec();
                text.extend_from_slice(word);
                text.push(b'\'');
                return Err(Failure::text(text));
            }
        };
    }
    Ok(options)
}

fn greet(call: &mut Call<'_>) {
    let out = &mut *call.out;
    out.map(7);
    out.bulk("server");
    out.bulk("redis");
    out.bulk("version");
    out.bulk(call.engine.config().redis_version().as_bytes());
    out.bulk("proto");
    out.integer(if call.session.protocol == Protocol::Resp3 { 3 } else { 2 });
    out.bulk("id");
    out.integer(call.session.id() as i64);
    out.bulk("mode");
    out.bulk(if call.engine.cluster().is_on() { "cluster" } else { "standalone" });
    out.bulk("role");
    out.bulk("master");
    out.bulk("modules");
    out.array(0);
}

fn check_name(name: &[u8]) -> Done {
    if name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return Ok(());
    }
    Err("ERR Client names cannot contain spaces, newlines or special characters.".into())
}

/// Names a connection.
fn set_name(session: &mut Session, name: &[u8]) -> Done {
    check_name(name)?;
    *session.client.name.lock().unwrap_or_else(PoisonError::into_inner) = name.to_vec();
    Ok(())
}
