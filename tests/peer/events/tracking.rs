//! Tracking, with all combinations of options: several clients read the same keys, alone, after
//! CLIENT CACHING, in transactions and scripts; others change or delete them; and each server is
//! asked about its state.

use super::Story;
use super::commands::{KEYS, of};
use super::history::{ADMIN, Act, Step};
use super::watching::with_case;
use crate::steps::{Words, words};

/// Connections that track keys.
const TRACKERS: [usize; 3] = [1, 2, 5];
/// Prefixes of keys, among them whole keys, and overlapping ones.
const PREFIXES: &[&str] =
    &["s", "s1", "s12", "l", "l2", "h", "h1", "t", "z", "z2", "x", "none", "n"];
const READING: &[&str] = &["EXISTS", "TTL", "TYPE", "MGET", "TOUCH", "SORT_RO"];
/// Commands between CLIENT CACHING and a read.
const BETWEEN: &[&str] = &[
    "CLIENT GETREDIR",
    "CLIENT TRACKINGINFO",
    "CLIENT GETNAME",
    "PING",
    "NOSUCH",
    "CLIENT TRACKING off",
    "MULTI",
    "CLIENT CACHING yes",
    "CLIENT CACHING no",
    "RESET",
];
/// Commands that may change a key.
const CHANGING: &[&str] = &[
    "SET * v",
    "DEL *",
    "UNLINK *",
    "EXPIRE * 1000",
    "PERSIST *",
    "EXPIRE * -1",
    "RENAME * none",
    "RENAME s1 *",
    "COPY s2 * REPLACE",
    "MOVE * 1",
    "SETNX * v",
    "APPEND * w",
    "LPUSH * a",
    "HSET * f v",
    "SADD * m",
    "ZADD * 1 m",
    "SET * v PX 100000",
    "GETSET * v",
];

