//! Reads the elements to sort, and the values of other keys for them.

use engine::call::Call;
use engine::failure::Failure;
use keyspace::{Db, Entry, Key, Text, Txn, Type};

use super::Bytes;
use super::options::SortOptions;
use super::pattern::Pattern;
use super::rows::{Row, Rows, Weight};

/// The number of elements that are read at once; keys are looked up in between.
const PIECE: usize = 1024;
/// The error for a weight that is not a number.
const NO_NUMBER: &str = "ERR One or more scores can't be converted into double";

/// Looks up keys for a SORT.
pub(super) struct Reader<'t, 'k> {
    pub(super) txn: &'t mut Txn<'k>,
    db: Db,
    /// True if the result is stored. Then expired keys and fields are deleted first, so that a
    /// replay, for which nothing expires, reads the same.
    stores: bool,
    name: Vec<u8>,
    value: Vec<u8>,
}

impl<'t, 'k> Reader<'t, 'k> {
    pub(super) fn new(call: &Call<'t>, txn: &'t mut Txn<'k>, stores: bool) -> Reader<'t, 'k> {
        Reader { txn, db: call.db(), stores, name: Vec::new(), value: Vec::new() }
    }

    /// Finds a key for reading.
    pub(super) fn find(&mut self, key: &Key<'_>) -> Result<Option<Entry>, Failure> {
        let mut found = match self.stores {
            true => self.txn.find_mut_to_read(self.db, key)?,
            false => self.txn.find(self.db, key),
        };
        if self.stores && found.is_some_and(|entry| self.txn.properties(&entry).has_field_ttls()) {
            self.txn.hashes().delete_expired(self.db, key)?;
            found = self.txn.find_mut(self.db, key)?;
        }
        if found.is_none()
            && let Some(at) = self.txn.lost(self.db, key)
        {
            return Err(Failure::damaged(at));
        }
        Ok(found)
    }

    /// Returns the value of a pattern for an element, if there is one.
    pub(super) fn look_up<'s>(
        &'s mut self,
        pattern: &Pattern<'_>,
        element: &'s [u8],
    ) -> Result<Option<&'s [u8]>, Failure> {
        let (before, after, field) = match *pattern {
            Pattern::Itself => return Ok(Some(element)),
            Pattern::Constant => return Ok(None),
            Pattern::Key { before, after, field } => (before, after, field),
        };
        let mut name = std::mem::take(&mut self.name);
        name.clear();
        [before, element, after].iter().for_each(|part| name.extend_from_slice(part));
        let found = self.find(&self.txn.key(&name));
        self.name = name;
        let Some(entry) = found? else { return Ok(None) };
        self.value.clear();
        match (self.txn.properties(&entry).value_type(), field) {
            (Type::String, None) => self.txn.string(&entry)?.append_to(&mut self.value)?,
            (Type::Hash, Some(field)) => {
                let value = self.txn.members(&entry, Type::Hash)?.get(field)?;
                let Some(value) = value.as_ref().map(Text::as_ref) else { return Ok(None) };
                self.value.extend_from_slice(value);
            }
            _ => return Ok(None),
        }
        Ok(Some(&self.value))
    }

    /// Returns the weight of an element.
    fn weigh(&mut self, options: &SortOptions<'_>, element: &[u8]) -> Result<Weight, Failure> {
        let Some(by) = &options.by else {
            return if options.alpha { Ok(Weight::Itself) } else { number(element) };
        };
        match self.look_up(by, element)? {
            text if options.alpha => Ok(Weight::Text(text.map(Bytes::from_slice))),
            Some(text) => number(text),
            None => Ok(Weight::Number(0.0)),
        }
    }
}

fn number(text: &[u8]) -> Result<Weight, Failure> {
    resp::number::parse_f64_loosely(text).map(Weight::Number).ok_or_else(|| NO_NUMBER.into())
}

/// Returns the wanted elements of a value, in the wanted order.
pub(super) fn elements(
    reader: &mut Reader<'_, '_>,
    source: &Key<'_>,
    entry: Entry,
    options: &SortOptions<'_>,
) -> Result<Vec<Bytes>, Failure> {
    let kind = reader.txn.properties(&entry).value_type();
    let wanted = options.range(reader.txn.elements(&entry)?.count()?);
    if options.as_they_are {
        return as_they_are(reader, &entry, options, kind);
    }
    let mut rows = Rows::new(wanted.end, options.descending);
    let (mut entry, mut cursor, mut place) = (entry, 0, 0);
    let mut piece: Vec<Bytes> = Vec::new();
    loop {
        let keep = |element: &[u8]| piece.push(element.into());
        cursor = reader.txn.elements(&entry)?.scan(cursor, PIECE, keep)?;
        for element in piece.drain(..) {
            let weight = reader.weigh(options, &element)?;
            // A set has no order that could be kept.
            place += u64::from(kind != Type::Set);
            rows.push(Row { element, weight, place });
        }
        if cursor == 0 {
            return Ok(rows.finish(wanted.start));
        }
        // An entry is valid until something changes, and lookups may delete expired keys.
        match reader.txn.peek(reader.db, source) {
            Some(found) => entry = found,
            None => return Ok(rows.finish(wanted.start)),
        }
    }
}

/// Returns the wanted elements without sorting.
fn as_they_are(
    reader: &Reader<'_, '_>,
    entry: &Entry,
    options: &SortOptions<'_>,
    kind: Type,
) -> Result<Vec<Bytes>, Failure> {
    let txn = &*reader.txn;
    let elements = txn.elements(entry)?;
    let wanted = options.range(elements.count()?);
    let (mut chosen, mut number) = (Vec::<Bytes>::new(), 0);
    if wanted.is_empty() {
        return Ok(chosen);
    }
    if kind == Type::Set {
        txn.members(entry, Type::Set)?.visit(|member, _| {
            if wanted.contains(&number) {
                chosen.push(member.into());
            }
            number += 1;
        })?;
        return Ok(chosen);
    }
    let count = wanted.end - wanted.start;
    elements.visit(wanted.start, options.descending, |element| {
        chosen.push(element.into());
        (chosen.len() as u64) < count
    })?;
    Ok(chosen)
}

/// Returns the values to store: elements, or the values of the GET patterns for each of them; a
/// missing value is empty.
pub(super) fn values(
    reader: &mut Reader<'_, '_>,
    options: &SortOptions<'_>,
    elements: Vec<Bytes>,
) -> Result<Vec<Bytes>, Failure> {
    if options.gets.is_empty() {
        return Ok(elements);
    }
    let mut values = Vec::with_capacity(elements.len() * options.gets.len());
    for element in &elements {
        for pattern in &options.gets {
            values.push(reader.look_up(pattern, element)?.unwrap_or_default().into());
        }
    }
    Ok(values)
}
