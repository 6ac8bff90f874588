//! The changes of Lua's own files when they are compiled (`build.rs`). Each text to be replaced
//! must be there once, or the build fails, so that another version of Lua is examined first.
//!
//! Most changes count work (`work.h`). The compiler is changed in two more ways: it appends to
//! lists of jumps in time that does not grow with the list, and gives up on texts that would keep
//! it busy.

/// A file, the texts that are replaced in it, and the texts in their place.
pub(crate) type Patch = (&'static str, &'static [(&'static str, &'static str)]);

pub(crate) const PATCHES: &[Patch] = &[
    ("lapi.c", &[("#include \"lvm.h\"\n", "#include \"lvm.h\"\n#include \"work.h\"\n")]),
    (
        "lcode.c",
        &[(
            // The order of a list is irrelevant: the shorter one is put before the other.
            "    int list = *l1;
    int next;
    while ((next = getjump(fs, list)) != NO_JUMP)  /* find last element */
      list = next;
    fixjump(fs, list, l2);
",
            "    int last1 = *l1, last2 = l2;
    for (;;) {
      int next = getjump(fs, last1);
      if (next == NO_JUMP) {
        fixjump(fs, last1, l2);
        return;
      }
      last1 = next;
      next = getjump(fs, last2);
      if (next == NO_JUMP) {
        fixjump(fs, last2, *l1);
        *l1 = l2;
        return;
      }
      last2 = next;
    }
",
        )],
    ),
    (
        "lgc.c",
        &[
            ("#include \"ltm.h\"\n", "#include \"ltm.h\"\n#include \"work.h\"\n"),
            (
                "void luaC_step (lua_State *L) {\n  global_State *g = G(L);\n",
                "void luaC_step (lua_State *L) {\n  global_State *g = G(L);\n  \
                 perdura_soon(L, 2 * GCSTEPSIZE);\n",
            ),
            (
                "void luaC_fullgc (lua_State *L) {\n  global_State *g = G(L);\n",
                "void luaC_fullgc (lua_State *L) {\n  global_State *g = G(L);\n  \
                 perdura_soon(L, 4 * g->totalbytes);\n",
            ),
        ],
    ),
    (
        "llex.c",
        &[
            (
                "#include \"lzio.h\"\n",
                "#include \"lzio.h\"\n#include \"work.h\"\n\nstatic __thread int tokens;\n",
            ),
            ("  ls->decpoint = '.';\n", "  tokens = 0;\n  ls->decpoint = '.';\n"),
            (
                "  ls->lastline = ls->linenumber;\n  if (ls->lookahead",
                "  if (++tokens > PERDURA_MOST_TOKENS)\n    \
                 luaX_lexerror(ls, \"chunk has too many tokens\", 0);\n  \
                 ls->lastline = ls->linenumber;\n  if (ls->lookahead",
            ),
        ],
    ),
    (
        "lmem.c",
        &[
            ("#include \"lstate.h\"\n", "#include \"lstate.h\"\n#include \"work.h\"\n"),
            (
                "  g->totalbytes = (g->totalbytes - osize) + nsize;\n",
                "  g->totalbytes = (g->totalbytes - osize) + nsize;\n  perdura_soon(L, nsize);\n",
            ),
        ],
    ),
    (
        "lparser.c",
        &[
            (
                "#include \"ltable.h\"\n",
                "#include \"ltable.h\"\n#include \"work.h\"\n\nstatic __thread int names;\n",
            ),
            (
                "  luaX_setinput(L, &lexstate, z, luaS_new(L, name));\n",
                "  names = 0;\n  luaX_setinput(L, &lexstate, z, luaS_new(L, name));\n",
            ),
            (
                "  else {\n    int v = searchvar(fs, n);  /* look up at current level */\n",
                "  else {\n    int v;\n    names += fs->nactvar + fs->f->nups + 1;\n    \
                 if (names > PERDURA_MOST_COMPARED_NAMES)\n      \
                 luaX_lexerror(fs->ls, \"chunk has too many names in too many scopes\", 0);\n    \
                 v = searchvar(fs, n);  /* look up at current level */\n",
            ),
        ],
    ),
    (
        "lstring.c",
        &[
            ("#include \"lstring.h\"\n", "#include \"lstring.h\"\n#include \"work.h\"\n"),
            (
                "    if (ts->tsv.len == l && (memcmp(str, getstr(ts), l) == 0)) {\n",
                "    perdura_soon(L, ts->tsv.len == l ? PERDURA_ITEM + l : PERDURA_ITEM);\n    \
                 if (ts->tsv.len == l && (memcmp(str, getstr(ts), l) == 0)) {\n",
            ),
        ],
    ),
    (
        "lstrlib.c",
        &[
            ("#include \"lualib.h\"\n", "#include \"lualib.h\"\n#include \"work.h\"\n"),
            (
                "  while (l--) luaL_addchar(&b, s[l]);\n",
                "  while (l--) {\n    luaL_addchar(&b, s[l]);\n    \
                 if ((l & 0xffff) == 0) perdura_now(L, 0x40000);\n  }\n",
            ),
            (
                "    luaL_addchar(&b, tolower(uchar(s[i])));\n",
                "  {\n    luaL_addchar(&b, tolower(uchar(s[i])));\n    \
                 if ((i & 0xffff) == 0xffff) perdura_now(L, 0x40000);\n  }\n",
            ),
            (
                "    luaL_addchar(&b, toupper(uchar(s[i])));\n",
                "  {\n    luaL_addchar(&b, toupper(uchar(s[i])));\n    \
                 if ((i & 0xffff) == 0xffff) perdura_now(L, 0x40000);\n  }\n",
            ),
            (
                "    luaL_addlstring(&b, s, l);\n",
                "  {\n    luaL_addlstring(&b, s, l);\n    perdura_now(L, 16 + 4 * l);\n  }\n",
            ),
            (
                "  luaL_addchar(b, '\"');\n  while (l--) {\n",
                "  luaL_addchar(b, '\"');\n  while (l--) {\n    \
                 if ((l & 0xffff) == 0) perdura_now(L, 0x40000);\n",
            ),
            (
                "  while (strfrmt < strfrmt_end) {\n",
                "  while (strfrmt < strfrmt_end) {\n    perdura_now(L, 8);\n",
            ),
            (
                "            lua_pushvalue(L, arg);\n            luaL_addvalue(&b);\n",
                "            perdura_now(L, 4 * l);\n            \
                 lua_pushvalue(L, arg);\n            luaL_addvalue(&b);\n",
            ),
        ],
    ),
    (
        "ltable.c",
        &[
            ("#include \"ltable.h\"\n", "#include \"ltable.h\"\n#include \"work.h\"\n"),
            (
                "  for (i++; i < t->sizearray; i++) {  /* try first array part */\n",
                "  for (i++; i < t->sizearray; i++, perdura_soon(L, 8)) {\n",
            ),
            (
                "  for (i -= t->sizearray; i < sizenode(t); i++) {  /* then hash part */\n",
                "  for (i -= t->sizearray; i < sizenode(t); i++, perdura_soon(L, 8)) {\n",
            ),
        ],
    ),
    (
        "ltablib.c",
        &[
            ("#include \"lualib.h\"\n", "#include \"lualib.h\"\n#include \"work.h\"\n"),
            (
                "    lua_pushvalue(L, 2);  /* function */\n    lua_pushinteger(L, i);",
                "    perdura_now(L, PERDURA_ITEM);\n    \
                 lua_pushvalue(L, 2);  /* function */\n    lua_pushinteger(L, i);",
            ),
            (
                "    lua_pushvalue(L, 2);  /* function */\n    lua_pushvalue(L, -3);  /* key */\n",
                "    perdura_now(L, PERDURA_ITEM);\n    \
                 lua_pushvalue(L, 2);  /* function */\n    lua_pushvalue(L, -3);  /* key */\n",
            ),
            (
                "    lua_pop(L, 1);  /* remove value */\n",
                "    lua_pop(L, 1);  /* remove value */\n    perdura_now(L, PERDURA_ITEM);\n",
            ),
            (
                "        lua_rawgeti(L, 1, i-1);\n",
                "        perdura_now(L, PERDURA_ITEM);\n        lua_rawgeti(L, 1, i-1);\n",
            ),
            (
                "    lua_rawgeti(L, 1, pos+1);\n",
                "    perdura_now(L, PERDURA_ITEM);\n    lua_rawgeti(L, 1, pos+1);\n",
            ),
            (
                "    luaL_addvalue(b);\n}\n",
                "    perdura_now(L, PERDURA_ITEM + 4 * lua_objlen(L, -1));\n    \
                 luaL_addvalue(b);\n}\n",
            ),
            (
                "    luaL_addlstring(&b, sep, lsep);\n",
                "    perdura_now(L, 4 * lsep);\n    luaL_addlstring(&b, sep, lsep);\n",
            ),
            (
                "static int sort_comp (lua_State *L, int a, int b) {\n",
                "static int sort_comp (lua_State *L, int a, int b) {\n  perdura_now(L, PERDURA_ITEM);\n  \
                 if (lua_type(L, a) == LUA_TSTRING) perdura_now(L, lua_objlen(L, a));\n",
            ),
        ],
    ),
    (
        "lvm.c",
        &[
            ("#include \"lvm.h\"\n", "#include \"lvm.h\"\n#include \"work.h\"\n"),
            (
                "static int l_strcmp (const TString *ls, const TString *rs) {\n",
                "static int l_strcmp (lua_State *L, const TString *ls, const TString *rs) {\n",
            ),
            (
                "  size_t lr = rs->tsv.len;\n",
                "  size_t lr = rs->tsv.len;\n  perdura_soon(L, ll < lr ? ll : lr);\n",
            ),
            (
                "    return l_strcmp(rawtsvalue(l), rawtsvalue(r)) < 0;\n",
                "    return l_strcmp(L, rawtsvalue(l), rawtsvalue(r)) < 0;\n",
            ),
            (
                "    return l_strcmp(rawtsvalue(l), rawtsvalue(r)) <= 0;\n",
                "    return l_strcmp(L, rawtsvalue(l), rawtsvalue(r)) <= 0;\n",
            ),
            (
                "  const TValue *b, *c;\n",
                "  const TValue *b, *c;\n  perdura_read(L, rb);\n  perdura_read(L, rc);\n",
            ),
        ],
    ),
];
