//! A node as a transaction sees it: its header is read once, its slots as needed.
//!
//! A change stages only the words that differ. A leaf's checksum is updated by differences: added
//! items are added to it, removed ones subtracted, so that a change costs the same in a full leaf,
//! and a damaged leaf stays recognizable.

use heap::{Full, Ptr, View};

use super::Item;
use super::layout::*;
use super::order::Order;
use crate::Store;

/// A child in an inner node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Child {
    /// The first item below it; meaningless for a node's first child.
    pub(super) separator: Item,
    pub(super) node: Ptr,
    /// The sum of the weights of all items below it.
    pub(super) weight: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) at: Ptr,
    kind: u64,
    pub(super) height: usize,
    pub(super) order: Order,
}

/// Returns the contribution of an item to a leaf's checksum.
fn item_checksum(item: Item) -> u32 {
    heap::crc32c_words(&[item.first, item.second])
}

/// Returns the contribution of the order to a leaf's checksum.
fn order_checksum(order: &Order) -> u32 {
    heap::crc32c(order.bytes())
}

impl Node {
    /// No node: fills the steps that a cursor does not have.
    pub(super) const NOWHERE: Node =
        Node { at: Ptr::NULL, kind: 0, height: 0, order: Order::EMPTY };

    /// Reads a node; `None` if there is none of this height with entries.
    #[inline]
    pub(super) fn read<V: View>(view: &V, at: Ptr, height: Option<usize>) -> Option<Node> {
        let line = view.line(at);
        let found = height_of(line[KIND])?;
        if height.is_some_and(|height| height != found) {
            return None;
        }
        let order = Order::from_words(std::array::from_fn(|i| line[ORDER + i]));
        let node = Node { at, kind: line[KIND], height: found, order };
        // A node without entries is invalid: a walk would silently pass over it.
        let sound = order.count() > 0 && order.fits(slots(found));
        sound.then_some(node)
    }

    /// Returns the node as it is now: its order has not changed, its checksum may have.
    pub(super) fn reread<V: View>(&self, view: &V) -> Node {
        Node { kind: view.word(word_at(self.at, KIND)), ..*self }
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        self.order.count()
    }

    pub(super) fn is_full(&self) -> bool {
        self.count() >= slots(self.height)
    }

    #[inline]
    fn place(&self, field: usize, slot: usize) -> Ptr {
        word_at(self.at, word_of(self.height, field, slot))
    }

    #[inline]
    fn field<V: View>(&self, view: &V, field: usize, position: usize) -> u64 {
        view.word(self.place(field, self.order.slot(position)))
    }

    /// Returns the item, or the separator, at a position below the count.
    #[inline]
    pub(super) fn item<V: View>(&self, view: &V, position: usize) -> Item {
        Item {
            first: self.field(view, FIRST, position),
            second: self.field(view, SECOND, position),
        }
    }

    pub(super) fn items<V: View>(&self, view: &V) -> impl DoubleEndedIterator<Item = Item> {
        (0..self.count()).map(|position| self.item(view, position))
    }

    #[inline]
    pub(super) fn child_node<V: View>(&self, view: &V, position: usize) -> Ptr {
        Ptr::from_raw(self.field(view, CHILD, position))
    }

    #[inline]
    pub(super) fn child_weight<V: View>(&self, view: &V, position: usize) -> u64 {
        self.field(view, WEIGHT, position)
    }

    pub(super) fn child<V: View>(&self, view: &V, position: usize) -> Child {
        Child {
            separator: self.item(view, position),
            node: self.child_node(view, position),
            weight: self.child_weight(view, position),
        }
    }

    pub(super) fn children<V: View>(&self, view: &V) -> impl Iterator<Item = Child> {
        (0..self.count()).map(|position| self.child(view, position))
    }

