//! How clients reach the server, how they authenticate, and how they are disconnected.

use std::net::{SocketAddr, TcpStream, UdpSocket};
use testkit::{Client, Launch, Server};

fn start(arguments: &[&str]) -> Server {
    Launch::perdura_volatile().args(arguments.iter().copied()).start()
}

#[test]
fn a_unix_socket_is_served_and_removed() {
    use std::os::unix::fs::PermissionsExt;
    let arguments = ["--unixsocket", "perdura.sock", "--unixsocketperm", "700", "--pidfile", "pid"];
    let mut server = start(&arguments);
    let (path, pid) = (server.folder().join("perdura.sock"), server.folder().join("pid"));
    let mode = std::fs::metadata(&path).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let written = std::fs::read_to_string(&pid).expect("a pid file");
    assert_eq!(written.trim(), server.pid().to_string());
    let mut client = Client::connect_unix(&path).expect("connected");
    client.check("SET k v", "OK");
    let list = client.run("CLIENT LIST").text();
    assert!(list.contains("flags=U"), "{list}");
    server.client().check("GET k", "\"v\"");
    assert!(server.terminate().success());
    assert!(!path.exists() && !pid.exists());
}

#[test]
fn a_password_is_asked_for() {
    let server = start(&["--requirepass", "secret"]);
    let mut client = server.client();
    client.check("GET k", "(error) NOAUTH Authentication required.");
    client.check(
        "AUTH wrong",
        "(error) WRONGPASS invalid username-password pair or user is disabled.",
    );
    client.check("GET k", "(error) NOAUTH Authentication required.");
    client.check("AUTH secret", "OK");
    client.check("GET k", "(nil)");
    let mut other = server.client();
    other.check("AUTH default secret", "OK");
    other.check("CONFIG SET requirepass \"\"", "OK");
    server.client().check("GET k", "(nil)");
}

#[test]
fn who_has_not_authenticated_and_reads_no_reply_is_parted() {
    use std::io::Write;
    let server = start(&["--requirepass", "secret"]);
    let requests = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n".repeat(1000);
    // Its replies are far more than the sockets' buffers hold.
    let is_parted = |mut socket: TcpStream| (0..2000).any(|_| socket.write_all(&requests).is_err());
    assert!(is_parted(TcpStream::connect(server.address()).expect("connected")));
    server.client().check("AUTH secret", "OK");
}

/// Returns an address of this machine that is not the loopback, if it has one.
fn own_address(port: u16) -> Option<SocketAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // No packet is sent: the kernel only chooses the route.
    socket.connect("192.0.2.1:9").ok()?;
    let ip = socket.local_addr().ok()?.ip();
    (!ip.is_loopback() && !ip.is_unspecified()).then_some(SocketAddr::new(ip, port))
}

#[test]
fn strangers_are_turned_away_unless_there_is_a_password() {
    let server = start(&["--bind", "*"]);
    let Some(address) = own_address(server.port()) else {
        return println!("this machine has no address but the loopback");
    };
    let mut stranger = Client::connect(address).expect("connected");
    let reply = stranger.receive().expect("a refusal").text();
    assert!(reply.contains("DENIED Redis is running in protected mode"), "{reply}");
    assert!(stranger.receive().is_err(), "and then the connection ends");
    server.client().check("CONFIG SET protected-mode no", "OK");
    Client::connect(address).expect("connected").check("PING", "PONG");
    server.client().check("CONFIG SET protected-mode yes requirepass x", "OK");
    Client::connect(address).expect("connected").check("AUTH x", "OK");
}

#[test]
fn port_and_addresses_change_while_serving() {
    let server = start(&[]);
    let mut client = server.client();
    // Not a port that the kernel gives to clients: another test's client could use it.
    let bind = || std::net::TcpListener::bind(("127.0.0.1", testkit::free_port())).ok();
    let free = std::iter::repeat_with(bind).flatten().next().expect("a free port");
    let port = free.local_addr().expect("an address").port();
    let taken = client.run(&format!("CONFIG SET port {port}")).text();
    assert!(taken.contains("Unable to listen on this port"), "{taken}");
    server.client().check("PING", "PONG");
    drop(free);
    client.check(&format!("CONFIG SET port {port}"), "OK");
    client.check("PING", "PONG");
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    Client::connect(address).expect("the new port").check("PING", "PONG");
    // The old listener ends with its task, a moment later.
    let gone = (0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        TcpStream::connect(server.address()).is_err()
    });
    assert!(gone, "the old port is closed");
}

#[test]
fn a_refused_change_leaves_the_passwords_as_they_are() {
    let server = start(&[]);
    let mut client = server.client();
    client.check("ACL SETUSER default >secret", "OK");
    let other = start(&[]);
    for refused in [format!("requirepass x port {}", other.port()), "requirepass x dir /n".into()] {
        let reply = client.run(&format!("CONFIG SET {refused}")).text();
        assert!(reply.contains("ERR CONFIG SET failed"), "{reply}");
        let mut stranger = server.client();
        stranger.check("PING", "(error) NOAUTH Authentication required.");
        stranger.check("AUTH secret", "OK");
    }
}

#[test]
fn a_long_pipeline_is_answered_though_nothing_is_read_meanwhile() {
    let server = start(&[]);
    let mut client = server.client();
    let commands: Vec<Vec<String>> = (0..100_000)
        .map(|n| ["SET".to_owned(), format!("k{}", n % 100), "x".repeat(100)].to_vec())
        .collect();
    client.send_pipeline(&commands).expect("sent without reading");
    for _ in 0..commands.len() {
        assert_eq!(client.receive().expect("a reply").text(), "OK");
    }
    let gets: Vec<Vec<String>> =
        (0..100_000).map(|n| ["GET".to_owned(), format!("k{}", n % 100)].to_vec()).collect();
    client.send_pipeline(&gets).expect("sent without reading");
    for _ in 0..gets.len() {
        assert_eq!(client.receive().expect("a reply").bytes().map(<[u8]>::len), Some(100));
    }
}

#[test]
fn one_connection_does_not_starve_another() {
    let server = start(&["--threads", "1"]);
    let mut busy = server.client();
    busy.check(&format!("SET big {}", "x".repeat(10_000)), "OK");
    let gets: Vec<Vec<&str>> = vec![vec!["GET", "big"]; 20_000];
    busy.send_pipeline(&gets).expect("sent");
    // It is answered although the other has 200 MB to receive and reads none of it.
    server.client().check("PING", "PONG");
    for _ in 0..gets.len() {
        assert!(busy.receive().expect("a reply").bytes().is_some());
    }
}

fn run(arguments: &[&str]) -> (bool, String) {
    let output = std::process::Command::new(testkit::perdura_server())
        .args(arguments)
        .output()
        .expect("started");
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn the_program_explains_itself() {
    let check = |arguments: &[&str], success, text: &str| {
        let (succeeded, output) = run(arguments);
        assert!(succeeded == success && output.contains(text), "{arguments:?}: {output}");
    };
    check(&["--help"], true, "--backend auto|pmem|journal|aof");
    check(&["-v"], true, "Redis server v=7.0.15 sha=");
    let own = concat!(" perdura=", env!("CARGO_PKG_VERSION"));
    check(&["--version"], true, own);
    check(&["--no-such", "1"], false, "unknown directive 'no-such'");
    check(&["--port", "x"], false, "argument couldn't be parsed into an integer");
    check(&["/no/such.conf"], false, "can't open config file '/no/such.conf'");
    check(&["--port", "1", "stray", "--x"], false, "wrong number of arguments");
}
