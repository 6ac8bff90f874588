//! Commands within transactions and scripts, and commands that wait.

use super::Story;
use super::commands::{DATABASES, KEYS, filled, of};
use super::history::{Act, Step};
use crate::steps::{Words, words};

/// Without XREAD: if XADD serves it, one more hit is counted here.
pub(super) const BLOCKING: &[&str] = &[
    "BLPOP $l $l 0",
    "BRPOP $l none 0",
    "BLMOVE $l $l LEFT RIGHT 0",
    "BRPOPLPUSH $l $l 0",
    "BLMPOP 0 2 $l $l LEFT",
    "BZPOPMIN $z $z 0",
    "BZPOPMAX $z none 0",
    "BZMPOP 0 2 $z $z MIN",
    "BLPOP none 0",
    "BZPOPMIN none 0",
];
/// Commands that may end a wait. Without UNBLOCK: an unblocked client has a failed call in Redis,
/// and none here.
const SERVING: &[&str] = &[
    "RPUSH $l a b c",
    "LPUSH none a",
    "ZADD $z 1 a 2 b",
    "ZADD none 1 a",
    "XADD $x 8-* f v",
    "DEL none",
    "RENAME $l none",
    "DEL $x",
    "XGROUP DESTROY $x g",
    "DEL $l $l $z $z",
    "SORT l1 ALPHA STORE none",
    "COPY l1 none",
    "SWAPDB 0 1",
    "LMOVE l1 none LEFT LEFT",
];

/// Quotes a word for Lua.
fn quoted(word: &[u8]) -> String {
    let byte = |byte: &u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b' ' | b'-' | b'*' => {
            char::from(*byte).to_string()
        }
        other => format!("\\{other:03}"),
    };
    format!("'{}'", word.iter().map(byte).collect::<String>())
}

impl Story<'_> {
    fn any(&mut self) -> Words {
        match self.random.u8(..16) {
            0..10 => self.any_write(),
            10..13 => self.any_read(),
            13 => filled(DATABASES, &[], &mut self.random),
            14 if !self.is_slow => filled(BLOCKING, &[], &mut self.random),
            _ => self.any_mistake(),
        }
    }

    /// Returns a command on keys.
    fn any_of_keys(&mut self) -> Words {
        match self.random.u8(..16) {
            0..10 => self.any_write(),
            10..14 => self.any_read(),
            14 if !self.is_slow => filled(BLOCKING, &[], &mut self.random),
            _ => self.any_mistake(),
        }
    }

    /// Queues commands by MULTI, while another connection continues.
    pub(super) fn transaction(&mut self, by: usize) {
        if self.random.u8(..4) == 0 {
            self.filled(by, &["WATCH $k", "WATCH $k $k"]);
            if self.random.bool() {
                self.write(3 - by);
            }
        }
        self.line(by, "MULTI");
        if self.random.u8(..6) == 0 {
            self.history.admin("CLIENT LIST");
        }
        // Sometimes no commands at all.
        for _ in 0..self.random.usize(..6) {
            let queued = match self.random.u8(..12) {
                0 => self.any_script(!self.listens[by]),
                1 if !self.listens[by] => {
                    filled(&["PUBLISH news.a m", "SPUBLISH news.a m"], &[], &mut self.random)
                }
                // Redis forgets at once what was read before a FLUSHALL; here that is remembered.
                _ if self.tracking > 0 => self.any_of_keys(),
                _ => self.any(),
            };
            self.add(by, queued);
            if self.random.u8(..6) == 0 {
                self.write(3 - by);
            }
        }
        if self.random.u8(..6) == 0 {
            self.history.admin("CLIENT LIST");
        }
        self.line_of(by, &["EXEC", "EXEC", "EXEC", "EXEC", "DISCARD"]);
    }

    pub(super) fn script(&mut self, by: usize) {
        // A subscriber gets its own message before the reply of its script in Redis 7.0.
        let script = self.any_script(!self.listens[by]);
        self.add(by, script);
    }

    fn any_script(&mut self, publishes: bool) -> Words {
        if self.has_no_loop {
            return self.any_write();
        }
        if self.random.u8(..5) == 0 {
            let name = of(&["FCALL f", "FCALL f", "FCALL_RO f"], &mut self.random);
            let mut call = words(&format!("{name} {} {}", KEYS.len(), KEYS.join(" ")));
            call.extend(self.any_of_keys());
            return call;
        }
        let mut program = String::new();
        if self.random.u8(..10) == 0 {
            // Only as the first call: the commands before it are executed twice, and counted.
            program +=
                &format!("redis.call('{}') ", of(&["FLUSHALL", "FLUSHDB"], &mut self.random));
        }
        for _ in 0..self.random.usize(1..4) {
            let words: Vec<String> = self.any_of_keys().iter().map(|word| quoted(word)).collect();
            let how = of(&["call", "pcall", "pcall"], &mut self.random);
            program += &format!("redis.{how}({}) ", words.join(","));
        }
        if self.random.u8(..8) == 0 && publishes {
            program += "redis.call('PUBLISH', 'news.a', 'hi') ";
        }
        program += of(&["return 1", "", "return redis.error_reply('MINE x')"], &mut self.random);
        let name = of(&["EVAL", "EVAL", "EVAL", "EVAL_RO"], &mut self.random);
        // All keys are declared: a script that needs another one is executed twice, and counted.
        let keys = format!("{} {}", KEYS.len(), KEYS.join(" "));
        let mut call = vec![name.as_bytes().to_vec(), program.into_bytes()];
        call.extend(words(&keys));
        call
    }

    /// Lets a key be evicted, the only one that can be, after clients have read it.
    pub(super) fn evict(&mut self, by: usize) {
        self.history.admin("CONFIG SET maxmemory-policy volatile-ttl");
        self.history.admin("FLUSHALL");
        self.history.admin("SET s1 v EX 100000");
        for by in [1, 2, 5] {
            self.line(by, "TYPE s1");
        }
        self.history.admin("CONFIG SET maxmemory 1");
        self.line_of(by, &["SET s2 v", "GET s1", "LPUSH l1 a", "DEL s1", "APPEND s1 v"]);
        self.history.admin("CONFIG SET maxmemory 0");
        self.history.admin("DBSIZE");
    }

    /// Makes a connection wait, and others execute commands that may end that.
    pub(super) fn block(&mut self) {
        let by = self.anyone();
        let words = filled(BLOCKING, &[], &mut self.random);
        self.history.steps.push(Step { connection: by, act: Act::MayBlock(words) });
        if self.is_slow {
            // The number of polls for the wait is undefined.
            self.history.admin("SLOWLOG RESET");
        }
        for _ in 0..self.random.usize(1..4) {
            let serving = filled(SERVING, &[], &mut self.random);
            self.add(3 - by, serving);
        }
    }
}
