//! The journal of a pool on an ordinary disk (`pmem::Domain::Journal`): the header names it as long
//! as the file alone may lack writes.
//!
//! The file itself gets the header that names a journal before the first fence goes to the journal,
//! and the header that names none after everything has been applied. So a pool whose header names
//! no journal is whole, and opens in every domain.

use crate::error::OpenError;
use crate::layout::header::{self, Header};
use crate::layout::{HEADER_A, HEADER_B, JOURNAL_PROGRESS};
use pmem::{Domain, JournalError, JournalId, JournalReading, JournalRecovery, Region};

/// Stores the content of the pool's journal into the working memory, if the header names one. For a
/// private copy the journal is only read, and its content goes into the copy. Returns the header as
/// it is then.
pub(super) fn recover(
    region: &Region,
    header: Header,
) -> Result<(Header, Option<JournalRecovery>), OpenError> {
    let journal = header.journal;
    let id = JournalId { pool: header.uuid, journal };
    if region.domain() == Domain::Journal {
        keep_headers(region);
    }
    if journal == 0 {
        if region.is_private() {
            region.refuse_unnamed_journal(id)?;
        }
        return Ok((header, None));
    }
    let recovery = if region.domain() == Domain::Journal {
        region.recover_journal(id, JOURNAL_PROGRESS)?
    } else if region.is_private() {
        let JournalReading { recovery, problem } = region.read_journal(id, JOURNAL_PROGRESS)?;
        problem.map_or(Ok(recovery), Err)?
    } else {
        return Err(OpenError::NeedsJournal { journal });
    };
    let recovered = Header::read(region)?;
    if (recovered.uuid, recovered.journal) != (header.uuid, journal) {
        let (expected, found) = (journal, recovered.journal);
        return Err(JournalError::OtherIncarnation { expected, found }.into());
    }
    Ok((recovered, Some(recovery)))
}

/// Writes both headers to the file again, unchanged. A sync of an earlier process may have failed:
/// then the file has another header than the page cache, and may name another journal or none.
fn keep_headers(region: &Region) {
    for copy in [HEADER_A, HEADER_B] {
        region.flush(copy, header::BYTES);
    }
    region.fence();
}

/// Begins a journal if the region has one that the header does not name; returns true if so. The
/// caller writes the header, which now names it, to the file, and then starts the journal.
pub(super) fn begin(region: &Region, header: &mut Header) -> Result<bool, JournalError> {
    if region.domain() != Domain::Journal || header.journal != 0 {
        return Ok(false);
    }
    // Neither another header of this pool nor that of a copy has had this number.
    let journal = region.new_journal_number(header.generation + 1)?;
    region.begin_journal(JournalId { pool: header.uuid, journal }, JOURNAL_PROGRESS)?;
    header.journal = journal;
    Ok(true)
}

/// Ends the use of the journal: the file has everything. The caller writes the header, which no
/// longer names one.
pub(super) fn end(region: &Region, header: &mut Header) -> Result<(), JournalError> {
    if header.journal != 0 {
        region.end_journal()?;
        header.journal = 0;
    }
    Ok(())
}
