//! `cmsgpack`: MessagePack, as read and written by lua-cmsgpack 0.4.

mod pack;
mod unpack;

use crate::arguments::native;
use mlua::{Lua, Table};

/// Maximum nesting of tables; a deeper one is packed as nil.
const MAX_NESTING: usize = 16;

/// Makes the table.
pub(crate) fn table(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("pack", native(lua, "pack", pack::pack)?)?;
    table.raw_set("unpack", native(lua, "unpack", unpack::unpack)?)?;
    table.raw_set("unpack_one", native(lua, "unpack_one", unpack::unpack_one)?)?;
    table.raw_set("unpack_limit", native(lua, "unpack_limit", unpack::unpack_limit)?)?;
    table.raw_set("_NAME", "cmsgpack")?;
    table.raw_set("_VERSION", "lua-cmsgpack 0.4.0")?;
    table.raw_set("_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo")?;
    table.raw_set("_DESCRIPTION", "MessagePack C implementation for Lua")?;
    Ok(table)
}
