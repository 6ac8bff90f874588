//! Persistence domains: how far a store must travel to survive which failure, and how that is
//! detected.
//!
//! Only the kernel knows whether a mapping is persistent memory: it accepts `MAP_SYNC` for nothing
//! else. Only the platform knows whether the CPU caches are flushed at power loss: every nd region
//! must report that, since a mapping does not tell which region it is in.

use crate::options::DomainRequest;
use std::fmt;
use std::fs;
use std::path::Path;

/// What makes a store durable in a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Domain {
    /// Each line is written back, then a fence. Survives power loss (unless emulated).
    Clwb,
    /// A fence alone: caches are inside the persistence domain. Survives power loss (unless
    /// emulated).
    Eadr,
    /// Pages are remembered and written by `msync` at the fence. Survives power loss.
    Msync,
    /// Lines are appended to a journal at the fence. Survives power loss once the journal is synced
    /// up to the fence's position ([`crate::Region::sync_up_to`]); a power loss leaves a prefix of
    /// the order of fences.
    Journal,
    /// The kernel keeps the pages when the process dies. Survives that, and nothing more.
    Process,
    /// Anonymous memory. Survives nothing.
    Volatile,
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Domain::Clwb => "clwb",
            Domain::Eadr => "eadr",
            Domain::Msync => "msync",
            Domain::Journal => "journal",
            Domain::Process => "process",
            Domain::Volatile => "volatile",
        })
    }
}

/// Why a requested domain is not available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    NoMapSync,
    NoEadr,
}

/// Returns the domain for a request, given what was detected, and whether it is emulated.
pub(crate) fn choose(
    request: DomainRequest,
    emulate: bool,
    map_sync: bool,
    eadr: bool,
) -> Result<(Domain, bool), Refusal> {
    use DomainRequest::*;
    match (request, map_sync) {
        (Msync, _) => Ok((Domain::Msync, false)),
        (Journal, _) => Ok((Domain::Journal, false)),
        (Process, _) => Ok((Domain::Process, false)),
        (Auto, true) if eadr => Ok((Domain::Eadr, false)),
        (Auto | Clwb, true) => Ok((Domain::Clwb, false)),
        (Eadr, true) if eadr => Ok((Domain::Eadr, false)),
        (Eadr, true) if emulate => Ok((Domain::Eadr, true)),
        (Eadr, true) => Err(Refusal::NoEadr),
        (Auto | Clwb, false) if emulate => Ok((Domain::Clwb, true)),
        (Eadr, false) if emulate => Ok((Domain::Eadr, true)),
        (Auto | Clwb | Eadr, false) => Err(Refusal::NoMapSync),
    }
}

/// Returns true if every nd region flushes the CPU caches at power loss; false if there is no
/// region.
pub(crate) fn every_region_is_eadr(sysfs: &Path) -> bool {
    let Ok(devices) = fs::read_dir(sysfs.join("bus/nd/devices")) else { return false };
    let mut found = false;
    for device in devices.flatten() {
        if !device.file_name().to_string_lossy().starts_with("region") {
            continue;
        }
        match fs::read_to_string(device.path().join("persistence_domain")) {
            Ok(domain) if domain.trim() == "cpu_cache" => found = true,
            _ => return false,
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use DomainRequest as Want;

    #[test]
    fn a_request_gets_what_was_found_or_is_refused() {
        struct Found {
            map_sync: bool,
            eadr: bool,
            emulate: bool,
        }
        let check = |want, found: Found, expect| {
            assert_eq!(choose(want, found.emulate, found.map_sync, found.eadr), expect, "{want:?}");
        };
        let file = || Found { map_sync: false, eadr: false, emulate: false };
        let emulating = || Found { map_sync: false, eadr: false, emulate: true };
        let adr = || Found { map_sync: true, eadr: false, emulate: false };
        let eadr = || Found { map_sync: true, eadr: true, emulate: false };

        check(Want::Auto, file(), Err(Refusal::NoMapSync));
        check(Want::Clwb, file(), Err(Refusal::NoMapSync));
        check(Want::Eadr, file(), Err(Refusal::NoMapSync));
        check(Want::Msync, file(), Ok((Domain::Msync, false)));
        check(Want::Journal, file(), Ok((Domain::Journal, false)));
        check(Want::Journal, adr(), Ok((Domain::Journal, false)));
        check(Want::Process, file(), Ok((Domain::Process, false)));

        check(Want::Auto, emulating(), Ok((Domain::Clwb, true)));
        check(Want::Clwb, emulating(), Ok((Domain::Clwb, true)));
        check(Want::Eadr, emulating(), Ok((Domain::Eadr, true)));
        check(Want::Process, emulating(), Ok((Domain::Process, false)));

        check(Want::Auto, adr(), Ok((Domain::Clwb, false)));
        check(Want::Clwb, adr(), Ok((Domain::Clwb, false)));
        check(Want::Eadr, adr(), Err(Refusal::NoEadr));
        check(Want::Msync, adr(), Ok((Domain::Msync, false)));

        check(Want::Auto, eadr(), Ok((Domain::Eadr, false)));
        check(Want::Clwb, eadr(), Ok((Domain::Clwb, false)));
        check(Want::Eadr, eadr(), Ok((Domain::Eadr, false)));
    }

    #[test]
    fn eadr_needs_every_nd_region_to_say_cpu_cache() {
        let check = |regions: &[(&str, Option<&str>)], expect| {
            let sysfs = tempfile::tempdir().unwrap();
            for (name, domain) in regions {
                let device = sysfs.path().join("bus/nd/devices").join(name);
                fs::create_dir_all(&device).unwrap();
                if let Some(text) = domain {
                    fs::write(device.join("persistence_domain"), text).unwrap();
                }
            }
            assert_eq!(every_region_is_eadr(sysfs.path()), expect, "{regions:?}");
        };
        check(&[], false);
        check(&[("region0", Some("cpu_cache\n"))], true);
        check(&[("region0", Some("memory_controller\n"))], false);
        check(&[("region0", Some("cpu_cache\n")), ("region1", Some("cpu_cache\n"))], true);
        check(&[("region0", Some("cpu_cache\n")), ("region1", Some("memory_controller\n"))], false);
        check(&[("region0", Some("cpu_cache\n")), ("region1", None)], false);
        check(&[("namespace0.0", None), ("region0", Some("cpu_cache\n"))], true);
    }
}
