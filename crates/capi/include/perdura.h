/* Perdura: a crash-consistent key-value store in a program's own memory.
 *
 * Generated from crates/capi by cbindgen; do not change it by hand.
 *
 * - Keys and values are bytes: a pointer and a length. They are read during the call only. A null
 *   pointer with the length 0 is the empty string.
 * - Every other pointer is one that this library gave out and that was not released yet, or points
 *   to a variable that is written. A null pointer where one is needed is
 *   PERDURA_STATUS_INVALID_ARGUMENT.
 * - What is returned in PerduraBytes belongs to the caller, who releases it with
 *   perdura_bytes_free; after any other status than PERDURA_STATUS_OK there is nothing to release,
 *   and to do so is harmless. Handles are released by the function that is named with them.
 * - A store may be used by several threads at the same time. Options, batches and cursors may not.
 * - A call that failed has changed nothing, but for PERDURA_STATUS_JOURNAL_FAILED.
 * - No call unwinds or ends the process: an error inside of the library is
 *   PERDURA_STATUS_PANIC.
 */

#ifndef PERDURA_H
#define PERDURA_H

#include <stddef.h>
#include <stdint.h>

/**
 * The persistence domain that the medium offers: persistent memory, or a journal on a disk.
 */
#define PERDURA_DOMAIN_AUTO 0

/**
 * A journal, also on persistent memory.
 */
#define PERDURA_DOMAIN_JOURNAL 1

/**
 * Calls that returned survive the end of the process, even kill -9, but no power loss. On any
 * file.
 */
#define PERDURA_DOMAIN_PROCESS 2

/**
 * The result of a call. Later versions may have more: treat an unknown one as a failure.
 */
typedef enum PerduraStatus {
  /**
   * It was done.
   */
  PERDURA_STATUS_OK = 0,
  /**
   * There is no such key, or no further one. Not a failure.
   */
  PERDURA_STATUS_NOT_FOUND = 1,
  /**
   * A required pointer was null, or a number is not one of the allowed ones.
   */
  PERDURA_STATUS_INVALID_ARGUMENT = 2,
  /**
   * An error inside the library, which it caught. The store is intact, or takes no more writes
   * and says so.
   */
  PERDURA_STATUS_PANIC = 3,
  /**
   * The limit of the store, or the file system, is reached: delete, or open it with a larger
   * limit.
   */
  PERDURA_STATUS_FULL = 4,
  /**
   * The key holds a value of another type.
   */
  PERDURA_STATUS_WRONG_TYPE = 5,
  /**
   * The value is not an integer of 64 bits.
   */
  PERDURA_STATUS_NOT_AN_INTEGER = 6,
  /**
   * The result would not be an integer of 64 bits.
   */
  PERDURA_STATUS_OVERFLOW = 7,
  /**
   * A key or a value would be longer than 512 MiB.
   */
  PERDURA_STATUS_TOO_LONG = 8,
  /**
   * The medium lost bytes of this key: delete it, or set it again.
   */
  PERDURA_STATUS_DAMAGED = 9,
  /**
   * The medium lost bytes while the call ran: try again.
   */
  PERDURA_STATUS_TRY_AGAIN = 10,
  /**
   * Inside a transaction: another thread has locked the key. The function runs again after it
   * has returned, whatever it returns.
   */
  PERDURA_STATUS_CONFLICT = 11,
  /**
   * The store was called from inside its own transaction.
   */
  PERDURA_STATUS_REENTRANT = 12,
  /**
   * The function of a transaction refused it: nothing was changed.
   */
  PERDURA_STATUS_REFUSED = 13,
  /**
   * A durable step failed: the store takes no more writes until it is opened again.
   */
  PERDURA_STATUS_READ_ONLY = 14,
  /**
   * The disk refused a write or a sync of the journal. Whether the writes of the first call that
   * returns this are there when the store is opened again is unknown.
   */
  PERDURA_STATUS_JOURNAL_FAILED = 15,
  /**
   * The store cannot be opened: another process has it open.
   */
  PERDURA_STATUS_LOCKED = 16,
  /**
   * The store cannot be opened: there is no such file, or no such folder.
   */
  PERDURA_STATUS_NO_SUCH_FILE = 17,
  /**
   * The store cannot be opened: its file is something else.
   */
  PERDURA_STATUS_NOT_A_POOL = 18,
  /**
   * The store cannot be opened: another version of Perdura made it.
   */
  PERDURA_STATUS_OTHER_VERSION = 19,
  /**
   * The store cannot be opened: it, or its journal, is damaged or missing.
   */
  PERDURA_STATUS_CANNOT_RECOVER = 20,
  /**
   * The operating system refused an operation.
   */
  PERDURA_STATUS_IO = 21,
  /**
   * Any other failure; perdura_error_message says which.
   */
  PERDURA_STATUS_OTHER = 22,
} PerduraStatus;

