//! What may be in a store while threads change it: everything acknowledged, with any of the changes
//! under way, in any order in which they may have taken effect.
//!
//! A state is flat, so that many of them can be compared: a number for each possible element, which
//! is its version, or 0 if it does not exist.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// The number of possible elements of each kind.
pub(super) const EACH: usize = 160;
/// The number of rows with the same first part of their key.
pub(super) const GROUP: usize = 80;

/// The kind of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Row,
    Field,
    Member,
    Key,
}

impl Kind {
    pub(super) const ALL: [Kind; 4] = [Kind::Row, Kind::Field, Kind::Member, Kind::Key];
}

/// A row of the table, a field of the hash, a member of the set, or a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Element {
    pub(super) kind: Kind,
    pub(super) id: usize,
}

/// The versions of all elements.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct State(Vec<u16>);

impl State {
    pub(super) fn empty() -> State {
        State(vec![0; Kind::ALL.len() * EACH])
    }

    fn at(Element { kind, id }: Element) -> usize {
        kind as usize * EACH + id
    }

    /// Returns the version of an element; 0 if it is not there.
    pub(super) fn get(&self, element: Element) -> u16 {
        self.0[State::at(element)]
    }

    pub(super) fn put(&mut self, element: Element, version: u16) {
        self.0[State::at(element)] = version;
    }

    pub(super) fn len(&self) -> usize {
        self.0.iter().filter(|version| **version != 0).count()
    }

    /// Returns the differences of two states: the element, its version here, and its version there.
    pub(super) fn difference(&self, other: &State) -> Vec<(Element, u16, u16)> {
        let all = Kind::ALL.iter().flat_map(|&kind| (0..EACH).map(move |id| Element { kind, id }));
        let both = all.map(|element| (element, self.get(element), other.get(element)));
        both.filter(|(_, here, there)| here != there).collect()
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} elements", self.len())
    }
}

/// A change that a thread makes in one transaction.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// Writes elements with their versions; 0 removes one.
    Write(Vec<(Element, u16)>),
    /// Removes all rows of a group.
    RemoveGroup(usize),
    /// Increments the version of a row that exists.
    Update(usize),
    /// Deletes everything, as FLUSHALL does.
    Clear,
}

/// Returns the ids of the rows of a group.
pub(super) fn group(group: usize) -> Range<usize> {
    group * GROUP..(group + 1) * GROUP
}

impl Change {
    pub(super) fn apply(&self, state: &mut State) {
        match self {
            Change::Write(writes) => {
                writes.iter().for_each(|(element, version)| state.put(*element, *version));
            }
            Change::RemoveGroup(of) => {
                group(*of).for_each(|id| state.put(Element { kind: Kind::Row, id }, 0));
            }
            Change::Update(id) => {
                let row = Element { kind: Kind::Row, id: *id };
                match state.get(row) {
                    0 => {}
                    version => state.put(row, version + 1),
                }
            }
            Change::Clear => *state = State::empty(),
        }
    }
}

/// An event of a thread.
#[derive(Clone, Debug)]
pub(super) enum Logged {
    /// It is about to make a change.
    Begun(usize, Change),
    /// The change was made or refused.
    Ended(usize, bool),
}

/// A state, and which threads have already made their current change in it.
type Possible = (Arc<State>, u32);

/// Returns the possible states at the start and after each of these events.
pub(super) fn possible<'l>(
    start: &State,
    log: impl Iterator<Item = &'l Logged>,
) -> Vec<Vec<Arc<State>>> {
    let mut now: Vec<Possible> = vec![(Arc::new(start.clone()), 0)];
    let mut under_way: Vec<(usize, &Change)> = Vec::new();
    let mut all = vec![states(&now)];
    for logged in log {
        match logged {
            Logged::Begun(thread, change) => under_way.push((*thread, change)),
            Logged::Ended(thread, made) => {
                let own = 1 << thread;
                now.retain(|(_, has_made)| (has_made & own != 0) == *made);
                now.iter_mut().for_each(|(_, has_made)| *has_made &= !own);
                under_way.retain(|(other, _)| other != thread);
            }
        }
        // In each state each change that is under way may take effect next.
        let mut at = 0;
        while at < now.len() {
            for (thread, change) in &under_way {
                let (state, has_made) = &now[at];
                if has_made & 1 << thread != 0 {
                    continue;
                }
                let mut after = State::clone(state);
                change.apply(&mut after);
                let has_made = has_made | 1 << thread;
                if !now.iter().any(|other| other.1 == has_made && *other.0 == after) {
                    now.push((Arc::new(after), has_made));
                }
            }
            at += 1;
        }
        all.push(states(&now));
    }
    all
}

fn states(now: &[Possible]) -> Vec<Arc<State>> {
    now.iter().map(|(state, _)| Arc::clone(state)).collect()
}

/// The range of the log during which something was done.
pub(super) type Window = (usize, usize);

/// What an iterator showed: an element's id and version, in its order.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) kind: Kind,
    /// The ids that it should show.
    pub(super) ids: Range<usize>,
    /// A key whose value no longer existed when it was read has version 0.
    pub(super) items: Vec<(usize, u16)>,
    pub(super) window: Window,
}

impl Shown {
    /// Checks what it showed against the possible states meanwhile: nothing else is shown; elements
    /// that existed all the time are shown, and rows come in order, each once.
    pub(super) fn check(&self, possible: &[Vec<Arc<State>>]) -> Result<(), String> {
        let element = |id| Element { kind: self.kind, id };
        let during = || possible[self.window.0..=self.window.1].iter().flatten();
        for (id, version) in &self.items {
            let may_be = |state: &Arc<State>| match state.get(element(*id)) {
                0 => false,
                found => found == *version || *version == 0,
            };
            if !self.ids.contains(id) || !during().any(may_be) {
                return Err(format!("{:?} {id} of version {version} was not there", self.kind));
            }
        }
        let shown: BTreeSet<usize> = self.items.iter().map(|(id, _)| *id).collect();
        if let Some(id) = self.stayed(possible).find(|id| !shown.contains(id)) {
            return Err(format!("{:?} {id} was there and was not shown", self.kind));
        }
        if self.kind == Kind::Row && !self.items.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(format!("rows are out of order, or come twice: {:?}", self.items));
        }
        Ok(())
    }

    /// Returns the elements that existed all the time.
    pub(super) fn stayed(&self, possible: &[Vec<Arc<State>>]) -> impl Iterator<Item = usize> {
        let mut during = possible[self.window.0..=self.window.1].iter().flatten();
        let there =
            |id: &usize, state: &State| state.get(Element { kind: self.kind, id: *id }) != 0;
        let first = during.next();
        let mut stayed: Vec<usize> =
            self.ids.clone().filter(|id| first.is_some_and(|state| there(id, state))).collect();
        during.for_each(|state| stayed.retain(|id| there(id, state)));
        stayed.into_iter()
    }
}
