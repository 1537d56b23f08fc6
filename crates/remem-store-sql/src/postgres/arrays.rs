//! Rows as arrays, one for each column of a statement, as `unnest` takes them.

use super::gate::SqlCall;
use crate::rows::statement::Statement;
use crate::rows::{ColumnType, Value};
use std::borrow::Cow;
use std::error::Error;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

/// A statement with its rows.
pub(super) struct ArrayCall<'a> {
    sql: &'a str,
    arrays: Vec<Array<'a>>,
}

#[derive(Debug)]
enum Array<'a> {
    Numbers(Vec<Option<i64>>),
    Texts(Vec<Option<Cow<'a, str>>>),
    Bytes(Vec<Option<ByteValue<'a>>>),
}

/// Bytes that are borrowed or owned.
#[derive(Debug)]
struct ByteValue<'a>(Cow<'a, [u8]>);

impl ToSql for ByteValue<'_> {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        self.0.as_ref().to_sql(kind, out)
    }

    fn accepts(kind: &Type) -> bool {
        <&[u8] as ToSql>::accepts(kind)
    }

    to_sql_checked!();
}

impl<'a> Array<'a> {
    fn new(kind: ColumnType, rows: usize) -> Array<'a> {
        match kind {
            ColumnType::Number => Array::Numbers(Vec::with_capacity(rows)),
            ColumnType::Text => Array::Texts(Vec::with_capacity(rows)),
            ColumnType::Bytes | ColumnType::Content => Array::Bytes(Vec::with_capacity(rows)),
        }
    }

    fn push(&mut self, value: Value<'a>) {
        match (self, value) {
            (Array::Numbers(array), Value::Number(number)) => array.push(number),
            (Array::Texts(array), Value::Text(text)) => array.push(text),
            (Array::Bytes(array), Value::Bytes(bytes)) => array.push(bytes.map(ByteValue)),
            (Array::Bytes(array), Value::Text(text)) => array.push(text.map(as_bytes)),
            // A column's type is that of its values: see the lists in `rows`.
            (Array::Numbers(array), _) => array.push(None),
            (Array::Texts(array), _) => array.push(None),
            (Array::Bytes(array), _) => array.push(None),
        }
    }

    fn as_sql(&self) -> &(dyn ToSql + Sync) {
        match self {
            Array::Numbers(array) => array,
            Array::Texts(array) => array,
            Array::Bytes(array) => array,
        }
    }
}

fn as_bytes(text: Cow<'_, str>) -> ByteValue<'_> {
    ByteValue(match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    })
}

impl<'a> ArrayCall<'a> {
    /// The call for these rows; `None` if there are none.
    pub fn of<R: 'a>(
        statement: &'a Statement<R>,
        rows: impl IntoIterator<Item = &'a R>,
    ) -> Option<ArrayCall<'a>> {
        let mut rows = rows.into_iter().peekable();
        rows.peek()?;
        let size = rows.size_hint().0;
        let new = |column: &crate::rows::Column<R>| Array::new(column.kind, size);
        let mut arrays: Vec<Array<'a>> = statement.columns.iter().map(new).collect();
        for row in rows {
            for (array, column) in arrays.iter_mut().zip(&statement.columns) {
                array.push((column.value)(row));
            }
        }
        Some(ArrayCall {
            sql: &statement.sql,
            arrays,
        })
    }

    /// The call for rows whose values are given, in the order of these types.
    pub fn of_values(
        sql: &'a str,
        kinds: &[ColumnType],
        rows: impl Iterator<Item = &'a [Value<'static>]>,
    ) -> ArrayCall<'a> {
        let mut arrays: Vec<Array<'a>> = kinds.iter().map(|kind| Array::new(*kind, 0)).collect();
        for row in rows {
            for (array, value) in arrays.iter_mut().zip(row) {
                array.push(value.borrowed());
            }
        }
        ArrayCall { sql, arrays }
    }

    /// The call with its parameters.
    pub fn call(&'a self, tenant: &'a &'a str) -> SqlCall<'a> {
        let mut params: Vec<&(dyn ToSql + Sync)> = vec![tenant];
        params.extend(self.arrays.iter().map(Array::as_sql));
        SqlCall {
            sql: self.sql,
            params,
        }
    }
}
