//! Lua's own stack, for `redis.call` and for the call of a script: the only unsafe code above the
//! heap.
//!
//! mlua passes values between Lua and Rust through handles on a second stack, which for a script's
//! command takes as many instructions as the command itself. A function that is made here reads its
//! arguments from Lua's own stack, and puts its result there. It does so in the usual cases only;
//! all others, including every error, are left to a function of mlua that is called in its place.
//! [`call`] is the other direction: it calls a function from Lua's registry, with arguments that
//! are put on the stack, and shows the result there.
//!
//! Why this is sound:
//!
//! - *Pointers.* A [`Frame`] is lent to the body of a call, which cannot keep it: its lifetime is
//!   unknown there. The arguments stay on Lua's stack until the call returns. So Lua's collector
//!   keeps them; it moves no string, and strings do not change. Nothing else removes values from
//!   this stack meanwhile: the interpreter is used by one thread, and finalizers, which Lua may run
//!   during the body, leave the stack as it was. The frame of [`call`] is above everything on the
//!   stack, and is removed with all that it has pushed when `call` ends.
//! - *Slots.* Lua grants 20 slots in addition to the arguments; a frame counts its pushes and
//!   panics beyond [`MOST_PUSHED`]. A value that goes into a list was counted after the list was
//!   made, so the list is below it. [`call`] requests the slots of its frame.
//! - *Errors.* Lua raises an error by `longjmp`, which skips destructors. Methods that push a
//!   string or a table demand an [`Unlimited`]: with the limit of memory lifted, an allocation of
//!   Lua succeeds or aborts the process. Lua's other reasons do not occur: strings and lists have a
//!   largest size here, far below Lua's; tables are filled without asking their metatables, by keys
//!   that are strings or integers; and the only finalizers are those of mlua, which raise nothing,
//!   since scripts can make none (`newproxy` is not in the sandbox). So no method of a frame raises
//!   an error, and the function of mlua, which does, is called after the body by a function that
//!   owns nothing. An error that a script raises ends at the protected call in [`call`]. Its jump
//!   skips nothing that is owned: between that call and the error there are only Lua's frames, and
//!   functions called through mlua.
//! - *Panics* are caught, and do not reach C. A panic that mlua has caught travels as an error of
//!   Lua to [`call`], where it becomes a panic again.
//! - *Types.* The required type of a value (a table, a string) is asserted wherever Lua relies on
//!   it.
//! - *Layout.* Lua has no function that returns how many results a call is to have; the number is
//!   read from Lua's own structures. Lua 5.1 is no longer developed, and its version is asserted.

#![expect(unsafe_code, reason = "mlua has no safe access to Lua's stack; see above")]

use mlua::ffi::{self, lua_State};
use mlua::{Function, Lua, LuaString, RegistryKey, Value};
use std::any::Any;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;

/// Maximum number of bytes in a string, and of items in a list, for a frame.
pub(crate) const LONGEST_STRING: usize = 1 << 28;
pub(crate) const LONGEST_LIST: usize = 1 << 16;

/// Maximum number of values that a frame has pushed at the same time.
const MOST_PUSHED: u32 = 8;

/// Slots that a protected call requests, as many as Lua gives a function.
const PLACES: c_int = 20;

const _: () = assert!(ffi::LUA_GLOBALSINDEX == -10002, "the layouts below are those of Lua 5.1");

/// The start of `lua_State`, in `lstate.h`.
#[repr(C)]
struct StateStart {
    next: *const c_void,
    kind: u8,
    marked: u8,
    status: u8,
    top: *const c_void,
    base: *const c_void,
    global: *const c_void,
    call: *const CallStart,
}

/// The start of `CallInfo`, in `lstate.h`.
#[repr(C)]
struct CallStart {
    base: *const c_void,
    function: *const c_void,
    top: *const c_void,
    next_instruction: *const c_void,
    results: c_int,
}

/// The upvalues of a function: the function to call otherwise, and two texts.
const OTHERWISE: c_int = ffi::lua_upvalueindex(1);
const NAME_OF_STATUS: c_int = ffi::lua_upvalueindex(2);
const OK: c_int = ffi::lua_upvalueindex(3);

/// How the body of a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It has pushed the results.
    Returned,
    /// The results are those of the function of mlua, which is called without arguments.
    Otherwise,
}

/// The body of a function.
pub(crate) trait Body {
    /// How many values it pushes.
    const RESULTS: u32;

