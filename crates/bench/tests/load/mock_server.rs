//! Servers that misbehave: each test defines the reply to each request.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

/// A server on its own port. It ends with the test's process.
pub(crate) struct MockServer {
    pub(crate) port: u16,
}

impl MockServer {
    /// Starts a server that answers the requests of each connection, numbered from 0; `None` closes
    /// the connection. Requests must arrive one at a time.
    pub(crate) fn start(
        answer: impl Fn(usize) -> Option<Vec<u8>> + Send + Clone + 'static,
    ) -> MockServer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let answer = answer.clone();
                thread::spawn(move || serve(stream.expect("a connection"), answer));
            }
        });
        MockServer { port }
    }
}

fn serve(mut stream: TcpStream, answer: impl Fn(usize) -> Option<Vec<u8>>) {
    stream.set_nodelay(true).expect("no delay");
    let mut bytes = [0; 4096];
    for number in 0.. {
        match stream.read(&mut bytes) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return,
        }
        let Some(reply) = answer(number) else { return };
        if stream.write_all(&reply).is_err() {
            return;
        }
    }
}
