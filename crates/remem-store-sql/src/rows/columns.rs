//! A column of a table and its value, in the types that both stores have.

use std::borrow::Cow;

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnType {
    Number,
    Text,
    Bytes,
    /// A text that may hold U+0000: bytes in PostgreSQL, whose texts cannot.
    Content,
}

/// The value of a column; `None` is NULL.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Number(Option<i64>),
    Text(Option<Cow<'a, str>>),
    Bytes(Option<Cow<'a, [u8]>>),
}

impl<'a> Value<'a> {
    /// The same value, for as long as this one.
    pub fn borrowed(&self) -> Value<'_> {
        match self {
            Value::Number(number) => Value::Number(*number),
            Value::Text(text) => Value::Text(text.as_deref().map(Cow::Borrowed)),
            Value::Bytes(bytes) => Value::Bytes(bytes.as_deref().map(Cow::Borrowed)),
        }
    }

    pub fn text(text: &'a str) -> Value<'a> {
        Value::Text(Some(Cow::Borrowed(text)))
    }

    pub fn opt_text(text: Option<&'a str>) -> Value<'a> {
        Value::Text(text.map(Cow::Borrowed))
    }

    pub fn owned_text(text: String) -> Value<'a> {
        Value::Text(Some(Cow::Owned(text)))
    }

    pub fn number(number: i64) -> Value<'a> {
        Value::Number(Some(number))
    }

    pub fn bytes(bytes: &'a [u8]) -> Value<'a> {
        Value::Bytes(Some(Cow::Borrowed(bytes)))
    }
}

/// A column of a table whose rows are saved from values of the type `R`.
pub(crate) struct Column<R> {
    pub name: &'static str,
    pub kind: ColumnType,
    /// The value of the column in a row.
    pub value: for<'a> fn(&'a R) -> Value<'a>,
}

// Not derived: that would ask it of `R`.
impl<R> Clone for Column<R> {
    fn clone(&self) -> Column<R> {
        *self
    }
}

impl<R> Copy for Column<R> {}

/// A column that holds a number.
pub(crate) const fn number<R>(
    name: &'static str,
    value: for<'a> fn(&'a R) -> Value<'a>,
) -> Column<R> {
    Column {
        name,
        kind: ColumnType::Number,
        value,
    }
}

/// A column that holds a text.
pub(crate) const fn text<R>(
    name: &'static str,
    value: for<'a> fn(&'a R) -> Value<'a>,
) -> Column<R> {
    Column {
        name,
        kind: ColumnType::Text,
        value,
    }
}

/// A column that holds bytes.
pub(crate) const fn bytes<R>(
    name: &'static str,
    value: for<'a> fn(&'a R) -> Value<'a>,
) -> Column<R> {
    Column {
        name,
        kind: ColumnType::Bytes,
        value,
    }
}

/// A column that holds the text of an entry.
pub(crate) const fn content<R>(
    name: &'static str,
    value: for<'a> fn(&'a R) -> Value<'a>,
) -> Column<R> {
    Column {
        name,
        kind: ColumnType::Content,
        value,
    }
}

/// Those of the columns that have these names, in the order of the names.
pub(crate) fn pick<R>(columns: &[Column<R>], names: &[&str]) -> Vec<Column<R>> {
    let find = |name: &&str| columns.iter().find(|column| column.name == *name).copied();
    let found: Vec<Column<R>> = names.iter().filter_map(find).collect();
    debug_assert_eq!(found.len(), names.len(), "each name is a column: {names:?}");
    found
}
