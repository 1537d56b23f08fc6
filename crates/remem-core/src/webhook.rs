//! The rules for a webhook's URL, event types and secret. Pure: name lookup and connection happen
//! elsewhere, and check every address with `is_public` before they use it.

use crate::event::EventKind;
use crate::rejection::Rejection;
use crate::sabotage;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use url::{Host, Url};

/// The allowed lengths of a secret that a caller gives, in characters.
pub const SECRET_CHARS: std::ops::RangeInclusive<usize> = 16..=256;

/// Event kinds that are sent even if no run caused them. All other events without a run stay in the
/// tenant's log.
const SENT_WITHOUT_RUN: [EventKind; 5] = [
    EventKind::CommitmentFired,
    EventKind::AutomationFired,
    EventKind::HeartbeatStateChanged,
    EventKind::ProposalCreated,
    EventKind::ProposalActivated,
];

/// Returns true if an event of this kind is sent although no run caused it.
#[must_use]
pub fn is_sent_without_run(kind: EventKind) -> bool {
    SENT_WITHOUT_RUN.contains(&kind)
}

/// Event types of OpenWOP that this host never sends. A subscription may list them; nothing will be
/// sent for them.
const NEVER_SENT: &str = "run.resuming run.paused run.resumed run.restored-from-snapshot run.dead_lettered node.suspended \
    node.suspend-failed node.resumed node.retried node.skipped node.cancelled node.dispatched approval.requested \
    approval.received approval.granted approval.rejected approval.overridden clarification.requested clarification.resolved \
    interrupt.requested interrupt.resolved channel.written artifact.created output.chunk variable.changed log.appended \
    version.pinned workflow.restored workflow.loopback-limit workflow.stalled cap.breached lease.acquired lease.renewed \
    lease.lost lease.handed-off replay.diverged replay.divergedAtRefusal agent.reasoning.delta provider.usage prompt.composed \
    agent.promptResolved model.capability.substituted model.capability.insufficient envelope.retry.attempted \
    envelope.retry.exhausted envelope.refusal envelope.truncated envelope.nlToFormat.engaged envelope.recovery.applied \
    agent.toolCalled agent.toolReturned agent.handoff eval.started eval.scored eval.completed deployment.promoted \
    deployment.rolled-back deployment.canary.adjusted deployment.state.changed runOrchestrator.decided conversation.opened \
    conversation.exchanged conversation.closed memory.compacted agent.memory.consolidated \
    core.workflowChain.event core.workflowChain.confidence-escalated connector.authorized connector.auth_expired \
    authorization.decided";

/// The most event types that a webhook may list: more than exist.
pub const EVENTS_MAX: usize = 200;

/// The event types of a subscription, each once, in the order given.
pub fn event_types(names: &[String]) -> Result<Vec<String>, Rejection> {
    if names.is_empty() {
        return Err(Rejection::Empty { field: "events" });
    }
    if names.len() > EVENTS_MAX {
        return Err(Rejection::TooLarge {
            field: "events",
            unit: "items",
            limit: EVENTS_MAX as u64,
            actual: names.len() as u64,
        });
    }
    let mut types: Vec<String> = Vec::new();
    for name in names {
        let known = EventKind::ALL.iter().any(|kind| kind.as_str() == name)
            || NEVER_SENT.split_whitespace().any(|known| known == name);
        if !known {
            return Err(Rejection::Invalid {
                field: "events",
                rule: "must be event types of OpenWOP or of this host",
            });
        }
        if !types.contains(name) {
            types.push(name.clone());
        }
    }
    Ok(types)
}

/// Checks whether a secret that a caller gives can be a signing key.
pub fn check_secret(secret: &str) -> Result<(), Rejection> {
    let visible = secret.bytes().all(|b| b.is_ascii_graphic());
    if visible && SECRET_CHARS.contains(&secret.len()) {
        return Ok(());
    }
    Err(Rejection::Invalid {
        field: "secret",
        rule: "must be 16 to 256 visible ASCII characters",
    })
}

/// Checks a URL by the rules that need no lookup. `private` allows plain HTTP and addresses of the
/// local network.
pub fn check_url(text: &str, private: bool) -> Result<(), Rejection> {
    let invalid = |rule| Err(Rejection::UrlRefused { rule });
    // The parser drops such characters silently; the stored URL would not be the one that is used.
    let url = match Url::parse(text) {
        Ok(url) if !text.contains(|c: char| c.is_control() || c.is_whitespace()) => url,
        _ => return invalid("must be an absolute URL"),
    };
    if url.scheme() != "https" && !(private && url.scheme() == "http") {
        return invalid("must begin with https://");
    }
    if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
        return invalid("must not contain a user, a password or a fragment");
    }
    let allowed = match url.host() {
        None => false,
        Some(_) if private => true,
        Some(Host::Ipv4(ip)) => {
            sabotage!("webhooks-may-point-inside", is_public(IpAddr::V4(ip)), true)
        }
        Some(Host::Ipv6(ip)) => is_public(IpAddr::V6(ip)),
        Some(Host::Domain(name)) => is_public_name(name),
    };
    if allowed {
        Ok(())
    } else {
        invalid("must not point to this machine or a private network")
    }
}

/// The address that a URL contains literally, which needs no lookup.
#[must_use]
pub fn literal_address(text: &str) -> Option<IpAddr> {
    match Url::parse(text).ok()?.host()? {
        Host::Ipv4(ip) => Some(IpAddr::V4(ip)),
        Host::Ipv6(ip) => Some(IpAddr::V6(ip)),
        Host::Domain(_) => None,
    }
}

