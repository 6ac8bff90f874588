//! Finds out how a script uses globals, from Lua's compiled code.
//!
//! Lua 5.1 has no read-only tables: the globals that scripts see are an empty table, whose
//! metatable reads the content and refuses writes. A function without a single instruction that
//! writes globals may read the content itself, which takes a fifth of the time. A script that
//! cannot reach `KEYS` or `ARGV` gets no such list, and one that only reads its items or its length
//! needs no list of its own: making one takes as long as a short command.
//!
//! Only Lua's own dumps are read here, never a script's bytes.

/// The first bytes of a dump of Lua 5.1 on a 64-bit machine: sizes of `int`, `size_t`, instructions
/// and numbers, which are floating-point ones.
const HEADER: &[u8] = &[0x1b, b'L', b'u', b'a', 0x51, 0, 1, 4, 8, 4, 8, 0];

/// The opcode's bits of an instruction, and the opcodes that read a global, read a field of a
/// table, assign to a global, and take a length.
const OPCODE: u32 = 0x3f;
const GET_GLOBAL: u32 = 5;
const GET_TABLE: u32 = 6;
const SET_GLOBAL: u32 = 7;
const LENGTH: u32 = 20;

/// The types of constants.
const NIL: u8 = 0;
const BOOLEAN: u8 = 1;
const NUMBER: u8 = 3;
const STRING: u8 = 4;

/// Globals through which a script can reach globals that it does not name.
const REACHING: [&[u8]; 3] = [b"_G\0", b"load\0", b"loadstring\0"];

/// The most that a script does with a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ListUse {
    /// Nothing: the script cannot reach it.
    Nothing,
    /// It reads items and the length. The list is not passed to anything else.
    Reads,
    /// Anything: it may change or keep it.
    Anything,
}

/// The most that the functions in a dump do with globals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Globals {
    /// Whether none is assigned to.
    pub(crate) only_read: bool,
    pub(crate) keys: ListUse,
    pub(crate) argv: ListUse,
}

impl Globals {
    /// Reads a dump. One that cannot be read may do anything.
    pub(crate) fn of(dump: &[u8]) -> Globals {
        let nothing = Globals { only_read: true, keys: ListUse::Nothing, argv: ListUse::Nothing };
        let mut reader = Reader { rest: dump.strip_prefix(HEADER).unwrap_or(b""), found: nothing };
        match reader.function() {
            Some(()) if reader.rest.is_empty() && reader.found.only_read => reader.found,
            Some(()) if reader.rest.is_empty() => reader.found.without_shared_lists(),
            _ => Globals { only_read: false, keys: ListUse::Anything, argv: ListUse::Anything },
        }
    }

