//! The format of a command in the files: a RESP array of bulk strings; and of what may be between
//! commands.

use std::time::SystemTime;

/// Precedes commands that take effect together or not at all.
pub const MULTI: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
/// Follows them.
pub const EXEC: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";

/// Appends one command.
pub fn encode(out: &mut Vec<u8>, args: &[&[u8]]) {
    let mut digits = itoa::Buffer::new();
    out.push(b'*');
    out.extend_from_slice(digits.format(args.len()).as_bytes());
    out.extend_from_slice(b"\r\n");
    for arg in args {
        out.push(b'$');
        out.extend_from_slice(digits.format(arg.len()).as_bytes());
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
}

/// Appends SELECT of a database.
pub fn encode_select(out: &mut Vec<u8>, db: u32) {
    encode(out, &[b"SELECT", itoa::Buffer::new().format(db).as_bytes()]);
}

/// Appends a line with the time of the commands after it, in unix seconds
/// (`aof-timestamp-enabled`).
pub(crate) fn encode_timestamp(out: &mut Vec<u8>, seconds: u64) {
    out.extend_from_slice(b"#TS:");
    out.extend_from_slice(itoa::Buffer::new().format(seconds).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Returns the time of day, in unix seconds.
pub(crate) fn unix_seconds() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |elapsed| elapsed.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_arrays_of_bulk_strings() {
        let mut out = Vec::new();
        encode_select(&mut out, 3);
        encode(&mut out, &[b"SET", b"", b"\r\n"]);
        let expected =
            "*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n*3\r\n$3\r\nSET\r\n$0\r\n\r\n$2\r\n\r\n\r\n";
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }
}
