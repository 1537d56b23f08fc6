//! The start-up check refuses to serve from a database whose policies are not in place, gives the
//! reason and the remedy, and serves again once it is repaired; and `migrate` prepares a database
//! no matter which role runs it, how often, or beside which others.

#![allow(
    clippy::disallowed_methods,
    reason = "tests drive their own connections and read the machine's clock"
)]

use remem_store::{DueWork, ReadAt, Upkeep};
use remem_store_sql::PostgresStore;
use remem_store_sql::postgres::{
    MigrationReport, PostgresOptions, PostgresTarget, SchemaError, migrate,
};
use remem_testkit::conformance::{NOON, all, draft, put, scope};
use remem_testkit::postgres::{PASSWORD, TestDatabase};
use remem_testkit::{Proxy, ProxyMode, wait_for};

/// The reason why the database is not served.
async fn refusal(options: PostgresOptions) -> String {
    PostgresStore::open(options)
        .await
        .err()
        .expect("refused")
        .to_string()
}

/// Runs `gap`, looks for all of `words` in the refusal, runs `mend`, and opens it again.
async fn refuses(database: &TestDatabase, gap: &str, mend: &str, words: &[&str]) {
    let admin = database.admin().await;
    let named = |sql: &str| sql.replace("NAME", &database.name);
    admin.batch_execute(&named(gap)).await.unwrap();
    let text = refusal(database.options(1)).await;
    for word in words {
        assert!(text.contains(&named(word)), "{gap}: {text}");
    }
    admin.batch_execute(&named(mend)).await.unwrap();
    PostgresStore::open(database.options(1))
        .await
        .unwrap_or_else(|error| panic!("after {mend}: {error}"));
}

async fn migrate_url(url: &str, password: &str) -> Result<MigrationReport, SchemaError> {
    migrate(&PostgresTarget::parse(url).unwrap(), password).await
}

/// A separate user for this database, and its URL.
async fn user(database: &TestDatabase, name: &str, rights: &str) -> (String, String) {
    let user = format!("{}_{name}", database.name);
    database
        .admin()
        .await
        .batch_execute(&format!(
            "CREATE ROLE {user} LOGIN PASSWORD '{PASSWORD}' {rights}"
        ))
        .await
        .unwrap();
    let url = database
        .app_url
        .replace(&format!("{}_app:", database.name), &format!("{user}:"));
    (user, url)
}

/// Citus itself is not needed: the check reads the list of extensions.
#[tokio::test]
async fn a_sharded_database_is_refused() {
    let database = TestDatabase::fresh().await;
    let gap = "SET allow_system_table_mods = on; INSERT INTO pg_extension
         (oid, extname, extowner, extnamespace, extrelocatable, extversion)
         VALUES (99999, 'citus', 10, 11, false, '13.2')";
    let mend = "SET allow_system_table_mods = on; DELETE FROM pg_extension WHERE oid = 99999";
    refuses(&database, gap, mend, &["the extension citus", "without it"]).await;
}

/// A pooler that ignores `options` would run passes with the rights of requests.
#[tokio::test]
async fn a_pooler_that_drops_the_role_is_refused() {
    let database = TestDatabase::fresh().await;
    let (proxy, url) = Proxy::in_front_of(&database.app_url).await;
    let behind = || PostgresOptions {
        target: PostgresTarget::parse(&url).unwrap(),
        ..database.options(1)
    };
    proxy.mode.send_replace(ProxyMode::DropOptions);
    let text = refusal(behind()).await;
    assert!(
        text.contains("another role") && text.contains("pooler"),
        "{text}"
    );

    // A pooler that is inserted later: statements of another role fail instead of having no effect.
    proxy.mode.send_replace(ProxyMode::Forward);
    let store = PostgresStore::open(behind()).await.unwrap();
    proxy.cut(ProxyMode::DropOptions);
    let refused = wait_for("a connection of the worker is refused", || async {
        let due = store.tenants_with_work(DueWork::Purge, NOON).await;
        let text = due.err().map(|error| chain(&error));
        text.filter(|text| text.contains("another role"))
    });
    refused.await;
}

/// The text of an error with those of its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let cause = error.source().map(chain).unwrap_or_default();
    format!("{error} {cause}")
}