    /// Returns how many positions of a node with rising items or separators are before a place.
    /// `first` decides for an item by its first word if that is enough, `before` by both words.
    #[inline]
    pub(super) fn partition<V: View>(
        &self,
        view: &V,
        from: usize,
        first: impl Fn(u64) -> Option<bool>,
        mut before: impl FnMut(Item) -> bool,
    ) -> usize {
        let (mut low, mut high) = (from, self.count());
        while low < high {
            let middle = low.midpoint(high);
            let is_before = first(self.field(view, FIRST, middle))
                .unwrap_or_else(|| before(self.item(view, middle)));
            if is_before {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Returns the checksum that the leaf's words should have.
    pub(super) fn content_checksum<V: View>(&self, view: &V) -> u32 {
        self.items(view).fold(order_checksum(&self.order), |checksum, item| {
            checksum.wrapping_add(item_checksum(item))
        })
    }

    /// Returns the checksum stored in the leaf.
    pub(super) fn checksum(&self) -> u32 {
        checksum_of(self.kind)
    }

    pub(super) fn set_child_node<S: Store>(&self, store: &mut S, position: usize, node: Ptr) {
        store.set(self.place(CHILD, self.order.slot(position)), node.raw());
    }

    pub(super) fn set_child_weight<S: Store>(&self, store: &mut S, position: usize, weight: u64) {
        set_if_changed(store, self.place(WEIGHT, self.order.slot(position)), weight);
    }

    pub(super) fn set_separator<S: Store>(&self, store: &mut S, position: usize, item: Item) {
        self.set_item_words(store, self.order.slot(position), item);
    }

    fn set_item_words<S: Store>(&self, store: &mut S, slot: usize, item: Item) {
        set_if_changed(store, self.place(FIRST, slot), item.first);
        set_if_changed(store, self.place(SECOND, slot), item.second);
    }

    /// Stages another order, and in a leaf the checksum for this order and for items with this
    /// difference.
    fn set_order<S: Store>(&mut self, store: &mut S, order: Order, difference: u32) {
        for number in (0..ORDER_WORDS).filter(|&n| order.word(n) != self.order.word(n)) {
            store.set(word_at(self.at, ORDER + number), order.word(number));
        }
        if self.height == 0 {
            let old = order_checksum(&self.order);
            let checksum = self.checksum().wrapping_sub(old).wrapping_add(order_checksum(&order));
            self.set_checksum(store, checksum.wrapping_add(difference));
        }
        self.order = order;
    }

    fn set_checksum<S: Store>(&mut self, store: &mut S, checksum: u32) {
        self.kind = kind(0, checksum);
        store.set(word_at(self.at, KIND), self.kind);
    }

    /// Inserts an item into a leaf that is not full.
    pub(super) fn insert_item<S: Store>(&mut self, store: &mut S, position: usize, item: Item) {
        let Some(slot) = self.order.free(LEAF_SLOTS) else { return };
        self.set_item_words(store, slot, item);
        let mut order = self.order;
        order.insert(position, slot);
        self.set_order(store, order, item_checksum(item));
    }

    /// Replaces an item.
    pub(super) fn replace_item<S: Store>(&mut self, store: &mut S, position: usize, item: Item) {
        let old = item_checksum(self.item(store, position));
        self.set_item_words(store, self.order.slot(position), item);
        let checksum = self.checksum().wrapping_sub(old).wrapping_add(item_checksum(item));
        self.set_checksum(store, checksum);
    }

    /// Inserts a child into an inner node that is not full.
    pub(super) fn insert_child<S: Store>(&mut self, store: &mut S, position: usize, child: Child) {
        let Some(slot) = self.order.free(INNER_SLOTS) else { return };
        self.set_item_words(store, slot, child.separator);
        set_if_changed(store, self.place(CHILD, slot), child.node.raw());
        set_if_changed(store, self.place(WEIGHT, slot), child.weight);
        let mut order = self.order;
        order.insert(position, slot);
        self.set_order(store, order, 0);
    }

    /// Removes some items or children, from a position on.
    pub(super) fn remove<S: Store>(&mut self, store: &mut S, position: usize, some: usize) {
        let mut gone = 0u32;
        if self.height == 0 {
            for position in position..position + some {
                gone = gone.wrapping_add(item_checksum(self.item(store, position)));
            }
        }
        let mut order = self.order;
        order.remove(position, some);
        self.set_order(store, order, gone.wrapping_neg());
    }

    /// Copies the node to another block.
    pub(super) fn copy<S: Store>(&self, store: &mut S) -> Result<Ptr, Full> {
        let size = size(self.height);
        let words: Vec<u64> =
            (0..size / WORD).map(|word| store.word(word_at(self.at, word))).collect();
        write(store, &words)
    }
}

/// Returns the number of entries of a node without verifying anything; for a damaged node, any
/// number.
pub(super) fn count_at<V: View>(view: &V, node: Ptr) -> usize {
    let mut words = [0; ORDER_WORDS];
    words[0] = view.word(word_at(node, ORDER));
    Order::from_words(words).count()
}

/// Writes a new leaf with these items.
pub(super) fn write_leaf<S: Store>(store: &mut S, items: &[Item]) -> Result<Ptr, Full> {
    let order = Order::first(items.len());
    let checksum = items
        .iter()
        .fold(order_checksum(&order), |checksum, &item| checksum.wrapping_add(item_checksum(item)));
    let mut words = new_words(0, checksum, &order);
    for (slot, item) in items.iter().enumerate() {
        words[word_of(0, FIRST, slot)] = item.first;
        words[word_of(0, SECOND, slot)] = item.second;
    }
    write(store, &words)
}

/// Writes a new inner node of this height with these children.
pub(super) fn write_inner<S: Store>(
    store: &mut S,
    height: usize,
    children: &[Child],
) -> Result<Ptr, Full> {
    let mut words = new_words(height, 0, &Order::first(children.len()));
    for (slot, child) in children.iter().enumerate() {
        words[word_of(height, FIRST, slot)] = child.separator.first;
        words[word_of(height, SECOND, slot)] = child.separator.second;
        words[word_of(height, CHILD, slot)] = child.node.raw();
        words[word_of(height, WEIGHT, slot)] = child.weight;
    }
    write(store, &words)
}

fn new_words(height: usize, checksum: u32, order: &Order) -> Vec<u64> {
    let mut words = vec![0; size(height) / WORD];
    words[KIND] = kind(height, checksum);
    for number in 0..ORDER_WORDS {
        words[ORDER + number] = order.word(number);
    }
    words
}

fn write<S: Store>(store: &mut S, words: &[u64]) -> Result<Ptr, Full> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let fresh = store.reserve(bytes.len())?;
    store.write(&fresh, 0, &bytes);
    Ok(store.publish(fresh, bytes.len()))
}

/// Stages a word if it changes.
pub(super) fn set_if_changed<S: Store>(store: &mut S, at: Ptr, value: u64) {
    if store.word(at) != value {
        store.set(at, value);
    }
}
