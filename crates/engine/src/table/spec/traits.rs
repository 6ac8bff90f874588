//! What the engine has to know of a command in addition to its flags. COMMAND INFO does not print
//! these.

/// A client of RESP2 may use it while it listens to channels.
pub const FOR_LISTENERS: u32 = 1 << 0;
/// Executed at once even while others are queued.
pub const IMMEDIATE: u32 = 1 << 1;
/// Executes what is queued.
pub const EXECUTES_QUEUE: u32 = 1 << 2;
/// Puts a new value in the place of whatever a key held, or takes that away: it may have a damaged
/// key.
pub const REPLACES: u32 = 1 << 3;
/// Changes no data itself where the command log has it.
pub const LOG_FRAME: u32 = 1 << 4;
/// Selects a database.
pub const SELECTS: u32 = 1 << 5;
/// Counts its keys as used though the client said CLIENT NO-TOUCH.
pub const TOUCHES: u32 = 1 << 6;
/// Refused, as writes are, while the command log cannot be written.
pub const REPORTS_LOG_FAILURE: u32 = 1 << 7;
/// A container whose subcommands leave what CLIENT CACHING said in force.
pub const KEEPS_CACHING: u32 = 1 << 8;
/// Takes long, or waits for a disk: it is executed by another thread than its connection's.
pub const TAKES_LONG: u32 = 1 << 9;
/// Takes long on a thread of its own, with which it may wait: for another server, or for shards.
pub const OWN_THREAD: u32 = 1 << 10;
/// Compiles a text: it takes long where that is long.
pub const COMPILES: u32 = 1 << 11;
