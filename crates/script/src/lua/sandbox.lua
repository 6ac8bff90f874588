-- Builds the globals that scripts see out of Lua's libraries and of functions written in Rust.
--
-- Lua 5.1 has no read-only tables. Each shared table is therefore an empty proxy whose metatable
-- reads the content and refuses writes; every function through which a script could reach around
-- the metatable (rawset, setmetatable, table.insert, ...) asks `contents` first.
--
-- A function of Rust raises a value of mlua. Whatever catches errors (pcall, xpcall,
-- coroutine.resume) turns it into what Redis's functions raise. This chunk is called "[C]": its
-- lines are never shown, and positions that name it are replaced by those of the script.

local native = ...

local error, getmetatable, next, pairs, pcall, rawget, rawset, select, setmetatable, tonumber,
    tostring, type, unpack, xpcall, collectgarbage =
    error, getmetatable, next, pairs, pcall, rawget, rawset, select, setmetatable, tonumber,
    tostring, type, unpack, xpcall, collectgarbage
local byte, rep, sub = string.byte, string.rep, string.sub
local insert, remove, sort, setn = table.insert, table.remove, table.sort, table.setn
local foreach, foreachi = table.foreach, table.foreachi
local create, resume, wrap = coroutine.create, coroutine.resume, coroutine.wrap
local concat = table.concat

local original = getfenv(0)
local handler, lists = native.handler, native.lists
local READONLY = 'Attempt to modify a readonly table'

-- Proxies with what they show, and the metatables that scripts may see.
local contents, metatables = {}, {}

local function refuse() error(READONLY, 2) end

local function readonly(content)
  local proxy = {}
  contents[proxy] = content
  setmetatable(proxy, { __index = content, __newindex = refuse, __metatable = false })
  return proxy
end

local function copy(functions, into)
  for name, f in pairs(functions) do into[name] = f end
  return into
end

local function guard(t)
  if contents[t] ~= nil then error(READONLY, 0) end
end

local G = {}

-- Base library ---------------------------------------------------------------------------------

local base = {
  _VERSION = _VERSION, _G = G, assert = assert, error = error, gcinfo = gcinfo, ipairs = ipairs,
  rawequal = rawequal, select = select, tonumber = tonumber, tostring = tostring, type = type,
}

function base.getmetatable(value)
  if value ~= nil then
    local shown = metatables[type(value) == 'string' and 'string' or value]
    if shown ~= nil then return shown end
    if contents[value] ~= nil then return nil end
  end
  return getmetatable(value)
end

function base.setmetatable(t, meta)
  if t ~= nil then guard(t) end
  return setmetatable(t, meta)
end

function base.rawset(t, key, value)
  if t ~= nil then guard(t) end
  return rawset(t, key, value)
end

function base.rawget(t, key)
  local content = t ~= nil and contents[t]
  return rawget(content or t, key)
end

function base.next(t, key)
  local content = t ~= nil and contents[t]
  return next(content or t, key)
end

function base.pairs(t)
  local content = t ~= nil and contents[t]
  if content then
    return function(_, key) return next(content, key) end, t, nil
  end
  return pairs(t)
end

function base.unpack(t, first, last)
  -- Lua's own counts in 32 bits, which overflow. It takes the digits of a number for the number.
  local from, to = first, last
  if from == nil then from = 1 else from = tonumber(from) end
  if to == nil then to = type(t) == 'table' and #t or 0 else to = tonumber(to) end
  -- Not a number is neither less nor more. What is no number at all, unpack refuses.
  if from and to and not (to - from < 1000000 and from >= -2147483648 and from <= 2147483647
      and to >= -2147483648 and to <= 2147483647) then
    error('too many results to unpack', 2)
  end
  -- Each argument takes one of the 8000 places that the results may have.
  if last ~= nil then return unpack(t, first, last) end
  if first ~= nil then return unpack(t, first) end
  return unpack(t)
end

local function compile(text, name)
  if type(text) ~= 'string' then
    error("bad argument #1 to 'loadstring' (string expected, got " .. type(text) .. ')', 3)
  end
  if name == nil then name = text end
  return native.compile(text, name)
end

function base.loadstring(text, name)
  local f, message = compile(text, name)
  if f == nil then return nil, message end
  return f
end

