//! Posting to webhooks: the only place where the host connects to addresses that callers chose.
//!
//! A name is looked up once, here; every address behind it is held against the rules, and the
//! connection goes to one of exactly those. No proxy, no redirect and no second lookup can lead
//! elsewhere.

use async_trait::async_trait;
use remem_core::sabotage;
use remem_core::webhook::{check_url, is_public, literal_address};
use remem_engine::ports::{Post, PostError};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A port for asking by which way an address is reached: any will do, as nothing is sent.
const DISCARD: u16 = 9;

/// An address behind a name is not one to connect to.
#[derive(Debug, thiserror::Error)]
#[error("the name leads to an address that is not public")]
struct NotPublic;

/// Looks names up and refuses those that lead inside.
struct PublicNames {
    allow_private: bool,
}

impl Resolve for PublicNames {
    fn resolve(&self, name: Name) -> Resolving {
        let allow_private = self.allow_private;
        Box::pin(async move {
            let found: Vec<SocketAddr> =
                tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let addresses = public(found, allow_private, is_own)?;
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

/// All of them or none: a name that leads inside on one of its addresses is no public name. A
/// public address of this machine itself is inside.
fn public(
    found: Vec<SocketAddr>,
    allow_private: bool,
    is_own: impl Fn(IpAddr) -> bool,
) -> Result<Vec<SocketAddr>, NotPublic> {
    let is_outside = |address: &SocketAddr| {
        let own = sabotage!("a-machine-posts-to-itself", is_own(address.ip()), false);
        is_public(address.ip()) && !own
    };
    if allow_private
        || sabotage!(
            "one-public-address-is-enough",
            found.iter().all(is_outside),
            found.iter().any(is_outside)
        )
    {
        Ok(found)
    } else {
        Err(NotPublic)
    }
}

/// Whether an address is one of this machine's own. Asks the system and sends nothing.
fn is_own(ip: IpAddr) -> bool {
    let (any, elsewhere): (IpAddr, IpAddr) = match ip {
        IpAddr::V4(_) => (
            Ipv4Addr::UNSPECIFIED.into(),
            Ipv4Addr::new(192, 0, 2, 1).into(),
        ),
        IpAddr::V6(_) => (
            Ipv6Addr::UNSPECIFIED.into(),
            Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
        ),
    };
    let can_bind = |ip: IpAddr| UdpSocket::bind((ip, 0)).is_ok();
    // A system can be told to let programs bind any address. There the route tells: the machine
    // speaks to an address of its own from that very address.
    if can_bind(ip) && !can_bind(elsewhere) {
        return true;
    }
    let from = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((ip, DISCARD))?;
        socket.local_addr()
    });
    from.is_ok_and(|from| from.ip() == ip)
}

/// The port behind which webhooks are.
pub struct Outbound {
    allow_private: bool,
    /// Made on first use: most commands never post, and reading the machine's certificates takes a
    /// while.
    client: OnceLock<Option<reqwest::Client>>,
}

impl Outbound {
    /// `allow_private` lets plain HTTP and addresses of the own network pass.
    #[must_use]
    pub fn new(allow_private: bool) -> Outbound {
        Outbound {
            allow_private,
            client: OnceLock::new(),
        }
    }

    fn client(&self) -> Result<&reqwest::Client, PostError> {
        let client = self.client.get_or_init(|| {
            // Fails only if a provider is installed already, which is as good.
            let _ = rustls::crypto::ring::default_provider().install_default();
            let built = sabotage!("webhooks-follow-redirects", reqwest::Client::builder()
                .dns_resolver(Arc::new(PublicNames { allow_private: self.allow_private }))
                .redirect(reqwest::redirect::Policy::none()), reqwest::Client::builder()
                .dns_resolver(Arc::new(PublicNames { allow_private: self.allow_private })))
                .no_proxy()
                .referer(false)
                .https_only(!self.allow_private)
                .connect_timeout(Duration::from_secs(5))
                .timeout(Duration::from_secs(5))
                .pool_idle_timeout(Duration::from_secs(10))
                .build();
            built
                .inspect_err(|_| tracing::error!("webhooks cannot be sent: no HTTPS client, does this machine have root certificates?"))
                .ok()
        });
        client.as_ref().ok_or(PostError::Unreachable)
    }
}

#[async_trait]
impl Post for Outbound {
    async fn post(
        &self,
        url: &str,
        headers: Vec<(&'static str, String)>,
        body: Vec<u8>,
    ) -> Result<u16, PostError> {
        // The rules may have become stricter since it was registered; and literal addresses are
        // never looked up.
        check_url(url, self.allow_private).map_err(|_| PostError::Refused)?;
        if let Some(ip) = literal_address(url) {
            public(vec![(ip, DISCARD).into()], self.allow_private, is_own)
                .map_err(|NotPublic| PostError::Refused)?;
        }
        let request = headers
            .into_iter()
            .fold(self.client()?.post(url), |request, (name, value)| {
                request.header(name, value)
            });
        // What the receiver writes is not read: only its status counts.
        request
            .body(body)
            .send()
            .await
            .map(|response| response.status().as_u16())
            .map_err(|error| class(&error))
    }
}

fn class(error: &reqwest::Error) -> PostError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(current) = cause {
        if current.is::<NotPublic>() {
            return PostError::Refused;
        }
        cause = current.source();
    }
    if error.is_timeout() {
        PostError::Timeout
    } else {
        PostError::Unreachable
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    /// Answers one request with `answer` and returns what it was.
    async fn receive(listener: TcpListener, answer: &str) -> String {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut read = Vec::new();
        while !read.ends_with(b"the body") {
            assert_ne!(socket.read_buf(&mut read).await.unwrap(), 0);
        }
        socket.write_all(answer.as_bytes()).await.unwrap();
        String::from_utf8(read).unwrap()
    }

    #[tokio::test]
    async fn a_closed_network_is_reached_only_when_allowed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let strict = Outbound::new(false);
        for inside in [
            "http://127.0.0.1",
            "https://127.0.0.1",
            "https://localhost",
            "https://[::1]",
            "https://[::ffff:7f00:1]",
        ] {
            let answer = strict
                .post(&format!("{inside}:{port}/"), vec![], b"the body".to_vec())
                .await;
            assert_eq!(answer, Err(PostError::Refused), "{inside}");
        }
        let open = Outbound::new(true);
        let url = format!("http://localhost:{port}/hook?a=b");
        let elsewhere = "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        let (answer, request) = tokio::join!(
            open.post(&url, vec![("X-Test", "v".to_owned())], b"the body".to_vec()),
            receive(listener, elsewhere)
        );
        assert_eq!(
            answer,
            Ok(302),
            "a redirect is an answer, and is not followed"
        );
        assert!(
            request.starts_with("POST /hook?a=b HTTP/1.1\r\n")
                && request.to_lowercase().contains("x-test: v\r\n"),
            "{request}"
        );
        assert_eq!(
            open.post(&url, vec![], vec![]).await,
            Err(PostError::Unreachable),
            "nobody listens any more"
        );
    }

    /// A machine can have a public address itself: there, the routes answer as they do for its
    /// loopback and its private ones here.
    #[test]
    fn a_public_address_of_the_machine_itself_is_inside() {
        let outside: SocketAddr = "8.8.8.8:0".parse().unwrap();
        let own: SocketAddr = "52.9.9.9:0".parse().unwrap();
        let is_here = |ip: IpAddr| ip == own.ip();
        assert!(public(vec![own], false, is_here).is_err());
        assert!(public(vec![outside, own], false, is_here).is_err());
        assert_eq!(public(vec![outside], false, is_here).unwrap(), [outside]);
        assert_eq!(public(vec![own], true, is_here).unwrap(), [own]);
        for here in ["127.0.0.1", "127.9.9.9", "::1"] {
            assert!(is_own(here.parse().unwrap()), "{here}");
        }
        for away in ["8.8.8.8", "192.0.2.1", "2001:4860:4860::8888"] {
            assert!(!is_own(away.parse().unwrap()), "{away}");
        }
    }

    /// A name that passes at registration may lead inside when it is looked up; each address is
    /// looked at.
    #[tokio::test]
    async fn a_name_is_judged_by_every_address_behind_it() {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        let outside = address("8.8.8.8:0");
        let inside = address("10.0.0.1:0");
        let elsewhere = |_: IpAddr| false;
        assert_eq!(public(vec![outside], false, elsewhere).unwrap(), [outside]);
        assert!(public(vec![outside, inside], false, elsewhere).is_err());
        assert_eq!(public(vec![inside], true, elsewhere).unwrap(), [inside]);
        // Through the client: the resolver refuses, and the reason comes out at the other end.
        let strict = Outbound::new(false);
        let refused = strict
            .client()
            .unwrap()
            .post("https://localhost:1/")
            .send()
            .await
            .unwrap_err();
        assert_eq!(class(&refused), PostError::Refused);
    }
}
