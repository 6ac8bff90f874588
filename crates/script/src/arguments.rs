//! Arguments of functions that are written in Rust, with Lua's checks and error texts, and raising
//! errors from such functions.

use mlua::{Function, Lua, MultiValue, Table, Value};
use std::fmt;

/// An error that a function raises.
pub(crate) enum Raise {
    /// A text, to which the position of the caller is added.
    Text(String),
    /// A text, raised like the errors of Redis's own functions: in a table, after the code `ERR`.
    Reply(String),
    /// An error of mlua, such as lack of memory.
    Lua(mlua::Error),
}

impl From<mlua::Error> for Raise {
    fn from(error: mlua::Error) -> Raise {
        Raise::Lua(error)
    }
}

impl From<&str> for Raise {
    fn from(text: &str) -> Raise {
        Raise::Text(text.to_owned())
    }
}

/// The results of a function.
pub(crate) type Results = Result<Vec<Value>, Raise>;

/// The arguments of one call.
pub(crate) struct Arguments<'a> {
    pub(crate) lua: &'a Lua,
    function: &'static str,
    values: MultiValue,
}

impl Arguments<'_> {
    /// Returns how many there are.
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns an argument, nil if it is missing. The first has the number 1.
    pub(crate) fn get(&self, at: usize) -> &Value {
        self.values.get(at - 1).unwrap_or(&Value::Nil)
    }

    /// Returns true if an argument is missing or nil.
    pub(crate) fn is_absent(&self, at: usize) -> bool {
        self.get(at).is_nil()
    }

    /// Returns all of them in their order.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Value> {
        self.values.iter()
    }

    /// Returns the error for a bad argument.
    pub(crate) fn bad(&self, at: usize, problem: &str) -> Raise {
        let (name, is_method) = self.called_as();
        if is_method && at == 1 {
            return Raise::Text(format!("calling '{name}' on bad self ({problem})"));
        }
        let at = if is_method { at - 1 } else { at };
        Raise::Text(format!("bad argument #{at} to '{name}' ({problem})"))
    }

    /// Returns the name by which the script calls the function, and whether it is called as a
    /// method: then the first argument is not counted.
    fn called_as(&self) -> (String, bool) {
        let name_at = |level| {
            self.lua.inspect_stack(level, |debug| {
                let names = debug.names();
                let is_method = names.name_what == Some("method");
                let is_own = debug.source().source.is_some_and(|source| source == "=[C]");
                let is_lua = debug.source().what == "Lua";
                (names.name.map(|name| name.into_owned()), is_method, is_own && is_lua)
            })
        };
        // A function of the sandbox may be in between; it has no name if it is called last.
        let unknown = || (self.function.to_owned(), false);
        match name_at(1) {
            Some((Some(name), is_method, true)) => (name, is_method),
            Some((None, _, true)) => unknown(),
            _ => match name_at(0) {
                Some((name, is_method, _)) => (name.unwrap_or_else(|| "?".to_owned()), is_method),
                None => unknown(),
            },
        }
    }

    /// Returns the error for an argument of the wrong type.
    pub(crate) fn wrong_type(&self, at: usize, expected: &str) -> Raise {
        let found = if at > self.values.len() { "no value" } else { type_name(self.get(at)) };
        self.bad(at, &format!("{expected} expected, got {found}"))
    }

    /// Returns a number, which may be written as a string.
    pub(crate) fn number(&self, at: usize) -> Result<f64, Raise> {
        match self.get(at) {
            Value::Integer(number) => Ok(*number as f64),
            Value::Number(number) => Ok(*number),
            other => {
                let number = self.lua.coerce_number(other.clone())?;
                number.ok_or_else(|| self.wrong_type(at, "number"))
            }
        }
    }

    /// Returns a number without its fraction, converted like in C.
    pub(crate) fn integer(&self, at: usize) -> Result<i64, Raise> {
        self.number(at).map(crate::number::truncate)
    }

    /// Returns a number converted to a C `int`.
    pub(crate) fn int(&self, at: usize) -> Result<i32, Raise> {
        self.integer(at).map(|number| number as i32)
    }

    /// Returns a string, or the digits of a number.
    pub(crate) fn bytes(&self, at: usize) -> Result<mlua::LuaString, Raise> {
        match self.get(at) {
            Value::String(text) => Ok(text.clone()),
            number @ (Value::Integer(_) | Value::Number(_)) => {
                let text = self.lua.coerce_string(number.clone())?;
                text.ok_or_else(|| self.wrong_type(at, "string"))
            }
            _ => Err(self.wrong_type(at, "string")),
        }
    }
}

/// Returns the name of a type, like Lua's `type`.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Nil => "nil",
        Value::Boolean(_) => "boolean",
        Value::Integer(_) | Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Table(_) => "table",
        Value::Function(_) => "function",
        Value::Thread(_) => "thread",
        _ => "userdata",
    }
}

/// Makes a function for the sandbox.
pub(crate) fn native(
    lua: &Lua,
    name: &'static str,
    f: impl Fn(&Arguments<'_>) -> Results + 'static,
) -> mlua::Result<Function> {
    lua.create_function(move |lua, values: MultiValue| {
        let arguments = Arguments { lua, function: name, values };
        match f(&arguments) {
            Ok(results) => Ok(MultiValue::from_vec(results)),
            Err(Raise::Lua(error)) => Err(error),
            Err(Raise::Text(text)) => {
                let text = format!("{}{text}", caller(lua)).into_bytes();
                Err(mlua::Error::external(Raised::Text(text)))
            }
            Err(Raise::Reply(text)) => {
                let message = format!("ERR {text}").into_bytes();
                Err(mlua::Error::external(Raised::Reply { message, is_counted: false }))
            }
        }
    })
}

/// Returns the position of the script that called the running function of Rust, in the form in
/// which Lua puts it before the text of an error. A function of the sandbox in between is skipped.
fn caller(lua: &Lua) -> String {
    for level in 1..4 {
        let position = lua.inspect_stack(level, |debug| {
            let source = debug.source();
            if source.what == "Lua" && source.source.as_deref() == Some("=[C]") {
                return None;
            }
            if source.what == "tail" {
                // The caller's frame is gone. As for an error within the sandbox, it is replaced
                // later by the position at which the error ends the script.
                return Some("[C]:0: ".to_owned());
            }
            let place = debug.current_line().zip(source.short_src);
            Some(place.map(|(line, source)| format!("{source}:{line}: ")).unwrap_or_default())
        });
        match position {
            Some(Some(position)) => return position,
            Some(None) => {}
            None => break,
        }
    }
    String::new()
}

/// Makes the table that represents an error in Redis's scripts.
pub(crate) fn error_table(lua: &Lua, message: &[u8]) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(0, 2)?;
    table.raw_set("err", lua.create_string(message)?)?;
    Ok(table)
}

/// An error on its way through Lua, in a value of mlua.
#[derive(Clone, Debug)]
pub(crate) enum Raised {
    /// A string.
    Text(Vec<u8>),
    /// A table with the field `err`.
    Reply { message: Vec<u8>, is_counted: bool },
}

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Raised::Text(text) | Raised::Reply { message: text, .. }) = self;
        f.write_str(&String::from_utf8_lossy(text))
    }
}

impl std::error::Error for Raised {}

impl Raised {
    /// Returns the error that a function of Rust raised, if it is one.
    pub(crate) fn of(error: &mlua::Error) -> Option<&Raised> {
        match error {
            mlua::Error::CallbackError { cause, .. } => Raised::of(cause),
            mlua::Error::ExternalError(error) => error.downcast_ref(),
            _ => None,
        }
    }
}
