//! What passes read of texts waits for its turn at the processor, as what requests send does.

#![allow(
    clippy::disallowed_methods,
    reason = "a pass runs as a task of its own"
)]

use remem_core::TenantId;
use remem_testkit::{TestEnv, wait_until};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_infer_pass_waits_for_a_cpu_permit() {
    let env = TestEnv::new().await;
    let host = env.host().await;
    let long = format!(
        "Remind me tomorrow at nine to call Anna. {}",
        "word ".repeat(2_000)
    );
    host.put("m", &long).await;
    let (open, gate) = mpsc::channel::<()>();
    let is_held = Arc::new(AtomicBool::new(false));
    let held = {
        let is_held = is_held.clone();
        let engine = host.engine.clone();
        tokio::spawn(async move {
            let work = move || {
                is_held.store(true, Ordering::SeqCst);
                let _ = gate.recv();
            };
            let tenant = TenantId::parse("c").unwrap();
            engine.cpu().run(&tenant, 1 << 20, work).await
        })
    };
    wait_until("the turn is taken", async || is_held.load(Ordering::SeqCst)).await;
    let pass = {
        let host = host.clone();
        tokio::spawn(async move { host.run_pass("infer").await })
    };
    wait_until("the pass waits", async || host.engine.cpu().queued() == 1).await;
    drop(open);
    held.await.unwrap().unwrap();
    assert_eq!(pass.await.unwrap().changed, 1);
}
