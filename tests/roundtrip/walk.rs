//! Reads a dump by the format's description, and by nothing that the code under test has: every
//! length, every limit of an encoding, every count of what follows.

use std::collections::BTreeMap;

use crate::engine::Smallness;
use crate::packed::{Input, Read, intset, listpack};

/// How a dump was written.
#[derive(Clone, Copy)]
pub(crate) struct Form {
    pub(crate) smallness: Smallness,
    pub(crate) is_for_valkey: bool,
    pub(crate) compresses: bool,
}

/// A key, with the places of what somebody may change.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) kind: u8,
    pub(crate) kind_at: usize,
    pub(crate) expires: Option<(u64, usize)>,
    pub(crate) elements: usize,
    /// Where the times end at which consumers were seen.
    pub(crate) seen: Vec<usize>,
}

/// What a dump contains.
#[derive(Default)]
pub(crate) struct Walked {
    pub(crate) keys: BTreeMap<(usize, Vec<u8>), Key>,
    pub(crate) libraries: usize,
    pub(crate) aux: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Where its end is marked.
    pub(crate) end: usize,
}

struct Walk<'b> {
    input: Input<'b>,
    form: Form,
    seen: Vec<usize>,
}

/// Reads a dump from end to end.
pub(crate) fn walk(bytes: &[u8], form: Form) -> Read<Walked> {
    let input = Input { bytes, at: 0, compresses: form.compresses };
    let mut walk = Walk { input, form, seen: Vec::new() };
    let walked = walk.file();
    walked.map_err(|what| format!("{what}, before byte {}", walk.input.at))
}

