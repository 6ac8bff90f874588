//! The libraries that Redis adds to Lua, each as a table of functions.

mod bit;
mod cjson;
mod cmsgpack;
mod structs;

use crate::state::State;
pub(crate) use cjson::Settings as CjsonSettings;
use mlua::{Lua, Table};

/// Makes all of them, by name.
pub(crate) fn all(lua: &Lua, state: &State) -> mlua::Result<Table> {
    let all = lua.create_table()?;
    all.raw_set("cjson", cjson::table(lua, &state.cjson)?)?;
    all.raw_set("bit", bit::table(lua)?)?;
    all.raw_set("struct", structs::table(lua)?)?;
    all.raw_set("cmsgpack", cmsgpack::table(lua)?)?;
    Ok(all)
}