    /// Runs in each call.
    fn call(frame: &mut Frame<'_>) -> Ended;

    /// Receives the payload of a panic; the function of mlua is called then.
    fn has_panicked(payload: Box<dyn Any + Send>);
}

/// Proves that Lua's memory is not limited at present.
pub(crate) struct Unlimited(());

/// Calls `f` with the limit of memory lifted, and fails if the limit is exceeded afterwards. While
/// memory cannot run out, mlua too calls Lua directly; otherwise it makes a protected call, with
/// two closures, for each string and each field of a table.
pub(crate) fn without_limit<R>(
    lua: &Lua,
    limit: usize,
    f: impl FnOnce(&Unlimited) -> mlua::Result<R>,
) -> mlua::Result<R> {
    lua.set_memory_limit(0)?;
    let result = f(&Unlimited(()));
    lua.set_memory_limit(limit)?;
    if lua.used_memory() > limit {
        return Err(mlua::Error::MemoryError("not enough memory".to_owned()));
    }
    result
}

/// Makes a function for Lua. `texts` are the strings `ok` and `OK`.
pub(crate) fn function<B: Body>(
    lua: &Lua,
    otherwise: Function,
    [name, text]: [&LuaString; 2],
) -> mlua::Result<Function> {
    let make = |state| {
        // SAFETY: the three values on the stack become the upvalues of the function.
        unsafe { ffi::lua_pushcclosure(state, enter::<B>, 3) };
    };
    // SAFETY: `make` is called in a protected call, owns nothing, and leaves one value.
    unsafe { lua.exec_raw((otherwise, name, text), make) }
}

/// The C function that Lua calls. It owns nothing, so that an error of the other function may skip
/// it.
unsafe extern "C-unwind" fn enter<B: Body>(state: *mut lua_State) -> c_int {
    if run::<B>(state) == Ended::Returned {
        return B::RESULTS as c_int;
    }
    // SAFETY: the function's own stack is emptied; nobody has pointers to its arguments any more.
    unsafe { ffi::lua_settop(state, 0) };
    // SAFETY: the function has three upvalues, and the stack has free places since it is empty.
    unsafe { ffi::lua_pushvalue(state, OTHERWISE) };
    // SAFETY: the function was just pushed. An error leaves this function, which owns nothing.
    unsafe { ffi::lua_call(state, 0, B::RESULTS as c_int) };
    B::RESULTS as c_int
}

/// Runs the body.
fn run<B: Body>(state: *mut lua_State) -> Ended {
    // SAFETY: Lua calls with its state, whose stack is the function's own.
    let arguments = unsafe { ffi::lua_gettop(state) };
    let mut frame = Frame { state, arguments, pushed: 0, lent: PhantomData };
    match catch_unwind(AssertUnwindSafe(|| B::call(&mut frame))) {
        // A result that was not pushed would be taken from the arguments.
        Ok(Ended::Returned) if frame.pushed == B::RESULTS => Ended::Returned,
        Ok(_) => Ended::Otherwise,
        Err(payload) => {
            B::has_panicked(payload);
            Ended::Otherwise
        }
    }
}

thread_local! {
    /// Whether the handler of a protected call is running.
    static IS_HANDLING: Cell<bool> = const { Cell::new(false) };
}

/// Makes the message handler of protected calls: it calls `handler` with the error. An error of
/// `handler` itself is not handled again, but ends the call.
pub(crate) fn message_handler(lua: &Lua, handler: Function) -> mlua::Result<Function> {
    let make = |state| {
        // SAFETY: the value on the stack becomes the upvalue of the function.
        unsafe { ffi::lua_pushcclosure(state, handle, 1) };
    };
    // SAFETY: `make` is called in a protected call, owns nothing, and leaves one value.
    unsafe { lua.exec_raw(handler, make) }
}

/// The C function that Lua calls with an error. It owns nothing.
unsafe extern "C-unwind" fn handle(state: *mut lua_State) -> c_int {
    if IS_HANDLING.replace(true) {
        return 1;
    }
    // SAFETY: Lua calls with the error alone on the function's own stack, which has free places.
    unsafe { ffi::lua_pushvalue(state, ffi::lua_upvalueindex(1)) };
    // SAFETY: the handler is put below the error.
    unsafe { ffi::lua_insert(state, 1) };
    // SAFETY: the handler has the error for its argument. Its own error leaves this function.
    unsafe { ffi::lua_call(state, 1, 0) };
    IS_HANDLING.set(false);
    0
}

/// The result of a protected call.
pub(crate) enum Called<R> {
    /// The value made from the result on the stack.
    Taken(R),
    /// The result, which was left on the stack.
    Returned(Value),
    /// The error; nil if the handler has taken it.
    Failed(Value),
}

/// Leaves Lua's stack as it was.
struct Restored {
    state: *mut lua_State,
    top: c_int,
}

impl Drop for Restored {
    fn drop(&mut self) {
        // SAFETY: the stack was this high, and nothing below was removed.
        unsafe { ffi::lua_settop(self.state, self.top) };
    }
}

/// Calls a function with a message handler, both from Lua's registry. `push` pushes the arguments,
/// with the limit of memory lifted; `take` may convert the result. A panic in a function of Rust
/// that was called from Lua continues.
pub(crate) fn call<R>(
    lua: &Lua,
    limit: usize,
    [handler, function]: [&RegistryKey; 2],
    push: impl FnOnce(&mut Frame<'_>, &Unlimited),
    take: impl FnOnce(&mut Frame<'_>) -> Option<R>,
) -> mlua::Result<Called<R>> {
    lua.exec_raw_lua(|raw| {
        let state = raw.state();
        // SAFETY: the state of the interpreter, which this thread alone uses.
        let top = unsafe { ffi::lua_gettop(state) };
        let _restored = Restored { state, top };
        let mut frame = Frame { state, arguments: 0, pushed: 0, lent: PhantomData };
        let arguments = without_limit(lua, limit, |unlimited| {
            // SAFETY: memory is not limited; if the stack cannot grow, the result says so.
            if unsafe { ffi::lua_checkstack(state, PLACES) } == 0 {
                return Err(mlua::Error::StackError);
            }
            frame.push_kept(lua, handler);
            frame.push_kept(lua, function);
            push(&mut frame, unlimited);
            Ok(frame.pushed - 2)
        })?;
        IS_HANDLING.set(false);
        // SAFETY: the handler, what is called and its arguments are above `top`. They are replaced
        // by one value after the handler: the result or the error.
        let status = unsafe { ffi::lua_pcall(state, arguments as c_int, 1, top + 1) };
        frame.pushed = 2;
        if status == ffi::LUA_OK
            && let Some(taken) = take(&mut frame)
        {
            return Ok(Called::Taken(taken));
        }
        // SAFETY: the value is on the stack, after what `take` may have pushed and is removed.
        unsafe { ffi::lua_settop(state, top + 2) };
        let value = without_limit(lua, limit, |_| {
            // SAFETY: as above; memory is not limited, so that a handle can be made.
            Ok(unsafe { raw.pop_value() })
        })?;
        Ok(if status == ffi::LUA_OK { Called::Returned(value) } else { Called::Failed(value) })
    })
}

/// An argument or a result of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Argument<'f> {
    /// Nothing.
    Nil,
    /// A boolean.
    Boolean(bool),
    /// A string.
    Text(&'f [u8]),
    /// A number.
    Number(f64),
    /// A table.
    Table,
    /// Anything else.
    Other,
}

/// A call: its arguments and the values that it has pushed. In a protected call, the called
/// function and the result count as pushed.
pub(crate) struct Frame<'f> {
    state: *mut lua_State,
    arguments: c_int,
    pushed: u32,
    lent: PhantomData<&'f mut ()>,
}

impl Frame<'_> {
    /// Returns the arguments in their order.
    pub(crate) fn arguments(&self) -> impl Iterator<Item = Argument<'_>> {
        (1..=self.arguments).map(|at| self.argument(at))
    }

