//! Every flush, fence, log entry, checksum and rule of the commit protocol by name.
//!
//! In a build for simulation one of them at a time can be disabled, at run time, to show that a
//! crash test catches it. In any other build this is a flush and a fence, and a record that holds
//! every entry.

use pmem::Region;

pmem::fault_points! { 32:
    /// New bytes are flushed before the record's fence.
    FlushFresh,
    /// ... those after the published length of a block too,
    FlushAppended,
    /// ... and the header and bitmap of a new span.
    FlushSpanHeader,
    /// Large new bytes have a fence of their own before their record.
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
    /// ... what was appended to published blocks,
    ListAppended,
    /// ... fresh ranges that had a fence of their own,
    ListDetached,
    /// ... and a new span's header and bitmap.
    ListSpanHeader,
    /// What was appended to a block that the same transaction frees is not listed.
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
    /// ... and fenced before the space that it left is written.
    FenceTail,
    /// The records of a part are retired before it is written again.
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
    /// A whole record after one that is not, with a later number, is damage,
    ReportLater,
    /// ... and so is a record that is not whole though its fence is known to have completed.
    ReportFenced,
    /// A log without records whose tail does not follow the last one that was written is damaged.
    ReportTail,
    /// Recovery skips an entry that is in a later record's fresh range,
    SkipRevoked,
    /// ... or where a later record has its body.
    SkipUnderLong,
    /// Recovery makes durable what it accepts before its first store: records,
    FlushAccepted,
    /// ... their fresh ranges,
    FlushAcceptedFresh,
    /// ... the bodies of long records,
    FlushAcceptedLong,
    /// ... the number of zones,
    FlushAcceptedZones,
    /// ... the header, whose older copy is written over next,
    FlushAcceptedHeader,
    /// ... with a fence.
    FenceAccepted,
    /// Recovery flushes the words it stored.
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
    /// An incarnation begins in both copies of the header.
    WriteBothHeaders,
    /// A header counts only with its checksum.
    VerifyHeader,
    /// The older copy of the header is written over, never the newer one.
    AlternateHeaders,
    /// A freed block is reserved again only after the freeing record's fence.
    ReuseAfterFence,
    /// ... and after every reader pinned before it has gone.
    ReuseAfterPins,
    /// ... those that were held meanwhile too,
    ReturnAfterPins,
    /// ... and not all of them under one lock.
    ReturnInSteps,
    /// The first change of a word after a snapshot's cut saves the word's old value,
    SaveOverlay,
    /// ... of each word that a commit changes,
    SaveEachWord,
    /// ... and no later change saves another one.
    SaveFirstValue,
    /// A part of a snapshot that was released is not read any more.
    RefuseReleased,
    /// A snapshot is given up when it holds more than its limit,
    GiveUpOverLimit,
    /// ... and when a writer finds no block.
    GiveUpFull,
    /// A long record's body is flushed.
    FlushLong,
    /// A long record's spans stay reserved until it is retired.
    HoldLong,
    /// A span is given to another shard only after its log is retired past the release,
    RetireBeforeTransfer,
    /// ... and the new tail is fenced.
    FenceTransfer,
    /// A shard that gives up a span says so before anybody can find the span free.
    ClearOwner,
    /// The number of zones is flushed after growth.
    FlushZones,
    /// ... and fenced before a span of the new zone is used.
    FenceZones,
    /// The space of a span that was given back is reserved again before a shard has the span.
    BackHoles,
    /// A commit forgets the copies in DRAM of what it changes.
    ForgetCached,
    /// A loss is recorded before its page is repaired in place,
    RecordLosses,
    /// ... opening a pool treats what is recorded as lost again,
    ReplayLosses,
    /// ... and it is removed only when what was lost has been resolved durably.
    ForgetResolved,
    /// A stop outlives the process.
    RecordStop,
    /// A block that is adopted is asked whether its span was published since it was reserved.
    AskSpanAgain,
    /// The cut of a snapshot is made under the locks of all shards.
    CutUnderLocks,
    /// Whoever holds a shard and needs spans of others takes those of unlocked ones, and never
    /// waits.
    TryOthers,
    /// A word is saved in each snapshot that there is, and not in the oldest alone.
    SaveInEach,
    /// A reader of a snapshot sees the words that its own cut saved.
    ReadOwnCut,
}

/// Disables a fault point in all threads, or none.
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