function base.load(reader, name)
  if type(reader) ~= 'function' then
    error("bad argument #1 to 'load' (function expected, got " .. type(reader) .. ')', 2)
  end
  local pieces = {}
  while true do
    local piece = reader()
    if piece == nil or piece == '' then break end
    if type(piece) ~= 'string' then error('reader function must return a string', 2) end
    pieces[#pieces + 1] = piece
  end
  local f, message = compile(concat(pieces), name or '=(load)')
  if f == nil then return nil, message end
  return f
end

function base.collectgarbage(option, argument)
  -- A script must not be able to switch the collector off for those that follow.
  if option == 'stop' or option == 'restart' then return 0 end
  if option == 'setpause' or option == 'setstepmul' then return 200 end
  return collectgarbage(option, argument)
end

-- Errors that must not be caught, and those that are shown as plain text.
local function caught(ok, ...)
  if ok then return true, ... end
  local err = (...)
  if native.is_killed() then error(err, 0) end
  if type(err) ~= 'table' then err = native.plain_error(err) end
  if type(err) == 'table' then
    local text = err.err
    -- Redis leaves a field that is no text on the stack, behind the table.
    if type(text) ~= 'string' and type(text) ~= 'number' then return false, err, text end
    err = text
  end
  return false, err
end

function base.pcall(...) return caught(pcall(...)) end

local function resumed(ok, ...)
  if ok then return ok, ... end
  if native.is_killed() then error((...), 0) end
  return false, native.plain_error((...))
end

local function unless_killed(ok, ...)
  if not ok and native.is_killed() then error((...), 0) end
  return ok, ...
end

function base.xpcall(f, handler)
  return unless_killed(xpcall(f, function(err)
    if native.is_killed() then return err end
    return handler(native.plain_error(err))
  end))
end

-- Strings --------------------------------------------------------------------------------------

local strings = {}
for name, f in pairs(string) do strings[name] = f end

copy(native.strings, strings)
strings.next_match, strings.gfind = nil, strings.gmatch

local next_match, plain_gsub = native.strings.next_match, native.strings.gsub

-- What replaces a match: what the script's function returns, or its table has.
local function replaced(s, from, to, value)
  if not value then return sub(s, from + 1, to) end
  local kind = type(value)
  if kind ~= 'string' and kind ~= 'number' then
    error('invalid replacement value (a ' .. kind .. ')', 3)
  end
  return value
end

function strings.gsub(...)
  local s, pattern, replacement, limit = ...
  local kind = type(replacement)
  if kind ~= 'function' and kind ~= 'table' then return plain_gsub(...) end
  -- The checks of the arguments.
  plain_gsub(s, pattern, '', 0)
  if limit == nil then
    limit = 1 / 0
  else
    plain_gsub('', '', '', limit)
    limit = limit - limit % 1
  end
  s = '' .. s
  replacement = contents[replacement] or replacement
  local is_anchored = byte(pattern) == 94
  local pieces, count, done, at, length = {}, 0, 0, 0, #s
  local function add(from, to, first, ...)
    if from == nil then return false end
    local value
    if kind == 'function' then value = replacement(first, ...) else value = replacement[first] end
    count = count + 1
    if from > done then pieces[#pieces + 1] = sub(s, done + 1, from) end
    pieces[#pieces + 1] = replaced(s, from, to, value)
    done = to
    at = to
    if to == from then at = to + 1 end
    return at <= length and not is_anchored
  end
  while count < limit do
    if not add(next_match(s, pattern, at, kind == 'table')) then break end
  end
  pieces[#pieces + 1] = sub(s, done + 1)
  return concat(pieces), count
end

function strings.rep(...)
  local s, count = ...
  if (type(s) == 'string' or type(s) == 'number') and type(count) == 'number' then
    local length = #tostring(s)
    if length == 0 or count < 1 then return '' end
    if length * count > native.longest_string then error('not enough memory', 0) end
  end
  return rep(...)
end

-- Tables, coroutines, mathematics --------------------------------------------------------------

local tables = {}
for name, f in pairs(table) do tables[name] = f end

function tables.insert(t, ...)
  if t ~= nil then guard(t) end
  return insert(t, ...)
end

function tables.remove(t, ...)
  if t ~= nil then guard(t) end
  return remove(t, ...)
end

function tables.sort(t, less)
  if t ~= nil then guard(t) end
  return sort(t, less)
end

local coroutines = {}
for name, f in pairs(coroutine) do coroutines[name] = f end

function coroutines.resume(co, ...) return resumed(resume(co, ...)) end

local maths = {}
for name, f in pairs(math) do maths[name] = f end
maths.random, maths.randomseed = native.random, native.randomseed

-- redis.* --------------------------------------------------------------------------------------

local redis = copy(native.redis, {})

-- What a library may use while it loads: enough to register functions.
local loading = {
  register_function = native.register_function,
}
for _, name in pairs { 'log', 'LOG_DEBUG', 'LOG_VERBOSE', 'LOG_NOTICE', 'LOG_WARNING',
    'REDIS_VERSION', 'REDIS_VERSION_NUM' } do
  loading[name] = redis[name]
end

-- Assembly -------------------------------------------------------------------------------------

base.string, base.table, base.coroutine = readonly(strings), readonly(tables), readonly(coroutines)
base.math, base.redis = readonly(maths), readonly(redis)
base.server = base.redis
for name, library in pairs(native.libraries) do
  base[name] = readonly(copy(library, {}))
end
local function missing(_, name)
  if type(name) ~= 'string' and type(name) ~= 'number' then
    error('Second argument to luaProtectedTableError must be a string or number', 2)
  end
  error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
end

local function protected(proxy, content)
  contents[proxy] = content
  setmetatable(content, { __index = missing })
  local metatable = { __index = content, __newindex = refuse, __metatable = false }
  setmetatable(proxy, metatable)
  metatables[proxy] = readonly { __index = missing }
  return metatable
end

protected(G, base)

-- Library globals: those of a script; while the library loads, `redis` alone.
local library_content = {}
for name, value in pairs(base) do library_content[name] = value end
local L, loading_redis = {}, {}
library_content._G = L
protected(loading_redis, loading)
local loading_content = setmetatable({ redis = loading_redis, server = loading_redis },
  { __index = missing })
local of_library = protected(L, library_content)

-- The methods of strings stay out of reach.
local of_strings = getmetatable('')
of_strings.__index = strings
of_strings.__metatable = false
metatables.string = readonly { __index = base.string }

-- What functions of C were created with: empty, so that nothing is found there.
for name in pairs(original) do original[name] = nil end

return {
  globals = G, content = base, library_globals = L, of_library = of_library,
  library_content = library_content, loading_content = loading_content,
  load = function(f)
    base.KEYS, base.ARGV = nil, nil
    return xpcall(f, handler)
  end,
  -- Calls with lists of any length.
  run = function(f)
    base.KEYS, base.ARGV = lists()
    return xpcall(f, handler)
  end,
  run_function = function(f)
    local keys, args = lists()
    return xpcall(function() return (f(keys, args)) end, handler)
  end,
}
