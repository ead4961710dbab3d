//! Metrics for Prometheus: the newest look at `/metrics` of a port of the loopback address, for this machine alone.
//!
//! ```text
//! thread "metrics"   accepts ── at most 8 connections ── one thread each, at most two seconds
//!                                                        8 KiB of request ── one answer ── closed
//! ```
//!
//! A client that is slow, asks for much or holds connections open costs its own two seconds and no memory beyond
//! that; while it holds all eight others are refused. Requests that name another host are refused, so that a page in
//! a browser cannot read the metrics through a name that leads here.
//!
//! Source: RFC 9112. Deliberately absent: connections that stay open, bodies, TLS, addresses but the loopback's.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use sparkpilot::hal::monitor::{Look, PROMETHEUS_TYPE};

/// Connections at a time.
const MOST_CONNECTIONS: usize = 8;
/// Bytes of a request's head.
const MOST_REQUEST_BYTES: usize = 8 << 10;
/// How long a connection may take, from first to last.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long the rest of a request is read that is not answered as it wants: a connection closed with bytes unread
/// takes the answer with it.
const LAST_PATIENCE: Duration = Duration::from_millis(200);

type Newest = Arc<Mutex<Option<Arc<Look>>>>;

/// The newest look and who asks for it.
pub(super) struct Metrics {
    newest: Newest,
    address: SocketAddr,
}

impl Metrics {
    /// Listens at this port of the loopback address, at a free one for 0.
    ///
    /// # Errors
    ///
    /// A port that cannot be had.
    pub(super) fn start(port: u16) -> io::Result<Self> {
        let named = |error: io::Error| {
            let text = format!("cannot listen at 127.0.0.1:{port}: {error}");
            io::Error::new(error.kind(), text)
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(named)?;
        let address = listener.local_addr()?;
        let newest = Newest::default();
        let shared = Arc::clone(&newest);
        std::thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(move || serve(&listener, &shared))?;
        Ok(Self { newest, address })
    }

    pub(super) fn take(&self, look: &Arc<Look>) {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        *newest = Some(Arc::clone(look));
    }

    pub(super) fn words(&self) -> String {
        format!("metrics at http://{}/metrics", self.address)
    }
}

fn serve(listener: &TcpListener, newest: &Newest) {
    let n_open = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            // No file handles are left: trying at once would only burn time.
            std::thread::sleep(Duration::from_millis(100));
            continue;
        };
        if n_open.load(Ordering::Acquire) >= MOST_CONNECTIONS {
            refuse(stream);
            continue;
        }
        n_open.fetch_add(1, Ordering::AcqRel);
        let place = Place(Arc::clone(&n_open));
        let newest = Arc::clone(newest);
        let answer = move || {
            // A client that has gone is nobody to tell.
            let _ = converse(stream, &newest, Instant::now() + PATIENCE);
            drop(place);
        };
        // Without a thread the connection closes, and so does its place.
        let _ = std::thread::Builder::new()
            .name("metrics client".to_owned())
            .spawn(answer);
    }
}

/// One of the connections that may be open.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// An answer: its status, its type and its body.
struct Answer {
    status: &'static str,
    kind: &'static str,
    body: String,
    has_body: bool,
}

impl Answer {
    fn plain(status: &'static str, body: &str) -> Self {
        Self {
            status,
            kind: "text/plain; charset=utf-8",
            body: format!("{body}\n"),
            has_body: true,
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let Self {
            status, kind, body, ..
        } = self;
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\
             Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\r\n",
            body.len()
        );
        let body = if self.has_body { body.as_str() } else { "" };
        [head.as_bytes(), body.as_bytes()].concat()
    }
}

/// Says in few bytes, which fit into any socket, that there are too many.
fn refuse(mut stream: TcpStream) {
    let answer = Answer::plain("503 Service Unavailable", "too many connections");
    if stream.set_nonblocking(true).is_ok() {
        // Whoever does not take it is refused all the same.
        let _ = stream.write(&answer.bytes());
    }
}

