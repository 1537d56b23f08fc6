//! The schema: its steps, which correspond to the embedded store's (same number, same name), and
//! `migrate`, which prepares a database: roles, schema, steps, policies. All in one transaction; a
//! second `migrate` at the same time waits for the first.

pub use super::row_hash::{BackfillProgress, backfill_hashes};

use super::connect::PostgresTarget;
use super::error::store_error;
use remem_core::sabotage_sql;
use remem_store::StoreError;
use tokio_postgres::{Client, Error};

/// A numbered step of the schema.
struct SchemaStep {
    number: i32,
    name: &'static str,
    sql: &'static str,
}

macro_rules! step {
    ($series:literal, $number:literal, $name:literal) => {
        SchemaStep {
            number: $number,
            name: $name,
            sql: include_str!(concat!("../../migrations/", $series, "/", $name, ".sql")),
        }
    };
}

/// The host's own tables come first: the tenants' tables use their functions.
const SERIES: [(&str, &[SchemaStep]); 2] = [
    (
        "host",
        &[
            step!("postgres-host", 1, "0001_directory"),
            step!("postgres-host", 2, "0002_principal"),
            step!("postgres-host", 3, "0003_key_trust"),
            step!("postgres-host", 4, "0004_row_hash"),
        ],
    ),
    (
        "memory",
        &[
            step!("postgres", 1, "0001_memory"),
            step!("postgres", 2, "0002_owner_and_lease"),
            step!("postgres", 3, "0003_record"),
            step!("postgres", 4, "0004_run"),
            step!("postgres", 5, "0005_lineage"),
            step!("postgres", 6, "0006_tie"),
            step!("postgres", 7, "0007_workshop"),
            step!("postgres", 8, "0008_recall"),
            step!("postgres", 9, "0009_action_text"),
            step!("postgres", 10, "0010_row_hash"),
            step!("postgres", 11, "0011_named_tenant"),
            step!("postgres", 12, "0012_totals"),
            step!("postgres", 13, "0013_standing"),
        ],
    ),
];

/// Search by meaning needs pgvector. Without it, or without the right to install it, there is
/// search by words.
const PGVECTOR: &str = "DO $$ BEGIN
     IF EXISTS (SELECT 1 FROM pg_available_extensions WHERE name = 'vector') THEN
       BEGIN CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public; EXCEPTION WHEN insufficient_privilege THEN NULL; END;
     END IF; END $$";

/// Policies and rights: set up again by every `migrate`.
const POLICIES_AND_RIGHTS: &str = include_str!("../../migrations/postgres-walls.sql");

/// The four roles of a database. The owner owns the tables and never logs in; the others serve and
/// own nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roles {
    /// The role that owns the tables.
    pub owner: String,
    /// The role that `serve` logs in as.
    pub app: String,
    /// The role that passes run as; the application may switch to it.
    pub worker: String,
    /// The role that reads proposals; the application may switch to it, explicitly only.
    pub reviewer: String,
}

impl Roles {
    /// The roles of a database. Roles belong to the whole server, so their names contain the
    /// database's.
    #[must_use]
    pub fn of(database: &str) -> Roles {
        let role = |part| format!("{database}_{part}");
        Roles {
            owner: role("owner"),
            app: role("app"),
            worker: role("worker"),
            reviewer: role("reviewer"),
        }
    }
}

/// The result of `migrate`.
#[derive(Debug)]
pub struct MigrationReport {
    /// The roles that exist now.
    pub roles: Roles,
    /// Whether the application's role was created just now, with the password that was given.
    pub app_created: bool,
    /// The names of the steps that were applied.
    pub applied: Vec<&'static str>,
}

/// The reasons why a database cannot be used as it is, with the remedy.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// The database was never migrated.
    #[error(
        "this database is not prepared: run `remem migrate --database URL` with a user that may create roles and schemas"
    )]
    Unprepared,
    /// An earlier version of remem prepared it.
    #[error(
        "the database's schema ({series}) is at step {found}, this remem needs step {needed}: run `remem migrate --database URL`"
    )]
    Older {
        series: &'static str,
        found: i32,
        needed: i32,
    },
    /// A later version of remem prepared it.
    #[error(
        "the database's schema ({series}) is at step {found}, this remem knows up to {known}: use a newer remem"
    )]
    Newer {
        series: &'static str,
        found: i32,
        known: i32,
    },
    /// Roles are missing and the user may not create them.
    #[error(
        "this user may not create roles; have an administrator run:\n{0}\nand then run `remem migrate` again"
    )]
    RolesMissing(String),
    /// The database refused a statement.
    #[error(transparent)]
    Database(#[from] StoreError),
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Prepares a database, or brings it up to date. `password` is for the application's role, if that
/// has to be created.
pub async fn migrate(
    target: &PostgresTarget,
    password: &str,
) -> Result<MigrationReport, SchemaError> {
    let (client, driver) = target.connect().await?;
    #[expect(
        clippy::disallowed_methods,
        reason = "the connection is driven while its statements wait for it"
    )]
    let driver_task = tokio::spawn(driver);
    let result = migrate_in_transaction(&client, password).await;
    drop(client);
    let _ = driver_task.await; // its errors have reached the statements
    result
}

