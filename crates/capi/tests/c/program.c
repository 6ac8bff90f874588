/* A program in C that uses every function of perdura.h, and one that is killed while it writes.
 *
 *   program calls POOL          uses every function once
 *   program write POOL          moves money until it is killed, and says how often after each time
 *   program check POOL COUNT    opens the pool again: at least COUNT times, and no half of one
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perdura.h"

#define BYTES(text) (const uint8_t *)(text), strlen(text)

static void expect(int is_so, int line, const char *what) {
    if (!is_so) {
        fprintf(stderr, "line %d: %s: %s\n", line, what, perdura_error_message());
        exit(1);
    }
}

#define EXPECT(is_so) expect((is_so), __LINE__, #is_so)
#define OK(call) EXPECT((call) == PERDURA_STATUS_OK)
#define FAILS(call, status) EXPECT((call) == PERDURA_STATUS_##status)

/* What survives kill -9 needs neither persistent memory nor a journal. */
static PerduraStore *open_pool(const char *pool) {
    PerduraOptions *options = perdura_options_new(BYTES(pool));
    PerduraStore *store = NULL;
    OK(perdura_options_domain(options, PERDURA_DOMAIN_PROCESS));
    OK(perdura_options_limit(options, 64 << 20));
    OK(perdura_open(options, &store));
    perdura_options_free(options);
    return store;
}

static int holds(const PerduraStore *store, const char *key, const char *expected) {
    PerduraBytes value;
    int is_same;
    OK(perdura_get(store, BYTES(key), &value));
    is_same = value.len == strlen(expected) && memcmp(value.data, expected, value.len) == 0;
    perdura_bytes_free(&value);
    perdura_bytes_free(&value); /* releases nothing twice */
    return is_same && value.data == NULL;
}

static void strings(PerduraStore *store) {
    PerduraBytes value;
    int64_t sum = 0;
    OK(perdura_set(store, BYTES("greeting"), BYTES("hello")));
    EXPECT(holds(store, "greeting", "hello"));
    OK(perdura_set(store, BYTES("empty"), NULL, 0));
    EXPECT(holds(store, "empty", ""));
    OK(perdura_set(store, (const uint8_t *)"a\0b", 3, (const uint8_t *)"\0", 1));
    OK(perdura_get(store, (const uint8_t *)"a\0b", 3, &value));
    EXPECT(value.len == 1 && value.data[0] == 0);
    perdura_bytes_free(&value);
    OK(perdura_set_for(store, BYTES("session"), BYTES("anna"), 60000));
    OK(perdura_increment(store, BYTES("visits"), 40, NULL));
    OK(perdura_increment(store, BYTES("visits"), 2, &sum));
    EXPECT(sum == 42);
    EXPECT(perdura_count(store) == 5);
    OK(perdura_delete(store, BYTES("session")));
    FAILS(perdura_delete(store, BYTES("session")), NOT_FOUND);
    FAILS(perdura_get(store, BYTES("session"), &value), NOT_FOUND);
    EXPECT(value.data == NULL && value.len == 0);
    OK(perdura_flush(store));
}

static void failures(PerduraStore *store, const char *pool) {
    PerduraOptions *options = perdura_options_new(BYTES(pool));
    PerduraStore *other = store;
    PerduraBytes value;
    FAILS(perdura_increment(store, BYTES("greeting"), 1, NULL), NOT_AN_INTEGER);
    EXPECT(strcmp(perdura_error_message(), "the value is not an integer") == 0);
    FAILS(perdura_increment(store, BYTES("visits"), INT64_MAX, NULL), OVERFLOW);
    EXPECT(holds(store, "visits", "42"));
    FAILS(perdura_get(NULL, BYTES("greeting"), &value), INVALID_ARGUMENT);
    FAILS(perdura_get(store, NULL, 7, &value), INVALID_ARGUMENT);
    EXPECT(value.data == NULL);
    perdura_bytes_free(&value);
    FAILS(perdura_get(store, BYTES("greeting"), NULL), INVALID_ARGUMENT);
    FAILS(perdura_set(store, (const uint8_t *)"a", SIZE_MAX, BYTES("")), INVALID_ARGUMENT);
    FAILS(perdura_options_domain(options, 77), INVALID_ARGUMENT);
    FAILS(perdura_open(NULL, &other), INVALID_ARGUMENT);
    FAILS(perdura_next(store, NULL, &value), INVALID_ARGUMENT);
    EXPECT(other == NULL);
    EXPECT(perdura_options_new(NULL, 7) == NULL);
    EXPECT(perdura_count(NULL) == 0);
    OK(perdura_close(NULL));
    perdura_options_free(options);
    perdura_options_free(NULL);

    options = perdura_options_new(BYTES("/nowhere/at/all/pool"));
    OK(perdura_options_existing(options));
    FAILS(perdura_open(options, &other), NO_SUCH_FILE);
    EXPECT(other == NULL && strstr(perdura_error_message(), "/nowhere/at/all/pool") != NULL);
    perdura_options_free(options);
}

