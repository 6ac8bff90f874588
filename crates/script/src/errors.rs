//! The error that ends a script: its text and its position.

use crate::arguments::Raised;
use crate::state::{Failure, State};
use mlua::{Lua, Value};

/// The text of a killed script's error.
pub(crate) const KILLED: &str = "ERR Script killed by user with SCRIPT KILL...";

/// Returns true if a function of Rust raised this because the host has ended the script.
pub(crate) fn is_kill(error: &Value) -> bool {
    matches!(error, Value::Error(error) if text_of(error) == KILLED)
}

/// Returns source and line of the innermost function that belongs to a script, `@user_script:3`.
pub(crate) fn position(lua: &Lua) -> Option<String> {
    for level in 1..64 {
        let found = lua.inspect_stack(level, |debug| {
            let source = debug.source();
            let line = debug.current_line();
            match (source.source, line) {
                (Some(source), Some(line)) if !source.starts_with("=[C]") => {
                    Some(format!("{source}:{line}"))
                }
                _ => None,
            }
        })?;
        if found.is_some() {
            return found;
        }
    }
    None
}

/// Replaces a position inside the sandbox's own code with that of the calling script.
fn with_position(message: &[u8], position: Option<&str>) -> Vec<u8> {
    let Some(rest) = without_own_position(message) else { return message.to_vec() };
    let Some(position) = position else { return rest.to_vec() };
    let mut text = position.trim_start_matches(['@', '=']).as_bytes().to_vec();
    text.extend_from_slice(b": ");
    text.extend_from_slice(rest);
    text
}

/// Returns the message without a leading `[C]:12: `, or `None` if it has none.
pub(crate) fn without_own_position(message: &[u8]) -> Option<&[u8]> {
    let rest = message.strip_prefix(b"[C]:")?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    rest[digits..].strip_prefix(b": ")
}

/// Returns the text of an error of mlua, without a stack trace.
pub(crate) fn text_of(error: &mlua::Error) -> String {
    match error {
        mlua::Error::MemoryError(_) => "not enough memory".to_owned(),
        mlua::Error::RuntimeError(text) => text.clone(),
        mlua::Error::CallbackError { cause, .. } => text_of(cause),
        other => other.to_string().lines().next().unwrap_or_default().to_owned(),
    }
}

/// Records why a run fails. Called as its message handler, while the stack still exists.
pub(crate) fn record(lua: &Lua, state: &State, error: &Value) -> mlua::Result<()> {
    let position =
        position(lua).or_else(|| state.last_line.get().map(|line| format!("@user_script:{line}")));
    let mut is_counted = false;
    let prefixed = |text: &[u8]| {
        let mut message = b"ERR ".to_vec();
        message.extend_from_slice(&with_position(text, position.as_deref()));
        message
    };
    let message = match error {
        _ if state.is_killed.get() || is_kill(error) => KILLED.as_bytes().to_vec(),
        Value::Table(table) => {
            is_counted =
                table.raw_get::<Value>("ignore_error_stats_update")? == Value::Boolean(true);
            match lua.coerce_string(table.raw_get("err")?)? {
                Some(text) => text.as_bytes().to_vec(),
                None => b"ERR unknown error".to_vec(),
            }
        }
        Value::String(text) => prefixed(&text.as_bytes()),
        Value::Error(error) => match Raised::of(error) {
            Some(Raised::Reply { message, is_counted: counted }) => {
                is_counted = *counted;
                message.clone()
            }
            Some(Raised::Text(text)) => prefixed(text),
            None => prefixed(text_of(error).as_bytes()),
        },
        other => prefixed(plain(lua, other)?.as_bytes()),
    };
    *state.failure.borrow_mut() = Some(Failure { message, position, is_counted });
    Ok(())
}

/// Returns the text of a value that is neither a string nor a table as `tostring` shows it, without
/// metamethods.
fn plain(lua: &Lua, value: &Value) -> mlua::Result<String> {
    Ok(match value {
        Value::Nil => "nil".to_owned(),
        Value::Boolean(flag) => flag.to_string(),
        Value::Integer(_) | Value::Number(_) => {
            lua.coerce_string(value.clone())?.map(|text| text.to_string_lossy()).unwrap_or_default()
        }
        other => format!("{}: {:p}", crate::arguments::type_name(other), other.to_pointer()),
    })
}
