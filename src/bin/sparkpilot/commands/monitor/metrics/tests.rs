//! Metrics asked for over real sockets, by good clients and bad ones.

use std::io::Read;

use super::super::posed::look;
use super::*;

fn started() -> Metrics {
    let metrics = Metrics::start(0).unwrap();
    assert!(metrics.address.ip().is_loopback());
    metrics.take(&Arc::new(look(0, 50_000)));
    metrics
}

fn connect(metrics: &Metrics) -> TcpStream {
    let stream = TcpStream::connect(metrics.address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    stream
}

/// What is answered to these bytes, to the end of the connection.
fn ask(metrics: &Metrics, request: &[u8]) -> String {
    let mut stream = connect(metrics);
    // A server that refuses early takes the rest of a long request from nobody.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

#[track_caller]
fn check(metrics: &Metrics, request: &str, status: &str) -> String {
    let answer = ask(metrics, request.as_bytes());
    let wanted = format!("HTTP/1.1 {status}");
    assert!(answer.starts_with(&wanted), "{request:?}: {answer:?}");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("Content-Length: "));
    if !request.starts_with("HEAD") {
        assert_eq!(length.unwrap().parse(), Ok(body.len()));
    }
    body.to_owned()
}

#[test]
fn the_newest_look_is_answered_in_the_text_format() {
    let metrics = started();
    let body = check(
        &metrics,
        "GET /metrics HTTP/1.1\r\nHost: localhost:9400\r\n\r\n",
        "200 OK",
    );
    let size = "\nsparkpilot_memory_available_bytes 52428800000\n";
    assert!(body.contains(size), "{body}");
    metrics.take(&Arc::new(look(0, 1)));
    let body = check(&metrics, "GET /metrics?x=1 HTTP/1.0\n\n", "200 OK");
    assert!(
        body.contains("\nsparkpilot_memory_available_bytes 1048576\n"),
        "{body}"
    );
    let answer = ask(
        &metrics,
        b"GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
    );
    assert!(answer.contains("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
    assert_eq!(
        check(
            &metrics,
            "HEAD /metrics HTTP/1.1\r\nHost: [::1]:1\r\n\r\n",
            "200 OK"
        ),
        ""
    );
    let body = check(&metrics, "GET / HTTP/1.1\r\n\r\n", "200 OK");
    assert!(body.contains("/metrics"));
    assert!(metrics.words().ends_with("/metrics"));
}

#[test]
fn before_the_first_look_there_is_nothing() {
    let metrics = Metrics::start(0).unwrap();
    check(&metrics, "GET /metrics HTTP/1.1\r\n\r\n", "503");
}

#[test]
fn what_is_no_such_request_is_refused() {
    let metrics = started();
    for (request, status) in [
        ("GET /passwd HTTP/1.1\r\n\r\n", "404"),
        (
            "POST /metrics HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody",
            "405",
        ),
        ("GET /metrics\r\n\r\n", "400"),
        ("GET /metrics HTTP/2\r\n\r\n", "400"),
        ("GET  /metrics HTTP/1.1\r\n\r\n", "400"),
        ("\r\n\r\n", "400"),
        ("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", "403"),
        (
            "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1.evil.example:80\r\n\r\n",
            "403",
        ),
        (
            "GET /metrics HTTP/1.1\r\nHost: localhost\r\nhOST: evil.example\r\n\r\n",
            "403",
        ),
    ] {
        check(&metrics, request, status);
    }
    let answer = ask(&metrics, b"GET /\xff HTTP/1.1\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    // Somebody who says nothing and goes.
    drop(connect(&metrics));
    check(&metrics, "GET /metrics HTTP/1.1\r\n\r\n", "200");
}

#[test]
fn a_request_without_end_is_cut_off() {
    let metrics = started();
    let begin = Instant::now();
    let answer = ask(&metrics, &vec![b'a'; 20_000]);
    assert!(
        answer.starts_with("HTTP/1.1 431") || answer.is_empty(),
        "{answer}"
    );
    // Many megabytes take no longer, and no memory: the connection closes.
    ask(&metrics, &vec![b'a'; 64 << 20]);
    assert!(begin.elapsed() < PATIENCE * 3, "{:?}", begin.elapsed());
    check(&metrics, "GET /metrics HTTP/1.1\r\n\r\n", "200");
}

#[test]
fn clients_that_dawdle_lose_their_place_and_others_wait_no_longer_than_that() {
    let metrics = started();
    let begin = Instant::now();
    let mut slow: Vec<TcpStream> = (0..MOST_CONNECTIONS).map(|_| connect(&metrics)).collect();
    let mut flood: Vec<TcpStream> = (0..100).map(|_| connect(&metrics)).collect();
    for stream in &mut slow {
        stream.write_all(b"GET /metrics HTTP/1.1\r\n").unwrap();
    }
    // Those beyond the eight are told so and closed.
    let mut answer = String::new();
    let _ = flood[99].read_to_string(&mut answer);
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    // A byte now and then keeps no connection open.
    let mut stream = slow.pop().unwrap();
    while stream.write_all(b"x").is_ok() && begin.elapsed() < PATIENCE * 3 {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(begin.elapsed() < PATIENCE * 2, "{:?}", begin.elapsed());
    for stream in &mut slow {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert_eq!(rest, b"", "closed without an answer");
    }
    check(&metrics, "GET /metrics HTTP/1.1\r\n\r\n", "200");
}

#[test]
fn a_port_that_is_taken_is_an_error_that_names_it() {
    let metrics = started();
    let port = metrics.address.port();
    let error = Metrics::start(port).err().unwrap().to_string();
    assert!(error.contains(&format!("127.0.0.1:{port}")), "{error}");
}
