//! As much of HTTP/1.1 as scrapers and probes need: one GET or HEAD for each connection.
//!
//! `httparse` reads the head. Requests are limited in bytes and headers, and exchanges in time,
//! whatever the client does or does not send; garbage is answered with 400. Bodies of requests are
//! dropped, up to a limit.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::timeout;

/// Maximum number of bytes, and of headers, in the head of a request.
const LONGEST: usize = 8192;
const HEADERS: usize = 64;
/// How long a request may take to arrive, and its answer to be accepted.
const ARRIVES_WITHIN: Duration = Duration::from_secs(5);
const LEAVES_WITHIN: Duration = Duration::from_secs(10);
/// How long, and how many further bytes, the client's input is read before the connection is
/// closed: closing with unread bytes would lose the answer.
const LINGERS: Duration = Duration::from_secs(1);
const REST: usize = 64 << 10;

/// A response.
pub(crate) struct Answer {
    status: u16,
    kind: &'static str,
    body: String,
    /// Held until the answer has been sent.
    _permit: Option<Arc<OwnedSemaphorePermit>>,
}

impl Answer {
    pub(super) fn text(status: u16, body: impl Into<String>) -> Answer {
        Answer { status, kind: "text/plain; charset=utf-8", body: body.into(), _permit: None }
    }

    pub(super) fn metrics(body: String, permit: Arc<OwnedSemaphorePermit>) -> Answer {
        let kind = "text/plain; version=0.0.4; charset=utf-8";
        Answer { status: 200, kind, body, _permit: Some(permit) }
    }

    #[cfg(test)]
    pub(super) fn status(&self) -> u16 {
        self.status
    }

    fn head(&self) -> String {
        let (status, kind, length) = (self.status, self.kind, self.body.len());
        let allow = if status == 405 { "Allow: GET, HEAD\r\n" } else { "" };
        format!(
            "HTTP/1.1 {status} {}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
             {allow}Connection: close\r\n\r\n",
            reason(status)
        )
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        _ => "Internal Server Error",
    }
}

/// The request so far.
#[derive(Debug, PartialEq, Eq)]
enum Request {
    Get(String),
    Head(String),
    Incomplete,
    Refused(u16),
}

fn parse(bytes: &[u8]) -> Request {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(_)) => {
            let target = request.path.unwrap_or_default();
            let path = target.split('?').next().unwrap_or_default().to_owned();
            match request.method {
                Some("GET") => Request::Get(path),
                Some("HEAD") => Request::Head(path),
                _ => Request::Refused(405),
            }
        }
        Ok(httparse::Status::Partial) if bytes.len() < LONGEST => Request::Incomplete,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            Request::Refused(431)
        }
        Err(_) => Request::Refused(400),
    }
}

async fn receive(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::with_capacity(1024);
    loop {
        let space = (LONGEST - bytes.len()) as u64;
        if (&mut *stream).take(space).read_buf(&mut bytes).await.ok()? == 0 {
            return (!bytes.is_empty()).then_some(Request::Refused(400));
        }
        match parse(&bytes) {
            Request::Incomplete => {}
            request => return Some(request),
        }
    }
}

/// Serves one request; `answer` returns the content of a path. When `yields` completes, another
/// client is to take this one's place: it is closed, unless an answer is being made or sent.
pub(crate) async fn serve<F>(
    mut stream: TcpStream,
    mut yields: oneshot::Receiver<()>,
    answer: impl FnOnce(String) -> F,
) where
    F: Future<Output = Option<Answer>>,
{
    let arrived = tokio::select! {
        biased;
        request = timeout(ARRIVES_WITHIN, receive(&mut stream)) => request,
        Ok(()) = &mut yields => Ok(Some(Request::Refused(503))),
    };
    let request = match arrived {
        Ok(Some(request)) => request,
        Ok(None) => return,
        Err(_) => Request::Refused(408),
    };
    let (has_body, lingers) =
        (!matches!(request, Request::Head(_)), !matches!(request, Request::Refused(503)));
    let answer = match request {
        Request::Get(path) | Request::Head(path) => {
            answer(path).await.unwrap_or_else(|| Answer::text(404, "not found\n"))
        }
        Request::Refused(status) => Answer::text(status, format!("{}\n", reason(status))),
        Request::Incomplete => return,
    };
    let send = async {
        let mut bytes = answer.head().into_bytes();
        if has_body {
            bytes.extend_from_slice(answer.body.as_bytes());
        }
        stream.write_all(&bytes).await?;
        stream.shutdown().await
    };
    let sent = timeout(LEAVES_WITHIN, send).await;
    drop(answer);
    if lingers && matches!(sent, Ok(Ok(()))) {
        tokio::select! {
            _ = timeout(LINGERS, discard(&mut stream)) => {}
            Ok(()) = yields => {}
        }
    }
}

async fn discard(stream: &mut TcpStream) {
    let mut read = 0;
    let mut buffer = [0; 1024];
    while read < REST {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(n) => read += n,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_in_pieces_of_any_size() {
        let check = |bytes: &[u8], expect: Request| {
            assert_eq!(parse(bytes), expect, "{}", String::from_utf8_lossy(bytes));
        };
        check(b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n", Request::Get("/metrics".into()));
        check(b"HEAD / HTTP/1.0\r\n\r\n", Request::Head("/".into()));
        check(b"GET /metrics HTTP/1.1\r\nHost:", Request::Incomplete);
        check(b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n", Request::Refused(405));
        check(b"*1\r\n$4\r\nPING\r\n", Request::Refused(400));
        check(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Request::Refused(400));
        check(&[b'G'; LONGEST], Request::Refused(431));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(HEADERS + 1));
        check(many.as_bytes(), Request::Refused(431));
        check(b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03", Request::Refused(400));
    }
}
