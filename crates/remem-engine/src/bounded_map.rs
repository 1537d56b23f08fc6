//! A map for caches that would otherwise keep something for every tenant that this process ever
//! met. It holds a bounded number of keys and drops those that were used longest ago.

use remem_core::sabotage;
use std::collections::HashMap;
use std::hash::Hash;

/// A map that drops the keys that were used longest ago once it is full.
pub(crate) struct BoundedMap<K, V> {
    keys_max: usize,
    /// Each value with the number of its last use.
    values: HashMap<K, (V, u64)>,
    uses: u64,
}

impl<K: Eq + Hash, V> BoundedMap<K, V> {
    /// An empty map of at most `keys_max` keys.
    pub fn new(keys_max: usize) -> BoundedMap<K, V> {
        BoundedMap {
            keys_max,
            values: HashMap::new(),
            uses: 0,
        }
    }

    /// The value of a key, which counts as a use.
    pub fn get(&mut self, key: &K) -> Option<&mut V> {
        self.uses += 1;
        let (value, used) = self.values.get_mut(key)?;
        *used = self.uses;
        Some(value)
    }

    /// Sets the value of a key, and makes room for it.
    pub fn insert(&mut self, key: K, value: V) {
        self.uses += 1;
        self.values.insert(key, (value, self.uses));
        if sabotage!(
            "a-cache-grows-with-the-tenants",
            self.values.len() > self.keys_max,
            false
        ) {
            self.drop_oldest();
        }
    }

    /// Removes a key with its value.
    pub fn remove(&mut self, key: &K) {
        self.values.remove(key);
    }

    /// All keys with their values, in any order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.values.iter().map(|(key, (value, _))| (key, value))
    }

    /// Drops the eighth of the keys that was used longest ago, so that the search for them is paid
    /// for by many insertions.
    fn drop_oldest(&mut self) {
        let mut used: Vec<u64> = self.values.values().map(|(_, used)| *used).collect();
        let dropped = (self.keys_max / 8).min(used.len() - 1);
        let (_, newest_dropped, _) = used.select_nth_unstable(dropped);
        let newest_dropped = *newest_dropped;
        self.values.retain(|_, (_, used)| *used > newest_dropped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_used_longest_ago_are_dropped() {
        let mut map = BoundedMap::new(16);
        for key in 0..16 {
            map.insert(key, key);
        }
        assert_eq!(map.iter().count(), 16);
        assert_eq!(map.get(&0), Some(&mut 0), "used again");
        map.insert(16, 16);
        let mut kept: Vec<u32> = map.iter().map(|(key, _)| *key).collect();
        kept.sort_unstable();
        assert_eq!(kept, [0, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
        for key in 100..10_000 {
            map.insert(key, key);
            assert!(map.iter().count() <= 16 && map.get(&key).is_some());
        }
    }
}