/**
 * Strings to be set and keys to be deleted, all or nothing: from perdura_batch_new, released by
 * perdura_batch_free.
 */
typedef struct PerduraBatch PerduraBatch;

/**
 * The position of an iteration: from perdura_keys, released by perdura_cursor_free.
 */
typedef struct PerduraCursor PerduraCursor;

/**
 * How to open a store: from perdura_options_new, released by perdura_options_free.
 */
typedef struct PerduraOptions PerduraOptions;

/**
 * An open store: from perdura_open, released by perdura_close.
 */
typedef struct PerduraStore PerduraStore;

/**
 * An open transaction: valid until the function that got it returns.
 */
typedef struct PerduraTransaction PerduraTransaction;

/**
 * Bytes that belong to the caller, until perdura_bytes_free releases them.
 */
typedef struct PerduraBytes {
  /**
   * The first byte; null if there is no value. An empty value has an address.
   */
  uint8_t *data;
  /**
   * How many there are.
   */
  size_t len;
} PerduraBytes;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Releases bytes that this library returned, and sets `data` to null: another call does nothing.
 */
void perdura_bytes_free(struct PerduraBytes *bytes);

/**
 * Returns an empty batch.
 */
struct PerduraBatch *perdura_batch_new(void);

/**
 * Adds a value to be set. The bytes are copied.
 */
enum PerduraStatus perdura_batch_set(struct PerduraBatch *batch,
                                     const uint8_t *key,
                                     size_t key_len,
                                     const uint8_t *value,
                                     size_t value_len);

/**
 * Adds a key to be deleted.
 */
enum PerduraStatus perdura_batch_delete(struct PerduraBatch *batch,
                                        const uint8_t *key,
                                        size_t key_len);

/**
 * Executes a batch, in its order, as one transaction. It can be written again.
 */
enum PerduraStatus perdura_write(const struct PerduraStore *store,
                                 const struct PerduraBatch *batch);

/**
 * Releases a batch.
 */
void perdura_batch_free(struct PerduraBatch *batch);

/**
 * Starts an iteration over the keys that begin with some bytes, in no particular order.
 */
enum PerduraStatus perdura_keys(const struct PerduraStore *store,
                                const uint8_t *prefix,
                                size_t prefix_len,
                                struct PerduraCursor **cursor);

/**
 * Reads the next key, which the caller releases with perdura_bytes_free; PERDURA_STATUS_NOT_FOUND
 * at the end. The store is the one that the iteration was started on. No lock is held between two
 * calls: a key that exists from start to end is returned at least once, seldom twice; one that is
 * added or deleted meanwhile may be returned or not.
 */
enum PerduraStatus perdura_next(const struct PerduraStore *store,
                                struct PerduraCursor *cursor,
                                struct PerduraBytes *key);

/**
 * Releases a cursor.
 */
void perdura_cursor_free(struct PerduraCursor *cursor);

/**
 * Returns the options of a store in a file, which is created if it does not exist; null if the
 * path is a null pointer with a length.
 */
struct PerduraOptions *perdura_options_new(const uint8_t *path,
                                           size_t path_len);

/**
 * Returns the options of a store in DRAM, which ends with the process.
 */
struct PerduraOptions *perdura_options_volatile(void);

/**
 * Sets how many bytes the store may grow to; 4 GiB without it.
 */
enum PerduraStatus perdura_options_limit(struct PerduraOptions *options, uint64_t bytes);

/**
 * Refuses to open a store that does not exist, instead of creating it.
 */
enum PerduraStatus perdura_options_existing(struct PerduraOptions *options);

/**
 * Sets the persistence domain: one of PERDURA_DOMAIN_*.
 */
enum PerduraStatus perdura_options_domain(struct PerduraOptions *options, int32_t domain);

/**
 * Lets calls return when the kernel has their writes, which are synced this often, if the store
 * has a journal: a power loss may take the writes since the last sync. Without this a call returns
 * when its writes are on the disk. 0 syncs only by perdura_flush, and in the background.
 */
