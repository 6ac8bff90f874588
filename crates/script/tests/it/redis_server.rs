//! Scripts whose replies are compared with those of the system's redis-server.

use crate::support::{MEMORY, TestHost};
use script::{Interpreter, Invocation, Reply};
use testkit::Launch;

/// Scripts over the libraries; each must reply the same, errors included.
const SCRIPTS: &[&str] = &[
    // globals, of functions that only read them and of those that do not
    "return {KEYS[1] == nil, #ARGV, type(redis), type(string), _G.KEYS == KEYS, _G.redis == redis}",
    "KEYS = 1 return KEYS",
    "return missing",
    "local function f() return missing end return f()",
    "return {pcall(function() return missing end)}",
    "return {pcall(function() KEYS = {} end)}",
    "return {select('#', pcall(function() end))}",
    "return {select('#', pcall(function() return nil, nil end))}",
    "return select('#', pcall(redis.setresp, 3))",
    "return {pcall(function() function redis() end end)}",
    "_G.KEYS = 1",
    "rawset(_G, 'KEYS', 1)",
    "return loadstring('x = 1')()",
    "return loadstring('return x')()",
    "return loadstring('return type(KEYS)')()",
    "local co = coroutine.wrap(function() return missing end) return co()",
    "local co = coroutine.wrap(function() KEYS = 1 end) return co()",
    "redis.call = 1",
    "return {redis.call('echo', 1), redis.call('echo', 1.5), redis.call('echo', -0.0)}",
    "return {redis.call('echo', 2^31), redis.call('echo', -2^31), redis.call('echo', 1/0)}",
    // what the compiler makes of jumps: random conditions and loops
    "local seed = 7
     local function random(n) seed = (seed * 1103515245 + 12345) % 2147483648 return math.floor(seed / 65536) % n + 1 end
     local leaves = {'a', 'b', 'c', 'x', 'nil', 'true', 'false', '7', 'a < x', 'a == b', 'x ~= 2', 'f(a)'}
     local function expression(depth)
       if depth == 0 then return leaves[random(#leaves)] end
       local kind, left, right = random(4), expression(random(depth) - 1), expression(random(depth) - 1)
       if kind == 1 then return left .. ' and ' .. right end
       if kind == 2 then return left .. ' or ' .. right end
       if kind == 3 then return 'not (' .. left .. ')' end
       return '(' .. left .. ') == (' .. right .. ')'
     end
     local function block(depth)
       local code, kind = 'n = n * 3 % 10007 + ' .. random(9), depth == 0 and 9 or random(6)
       if kind == 1 then
         code = code .. ' if ' .. expression(4)
         for i = 1, random(4) do code = code .. ' then ' .. block(depth - 1) .. ' elseif ' .. expression(3) end
         code = code .. ' then ' .. block(depth - 1) .. ' else ' .. block(depth - 1) .. ' end'
       elseif kind == 2 then
         code = code .. ' for i = 1, 3 do if ' .. expression(4) .. ' then break end ' .. block(depth - 1) .. ' end'
       elseif kind == 3 then
         code = code .. ' local i = 0 repeat i = i + 1 ' .. block(depth - 1) .. ' until i > 3 or ' .. expression(4)
       elseif kind == 4 then
         code = code .. ' do local i = 0 while i < 3 and (' .. expression(4) .. ') do i = i + 1 ' .. block(depth - 1) .. ' end end'
       elseif kind == 5 then
         code = code .. ' local y = ' .. expression(5) .. ' n = n + #tostring(y)'
       end
       return 'do ' .. code .. ' end'
     end
     local results = {}
     for i = 1, 400 do
       local code = 'local a, b, c, x, f = ... local n = 1 ' .. block(3) .. block(3) .. ' return n, ' .. expression(7)
       local n, value = assert(loadstring(code))(false, nil, 'c', i % 4, function(v) return v end)
       results[i] = n .. tostring(value)
     end
     return results",
    "local a return loadstring('local a if a then ' .. ('elseif a then '):rep(50000) .. 'end')",
    "return {loadstring('local a if a then ' .. ('elseif a then '):rep(50000) .. 'end')}",
    "return {loadstring('local a return a ' .. ('and a '):rep(70000))}",
    // what counts work
    "return {('abc'):upper(), ('ABC'):lower(), ('abc'):reverse(), ('ab'):rep(3), (5):rep(2)}",
    "return {#('aB'):rep(1e5):upper(), #('aB'):rep(1e5):reverse(), ('%q'):format(('a\\n'):rep(1e5))}",
    "return string.upper()",
    "return string.rep('a')",
    "return table.concat({1, {}, 3})",
    "return table.concat({1, 2, 3}, ',', 2, 3)",
    "local t = {} for i = 1, 1e5 do t[i] = i * 7919 % 100003 end table.sort(t) return {t[1], t[500], t[1e5]}",
    "local t = {} for i = 1, 1e3 do t[i] = 'k' .. i * 7919 % 1009 end table.sort(t) return t",
    "table.sort({1, 'a', 2})",
    "table.sort({{}, {}})",
    "table.sort({3, 1, 2, 5, 4}, function() return true end)",
    "local t = {} for i = 1, 1e5 do t[i] = i end table.insert(t, 1, 0) table.remove(t, 5) return {#t, t[5]}",
    "return {('1'):rep(400) + 0, '0x10' + 0, pcall(function() return 'x' + 1 end)}",
    "return {'a\\0b' < 'a\\0c', 'a' < 'a\\0', 'b' < 'a', 'a' <= 'a', 'a' <= 'B'}",
    // bit
    "return {bit.tobit(2^32 - 1), bit.tobit(-1), bit.tobit(1.5), bit.tobit(2.5), bit.tobit(2^31)}",
    "return {bit.band(0x12345678, 0xff), bit.bor(1, 2, 4), bit.bxor(0xa5a5f0f0, 0xaa55ff00)}",
    "return {bit.bnot(0), bit.bswap(0x12345678), bit.rol(0x12345678, 12), bit.ror(0x12345678, 12)}",
    "return {bit.lshift(1, 31), bit.lshift(1, 32), bit.rshift(-256, 8), bit.arshift(-256, 8)}",
    "return {bit.tohex(1), bit.tohex(-1, 4), bit.tohex(0x87654321, -4), bit.tohex(255, 20)}",
    "return bit.band()",
    "return bit.bor('x')",
    "return bit.lshift(1)",
    "return bit.tobit({})",
    // struct
    "return struct.pack('>I2<i4bB', 258, -2, -1, 255)",
    "return struct.pack('>!4 i1 i4 d s', 1, 2, 0.5, 'abc')",
    "return struct.pack('f', 0.1) .. struct.pack('>f', -2)",
    "return {struct.unpack('>I2<i4', struct.pack('>I2<i4', 258, -2))}",
    "return {struct.unpack('bBhHlL', struct.pack('bBhHlL', -1, -1, -1, -1, -1, -1))}",
    "return {struct.unpack('s i1', 'abc\\0\\5')}",
    "return {struct.unpack('I1 c0 s', '\\3abcdef\\0')}",
    "return {struct.unpack('c0', 'abc')}",
    "return struct.pack('!8bi7i3I5', 1, 2, 3, 4)",
    "return {struct.unpack('!8bi3', '12345678')}",
    "return {struct.pack('I8', 2^64), struct.pack('I8', 2^63)}",
    "return {struct.pack('I8', 0/0), struct.pack('b', 1/0)}",
    "return {struct.pack('I8', -2^63), struct.pack('I8', -2^64), struct.pack('i4', -1/0)}",
    "return {struct.unpack('q', 'abc', 0)}",
    "return {struct.unpack('I1', 'abc', -1)}",
    "return {struct.unpack('I1', 'abc', 4)}",
    "return {struct.unpack('i0I0>i0', ''), struct.pack('i0', 5), struct.size('i0')}",
    "return {struct.unpack('i4', 'abc')}",
    "return {struct.unpack('s', 'abc')}",
    "return {struct.unpack('i1', 'abc', 3)}",
    "return {struct.unpack('i1', 'abc', 0)}",
    "return struct.pack('y', 1)",
    "return struct.pack('i3', 1)",
    "return struct.pack('i64', 1)",
    "return struct.pack('c5', 'abc')",
    "return struct.pack('!3 i4', 1)",
    "return {struct.size('i4 d !8 b d'), struct.size('c10'), struct.size('')}",
    "return struct.size('s')",
    "return struct.size('c0')",
    "return struct.pack('i4')",
    "return struct.pack('i4s', 1)",
    "return struct.pack('d', 'x')",
    "return struct.pack()",
    "return struct.unpack('i4')",
    "return {struct.unpack('c2147483647', 'a')}",
    "return struct.size('c2147483647c2147483647')",
    // cmsgpack
    "return cmsgpack.pack(1, -1, 127, 128, 255, 256, 65535, 65536, 2^32 - 1, 2^32, 2^53)",
    "return cmsgpack.pack(-32, -33, -128, -129, -32768, -32769, -2^31, -2^31 - 1, 0.5, 0.1)",
    "return cmsgpack.pack('', 'abc', ('x'):rep(32), ('x'):rep(256), true, false, nil)",
    "return cmsgpack.pack({}, {1, 2, 3}, {a = 1}, {[2] = 1}, {1, nil, 3}, {[1.5] = 2})",
    "local t = {} for i = 1, 20 do t = {t} end return cmsgpack.pack(t)",
    "return cmsgpack.pack()",
    "return {cmsgpack.unpack(cmsgpack.pack(1, 'a', {1, {b = 2}}, -5))}",
    "return {cmsgpack.unpack('\\204\\200\\208\\200\\205\\1\\2\\209\\255\\254')}",
    "return tostring(cmsgpack.unpack('\\202\\63\\0\\0\\0'))",
    "return {cmsgpack.unpack_one(cmsgpack.pack(1, 2, 3))}",
    "return {cmsgpack.unpack_one(cmsgpack.pack(1, 2, 3), 2)}",
    "return {cmsgpack.unpack_limit(cmsgpack.pack(1, 2, 3), 2)}",
    "return {cmsgpack.unpack_limit(cmsgpack.pack(1, 2, 3), 2, 1)}",
    "return {cmsgpack.unpack('\\255\\193')}",
    "return {cmsgpack.unpack('\\148\\1')}",
    "return {cmsgpack.unpack('')}",
    "return cmsgpack.unpack({})",
    "return {cmsgpack.unpack_one('\\1', -1)}",
    "return {cmsgpack.unpack_one('\\1', 5)}",
    "return {cmsgpack.unpack_one('abc', -1)}",
    "return {cmsgpack.unpack_limit('abc', -1)}",
    "return {cmsgpack.pack(2^63), cmsgpack.pack(2^63 - 1024)}",
    "return {cmsgpack.pack(-2^63), cmsgpack.pack(-2^64)}",
    "return {cmsgpack.pack(1e300), cmsgpack.pack(1/0, -1/0, 0/0), cmsgpack.pack({[2^63] = 2^64})}",
    "return tostring(cmsgpack.unpack(cmsgpack.pack(1e300)))",
    "return tostring(cmsgpack.unpack('\\207\\200\\0\\0\\0\\0\\0\\0\\1'))",
    // cjson
    "return cjson.encode({1, 2.5, 'x/\"\\n\\127\\1', {a = cjson.null}, 1e20, 1e100, -0.0, 0.1, 1/3})",
    "return {cjson.encode({}), cjson.encode({[3] = 1}), cjson.encode({[1.5] = 1}), cjson.encode('a')}",
    "return cjson.encode({[1000] = 1})",
    "return {cjson.encode({[1700000000000] = 1}), cjson.encode({[2^31] = 1})}",
    "return cjson.encode({[1e300] = 1})",
    "return {cjson.encode({1, 2, [1700000000000] = 3}), cjson.encode({[1/0] = 1})}",
    "return cjson.encode({[2^31 - 1] = 1})",
    "cjson.encode_sparse_array(true) return cjson.encode({[1000] = 1})",
    "return cjson.encode(0/0)",
    "cjson.encode_invalid_numbers(true) return cjson.encode({0/0, 1/0, -1/0})",
    "cjson.encode_invalid_numbers('null') return cjson.encode({0/0, 1/0})",
    "return {cjson.encode_invalid_numbers('null')}",
    "return cjson.encode(tostring)",
    "return cjson.encode({[true] = 1})",
    "return cjson.encode()",
    "cjson.encode_number_precision(3) local r = cjson.encode(3.14159) \
        cjson.encode_number_precision(14) return r",
    "return {cjson.encode_number_precision(20)}",
    "return {cjson.encode_keep_buffer('x')}",
    "return {cjson.encode_sparse_array(true, 3, 4)}",
    "cjson.encode_max_depth(2) local r = {pcall(cjson.encode, {{{1}}})} \
        cjson.encode_max_depth(1000) return r",
    "cjson.decode_max_depth(2) local r = {pcall(cjson.decode, '[[[1]]]')} \
        cjson.decode_max_depth(1000) return r",
    "cjson.decode_invalid_numbers(false) local r = {pcall(cjson.decode, '0x10')} \
        cjson.decode_invalid_numbers(true) return r",
    "local t = {} for i = 1, 1001 do t = {t} end return cjson.encode(t)",
    "return cjson.decode(string.rep('[', 1001))",
    "return cjson.decode('[1,\"a\",[true,false,null],{\"x\":-1.5e3}]')",
    "return cjson.decode('{\"a\":{\"b\":[1,2,3]}}').a.b",
    "return cjson.decode('\"\\\\u00e9\\\\ud83d\\\\ude00\\\\n\\\\/\"')",
    "return cjson.decode('{\"a\":tru}')",
    "return cjson.decode('')",
    "return cjson.decode('[1] x')",
    "return cjson.decode('\"\\\\u12\"')",
    "return cjson.decode('\"\\\\ud800\"')",
    "return cjson.decode('\"a')",
    "return cjson.decode('{\"a\" 1}')",
    "return cjson.decode('{1:1}')",
    "return cjson.decode('[1 2]')",
    "return cjson.decode('-')",
    "return cjson.decode('1e')",
    "return cjson.decode('[1,]')",
    "return tostring(cjson.decode('0x1f')) .. tostring(cjson.decode('-Infinity'))",
    "return cjson.decode('\"\\\\x\"')",
    "return cjson.decode()",
    "local c = cjson.new() c.encode_number_precision(2) return c.encode(1.234) .. cjson.encode(1.234)",
    // math.random
    "local t = {} for i = 1, 20 do t[i] = math.random(1000000) end return t",
    "math.randomseed(42) local t = {} for i = 1, 20 do t[i] = math.random(-50, 50) end return t",
    "math.randomseed(-7) return {tostring(math.random()), tostring(math.random())}",
    "return math.random(1, 2, 3)",
    "return math.random(5, 1)",
    "return math.random('x')",
    // Lua itself, and the sandbox
    "return {1.9, 2, {3}, false, 4, nil, 5}",
    "return {pcall(error, 'x')}",
    "return {pcall(error, {err = 'MY'})}",
    "return {pcall(redis.call)}",
    "return {pcall(function() local x = nil; return x.y end)}",
    "return {xpcall(function() error('a') end, function(e) return e .. '!' end)}",
    "local x return x.y",
    "return nosuch.x",
    "\n\nerror('on the third')",
    "local function f()\n error('inner')\n end\n f()",
    "return tostring(1e15) .. tostring(0.1) .. tostring(1/3)",
    "return string.format('%5.2f|%d|%s|%q', 1.005, 42, 'x', 'a\"b')",
    "return {string.find('hello world', '(o)(.)')}",
    "return string.gsub('hello', 'l', {l = 'L'})",
    "return {unpack({1, 2, 3}, 2, 3)}",
    "return table.concat({1, 2, 'x'}, ',')",
    "return select('#', 1, 2, nil)",
    "return {tostring(nil), tonumber('0x10'), tonumber('z', 36), tonumber('x') == nil}",
    "return string.format('%99999d', 1)",
    "return string.format('%100d', 1)",
    "return {pcall(table.concat, {1, {}})}",
    "return {pcall(unpack, {}, 1, 1e7)}",
    "return {pcall(unpack, {}, -1e9, 1e9)}",
    "return {pcall(function() table.sort({3, 1, 2, 5, 4, 9, 8}, function() return true end) end)}",
    "return string.rep('x', -1)",
    "return string.gsub('x', 'x')",
    "return ('x'):gsub('(', 'y')",
    "return ('x'):gsub('x', function() return {} end)",
    "return string.gsub('x', 'x', 'y', {})",
    "return string.find('x', '[a')",
    "return string.find('x', '%')",
    "return string.match('x', ('()'):rep(33))",
    "return string.match()",
    "local s = ('x'):gsub('x') return s",
    "local s = ('x'):gsub('x', 'y', {}) return s",
    "return ('x'):find({})",
    "local f = string.match return f('x')",
    "return {pcall(string.find)}",
    "return {('a1b22'):gsub('%d+', function(d) return '<' .. d .. '>' end)}",
    "return cjson.decode(string.rep('[', 1e6))",
    "return redis.call('echo', nil)",
    "return redis.call('echo', false)",
    "return redis.sha1hex('')",
    "return redis.error_reply('-A b')",
    "return redis.error_reply('A b\\r\\n')",
    "return redis.error_reply(1)",
    "return redis.status_reply('OK then')",
    "return redis.status_reply('OK\\0then')",
    "return {ok = 'a\\0b'}",
    "return {err = 'a\\0b'}",
    "return redis.error_reply('a\\0b')",
    "error({err = 'a\\0b'})",
    "error('a\\0b')",
    "return {redis.LOG_DEBUG, redis.LOG_WARNING, redis.REPL_ALL, redis.REPL_SLAVE}",
    "return {redis.REDIS_VERSION, redis.REDIS_VERSION_NUM, redis.breakpoint(), redis.replicate_commands()}",
    "return redis.setresp()",
    "return redis.set_repl(7)",
    "return redis.log(9, 'x')",
    "return redis.log('x', 'x')",
    "return redis.acl_check_cmd()",
    "return redis.call('ping')",
    "return redis.call('echo', 12, 3)",
    "return redis.call('echo', 3.14)",
    "return redis.call('echo', 1e20)",
    "return redis.pcall('nosuch')",
    "return redis.call({})",
    "return loadstring('return 1 +')",
    "return {loadstring('return 1 +')}",
    "x = 1",
    "return ]]",
    "goto x",
];

/// Returns a reply on one line.
fn ours(reply: &Reply) -> String {
    let lossy = |bytes: &[u8]| bytes.escape_ascii().to_string();
    match reply {
        Reply::Nil => "nil".to_owned(),
        Reply::Status(text) => format!("+{}", lossy(text)),
        Reply::Error { message, .. } => format!("-{}", lossy(message)),
        Reply::Integer(number) => format!(":{number}"),
        Reply::Bulk(bytes) => format!("${}", lossy(bytes)),
        Reply::Array(items) => items.iter().map(ours).collect::<Vec<_>>().join(" ") + ";",
        other => format!("{other:?}"),
    }
}

fn theirs(reply: &testkit::Reply) -> String {
    use testkit::Reply as Theirs;
    match reply {
        Theirs::Nil => "nil".to_owned(),
        Theirs::Simple(text) => format!("+{text}"),
        Theirs::Error(text) => format!("-{}", text.trim_end().as_bytes().escape_ascii()),
        Theirs::Int(number) => format!(":{number}"),
        Theirs::Bulk(bytes) => format!("${}", bytes.escape_ascii()),
        Theirs::Array(items) => items.iter().map(theirs).collect::<Vec<_>>().join(" ") + ";",
        other => format!("{other:?}"),
    }
}

/// Returns scripts that exceed a limit of Lua's compiler, or that it must be able to handle.
fn long_scripts() -> Vec<String> {
    let many = |count: usize, item: &dyn Fn(usize) -> String| -> String {
        (0..count).map(item).collect::<Vec<_>>().join("")
    };
    let locals = many(201, &|n| format!("local a{n} = 1\n"));
    let outer = many(150, &|n| format!("local a{n} = 1 "));
    let inner = many(70, &|n| format!("a{n}, "));
    let nested = ("(".repeat(300), ")".repeat(300));
    vec![
        locals.clone(),
        format!("function f() {locals} end"),
        format!("return {{loadstring([[{locals}]])}}"),
        format!("{outer} local function f() return {inner} 1 end return f()"),
        format!("return {}1{}", nested.0, nested.1),
        format!("return {}1", "-".to_owned() + &" -".repeat(300)),
        format!("return {}1", "1+".repeat(30_000)),
        format!("return {}'a'", "'a'..".repeat(3000)),
        format!("{}{}", "while true do ".repeat(300), "end ".repeat(300)),
        format!("local x = 1 {} return x", "x = x + 1 ".repeat(200_000)),
        format!("local t = {{{}}} return #t", many(300_000, &|n| format!("{n},"))),
        format!("return f({}1)", "1,".repeat(300)),
        format!("return #'{}'", "x".repeat(3 << 20)),
        format!("{}error('x')", "\n".repeat(2 << 20)),
        format!("return 1 --[[{}]]", "\0".repeat(1 << 20)),
    ]
}

#[test]
fn scripts_reply_as_in_redis() {
    let server = Launch::redis().start();
    let mut client = server.client();
    let mut differences = Vec::new();
    let long = long_scripts();
    let scripts = SCRIPTS.iter().copied().chain(long.iter().map(String::as_str));
    for source in scripts {
        let expected = theirs(&client.call(&["EVAL", source, "0"]));
        let mut interpreter = Interpreter::new(MEMORY).expect("an interpreter");
        let found = match interpreter.load(source.as_bytes()) {
            Err(error) => format!("-{}", error.to_string().as_bytes().escape_ascii()),
            Ok(script) => {
                let mut host = TestHost::default();
                ours(&interpreter.run(&script, Invocation::default(), &mut host).reply)
            }
        };
        if found != expected {
            differences.push(format!("{source:.200}\n  redis {expected}\n  ours  {found}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
