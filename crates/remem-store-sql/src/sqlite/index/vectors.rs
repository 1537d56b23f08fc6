//! The vectors of one memory, made by one model.
//!
//! Up to `EXACT_MAX` vectors are held whole and every one is compared. Above that, only the signs
//! of their components are held, one bit each: the nearest by signs are compared again by their
//! whole vectors, read from the database. That misses only a few in a hundred of the true nearest
//! (`docs/recall.md` has the figures), needs an eighth of the memory, is built as fast as it is
//! read, and a removed entry is gone from it at once; a graph of neighbours has none of that.
//!
//! A removed vector is zeroed and keeps its position until more than half of all positions are
//! such; then `sweep` moves the others together. Only vectors that were not removed count towards
//! `EXACT_MAX`, and a memory that has become small enough again is read anew, whole.

use super::RankedRows;
use remem_core::embedding::{cosine_of, dot};
use remem_core::sabotage;
use remem_core::{Embedding, ModelId};
use rusqlite::{Connection, params};
use simsimd::{BinarySimilarity, SpatialSimilarity};
use std::collections::{HashMap, HashSet};

/// Up to this many vectors are all compared. Measured: 100,000 of 384 components take about 8 ms.
const EXACT_MAX: usize = 100_000;
/// An index of signs is read anew with whole vectors when this share of `EXACT_MAX` is left: so it
/// takes many removals from one change of mode to the next.
const EXACT_AGAIN: (usize, usize) = (3, 4);
/// The number of rows, nearest by signs, that are compared by their whole vectors: this many for
/// each wanted row, and at least so many.
const RESCORED_PER_WANTED: usize = 4;
const RESCORED_MIN: usize = 600;
/// From this many vectors on the comparison of signs is divided among threads, up to so many.
const PARALLEL_MIN: usize = 200_000;
const THREADS_MAX: usize = 4;
/// The distance of a removed vector: larger than any other.
const REMOVED_DISTANCE: u16 = u16::MAX;
/// The row id at the position of a removed entry.
const REMOVED: i64 = i64::MIN;
/// Cosines are turned into whole numbers of this many parts.
const COSINE_SCALE: f64 = 1e9;

/// The vectors of one model.
pub(crate) struct VectorIndex {
    pub model: ModelId,
    /// The number of the last row of `vector` that is included.
    pub last_number: i64,
    dimensions: usize,
    rows: Vec<i64>,
    numbers: Vec<i64>,
    square_norms: Vec<i32>,
    positions: HashMap<i64, u32>,
    signs: Vec<u8>,
    /// The whole vectors; empty unless `is_exact`.
    components: Vec<i8>,
    is_exact: bool,
    exact_max: usize,
}

impl VectorIndex {
    pub fn new(model: ModelId) -> VectorIndex {
        VectorIndex {
            model,
            last_number: 0,
            dimensions: 0,
            rows: Vec::new(),
            numbers: Vec::new(),
            square_norms: Vec::new(),
            positions: HashMap::new(),
            signs: Vec::new(),
            components: Vec::new(),
            is_exact: true,
            exact_max: EXACT_MAX,
        }
    }

    /// An index that holds signs alone, however few vectors it has.
    #[cfg(test)]
    pub fn by_signs(model: ModelId) -> VectorIndex {
        VectorIndex {
            exact_max: 0,
            ..VectorIndex::new(model)
        }
    }

    /// Adds the vector of a row; `number` is its key in the table `vector`.
    pub fn add(&mut self, number: i64, row: i64, bytes: &[u8]) {
        self.last_number = number;
        let Some(vector) = Embedding::from_bytes(bytes) else {
            return;
        };
        if self.dimensions == 0 {
            self.dimensions = bytes.len();
        }
        if bytes.len() != self.dimensions {
            return;
        }
        self.remove(row);
        let Ok(position) = u32::try_from(self.rows.len()) else {
            return;
        };
        let components = vector.components();
        self.rows.push(row);
        self.numbers.push(number);
        self.square_norms.push(dot(components, components));
        self.positions.insert(row, position);
        self.signs.extend(signs(components));
        if self.is_exact {
            self.components.extend_from_slice(components);
        }
        if self.is_exact && self.count() > self.exact_max {
            self.is_exact = false;
            self.components = Vec::new();
        }
    }

