//! `cjson`: JSON, as read and written by lua-cjson 2.1.

mod decode;
mod encode;
mod settings;

use crate::arguments::native;
use mlua::{Lua, Table, Value};
pub(crate) use settings::Settings;
use std::cell::Cell;
use std::rc::Rc;

/// Makes the table. Its functions read and change `settings`.
pub(crate) fn table(lua: &Lua, settings: &Rc<Cell<Settings>>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let own = Rc::clone(settings);
    let encode = native(lua, "encode", move |call| encode::encode(call, own.get()))?;
    table.raw_set("encode", encode)?;
    let own = Rc::clone(settings);
    let decode = native(lua, "decode", move |call| decode::decode(call, own.get()))?;
    table.raw_set("decode", decode)?;
    for (name, change) in settings::FUNCTIONS {
        let own = Rc::clone(settings);
        table.raw_set(*name, native(lua, name, move |call| change(call, &own))?)?;
    }
    let new = native(lua, "new", |call| {
        let settings = Rc::new(Cell::new(Settings::default()));
        Ok(vec![Value::Table(self::table(call.lua, &settings)?)])
    })?;
    table.raw_set("new", new)?;
    table.raw_set("null", Value::NULL)?;
    table.raw_set("_NAME", "cjson")?;
    table.raw_set("_VERSION", "2.1.0")?;
    Ok(table)
}
