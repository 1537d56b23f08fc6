//! The start-up check: reads the catalogue and refuses to serve when the second wall does not stand. Row-level security
//! is silent when it is off, so nothing else would tell.

use super::error::failed;
use remem_store::StoreError;
use tokio_postgres::{Client, Error};

/// A gap in the wall, or a server that cannot be trusted with what an answer promises.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// Too old.
    #[error("PostgreSQL {0} is too old: 15 or newer is needed")]
    Version(String),
    /// The role sees past the policies.
    #[error("the database user {user} {why}, so row-level security would not hold: use the role that `remem migrate` names ({app})")]
    Role {
        /// The user.
        user: String,
        /// What it is.
        why: &'static str,
        /// What to use instead.
        app: String,
    },
    /// Tables are open.
    #[error("the wall between tenants has gaps: {0}; run `remem migrate --database URL`, and find out who took it down")]
    Gaps(String),
    /// The database refused.
    #[error(transparent)]
    Database(#[from] StoreError),
}

/// What was learnt about the server.
#[derive(Clone, Debug)]
pub struct Server {
    /// Its version, as it says it.
    pub version: String,
    /// The database's name.
    pub database: String,
    /// Whether commits survive a crash of the machine: `fsync` and `full_page_writes` are on.
    pub durable: bool,
}

/// Tables that carry a tenant's name and are not walled off: the list of tenants itself.
const OPEN_TABLES: [&str; 1] = ["tenant"];

/// Checks the role and the tables.
pub(super) async fn check(client: &Client) -> Result<Server, GuardError> {
    let server = server(client).await?;
    check_role(client, &super::schema::Roles::of(&server.database)).await?;
    let mut gaps = texts(client, GAPS).await?;
    gaps.retain(|gap| !OPEN_TABLES.iter().any(|open| gap.starts_with(&format!("table {open} "))));
    gaps.extend(texts(client, BEHIND_THE_WALL).await?);
    if gaps.is_empty() { Ok(server) } else { Err(GuardError::Gaps(gaps.join("; "))) }
}

async fn server(client: &Client) -> Result<Server, GuardError> {
    let sql = "SELECT current_setting('server_version'), current_setting('server_version_num')::int, current_database()::text,
                 current_setting('fsync') = 'on' AND current_setting('full_page_writes') = 'on'";
    let read = async {
        let row = client.query_one(sql, &[]).await?;
        let number: i32 = row.try_get(1)?;
        let server = Server { version: row.try_get(0)?, database: row.try_get(2)?, durable: row.try_get(3)? };
        Ok::<_, Error>((server, number))
    };
    let (server, number) = read.await.map_err(failed)?;
    if number < 150_000 { Err(GuardError::Version(server.version)) } else { Ok(server) }
}

/// Each column is a reason not to serve as this user.
const ROLE: &str = "SELECT current_user::text, r.rolsuper, r.rolbypassrls,
     EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
       WHERE n.nspname = 'remem' AND pg_has_role(current_user, c.relowner, 'MEMBER')),
     EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
       WHERE n.nspname = 'remem' AND c.relkind IN ('r', 'p') AND has_table_privilege(current_user, c.oid, 'TRUNCATE')),
     has_schema_privilege(current_user, 'remem', 'CREATE')
   FROM pg_roles r WHERE r.rolname = current_user";

async fn check_role(client: &Client, roles: &super::schema::Roles) -> Result<(), GuardError> {
    let whys = ["is a superuser", "has BYPASSRLS", "owns the tables, or may become their owner", "may TRUNCATE", "may create tables here"];
    let row = client.query_one(ROLE, &[]).await.map_err(failed)?;
    let user: String = row.try_get(0).map_err(failed)?;
    for (n, why) in whys.into_iter().enumerate() {
        if row.try_get(n + 1).map_err(failed)? {
            return Err(GuardError::Role { user, why, app: roles.app.clone() });
        }
    }
    Ok(())
}

/// Tables with a tenant's name that have no enabled and forced security, or no restrictive policy for tenants.
const GAPS: &str = "SELECT format('table %s %s', c.relname, CASE
       WHEN NOT c.relrowsecurity THEN 'has no row-level security' WHEN NOT c.relforcerowsecurity THEN 'does not force it on its owner'
       ELSE 'has no restrictive policy for tenants' END)
     FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id'
     WHERE n.nspname = 'remem' AND c.relkind IN ('r', 'p') AND NOT a.attisdropped
       AND NOT (c.relrowsecurity AND c.relforcerowsecurity AND EXISTS (SELECT 1 FROM pg_policy p
         WHERE p.polrelid = c.oid AND NOT p.polpermissive AND p.polcmd = '*' AND pg_get_expr(p.polqual, p.polrelid) LIKE '%current_tenant()%'))";

/// Views run with their owner's rights unless told otherwise, functions if they are told so.
const BEHIND_THE_WALL: &str = "SELECT format('view %s does not run as its caller', c.relname) FROM pg_class c
       JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'remem' AND (c.relkind = 'm'
         OR c.relkind = 'v' AND NOT coalesce(c.reloptions::text LIKE '%security_invoker=true%', false))
     UNION ALL SELECT format('function %s runs as its owner', p.proname) FROM pg_proc p
       JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = 'remem' AND p.prosecdef";

async fn texts(client: &Client, sql: &str) -> Result<Vec<String>, GuardError> {
    let rows = client.query(sql, &[]).await.map_err(failed)?;
    Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, Error>>().map_err(failed)?)
}
