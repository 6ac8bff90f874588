//! `SIGBUS` inside a watched region: the access continues on a private page.
//!
//! The kernel raises it when the medium cannot return a line (`BUS_MCEERR_AR` when the CPU
//! encountered it, `BUS_ADRERR` when the kernel knew before) or when the file ends before its
//! mapping. `SIGSEGV` comes from a store into a page whose bytes are being copied; the store waits.
//! Any other signal goes to the previous handler.
//!
//! Handlers only call what is safe in a handler: `media` describes that of its table. If nothing
//! can be done, the process ends as it would have without the handler, with a line that tells
//! where.

use crate::media::{Quarantined, TABLE, Watched};
use std::mem::MaybeUninit;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, Ordering};

type Action = libc::sigaction;

static BEFORE_BUS: AtomicPtr<Action> = AtomicPtr::new(std::ptr::null_mut());
static BEFORE_SEGV: AtomicPtr<Action> = AtomicPtr::new(std::ptr::null_mut());

/// Makes a write beyond the file size limit (`ulimit -f`) return an error instead of ending the
/// process. For programs: a library leaves that to its program.
pub fn ignore_file_size_signal() {
    // SAFETY: ignoring is a valid action for this signal, and needs no handler.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Installs the handlers, once per process.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        put(libc::SIGBUS, &BEFORE_BUS);
        put(libc::SIGSEGV, &BEFORE_SEGV);
    });
}

fn put(signal: i32, before: &AtomicPtr<Action>) {
    let mut old = MaybeUninit::<Action>::zeroed();
    // SAFETY: asks for the present action, into space for it.
    if unsafe { libc::sigaction(signal, std::ptr::null(), old.as_mut_ptr()) } != 0 {
        return;
    }
    // SAFETY: filled by the call, and all zeros are a valid action too.
    let old = unsafe { old.assume_init() };
    // Kept for the life of the process: a handler may run at any time.
    before.store(Box::into_raw(Box::new(old)), Ordering::Release);
    // SAFETY: all zeros are a valid action: the default one, with nothing blocked.
    let mut action: Action = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: the handler has the form that the flags name, and lives forever.
    unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
}

extern "C" fn handler(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the place of this thread's `errno`, which the interrupted code may be about to read.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let saved = unsafe { *errno };
    // SAFETY: the kernel gives a valid structure.
    let info_given = unsafe { &*info };
    // SAFETY: these signals carry an address.
    let address = unsafe { info_given.si_addr() } as usize;
    let found = TABLE.iter().find_map(|slot| Some((slot, slot.offset(address)?)));
    let helped = found.is_some_and(|(slot, at)| help(signal, slot, at));
    // SAFETY: as above.
    unsafe { *errno = saved };
    if !helped {
        if let Some((_, at)) = found {
            say(signal, at);
        }
        call_previous_handler(signal, info, context);
    }
}

fn help(signal: i32, slot: &Watched, at: u64) -> bool {
    match signal {
        libc::SIGBUS => slot.quarantine(at) == Quarantined::Again,
        _ => slot.was_held(at),
    }
}

/// Writes a line to standard error without anything that allocates.
fn say(signal: i32, at: u64) {
    let text: &[u8] = match signal {
        libc::SIGBUS => b"perdura: a media error that cannot be quarantined, at pool offset 0x",
        _ => b"perdura: an access that the pool's mapping refuses, at offset 0x",
    };
    let mut hex = [b'0'; 17];
    for (i, digit) in hex[..16].iter_mut().enumerate() {
        *digit = b"0123456789abcdef"[(at >> (60 - 4 * i)) as usize & 15];
    }
    hex[16] = b'\n';
    // SAFETY: bytes of this function's own.
    unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
    // SAFETY: as above.
    unsafe { libc::write(2, hex.as_ptr().cast(), hex.len()) };
}

/// Passes a signal that is not ours on to the previous handler; for the default action, raises it
/// again on return.
fn call_previous_handler(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let before = if signal == libc::SIGBUS { &BEFORE_BUS } else { &BEFORE_SEGV };
    let before = before.load(Ordering::Acquire);
    if before.is_null() {
        return default(signal);
    }
    // SAFETY: made by `install` and never freed.
    let before = unsafe { &*before };
    match before.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => default(signal),
        place if before.sa_flags & libc::SA_SIGINFO != 0 => {
            type Full = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);
            // SAFETY: the flag says that a function of this form was installed there.
            let call = unsafe { std::mem::transmute::<usize, Full>(place) };
            call(signal, info, context);
        }
        place => {
            // SAFETY: without the flag it is a function of this form.
            let call = unsafe { std::mem::transmute::<usize, extern "C" fn(i32)>(place) };
            call(signal);
        }
    }
}

/// The access is retried on return, and ends the process.
fn default(signal: i32) {
    // SAFETY: the default action is always valid.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}