    /// The number of vectors, without those that were removed.
    fn count(&self) -> usize {
        sabotage!(
            "removed-vectors-count-towards-the-exact-mode",
            self.positions.len(),
            self.rows.len()
        )
    }

    /// Whether only signs are held of so few vectors that all could be held whole: the index has to
    /// be read anew.
    pub fn could_be_exact(&self) -> bool {
        !self.is_exact && self.count() <= self.exact_max * EXACT_AGAIN.0 / EXACT_AGAIN.1
    }

    /// Moves the vectors together once more than half of the positions belong to removed ones, so
    /// each removal pays for less than two moves. Their order stays, and so does what is found.
    pub fn sweep(&mut self) {
        let is_sparse = self.rows.len() > self.positions.len() * 2;
        if !sabotage!("removed-vectors-keep-their-places", is_sparse, false) {
            return;
        }
        let width = self.dimensions.div_ceil(8);
        let mut to = 0;
        for from in 0..self.rows.len() {
            if self.rows[from] == REMOVED {
                continue;
            }
            self.rows[to] = self.rows[from];
            self.numbers[to] = self.numbers[from];
            self.square_norms[to] = self.square_norms[from];
            move_part(&mut self.signs, width, from, to);
            if self.is_exact {
                move_part(&mut self.components, self.dimensions, from, to);
            }
            self.positions.insert(self.rows[to], to as u32);
            to += 1;
        }
        shorten(&mut self.rows, to);
        shorten(&mut self.numbers, to);
        shorten(&mut self.square_norms, to);
        shorten(&mut self.signs, to * width);
        if self.is_exact {
            shorten(&mut self.components, to * self.dimensions);
        }
        self.positions.shrink_to_fit();
    }

    /// Removes the vector of a row whose text is erased or changed.
    pub fn remove(&mut self, row: i64) {
        let Some(position) = self.positions.remove(&row) else {
            return;
        };
        let position = position as usize;
        self.rows[position] = REMOVED;
        // Zeroed, since a vector reveals nearly as much as its text.
        let width = self.dimensions.div_ceil(8);
        sabotage!(
            "a-vector-that-goes-stays-in-memory",
            self.signs[position * width..(position + 1) * width].fill(0)
        );
        if self.is_exact {
            self.components[position * self.dimensions..(position + 1) * self.dimensions].fill(0);
        }
    }

    /// The nearest rows, among `only` if that is given: all of them, or beyond `EXACT_MAX` the best
    /// candidates by signs.
    pub fn nearest(
        &self,
        db: &Connection,
        direction: &Embedding,
        depth: usize,
        only: Option<&HashSet<i64>>,
    ) -> rusqlite::Result<RankedRows> {
        if direction.components().len() != self.dimensions {
            return Ok(RankedRows::default());
        }
        let only = only.map(|only| {
            let mut places: Vec<u32> = only
                .iter()
                .filter_map(|row| self.positions.get(row))
                .copied()
                .collect();
            places.sort_unstable();
            places
        });
        if self.is_exact {
            Ok(self.score_exactly(direction, only.as_deref()))
        } else {
            self.score_by_signs(db, direction, depth, only.as_deref())
        }
    }

    /// Scores rows by comparing whole vectors.
    fn score_exactly(&self, direction: &Embedding, only: Option<&[u32]>) -> RankedRows {
        let looked_for = direction.components();
        let square = dot(looked_for, looked_for);
        let score = |position: usize| {
            let components =
                &self.components[position * self.dimensions..(position + 1) * self.dimensions];
            let product =
                <i8 as SpatialSimilarity>::dot(looked_for, components).unwrap_or(0.0) as i32;
            (
                scaled_cosine(cosine_of(product, square, self.square_norms[position])),
                self.rows[position],
            )
        };
        let scored = match only {
            Some(places) => places
                .iter()
                .map(|position| score(*position as usize))
                .collect(),
            None => (0..self.rows.len())
                .filter(|position| self.rows[*position] != REMOVED)
                .map(score)
                .collect(),
        };
        RankedRows::new(scored)
    }