async fn migrate_in_transaction(
    client: &Client,
    password: &str,
) -> Result<MigrationReport, SchemaError> {
    let failed = |error: Error| SchemaError::Database(store_error(error));
    client
        .batch_execute("BEGIN; SET LOCAL lock_timeout = '60s'")
        .await
        .map_err(failed)?;
    client
        .query(
            "SELECT pg_advisory_xact_lock(hashtext('remem migrate'))",
            &[],
        )
        .await
        .map_err(failed)?;
    let database: String = client
        .query_one("SELECT current_database()::text", &[])
        .await
        .and_then(|row| row.try_get(0))
        .map_err(failed)?;
    let roles = Roles::of(&database);
    let app_created = prepare_roles(client, &roles, &database, password).await?;
    client.batch_execute(PGVECTOR).await.map_err(failed)?;
    let owner = quoted(&roles.owner);
    let app = quoted(&roles.app);
    let worker = quoted(&roles.worker);
    let reviewer = quoted(&roles.reviewer);
    let schema = format!(
        "SET LOCAL ROLE {owner}; CREATE SCHEMA IF NOT EXISTS remem;
         CREATE TABLE IF NOT EXISTS remem.schema_step (series text NOT NULL, number integer NOT NULL, name text NOT NULL,
           applied_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (series, number))"
    );
    client.batch_execute(&schema).await.map_err(failed)?;
    let mut applied = Vec::new();
    for (series, steps) in &SERIES {
        let found = applied_step(client, series).await.map_err(failed)?;
        refuse_newer(series, steps, found)?;
        for step in steps.iter().filter(|step| step.number > found) {
            client
                .batch_execute(sabotage_sql!(step.sql))
                .await
                .map_err(failed)?;
            let record = "INSERT INTO remem.schema_step (series, number, name) VALUES ($1, $2, $3)";
            client
                .execute(record, &[series, &step.number, &step.name])
                .await
                .map_err(failed)?;
            applied.push(step.name);
        }
    }
    client
        .batch_execute(
            &sabotage_sql!(POLICIES_AND_RIGHTS)
                .replace("{app}", &app)
                .replace("{worker}", &worker)
                .replace("{reviewer}", &reviewer),
        )
        .await
        .map_err(failed)?;
    client.batch_execute("COMMIT").await.map_err(failed)?;
    Ok(MigrationReport {
        roles,
        app_created,
        applied,
    })
}

