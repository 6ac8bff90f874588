/*
 * Counts what Lua's own functions in C do, so that the hook is called in time: the hook decides
 * whether a script goes on, and the interpreter calls it every so many instructions, however long
 * each takes. One instruction may copy, compare or sort all of a script's memory.
 *
 * `src/lua/patches.rs` puts the calls into Lua's files, each of which counts for itself. A unit is
 * about what it takes to copy a byte.
 */
#ifndef perdura_work_h
#define perdura_work_h

#include "lobject.h"
#include "lstate.h"
#include "ldo.h"
#include "lvm.h"

/* Work between two calls of the hook: a millisecond or so. */
#define PERDURA_WORK_PER_POLL ((size_t)4 << 20)

/* What an item of a table takes that is moved or looked at. */
#define PERDURA_ITEM 64

/* What the compiler takes at most: about a second. */
#define PERDURA_MOST_TOKENS 4000000
#define PERDURA_MOST_COMPARED_NAMES 500000000

static __thread size_t perdura_work __attribute__((unused));

static inline int perdura_is_due(lua_State *L, size_t work) {
  perdura_work += work;
  if (perdura_work < PERDURA_WORK_PER_POLL) return 0;
  perdura_work = 0;
  return (L->hookmask & LUA_MASKCOUNT) != 0;
}

/* After much work, the hook is called before the next instruction. */
static inline __attribute__((unused)) void perdura_soon(lua_State *L, size_t work) {
  if (perdura_is_due(L, work)) L->hookcount = 1;
}

/* After much work, the hook is called here. It may raise an error. */
static inline __attribute__((unused)) void perdura_now(lua_State *L, size_t work) {
  if (perdura_is_due(L, work)) luaD_callhook(L, LUA_HOOKCOUNT, -1);
}

/* A value is read as a number: a string from its first digit to its last. */
static inline __attribute__((unused)) void perdura_read(lua_State *L, const TValue *o) {
  if (ttisstring(o)) perdura_soon(L, 8 * tsvalue(o)->len);
}

#undef tonumber
#define tonumber(o, n) \
  (ttype(o) == LUA_TNUMBER || (perdura_read(L, o), ((o) = luaV_tonumber(o, n)) != NULL))

#endif
