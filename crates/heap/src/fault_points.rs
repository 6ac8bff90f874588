//! Names for every flush, fence, log entry, checksum and rule of the commit protocol.
//!
//! A build for simulation can disable one of them at a time, at run time, to show that a crash test
//! catches it. In any other build these functions are a plain flush and fence, and a record
//! contains every entry.

use pmem::Region;

pmem::fault_points! { 48:
    /// New bytes are flushed before the record's fence.
    FlushFresh,
    /// ... as are those after the published length of a block,
    FlushAppended,
    /// ... and the header and bitmap of a new span.
    FlushSpanHeader,
    /// Large new bytes get a fence of their own before their record.
    FenceDetached,
    /// The record is flushed.
    FlushRecord,
    /// The one fence of a commit.
    FenceCommit,
    /// The one fence of a commit on several shards.
    FenceCommitAll,
    /// Words are stored in place only after the fence,
    StoreAfterFence,
    /// ... those of several shards too.
    StoreAllAfterFence,
    /// A record changes words of blocks.
    LogWord,
    /// A record changes roots.
    LogRoot,
    /// A record publishes blocks in the bitmap.
    LogPublished,
    /// A record frees blocks in the bitmap.
    LogFreed,
    /// A record takes and releases spans in the span table.
    LogSpan,
    /// A record changes the counter of allocated bytes with what it counts.
    LogUsed,
    /// A record lists the new blocks that it publishes,
    ListFresh,
    /// ... bytes appended to published blocks,
    ListAppended,
    /// ... fresh ranges that had a fence of their own,
    ListDetached,
    /// ... and a new span's header and bitmap.
    ListSpanHeader,
    /// Bytes appended to a block that the same transaction frees are not listed.
    DropFreedAppends,
    /// A record never targets its own fresh ranges.
    PatchReserved,
    /// The records of a transaction on several shards are linked.
    LinkRecords,
    /// Retiring flushes every word that its records changed.
    FlushRetired,
    /// ... and the tail moves only after a fence.
    FenceRetired,
    /// The new tail is flushed,
    FlushTail,
    /// ... and fenced before the space that it left is overwritten.
    FenceTail,
    /// The records of a part are retired before the part is written again.
    RetireAhead,
    /// Recovery accepts the newest record only if its fresh ranges match.
    VerifyFresh,
    /// Recovery checks a record's checksum.
    VerifyRecord,
    /// Recovery checks the checksums of a long record's body.
    VerifyLong,
    /// Recovery checks a record's sequence number.
    CheckSequence,
    /// Recovery checks a record's epoch.
    CheckEpoch,
    /// Recovery accepts one of several records only if all of them are there.
    CheckLinks,
    /// A valid record with a later number after an invalid one means damage,
    ReportLater,
    /// ... and so does an invalid record whose fence is known to have completed.
    ReportFenced,
    /// A log without records whose tail does not follow the last written one is damaged.
    ReportTail,
    /// Recovery skips an entry whose target is in a later record's fresh range,
    SkipRevoked,
    /// ... or where a later record has its body.
    SkipUnderLong,
    /// Recovery makes what it accepts durable before its first store: records,
    FlushAccepted,
    /// ... their fresh ranges,
    FlushAcceptedFresh,
    /// ... the bodies of long records,
    FlushAcceptedLong,
    /// ... the number of zones,
    FlushAcceptedZones,
    /// ... the header, whose older copy is overwritten next,
    FlushAcceptedHeader,
    /// ... with a fence.
    FenceAccepted,
    /// Recovery flushes the words that it stored.
    FlushRecovered,
    /// ... and fences before the tails move.
    FenceRecovered,
    /// Recovery flushes the new tails.
    FlushRecoveredTail,
    /// Recovery begins a new epoch.
    NextEpoch,
    /// The pool's header is flushed,
    FlushHeader,
    /// ... and fenced before its magic is written.
    FenceHeader,
    /// The magic is flushed.
    FlushMagic,
    /// ... and fenced.
    FenceMagic,
    /// An incarnation begins by writing both copies of the header.
    WriteBothHeaders,
    /// A header is valid only with its checksum.
    VerifyHeader,
    /// The older copy of the header is overwritten, never the newer one.
    AlternateHeaders,
    /// A freed block is reserved again only after the freeing record's fence.
    ReuseAfterFence,
    /// ... and after every reader pinned before that is gone.
    ReuseAfterPins,
    /// ... also for blocks that were held meanwhile,
    ReturnAfterPins,
    /// ... which are not all returned under one lock.
    ReturnInSteps,
    /// The first change of a word after a snapshot's cut saves the word's old value,
    SaveOverlay,
    /// ... of each word that a commit changes,
    SaveEachWord,
    /// ... and no later change saves another one.
    SaveFirstValue,
    /// A released part of a snapshot is not read any more.
    RefuseReleased,
    /// A snapshot is given up when it holds more than its limit,
    GiveUpOverLimit,
    /// ... and when a writer finds no free block.
    GiveUpFull,
    /// A long record's body is flushed.
    FlushLong,
    /// A long record's spans stay reserved until it is retired.
    HoldLong,
    /// A span goes to another shard only after its log is retired past the release,
    RetireBeforeTransfer,
    /// ... and the new tail is fenced.
    FenceTransfer,
    /// A shard that gives up a span records that before anybody can find the span free.
    ClearOwner,
    /// The number of zones is flushed after growth.
    FlushZones,
    /// ... and fenced before a span of the new zone is used.
    FenceZones,
    /// The space of a span that was given back is reserved again before a shard gets the span.
    BackHoles,
    /// A commit invalidates the copies in DRAM of what it changes.
    ForgetCached,
    /// A loss is recorded before its page is repaired in place,
    RecordLosses,
    /// ... opening a pool treats recorded losses as lost again,
    ReplayLosses,
    /// ... and a loss is removed only when it has been resolved durably.
    ForgetResolved,
    /// A stop outlives the process.
    RecordStop,
    /// When a block is adopted, it is checked again whether its span has been published.
    AskSpanAgain,
    /// The cut of a snapshot is made under the locks of all shards.
    CutUnderLocks,
    /// A shard that needs spans of others takes those of unlocked ones, and never waits.
    TryOthers,
    /// A word is saved in every existing snapshot, not only in the oldest.
    SaveInEach,
    /// A reader of a snapshot sees the words that its own cut saved.
    ReadOwnCut,
    /// At rest the tail is fenced before the lock is released.
    FenceRested,
    /// When a whole log is retired, the hint of what was fenced is flushed before its tail.
    FlushFenced,
    /// Recovery stores and flushes that hint, too, before the tail.
    FlushRecoveredFenced,
    /// Salvage stores no word of a record before a tail that the hint confirms,
    SkipRetired,
    /// ... nor one of a record whose words are all in place.
    SkipStored,
    /// The tails of a new pool, which do not begin with 0, are flushed,
    FlushFirstTail,
    /// ... and fenced before the pool is used.
    FenceFirstTail,
    /// A log that lost bytes begins anew with a record.
    RenewLog,
}

/// Disables one fault point in all threads, or none.
#[cfg(feature = "sim")]
pub fn disable_fault_point(point: Option<FaultPoint>) {
    pmem::disable_fault_point(point.map_or(0, FaultPoint::number));
}

#[inline]
pub(crate) fn flush(region: &Region, at: u64, len: usize, point: FaultPoint) {
    if point.is_enabled() {
        region.flush(at, len);
    }
}

#[inline]
pub(crate) fn fence(region: &Region, point: FaultPoint) {
    if point.is_enabled() {
        region.fence();
    }
}
