//! The libraries that Redis adds to Lua, each as a table of functions.

mod bit;
mod cmsgpack;
mod structs;

use mlua::{Lua, Table};

/// Makes all of them, by name.
pub(crate) fn all(lua: &Lua) -> mlua::Result<Table> {
    let all = lua.create_table()?;
    all.raw_set("bit", bit::table(lua)?)?;
    all.raw_set("struct", structs::table(lua)?)?;
    all.raw_set("cmsgpack", cmsgpack::table(lua)?)?;
    Ok(all)
}
