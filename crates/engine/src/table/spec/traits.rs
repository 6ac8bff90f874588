//! What the engine must know of a command in addition to its flags. COMMAND INFO does not print
//! these.

/// A client of RESP2 may use it while it has subscriptions.
pub const FOR_LISTENERS: u32 = 1 << 0;
/// Executed at once even while commands are queued.
pub const IMMEDIATE: u32 = 1 << 1;
/// Executes the queued commands.
pub const EXECUTES_QUEUE: u32 = 1 << 2;
/// Replaces or deletes whatever a key held, so that it is allowed on a damaged key.
pub const REPLACES: u32 = 1 << 3;
/// In the command log, a frame that changes no data itself.
pub const LOG_FRAME: u32 = 1 << 4;
/// Selects a database.
pub const SELECTS: u32 = 1 << 5;
/// Counts its keys as used despite CLIENT NO-TOUCH.
pub const TOUCHES: u32 = 1 << 6;
/// Refused, as writes are, while the command log cannot be written.
pub const REPORTS_LOG_FAILURE: u32 = 1 << 7;
/// A container whose subcommands leave CLIENT CACHING in force.
pub const KEEPS_CACHING: u32 = 1 << 8;
/// Takes long, or waits for a disk, so that a thread other than its connection's executes it.
pub const TAKES_LONG: u32 = 1 << 9;
/// Takes long on a thread of its own, which may wait: for another server, or for shards.
pub const OWN_THREAD: u32 = 1 << 10;
/// Compiles a text, which takes long if the text is long.
pub const COMPILES: u32 = 1 << 11;
/// Takes no longer than it weighs, so that a light one may be part of a run though it is not quick.
pub const BOUNDED: u32 = 1 << 12;
/// Executed while data loads, though Redis 7.0 refuses it then, as later versions do not.
pub const WHILE_LOADING: u32 = 1 << 14;
/// Moves keys to another server, so that it is executed here even for a slot that is open.
pub const MOVES_KEYS: u32 = 1 << 13;