    /// Assumes that lists which are read may be changed, for a script that may assign to their
    /// names.
    fn without_shared_lists(mut self) -> Globals {
        for list in [&mut self.keys, &mut self.argv] {
            if *list == ListUse::Reads {
                *list = ListUse::Anything;
            }
        }
        self
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

    /// Reads a constant, number `at` of a function with these instructions, which may be the name
    /// of a global.
    fn constant(&mut self, at: usize, instructions: &[[u8; 4]]) -> Option<()> {
        match self.take(1)?[0] {
            NIL => {}
            BOOLEAN => drop(self.take(1)?),
            NUMBER => drop(self.take(8)?),
            STRING => match self.string()? {
                b"KEYS\0" => self.found.keys = self.found.keys.max(use_of(at, instructions)),
                b"ARGV\0" => self.found.argv = self.found.argv.max(use_of(at, instructions)),
                name if REACHING.contains(&name) => {
                    (self.found.keys, self.found.argv) = (ListUse::Anything, ListUse::Anything);
                }
                _ => {}
            },
            _ => return None,
        }
        Some(())
    }

    /// Reads a function with its inner functions, which are nested no deeper than Lua's parser
    /// allows: 200.
    fn function(&mut self) -> Option<()> {
        self.string()?;
        // The lines of its begin and end, and four bytes about its stack.
        self.take(4 + 4 + 4)?;
        let length = self.count()?.checked_mul(4)?;
        let (instructions, _) = self.take(length)?.as_chunks::<4>();
        // The count after a SETLIST may look like such an instruction.
        let assigns = |word: &[u8; 4]| u32::from_le_bytes(*word) & OPCODE == SET_GLOBAL;
        self.found.only_read &= !instructions.iter().any(assigns);
        for at in 0..self.count()? {
            self.constant(at, instructions)?;
        }
        let nested = self.count()?;
        if nested > 0 {
            // Its registers may be variables of its inner functions, which see a list that is read
            // into them if an error happens between the two instructions.
            self.found = self.found.without_shared_lists();
        }
        for _ in 0..nested {
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

/// Returns what a function does with the list whose name is this constant. If the instruction that
/// reads the global is followed by one that reads an item or the length, and puts the result into
/// the register of the list, then the list is nowhere else: a jump between the two could only leave
/// it there unread.
fn use_of(name: usize, instructions: &[[u8; 4]]) -> ListUse {
    let mut following = instructions.iter().map(|word| u32::from_le_bytes(*word)).peekable();
    while let Some(word) = following.next() {
        if word & OPCODE != GET_GLOBAL || (word >> 14) as usize != name {
            continue;
        }
        let (next, register) = (following.peek().copied().unwrap_or_default(), word >> 6 & 0xff);
        let reads = matches!(next & OPCODE, GET_TABLE | LENGTH);
        if !reads || next >> 6 & 0xff != register || next >> 23 != register {
            return ListUse::Anything;
        }
    }
    ListUse::Reads
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
        use ListUse::{Anything, Nothing, Reads};
        for (source, expected) in [
            ("return redis.call('get', 'KEYS.ARGV')", [Nothing, Nothing]),
            ("return redis.call('get', KEYS[1])", [Reads, Nothing]),
            ("local f = function() return function() return #ARGV end end", [Nothing, Reads]),
            ("for i = 1, #KEYS do redis.call('set', KEYS[i], ARGV[i]) end", [Reads, Reads]),
            ("local n = #ARGV return ARGV[n] .. ARGV[#ARGV]", [Nothing, Anything]),
            ("return {KEYS, ARGV}", [Anything, Anything]),
            ("local k = KEYS return k[1]", [Anything, Nothing]),
            ("return (KEYS or ARGV)[1]", [Anything, Reads]),
            ("return (KEYS)[1]", [Reads, Nothing]),
            ("return (#ARGV > 1 and KEYS or ARGV)[1]", [Anything, Reads]),
            ("KEYS[1] = ARGV[1]", [Anything, Reads]),
            // `f` sees the register of `k`.
            ("local k local f = function() return k end k = KEYS k = k[1]", [Anything, Nothing]),
            ("local k local f = function() return k end k = ARGV k = #k", [Nothing, Anything]),
            ("KEYS[1] = 1 return KEYS[1]", [Anything, Nothing]),
            ("return KEYS[1], unpack(ARGV)", [Reads, Anything]),
            ("return KEYS:f()", [Anything, Nothing]),
            ("return KEYS[KEYS]", [Anything, Nothing]),
            ("for _, k in ipairs(KEYS) do x = k end", [Anything, Nothing]),
            ("x = ARGV[1]", [Nothing, Anything]),
            ("KEYS = {} return KEYS[1]", [Anything, Nothing]),
            ("return function() return KEYS[1] end, KEYS", [Anything, Nothing]),
            ("return function() return KEYS end, KEYS[1]", [Anything, Nothing]),
            ("return _G['KE' .. 'YS']", [Anything, Anything]),
            ("return loadstring('return ARG' .. 'V')()", [Anything, Anything]),
            ("local f = load return f(function() end)", [Anything, Anything]),
            ("local KEYS = {} return KEYS[1]", [Nothing, Nothing]),
            // A string that is not a name reaches nothing.
            ("return 'KEYS'", [Reads, Nothing]),
        ] {
            for strips in [false, true] {
                let found = Globals::of(&dump(source, strips));
                // Debug information contains names of local variables, which are not globals.
                assert_eq!([found.keys, found.argv], expected, "{source}");
            }
        }
    }

    #[test]
    fn what_is_no_dump_may_do_anything() {
        let [keys, argv] = [ListUse::Anything; 2];
        let anything = Globals { only_read: false, keys, argv };
        let whole = dump("return function(a) return a, x, 'y' end", false);
        let [keys, argv] = [ListUse::Nothing; 2];
        assert_eq!(Globals::of(&whole), Globals { only_read: true, keys, argv });
        for length in 0..whole.len() {
            assert_eq!(Globals::of(&whole[..length]), anything, "{length} bytes");
        }
        assert_eq!(Globals::of(&[&whole[..], b"\0"].concat()), anything);
    }
}
