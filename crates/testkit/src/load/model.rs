//! The state that a client's commands make, as Redis would make it.
//!
//! The model gives the reply that Redis gives, so that wrong replies are noticed before any crash.
//! A command that is refused for lack of space changes nothing; inside a transaction the others
//! still count. If it is unknown whether a command was refused, since its reply never came,
//! [`Step::outcomes`] gives every state that may have followed.

use crate::Reply;
use crate::load::step::{Step, What};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A value, shared between states.
pub type Bytes = Arc<[u8]>;

/// The content of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The string.
    pub value: Bytes,
    /// When it expires, in milliseconds of the Unix time.
    pub expires: Option<i64>,
}

/// Keys of one client by database and name.
pub type State = BTreeMap<(u8, String), Entry>;

/// Expiry times before this one may be reached while a test runs.
pub(crate) const FAR_AHEAD: i64 = 4_102_444_800_000;

fn ok() -> Reply {
    Reply::Simple("OK".into())
}

fn count(n: usize) -> Reply {
    Reply::Int(n as i64)
}

/// Returns true if a reply says that there was no space.
pub(crate) fn is_refusal(reply: &Reply) -> bool {
    matches!(reply, Reply::Error(text) if is_because(text, "OOM"))
}

/// Returns true if an error has this code, or ends a transaction because of one that has.
pub(crate) fn is_because(text: &str, code: &str) -> bool {
    let reason = text.strip_prefix("EXECABORT Transaction discarded because of: ");
    reason.unwrap_or(text).starts_with(code)
}

impl Step {
    /// Changes the state as Redis would. Returns the reply to the step itself, or to its EXEC.
    pub(crate) fn apply(&self, state: &mut State) -> Reply {
        match &self.what {
            What::Exec(steps) | What::Script(steps, _) => {
                Reply::Array(steps.iter().map(|step| step.apply(state)).collect())
            }
            _ => self.apply_alone(state),
        }
    }

    fn at(&self, key: &str) -> (u8, String) {
        (self.db, key.to_owned())
    }

    fn apply_alone(&self, state: &mut State) -> Reply {
        let plain = |value: &Bytes| Entry { value: value.clone(), expires: None };
        match &self.what {
            What::Exec(_) | What::Script(..) => unreachable!("transactions do not nest"),
            What::Get(key) => bulk(state.get(&self.at(key))),
            What::GetDel(key) => bulk(state.remove(&self.at(key)).as_ref()),
            What::Set(key, value) => {
                state.insert(self.at(key), plain(value));
                ok()
            }
            What::SetUntil(key, value, at) => {
                let entry = Entry { value: value.clone(), expires: Some(*at) };
                state.insert(self.at(key), entry);
                ok()
            }
            What::Incr(key) => {
                let n = number(state.get(&self.at(key))) + 1;
                change(state, self.at(key), n.to_string().into_bytes());
                Reply::Int(n)
            }
            What::Append(key, more) => {
                let mut value = bytes(state.get(&self.at(key)));
                value.extend_from_slice(more);
                let length = value.len();
                // Redis creates a key even if the appended value is empty.
                change(state, self.at(key), value);
                count(length)
            }
            What::SetRange(key, at, bytes) => count(self.set_range(state, key, *at, bytes)),
            What::Del(keys) => {
                count(keys.iter().filter(|key| state.remove(&self.at(key)).is_some()).count())
            }
            What::ExpireAt(key, at) => count(usize::from(self.expire(state, key, *at))),
            What::Persist(key) => {
                let entry = state.get_mut(&self.at(key));
                count(entry.and_then(|entry| entry.expires.take()).iter().count())
            }
            What::Rename(from, to) => match state.remove(&self.at(from)) {
                Some(entry) => {
                    state.insert(self.at(to), entry);
                    ok()
                }
                None => Reply::Error("ERR no such key".into()),
            },
            What::Copy(from, to, db) => copy(state, &self.at(from), (*db, to.clone())),
            What::Move(key, db) => move_key(state, self.at(key), (*db, key.clone())),
            What::MSet(pairs) => {
                state.extend(pairs.iter().map(|(key, value)| (self.at(key), plain(value))));
                ok()
            }
            What::MSetNx(pairs) => {
                let free = !pairs.iter().any(|(key, _)| state.contains_key(&self.at(key)));
                if free {
                    state.extend(pairs.iter().map(|(key, value)| (self.at(key), plain(value))));
                }
                count(usize::from(free))
            }
            What::FlushDb => {
                state.retain(|(db, _), _| *db != self.db);
                ok()
            }
        }
    }