    /// Selects candidates by their signs and compares those by their whole vectors from the
    /// database.
    fn score_by_signs(
        &self,
        db: &Connection,
        direction: &Embedding,
        depth: usize,
        only: Option<&[u32]>,
    ) -> rusqlite::Result<RankedRows> {
        let looked_for: Vec<u8> = signs(direction.components()).collect();
        let wanted = (depth * RESCORED_PER_WANTED).max(RESCORED_MIN);
        // In the order in which they are stored in the database.
        let near: Vec<u32> = match only {
            Some(places) => {
                let apart: Vec<u16> = places
                    .iter()
                    .map(|position| self.sign_distance(*position as usize, &looked_for))
                    .collect();
                closest(&apart, wanted)
                    .into_iter()
                    .map(|at| places[at as usize])
                    .collect()
            }
            None => closest(&self.sign_distances(&looked_for, self.threads()), wanted),
        };
        // One file has one tenant: these numbers were read from it.
        let mut query = db.prepare_cached("SELECT bytes FROM vector WHERE n = ?1")?;
        let mut scored = Vec::with_capacity(near.len());
        for position in near {
            let position = position as usize;
            let mut rows = query.query(params![self.numbers[position]])?;
            let Some(row) = rows.next()? else { continue };
            if let Some(vector) = Embedding::from_bytes(row.get_ref(0)?.as_blob()?) {
                scored.push((
                    scaled_cosine(direction.cosine(&vector)),
                    self.rows[position],
                ));
            }
        }
        Ok(RankedRows::new(scored))
    }

    /// The number of components whose signs differ; `REMOVED_DISTANCE` if the entry was removed.
    fn sign_distance(&self, position: usize, looked_for: &[u8]) -> u16 {
        let own = &self.signs[position * looked_for.len()..(position + 1) * looked_for.len()];
        if self.rows[position] == REMOVED {
            REMOVED_DISTANCE
        } else {
            u8::hamming(own, looked_for).map_or(REMOVED_DISTANCE, |apart| apart as u16)
        }
    }

    /// The number of threads: a large memory is divided among a few, because the time to the answer
    /// counts.
    fn threads(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        if self.rows.len() < PARALLEL_MIN {
            1
        } else {
            cores().min(THREADS_MAX)
        }
    }

    /// The distances of all positions, computed by so many threads.
    fn sign_distances(&self, looked_for: &[u8], threads: usize) -> Vec<u16> {
        let share = self.rows.len().div_ceil(threads).max(1);
        let mut apart = vec![REMOVED_DISTANCE; self.rows.len()];
        std::thread::scope(|scope| {
            let mut shares = apart.chunks_mut(share).enumerate();
            let own = shares.next();
            let fill = |(number, part): (usize, &mut [u16])| {
                part.iter_mut()
                    .zip(number * share..)
                    .for_each(|(apart, place)| *apart = self.sign_distance(place, looked_for));
            };
            for other in shares {
                scope.spawn(move || fill(other));
            }
            own.into_iter().for_each(fill);
        });
        apart
    }

    /// The approximate size in bytes.
    pub fn bytes(&self) -> usize {
        self.rows.capacity() * 20
            + self.positions.capacity() * 16
            + self.signs.capacity()
            + self.components.capacity()
    }
}

/// Moves the part of `width` values at one position to another.
fn move_part<T: Copy>(values: &mut [T], width: usize, from: usize, to: usize) {
    values.copy_within(from * width..(from + 1) * width, to * width);
}

/// Keeps the first `length` values and gives the rest of the memory back. The rest is zeroed first:
/// it still holds vectors that were moved.
fn shorten<T: Copy + Default>(values: &mut Vec<T>, length: usize) {
    values[length..].fill(T::default());
    values.truncate(length);
    values.shrink_to_fit();
}

fn scaled_cosine(cosine: f64) -> i64 {
    (cosine * COSINE_SCALE).round() as i64
}

/// One bit for each component, set where it is positive.
fn signs(components: &[i8]) -> impl Iterator<Item = u8> {
    components.chunks(8).map(|chunk| {
        chunk
            .iter()
            .enumerate()
            .fold(0, |bits, (at, c)| bits | (u8::from(*c > 0) << at))
    })
}