/// Returns true for a name that can be public: names without a dot and names of private zones are
/// never those of a public receiver.
fn is_public_name(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let private = [
        "localhost",
        "local",
        "internal",
        "intranet",
        "lan",
        "home.arpa",
        "corp",
        "private",
    ];
    name.contains('.')
        && !private
            .iter()
            .any(|zone| name == *zone || name.ends_with(&format!(".{zone}")))
}

/// Returns true if an address belongs to the public internet. An address that is not known to be
/// public counts as private.
#[must_use]
pub fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, d] = ip.octets();
    let special = match (a, b, c) {
        (0 | 10 | 127, ..) => true,
        (100, 64..=127, _) | (169, 254, _) | (172, 16..=31, _) | (192, 168, _) => true,
        (192, 0, 0 | 2) | (192, 88, 99) | (198, 18 | 19, _) | (198, 51, 100) | (203, 0, 113) => {
            true
        }
        // The metadata and health service of a large cloud, on an address that looks public.
        (168, 63, 129) => d == 16,
        (224.., ..) => true,
        _ => false,
    };
    !special
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    let s = ip.segments();
    let v4 = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match s {
        // IPv4 addresses in other forms: mapped, translated (NAT64), 6to4.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => v4(high, low),
        [0x2002, high, low, ..] => v4(high, low),
        // Tunnels, benchmarks, documentation.
        [0x2001, 0..=0x01ff | 0x0db8, ..] | [0x3fff, 0..=0x0fff, ..] => false,
        // Everything that is global is in 2000::/3; loopback, local, ULA and multicast are outside.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_and_reserved_addresses_are_not_public() {
        for public in [
            "8.8.8.8",
            "1.1.1.1",
            "172.15.0.1",
            "172.32.0.1",
            "100.128.0.1",
            "168.63.129.17",
            "2606:4700::1111",
            "2a00::1",
        ] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        for embedded in ["::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1"] {
            assert!(is_public(embedded.parse().unwrap()), "{embedded}");
        }
        for private in [
            "0.0.0.0",
            "10.1.2.3",
            "127.0.0.1",
            "127.255.255.255",
            "100.64.0.1",
            "100.100.100.200",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.0.1",
            "192.0.0.1",
            "192.0.2.1",
            "192.88.99.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "168.63.129.16",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2002:a9fe:a9fe::",
            "2001::1",
            "2001:db8::1",
            "3fff::1",
            "100::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "4000::1",
        ] {
            assert!(!is_public(private.parse().unwrap()), "{private}");
        }
    }

    #[test]
    fn only_public_https_urls_are_accepted() {
        for good in [
            "https://example.com",
            "https://example.com:8443/a?b=c",
            "https://8.8.8.8/x",
            "https://[2606:4700::1111]/",
        ] {
            assert_eq!(check_url(good, false), Ok(()), "{good}");
        }
        for bad in [
            "",
            "example.com",
            "/a",
            "http://example.com/",
            "ftp://example.com/",
            "file:///etc/passwd",
            "https://",
            "https://u@example.com/",
            "https://u:p@example.com/",
            "https://:p@example.com/",
            "https://example.com/#f",
            "https://example.com/#",
            "https:// example.com/",
            "https://exa\tmple.com/",
            "https://example.com/\n",
            "https://localhost/",
            "https://LOCALHOST./",
            "https://a.localhost/",
            "https://metadata/",
            "https://metadata.google.internal/",
            "https://printer.local/",
            "https://127.0.0.1/",
            "https://127.1/",
            "https://0x7f000001/",
            "https://2130706433/",
            "https://0177.0.0.1/",
            "https://169.254.169.254/latest",
            "https://[::1]/",
            "https://[::ffff:127.0.0.1]/",
            "https://[fd00::1]/",
            "https://10.0.0.1.",
            "https://[fe80::1]/",
        ] {
            assert!(check_url(bad, false).is_err(), "{bad}");
        }
        for closed in [
            "http://127.0.0.1:9/",
            "http://localhost/",
            "https://receiver/",
            "http://[::1]:80/",
        ] {
            assert_eq!(check_url(closed, true), Ok(()), "{closed}");
        }
        for never in [
            "ftp://a.b/",
            "http://u@127.0.0.1/",
            "http://127.0.0.1/#f",
            "nonsense",
        ] {
            assert!(check_url(never, true).is_err(), "{never}");
        }
        assert_eq!(
            literal_address("https://0x7f.1/"),
            Some(IpAddr::V4(Ipv4Addr::LOCALHOST))
        );
        assert_eq!(literal_address("https://a.b/"), None);
    }

    #[test]
    fn event_types_are_validated_and_deduplicated() {
        let names = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        let given = names(&["run.completed", "approval.requested", "run.completed"]);
        assert_eq!(
            event_types(&given),
            Ok(names(&["run.completed", "approval.requested"]))
        );
        for bad in [
            &[][..],
            &["run.exploded"],
            &["*"],
            &[""],
            &["run.completed", "x"],
        ] {
            assert!(event_types(&names(bad)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn secrets_need_16_to_256_visible_ascii_characters() {
        assert!(check_secret(&"x".repeat(16)).is_ok() && check_secret(&"x".repeat(256)).is_ok());
        for bad in [
            "x".repeat(15),
            "x".repeat(257),
            "with a space in it".to_owned(),
            "ümlaut-ümlaut-ümlaut".to_owned(),
        ] {
            assert!(check_secret(&bad).is_err());
        }
    }
}