#[tokio::test]
async fn a_superuser_is_refused() {
    let database = TestDatabase::fresh().await;
    let text = refusal(PostgresOptions {
        target: PostgresTarget::parse(&database.admin_url).unwrap(),
        ..database.options(1)
    })
    .await;
    for word in [
        "is a superuser",
        "row-level security would not hold",
        "remem migrate",
        &format!("{}_app", database.name),
    ] {
        assert!(text.contains(word), "{text}");
    }
    let worker = Some(PostgresTarget::parse(&database.admin_url).unwrap());
    assert!(
        refusal(PostgresOptions {
            worker,
            ..database.options(1)
        })
        .await
        .contains("is a superuser"),
        "nor may the worker be one"
    );
    database.open().await;
}

#[tokio::test]
async fn an_app_role_that_can_bypass_the_policies_is_refused() {
    let database = TestDatabase::fresh().await;
    let use_instead = [
        "user NAME_app ",
        "use the role that `remem migrate` names (NAME_app)",
    ];
    for (gap, mend, why) in [
        (
            "ALTER ROLE NAME_app BYPASSRLS",
            "ALTER ROLE NAME_app NOBYPASSRLS",
            "has BYPASSRLS",
        ),
        (
            "GRANT NAME_owner TO NAME_app",
            "REVOKE NAME_owner FROM NAME_app",
            "may become their owner",
        ),
        (
            "GRANT TRUNCATE ON remem.entry_tag TO NAME_app",
            "REVOKE TRUNCATE ON remem.entry_tag FROM NAME_app",
            "may TRUNCATE",
        ),
        (
            "GRANT TRUNCATE ON remem.posting TO public",
            "REVOKE TRUNCATE ON remem.posting FROM public",
            "may TRUNCATE",
        ),
        (
            "GRANT CREATE ON SCHEMA remem TO NAME_app",
            "REVOKE CREATE ON SCHEMA remem FROM NAME_app",
            "may create tables",
        ),
        (
            "ALTER TABLE remem.event OWNER TO NAME_app",
            "ALTER TABLE remem.event OWNER TO NAME_owner",
            "owns the tables",
        ),
    ] {
        refuses(&database, gap, mend, &[why, use_instead[0], use_instead[1]]).await;
    }
}

#[tokio::test]
async fn a_worker_role_that_can_bypass_the_policies_is_refused() {
    let database = TestDatabase::fresh().await;
    for (gap, mend, why) in [
        (
            "ALTER ROLE NAME_worker BYPASSRLS",
            "ALTER ROLE NAME_worker NOBYPASSRLS",
            "has BYPASSRLS",
        ),
        (
            "GRANT TRUNCATE ON remem.event TO NAME_worker",
            "REVOKE TRUNCATE ON remem.event FROM NAME_worker",
            "may TRUNCATE",
        ),
        (
            "GRANT NAME_owner TO NAME_worker",
            "REVOKE NAME_owner FROM NAME_worker",
            "may become their owner",
        ),
    ] {
        refuses(&database, gap, mend, &[why]).await;
    }
}

#[tokio::test]
async fn a_table_without_forced_row_level_security_is_refused() {
    let database = TestDatabase::fresh().await;
    let admin = database.admin().await;
    let sql = "SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
               WHERE n.nspname = 'remem' AND c.relkind = 'r' AND c.relrowsecurity ORDER BY 1";
    let tables: Vec<String> = admin
        .query(sql, &[])
        .await
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    assert!(tables.len() >= 10, "{tables:?}");
    for table in &tables {
        let alter = |what: &str| format!("ALTER TABLE remem.{table} {what} ROW LEVEL SECURITY");
        let why = format!("table {table} has no row-level security");
        refuses(
            &database,
            &alter("DISABLE"),
            &alter("ENABLE"),
            &[&why, "gaps", "remem migrate"],
        )
        .await;
        if table == "rule" {
            continue; // the guard of rules reads it as its owner
        }
        let why = format!("table {table} does not force it on its owner");
        refuses(&database, &alter("NO FORCE"), &alter("FORCE"), &[&why]).await;
    }
}

