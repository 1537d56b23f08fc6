//! The vector of a text: its stored form, and the similarity of two.
//!
//! A vector is stored as one byte per component. Two stores with the same bytes agree on every
//! comparison to the last bit, because the products are whole numbers; the loss against full
//! precision is too small to show in a ranking (`docs/recall.md`). A vector reveals nearly as much
//! as its text: it is made from redacted text only, it is never shown, and it is erased with its
//! text.

use std::fmt;

/// The model that made a vector, as a digest of its name and of the form of its output. Vectors of
/// different models are never compared.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize,
)]
pub struct ModelId(pub i64);

impl ModelId {
    /// The id of a model. `name` must identify it among all models, its version included.
    #[must_use]
    pub fn of(name: &str, dimensions: usize) -> ModelId {
        let digest = blake3::hash(format!("embedding model\0{name}\0{dimensions}").as_bytes());
        let [a, b, c, d, e, f, g, h, ..] = *digest.as_bytes();
        // Positive, because not every place that stores the number has a sign for it.
        ModelId(i64::from_le_bytes([a, b, c, d, e, f, g, h]) & i64::MAX)
    }
}

/// A vector of whole numbers between -127 and 127; the largest component has one of the two.
#[derive(Clone, PartialEq, Eq)]
pub struct Embedding(Vec<i8>);

impl Embedding {
    /// The allowed numbers of components.
    pub const DIMENSIONS: std::ops::RangeInclusive<usize> = 8..=4_096;

    /// Makes a vector from a model's output. `None` if it has no direction: all components are
    /// zero, or one is not a number.
    #[must_use]
    pub fn from_components(components: &[f32]) -> Option<Embedding> {
        if !Self::DIMENSIONS.contains(&components.len())
            || components.iter().any(|c| !c.is_finite())
        {
            return None;
        }
        let most = components.iter().fold(0f32, |most, c| most.max(c.abs()));
        if most <= f32::MIN_POSITIVE {
            return None;
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the quotient lies between -127 and 127"
        )]
        let bytes = components
            .iter()
            .map(|c| (c / most * 127.0).round() as i8)
            .collect();
        Some(Embedding(bytes))
    }

    /// Reads the bytes that a store holds; `None` if they are no vector.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Embedding> {
        let components: Vec<i8> = bytes.iter().map(|b| b.cast_signed()).collect();
        let some = components.iter().any(|c| *c != 0) && !components.contains(&i8::MIN);
        (Self::DIMENSIONS.contains(&components.len()) && some).then_some(Embedding(components))
    }

    /// The bytes for a store.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.iter().map(|c| c.cast_unsigned()).collect()
    }

    /// The components, one byte each.
    #[must_use]
    pub fn components(&self) -> &[i8] {
        &self.0
    }

    /// The cosine similarity of two vectors of one model, from -1 to 1; 0 for vectors that cannot
    /// be compared.
    #[must_use]
    pub fn cosine(&self, other: &Embedding) -> f64 {
        if self.0.len() != other.0.len() {
            return 0.0;
        }
        cosine_of(
            dot(&self.0, &other.0),
            dot(&self.0, &self.0),
            dot(&other.0, &other.0),
        )
    }
}

/// The cosine from the dot product and the squares of both lengths.
#[must_use]
pub fn cosine_of(product: i32, square: i32, other_square: i32) -> f64 {
    f64::from(product)
        / (f64::from(square) * f64::from(other_square))
            .sqrt()
            .max(1.0)
}

/// The dot product of two vectors of the same length; exact, since 4,096 products of two bytes fit.
/// Written so that the compiler makes vector instructions of it.
#[must_use]
pub fn dot(a: &[i8], b: &[i8]) -> i32 {
    a.iter()
        .zip(b)
        .map(|(a, b)| i32::from(i16::from(*a) * i16::from(*b)))
        .sum()
}

// A vector is as private as its text, so it is not printed.
impl fmt::Debug for Embedding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Embedding({} components)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn zero_non_finite_and_missized_vectors_are_rejected() {
        assert!(Embedding::from_components(&[0.0; 16]).is_none());
        assert!(Embedding::from_components(&[f32::NAN; 16]).is_none());
        assert!(Embedding::from_components(&[f32::INFINITY; 16]).is_none());
        assert!(Embedding::from_components(&[1.0; 4]).is_none());
        assert!(Embedding::from_components(&[1.0; 5_000]).is_none());
        assert!(Embedding::from_bytes(&[0; 16]).is_none());
        assert!(Embedding::from_bytes(&[128; 16]).is_none());
    }

    #[test]
    fn model_ids_differ_by_name_and_dimension() {
        assert_ne!(ModelId::of("a", 384), ModelId::of("b", 384));
        assert_ne!(ModelId::of("a", 384), ModelId::of("a", 768));
        assert!(ModelId::of("a", 384).0 >= 0);
    }

    proptest! {
        #![proptest_config(crate::test_cases::config(64, 256))]

        #[test]
        fn one_byte_per_component_preserves_cosine_similarity(a in prop::collection::vec(-1f32..1.0, 64), b in prop::collection::vec(-1f32..1.0, 64)) {
            let exact = |x: &[f32], y: &[f32]| x.iter().zip(y).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>();
            let cosine = exact(&a, &b) / (exact(&a, &a) * exact(&b, &b)).sqrt();
            let a = Embedding::from_components(&a).unwrap();
            let b = Embedding::from_components(&b).unwrap();
            prop_assert!((a.cosine(&b) - cosine).abs() < 0.02, "{} {cosine}", a.cosine(&b));
            prop_assert!((a.cosine(&a) - 1.0).abs() < 1e-12);
            prop_assert_eq!(Embedding::from_bytes(&a.to_bytes()).unwrap(), a);
        }
    }
}