fn converse(mut stream: TcpStream, newest: &Newest, until: Instant) -> io::Result<()> {
    let request = read_head(&mut stream, until)?;
    let answer = match &request {
        Some(head) => answer_to(head, newest),
        None => Answer::plain(
            "431 Request Header Fields Too Large",
            "the request is too long",
        ),
    };
    write_all(&mut stream, &answer.bytes(), until)?;
    stream.shutdown(Shutdown::Write)?;
    if !answer.status.starts_with("200") {
        let until = until.min(Instant::now() + LAST_PATIENCE);
        let mut rest = [0; 1024];
        while read_some(&mut stream, &mut rest, until)? > 0 {}
    }
    Ok(())
}

/// The head of a request; `None` where it is too long.
fn read_head(stream: &mut TcpStream, until: Instant) -> io::Result<Option<Vec<u8>>> {
    let mut head = Vec::new();
    let mut some = [0; 1024];
    loop {
        let n_read = read_some(stream, &mut some, until)?;
        if n_read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // The end of a head may stand across two reads.
        let from = head.len().saturating_sub(3);
        head.extend_from_slice(&some[..n_read]);
        let is_whole = |end: &[u8]| head[from..].windows(end.len()).any(|part| part == end);
        if is_whole(b"\r\n\r\n") || is_whole(b"\n\n") {
            return Ok(Some(head));
        }
        if head.len() > MOST_REQUEST_BYTES {
            return Ok(None);
        }
    }
}

fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    Ok(left)
}

fn read_some(stream: &mut TcpStream, some: &mut [u8], until: Instant) -> io::Result<usize> {
    stream.set_read_timeout(Some(left(until)?))?;
    stream.read(some)
}

/// As `write_all`, and no longer than `until` however little is taken at a time.
fn write_all(stream: &mut TcpStream, mut bytes: &[u8], until: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(left(until)?))?;
        match stream.write(bytes)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            n_written => bytes = &bytes[n_written..],
        }
    }
    Ok(())
}

fn answer_to(head: &[u8], newest: &Newest) -> Answer {
    let Ok(head) = std::str::from_utf8(head) else {
        return Answer::plain("400 Bad Request", "the request is no text");
    };
    let mut lines = head.lines();
    let mut words = lines.next().unwrap_or_default().split(' ');
    let line = (words.next(), words.next(), words.next(), words.next());
    let (Some(method), Some(target), Some("HTTP/1.0" | "HTTP/1.1"), None) = line else {
        return Answer::plain("400 Bad Request", "this is no request of HTTP/1.1");
    };
    let hosts = lines.filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("host").then(|| value.trim())
    });
    if !hosts.into_iter().all(is_this_machine) {
        return Answer::plain("403 Forbidden", "this is not the host that was asked for");
    }
    if !["GET", "HEAD"].contains(&method) {
        return Answer::plain("405 Method Not Allowed", "only GET and HEAD are answered");
    }
    let mut answer = match target.split('?').next() {
        Some("/metrics") => metrics(newest),
        Some("/") => Answer::plain("200 OK", "sparkpilot monitor: the metrics are at /metrics"),
        _ => Answer::plain("404 Not Found", "the metrics are at /metrics"),
    };
    answer.has_body = method == "GET";
    answer
}

/// Whether a host's name can only be that of the machine itself.
fn is_this_machine(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    ["127.0.0.1", "localhost", "[::1]"]
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known))
}

fn metrics(newest: &Newest) -> Answer {
    let look = newest
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    match look {
        Some(look) => Answer {
            status: "200 OK",
            kind: PROMETHEUS_TYPE,
            body: look.to_prometheus(SystemTime::now()),
            has_body: true,
        },
        None => Answer::plain("503 Service Unavailable", "nothing was seen yet"),
    }
}

#[cfg(test)]
mod tests;