impl Story<'_> {
    /// Returns one of the connections that track keys.
    pub(super) fn tracker(&mut self) -> usize {
        TRACKERS[self.random.usize(..TRACKERS.len())]
    }

    pub(super) fn tracking(&mut self) {
        let by = self.tracker();
        match self.random.u8(..12) {
            0..4 => self.switch(by),
            4 => self.line_of(
                by,
                &[
                    "CLIENT CACHING yes",
                    "CLIENT CACHING no",
                    "CLIENT CACHING maybe",
                    "CLIENT GETREDIR",
                    "CLIENT TRACKINGINFO",
                    "CLIENT TRACKING maybe",
                    "HELLO 2",
                    "HELLO 3",
                ],
            ),
            5 if self.random.u8(..4) == 0 => {
                let gone = self.random.usize(3..5);
                self.history.admin(&format!("CLIENT KILL ID <id{gone}>"));
                self.followed();
                self.line(by, "CLIENT TRACKINGINFO");
                self.history.admin("CLIENT LIST");
            }
            _ => self.followed(),
        }
    }

    /// Switches tracking on or off.
    pub(super) fn switch(&mut self, by: usize) {
        if self.random.u8(..6) == 0 {
            return self.line(by, "CLIENT TRACKING off");
        }
        self.switch_on(by);
        if self.random.u8(..4) == 0 {
            // Switches from some options to others.
            self.switch_on(by);
            self.line_of(by, &["CLIENT TRACKINGINFO", "CLIENT CACHING yes", "CLIENT CACHING no"]);
        }
    }

    fn switch_on(&mut self, by: usize) {
        let mut options: Vec<String> = Vec::new();
        let is_sound = self.random.u8(..4) > 0;
        // A write and the client that it serves cause two messages here, and one in Redis.
        let is_broadcast = !self.blocks && self.random.u8(..3) == 0;
        if is_broadcast {
            options.push("BCAST".into());
        }
        if is_broadcast || !is_sound {
            for _ in 0..self.random.usize(..4) {
                options.push(format!("PREFIX {}", of(PREFIXES, &mut self.random)));
            }
        }
        if !is_broadcast || !is_sound {
            options.extend(match self.random.u8(..4) {
                0 => vec!["OPTIN".into()],
                1 => vec!["OPTOUT".into()],
                2 | 3 if !is_sound => vec!["OPTOUT".into(), "OPTIN".into()],
                _ => vec![],
            });
        }
        // In Redis, a client whose write serves another one is not notified of the removal.
        if !self.blocks && self.random.u8(..if is_broadcast { 3 } else { 5 }) == 0 {
            self.has_no_loop = true;
            options.push("NOLOOP".into());
        }
        if self.random.u8(..4) == 0 {
            let own = format!("REDIRECT <id{by}>");
            // For a transaction, monitors see it before its invalidations, and in Redis after; so
            // does a keyspace event, unless tracking is by prefix.
            let is_silent = |id| match id {
                3 => is_broadcast || !self.has_events,
                _ => self.monitoring == 0,
            };
            let others: Vec<String> =
                (3..5).filter(|id| is_silent(*id)).map(|id| format!("REDIRECT <id{id}>")).collect();
            let mut all: Vec<&str> = others.iter().map(String::as_str).collect();
            all.extend(["REDIRECT 987654", &own]);
            options.push(of(&all, &mut self.random).into());
        }
        self.random.shuffle(&mut options);
        leave_overlaps(&mut options);
        let line = format!("CLIENT TRACKING on {}", options.join(" "));
        let words = with_case(words(line.trim_end()), &mut self.random);
        self.history.add(by, words);
        if line.contains("REDIRECT") && self.random.bool() {
            self.line(4, "SUBSCRIBE __redis__:invalidate");
        }
        if let Some(to) = (3..5).find(|to| line.contains(&format!("REDIRECT <id{to}>")))
            && self.random.u8(..6) == 0
        {
            self.broken(by, to);
        }
    }

    /// The client that gets the invalidations of another one ends.
    fn broken(&mut self, by: usize, to: usize) {
        let key = of(KEYS, &mut self.random);
        self.cached(by, &[key]);
        self.history.admin(&format!("CLIENT KILL ID <id{to}>"));
        self.change(&[key]);
        self.line(by, "CLIENT TRACKINGINFO");
        self.history.admin("CLIENT LIST");
        if self.random.bool() {
            self.line(by, "CLIENT TRACKING on");
            self.line(by, "CLIENT TRACKINGINFO");
        }
    }

    /// Several clients read keys, which then change.
    fn followed(&mut self) {
        let keys: Vec<&str> =
            (0..self.random.usize(1..3)).map(|_| of(KEYS, &mut self.random)).collect();
        for _ in 0..self.random.usize(1..4) {
            let by = self.tracker();
            self.cached(by, &keys);
        }
        if self.random.u8(..4) == 0 {
            // A client that redirects its invalidations must not be subscribed to them by chance.
            let by = self.tracker();
            self.cached(by, &keys);
            self.line_of(by, &["SUBSCRIBE news.a", "SUBSCRIBE __redis__:invalidate"]);
            self.change(&keys);
            self.line(by, "UNSUBSCRIBE");
        }
        if self.random.u8(..3) == 0 {
            self.history.admin("INFO everything");
        }
        if self.random.u8(..4) > 0 {
            self.change(&keys);
        }
        let by = self.tracker();
        match self.random.u8(..6) {
            0 => self.history.admin("INFO everything"),
            1 => self.history.admin("CLIENT LIST"),
            2 => self.line(by, "CLIENT TRACKINGINFO"),
            _ => {}
        }
    }

    fn read_of(&mut self, key: &str) -> Words {
        words(&format!("{} {key}", of(READING, &mut self.random)))
    }

    /// A client reads keys, perhaps after CLIENT CACHING.
    fn cached(&mut self, by: usize, keys: &[&str]) {
        if self.random.u8(..3) > 0 {
            // One of them is refused, depending on the mode.
            self.line(by, "CLIENT CACHING yes");
            self.line(by, "CLIENT CACHING no");
        }
        let mut is_queued = false;
        if self.random.u8(..4) == 0 {
            let line = of(BETWEEN, &mut self.random);
            self.line(by, line);
            is_queued = line == "MULTI";
            if line == "CLIENT TRACKING off" {
                self.switch(by);
            }
        }
        if !is_queued && self.random.u8(..8) == 0 {
            // Earlier choices must not count any more.
            self.line(by, "CLIENT TRACKING off");
            self.line_of(by, &["CLIENT TRACKING on OPTIN", "CLIENT TRACKING on OPTOUT"]);
        }
        if !is_queued && self.random.u8(..4) == 0 {
            self.line(by, "MULTI");
            is_queued = true;
        }
        for key in keys {
            if is_queued && self.random.bool() {
                self.change_by(by, key);
            }
            let read = self.read_of(key);
            if !self.has_no_loop && self.random.u8(..6) == 0 {
                let script = b"return redis.call(unpack(ARGV))";
                let name = of(&["EVAL", "EVAL_RO"], &mut self.random).as_bytes().to_vec();
                // Sometimes it reads nothing of what it declares.
                let script = if self.random.bool() { script.as_slice() } else { b"return 1" };
                let head = [name, script.to_vec(), b"1".to_vec(), key.as_bytes().into()];
                self.history.add(by, head.into_iter().chain(read).collect());
            } else {
                self.history.add(by, read);
            }
        }
        if is_queued {
            self.line_of(by, &["EXEC", "EXEC", "EXEC", "DISCARD"]);
            if self.random.bool() {
                let read = self.read_of(keys[0]);
                self.history.add(by, read);
            }
        }
    }

    fn change(&mut self, keys: &[&str]) {
        // Often one of the clients that may have used NOLOOP.
        let by = if self.random.bool() { self.tracker() } else { self.anyone() };
        if self.random.u8(..12) == 0 {
            return self.line_of(by, &["FLUSHDB", "FLUSHALL", "SWAPDB 0 1"]);
        }
        let is_queued = self.random.u8(..6) == 0;
        if is_queued {
            self.line(by, "MULTI");
        }
        for key in keys {
            self.change_by(by, key);
        }
        if is_queued {
            self.line(by, "EXEC");
        }
    }

    fn change_by(&mut self, by: usize, key: &str) {
        let line = of(CHANGING, &mut self.random).replace('*', key);
        self.line(by, &line);
    }

    /// A key that was just read expires, and the administrator, who tracks nothing, looks at it:
    /// here, a client that read the key too late is notified that it expired.
    pub(super) fn expire_for_trackers(&mut self, made: Words, look: Words) {
        let (by, key) = (self.tracker(), String::from_utf8_lossy(&made[1]).into_owned());
        self.line(by, "MULTI");
        let is_past = made.iter().any(|word| word.ends_with(b"XAT"));
        self.history.add(by, made);
        if !is_past {
            let read = self.read_of(&key);
            self.history.add(by, read);
        }
        self.history.steps.push(Step { connection: by, act: Act::Expiring(words("EXEC")) });
        self.history.add(ADMIN, look);
    }
}

/// Avoids those overlaps of prefixes that redis-server 7.0 detects: it reports those of other
/// prefixes than the first, and continues.
fn leave_overlaps(options: &mut Vec<String>) {
    let mut later: Vec<String> = Vec::new();
    let mut is_first = true;
    options.retain(|option| {
        if !option.starts_with("PREFIX") || std::mem::take(&mut is_first) {
            return true;
        }
        let overlaps = |other: &String| option.starts_with(&**other) || other.starts_with(option);
        let is_kept = !later.iter().any(overlaps);
        later.push(option.clone());
        is_kept
    });
}
