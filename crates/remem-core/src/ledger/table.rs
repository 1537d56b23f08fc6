//! One table of rows while a group of batches is applied: the rows as they were loaded, as they
//! are now, and as the current batch found them. Knows nothing of what the rows mean.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// The rows of one table by key.
#[derive(Clone, Debug)]
pub struct Table<K, V> {
    rows: BTreeMap<K, TrackedRow<V>>,
    /// The rows that the current batch changed, as it found them, in the order of the changes.
    undo: Vec<(K, Option<V>)>,
}

#[derive(Clone, Debug)]
struct TrackedRow<V> {
    loaded: Option<V>,
    current: Option<V>,
}

/// The change of one row over a whole group.
#[derive(Clone, Debug, PartialEq)]
pub enum RowChange<V> {
    /// The row is new.
    Inserted(V),
    /// The row has other values than before.
    Updated {
        /// The row as it was loaded.
        before: V,
        /// The row as it is now.
        after: V,
    },
    /// The row is gone; this is how it was loaded.
    Deleted(V),
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Table<K, V> {
        Table {
            rows: BTreeMap::new(),
            undo: Vec::new(),
        }
    }
}

impl<K: Ord + Clone, V: Clone + PartialEq> Table<K, V> {
    /// Adds a row as it is stored. A row that is there already stays as it is.
    pub fn load(&mut self, key: K, row: V) {
        self.rows.entry(key).or_insert_with(|| TrackedRow {
            loaded: Some(row.clone()),
            current: Some(row),
        });
    }

    /// Replaces what was loaded of a row that no batch has changed yet.
    pub fn reload(&mut self, key: K, row: V) {
        let tracked = TrackedRow {
            loaded: Some(row.clone()),
            current: Some(row),
        };
        self.rows.insert(key, tracked);
    }

    /// The row as it is now.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.rows.get(key)?.current.as_ref()
    }

    /// Returns true if there is such a row now.
    pub fn contains(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// The rows of a range of keys as they are now.
    pub fn range(&self, keys: RangeInclusive<K>) -> impl Iterator<Item = (&K, &V)> {
        self.rows
            .range(keys)
            .filter_map(|(key, row)| Some((key, row.current.as_ref()?)))
    }

    /// All rows as they are now, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.rows
            .iter()
            .filter_map(|(key, row)| Some((key, row.current.as_ref()?)))
    }

    /// Inserts a row, or replaces it.
    pub fn put(&mut self, key: K, row: V) {
        self.set(key, Some(row));
    }

    /// Deletes a row; returns whether there was one.
    pub fn remove(&mut self, key: &K) -> bool {
        let exists = self.contains(key);
        if exists {
            self.set(key.clone(), None);
        }
        exists
    }

    /// Changes a row; returns whether there was one.
    pub fn update(&mut self, key: &K, change: impl FnOnce(&mut V)) -> bool {
        let Some(mut row) = self.get(key).cloned() else {
            return false;
        };
        change(&mut row);
        self.set(key.clone(), Some(row));
        true
    }

    fn set(&mut self, key: K, row: Option<V>) {
        let tracked = self.rows.entry(key.clone()).or_insert(TrackedRow {
            loaded: None,
            current: None,
        });
        self.undo
            .push((key, std::mem::replace(&mut tracked.current, row)));
    }

    /// Ends a batch whose changes stay.
    pub fn keep(&mut self) {
        self.undo.clear();
    }

    /// Ends a batch whose changes are taken back.
    pub fn revert(&mut self) {
        for (key, row) in self.undo.drain(..).rev() {
            if let Some(tracked) = self.rows.get_mut(&key) {
                tracked.current = row;
            }
        }
    }

    /// The changed rows, in the order of their keys.
    pub fn into_changes(self) -> impl Iterator<Item = (K, RowChange<V>)> {
        self.rows.into_iter().filter_map(|(key, row)| {
            let change = match (row.loaded, row.current) {
                (None, Some(after)) => RowChange::Inserted(after),
                (Some(before), None) => RowChange::Deleted(before),
                (Some(before), Some(after)) if before != after => {
                    RowChange::Updated { before, after }
                }
                _ => return None,
            };
            Some((key, change))
        })
    }
}

impl<V> RowChange<V> {
    /// The row as it is after the group, if it is still there.
    pub fn after(&self) -> Option<&V> {
        match self {
            RowChange::Inserted(after) | RowChange::Updated { after, .. } => Some(after),
            RowChange::Deleted(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded() -> Table<u8, &'static str> {
        let mut table = Table::default();
        table.load(1, "one");
        table.load(2, "two");
        table
    }

    #[test]
    fn a_reverted_batch_leaves_the_rows_as_it_found_them() {
        let mut table = loaded();
        table.put(2, "zwei");
        table.keep();
        table.put(1, "uno");
        table.remove(&2);
        table.put(2, "dos");
        table.put(3, "tres");
        table.revert();
        let rows: Vec<_> = table.iter().collect();
        assert_eq!(rows, [(&1, &"one"), (&2, &"zwei")]);
    }

    #[test]
    fn changes_compare_the_end_of_a_group_with_what_was_loaded() {
        let mut table = loaded();
        table.put(1, "uno");
        table.put(1, "one"); // as before: no change
        table.remove(&2);
        table.put(3, "three");
        table.put(4, "four");
        table.remove(&4); // came and went
        let changes: Vec<_> = table.into_changes().collect();
        assert_eq!(
            changes,
            [
                (2, RowChange::Deleted("two")),
                (3, RowChange::Inserted("three"))
            ]
        );
    }

    #[test]
    fn a_row_that_is_loaded_twice_keeps_its_first_state_and_its_changes() {
        let mut table = loaded();
        table.update(&1, |row| *row = "uno");
        table.load(1, "one again");
        assert_eq!(table.get(&1), Some(&"uno"));
        assert!(!table.update(&9, |_| panic!("there is no such row")));
    }
}
