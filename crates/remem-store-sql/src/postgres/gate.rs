//! The gate: the one file that uses connections. Every use of one is a transaction with an
//! identity.
//!
//! Row-level security reads the identity from settings that are local to a transaction, set by the
//! text that begins it (`identity`). Code outside this file never gets a connection, so no
//! statement can run without an identity, and none can leave one behind: a connection returns to
//! the pool only after COMMIT.
//!
//! Statements of a transaction that do not depend on each other are sent together, so that a read
//! costs one trip to the database and a group commit two.

use super::connections::{Connection, Connections};
use super::error::{DatabaseError, hides_the_outcome, store_error, unavailable};
pub(crate) use super::identity::Identity;
use deadpool_postgres::Object;
use remem_core::{sabotage, sabotage_sql};
use remem_store::StoreError;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row, Statement};

/// The database role that a transaction runs as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Serves requests; has no rights on proposals.
    App,
    /// Serves passes over all tenants: sees which tenants are due, holds leases, deletes old
    /// records. Sees no more content than `App`.
    Worker,
    /// Reads proposals, and nothing else.
    Reviewer,
}

/// A statement and its parameters.
pub(crate) struct SqlCall<'a> {
    pub sql: &'a str,
    pub params: Vec<&'a (dyn ToSql + Sync)>,
}