impl Walk<'_> {
    fn file(&mut self) -> Read<Walked> {
        let head: &[u8] = if self.form.is_for_valkey { b"VALKEY080" } else { b"REDIS0010" };
        if self.input.take(head.len())? != head {
            return Err("it begins otherwise".into());
        }
        let (mut walked, mut db, mut sizes) = (Walked::default(), 0, BTreeMap::new());
        let (mut expires, mut usages) = (None, 0);
        loop {
            let at = self.input.at;
            match self.input.byte()? {
                0xfa => {
                    let name = self.input.string()?;
                    walked.aux.insert(name, self.input.string()?);
                }
                0xf5 => {
                    self.input.string()?;
                    walked.libraries += 1;
                }
                0xfe => db = self.input.length()? as usize,
                0xfb => {
                    let size = (self.input.length()?, self.input.length()?);
                    sizes.insert(db, size).map_or(Ok(()), |_| Err("sizes come twice"))?;
                }
                0xfc => expires = Some((self.input.number(8)?, at + 1)),
                0xf8 => usages += usize::from(self.input.length().is_ok()),
                0xf9 => usages += usize::from(self.input.byte().is_ok()),
                0xff => {
                    walked.end = at;
                    break;
                }
                kind => {
                    let name = self.input.string()?;
                    let elements = self
                        .value(kind)
                        .map_err(|what| format!("{what}\nof key {}", name.escape_ascii()))?;
                    let seen = std::mem::take(&mut self.seen);
                    let expires = expires.take();
                    let key = Key { kind, kind_at: at, expires, elements, seen };
                    let before = walked.keys.insert((db, name), key);
                    before.map_or(Ok(()), |key| Err(format!("twice: {key:?}")))?;
                }
            }
        }
        self.input.take(8)?;
        if self.input.at != self.input.bytes.len() || usages > walked.keys.len() {
            return Err("it does not end".into());
        }
        for (db, size) in sizes {
            let keys = walked.keys.iter().filter(|((other, _), _)| *other == db);
            let expiring = keys.clone().filter(|(_, key)| key.expires.is_some()).count() as u64;
            if size != (keys.count() as u64, expiring) {
                return Err(format!("database {db} says {size:?} keys, {expiring} of them expire"));
            }
        }
        Ok(walked)
    }

    /// Returns the number of elements.
    fn value(&mut self, kind: u8) -> Read<usize> {
        let input = &mut self.input;
        match kind {
            0 => input.string().map(|_| 1),
            2 => (0..input.length()?).try_fold(0, |count, _| {
                input.string()?;
                Ok(count + 1)
            }),
            4 => {
                let strings: Vec<_> =
                    (0..2 * input.length()?).map(|_| input.string()).collect::<Read<_>>()?;
                self.form.check_small(false, false, &strings)?;
                Ok(strings.len() / 2)
            }
            5 => {
                let members: Vec<_> = (0..input.length()?)
                    .map(|_| {
                        let member = input.string()?;
                        input.take(8)?;
                        Ok(member)
                    })
                    .collect::<Read<_>>()?;
                self.form.check_small(false, true, &members)?;
                Ok(members.len())
            }
            11 => intset(&input.string()?),
            16 | 17 => {
                let is_sorted = kind == 17;
                let all = listpack(&input.string()?)?.into_iter().map(|(element, _)| element);
                let counted = |at: &usize| !is_sorted || at.is_multiple_of(2);
                let all: Vec<_> = all.collect();
                let some = all.iter().enumerate().filter(|(at, _)| counted(at));
                let some: Vec<_> = some.map(|(_, element)| element.clone()).collect();
                self.form.check_small(true, is_sorted, &some)?;
                Ok(all.len() / 2)
            }
            18 => self.list(),
            19 => self.stream(),
            22 if self.form.is_for_valkey => (0..input.length()?).try_fold(0, |count, _| {
                input.string()?;
                input.string()?;
                input.take(8)?;
                Ok(count + 1)
            }),
            24 => self.timed(),
            _ => Err(format!("a value of kind {kind}")),
        }
    }

    fn timed(&mut self) -> Read<usize> {
        let earliest = self.input.number(8)?;
        let mut least = u64::MAX;
        let count = self.input.length()?;
        for _ in 0..count {
            let after = self.input.length()?;
            least = least.min(after.wrapping_sub(1));
            self.input.string()?;
            self.input.string()?;
        }
        let is_large = earliest == 1;
        match self.form.is_for_valkey || least == u64::MAX || !is_large && least != 0 {
            true => Err(format!("the first of {count} times is {least} ms after {earliest}")),
            false => Ok(count as usize),
        }
    }

    fn list(&mut self) -> Read<usize> {
        let mut nodes = Vec::new();
        for _ in 0..self.input.length()? {
            if self.input.length()? != 2 {
                return Err("a node that is no listpack".into());
            }
            let pack = self.input.string()?;
            nodes.push((pack.len(), listpack(&pack)?));
        }
        let (most, bytes) = self.form.list_node();
        for (len, elements) in &nodes {
            if elements.is_empty() || elements.len() > 1 && (elements.len() > most || *len > bytes)
            {
                return Err(format!("a node of {len} bytes and {} elements", elements.len()));
            }
        }
        for pair in nodes.windows(2) {
            let (len, elements) = &pair[0];
            let next = pair[1].1[0].0.len();
            if elements.len() < most && len + next + 10 <= bytes {
                return Err(format!("a node of {len} bytes, and {next} bytes in another one"));
            }
        }
        Ok(nodes.iter().map(|(_, elements)| elements.len()).sum())
    }

    fn id(&mut self) -> Read<(u64, u64)> {
        Ok((self.input.length()?, self.input.length()?))
    }

    fn stream(&mut self) -> Read<usize> {
        let (mut ids, mut before) = (Vec::new(), None);
        for _ in 0..self.input.length()? {
            let base = self.input.string()?;
            let base = [&base[..8], &base[8..]]
                .map(|half| half.iter().fold(0, |all, byte| all << 8 | u64::from(*byte)));
            let node = StreamNode::of(&self.input.string()?, base)?;
            node.check(self.form, before)?;
            before = Some((node.len, node.ids.len()));
            ids.extend(node.ids);
        }
        let (length, last, first) = (self.input.length()? as usize, self.id()?, self.id()?);
        let (deleted, added) = (self.id()?, self.input.length()?);
        let is_right = length == ids.len()
            && ids.is_sorted_by(|a, b| a < b)
            && first == ids.first().copied().unwrap_or_default()
            && last >= ids.last().copied().unwrap_or_default()
            && added >= length as u64;
        if !is_right {
            return Err(format!("{length} entries, {first:?} to {last:?}, {deleted:?}, {added}"));
        }
        for _ in 0..self.input.length()? {
            self.group()?;
        }
        Ok(length)
    }

    fn group(&mut self) -> Read<()> {
        let name = self.input.string()?;
        self.id()?;
        self.input.length()?;
        let mut pending = Vec::new();
        for _ in 0..self.input.length()? {
            pending.push(self.input.take(16)?);
            self.input.take(8)?;
            self.input.length()?;
        }
        let (is_sorted, mut owned) = (pending.is_sorted_by(|a, b| a < b), Vec::new());
        for _ in 0..self.input.length()? {
            self.input.string()?;
            self.input.take(8)?;
            self.seen.push(self.input.at);
            for _ in 0..self.input.length()? {
                owned.push(self.input.take(16)?);
            }
        }
        owned.sort_unstable();
        match is_sorted && owned == pending {
            true => Ok(()),
            false => Err(format!("what is pending in group {}", name.escape_ascii())),
        }
    }
}

struct StreamNode {
    ids: Vec<(u64, u64)>,
    len: usize,
    /// The bytes of the first and of the last entry, and the place of the last.
    first: usize,
    last: usize,
    last_at: usize,
}