    fn expire(&self, state: &mut State, key: &str, at: i64) -> bool {
        if at < FAR_AHEAD {
            return state.remove(&self.at(key)).is_some();
        }
        state.get_mut(&self.at(key)).map(|entry| entry.expires = Some(at)).is_some()
    }

    fn set_range(&self, state: &mut State, key: &str, at: usize, more: &[u8]) -> usize {
        let mut value = bytes(state.get(&self.at(key)));
        if more.is_empty() {
            return value.len();
        }
        let end = at + more.len();
        if value.len() < end {
            value.resize(end, 0);
        }
        value[at..end].copy_from_slice(more);
        let length = value.len();
        change(state, self.at(key), value);
        length
    }

    /// Applies the effect of a step with this reply. Returns the correct reply if this one is
    /// wrong.
    pub(crate) fn apply_reply(&self, state: &mut State, found: &Reply) -> Result<(), Reply> {
        match (&self.what, found) {
            (What::Exec(steps), Reply::Array(items)) => self.apply_replies(steps, state, items),
            (What::Script(steps, _), Reply::Array(items)) if items.len() == steps.len() => {
                let mut both = steps.iter().zip(items);
                both.try_for_each(|(step, item)| step.apply_reply(state, item))
            }
            (What::Exec(_) | What::Script(..), _) if is_refusal(found) => Ok(()),
            (What::Exec(_) | What::Script(..), _) => Err(self.apply(state)),
            _ if is_refusal(found) => Ok(()),
            _ => match self.apply_alone(state) {
                expected if expected == *found => Ok(()),
                expected => Err(expected),
            },
        }
    }

    /// Applies the replies to a transaction's commands, with a SELECT between those on different
    /// databases.
    fn apply_replies(
        &self,
        steps: &[Step],
        state: &mut State,
        items: &[Reply],
    ) -> Result<(), Reply> {
        let (mut db, mut items) = (self.db, items.iter());
        for step in steps {
            if std::mem::replace(&mut db, step.db) != step.db && items.next() != Some(&ok()) {
                return Err(ok());
            }
            match items.next() {
                Some(item) => step.apply_reply(state, item)?,
                None => return Err(step.apply(state)),
            }
        }
        items.next().map_or(Ok(()), |_| Err(Reply::Nil))
    }

    /// Returns the states that may follow if the reply is unknown. Without `refusals` there is one.
    pub(crate) fn outcomes(&self, before: &State, refusals: bool) -> Vec<State> {
        let mut states = vec![before.clone()];
        if let What::Script(..) = &self.what {
            // A script is refused as a whole.
            let mut after = before.clone();
            self.apply(&mut after);
            let kept = refusals.then(|| before.clone());
            return [after].into_iter().chain(kept).collect();
        }
        let steps = match &self.what {
            What::Exec(steps) => steps.as_slice(),
            _ => std::slice::from_ref(self),
        };
        for step in steps {
            let mut after = states.clone();
            after.iter_mut().for_each(|state| drop(step.apply_alone(state)));
            if refusals {
                after.extend(states);
                after.dedup();
            }
            states = after;
        }
        states
    }
}

fn bulk(entry: Option<&Entry>) -> Reply {
    entry.map_or(Reply::Nil, |entry| Reply::Bulk(entry.value.to_vec()))
}

fn bytes(entry: Option<&Entry>) -> Vec<u8> {
    entry.map(|entry| entry.value.to_vec()).unwrap_or_default()
}

fn number(entry: Option<&Entry>) -> i64 {
    let text = entry.map(|entry| String::from_utf8_lossy(&entry.value).into_owned());
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Sets a new value, and keeps the key's expiry time.
fn change(state: &mut State, at: (u8, String), value: Vec<u8>) {
    let expires = state.get(&at).and_then(|entry| entry.expires);
    state.insert(at, Entry { value: value.into(), expires });
}

fn copy(state: &mut State, from: &(u8, String), to: (u8, String)) -> Reply {
    if *from == to {
        return Reply::Error("ERR source and destination objects are the same".into());
    }
    match state.get(from).cloned() {
        Some(entry) => {
            state.insert(to, entry);
            Reply::Int(1)
        }
        None => Reply::Int(0),
    }
}

fn move_key(state: &mut State, from: (u8, String), to: (u8, String)) -> Reply {
    if from == to {
        return Reply::Error("ERR source and destination objects are the same".into());
    }
    if state.contains_key(&to) {
        return Reply::Int(0);
    }
    match state.remove(&from) {
        Some(entry) => {
            state.insert(to, entry);
            Reply::Int(1)
        }
        None => Reply::Int(0),
    }
}
