//! A session store: tokens that expire, renewed by use, and all sessions of a user ended at once.
//!
//! The program starts itself again as a child, which serves until it is killed without warning
//! (`kill -9`). Then the parent opens the same pool and finds the acknowledged sessions.
//!
//! ```text
//! cargo run --example sessions
//! ```

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use perdura::prelude::*;
use perdura::{DomainRequest, Options, Perdura};

const TTL: Duration = Duration::from_secs(3600);

/// The domain `process` needs no persistent memory: the pool survives a crash of the process, not a
/// power loss. Without it the store survives that too.
fn open(pool: &Path) -> Result<Perdura, perdura::OpenError> {
    Perdura::open(Options::new(pool).domain(DomainRequest::Process))
}

fn session(token: &str) -> String {
    format!("session:{token}")
}

/// Creates a session, and lists it with its user's sessions, in one transaction.
fn log_in(store: &Perdura, user: &str, token: &str) -> Result<(), perdura::Error> {
    store.transact(|tx| {
        let key = session(token);
        tx.hash_set(&key, "user", user)?;
        tx.hash_set(&key, "requests", "0")?;
        tx.expire(&key, TTL)?;
        // A field for each session, which expires with it.
        let sessions = format!("user:{user}");
        tx.hash_set(&sessions, token, "")?;
        tx.hash_expire(&sessions, token, TTL)?;
        Ok(())
    })
}

/// Returns the user of a session, counts the request, and renews the session.
fn use_session(store: &Perdura, token: &str) -> Result<Option<String>, perdura::Error> {
    store.transact(|tx| {
        let key = session(token);
        let Some(user) = tx.hash_get(&key, "user")? else { return Ok(None) };
        let user = String::from_utf8_lossy(&user).into_owned();
        tx.hash_increment(&key, "requests", 1)?;
        tx.expire(&key, TTL)?;
        tx.hash_expire(format!("user:{user}"), token, TTL)?;
        Ok(Some(user))
    })
}

/// Ends all sessions of a user. Returns their number.
fn log_out_everywhere(store: &Perdura, user: &str) -> Result<usize, perdura::Error> {
    store.transact(|tx| {
        let sessions = format!("user:{user}");
        let tokens: Vec<_> = tx.hash_iter(&sessions).collect::<Result<_, _>>()?;
        for (token, _) in &tokens {
            tx.delete(session(&String::from_utf8_lossy(token)))?;
        }
        tx.delete(&sessions)?;
        Ok(tokens.len())
    })
}

/// Logs users in, forever, and reports each stored session.
fn serve_until_killed(pool: &Path) -> Result<(), Box<dyn Error>> {
    let store = open(pool)?;
    for n in 0.. {
        let (user, token) = (format!("u{}", n % 7), format!("t{n}"));
        log_in(&store, &user, &token)?;
        use_session(&store, &token)?;
        println!("{user} {token}");
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    if let Some(pool) = std::env::args().nth(1) {
        return serve_until_killed(Path::new(&pool));
    }
    let dir = tempfile::tempdir()?;
    let pool = dir.path().join("sessions.pool");
    let mut child =
        Command::new(std::env::current_exe()?).arg(&pool).stdout(Stdio::piped()).spawn()?;
    let output = BufReader::new(child.stdout.take().ok_or("the child has no output")?);
    let mut promised = Vec::new();
    for line in output.lines() {
        promised.push(line?);
        if promised.len() == 1000 {
            child.kill()?; // SIGKILL: the child gets no chance to tidy up
        }
    }
    child.wait()?;

    let store = open(&pool)?;
    for line in &promised {
        let (user, token) = line.split_once(' ').ok_or("a user and a token")?;
        assert_eq!(use_session(&store, token)?.as_deref(), Some(user), "a session was lost");
        let ttl = store.ttl(session(token))?.ok_or("a session that does not expire")?;
        assert!(ttl <= TTL);
    }
    println!("the child was killed; all sessions that it reported are there");

    let listed = store.hash_iter("user:u3").count();
    assert_eq!(log_out_everywhere(&store, "u3")?, listed);
    assert_eq!(use_session(&store, "t3")?, None);
    let mut left = 0;
    for key in store.keys().prefix("session:") {
        left += usize::from(store.hash_get(key?, "user")?.as_deref() == Some(b"u3"));
    }
    println!("sessions of u3 after logging out everywhere: {left}");

    // A session that nobody uses expires by itself.
    store.expire(session("t4"), Duration::from_millis(20))?;
    std::thread::sleep(Duration::from_millis(30));
    println!("t4 has expired: {}", use_session(&store, "t4")?.is_none());
    Ok(())
}