/// The policies of releases before this one, two a table: the tenant's was restrictive.
const FORMER_POLICIES: &str = "DO $$ DECLARE t text; BEGIN
     FOREACH t IN ARRAY ARRAY['tenant_clock', 'entry_tag', 'posting', 'event', 'idempotency', 'record', 'review', 'snapshot', 'lineage',
         'entry_subject', 'signature', 'vector', 'lease', 'action_link', 'rule', 'scope', 'entry', 'api_key', 'upkeep'] LOOP
       EXECUTE format('DROP POLICY tenant_wall ON remem.%I', t);
       EXECUTE format('CREATE POLICY tenant_wall ON remem.%I AS RESTRICTIVE USING (tenant_id = remem.current_tenant())
         WITH CHECK (tenant_id = remem.current_tenant())', t);
       IF t NOT IN ('scope', 'entry') THEN
         EXECUTE format('CREATE POLICY tenant_rows ON remem.%I USING (true) WITH CHECK (true)', t);
       END IF;
     END LOOP;
     CREATE POLICY owner_or_shared ON remem.scope USING (true) WITH CHECK (true);
     CREATE POLICY owner_or_shared ON remem.entry USING (true) WITH CHECK (true);
     DROP POLICY worker_rows ON remem.upkeep; END $$";

#[tokio::test]
async fn the_policies_of_former_releases_are_refused_and_replaced_by_migrate() {
    let database = TestDatabase::fresh().await;
    let admin = database.admin().await;
    admin.batch_execute(FORMER_POLICIES).await.unwrap();
    let text = refusal(database.options(1)).await;
    for word in [
        "table event lacks its policy tenant_wall",
        "table event has a policy tenant_rows that is not ours",
        "table scope has a policy owner_or_shared that is not ours",
        "table upkeep lacks its policy worker_rows",
        "run `remem migrate --database URL`",
    ] {
        assert!(text.contains(word), "{text}");
    }
    migrate_url(&database.admin_url, PASSWORD).await.unwrap();
    database.open().await;
    let left = "SELECT count(*) FROM pg_policies WHERE schemaname = 'remem' AND permissive <> 'PERMISSIVE'";
    let left: i64 = admin.query_one(left, &[]).await.unwrap().get(0);
    assert_eq!(left, 0, "none is restrictive");
}

#[tokio::test]
async fn a_table_without_its_policy_is_refused() {
    let database = TestDatabase::fresh().await;
    let create = |kind: &str| {
        format!(
            "CREATE POLICY tenant_wall ON remem.event AS {kind} USING (tenant_id = remem.current_tenant())
               WITH CHECK (tenant_id = remem.current_tenant())"
        )
    };
    let drop = "DROP POLICY tenant_wall ON remem.event";
    let why = "table event lacks its policy tenant_wall";
    refuses(&database, drop, &create("PERMISSIVE"), &[why]).await;
    let restrictive = format!("{drop}; {}", create("RESTRICTIVE"));
    let mend = format!("{drop}; {}", create("PERMISSIVE"));
    refuses(&database, &restrictive, &mend, &[why]).await;
    let forgotten = "CREATE TABLE remem.draft (tenant_id text, x text)";
    refuses(
        &database,
        forgotten,
        "DROP TABLE remem.draft",
        &["table draft has no row-level security"],
    )
    .await;
}

/// The gaps that the check refuses, `migrate` repairs: it sets up policies, functions and rights
/// again.
#[tokio::test]
async fn altered_policies_are_refused_and_repaired_by_migrate() {
    let database = TestDatabase::fresh().await;
    let admin = database.admin().await;
    for (gap, why) in [
        (
            "ALTER POLICY tenant_wall ON remem.entry TO pg_monitor",
            "table entry lacks its policy tenant_wall",
        ),
        (
            "ALTER POLICY tenant_wall ON remem.event USING (tenant_id = remem.current_tenant() OR true)",
            "table event lacks",
        ),
        (
            "ALTER POLICY tenant_wall ON remem.posting WITH CHECK (true)",
            "table posting lacks",
        ),
        (
            "ALTER POLICY tenant_wall ON remem.upkeep TO NAME_worker",
            "table upkeep lacks",
        ),
        (
            "ALTER POLICY worker_rows ON remem.upkeep TO NAME_app",
            "table upkeep lacks its policy worker_rows",
        ),
        (
            "ALTER POLICY tenant_wall ON remem.entry USING (tenant_id = remem.current_tenant())",
            "table entry lacks its policy tenant_wall",
        ),
        (
            "CREATE POLICY wide ON remem.entry USING (true)",
            "table entry has a policy wide that is not ours",
        ),
        (
            "ALTER TABLE remem.scope DISABLE ROW LEVEL SECURITY",
            "table scope has no row-level security",
        ),
        (
            "ALTER TABLE remem.lease NO FORCE ROW LEVEL SECURITY",
            "table lease does not force it",
        ),
        (
            "CREATE OR REPLACE FUNCTION remem.current_tenant() RETURNS text LANGUAGE sql STABLE AS $$ SELECT 'x' $$",
            "function current_tenant is not the one",
        ),
        (
            "ALTER POLICY tenant_wall ON remem.scope USING (tenant_id = remem.current_tenant() AND (owner IS NULL OR owner <> ''))",
            "table scope lacks its policy tenant_wall",
        ),
        (
            "ALTER POLICY tenant_wall ON remem.entry WITH CHECK (true)",
            "table entry lacks its policy tenant_wall",
        ),
        (
            "CREATE OR REPLACE FUNCTION remem.current_user_id() RETURNS text LANGUAGE sql STABLE AS
             $$ SELECT nullif(current_setting('app.role', true), '') $$",
            "function current_user_id is not the one",
        ),
        ("GRANT UPDATE ON remem.event TO NAME_app", "rewrite events"),
        (
            "GRANT SELECT ON remem.review TO NAME_app",
            "may read proposals",
        ),
        (
            "GRANT SELECT (body) ON remem.review TO NAME_app",
            "may read proposals",
        ),
        ("ALTER ROLE NAME_app INHERIT", "may read proposals"),
        (
            "ALTER ROLE NAME_app INHERIT",
            "has the rights of NAME_worker without switching to it",
        ),
        (
            "GRANT DELETE ON remem.entry TO NAME_worker",
            "delete entries",
        ),
    ] {
        admin
            .batch_execute(&gap.replace("NAME", &database.name))
            .await
            .unwrap();
        let text = refusal(database.options(1)).await;
        let why = why.replace("NAME", &database.name);
        assert!(text.contains(&why), "{gap}: {text}");
        migrate_url(&database.admin_url, PASSWORD).await.unwrap();
        PostgresStore::open(database.options(1))
            .await
            .unwrap_or_else(|error| panic!("{gap} was not mended: {error}"));
    }
    let bypass = "CREATE ROLE NAME_by BYPASSRLS; GRANT NAME_by TO NAME_app";
    refuses(
        &database,
        bypass,
        "DROP ROLE NAME_by",
        &["may become a role that has it"],
    )
    .await;
}

#[tokio::test]
async fn views_and_functions_that_bypass_the_policies_are_refused() {
    let database = TestDatabase::fresh().await;
    let view = "CREATE VIEW remem.peek AS SELECT * FROM remem.entry";
    refuses(
        &database,
        view,
        "ALTER VIEW remem.peek SET (security_invoker = true)",
        &["view peek does not run as its caller", "gaps"],
    )
    .await;
    let elsewhere = "CREATE VIEW public.peek_too AS SELECT content FROM remem.entry";
    refuses(
        &database,
        elsewhere,
        "ALTER VIEW public.peek_too SET (security_invoker = on)",
        &["view peek_too"],
    )
    .await;
    let copy = "CREATE MATERIALIZED VIEW remem.copy AS SELECT * FROM remem.entry";
    refuses(
        &database,
        copy,
        "DROP MATERIALIZED VIEW remem.copy",
        &["view copy"],
    )
    .await;
    let function = "CREATE FUNCTION remem.peek_in() RETURNS SETOF remem.entry LANGUAGE sql SECURITY DEFINER AS 'SELECT * FROM remem.entry'";
    refuses(
        &database,
        function,
        "DROP FUNCTION remem.peek_in()",
        &["function peek_in runs as its owner", "gaps"],
    )
    .await;
}

/// A constraint by trigger applies to every role, so it must be in place.
#[tokio::test]
async fn a_disabled_trigger_is_refused() {
    let database = TestDatabase::fresh().await;
    for name in [
        "a_rule_shadow_put",
        "a_rule_shadow_change",
        "b_no_hard_delete",
        "c_immutable",
    ] {
        let off = format!("ALTER TABLE remem.entry DISABLE TRIGGER {name}");
        let on = format!("ALTER TABLE remem.entry ENABLE TRIGGER {name}");
        let why = format!("table entry lacks its trigger {name}");
        refuses(&database, &off, &on, &[&why, "gaps"]).await;
        let replica = format!("ALTER TABLE remem.entry ENABLE REPLICA TRIGGER {name}");
        refuses(&database, &replica, &on, &[&why]).await;
    }
    for table in ["entry", "record", "api_key"] {
        let off = format!("ALTER TABLE remem.{table} DISABLE TRIGGER z_row_hash");
        let on = format!("ALTER TABLE remem.{table} ENABLE TRIGGER z_row_hash");
        let why = format!("table {table} lacks its trigger z_row_hash");
        refuses(&database, &off, &on, &[&why, "gaps"]).await;
    }
}

#[tokio::test]
async fn several_gaps_are_named_at_once() {
    let database = TestDatabase::fresh().await;
    let gaps = "ALTER TABLE remem.scope DISABLE ROW LEVEL SECURITY; ALTER TABLE remem.event NO FORCE ROW LEVEL SECURITY";
    let mend = "ALTER TABLE remem.scope ENABLE ROW LEVEL SECURITY; ALTER TABLE remem.event FORCE ROW LEVEL SECURITY";
    refuses(
        &database,
        gaps,
        mend,
        &["table scope has no", "table event does not"],
    )
    .await;
}

#[tokio::test]
async fn an_unprepared_database_is_refused() {
    let database = TestDatabase::empty().await;
    let text = refusal(PostgresOptions {
        target: PostgresTarget::parse(&database.admin_url).unwrap(),
        ..database.options(1)
    })
    .await;
    assert!(
        text.contains("not prepared") && text.contains("remem migrate"),
        "{text}"
    );
    migrate_url(&database.admin_url, PASSWORD).await.unwrap();
    database.open().await;
}

#[tokio::test]
async fn an_older_and_a_newer_schema_are_refused() {
    let database = TestDatabase::fresh().await;
    for (series, last) in [("memory", 13), ("host", 4)] {
        let drop =
            format!("DELETE FROM remem.schema_step WHERE series = '{series}' AND number = {last}");
        let mend = format!(
            "INSERT INTO remem.schema_step (series, number, name) VALUES ('{series}', {last}, 'x')"
        );
        let found = format!("({series}) is at step {}", last - 1);
        let needed = format!("needs step {last}");
        refuses(
            &database,
            &drop,
            &mend,
            &[&found, &needed, "run `remem migrate"],
        )
        .await;
        let ahead = format!(
            "INSERT INTO remem.schema_step (series, number, name) VALUES ('{series}', 99, 'x')"
        );
        let mend =
            format!("DELETE FROM remem.schema_step WHERE series = '{series}' AND number = 99");
        let found = format!("({series}) is at step 99");
        refuses(
            &database,
            &ahead,
            &mend,
            &[&found, &format!("knows up to {last}"), "use a newer remem"],
        )
        .await;
        database.admin().await.batch_execute(&ahead).await.unwrap();
        let text = migrate_url(&database.admin_url, PASSWORD)
            .await
            .unwrap_err()
            .to_string();
        assert!(
            text.contains("use a newer remem"),
            "nor does migrate touch it: {text}"
        );
        database.admin().await.batch_execute(&mend).await.unwrap();
    }
}

#[tokio::test]
async fn migrating_again_changes_nothing_and_keeps_the_password() {
    let database = TestDatabase::empty().await;
    let first = migrate_url(&database.admin_url, PASSWORD).await.unwrap();
    assert!(first.app_created);
    assert_eq!(
        first.applied,
        [
            "0001_directory",
            "0002_principal",
            "0003_key_trust",
            "0004_row_hash",
            "0001_memory",
            "0002_owner_and_lease",
            "0003_record",
            "0004_run",
            "0005_lineage",
            "0006_tie",
            "0007_workshop",
            "0008_recall",
            "0009_action_text",
            "0010_row_hash",
            "0011_named_tenant",
            "0012_totals",
            "0013_standing"
        ]
    );
    let s = scope("a", "m");
    let now = ReadAt::Now(NOON);
    put(&database.open().await, &s, "e1", draft("kept"), NOON).await;
    let second = migrate_url(&database.admin_url, "another password")
        .await
        .unwrap();
    assert!(
        !second.app_created && second.applied.is_empty(),
        "{second:?}"
    );
    assert_eq!(
        all(&database.open().await, &s, &now).await.len(),
        1,
        "the first password still opens it"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_migrations_apply_each_step_once() {
    let database = TestDatabase::empty().await;
    let url = &database.admin_url;
    let all = tokio::join!(
        migrate_url(url, PASSWORD),
        migrate_url(url, PASSWORD),
        migrate_url(url, PASSWORD)
    );
    let all = [all.0.unwrap(), all.1.unwrap(), all.2.unwrap()];
    assert_eq!(all.iter().filter(|one| one.app_created).count(), 1);
    assert_eq!(
        all.iter().map(|one| one.applied.len()).sum::<usize>(),
        17,
        "each step once: {all:?}"
    );
    database.open().await;
}

#[tokio::test]
async fn migrate_without_createrole_prints_the_statements_to_run() {
    let database = TestDatabase::empty().await;
    let (user, url) = user(&database, "plain", "").await;
    let text = migrate_url(&url, "the-new-password")
        .await
        .unwrap_err()
        .to_string();
    for word in [
        "may not create roles",
        "administrator",
        "_owner\" NOLOGIN",
        "_app\" LOGIN NOINHERIT",
        "remem migrate",
    ] {
        assert!(text.contains(word), "{text}");
    }
    assert!(
        !text.contains("the-new-password") && !text.contains("SCRAM"),
        "{text}"
    );
    let statements: Vec<&str> = text.lines().filter(|line| line.starts_with("  ")).collect();
    let roles = statements
        .join("\n")
        .replace("CURRENT_USER_OF_THE_URL", &user);
    let admin = database.admin().await;
    admin.batch_execute(&roles).await.unwrap();
    let done = migrate_url(&url, "the-new-password").await.unwrap();
    assert!(
        !done.app_created,
        "so the password is the administrator's business"
    );
    admin
        .batch_execute(&format!(
            "ALTER ROLE {}_app PASSWORD '{PASSWORD}'",
            database.name
        ))
        .await
        .unwrap();
    put(
        &database.open().await,
        &scope("a", "m"),
        "e1",
        draft("served"),
        NOON,
    )
    .await;
    assert!(
        migrate_url(&url, PASSWORD)
            .await
            .unwrap()
            .applied
            .is_empty()
    );
}

#[tokio::test]
async fn a_database_owner_with_createrole_can_migrate() {
    let database = TestDatabase::empty().await;
    let (user, url) = user(&database, "dba", "CREATEROLE").await;
    database
        .admin()
        .await
        .batch_execute(&format!("ALTER DATABASE {} OWNER TO {user}", database.name))
        .await
        .unwrap();
    assert!(migrate_url(&url, PASSWORD).await.unwrap().app_created);
    let store = database.open().await;
    assert!(
        store
            .tenants_with_work(remem_store::DueWork::Purge, NOON)
            .await
            .unwrap()
            .is_empty(),
        "the worker works, too"
    );
    drop(store);
    assert!(
        migrate_url(&url, PASSWORD)
            .await
            .unwrap()
            .applied
            .is_empty()
    );
    let text = refusal(PostgresOptions {
        target: PostgresTarget::parse(&url).unwrap(),
        ..database.options(1)
    })
    .await;
    assert!(
        text.contains("may become their owner"),
        "who migrated does not serve: {text}"
    );
}

#[tokio::test]
async fn a_wrong_password_is_refused_without_echoing_it() {
    let database = TestDatabase::fresh().await;
    let wrong = "hunter2-and-more";
    let url = database.app_url.replace(PASSWORD, wrong);
    let opened = PostgresStore::open(PostgresOptions {
        target: PostgresTarget::parse(&url).unwrap(),
        ..database.options(1)
    })
    .await
    .err()
    .unwrap();
    let migrated = migrate_url(&url, "another-secret").await.unwrap_err();
    let text = format!("{opened} {opened:?} {migrated} {migrated:?}");
    assert!(
        text.contains("28P01"),
        "it says that the password is the reason: {text}"
    );
    for secret in [wrong, "another-secret", PASSWORD] {
        assert!(!text.contains(secret), "{text}");
    }
}