    /// Returns true if the call is a statement, whose results Lua drops.
    pub(crate) fn is_statement(&self) -> bool {
        let state = self.state.cast::<StateStart>();
        // SAFETY: a state begins like this in every Lua 5.1, of which mlua brings the sources.
        let call = unsafe { (*state).call };
        // SAFETY: while a function runs, its state refers to its call.
        unsafe { (*call).results == 0 }
    }

    fn argument(&self, at: c_int) -> Argument<'_> {
        // SAFETY: `at` is one of the arguments; nothing removes them.
        match unsafe { ffi::lua_type(self.state, at) } {
            ffi::LUA_TSTRING => {
                let mut length = 0;
                // SAFETY: as above; of a string this returns its bytes and converts nothing.
                let bytes = unsafe { ffi::lua_tolstring(self.state, at, &mut length) };
                // SAFETY: they have this length, and stay as they are as long as the argument is
                // there, that is as long as the frame.
                Argument::Text(unsafe { slice::from_raw_parts(bytes.cast(), length) })
            }
            // SAFETY: as above; a number is returned as it is.
            ffi::LUA_TNUMBER => Argument::Number(unsafe { ffi::lua_tonumber(self.state, at) }),
            ffi::LUA_TBOOLEAN => {
                // SAFETY: as above.
                Argument::Boolean(unsafe { ffi::lua_toboolean(self.state, at) } != 0)
            }
            ffi::LUA_TNIL => Argument::Nil,
            ffi::LUA_TTABLE => Argument::Table,
            _ => Argument::Other,
        }
    }

    /// Returns the value that was pushed last.
    pub(crate) fn last(&self) -> Argument<'_> {
        if self.pushed == 0 { Argument::Other } else { self.argument(-1) }
    }

    /// Pushes a value from Lua's registry.
    ///
    /// # Panics
    /// If it belongs to another interpreter.
    pub(crate) fn push_kept(&mut self, lua: &Lua, key: &RegistryKey) {
        assert!(lua.owns_registry_value(key), "a value of another interpreter");
        self.count();
        // SAFETY: the place was counted, and the registry is a table; nothing is allocated.
        unsafe {
            ffi::lua_rawgeti(self.state, ffi::LUA_REGISTRYINDEX, key.id().into());
        }
    }

    /// Sets a field of a table: the table was pushed first, then the name, then the value. Name and
    /// value are removed.
    ///
    /// # Panics
    /// If there is no such table, or the name is no string.
    pub(crate) fn set_field(&mut self, _: &Unlimited) {
        assert!(self.pushed >= 3 && self.is_table(-3) && self.is_string(-2), "no field to be set");
        // SAFETY: a table and a name, as was asserted, and memory is not limited.
        unsafe { ffi::lua_rawset(self.state, -3) };
        self.pushed -= 2;
    }

    /// Replaces the name that was pushed last with the field of that name in the table before it.
    ///
    /// # Panics
    /// If there is no such table, or the name is no string.
    pub(crate) fn get_field(&mut self) {
        assert!(self.pushed >= 2 && self.is_table(-2) && self.is_string(-1), "no field to be got");
        // SAFETY: a table and a name, as was asserted; nothing is allocated.
        unsafe { ffi::lua_rawget(self.state, -2) };
    }

    fn is_table(&self, at: c_int) -> bool {
        // SAFETY: the caller has counted this many values.
        unsafe { ffi::lua_type(self.state, at) == ffi::LUA_TTABLE }
    }

    fn is_string(&self, at: c_int) -> bool {
        // SAFETY: as above.
        unsafe { ffi::lua_type(self.state, at) == ffi::LUA_TSTRING }
    }

    /// Removes the value that was pushed last.
    pub(crate) fn pop(&mut self) {
        assert!(self.pushed > 0, "nothing to be removed");
        // SAFETY: the value was counted when it was pushed.
        unsafe { ffi::lua_settop(self.state, -2) };
        self.pushed -= 1;
    }

    /// Counts a value that is to be pushed.
    fn count(&mut self) {
        assert!(self.pushed < MOST_PUSHED, "a frame of Lua is full");
        self.pushed += 1;
    }

    /// Pushes nil.
    pub(crate) fn push_nil(&mut self) {
        self.count();
        // SAFETY: the place was counted; nothing is allocated.
        unsafe { ffi::lua_pushnil(self.state) };
    }

    /// Pushes a boolean.
    pub(crate) fn push_boolean(&mut self, value: bool) {
        self.count();
        // SAFETY: the place was counted; nothing is allocated.
        unsafe { ffi::lua_pushboolean(self.state, value.into()) };
    }

    /// Pushes a number.
    pub(crate) fn push_number(&mut self, value: f64) {
        self.count();
        // SAFETY: the place was counted; nothing is allocated.
        unsafe { ffi::lua_pushnumber(self.state, value) };
    }

    /// Pushes a string of at most [`LONGEST_STRING`].
    pub(crate) fn push_string(&mut self, bytes: &[u8], _: &Unlimited) {
        assert!(bytes.len() <= LONGEST_STRING, "a string is too long for a frame of Lua");
        self.count();
        // SAFETY: the place was counted, Lua copies the bytes, and memory is not limited.
        unsafe { ffi::lua_pushlstring(self.state, bytes.as_ptr().cast(), bytes.len()) };
    }

    /// Pushes a status: a table with the field `ok`. `None` is the status `OK`.
    pub(crate) fn push_status(&mut self, text: Option<&[u8]>, unlimited: &Unlimited) {
        self.count();
        // SAFETY: the place was counted, and memory is not limited.
        unsafe { ffi::lua_createtable(self.state, 0, 1) };
        self.count();
        // SAFETY: the place was counted, and the function has three upvalues.
        unsafe { ffi::lua_pushvalue(self.state, NAME_OF_STATUS) };
        match text {
            Some(text) => self.push_string(text, unlimited),
            None => {
                self.count();
                // SAFETY: as for the name.
                unsafe { ffi::lua_pushvalue(self.state, OK) };
            }
        }
        // SAFETY: the table is below the key, a string, and the value, which are taken away.
        unsafe { ffi::lua_rawset(self.state, -3) };
        self.pushed -= 2;
    }

    /// Replaces the items of the list that was pushed last, which had `before` items.
    ///
    /// # Panics
    /// If there is no such list, or either is longer than [`LONGEST_LIST`].
    pub(crate) fn refill_list(&mut self, items: &[&[u8]], before: usize, unlimited: &Unlimited) {
        assert!(self.pushed > 0 && self.is_table(-1), "no list to be filled");
        let length = items.len().max(before);
        assert!(length <= LONGEST_LIST, "a list is too long for a frame of Lua");
        for at in 0..length {
            match items.get(at) {
                Some(item) => self.push_string(item, unlimited),
                None => self.push_nil(),
            }
            // SAFETY: the list is below the item, which is taken away; its key is an integer.
            unsafe { ffi::lua_rawseti(self.state, -2, at as ffi::lua_Integer + 1) };
            self.pushed -= 1;
        }
    }

    /// Pushes a list of this many items, at most [`LONGEST_LIST`]; `item` pushes each. If that
    /// fails, nothing is pushed.
    pub(crate) fn push_list(
        &mut self,
        length: usize,
        unlimited: &Unlimited,
        mut item: impl FnMut(&mut Frame<'_>, &Unlimited) -> Option<()>,
    ) -> Option<()> {
        assert!(length <= LONGEST_LIST, "a list is too long for a frame of Lua");
        self.count();
        let before = self.pushed;
        // SAFETY: the place was counted, and memory is not limited.
        unsafe { ffi::lua_createtable(self.state, length as c_int, 0) };
        for at in 1..=length {
            let pushed = item(self, unlimited);
            if pushed.is_none() || self.pushed != before + 1 {
                let surplus = self.pushed - (before - 1);
                // SAFETY: the list and what was pushed after it are removed.
                unsafe { ffi::lua_settop(self.state, -(surplus as c_int) - 1) };
                self.pushed = before - 1;
                return None;
            }
            // SAFETY: the list is below the item, which is taken away; its key is an integer.
            unsafe { ffi::lua_rawseti(self.state, -2, at as ffi::lua_Integer) };
            self.pushed -= 1;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    thread_local! {
        static STATEMENTS: RefCell<Vec<bool>> = const { RefCell::new(Vec::new()) };
    }

    struct Recorded;

    impl Body for Recorded {
        const RESULTS: u32 = 1;

        fn call(frame: &mut Frame<'_>) -> Ended {
            STATEMENTS.with_borrow_mut(|calls| calls.push(frame.is_statement()));
            frame.push_number(7.0);
            Ended::Returned
        }

        fn has_panicked(_: Box<dyn Any + Send>) {}
    }

    #[test]
    fn a_call_knows_whether_its_result_is_dropped() -> mlua::Result<()> {
        let lua = Lua::new();
        let otherwise = lua.create_function(|_, ()| Ok(()))?;
        let texts = [lua.create_string("ok")?, lua.create_string("OK")?];
        let f = function::<Recorded>(&lua, otherwise, [&texts[0], &texts[1]])?;
        lua.globals().raw_set("f", f)?;
        let check = |code: &str, expected: &[bool]| -> mlua::Result<()> {
            lua.load(code).exec()?;
            assert_eq!(STATEMENTS.take(), expected, "{code}");
            Ok(())
        };
        check("f()", &[true])?;
        check("f(f())", &[false, true])?;
        check("local a = f() assert(a == 7) local b, c = f()", &[false, false])?;
        check("if f() then f() end return f()", &[false, true, false])?;
        check("pcall(f) assert(select('#', f()) == 1)", &[false, false])?;
        check("coroutine.wrap(function() f() coroutine.yield(f()) end)()", &[true, false])
    }
}
