//! The start-up check: reads the catalogue and refuses to serve if row-level security does not
//! separate tenants as it should. It fails silently when it is off, so nothing else would reveal
//! it.

use super::connect::{WRONG_ROLE, has_role};
use super::error::store_error;
use remem_core::{sabotage, sabotage_sql};
use remem_store::StoreError;
use tokio_postgres::{Client, Error};

/// A gap in the separation of tenants, or a server that cannot keep what an acknowledgement
/// promises.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// The server's version is too old.
    #[error("PostgreSQL {0} is too old: 15 or newer is needed")]
    Version(String),
    /// An extension spreads the tables over servers that this check does not see.
    #[error(
        "the database has the extension citus, which is not supported: the policies on its other servers, which keep tenants apart, are not checked; use a database without it"
    )]
    Sharded,
    /// A session has another role than it asked for.
    #[error("{WRONG_ROLE}")]
    OtherRole,
    /// The role is not bound by the policies.
    #[error(
        "the database user {user} {why}, so row-level security would not hold: use the role that `remem migrate` names ({app})"
    )]
    Role {
        user: String,
        why: &'static str,
        app: String,
    },
    /// Policies, rights or triggers of tables are missing.
    #[error(
        "the wall between tenants has gaps: {0}; run `remem migrate --database URL`, which puts policies and rights up anew, and find out who took them down"
    )]
    Gaps(String),
    /// The database refused a statement of the check.
    #[error(transparent)]
    Database(#[from] StoreError),
}

/// The properties of the server that the check found.
#[derive(Clone, Debug)]
pub struct ServerInfo {
    /// The version, as the server reports it.
    pub version: String,
    pub database: String,
    /// Whether commits survive a crash of the machine: `fsync` and `full_page_writes` are on.
    pub durable: bool,
    /// Whether it stores vectors: pgvector is installed, and `remem migrate` has found it.
    pub vectors: bool,
}

/// Checks the role and the tables, as the role that the session asked for.
pub(super) async fn check(client: &Client, user: Option<&str>) -> Result<ServerInfo, GuardError> {
    if !has_role(client, user).await.map_err(store_error)? {
        return Err(GuardError::OtherRole);
    }
    // With this path, expressions are shown with the full names that are compared below.
    client
        .batch_execute("SET search_path = pg_catalog")
        .await
        .map_err(store_error)?;
    let server = server(client).await?;
    check_not_sharded(client).await?;
    let roles = super::schema::Roles::of(&server.database);
    sabotage!(
        "postgres-any-role-may-serve",
        check_role(client, &roles).await?
    );
    let mut gaps: Vec<String> = Vec::new();
    for sql in [TABLES, POLICIES, FUNCTIONS, VIEWS, RIGHTS, TRIGGERS] {
        for row in client
            .query(sabotage_sql!(sql), &[&roles.app])
            .await
            .map_err(store_error)?
        {
            gaps.push(row.try_get(0).map_err(store_error)?);
        }
    }
    if sabotage!("postgres-no-look-at-the-catalogue", gaps.is_empty(), true) {
        Ok(server)
    } else {
        Err(GuardError::Gaps(gaps.join("; ")))
    }
}

/// Reads the properties of the server; refuses a version before 15.
async fn server(client: &Client) -> Result<ServerInfo, GuardError> {
    let sql = "SELECT current_setting('server_version'), current_setting('server_version_num')::int, current_database()::text,
                 current_setting('fsync') = 'on' AND current_setting('full_page_writes') = 'on',
                 EXISTS (SELECT 1 FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
                   WHERE n.nspname = 'remem' AND c.relname = 'vector' AND a.attname = 'direction')";
    let read = async {
        let row = client.query_one(sql, &[]).await?;
        let number: i32 = row.try_get(1)?;
        let server = ServerInfo {
            version: row.try_get(0)?,
            database: row.try_get(2)?,
            durable: row.try_get(3)?,
            vectors: row.try_get(4)?,
        };
        Ok::<_, Error>((server, number))
    };
    let (server, number) = read.await.map_err(store_error)?;
    if number < 150_000 {
        Err(GuardError::Version(server.version))
    } else {
        Ok(server)
    }
}

/// Citus keeps rows in tables of its own, on servers of their own, whose policies and triggers are
/// not in the catalogue that this check reads.
async fn check_not_sharded(client: &Client) -> Result<(), GuardError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'citus')";
    let row = client.query_one(sql, &[]).await.map_err(store_error)?;
    let sharded: bool = row.try_get(0).map_err(store_error)?;
    if sabotage!("postgres-a-sharded-database-is-served", sharded, false) {
        return Err(GuardError::Sharded);
    }
    Ok(())
}

