//! Lists: sequences of elements, pushed and popped at both ends.
//!
//! A list has no key while it has no element: pushing makes it, taking the last one deletes it.

use keyspace::{NodeLimits, Side};

use crate::{Error, Perdura, Transaction};

/// As the server has it by default.
pub(crate) fn limits() -> NodeLimits {
    NodeLimits::new(8192, usize::MAX)
}

impl Transaction<'_> {
    fn push(&mut self, key: &[u8], side: Side, element: &[u8]) -> Result<u64, Error> {
        self.whole(|tx| {
            let key = tx.key(&key)?;
            Ok(tx.txn.push(tx.db, &key, side, [element], limits())?)
        })
    }

    fn pop(&mut self, key: &[u8], side: Side) -> Result<Option<Vec<u8>>, Error> {
        self.whole(|tx| {
            let key = tx.key(&key)?;
            let mut found = None;
            tx.txn.pop(tx.db, &key, side, 1, |element| found = Some(element.to_vec()))?;
            Ok(found)
        })
    }

    /// Puts an element before the first one of a list; how many there are then.
    pub fn push_front(
        &mut self,
        key: impl AsRef<[u8]>,
        element: impl AsRef<[u8]>,
    ) -> Result<u64, Error> {
        self.push(key.as_ref(), Side::Head, element.as_ref())
    }

    /// Puts an element behind the last one of a list; how many there are then.
    pub fn push_back(
        &mut self,
        key: impl AsRef<[u8]>,
        element: impl AsRef<[u8]>,
    ) -> Result<u64, Error> {
        self.push(key.as_ref(), Side::Tail, element.as_ref())
    }

    /// Takes the first element of a list off it.
    pub fn pop_front(&mut self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Error> {
        self.pop(key.as_ref(), Side::Head)
    }

    /// Takes the last element of a list off it.
    pub fn pop_back(&mut self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Error> {
        self.pop(key.as_ref(), Side::Tail)
    }

    /// How many elements a list has.
    pub fn list_len(&mut self, key: impl AsRef<[u8]>) -> Result<u64, Error> {
        let key = self.key(&key)?;
        match self.txn.find(self.db, &key) {
            Some(entry) => Ok(self.txn.list(&entry)?.len()?),
            None => Ok(0),
        }
    }

    /// Up to `count` elements of a list, from number `first`, counted from 0, on.
    pub fn elements(
        &mut self,
        key: impl AsRef<[u8]>,
        first: u64,
        count: usize,
    ) -> Result<Vec<Vec<u8>>, Error> {
        let key = self.key(&key)?;
        let mut found = Vec::new();
        let Some(entry) = self.txn.find(self.db, &key).filter(|_| count > 0) else {
            return Ok(found);
        };
        self.txn.list(&entry)?.visit(first, Side::Head, |element| {
            found.push(element.to_vec());
            found.len() < count
        })?;
        Ok(found)
    }

    /// Puts another element in the place of number `index`, counted from 0; whether there is one.
    pub fn set_element(
        &mut self,
        key: impl AsRef<[u8]>,
        index: u64,
        element: impl AsRef<[u8]>,
    ) -> Result<bool, Error> {
        self.whole(|tx| {
            let key = tx.key(&key)?;
            Ok(tx.txn.set_element(tx.db, &key, index, element.as_ref(), limits())?)
        })
    }
}

impl Perdura {
    /// Puts an element before the first one of a list; how many there are then.
    pub fn push_front(
        &self,
        key: impl AsRef<[u8]>,
        element: impl AsRef<[u8]>,
    ) -> Result<u64, Error> {
        self.on(key.as_ref(), |tx| tx.push_front(&key, element))
    }

    /// Puts an element behind the last one of a list; how many there are then.
    pub fn push_back(
        &self,
        key: impl AsRef<[u8]>,
        element: impl AsRef<[u8]>,
    ) -> Result<u64, Error> {
        self.on(key.as_ref(), |tx| tx.push_back(&key, element))
    }

    /// Takes the first element of a list off it.
    pub fn pop_front(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Error> {
        self.on(key.as_ref(), |tx| tx.pop_front(&key))
    }

    /// Takes the last element of a list off it.
    pub fn pop_back(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Error> {
        self.on(key.as_ref(), |tx| tx.pop_back(&key))
    }

    /// How many elements a list has.
    pub fn list_len(&self, key: impl AsRef<[u8]>) -> Result<u64, Error> {
        self.on(key.as_ref(), |tx| tx.list_len(&key))
    }

    /// Up to `count` elements of a list, from number `first`, counted from 0, on.
    pub fn elements(
        &self,
        key: impl AsRef<[u8]>,
        first: u64,
        count: usize,
    ) -> Result<Vec<Vec<u8>>, Error> {
        self.on(key.as_ref(), |tx| tx.elements(&key, first, count))
    }
}