/// The positions of the `wanted` smallest distances, in order of position; of equal distances the
/// latest positions. Distances are small whole numbers: counting them is faster than sorting a
/// million.
fn closest(distances: &[u16], wanted: usize) -> Vec<u32> {
    let mut counts = vec![
        0usize;
        usize::from(
            distances
                .iter()
                .copied()
                .filter(|distance| *distance != REMOVED_DISTANCE)
                .max()
                .unwrap_or(0)
        ) + 1
    ];
    for distance in distances
        .iter()
        .filter(|distance| **distance != REMOVED_DISTANCE)
    {
        counts[usize::from(*distance)] += 1;
    }
    let mut bound = 0u16;
    let mut left = wanted;
    while let Some(count) = counts
        .get(usize::from(bound))
        .filter(|count| **count <= left)
    {
        left -= count;
        bound += 1;
    }
    let mut positions = Vec::with_capacity(wanted.min(distances.len()));
    for (position, distance) in distances.iter().enumerate().rev() {
        if *distance > bound || *distance == REMOVED_DISTANCE {
            continue;
        }
        if *distance == bound {
            if left == 0 {
                continue;
            }
            left -= 1;
        }
        positions.push(position as u32);
    }
    positions.reverse();
    positions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(seed: &mut u64) -> f32 {
        *seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }

    /// Directions scattered around a few topics.
    fn directions(count: usize) -> Vec<Embedding> {
        let mut seed = 9;
        let topics: Vec<Vec<f32>> = (0..20)
            .map(|_| (0..128).map(|_| next(&mut seed)).collect())
            .collect();
        let one = |n: usize, seed: &mut u64| {
            let components: Vec<f32> = topics[n % 20].iter().map(|c| c + next(seed)).collect();
            Embedding::from_components(&components).unwrap()
        };
        (0..count).map(|n| one(n, &mut seed)).collect()
    }

    fn index_of(db: &Connection, exact_max: usize, directions: &[Embedding]) -> VectorIndex {
        db.execute_batch("CREATE TABLE vector (n INTEGER PRIMARY KEY, bytes BLOB)")
            .unwrap();
        let mut vectors = VectorIndex {
            exact_max,
            ..VectorIndex::new(ModelId(1))
        };
        for (n, direction) in directions.iter().enumerate() {
            let number = n as i64 + 1;
            db.execute(
                "INSERT INTO vector VALUES (?1, ?2)",
                params![number, direction.to_bytes()],
            )
            .unwrap();
            vectors.add(number, number * 10, &direction.to_bytes());
        }
        vectors
    }

    fn ten(vectors: &VectorIndex, db: &Connection, direction: &Embedding) -> Vec<i64> {
        vectors
            .nearest(db, direction, 10, None)
            .unwrap()
            .next(10)
            .iter()
            .map(|(_, row)| *row)
            .collect()
    }

    #[test]
    fn sign_prefiltering_recalls_the_exact_neighbours() {
        let directions = directions(6_000);
        let exact_db = Connection::open_in_memory().unwrap();
        let signs_db = Connection::open_in_memory().unwrap();
        let exact = index_of(&exact_db, 10_000, &directions);
        let signs = index_of(&signs_db, 1_000, &directions);
        assert!(exact.is_exact && !signs.is_exact && signs.components.is_empty());
        let mut found = 0;
        for direction in directions.iter().step_by(150) {
            let all = ten(&exact, &exact_db, direction);
            let near = ten(&signs, &signs_db, direction);
            found += near.iter().filter(|row| all.contains(row)).count();
        }
        assert!(found >= 390, "{found} of 400");
    }

    proptest::proptest! {
        #![proptest_config(proptest::test_runner::Config::with_cases(remem_testkit::cases(64, 256)))]

        #[test]
        fn closest_equals_a_sorted_selection(apart in proptest::collection::vec(0u16..9, 0..60), wanted in 0usize..70) {
            let apart: Vec<u16> = apart.into_iter().map(|apart| if apart == 8 { REMOVED_DISTANCE } else { apart }).collect();
            let mut sorted: Vec<u32> = (0..apart.len() as u32).filter(|place| apart[*place as usize] != REMOVED_DISTANCE).collect();
            sorted.sort_by_key(|place| (apart[*place as usize], std::cmp::Reverse(*place)));
            sorted.truncate(wanted);
            sorted.sort_unstable();
            proptest::prop_assert_eq!(closest(&apart, wanted), sorted);
        }
    }

    /// What is found of all vectors, and of every third one, with the scores.
    fn found(
        vectors: &VectorIndex,
        db: &Connection,
        directions: &[Embedding],
    ) -> Vec<Vec<(i64, i64)>> {
        let third: HashSet<i64> = (0..200).step_by(3).map(|n| (n + 1) * 10).collect();
        let mut found = Vec::new();
        for direction in directions.iter().step_by(17) {
            for only in [None, Some(&third)] {
                let mut best = vectors.nearest(db, direction, 1, only).unwrap();
                found.push(best.next(1_000).to_vec());
            }
        }
        found
    }

    proptest::proptest! {
        #![proptest_config(proptest::test_runner::Config::with_cases(remem_testkit::cases(32, 256)))]

        /// Each number of `changes` removes that vector, or adds it again.
        #[test]
        fn a_sweep_changes_nothing_that_is_found(
            changes in proptest::collection::vec(0usize..60, 0..300),
            exact_max in proptest::sample::select(vec![5usize, 20, 1_000]),
        ) {
            let directions = directions(60);
            let db = Connection::open_in_memory().unwrap();
            let other_db = Connection::open_in_memory().unwrap();
            let mut swept = index_of(&db, exact_max, &directions);
            let mut kept = index_of(&other_db, exact_max, &directions);
            for n in changes {
                let number = n as i64 + 1;
                for vectors in [&mut swept, &mut kept] {
                    if vectors.positions.contains_key(&(number * 10)) {
                        vectors.remove(number * 10);
                    } else {
                        vectors.add(number, number * 10, &directions[n].to_bytes());
                    }
                }
                swept.sweep();
                proptest::prop_assert!(swept.rows.len() <= swept.positions.len() * 2);
            }
            proptest::prop_assert_eq!(swept.is_exact, kept.is_exact);
            proptest::prop_assert_eq!(
                found(&swept, &db, &directions),
                found(&kept, &other_db, &directions)
            );
        }
    }

    /// A memory of ten entries whose texts change all the time, and one that was large once.
    #[test]
    fn churn_costs_neither_memory_nor_the_exact_mode() {
        let directions = directions(40);
        let db = Connection::open_in_memory().unwrap();
        let mut vectors = index_of(&db, 20, &directions[..10]);
        let before = vectors.bytes();
        for n in 0..2_000usize {
            let row = (n as i64 % 10 + 1) * 10;
            vectors.add(n as i64 + 100, row, &directions[n % 40].to_bytes());
            vectors.sweep();
        }
        assert!(vectors.is_exact && vectors.positions.len() == 10);
        assert!(
            vectors.bytes() <= before * 4,
            "{} {before}",
            vectors.bytes()
        );
        let mut once_large = index_of(&Connection::open_in_memory().unwrap(), 20, &directions);
        assert!(!once_large.is_exact && !once_large.could_be_exact());
        (16..=40).for_each(|n| once_large.remove(n * 10));
        assert!(once_large.could_be_exact());
    }

    #[test]
    fn removed_vectors_are_not_found_and_not_kept() {
        let directions = directions(40);
        for exact_max in [100, 5] {
            let db = Connection::open_in_memory().unwrap();
            let mut vectors = index_of(&db, exact_max, &directions);
            assert_eq!(ten(&vectors, &db, &directions[7])[0], 80);
            vectors.remove(80);
            assert!(!ten(&vectors, &db, &directions[7]).contains(&80));
            let looked_for: Vec<u8> = signs(directions[3].components()).collect();
            let apart = vectors.sign_distances(&looked_for, 1);
            assert!(
                apart[3] == 0
                    && apart[7] == REMOVED_DISTANCE
                    && (2..50).all(|threads| vectors.sign_distances(&looked_for, threads) == apart)
            );
            assert!(vectors.signs[7 * 16..8 * 16].iter().all(|bits| *bits == 0));
            assert!(
                !vectors.is_exact || vectors.components[7 * 128..8 * 128].iter().all(|c| *c == 0)
            );
            let only = HashSet::from([30, 80]);
            let mut best = vectors
                .nearest(&db, &directions[7], 10, Some(&only))
                .unwrap();
            assert_eq!(
                best.next(9).iter().map(|(_, row)| *row).collect::<Vec<_>>(),
                [30]
            );
            vectors.add(99, 80, &directions[7].to_bytes());
            assert!(vectors.positions.contains_key(&80));
        }
    }
}
