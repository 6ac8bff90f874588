//! Bitmaps behave as Redis's.

use crate::support::{Client, engine};

#[track_caller]
fn check(lines: &[(&str, &str)]) {
    let mut client = Client::new(&engine());
    for (line, expected) in lines {
        client.check(line, expected);
    }
}

#[test]
fn a_bit_is_set_where_there_was_nothing() {
    check(&[
        ("SETBIT k 9 1", "(integer) 0"),
        ("GET k", "\"\\x00@\""),
        ("SETBIT k 9 1", "(integer) 1"),
        ("GETBIT k 9", "(integer) 1"),
        ("GETBIT k 10", "(integer) 0"),
        ("GETBIT k 4294967295", "(integer) 0"),
        ("SETBIT k 0 0", "(integer) 0"),
        ("STRLEN k", "(integer) 2"),
        ("SETBIT k 23 0", "(integer) 0"),
        ("STRLEN k", "(integer) 3"),
        ("SETBIT k -1 0", "(error) ERR bit offset is not an integer or out of range"),
        ("SETBIT k 4294967296 0", "(error) ERR bit offset is not an integer or out of range"),
        ("SETBIT k 1 2", "(error) ERR bit is not an integer or out of range"),
    ]);
}

#[test]
fn bits_are_counted_and_found_by_byte_and_by_bit() {
    check(&[
        ("SET k foobar", "OK"),
        ("BITCOUNT k", "(integer) 26"),
        ("BITCOUNT k 1 1", "(integer) 6"),
        ("BITCOUNT k 5 30 BIT", "(integer) 17"),
        ("BITCOUNT k -6 -2 BIT", "(integer) 3"),
        ("BITCOUNT k 3", "(error) ERR syntax error"),
        ("BITCOUNT nothing 3", "(integer) 0"),
        ("BITPOS k 1", "(integer) 1"),
        ("BITPOS k 0 2", "(integer) 16"),
        ("BITPOS k 1 40 -1 BIT", "(integer) 41"),
        ("BITPOS k 2", "(error) ERR The bit argument must be 1 or 0."),
        ("BITPOS nothing 0", "(integer) 0"),
        ("BITPOS nothing 1", "(integer) -1"),
        ("BITOP NOT ones zero", "(integer) 0"),
        ("SETBIT zero 7 0", "(integer) 0"),
        ("BITOP NOT ones zero", "(integer) 1"),
        ("BITPOS ones 0", "(integer) 8"),
        ("BITPOS ones 0 0", "(integer) 8"),
        ("BITPOS ones 0 0 -1", "(integer) -1"),
    ]);
}

#[test]
fn fields_wrap_saturate_and_fail() {
    check(&[
        ("BITFIELD k SET u8 #0 255 GET i8 0", "[(integer) 0, (integer) -1]"),
        ("BITFIELD k INCRBY u8 0 1", "[(integer) 0]"),
        (
            "BITFIELD k OVERFLOW SAT INCRBY u8 0 300 INCRBY u8 0 -3",
            "[(integer) 255, (integer) 252]",
        ),
        ("BITFIELD k OVERFLOW FAIL INCRBY u8 0 300 GET u8 0", "[(nil), (integer) 252]"),
        (
            "BITFIELD k GET u64 0",
            "(error) ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
        ),
        ("BITFIELD_RO k SET u8 0 1", "(error) ERR BITFIELD_RO only supports the GET subcommand"),
        ("BITFIELD nothing GET u8 100", "[(integer) 0]"),
        ("EXISTS nothing", "(integer) 0"),
        ("BITFIELD k OVERFLOW no", "(error) ERR Invalid OVERFLOW type specified"),
    ]);
}
