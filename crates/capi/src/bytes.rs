//! Bytes over the boundary: borrowed from C as pointer and length, given to C with their memory.

use std::mem::MaybeUninit;

use crate::status::{Failure, PerduraStatus};

/// Bytes that belong to the caller, until perdura_bytes_free releases them.
#[repr(C)]
#[derive(Debug)]
pub struct PerduraBytes {
    /// The first byte; null if there is no value. An empty value has an address.
    pub data: *mut u8,
    /// How many there are.
    pub len: usize,
}

impl PerduraBytes {
    const NONE: PerduraBytes = PerduraBytes { data: std::ptr::null_mut(), len: 0 };

    fn new(bytes: Vec<u8>) -> PerduraBytes {
        let bytes = Box::leak(bytes.into_boxed_slice());
        PerduraBytes { data: bytes.as_mut_ptr(), len: bytes.len() }
    }
}

/// Releases bytes that this library returned, and sets `data` to null: another call does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn perdura_bytes_free(bytes: Option<&mut PerduraBytes>) {
    let Some(bytes) = bytes.filter(|bytes| !bytes.data.is_null()) else { return };
    let slice = std::ptr::slice_from_raw_parts_mut(bytes.data, bytes.len);
    *bytes = PerduraBytes::NONE;
    // SAFETY: `PerduraBytes::new` made them of a box, which C promises to give back once.
    drop(unsafe { Box::from_raw(slice) });
}

/// Returns the bytes that C names by a pointer and a length.
///
/// # Safety
/// The pointer refers to that many readable bytes, which nobody changes while the result is used,
/// or is null where the length is 0.
pub(crate) unsafe fn bytes<'a>(data: *const u8, len: usize) -> Result<&'a [u8], Failure> {
    if data.is_null() {
        return if len == 0 {
            Ok(&[])
        } else {
            Err(Failure::invalid("a null pointer with a length"))
        };
    }
    if isize::try_from(len).is_err() {
        return Err(Failure::invalid("a length that no memory has"));
    }
    // SAFETY: the caller's promise; the length is one that a slice may have.
    Ok(unsafe { std::slice::from_raw_parts(data, len) })
}

/// Returns the bytes of an argument of C.
macro_rules! bytes {
    ($data:expr, $len:expr) => {
        // SAFETY: every function requires this of C; they are used during the call only.
        unsafe { $crate::bytes::bytes($data, $len) }?
    };
}

/// Gives bytes to C, or returns that there are none. In any case, C's variable is initialised.
pub(crate) fn answer(
    out: Option<&mut MaybeUninit<PerduraBytes>>,
    read: impl FnOnce() -> Result<Option<Vec<u8>>, Failure>,
) -> Result<PerduraStatus, Failure> {
    let out = needed(out)?.write(PerduraBytes::NONE);
    Ok(match read()? {
        Some(bytes) => {
            *out = PerduraBytes::new(bytes);
            PerduraStatus::Ok
        }
        None => PerduraStatus::NotFound,
    })
}

/// Returns an argument that must not be null.
pub(crate) fn needed<T>(argument: Option<T>) -> Result<T, Failure> {
    argument.ok_or_else(|| Failure::invalid("a null pointer"))
}
