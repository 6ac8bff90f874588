//! Finds out whether a script assigns to globals, which it may not, from what Lua compiled it to.
//!
//! Lua 5.1 has no read-only tables: the globals that scripts see are an empty table, whose
//! metatable reads the content and refuses writes. A function without a single instruction that
//! writes globals may read the content itself, which takes a fifth of the time.
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

/// Returns true if no function in a dump assigns to a global. What cannot be read may do so.
pub(crate) fn only_reads_globals(dump: &[u8]) -> bool {
    let Some(functions) = dump.strip_prefix(HEADER) else { return false };
    let mut reader = Reader { rest: functions };
    reader.function() == Some(true) && reader.rest.is_empty()
}

struct Reader<'a> {
    rest: &'a [u8],
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

    fn skip_string(&mut self) -> Option<()> {
        let length = u64::from_le_bytes(self.take(8)?.try_into().ok()?);
        self.take(usize::try_from(length).ok()?).map(drop)
    }

    fn skip_constant(&mut self) -> Option<()> {
        match self.take(1)?[0] {
            NIL => Some(()),
            BOOLEAN => self.take(1).map(drop),
            NUMBER => self.take(8).map(drop),
            STRING => self.skip_string(),
            _ => None,
        }
    }

    /// Reads a function with those inside of it, which are nested no deeper than Lua's parser
    /// allows: 200. Returns true if none assigns to a global.
    fn function(&mut self) -> Option<bool> {
        self.skip_string()?;
        // The lines where it begins and ends, and four bytes about its stack.
        self.take(4 + 4 + 4)?;
        let length = self.count()?.checked_mul(4)?;
        let (instructions, _) = self.take(length)?.as_chunks::<4>();
        // The count after a SETLIST may look like an instruction that it is not.
        let assigns = |word: &[u8; 4]| u32::from_le_bytes(*word) & OPCODE == SET_GLOBAL;
        let mut only_reads = !instructions.iter().any(assigns);
        for _ in 0..self.count()? {
            self.skip_constant()?;
        }
        for _ in 0..self.count()? {
            only_reads &= self.function()?;
        }
        let lines = self.count()?.checked_mul(4)?;
        self.take(lines)?;
        for _ in 0..self.count()? {
            self.skip_string()?;
            self.take(4 + 4)?;
        }
        for _ in 0..self.count()? {
            self.skip_string()?;
        }
        Some(only_reads)
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
                assert_eq!(only_reads_globals(&dump(source, strips)), expected, "{source}");
            }
        }
    }

    #[test]
    fn what_is_no_dump_may_assign() {
        let whole = dump("return function(a) return a, x, 'y' end", false);
        assert!(only_reads_globals(&whole));
        for length in 0..whole.len() {
            assert!(!only_reads_globals(&whole[..length]), "{length} bytes");
        }
        assert!(!only_reads_globals(&[&whole[..], b"\0"].concat()));
    }
}
