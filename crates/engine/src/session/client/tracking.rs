//! How a client tracks keys.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

const ON: u8 = 1;
const BROADCAST: u8 = 2;
const OPT_IN: u8 = 4;
const OPT_OUT: u8 = 8;
const NO_LOOP: u8 = 16;
const BROKEN: u8 = 32;

/// The options of CLIENT TRACKING ON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrackingOptions {
    /// BCAST: by prefix, not by key.
    pub broadcast: bool,
    /// OPTIN: only reads after CLIENT CACHING YES are remembered.
    pub opt_in: bool,
    /// OPTOUT: all but those after CLIENT CACHING NO.
    pub opt_out: bool,
    /// NOLOOP: the client is not notified of its own changes.
    pub no_loop: bool,
    /// REDIRECT: another client is notified, 0 for none.
    pub redirect: u64,
}

/// The part of a client's tracking that others see: only its own thread changes it.
#[derive(Debug, Default)]
pub struct Tracking {
    bits: AtomicU8,
    redirect: AtomicU64,
}

impl Tracking {
    pub(crate) fn begin(&self, options: TrackingOptions) {
        let bit = |bit, yes| if yes { bit } else { 0 };
        self.redirect.store(options.redirect, Relaxed);
        let bits = ON
            | bit(BROADCAST, options.broadcast)
            | bit(OPT_IN, options.opt_in)
            | bit(OPT_OUT, options.opt_out)
            | bit(NO_LOOP, options.no_loop);
        self.bits.store(bits, Relaxed);
    }

    pub(crate) fn end(&self) {
        self.bits.store(0, Relaxed);
        self.redirect.store(0, Relaxed);
    }

    /// Returns the options; none of them while it is off.
    pub fn options(&self) -> TrackingOptions {
        let bits = self.bits.load(Relaxed);
        TrackingOptions {
            broadcast: bits & BROADCAST != 0,
            opt_in: bits & OPT_IN != 0,
            opt_out: bits & OPT_OUT != 0,
            no_loop: bits & NO_LOOP != 0,
            redirect: self.redirect.load(Relaxed),
        }
    }

    /// Returns true if the client tracks keys.
    pub fn is_on(&self) -> bool {
        self.bits.load(Relaxed) & ON != 0
    }

    /// Returns true if it is notified of keys that it read.
    #[inline]
    pub(crate) fn is_by_key(&self) -> bool {
        self.bits.load(Relaxed) & (ON | BROADCAST) == ON
    }

    /// Returns true if the keys of a read are remembered; `caching` says that CLIENT CACHING came
    /// before it.
    pub(crate) fn remembers(&self, caching: bool) -> bool {
        let TrackingOptions { opt_in, opt_out, .. } = self.options();
        if opt_in { caching } else { !(opt_out && caching) }
    }

    /// Returns the client that is notified instead, if tracking is on: 0 for none.
    pub fn redirect(&self) -> Option<u64> {
        self.is_on().then(|| self.redirect.load(Relaxed))
    }

    /// Records that the client to notify is gone.
    pub(crate) fn set_broken(&self) {
        self.bits.fetch_or(BROKEN, Relaxed);
    }

    /// Returns true if the client to notify was found to be gone.
    pub fn is_broken(&self) -> bool {
        self.bits.load(Relaxed) & BROKEN != 0
    }
}
