//! A minimal HTTP/1.1 client that keeps its connection: the load must cost the machine as little as
//! possible, because client and server share it. Reads answers with a `content-length` and no
//! others.

use anyhow::{Context, bail, ensure};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const PREFIX: &str = "/v1/host/remembrancer";
const TIMEOUT: Duration = Duration::from_secs(30);

/// One open connection to a server.
pub struct Client {
    stream: BufReader<TcpStream>,
    line: String,
    body: Vec<u8>,
}

/// A request, ready to be written.
pub struct Request(Vec<u8>);

impl Request {
    pub fn get(key: &str, path: &str) -> Request {
        Request::without_body("GET", key, path)
    }

    pub fn delete(key: &str, path: &str) -> Request {
        Request::without_body("DELETE", key, path)
    }

    fn without_body(method: &str, key: &str, path: &str) -> Request {
        Request(
            format!(
                "{method} {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {key}\r\n\r\n"
            )
            .into_bytes(),
        )
    }

    pub fn post(key: &str, path: &str, body: &str) -> Request {
        Request::keyed_post(key, path, body, None)
    }

    pub fn put(key: &str, path: &str, body: &str) -> Request {
        Request::with_body("PUT", key, path, body, "")
    }

    /// A write with an optional idempotency key, so that it may be repeated.
    pub fn keyed_post(key: &str, path: &str, body: &str, idempotency: Option<&str>) -> Request {
        let repeat = idempotency
            .map(|key| format!("idempotency-key: {key}\r\n"))
            .unwrap_or_default();
        Request::with_body("POST", key, path, body, &repeat)
    }

    /// A request with a body; `headers` are further lines, each with its end.
    fn with_body(method: &str, key: &str, path: &str, body: &str, headers: &str) -> Request {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {key}\r\n{headers}\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        Request([head.as_bytes(), body.as_bytes()].concat())
    }
}

/// The path of a memory's entries or of something below them.
pub fn memory(memory_ref: &str, rest: &str) -> String {
    format!("{PREFIX}/memory/{memory_ref}/{rest}")
}

impl Client {
    pub fn connect(address: SocketAddr) -> anyhow::Result<Client> {
        let stream = TcpStream::connect_timeout(&address, TIMEOUT)
            .context("cannot connect to the server")?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        Ok(Client {
            stream: BufReader::with_capacity(64 * 1024, stream),
            line: String::new(),
            body: Vec::new(),
        })
    }

    /// Sends a request and waits for the whole answer. Any status but success is an error: a
    /// benchmark of refusals means nothing.
    pub fn send(&mut self, request: &Request) -> anyhow::Result<&[u8]> {
        self.stream.get_mut().write_all(&request.0)?;
        let status = self.head()?;
        if !(200..300).contains(&status) {
            bail!(
                "the server answered {status}: {}",
                String::from_utf8_lossy(&self.body)
            );
        }
        Ok(&self.body)
    }

    fn head(&mut self) -> anyhow::Result<u16> {
        self.next_line()?;
        let status: u16 = self
            .line
            .split(' ')
            .nth(1)
            .and_then(|code| code.parse().ok())
            .context("not an HTTP answer")?;
        let mut length = None;
        loop {
            self.next_line()?;
            if self.line.is_empty() {
                break;
            }
            if let Some((name, value)) = self.line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = Some(value.trim().parse::<usize>()?);
            }
        }
        // An answer without content has no length.
        let length = length.or((status == 204).then_some(0));
        self.body
            .resize(length.context("an answer without its length")?, 0);
        self.stream.read_exact(&mut self.body)?;
        Ok(status)
    }

    fn next_line(&mut self) -> anyhow::Result<()> {
        self.line.clear();
        ensure!(
            self.stream.read_line(&mut self.line)? > 0,
            "the server closed the connection"
        );
        self.line.truncate(self.line.trim_end().len());
        Ok(())
    }
}
