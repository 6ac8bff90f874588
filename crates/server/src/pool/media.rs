//! Emulation of a slower medium below the pool, if this build can do that.
//!
//! Only a build with the feature `emulate-media` can, since everybody else would pay for it too.
//! Any other build answers with how to make one.

use pmem::Region;

use crate::config::Values;
#[cfg(not(feature = "emulate-media"))]
use crate::config::choice::EmulatedMedium;

/// The medium that is emulated, for the log and INFO.
#[derive(Clone, Debug)]
pub(crate) struct EmulatedMedia {
    pub(crate) name: &'static str,
    /// A description of the emulation.
    pub(crate) summary: String,
}

/// Refuses to emulate a medium if this build cannot.
#[cfg(not(feature = "emulate-media"))]
pub(crate) fn check(values: &Values) -> Result<(), String> {
    if values.emulate_media == EmulatedMedium::No {
        return Ok(());
    }
    Err(
        "this build plays no media. One that does: cargo build --release -p perdura-server --features emulate-media".into(),
    )
}

/// Accepts any medium that can be emulated.
#[cfg(feature = "emulate-media")]
pub(crate) fn check(_values: &Values) -> Result<(), String> {
    Ok(())
}

/// Returns the region, as it is.
#[cfg(not(feature = "emulate-media"))]
pub(crate) fn emulate(
    region: Region,
    _values: &Values,
) -> Result<(Region, Option<EmulatedMedia>), String> {
    Ok((region, None))
}

/// Returns the region on the requested medium.
#[cfg(feature = "emulate-media")]
pub(crate) fn emulate(
    region: Region,
    values: &Values,
) -> Result<(Region, Option<EmulatedMedia>), String> {
    let Some(media) = pmem::Media::named(values.emulate_media.name().as_bytes()) else {
        return Ok((region, None));
    };
    if !region.emulated() && region.domain() != pmem::Domain::Process {
        return Err(
            "--emulate-media plays a medium on ordinary memory: it goes with --domain process or with --emulate-pmem, on a tmpfs".into(),
        );
    }
    let emulation = pmem::Emulation::new(media.model(), values.emulate_cache);
    let emulated = EmulatedMedia { name: emulation.name(), summary: emulation.summary() };
    Ok((region.emulating(emulation), Some(emulated)))
}