impl StreamNode {
    fn of(pack: &[u8], base: [u64; 2]) -> Read<StreamNode> {
        let elements = listpack(pack)?;
        let mut rest = elements.iter();
        let next = |rest: &mut std::slice::Iter<'_, (Vec<u8>, usize)>| {
            let (text, at) = rest.next().ok_or("a node ends early")?;
            Ok::<_, String>((text.clone(), *at))
        };
        let int = |text: &[u8]| -> Read<i64> {
            String::from_utf8_lossy(text).parse().map_err(|_| "no number in a node".to_owned())
        };
        let head: Vec<i64> = (0..3)
            .map(|_| next(&mut rest).and_then(|(text, _)| int(&text)))
            .collect::<Read<_>>()?;
        let names: Vec<_> =
            (0..head[2]).map(|_| next(&mut rest).map(|(text, _)| text)).collect::<Read<_>>()?;
        let mut node =
            StreamNode { ids: Vec::new(), len: pack.len(), first: 0, last: 0, last_at: 0 };
        if int(&next(&mut rest)?.0)? != 0 || head[1] != 0 {
            return Err("a node's first entry".into());
        }
        while rest.len() > 0 {
            let (flags, at) = next(&mut rest)?;
            let (ms, seq) = (int(&next(&mut rest)?.0)?, int(&next(&mut rest)?.0)?);
            let is_same = int(&flags)? == 2;
            let count = if is_same { head[2] } else { int(&next(&mut rest)?.0)? };
            let (mut fields, mut bytes) = (names.clone(), 0);
            for n in 0..count as usize {
                if !is_same {
                    fields.resize(count as usize, Vec::new());
                    fields[n] = next(&mut rest)?.0;
                }
                bytes += fields[n].len() + next(&mut rest)?.0.len();
            }
            let back = int(&next(&mut rest)?.0)?;
            let expected = if is_same { count + 3 } else { 2 * count + 4 };
            if back != expected || !is_same && (fields == names || int(&flags)? != 0) {
                return Err(format!("an entry of {count} fields, {back} back"));
            }
            node.first = if node.ids.is_empty() { bytes } else { node.first };
            (node.last, node.last_at) = (bytes, at);
            node.ids.push((base[0].wrapping_add(ms as u64), base[1].wrapping_add(seq as u64)));
        }
        match node.ids.len() as i64 == head[0] && node.ids[0] == (base[0], base[1]) {
            true => Ok(node),
            false => Err(format!("a node of {} entries, {}", head[0], node.ids.len())),
        }
    }

    /// Checks the size of this node, and of the one before it.
    fn check(&self, form: Form, before: Option<(usize, usize)>) -> Read<()> {
        let (bytes, entries) = form.stream_node();
        let is_over = self.ids.len() > entries
            || self.ids.len() > 1 && self.last_at + self.last >= bytes + 16;
        let is_under =
            before.is_some_and(|(len, count)| count < entries && len + self.first + 16 < bytes);
        match is_over || is_under {
            true => Err(format!("a node of {} entries after {before:?}", self.ids.len())),
            false => Ok(()),
        }
    }
}

impl Form {
    /// Returns the maximum number of elements, and of bytes.
    fn list_node(self) -> (usize, usize) {
        match self.smallness {
            Smallness::Usual => (usize::MAX, 8192),
            Smallness::Least => (2, 8192),
            Smallness::Most => (usize::MAX, 65_536),
        }
    }

    /// Returns the maximum number of bytes, and of entries.
    fn stream_node(self) -> (usize, usize) {
        match self.smallness {
            Smallness::Usual => (4096, 100),
            Smallness::Least => (100, 2),
            Smallness::Most => (1 << 30, usize::MAX),
        }
    }

    /// Checks that a hash, or a sorted set with these members, has the encoding for small values
    /// just if it is small.
    fn check_small(self, is_small: bool, is_sorted: bool, words: &[Vec<u8>]) -> Read<()> {
        let (entries, longest) = match self.smallness {
            Smallness::Usual => (if is_sorted { 128 } else { 512 }, 64),
            Smallness::Least => (3, 5),
            Smallness::Most => (70_000, 100_000),
        };
        let count = if is_sorted { words.len() } else { words.len() / 2 };
        let may_be = count <= entries && words.iter().all(|word| word.len() <= longest);
        // A value that comes in parts is large.
        let is_whole = 2 * count < 4096 && words.iter().map(Vec::len).sum::<usize>() < 1 << 19;
        match is_small && !may_be || !is_small && may_be && is_whole {
            true => Err(format!("{count} elements are small: {is_small}")),
            false => Ok(()),
        }
    }
}
