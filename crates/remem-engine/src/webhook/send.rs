//! One delivery: the event in the JSON of the wire, signed with the webhook's secret and posted
//! once. The caller decides about retries.

use super::WebhookRecord;
use crate::engine::Engine;
use crate::event_visibility::review_event;
use remem_core::{Event, TenantId};
use ring::hmac;
use std::time::Duration;

/// How long a receiver may take to answer.
const DEADLINE: Duration = Duration::from_secs(5);
const USER_AGENT: &str = concat!("openwop-webhook-dispatcher/", env!("CARGO_PKG_VERSION"));
/// Name of the signature scheme: HMAC-SHA256 over `{timestamp}.{body}`.
pub const SIGNATURE_ALGORITHM: &str = "v1";

/// The outcome of one delivery attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DeliveryAttempt {
    /// The receiver accepted the event.
    Delivered,
    /// The receiver accepts no further events (status 410).
    Gone,
    /// Any other outcome, as a status or a class of error.
    Failed(String),
}

/// The signature of a delivery's body.
#[must_use]
pub fn signature(secret: &str, timestamp: i64, body: &[u8]) -> String {
    let mut context =
        hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()));
    context.update(format!("{timestamp}.").as_bytes());
    context.update(body);
    format!("sha256={}", hex(context.sign().as_ref()))
}

/// The first eight hex digits of a secret's SHA-256: enough to tell secrets apart in logs.
pub(crate) fn fingerprint(secret: &str) -> String {
    hex(&ring::digest::digest(&ring::digest::SHA256, secret.as_bytes()).as_ref()[..4])
}

/// Bytes as hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Engine {
    /// Sends one event. An event that webhooks are never sent counts as delivered.
    pub(crate) async fn send(
        &self,
        tenant: &TenantId,
        hook: &WebhookRecord,
        event: &Event,
    ) -> DeliveryAttempt {
        let Ok(rules) = self.redaction_rules(tenant).await else {
            return DeliveryAttempt::Failed("vault_locked".to_owned());
        };
        let mut event = event.clone();
        review_event(&rules, &mut event);
        let event = &event;
        let Some(body) = (self.parts.envelope)(tenant, event) else {
            return DeliveryAttempt::Delivered;
        };
        let attempt = match self.open_webhook(tenant, hook) {
            None => DeliveryAttempt::Failed("sealed_with_another_key".to_owned()),
            Some((url, secret)) => {
                // Receivers compare the timestamp with their own clocks: use the machine's time,
                // not the engine's.
                let timestamp = self.parts.clock.now().0.div_euclid(1_000);
                let headers = headers(
                    hook,
                    event,
                    timestamp,
                    &signature(&secret, timestamp, &body),
                );
                match tokio::time::timeout(
                    DEADLINE,
                    self.parts.webhook_sender.post(&url, headers, body),
                )
                .await
                {
                    Err(_) => DeliveryAttempt::Failed("timeout".to_owned()),
                    Ok(Err(error)) => DeliveryAttempt::Failed(error.as_str().to_owned()),
                    Ok(Ok(200..=299)) => DeliveryAttempt::Delivered,
                    Ok(Ok(410)) => DeliveryAttempt::Gone,
                    Ok(Ok(status)) => DeliveryAttempt::Failed(format!("status_{status}")),
                }
            }
        };
        let outcome = match &attempt {
            DeliveryAttempt::Delivered => "delivered",
            DeliveryAttempt::Gone => "gone",
            DeliveryAttempt::Failed(_) => "failed",
        };
        metrics::counter!("remem_webhook_deliveries_total", "outcome" => outcome).increment(1);
        if let DeliveryAttempt::Failed(error) = &attempt {
            tracing::info!(
                webhook = hook.id,
                fingerprint = hook.fingerprint,
                error,
                "a delivery failed"
            );
        }
        attempt
    }
}

/// The headers of a delivery.
fn headers(
    hook: &WebhookRecord,
    event: &Event,
    timestamp: i64,
    signature: &str,
) -> Vec<(&'static str, String)> {
    let timestamp = timestamp.to_string();
    let signature = signature.to_owned();
    vec![
        ("Content-Type", "application/json".to_owned()),
        ("User-Agent", USER_AGENT.to_owned()),
        ("X-openwop-Webhook-Id", hook.id.clone()),
        (
            "X-openwop-Event-Type",
            event.body.kind().as_str().to_owned(),
        ),
        ("X-openwop-Timestamp", timestamp.clone()),
        ("X-openwop-Signature", signature.clone()),
        (
            "X-openwop-Signature-Algorithm",
            SIGNATURE_ALGORITHM.to_owned(),
        ),
        ("OpenWOP-Timestamp", timestamp),
        ("OpenWOP-Signature", signature),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values from Python's hmac and hashlib, as the client's helper computes them.
    #[test]
    fn webhook_signatures_match_an_independent_implementation() {
        assert_eq!(
            signature("whsec-0123456789abcdef", 1_700_000_000, br#"{"a":"b"}"#),
            "sha256=a1a82d84dae7ab76d54cd07e7ebe496d9eba2fc8262d29dabfb0e82edd735f94"
        );
        assert_eq!(fingerprint("whsec-0123456789abcdef"), "0dfa3134");
    }
}
