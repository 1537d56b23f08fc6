//! Data that an earlier release stored is served: every pass works on it, the checks of `doctor`
//! pass, and every request that lists or names it is answered. That no row is lost is tested with
//! the stores.
//!
use remem_core::{Permission, Policy, TenantId, Timestamp};
use remem_engine::VaultKey;
use remem_engine::registry::{PASSES, PassMode};
use remem_testkit::storage::is_postgres;
use remem_testkit::{TestEnv, TestServer, kept};
use serde_json::Value;

/// Later than all that was kept.
const LATER: Timestamp = Timestamp(1_800_000_000_000);
const KEY: &str = "key-of-the-kept";
/// Names from a list, as far as they may be part of a path.
fn names(list: &Value) -> Vec<String> {
    let arrays = list.as_object().into_iter().flat_map(|map| map.values());
    let items = arrays.filter_map(Value::as_array).flatten();
    let fields = items.filter_map(Value::as_object).flatten();
    let named = fields.filter(|(field, _)| {
        field.ends_with("Id") || ["id", "name", "path", "key"].contains(&field.as_str())
    });
    let is_plain = |text: &&str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.~/".contains(c);
        text.chars().all(plain)
    };
    let texts = named
        .filter_map(|(_, value)| value.as_str())
        .filter(is_plain);
    let mut names: Vec<String> = texts.map(|text| text.replace('/', "%2F")).collect();
    names.sort();
    names.dedup();
    names
}

/// Every path that is read, with the memory `notes` and what lists name in its places.
async fn read_all(host: &TestServer) -> usize {
    let document = host.get("/v1/openapi.json").await.json();
    let paths = document["paths"].as_object().unwrap();
    let read = paths.iter().filter(|(_, of)| of.get("get").is_some());
    let mut found = 0;
    for (path, _) in read {
        let path = path
            .replace("{memoryRef}", "notes")
            .replace("{world}", "bank");
        let parts: Vec<&str> = path.split('{').collect();
        let asked = match parts.as_slice() {
            [whole] => vec![(*whole).to_owned()],
            [list, named] => {
                let rest = named.split_once('}').unwrap().1;
                let listed = list.trim_end_matches('/');
                let listed = host.call(KEY, "GET", listed, &[], "").await;
                if listed.status != 200 {
                    continue;
                }
                let names = names(&listed.json()).into_iter();
                names.map(|name| format!("{list}{name}{rest}")).collect()
            }
            _ => continue,
        };
        for path in asked {
            let answer = host.call(KEY, "GET", &path, &[], "").await;
            assert!(
                !answer.status.is_server_error(),
                "{path}: {}",
                answer.status
            );
            found += usize::from(answer.status == 200);
        }
    }
    found
}

#[tokio::test]
async fn data_written_by_0_1_0_can_be_served() {
    let place = tempfile::tempdir().unwrap();
    let storage = if is_postgres() {
        kept::database("0.1.0").await
    } else {
        kept::folder("0.1.0", place.path())
    };
    let env = TestEnv::over(storage);
    env.clock.set(LATER);
    // That of the kept database.
    let vault = VaultKey::new([7; 32]);
    let host = TestServer::on(env, Policy::default(), vec![], Some(vault)).await;
    host.key("default", KEY, &Permission::ALL).await;
    let before = read_all(&host).await;
    assert!(before > 40, "{before} answers");
    for _ in 0..2 {
        for pass in &PASSES {
            for tenant in ["default", "other"] {
                let tenant = TenantId::parse(tenant).unwrap();
                let done = host.engine.run_pass(pass, &tenant, PassMode::Apply).await;
                assert!(done.is_ok(), "{} of {tenant}: {done:?}", pass.name);
            }
        }
    }
    assert!(read_all(&host).await > 40);
    assert!(host.engine.passes_that_fail().await.unwrap().is_empty());
    host.engine.verify_host().await.unwrap();
    for (tenant, sound) in host.engine.verify_all().await.unwrap() {
        assert!(sound.is_ok(), "{tenant}: {sound:?}");
    }
}