/// Each column after the first is a reason not to serve as this user, whether it is true of the
/// user or of a role that it may switch to.
const ROLE: &str = "SELECT current_user::text, bool_or(r.rolsuper), bool_or(r.rolbypassrls),
     EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
       WHERE n.nspname = 'remem' AND pg_has_role(current_user, c.relowner, 'MEMBER')),
     bool_or(EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
       WHERE n.nspname = 'remem' AND c.relkind IN ('r', 'p') AND (has_table_privilege(r.oid, c.oid, 'TRUNCATE')
         OR c.relname IN ('entry', 'event') AND has_table_privilege(r.oid, c.oid, 'DELETE')
         OR c.relname = 'event' AND has_any_column_privilege(r.oid, c.oid, 'UPDATE')))),
     bool_or(has_schema_privilege(r.oid, 'remem', 'CREATE'))
   FROM pg_roles r WHERE pg_has_role(current_user, r.oid, 'MEMBER')";

async fn check_role(client: &Client, roles: &super::schema::Roles) -> Result<(), GuardError> {
    let whys = [
        "is a superuser or may become one",
        "has BYPASSRLS or may become a role that has it",
        "owns the tables, or may become their owner",
        "may TRUNCATE, delete entries or rewrite events",
        "may create tables here",
    ];
    let row = client.query_one(ROLE, &[]).await.map_err(store_error)?;
    let user: String = row.try_get(0).map_err(store_error)?;
    for (n, why) in whys.into_iter().enumerate() {
        if row.try_get(n + 1).map_err(store_error)? {
            return Err(GuardError::Role {
                user,
                why,
                app: roles.app.clone(),
            });
        }
    }
    Ok(())
}

// Each of these statements returns one line for each gap; $1 is the application's role.

/// Tables with a tenant's name (except the list of tenants itself) whose row-level security is off,
/// or not forced on their owner.
const TABLES: &str = "SELECT format('table %s %s', c.relname, CASE WHEN NOT c.relrowsecurity THEN 'has no row-level security'
       ELSE 'does not force it on its owner' END)
     FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id'
     WHERE n.nspname = 'remem' AND c.relkind IN ('r', 'p') AND NOT a.attisdropped AND c.relname <> 'tenant' AND $1::text IS NOT NULL
       AND NOT (c.relrowsecurity AND (c.relforcerowsecurity OR c.relname = 'rule'))";

/// Tables without exactly the policies of postgres-walls.sql: one that lets a tenant's or a user's
/// rows through, and on `upkeep` one for the worker. `polroles` is 0 for all roles. A restrictive
/// policy is refused, too: an engine that copies it to other servers may make it permissive.
const POLICIES: &str = "WITH tables AS (SELECT c.oid, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
       JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id'
       WHERE n.nspname = 'remem' AND c.relkind IN ('r', 'p') AND c.relname <> 'tenant' AND $1::text IS NOT NULL),
     conditions AS (SELECT oid, relname, CASE WHEN relname IN ('scope', 'entry') THEN
         '((tenant_id = remem.current_tenant()) AND ((owner IS NULL) OR ((remem.current_user_id() = owner) OR (remem.current_user_id() = ''*''::text))))'
         ELSE '(tenant_id = remem.current_tenant())' END AS checked FROM tables),
     wanted AS (SELECT oid, relname, 'tenant_wall' AS name, 0::oid AS role, checked,
         CASE relname WHEN 'api_key' THEN format('(%s OR (hash = remem.current_key()))', checked) ELSE checked END AS qual FROM conditions
       UNION ALL SELECT t.oid, t.relname, 'worker_rows', r.oid, 'true', 'true' FROM tables t
         JOIN pg_roles r ON r.rolname = current_database() || '_worker' WHERE t.relname = 'upkeep'),
     found AS (SELECT t.oid, p.polname::text AS name, p.polroles[1] AS role,
         pg_get_expr(p.polqual, t.oid) AS qual, pg_get_expr(p.polwithcheck, t.oid) AS checked
       FROM tables t JOIN pg_policy p ON p.polrelid = t.oid
       WHERE p.polpermissive AND p.polcmd = '*' AND cardinality(p.polroles) = 1)
     SELECT format('table %s lacks its policy %s', w.relname, w.name) FROM wanted w
       WHERE NOT EXISTS (SELECT 1 FROM found f WHERE f.oid = w.oid AND f.name = w.name
         AND f.role = w.role AND f.qual = w.qual AND f.checked = w.checked)
     UNION ALL SELECT format('table %s has a policy %s that is not ours', t.relname, p.polname) FROM tables t
       JOIN pg_policy p ON p.polrelid = t.oid WHERE NOT EXISTS (SELECT 1 FROM wanted w WHERE w.oid = t.oid AND w.name = p.polname)";

