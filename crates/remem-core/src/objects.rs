//! Reads JSON of callers so that an object must be an object, and neither a list nor a map is
//! endless. serde also takes an array for a struct, and reads its fields by their place:
//! `["nightly"]` would start a run.

use crate::sabotage;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use serde_json::Value;
use std::fmt;

/// What is said of an array where an object is needed.
pub const NEEDED: &str = "an object is needed where there is an array";

/// Elements of a list and fields of an object at the most, however far in. Fields with a meaning
/// have limits of their own, which are lower; this one is for what callers make up.
pub const ITEMS_MAX: usize = 100_000;

/// What is said of a list or object with more.
pub const TOO_MANY: &str = "a list or an object has too many items";

/// Reads a whole text.
pub fn from_slice<T: DeserializeOwned>(json: &[u8]) -> serde_json::Result<T> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    let value = T::deserialize(Strict(&mut reader))?;
    reader.end()?;
    Ok(value)
}

/// Reads a value.
pub fn from_value<T: DeserializeOwned>(value: Value) -> serde_json::Result<T> {
    T::deserialize(Strict(value))
}

/// A reader whose structs are objects, however far in.
struct Strict<D>(D);

/// Forwards methods that take nothing but a visitor.
macro_rules! forward_reads {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method(Within::any(visitor))
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Strict<D> {
    type Error = D::Error;

    forward_reads! {
        deserialize_any deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32
        deserialize_i64 deserialize_i128 deserialize_u8 deserialize_u16 deserialize_u32
        deserialize_u64 deserialize_u128 deserialize_f32 deserialize_f64 deserialize_char
        deserialize_str deserialize_string deserialize_bytes deserialize_byte_buf
        deserialize_option deserialize_unit deserialize_seq deserialize_map
        deserialize_identifier deserialize_ignored_any
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_unit_struct(name, Within::any(visitor))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0
            .deserialize_newtype_struct(name, Within::any(visitor))
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_tuple(len, Within::any(visitor))
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0
            .deserialize_tuple_struct(name, len, Within::any(visitor))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0
            .deserialize_struct(name, fields, Within::object(visitor))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0
            .deserialize_enum(name, variants, Within::any(visitor))
    }

    fn is_human_readable(&self) -> bool {
        self.0.is_human_readable()
    }
}

/// A visitor whose inner values are read strictly, too.
struct Within<V> {
    visitor: V,
    is_object: bool,
}

impl<V> Within<V> {
    fn any(visitor: V) -> Within<V> {
        Within {
            visitor,
            is_object: false,
        }
    }

    fn object(visitor: V) -> Within<V> {
        Within {
            visitor,
            is_object: true,
        }
    }
}

/// Forwards visits of plain values.
macro_rules! forward_visits {
    ($($method:ident: $kind:ty,)*) => {$(
        fn $method<E: Error>(self, value: $kind) -> Result<V::Value, E> {
            self.visitor.$method(value)
        }
    )*};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Within<V> {
    type Value = V::Value;

    forward_visits! {
        visit_bool: bool,
        visit_i8: i8,
        visit_i16: i16,
        visit_i32: i32,
        visit_i64: i64,
        visit_i128: i128,
        visit_u8: u8,
        visit_u16: u16,
        visit_u32: u32,
        visit_u64: u64,
        visit_u128: u128,
        visit_f32: f32,
        visit_f64: f64,
        visit_char: char,
        visit_str: &str,
        visit_borrowed_str: &'de str,
        visit_string: String,
        visit_bytes: &[u8],
        visit_borrowed_bytes: &'de [u8],
        visit_byte_buf: Vec<u8>,
    }

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, reader: D) -> Result<V::Value, D::Error> {
        self.visitor.visit_some(Strict(reader))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, reader: D) -> Result<V::Value, D::Error> {
        self.visitor.visit_newtype_struct(Strict(reader))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<V::Value, A::Error> {
        if sabotage!("an-array-stands-for-an-object", self.is_object, false) {
            return Err(A::Error::custom(NEEDED));
        }
        self.visitor.visit_seq(Counted::new(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_map(Counted::new(fields))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_enum(Strict(variant))
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Strict<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Strict(reader))
    }
}

/// A list or an object that may have so many more items.
struct Counted<A> {
    items: A,
    left: usize,
}

impl<A> Counted<A> {
    fn new(items: A) -> Counted<A> {
        Counted {
            items,
            left: sabotage!("lists-in-requests-are-endless", ITEMS_MAX, usize::MAX),
        }
    }

    fn count<T, E: Error>(&mut self, item: Option<T>) -> Result<Option<T>, E> {
        if item.is_some() {
            let left = self.left.checked_sub(1);
            self.left = left.ok_or_else(|| E::custom(TOO_MANY))?;
        }
        Ok(item)
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Counted<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        let item = self.items.next_element_seed(Strict(seed))?;
        self.count(item)
    }

    fn size_hint(&self) -> Option<usize> {
        self.items.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Counted<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        let field = self.items.next_key_seed(Strict(seed))?;
        self.count(field)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.items.next_value_seed(Strict(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.items.size_hint()
    }
}

impl<'de, A: EnumAccess<'de>> EnumAccess<'de> for Strict<A> {
    type Error = A::Error;
    type Variant = Strict<A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, Self::Variant), A::Error> {
        let (value, variant) = self.0.variant_seed(Strict(seed))?;
        Ok((value, Strict(variant)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Strict<A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.0.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        self.0.newtype_variant_seed(Strict(seed))
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, A::Error> {
        self.0.tuple_variant(len, Within::any(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.0.struct_variant(fields, Within::object(visitor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::json;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Inner {
        name: String,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "camelCase")]
    enum Choice {
        Plain,
        Named { name: String },
        Pair(u8, u8),
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Outer {
        list: Vec<Inner>,
        one: Option<Inner>,
        choice: Option<Choice>,
        pair: Option<(u8, Inner)>,
        rest: Option<Value>,
    }

    fn both(text: &str) -> [Result<Outer, String>; 2] {
        let value = serde_json::from_str(text).unwrap();
        [
            from_slice(text.as_bytes()).map_err(|e| e.to_string()),
            from_value(value).map_err(|e| e.to_string()),
        ]
    }

    #[test]
    fn lists_and_objects_have_an_end_however_far_in() {
        let list = |items: usize| format!(r#"{{"list": [], "rest": [[1{}]]}}"#, ",1".repeat(items));
        let fields = |count: usize| {
            let fields: Vec<String> = (0..count).map(|n| format!(r#""{n}":1"#)).collect();
            format!(r#"{{"list": [], "rest": {{{}}}}}"#, fields.join(","))
        };
        for good in [list(ITEMS_MAX - 1), fields(ITEMS_MAX)] {
            assert!(both(&good).iter().all(Result::is_ok));
        }
        for bad in [list(ITEMS_MAX), fields(ITEMS_MAX + 1)] {
            for read in both(&bad) {
                assert!(read.unwrap_err().starts_with(TOO_MANY));
            }
        }
    }

    #[test]
    fn arrays_are_refused_for_objects_however_far_in() {
        for bad in [
            json!([[], null, null, null, null]),
            json!({"list": [["a"]]}),
            json!({"list": [], "one": ["a"]}),
            json!({"list": [], "choice": {"named": ["a"]}}),
            json!({"list": [], "pair": [1, ["a"]]}),
        ] {
            for read in both(&bad.to_string()) {
                let error = read.unwrap_err();
                // Of a variant inside a value, serde_json itself asks for an object.
                let refused = error.starts_with(NEEDED) || error.contains("struct variant");
                assert!(refused, "{bad}: {error}");
            }
        }
    }

    #[test]
    fn everything_else_is_read_as_ever() {
        let good = json!({"list": [{"name": "a"}], "one": {"name": "b"}, "rest": [[1], {"x": [2.5, null]}],
            "choice": {"pair": [1, 2]}, "pair": [3, {"name": "c"}]});
        for read in both(&good.to_string()) {
            let read = read.unwrap();
            assert_eq!(read, serde_json::from_value(good.clone()).unwrap());
            assert_eq!(read.choice, Some(Choice::Pair(1, 2)));
        }
        let named = from_value::<Choice>(json!({"named": {"name": "a"}})).unwrap();
        assert_eq!(
            named,
            Choice::Named {
                name: "a".to_owned()
            }
        );
        assert_eq!(from_value::<Choice>(json!("plain")).unwrap(), Choice::Plain);
        assert!(from_slice::<Inner>(b"{\"name\": \"a\"} x").is_err());
    }
}
