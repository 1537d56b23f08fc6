//! Reads JSON of callers strictly: an object must be an object, and neither a list nor a map is
//! endless. serde alone also takes an array for a struct and reads its fields by position:
//! `["nightly"]` would start a run. An error says where in the document it is.

use crate::sabotage;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use serde_json::Value;
use std::cell::{Cell, RefCell};
use std::fmt::{self, Write};

/// The error message for an array where an object is needed.
pub const OBJECT_NEEDED: &str = "an object is needed where there is an array";

/// The most elements of a list and fields of an object, at any depth. Fields with a meaning have
/// lower limits of their own; this one is for values whose form the caller chooses.
pub const ITEMS_MAX: usize = 100_000;

/// The error message for a list or an object with more items.
pub const TOO_MANY_ITEMS: &str = "a list or an object has too many items";

/// The error for a text that cannot be read as the expected type.
#[derive(Debug)]
pub struct ReadError {
    /// The error of the JSON reader, which may quote what the caller sent.
    pub source: serde_json::Error,
    /// A JSON pointer to the wrong value, made of the host's own field names and of numbers. It
    /// ends at an object whose keys are chosen by the caller. Empty for the whole document.
    pub pointer: String,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

impl std::error::Error for ReadError {}

/// Reads a whole text as one JSON value.
pub fn from_slice<T: DeserializeOwned>(json: &[u8]) -> Result<T, ReadError> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    let path = Path::default();
    let value =
        T::deserialize(StrictReader::new(&mut reader, &path)).map_err(|e| path.locate_error(e))?;
    reader.end().map_err(|e| path.locate_error(e))?;
    Ok(value)
}

/// Reads a JSON value that was parsed before.
pub fn from_value<T: DeserializeOwned>(value: Value) -> Result<T, ReadError> {
    let path = Path::default();
    T::deserialize(StrictReader::new(value, &path)).map_err(|e| path.locate_error(e))
}

/// The path from the document to the value that is being read. A step is removed once its value was
/// read, so after an error the path leads to the wrong value.
#[derive(Default)]
struct Path(RefCell<Vec<PathStep>>);

enum PathStep {
    Field(&'static str),
    Index(usize),
}

impl Path {
    fn with_step<T, E>(
        &self,
        step: Option<PathStep>,
        read: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let is_step = step.is_some();
        self.0.borrow_mut().extend(step);
        let value = read()?;
        if is_step {
            self.0.borrow_mut().pop();
        }
        Ok(value)
    }

    fn locate_error(&self, source: serde_json::Error) -> ReadError {
        let mut pointer = String::new();
        for step in self.0.borrow().iter() {
            // Writing to a string does not fail.
            let _ = match step {
                PathStep::Field(name) => write!(pointer, "/{name}"),
                PathStep::Index(index) => write!(pointer, "/{index}"),
            };
        }
        ReadError { source, pointer }
    }
}

/// The names of the fields of a struct, and the one whose key was read last.
struct FieldNames {
    names: &'static [&'static str],
    current: Cell<Option<&'static str>>,
}

impl FieldNames {
    fn new(names: &'static [&'static str]) -> FieldNames {
        FieldNames {
            names,
            current: Cell::new(None),
        }
    }

    fn note_key(&self, key: &str) {
        let known = self.names.iter().find(|name| **name == key);
        self.current.set(known.copied());
    }
}

/// A deserializer that takes objects for structs and nothing else, at any depth.
struct StrictReader<'p, D> {
    inner: D,
    path: &'p Path,
    /// The fields in which a key is noted when it is read.
    key: Option<&'p FieldNames>,
}

impl<'p, D> StrictReader<'p, D> {
    fn new(inner: D, path: &'p Path) -> StrictReader<'p, D> {
        StrictReader {
            inner,
            path,
            key: None,
        }
    }

    fn visit_any<V>(&self, visitor: V) -> StrictVisitor<'p, V> {
        StrictVisitor {
            visitor,
            path: self.path,
            key: self.key,
            fields: None,
        }
    }

    fn visit_object<V>(&self, visitor: V, fields: &'static [&'static str]) -> StrictVisitor<'p, V> {
        StrictVisitor {
            fields: Some(fields),
            ..self.visit_any(visitor)
        }
    }
}