enum PerduraStatus perdura_options_sync_every(struct PerduraOptions *options,
                                              uint64_t milliseconds);

/**
 * Releases options.
 */
void perdura_options_free(struct PerduraOptions *options);

/**
 * Returns the text of the last failure on this thread, in UTF-8 with a zero byte at its end; empty
 * if there was none. It is valid until the next failure on this thread.
 */
const char *perdura_error_message(void);

/**
 * Opens a store, recovering it if it was not closed. The options stay the caller's.
 */
enum PerduraStatus perdura_open(const struct PerduraOptions *options,
                                struct PerduraStore **store);

/**
 * Closes a store and releases it, whatever is returned. No other thread may use it. A program that
 * ends without this loses no data that the persistence domain preserves.
 */
enum PerduraStatus perdura_close(struct PerduraStore *store);

/**
 * Makes all earlier writes durable, if calls do not wait for that.
 */
enum PerduraStatus perdura_flush(const struct PerduraStore *store);

/**
 * Returns how many keys there are, expired ones that are not deleted yet included.
 */
uint64_t perdura_count(const struct PerduraStore *store);

/**
 * Reads a value, which the caller releases with perdura_bytes_free; PERDURA_STATUS_NOT_FOUND, and
 * null, if there is no such key.
 */
enum PerduraStatus perdura_get(const struct PerduraStore *store,
                               const uint8_t *key,
                               size_t key_len,
                               struct PerduraBytes *value);

/**
 * Sets a value; the key does not expire.
 */
enum PerduraStatus perdura_set(const struct PerduraStore *store,
                               const uint8_t *key,
                               size_t key_len,
                               const uint8_t *value,
                               size_t value_len);

/**
 * Sets a value that expires after this many milliseconds.
 */
enum PerduraStatus perdura_set_for(const struct PerduraStore *store,
                                   const uint8_t *key,
                                   size_t key_len,
                                   const uint8_t *value,
                                   size_t value_len,
                                   uint64_t milliseconds);

/**
 * Deletes a key, whatever it holds; PERDURA_STATUS_NOT_FOUND if there is none.
 */
enum PerduraStatus perdura_delete(const struct PerduraStore *store,
                                  const uint8_t *key,
                                  size_t key_len);

/**
 * Adds to an integer, 0 if there is no key. `sum` may be null.
 */
enum PerduraStatus perdura_increment(const struct PerduraStore *store,
                                     const uint8_t *key,
                                     size_t key_len,
                                     int64_t by,
                                     int64_t *sum);

/**
 * Runs `work` all or nothing: the changes of its calls of perdura_transaction_* are committed if
 * it returns 0, and undone otherwise (PERDURA_STATUS_REFUSED). `context` is passed to it.
 *
 * The keys that it uses are locked until it returns. If another thread has locked one of them,
 * `work` runs again, so that it may run several times before it is committed: its other effects
 * must tolerate that. It must not call the store itself (PERDURA_STATUS_REENTRANT), nor wait for a
 * thread that does, nor be left by longjmp or an exception.
 */
enum PerduraStatus perdura_transact(const struct PerduraStore *store,
                                    int32_t (*work)(const struct PerduraTransaction *transaction,
                                                    void *context),
                                    void *context);

/**
 * Reads a value, like perdura_get.
 */
enum PerduraStatus perdura_transaction_get(const struct PerduraTransaction *transaction,
                                           const uint8_t *key,
                                           size_t key_len,
                                           struct PerduraBytes *value);

/**
 * Sets a value; the key does not expire.
 */
enum PerduraStatus perdura_transaction_set(const struct PerduraTransaction *transaction,
                                           const uint8_t *key,
                                           size_t key_len,
                                           const uint8_t *value,
                                           size_t value_len);

/**
 * Deletes a key, like perdura_delete.
 */
enum PerduraStatus perdura_transaction_delete(const struct PerduraTransaction *transaction,
                                              const uint8_t *key,
                                              size_t key_len);

/**
 * Adds to an integer, like perdura_increment.
 */
enum PerduraStatus perdura_transaction_increment(const struct PerduraTransaction *transaction,
                                                 const uint8_t *key,
                                                 size_t key_len,
                                                 int64_t by,
                                                 int64_t *sum);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* PERDURA_H */