static void batches(PerduraStore *store) {
    PerduraBatch *batch = perdura_batch_new();
    OK(perdura_batch_set(batch, BYTES("page:1"), BYTES("one")));
    OK(perdura_batch_set(batch, BYTES("page:2"), BYTES("two")));
    OK(perdura_batch_delete(batch, BYTES("empty")));
    OK(perdura_write(store, batch));
    perdura_batch_free(batch);
    EXPECT(holds(store, "page:2", "two"));
    EXPECT(perdura_count(store) == 5);
}

static void cursors(PerduraStore *store) {
    PerduraCursor *cursor = NULL;
    PerduraBytes key;
    int seen = 0;
    OK(perdura_keys(store, BYTES("page:"), &cursor));
    while (perdura_next(store, cursor, &key) == PERDURA_STATUS_OK) {
        EXPECT(key.len == 6 && memcmp(key.data, "page:", 5) == 0);
        perdura_bytes_free(&key);
        /* The store can be called, and written to, meanwhile. */
        OK(perdura_increment(store, BYTES("seen"), 1, NULL));
        seen++;
    }
    FAILS(perdura_next(store, cursor, &key), NOT_FOUND);
    EXPECT(seen == 2);
    perdura_cursor_free(cursor);
}

typedef struct {
    PerduraStore *store;
    int answer;
    int64_t transfers;
} Transfer;

/* Moves money from one account to another, and counts. */
static int32_t transfer(const PerduraTransaction *transaction, void *context) {
    Transfer *made = context;
    int64_t left = 0;
    FAILS(perdura_set(made->store, BYTES("other"), BYTES("")), REENTRANT);
    if (perdura_transaction_increment(transaction, BYTES("anna"), -1, &left) != 0 ||
        perdura_transaction_increment(transaction, BYTES("ben"), 1, NULL) != 0 ||
        perdura_transaction_increment(transaction, BYTES("made"), 1, &made->transfers) != 0) {
        return -1;
    }
    return made->answer;
}

static int32_t rename_page(const PerduraTransaction *transaction, void *context) {
    PerduraBytes value;
    (void)context;
    if (perdura_transaction_get(transaction, BYTES("page:1"), &value) != PERDURA_STATUS_OK) {
        return 1;
    }
    perdura_transaction_set(transaction, BYTES("page:3"), value.data, value.len);
    perdura_bytes_free(&value);
    return perdura_transaction_delete(transaction, BYTES("page:1")) != PERDURA_STATUS_OK;
}

static void transactions(PerduraStore *store) {
    Transfer made = {store, 0, 0};
    PerduraBytes value;
    OK(perdura_transact(store, transfer, &made));
    EXPECT(holds(store, "anna", "-1") && holds(store, "ben", "1") && made.transfers == 1);
    made.answer = 1;
    FAILS(perdura_transact(store, transfer, &made), REFUSED);
    EXPECT(holds(store, "anna", "-1") && holds(store, "ben", "1"));
    OK(perdura_transact(store, rename_page, NULL));
    FAILS(perdura_transact(store, rename_page, NULL), REFUSED);
    FAILS(perdura_get(store, BYTES("page:1"), &value), NOT_FOUND);
    EXPECT(holds(store, "page:3", "one"));
    FAILS(perdura_transact(store, NULL, NULL), INVALID_ARGUMENT);
}

static void in_dram(void) {
    PerduraOptions *options = perdura_options_volatile();
    PerduraStore *store = NULL;
    OK(perdura_options_sync_every(options, 200));
    OK(perdura_open(options, &store));
    perdura_options_free(options);
    OK(perdura_set(store, BYTES("a"), BYTES("b")));
    OK(perdura_close(store));
}

static void calls(const char *pool) {
    PerduraStore *store = open_pool(pool);
    strings(store);
    failures(store, pool);
    batches(store);
    cursors(store);
    transactions(store);
    OK(perdura_close(store));
    store = open_pool(pool);
    EXPECT(holds(store, "greeting", "hello") && holds(store, "anna", "-1"));
    OK(perdura_close(store));
    in_dram();
    puts("every call did what it says");
}

static void write_until_killed(const char *pool) {
    PerduraStore *store = open_pool(pool);
    Transfer made = {store, 0, 0};
    for (;;) {
        OK(perdura_transact(store, transfer, &made));
        printf("%" PRId64 "\n", made.transfers);
        fflush(stdout);
    }
}

static void check(const char *pool, int64_t acknowledged) {
    PerduraStore *store = open_pool(pool);
    int64_t anna = 0, ben = 0, made = 0;
    OK(perdura_increment(store, BYTES("anna"), 0, &anna));
    OK(perdura_increment(store, BYTES("ben"), 0, &ben));
    OK(perdura_increment(store, BYTES("made"), 0, &made));
    EXPECT(made >= acknowledged);
    EXPECT(anna == -made && ben == made);
    OK(perdura_close(store));
    puts("no transfer is lost, and none is half");
}

int main(int argc, char **argv) {
    const char *what = argc > 2 ? argv[1] : "";
    if (strcmp(what, "calls") == 0) {
        calls(argv[2]);
    } else if (strcmp(what, "write") == 0) {
        write_until_killed(argv[2]);
    } else if (strcmp(what, "check") == 0 && argc > 3) {
        check(argv[2], strtoll(argv[3], NULL, 10));
    } else {
        fprintf(stderr, "program calls|write|check POOL [COUNT]\n");
        return 2;
    }
    return 0;
}
