//! Tests of the stores: against their contract, against each other, and against access past them.
//! Most modules need a PostgreSQL server, named by `REMEM_TEST_POSTGRES`.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be prepared or go on has failed"
)]

mod conformance;
mod constraints;
mod copy;
mod differential;
mod erasure;
mod nodes;
mod query_plans;
mod recorder;
mod row_hash;
mod rule_guard;
mod schema_parity;
mod search_index;
mod startup_check;
mod tenant_isolation;
mod trigrams;
mod trips;
mod upgrade;
mod validity_windows;
mod vector_search;
mod waiting;
mod without_constraints;
mod workshop;
mod writer_queue;
