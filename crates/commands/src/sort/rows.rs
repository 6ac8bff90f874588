//! The rows to sort: elements with their weights, of which the first ones are kept.

use std::cmp::Ordering;

use super::Bytes;

/// The weight by which an element is sorted.
pub(super) enum Weight {
    /// A number: the element's own, or the value of a key.
    Number(f64),
    /// The value of a key; a missing one comes first.
    Text(Option<Bytes>),
    /// The element's own bytes.
    Itself,
}

/// An element with its weight.
pub(super) struct Row {
    pub(super) element: Bytes,
    pub(super) weight: Weight,
    /// The original position, if it counts: equal texts keep their order.
    pub(super) place: u64,
}

impl Row {
    /// Compares two rows with the same kind of weight. Equal rows have the same content.
    fn order(&self, other: &Row, descending: bool) -> Ordering {
        let order = match (&self.weight, &other.weight) {
            (Weight::Number(number), Weight::Number(others)) => number
                .partial_cmp(others)
                .unwrap_or(Ordering::Equal)
                .then_with(|| self.element.cmp(&other.element)),
            (Weight::Text(text), Weight::Text(others)) => text.cmp(others),
            _ => self.element.cmp(&other.element),
        };
        let order = if descending { order.reverse() } else { order };
        order
            .then_with(|| self.place.cmp(&other.place))
            .then_with(|| self.element.cmp(&other.element))
    }
}

/// The first rows in order, up to the wanted number.
///
/// Rows are collected until there are twice as many; then the worse half is dropped. So each row
/// costs a constant number of comparisons, however many are wanted, and only the wanted ones are
/// sorted.
pub(super) struct Rows {
    rows: Vec<Row>,
    wanted: usize,
    descending: bool,
}

impl Rows {
    /// A smaller buffer is not worth a cut.
    const MIN_CAPACITY: usize = 64;

    pub(super) fn new(wanted: u64, descending: bool) -> Rows {
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        Rows { rows: Vec::new(), wanted, descending }
    }

    pub(super) fn push(&mut self, row: Row) {
        self.rows.push(row);
        if self.rows.len() >= self.wanted.saturating_mul(2).max(Rows::MIN_CAPACITY) {
            self.cut();
        }
    }

    fn cut(&mut self) {
        let Some(last) = self.wanted.checked_sub(1) else { return self.rows.clear() };
        if last < self.rows.len() {
            let descending = self.descending;
            self.rows.select_nth_unstable_by(last, |a, b| a.order(b, descending));
            self.rows.truncate(self.wanted);
        }
    }

    /// Returns the elements, in order, from index `first` on.
    pub(super) fn finish(mut self, first: u64) -> Vec<Bytes> {
        self.cut();
        let descending = self.descending;
        self.rows.sort_unstable_by(|a, b| a.order(b, descending));
        let first = usize::try_from(first).unwrap_or(usize::MAX);
        self.rows.into_iter().skip(first).map(|row| row.element).collect()
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::{Row, Rows, Weight};

    fn row(number: f64, element: &str, place: u64) -> Row {
        Row { element: element.as_bytes().into(), weight: Weight::Number(number), place }
    }

    /// Sorts all rows, as a reference.
    fn all(mut rows: Vec<Row>, descending: bool) -> Vec<Vec<u8>> {
        rows.sort_by(|a, b| a.order(b, descending));
        rows.into_iter().map(|row| row.element.to_vec()).collect()
    }

    #[test]
    fn the_best_of_many_are_those_of_the_whole_order() {
        let mut random = Rng::with_seed(7);
        for (len, wanted, first) in [(0, 3, 0), (5, 0, 0), (500, 7, 2), (500, 64, 60), (90, 500, 0)]
        {
            for descending in [false, true] {
                let numbers: Vec<f64> = (0..len).map(|_| f64::from(random.i8(-9..9))).collect();
                let make = || {
                    let row = |(place, number): (usize, &f64)| {
                        row(*number, &(place % 40).to_string(), place as u64)
                    };
                    numbers.iter().enumerate().map(row).collect::<Vec<_>>()
                };
                let mut rows = Rows::new(wanted, descending);
                for row in make() {
                    rows.push(row);
                    assert!(rows.rows.len() < Rows::MIN_CAPACITY.max(2 * wanted as usize));
                }
                let expected: Vec<Vec<u8>> = all(make(), descending)
                    .into_iter()
                    .take(wanted as usize)
                    .skip(first as usize)
                    .collect();
                let found: Vec<Vec<u8>> =
                    rows.finish(first).into_iter().map(|element| element.to_vec()).collect();
                assert_eq!(found, expected, "{wanted} of {len} from {first} on, {descending}");
            }
        }
    }

    #[test]
    fn equal_numbers_are_ordered_by_bytes_and_equal_texts_stay_where_they_were() {
        let rows = vec![row(1.0, "b", 0), row(1.0, "a", 1), row(0.0, "c", 2)];
        assert_eq!(all(rows, false), [b"c", b"a", b"b"]);
        let rows = vec![row(1.0, "b", 0), row(1.0, "a", 1), row(0.0, "c", 2)];
        assert_eq!(all(rows, true), [b"b", b"a", b"c"]);
        let text = |text: Option<&[u8]>, element: &str, place| Row {
            weight: Weight::Text(text.map(Into::into)),
            ..row(0.0, element, place)
        };
        let make = || vec![text(Some(b"x"), "b", 0), text(Some(b"x"), "a", 1), text(None, "c", 2)];
        assert_eq!(all(make(), false), [b"c", b"b", b"a"]);
        assert_eq!(all(make(), true), [b"b", b"a", b"c"]);
    }
}
