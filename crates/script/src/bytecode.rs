//! Finds out what a script does with globals, from what Lua compiled it to.
//!
//! Lua 5.1 has no read-only tables: the globals that scripts see are an empty table, whose
//! metatable reads the content and refuses writes. A function without a single instruction that
//! writes globals may read the content itself, which takes a fifth of the time. A script that
//! cannot reach `KEYS` or `ARGV` is not made such a list, which takes as long as a short command.
//!
//! Only what Lua itself has dumped is read here, never what a script brings.

/// The first bytes of a dump of Lua 5.1 on a 64-bit machine: sizes of `int`, `size_t`, instructions
/// and numbers, which are floating-point ones.
const HEADER: &[u8] = &[0x1b, b'L', b'u', b'a', 0x51, 0, 1, 4, 8, 4, 8, 0];

/// The lowest bits of an instruction, and what they are in one that assigns to a global.
const OPCODE: u32 = 0x3f;
const SET_GLOBAL: u32 = 7;

/// The types of constants.
const NIL: u8 = 0;
const BOOLEAN: u8 = 1;
const NUMBER: u8 = 3;
const STRING: u8 = 4;

/// Globals by which a script can reach those that it does not name.
const REACHING: [&[u8]; 3] = [b"_G\0", b"load\0", b"loadstring\0"];

/// What the functions in a dump do with globals, at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Globals {
    /// None is assigned to.
    pub(crate) only_read: bool,
    /// `KEYS` may be read.
    pub(crate) keys: bool,
    /// `ARGV` may be read.
    pub(crate) argv: bool,
}

impl Globals {
    /// Reads a dump. What cannot be read may do anything.
    pub(crate) fn of(dump: &[u8]) -> Globals {
        let nothing = Globals { only_read: true, keys: false, argv: false };
        let mut reader = Reader { rest: dump.strip_prefix(HEADER).unwrap_or(b""), found: nothing };
        match reader.function() {
            Some(()) if reader.rest.is_empty() => reader.found,
            _ => Globals { only_read: false, keys: true, argv: true },
        }
    }
}

struct Reader<'a> {
    rest: &'a [u8],
    found: Globals,
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    /// Reads an `int`, which is a count.
    fn count(&mut self) -> Option<usize> {
        let bytes = self.take(4)?.try_into().ok()?;
        usize::try_from(i32::from_le_bytes(bytes)).ok()
    }

    /// Reads a string, with the zero byte at its end.
    fn string(&mut self) -> Option<&'a [u8]> {
        let length = u64::from_le_bytes(self.take(8)?.try_into().ok()?);
        self.take(usize::try_from(length).ok()?)
    }

    /// Reads a constant, which may be the name of a global.
    fn constant(&mut self) -> Option<()> {
        match self.take(1)?[0] {
            NIL => {}
            BOOLEAN => drop(self.take(1)?),
            NUMBER => drop(self.take(8)?),
            STRING => {
                let name = self.string()?;
                let reaches = REACHING.contains(&name);
                self.found.keys |= reaches || name == b"KEYS\0";
                self.found.argv |= reaches || name == b"ARGV\0";
            }
            _ => return None,
        }
        Some(())
    }

    /// Reads a function with those inside of it, which are nested no deeper than Lua's parser
    /// allows: 200.
    fn function(&mut self) -> Option<()> {
        self.string()?;
        // The lines where it begins and ends, and four bytes about its stack.
        self.take(4 + 4 + 4)?;
        let length = self.count()?.checked_mul(4)?;
        let (instructions, _) = self.take(length)?.as_chunks::<4>();
        // The count after a SETLIST may look like an instruction that it is not.
        let assigns = |word: &[u8; 4]| u32::from_le_bytes(*word) & OPCODE == SET_GLOBAL;
        self.found.only_read &= !instructions.iter().any(assigns);
        for _ in 0..self.count()? {
            self.constant()?;
        }
        for _ in 0..self.count()? {
            self.function()?;
        }
        let lines = self.count()?.checked_mul(4)?;
        self.take(lines)?;
        for _ in 0..self.count()? {
            self.string()?;
            self.take(4 + 4)?;
        }
        for _ in 0..self.count()? {
            self.string()?;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mlua::Lua;

    fn dump(source: &str, strips: bool) -> Vec<u8> {
        Lua::new().load(source).into_function().expect("a function").dump(strips)
    }

    #[test]
    fn assignments_to_globals_are_found_in_all_functions() {
        for (source, expected) in [
            ("", true),
            ("return KEYS[1] .. redis.call('get', 1.5, true, nil)", true),
            ("local x = 1 x = 2 local t = {} t.y = x function t.f() x = 3 end", true),
            ("for i = 1, 3 do local f = function() return i end KEYS[i] = f end", true),
            ("_G.x = 1 rawset(_G, 'x', 1)", true),
            ("x = 1", false),
            ("function f() end", false),
            ("if false then redis = nil end", false),
            ("return function() return function(a, ...) local b = a KEYS = {...} end end", false),
        ] {
            for strips in [false, true] {
                let found = Globals::of(&dump(source, strips));
                assert_eq!(found.only_read, expected, "{source}");
            }
        }
    }

    #[test]
    fn lists_that_a_script_can_reach_are_found() {
        for (source, expected) in [
            ("return redis.call('get', 'KEYS.ARGV')", [false, false]),
            ("return redis.call('get', KEYS[1])", [true, false]),
            ("local f = function() return function() return #ARGV end end", [false, true]),
            ("return {KEYS, ARGV}", [true, true]),
            ("return _G['KE' .. 'YS']", [true, true]),
            ("return loadstring('return ARG' .. 'V')()", [true, true]),
            ("local f = load return f(function() end)", [true, true]),
            ("local KEYS = {} return KEYS[1]", [false, false]),
            ("return 'KEYS'", [true, false]),
        ] {
            for strips in [false, true] {
                let found = Globals::of(&dump(source, strips));
                // With debug information there are the names of local variables, which are none.
                assert_eq!([found.keys, found.argv], expected, "{source}");
            }
        }
    }

    #[test]
    fn what_is_no_dump_may_do_anything() {
        let anything = Globals { only_read: false, keys: true, argv: true };
        let whole = dump("return function(a) return a, x, 'y' end", false);
        assert_eq!(Globals::of(&whole), Globals { only_read: true, keys: false, argv: false });
        for length in 0..whole.len() {
            assert_eq!(Globals::of(&whole[..length]), anything, "{length} bytes");
        }
        assert_eq!(Globals::of(&[&whole[..], b"\0"].concat()), anything);
    }
}