/// Forwards methods that take only a visitor.
macro_rules! forward_reads {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            let visitor = self.visit_any(visitor);
            self.inner.$method(visitor)
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for StrictReader<'_, D> {
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
        let visitor = self.visit_any(visitor);
        self.inner.deserialize_unit_struct(name, visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = self.visit_any(visitor);
        self.inner.deserialize_newtype_struct(name, visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = self.visit_any(visitor);
        self.inner.deserialize_tuple(len, visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = self.visit_any(visitor);
        self.inner.deserialize_tuple_struct(name, len, visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = self.visit_object(visitor, fields);
        self.inner.deserialize_struct(name, fields, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = self.visit_any(visitor);
        self.inner.deserialize_enum(name, variants, visitor)
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

/// A visitor that reads inner values strictly, too.
struct StrictVisitor<'p, V> {
    visitor: V,
    path: &'p Path,
    key: Option<&'p FieldNames>,
    /// The names of the fields, where an object is needed.
    fields: Option<&'static [&'static str]>,
}

/// Forwards visits of plain values.
macro_rules! forward_visits {
    ($($method:ident: $kind:ty,)*) => {$(
        fn $method<E: Error>(self, value: $kind) -> Result<V::Value, E> {
            self.visitor.$method(value)
        }
    )*};
}

/// Forwards visits of texts, which may be the key of a field.
macro_rules! forward_texts {
    ($($method:ident: $kind:ty,)*) => {$(
        fn $method<E: Error>(self, value: $kind) -> Result<V::Value, E> {
            if let Some(fields) = self.key {
                fields.note_key(&value);
            }
            self.visitor.$method(value)
        }
    )*};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for StrictVisitor<'_, V> {
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
        visit_bytes: &[u8],
        visit_borrowed_bytes: &'de [u8],
        visit_byte_buf: Vec<u8>,
    }

    forward_texts! {
        visit_str: &str,
        visit_borrowed_str: &'de str,
        visit_string: String,
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
        self.visitor
            .visit_some(StrictReader::new(reader, self.path))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, reader: D) -> Result<V::Value, D::Error> {
        self.visitor
            .visit_newtype_struct(StrictReader::new(reader, self.path))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<V::Value, A::Error> {
        if sabotage!(
            "an-array-stands-for-an-object",
            self.fields.is_some(),
            false
        ) {
            return Err(A::Error::custom(OBJECT_NEEDED));
        }
        self.visitor
            .visit_seq(LimitedItems::new(items, self.path, &[]))
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<V::Value, A::Error> {
        let names = self.fields.unwrap_or_default();
        self.visitor
            .visit_map(LimitedItems::new(fields, self.path, names))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<V::Value, A::Error> {
        self.visitor
            .visit_enum(StrictReader::new(variant, self.path))
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for StrictReader<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<S::Value, D::Error> {
        self.inner.deserialize(StrictReader {
            inner: reader,
            path: self.path,
            key: self.key,
        })
    }
}

/// The items of a list or an object, with the number of items that may still follow.
struct LimitedItems<'p, A> {
    items: A,
    left: usize,
    path: &'p Path,
    fields: FieldNames,
}

impl<'p, A> LimitedItems<'p, A> {
    fn new(items: A, path: &'p Path, names: &'static [&'static str]) -> LimitedItems<'p, A> {
        LimitedItems {
            items,
            left: sabotage!("lists-in-requests-are-endless", ITEMS_MAX, usize::MAX),
            path,
            fields: FieldNames::new(names),
        }
    }

    fn count_item<T, E: Error>(&mut self, item: Option<T>) -> Result<Option<T>, E> {
        if item.is_some() {
            let left = self.left.checked_sub(1);
            self.left = left.ok_or_else(|| E::custom(TOO_MANY_ITEMS))?;
        }
        Ok(item)
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for LimitedItems<'_, A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        let index = ITEMS_MAX.saturating_sub(self.left);
        let seed = StrictReader::new(seed, self.path);
        let item = self.path.with_step(Some(PathStep::Index(index)), || {
            self.items.next_element_seed(seed)
        })?;
        self.count_item(item)
    }

    fn size_hint(&self) -> Option<usize> {
        self.items.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for LimitedItems<'_, A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        let seed = StrictReader {
            key: Some(&self.fields),
            ..StrictReader::new(seed, self.path)
        };
        let field = self.items.next_key_seed(seed)?;
        self.count_item(field)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        let field = self.fields.current.take().map(PathStep::Field);
        let seed = StrictReader::new(seed, self.path);
        self.path
            .with_step(field, || self.items.next_value_seed(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.items.size_hint()
    }
}

impl<'de, 'p, A: EnumAccess<'de>> EnumAccess<'de> for StrictReader<'p, A> {
    type Error = A::Error;
    type Variant = StrictReader<'p, A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, Self::Variant), A::Error> {
        let seed = StrictReader::new(seed, self.path);
        let (value, variant) = self.inner.variant_seed(seed)?;
        Ok((value, StrictReader::new(variant, self.path)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for StrictReader<'_, A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.inner.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        let seed = StrictReader::new(seed, self.path);
        self.inner.newtype_variant_seed(seed)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, A::Error> {
        let visitor = self.visit_any(visitor);
        self.inner.tuple_variant(len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        let visitor = self.visit_object(visitor, fields);
        self.inner.struct_variant(fields, visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::json;

    #[derive(Debug, PartialEq, Deserialize)]
    struct SampleStruct {
        name: String,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "camelCase")]
    enum SampleEnum {
        Plain,
        Named { name: String },
        Pair(u8, u8),
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Outer {
        list: Vec<SampleStruct>,
        one: Option<SampleStruct>,
        choice: Option<SampleEnum>,
        pair: Option<(u8, SampleStruct)>,
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
    fn lists_and_objects_are_bounded_at_any_depth() {
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
                assert!(read.unwrap_err().starts_with(TOO_MANY_ITEMS));
            }
        }
    }

    #[test]
    fn arrays_in_place_of_objects_are_rejected_at_any_depth() {
        for bad in [
            json!([[], null, null, null, null]),
            json!({"list": [["a"]]}),
            json!({"list": [], "one": ["a"]}),
            json!({"list": [], "choice": {"named": ["a"]}}),
            json!({"list": [], "pair": [1, ["a"]]}),
        ] {
            for read in both(&bad.to_string()) {
                let error = read.unwrap_err();
                // For a variant inside a value, serde_json itself asks for an object.
                let refused = error.starts_with(OBJECT_NEEDED) || error.contains("struct variant");
                assert!(refused, "{bad}: {error}");
            }
        }
    }

    #[test]
    fn an_error_points_to_the_invalid_value() {
        let pointer = |json: Value| {
            let read = from_value::<Outer>(json.clone()).unwrap_err().pointer;
            let text = json.to_string();
            let written = from_slice::<Outer>(text.as_bytes()).unwrap_err().pointer;
            assert_eq!(read, written, "{json}");
            read
        };
        assert_eq!(pointer(json!({})), "");
        assert_eq!(pointer(json!({"list": 1})), "/list");
        let second = json!({"list": [{"name": "a"}, {"name": 2}]});
        assert_eq!(pointer(second), "/list/1/name");
        assert_eq!(pointer(json!({"list": [{"name": "a"}, {}]})), "/list/1");
        assert_eq!(
            pointer(json!({"list": [], "one": {"name": 7}})),
            "/one/name"
        );
        assert_eq!(pointer(json!({"list": [], "pair": [1, {}]})), "/pair/1");
    }

    /// The keys of a map are chosen by the caller, so no error contains one.
    #[test]
    fn an_error_pointer_omits_caller_chosen_map_keys() {
        use std::collections::BTreeMap;
        #[derive(Debug, Deserialize)]
        struct Labels {
            #[expect(dead_code, reason = "only its reading matters")]
            labels: BTreeMap<String, SampleStruct>,
        }
        let json = br#"{"labels": {"canary": {"name": 1}}}"#;
        let error = from_slice::<Labels>(json).unwrap_err();
        assert_eq!(error.pointer, "/labels/name");
    }

    #[test]
    fn valid_json_is_read_as_serde_json_reads_it() {
        let good = json!({"list": [{"name": "a"}], "one": {"name": "b"}, "rest": [[1], {"x": [2.5, null]}],
            "choice": {"pair": [1, 2]}, "pair": [3, {"name": "c"}]});
        for read in both(&good.to_string()) {
            let read = read.unwrap();
            assert_eq!(read, serde_json::from_value(good.clone()).unwrap());
            assert_eq!(read.choice, Some(SampleEnum::Pair(1, 2)));
        }
        let named = from_value::<SampleEnum>(json!({"named": {"name": "a"}})).unwrap();
        assert_eq!(
            named,
            SampleEnum::Named {
                name: "a".to_owned()
            }
        );
        assert_eq!(
            from_value::<SampleEnum>(json!("plain")).unwrap(),
            SampleEnum::Plain
        );
        assert!(from_slice::<SampleStruct>(b"{\"name\": \"a\"} x").is_err());
    }
}