/// The functions that return the acting identity must be the installed ones, and no other function
/// may run with its owner's rights.
const FUNCTIONS: &str = "SELECT format('function %s is not the one that was installed', w.name) FROM (VALUES
         ('current_tenant', 'nullif(current_setting(''app.tenant_id'', true), '''')'),
         ('current_user_id', 'nullif(current_setting(''app.user_id'', true), '''')'),
         ('current_key', 'decode(nullif(current_setting(''app.key_hash'', true), ''''), ''hex'')')) AS w (name, source)
       WHERE $1::text IS NOT NULL AND NOT EXISTS (SELECT 1 FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
         WHERE n.nspname = 'remem' AND p.proname = w.name AND p.pronargs = 0 AND btrim(p.prosrc) = 'SELECT ' || w.source)
     UNION ALL SELECT format('function %s runs as its owner', p.proname) FROM pg_proc p
       JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = 'remem' AND p.prosecdef
       AND p.proname NOT IN ('shadowed_rule', 'refuse_shadow')";

/// The triggers of the schema must be in place: the guard of rules, of history, and of rows that
/// may not be deleted.
const TRIGGERS: &str = "SELECT format('table entry lacks its trigger %s', w.name) FROM (VALUES ('a_rule_shadow_put', 'refuse_shadow'),
         ('a_rule_shadow_change', 'refuse_shadow'), ('b_no_hard_delete', 'refuse_delete'), ('c_immutable', 'refuse_rewriting_history')) AS w (name, function)
       WHERE $1::text IS NOT NULL AND NOT EXISTS (SELECT 1 FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid JOIN pg_class c ON c.oid = t.tgrelid
           JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE n.nspname = 'remem' AND c.relname = 'entry' AND t.tgname = w.name AND p.proname = w.function AND t.tgenabled IN ('O', 'A'))
     UNION ALL SELECT format('table %s lacks its trigger z_row_hash', c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
       JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'row_hash'
       WHERE n.nspname = 'remem' AND c.relkind IN ('r', 'p') AND NOT EXISTS (SELECT 1 FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
         WHERE t.tgrelid = c.oid AND t.tgname = 'z_row_hash' AND p.proname = 'put_' || c.relname || '_hash' AND t.tgenabled IN ('O', 'A'))
     UNION ALL SELECT 'the database does not know letters beyond ASCII (its character type is C), so that rules in other scripts are not guarded'
       WHERE cardinality(public.show_trgm('日本')) = 0 OR abs(public.similarity('word', 'two words') - 4 / 11.0) > 1e-6";

/// The role that serves runs must not read records under review, not even by a right granted
/// through another role, and must not have the worker's rights without switching to it: the
/// worker sees which tenants of all are due.
const RIGHTS: &str = "SELECT format('role %s may read proposals', r.rolname) FROM pg_roles r
     WHERE r.rolname = $1::text AND has_column_privilege(r.oid, 'remem.review', 'body', 'SELECT')
     UNION ALL SELECT format('role %s has the rights of %s without switching to it', r.rolname, w.rolname) FROM pg_roles r, pg_roles w
     WHERE r.rolname = $1::text AND w.rolname = current_database() || '_worker' AND pg_has_role(r.oid, w.oid, 'USAGE')";

/// Views on the tables, in any schema, must run with their caller's rights.
const VIEWS: &str = "SELECT DISTINCT format('view %s does not run as its caller', v.relname) FROM pg_class v
       JOIN pg_rewrite r ON r.ev_class = v.oid JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
       JOIN pg_class t ON t.oid = d.refobjid AND d.refclassid = 'pg_class'::regclass JOIN pg_namespace n ON n.oid = t.relnamespace
     WHERE n.nspname = 'remem' AND t.relkind IN ('r', 'p') AND v.relkind IN ('v', 'm') AND $1::text IS NOT NULL AND NOT EXISTS
       (SELECT 1 FROM pg_options_to_table(v.reloptions) o WHERE o.option_name = 'security_invoker' AND o.option_value::boolean)";