/// Creates missing roles and grants. Returns whether the application's role is new.
async fn prepare_roles(
    client: &Client,
    roles: &Roles,
    database: &str,
    password: &str,
) -> Result<bool, SchemaError> {
    let failed = |error: Error| SchemaError::Database(store_error(error));
    client.batch_execute(PGVECTOR).await.map_err(failed)?;
    let owner = quoted(&roles.owner);
    let app = quoted(&roles.app);
    let worker = quoted(&roles.worker);
    let reviewer = quoted(&roles.reviewer);
    // The server gets a verifier and never the password: statements may be logged.
    let verifier = postgres_protocol::password::scram_sha_256(password.as_bytes());
    let wanted = [
        (
            &roles.owner,
            format!("CREATE ROLE {owner} NOLOGIN"),
            String::new(),
        ),
        (
            &roles.worker,
            format!("CREATE ROLE {worker} NOLOGIN"),
            String::new(),
        ),
        (
            &roles.reviewer,
            format!("CREATE ROLE {reviewer} NOLOGIN"),
            String::new(),
        ),
        // NOINHERIT: it has the rights of the worker or the reviewer only after an explicit SET
        // ROLE.
        (
            &roles.app,
            format!("CREATE ROLE {app} LOGIN NOINHERIT"),
            format!(" PASSWORD '{verifier}'"),
        ),
    ];
    let names: Vec<&str> = wanted.iter().map(|(name, ..)| name.as_str()).collect();
    let existing = client
        .query(
            "SELECT rolname::text FROM pg_roles WHERE rolname = ANY($1)",
            &[&names],
        )
        .await
        .map_err(failed)?;
    let existing: Vec<String> = existing
        .iter()
        .filter_map(|row| row.try_get(0).ok())
        .collect();
    let missing: Vec<_> = wanted
        .iter()
        .filter(|(name, ..)| !existing.contains(name))
        .collect();
    let can_create_roles =
        "SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user";
    let can_create_roles: bool = client
        .query_one(can_create_roles, &[])
        .await
        .and_then(|row| row.try_get(0))
        .map_err(failed)?;
    if !missing.is_empty() && !can_create_roles {
        let mut statements: Vec<String> = missing
            .iter()
            .map(|(_, sql, _)| format!("  {sql};"))
            .collect();
        statements.push(format!(
            "  GRANT {worker}, {reviewer} TO {app};\n  GRANT {owner} TO CURRENT_USER_OF_THE_URL;"
        ));
        statements.push(format!(
            "  GRANT CREATE ON DATABASE {} TO {owner};",
            quoted(database)
        ));
        return Err(SchemaError::RolesMissing(statements.join("\n")));
    }
    for (_, sql, rest) in &missing {
        client
            .batch_execute(&format!("{sql}{rest}"))
            .await
            .map_err(failed)?;
    }
    if can_create_roles {
        let grants = format!(
            "ALTER ROLE {app} NOINHERIT; GRANT {worker}, {reviewer} TO {app}; GRANT {owner} TO CURRENT_USER; GRANT CREATE, CONNECT ON DATABASE {} TO {owner}",
            quoted(database)
        );
        let connect = format!(
            "GRANT CONNECT ON DATABASE {} TO {app}, {worker}, {reviewer}",
            quoted(database)
        );
        client
            .batch_execute(&format!("{grants}; {connect}"))
            .await
            .map_err(failed)?;
    }
    Ok(missing.iter().any(|(name, ..)| **name == roles.app))
}

/// The number of the last step of a series that was applied.
async fn applied_step(client: &Client, series: &str) -> Result<i32, Error> {
    client
        .query_one(
            "SELECT coalesce(max(number), 0) FROM remem.schema_step WHERE series = $1",
            &[&series],
        )
        .await?
        .try_get(0)
}

fn refuse_newer(series: &'static str, steps: &[SchemaStep], found: i32) -> Result<(), SchemaError> {
    let known = steps.last().map_or(0, |step| step.number);
    if found > known {
        Err(SchemaError::Newer {
            series,
            found,
            known,
        })
    } else {
        Ok(())
    }
}

/// Refuses a database whose schema is not the one that this program was written for.
pub(super) async fn check(client: &Client) -> Result<(), SchemaError> {
    let failed = |error: Error| SchemaError::Database(store_error(error));
    let is_prepared = "SELECT to_regclass('remem.schema_step') IS NOT NULL";
    let is_prepared: bool = client
        .query_one(is_prepared, &[])
        .await
        .and_then(|row| row.try_get(0))
        .map_err(failed)?;
    if !is_prepared {
        return Err(SchemaError::Unprepared);
    }
    for (series, steps) in &SERIES {
        let found = applied_step(client, series).await.map_err(failed)?;
        refuse_newer(series, steps, found)?;
        let needed = steps.last().map_or(0, |step| step.number);
        if found < needed {
            return Err(SchemaError::Older {
                series,
                found,
                needed,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    fn names(folder: &str) -> Vec<String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("migrations")
            .join(folder);
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|f| f.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn sqlite_and_postgres_migrations_match_in_number_and_name() {
        for (embedded, postgres, (_, steps)) in [
            ("sqlite-host", "postgres-host", &SERIES[0]),
            ("sqlite", "postgres", &SERIES[1]),
        ] {
            assert_eq!(names(embedded), names(postgres));
            let listed: Vec<String> = steps
                .iter()
                .map(|step| format!("{}.sql", step.name))
                .collect();
            assert_eq!(listed, names(postgres), "every file is a step");
            for (n, step) in steps.iter().enumerate() {
                assert_eq!(step.number as usize, n + 1);
                assert!(step.name.starts_with(&format!("{:04}_", n + 1)));
            }
        }
    }
}
