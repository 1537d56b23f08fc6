//! The columns of the tables that a commit writes: one list a table, for both stores. A list says
//! of each column its name, its type and where its value comes from; the statements that insert,
//! change and delete rows are made from the lists. May not decide which rows change.

pub(crate) mod columns;
pub(crate) mod entry;
pub(crate) mod log;
pub(crate) mod memory;
pub(crate) mod record;
pub(crate) mod statement;
pub(crate) mod workshop;

pub(crate) use columns::{Column, ColumnType, Value};
