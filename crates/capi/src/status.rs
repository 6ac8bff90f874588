//! The result of a call: a number for the program, and a text for its log.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use perdura::{CloseError, Error, OpenError};

/// The result of a call. Later versions may have more: treat an unknown one as a failure.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerduraStatus {
    /// It was done.
    Ok = 0,
    /// There is no such key, or no further one. Not a failure.
    NotFound = 1,
    /// A required pointer was null, or a number is not one of the allowed ones.
    InvalidArgument = 2,
    /// An error inside the library, which it caught. The store is intact, or takes no more writes
    /// and says so.
    Panic = 3,
    /// The limit of the store, or the file system, is reached: delete, or open it with a larger
    /// limit.
    Full = 4,
    /// The key holds a value of another type.
    WrongType = 5,
    /// The value is not an integer of 64 bits.
    NotAnInteger = 6,
    /// The result would not be an integer of 64 bits.
    Overflow = 7,
    /// A key or a value would be longer than 512 MiB.
    TooLong = 8,
    /// The medium lost bytes of this key: delete it, or set it again.
    Damaged = 9,
    /// The medium lost bytes while the call ran: try again.
    TryAgain = 10,
    /// Inside a transaction: another thread has locked the key. The function runs again after it
    /// has returned, whatever it returns.
    Conflict = 11,
    /// The store was called from inside its own transaction.
    Reentrant = 12,
    /// The function of a transaction refused it: nothing was changed.
    Refused = 13,
    /// A durable step failed: the store takes no more writes until it is opened again.
    ReadOnly = 14,
    /// The disk refused a write or a sync of the journal. Whether the writes of the first call that
    /// returns this are there when the store is opened again is unknown.
    JournalFailed = 15,
    /// The store cannot be opened: another process has it open.
    Locked = 16,
    /// The store cannot be opened: there is no such file, or no such folder.
    NoSuchFile = 17,
    /// The store cannot be opened: its file is something else.
    NotAPool = 18,
    /// The store cannot be opened: another version of Perdura made it.
    OtherVersion = 19,
    /// The store cannot be opened: it, or its journal, is damaged or missing.
    CannotRecover = 20,
    /// The operating system refused an operation.
    Io = 21,
    /// Any other failure; perdura_error_message says which.
    Other = 22,
}

/// A failure: its status, and a text for people.
#[derive(Debug)]
pub(crate) struct Failure {
    status: PerduraStatus,
    message: String,
}

impl Failure {
    pub(crate) fn new(status: PerduraStatus, message: impl Into<String>) -> Failure {
        Failure { status, message: message.into() }
    }

    pub(crate) fn invalid(message: &str) -> Failure {
        Failure::new(PerduraStatus::InvalidArgument, message)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let status = match error {
            Error::Full => PerduraStatus::Full,
            Error::WrongType => PerduraStatus::WrongType,
            Error::NotAnInteger => PerduraStatus::NotAnInteger,
            Error::Overflow => PerduraStatus::Overflow,
            Error::TooLong | Error::KeyTooLong => PerduraStatus::TooLong,
            Error::Damaged(_) => PerduraStatus::Damaged,
            Error::UnresolvedLosses => PerduraStatus::TryAgain,
            Error::Conflict => PerduraStatus::Conflict,
            Error::Reentrant => PerduraStatus::Reentrant,
            Error::ReadOnly => PerduraStatus::ReadOnly,
            Error::JournalFailed => PerduraStatus::JournalFailed,
            _ => PerduraStatus::Other,
        };
        Failure::new(status, error.to_string())
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Failure {
        let status = match error {
            OpenError::Locked { .. } => PerduraStatus::Locked,
            OpenError::NotFound(_) => PerduraStatus::NoSuchFile,
            OpenError::NoSpace(_) => PerduraStatus::Full,
            OpenError::LimitTooSmall(_) => PerduraStatus::InvalidArgument,
            OpenError::NotAPool(_) => PerduraStatus::NotAPool,
            OpenError::OtherVersion(_) => PerduraStatus::OtherVersion,
            OpenError::Damaged(_) | OpenError::Journal(_) | OpenError::OtherBoot(_) => {
                PerduraStatus::CannotRecover
            }
            OpenError::Io(_) => PerduraStatus::Io,
            _ => PerduraStatus::Other,
        };
        Failure::new(status, error.to_string())
    }
}

impl From<CloseError> for Failure {
    fn from(error: CloseError) -> Failure {
        Failure::new(PerduraStatus::Io, error.to_string())
    }
}

thread_local! {
    static MESSAGE: RefCell<CString> = RefCell::default();
}

/// Keeps the text of a failure for the thread.
fn remember(failure: Failure) -> PerduraStatus {
    let Failure { status, mut message } = failure;
    message.retain(|c| c != '\0');
    let message = CString::new(message).unwrap_or_default();
    // A thread that is ending keeps none.
    let _ = MESSAGE.try_with(|kept| kept.replace(message));
    status
}

/// Returns the text of the last failure on this thread, in UTF-8 with a zero byte at its end; empty
/// if there was none. It is valid until the next failure on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn perdura_error_message() -> *const c_char {
    MESSAGE.try_with(|kept| kept.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

fn panicked(panic: &(dyn Any + Send)) -> Failure {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let message = format!("an error inside of the library: {}", text.unwrap_or("unknown"));
    Failure::new(PerduraStatus::Panic, message)
}

/// Runs a call of C: no panic leaves it.
pub(crate) fn guarded(call: impl FnOnce() -> Result<PerduraStatus, Failure>) -> PerduraStatus {
    // A panic may leave work of the store half done: the store undoes it, or takes no more writes.
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(status)) => status,
        Ok(Err(failure)) => remember(failure),
        Err(panic) => remember(panicked(&*panic)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    fn message() -> String {
        // SAFETY: a string of this thread, on which no call fails meanwhile.
        let message = unsafe { CStr::from_ptr(perdura_error_message()) };
        message.to_str().expect("UTF-8").to_owned()
    }

    #[test]
    fn a_panic_becomes_a_status_with_its_text() {
        assert_eq!(message(), "");
        let text = "at least once".to_owned();
        assert_eq!(guarded(|| panic!("{text}")), PerduraStatus::Panic);
        assert_eq!(message(), "an error inside of the library: at least once");
        assert_eq!(guarded(|| Ok(PerduraStatus::Ok)), PerduraStatus::Ok);
        let refused = || Err(Failure::invalid("a\0b"));
        assert_eq!(guarded(refused), PerduraStatus::InvalidArgument);
        assert_eq!(message(), "ab");
        let other = std::thread::spawn(message).join().expect("no panic");
        assert_eq!(other, "", "each thread has its own");
    }

    #[test]
    fn failures_of_the_library_have_a_status_and_its_text() {
        assert_eq!(guarded(|| Err(Error::Damaged(64).into())), PerduraStatus::Damaged);
        assert_eq!(message(), Error::Damaged(64).to_string());
        assert_eq!(guarded(|| Err(Error::NotHyperLogLog.into())), PerduraStatus::Other);
    }
}