/// Makes a call from a statement and its parameters.
pub(crate) fn sql_call<'a>(sql: &'a str, params: &[&'a (dyn ToSql + Sync)]) -> SqlCall<'a> {
    SqlCall {
        sql,
        params: params.to_vec(),
    }
}

/// The only way to a connection of this node's pools.
pub(crate) struct Gate {
    pub connections: Connections,
    /// The longest time for a transaction, from the first statement to its end.
    pub deadline: Duration,
    /// Whether pgvector is installed.
    pub vectors: bool,
    /// The number of vectors of a kind up to which a memory's vectors are all compared.
    pub exact_max: i64,
}

impl Gate {
    /// Runs one statement in a read-only transaction, in one round trip.
    pub async fn read(
        &self,
        role: Role,
        who: Identity<'_>,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        self.read_as("BEGIN READ ONLY", role, who, sql_call(sql, params))
            .await
    }

    /// The same, for a statement whose order an index has. The planner assumes the size of an
    /// average memory, for which sorting is cheaper; for a large one it is not.
    pub async fn read_in_order(
        &self,
        role: Role,
        who: Identity<'_>,
        call: SqlCall<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        self.read_as(
            "BEGIN READ ONLY; SET LOCAL enable_sort = off",
            role,
            who,
            call,
        )
        .await
    }

    /// The same, for vectors. The planner has no statistics on how a tenant's vectors are
    /// distributed among those of all, and would rather read everything; `ordered` is for the
    /// indexes that return the nearest first.
    pub async fn read_near(
        &self,
        role: Role,
        who: Identity<'_>,
        ordered: bool,
        call: SqlCall<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        let begin = if ordered {
            "BEGIN READ ONLY; SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off"
        } else {
            "BEGIN READ ONLY; SET LOCAL enable_seqscan = off"
        };
        self.read_as(begin, role, who, call).await
    }

    async fn read_as(
        &self,
        begin: &str,
        role: Role,
        who: Identity<'_>,
        call: SqlCall<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        let transaction = self.begin(begin, role, who, vec![call], true).await?;
        Ok(transaction.1.into_iter().next_back().unwrap_or_default())
    }

    /// Runs a few statements that do not depend on each other in one writing transaction, in one
    /// round trip.
    pub async fn write(
        &self,
        role: Role,
        who: Identity<'_>,
        calls: Vec<SqlCall<'_>>,
    ) -> Result<Vec<Vec<Row>>, StoreError> {
        Ok(self.begin("BEGIN", role, who, calls, true).await?.1)
    }

    /// Begins a transaction and runs its first statements, in one round trip.
    pub async fn open(
        &self,
        begin: &str,
        role: Role,
        who: Identity<'_>,
        calls: Vec<SqlCall<'_>>,
    ) -> Result<(Transaction, Vec<Vec<Row>>), StoreError> {
        self.begin(begin, role, who, calls, false).await
    }

    async fn begin(
        &self,
        begin: &str,
        role: Role,
        who: Identity<'_>,
        calls: Vec<SqlCall<'_>>,
        commit: bool,
    ) -> Result<(Transaction, Vec<Vec<Row>>), StoreError> {
        let transaction = Transaction {
            db: Some(self.connections.get(role, who.account()).await?),
            deadline: self.deadline,
        };
        let results = transaction
            .round_trip(Some(&who.begin(begin)), calls, commit)
            .await
            .map_err(TripError::into_store)?;
        if commit {
            transaction.return_connection();
            return Ok((
                Transaction {
                    db: None,
                    deadline: self.deadline,
                },
                results,
            ));
        }
        Ok((transaction, results))
    }
}

/// An open transaction. If it is dropped before its end, its connection is closed instead of
/// returned to the pool, which rolls it back.
pub(crate) struct Transaction {
    db: Option<Connection>,
    deadline: Duration,
}

/// The reasons why a round trip failed.
pub(crate) enum TripError {
    Database(Error),
    Deadline,
    /// The COMMIT failed, and not because of anything that its answer names.
    OutcomeUnknown,
}

impl TripError {
    pub fn into_store(self) -> StoreError {
        match self {
            TripError::Database(error) => store_error(error),
            TripError::Deadline => unavailable(DatabaseError::Deadline),
            TripError::OutcomeUnknown => unavailable(DatabaseError::OutcomeUnknown),
        }
    }
}

impl Transaction {
    /// Runs further statements, sent together.
    pub async fn run(&self, calls: Vec<SqlCall<'_>>) -> Result<Vec<Vec<Row>>, TripError> {
        self.round_trip(None, calls, false).await
    }

    /// Runs the last statements and commits, all sent together.
    pub async fn commit(self, calls: Vec<SqlCall<'_>>) -> Result<Vec<Vec<Row>>, TripError> {
        let results = self.round_trip(None, calls, true).await?;
        self.return_connection();
        Ok(results)
    }

    /// Returns the connection, which has seen its COMMIT, to the pool.
    fn return_connection(mut self) {
        drop(self.db.take());
    }

    async fn round_trip(
        &self,
        begin: Option<&str>,
        calls: Vec<SqlCall<'_>>,
        commit: bool,
    ) -> Result<Vec<Vec<Row>>, TripError> {
        let db = self
            .db
            .as_ref()
            .expect("an open transaction has its connection")
            .object();
        tokio::time::timeout(self.deadline, round_trip(db, begin, calls, commit))
            .await
            .unwrap_or(Err(TripError::Deadline))
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if let Some(db) = self.db.take() {
            db.discard();
        }
    }
}

type PendingRows<'a> = Pin<Box<dyn Future<Output = Result<Vec<Row>, Error>> + Send + 'a>>;

/// Sends all statements, then waits for all results. Should a statement fail, those after it fail
/// too and COMMIT rolls back: the first error is the one that counts, and success needs all of
/// them.
async fn round_trip(
    db: &Object,
    begin: Option<&str>,
    calls: Vec<SqlCall<'_>>,
    commit: bool,
) -> Result<Vec<Vec<Row>>, TripError> {
    let mut statements: Vec<Statement> = Vec::with_capacity(calls.len());
    for call in &calls {
        statements.push(
            db.prepare_cached(sabotage_sql!(call.sql))
                .await
                .map_err(TripError::Database)?,
        );
    }
    let mut sent: Vec<PendingRows<'_>> = Vec::with_capacity(calls.len() + 2);
    if let Some(begin) = begin {
        sent.push(Box::pin(async move {
            db.batch_execute(begin).await.map(|()| Vec::new())
        }));
    }
    for (call, statement) in calls.iter().zip(&statements) {
        sent.push(Box::pin(
            async move { db.query(statement, &call.params).await },
        ));
    }
    if commit {
        sent.push(Box::pin(async move {
            db.batch_execute(sabotage!(
                "postgres-acknowledged-without-a-commit",
                "COMMIT",
                "ROLLBACK"
            ))
            .await
            .map(|()| Vec::new())
        }));
    }
    let answers = sabotage!(
        "postgres-a-trip-for-each-statement",
        in_order(sent).await,
        {
            let mut answers = Vec::new();
            for one in sent {
                answers.push(one.await);
            }
            answers
        }
    );
    if commit && matches!(answers.last(), Some(Err(error)) if hides_the_outcome(error)) {
        return Err(TripError::OutcomeUnknown);
    }
    let mut results = answers
        .into_iter()
        .collect::<Result<Vec<_>, _>>()
        .map_err(TripError::Database)?;
    if begin.is_some() {
        results.remove(0);
    }
    if commit {
        results.pop();
    }
    Ok(results)
}

/// Polls all futures, the first one first: the driver sends a request when its future is first
/// polled, so this is the order in which the database receives them. (Join functions of libraries
/// leave the order open, or rotate it.)
async fn in_order<T>(mut futures: Vec<Pin<Box<dyn Future<Output = T> + Send + '_>>>) -> Vec<T> {
    let mut outputs: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(move |cx| {
        for (future, output) in futures.iter_mut().zip(&mut outputs) {
            if output.is_none()
                && let Poll::Ready(value) = future.as_mut().poll(cx)
            {
                *output = Some(value);
            }
        }
        if outputs.iter().all(Option::is_some) {
            Poll::Ready(outputs.drain(..).flatten().collect())
        } else {
            Poll::Pending
        }
    })
    .await
}
