/*
 * Configures Lua: included first when any of its files is compiled (build.rs).
 *
 * Lua writes a number, for `..` and tostring, by sprintf with "%.14g". That takes some 1800
 * instructions, and scripts make names of keys of whole numbers. These are written here instead,
 * if they have at most 14 digits: "%.14g" writes just their digits. All others, zero among them,
 * which may have a sign, are left to sprintf.
 *
 * luaconf.h, which is Lua's place for this, has no way to be given another lua_number2str; it is
 * therefore read here before Lua reads it, with all of its parts, and the macro is replaced.
 */
#define LUA_CORE
#define loslib_c
#include "luaconf.h"
#undef loslib_c
#undef LUA_CORE

#include <stdio.h>
#include <string.h>

static inline int perdura_number2str(char *text, LUA_NUMBER number) {
  char digits[16];
  char *start = digits + sizeof digits;
  if (!(number > -1e14 && number < 1e14)) return sprintf(text, LUA_NUMBER_FMT, number);
  long long whole = (long long)number;
  if ((LUA_NUMBER)whole != number || whole == 0) return sprintf(text, LUA_NUMBER_FMT, number);
  unsigned long long rest = whole < 0 ? -(unsigned long long)whole : (unsigned long long)whole;
  *--start = '\0';
  do {
    *--start = (char)('0' + rest % 10);
    rest /= 10;
  } while (rest != 0);
  int sign = whole < 0;
  if (sign) *text = '-';
  memcpy(text + sign, start, (size_t)(digits + sizeof digits - start));
  return sign + (int)(digits + sizeof digits - start) - 1;
}

#undef lua_number2str
#define lua_number2str(text, number) perdura_number2str((text), (number))
