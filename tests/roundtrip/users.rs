//! Users with odd names, passwords and patterns, through ACL SAVE, ACL LOAD, CONFIG REWRITE and a
//! start.
//!
//! redis-server gets the same rules, and its ACL LIST must be the same.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use fastrand::Rng;
use testkit::{Client, Medium, free_port};

use crate::configuration::{WithFile, first_file};

const USERS: usize = 24;
const PASSWORD: &[u8] = b"pass \"word\" \\ \x01";
const RULES: &[&[u8]] = &[
    b"on",
    b"off",
    b">secret",
    b">with \"quotes\" and spaces",
    b">\xff\x01",
    b"<secret",
    b"nopass",
    b"resetpass",
    b"~*",
    b"~key:*",
    b"~with\"quote",
    b"~back\\slash",
    b"~'single'",
    b"%R~read:*",
    b"%W~write[a-z]?",
    b"%RW~both",
    b"~\xfe\xff",
    b"resetkeys",
    b"allkeys",
    b"&*",
    b"&news.*",
    b"&a\"b",
    b"resetchannels",
    b"allchannels",
    b"+@all",
    b"-@all",
    b"+get",
    b"-set",
    b"+@read",
    b"-@dangerous",
    b"+config|get",
    b"-config|set",
    b"+acl|whoami",
    b"+select|0",
    b"+@string",
    b"sanitize-payload",
    b"skip-sanitize-payload",
    b"(+get ~sel:*)",
    b"(-@all +@write %W~w* &c)",
    b"clearselectors",
    b"reset",
];

fn name(n: usize) -> Vec<u8> {
    match n % 5 {
        0 => format!("user{n}").into_bytes(),
        1 => format!("\"quoted{n}\"").into_bytes(),
        2 => format!("back\\slash{n}").into_bytes(),
        3 => [b"\xff\x01".as_slice(), n.to_string().as_bytes()].concat(),
        _ => format!("it's#{n}").into_bytes(),
    }
}

/// Returns the lines of ACL LIST, sorted.
fn list(client: &mut Client) -> BTreeSet<Vec<u8>> {
    client.run("ACL LIST").items().iter().filter_map(|user| Some(user.bytes()?.to_vec())).collect()
}

fn same(what: &str, expected: &BTreeSet<Vec<u8>>, found: &BTreeSet<Vec<u8>>) -> Result<(), String> {
    let shown = |one: Option<&Vec<u8>>| {
        one.map_or("nothing".into(), |user| user.escape_ascii().to_string())
    };
    match expected == found {
        true => Ok(()),
        false => Err(format!(
            "{what}: \"{}\" came as \"{}\"",
            shown(expected.difference(found).next()),
            shown(found.difference(expected).next())
        )),
    }
}

/// Makes users, here and there; the replies must be the same.
fn make(ours: &mut Client, theirs: &mut Client, random: &mut Rng) -> Result<(), String> {
    for n in 0..USERS {
        let mut request = vec![b"ACL".to_vec(), b"SETUSER".to_vec(), name(n)];
        request.extend((0..random.usize(..9)).map(|_| RULES[random.usize(..RULES.len())].to_vec()));
        let (here, there) = (ours.call(&request), theirs.call(&request));
        if here != there {
            return Err(format!(
                "{}: here {here}, there {there}",
                request.join(&b' ').escape_ascii()
            ));
        }
    }
    // There, single commands are in the order of a hash table with a random seed.
    let sorted = |users: BTreeSet<Vec<u8>>| -> BTreeSet<Vec<u8>> {
        let words = |user: Vec<u8>| {
            let mut words: Vec<_> = user.split(|byte| *byte == b' ').collect();
            words.sort_unstable();
            words.join(&b' ')
        };
        users.into_iter().map(words).collect()
    };
    same("users here, as redis-server lists them", &sorted(list(theirs)), &sorted(list(ours)))
}

/// Users in a file of their own, and users in the configuration.
pub(crate) fn round(random: &mut Rng) -> Result<(), String> {
    let folder = Medium::Disk.scratch();
    let users = folder.path().join("users.acl");
    let program = testkit::perdura_server();
    let redis = Path::new("redis-server");
    for (kind, save) in [("file", "ACL SAVE"), ("lines", "CONFIG REWRITE")] {
        let ports = [free_port(), free_port()];
        let mut more = "backend aof\nother-stores ignore\n".to_owned();
        if kind == "file" {
            fs::write(&users, "").map_err(|error| error.to_string())?;
            more.push_str(&format!("aclfile {}\n", users.display()));
        }
        let file = first_file(&folder, kind, ports[0], &more);
        let mut ours = WithFile::start(program, &file, ports[0], b"")?;
        let file = first_file(&folder, "peer", ports[1], "");
        let mut theirs = WithFile::start(redis, &file, ports[1], b"")?;
        make(&mut ours.client, &mut theirs.client, random)?;
        // The default user's password is one of the directives, too.
        let reply = ours.client.call(&[b"CONFIG".as_slice(), b"SET", b"requirepass", PASSWORD]);
        if !reply.is_ok() {
            return Err(format!("CONFIG SET requirepass: {reply}"));
        }
        let before = list(&mut ours.client);
        ours.client.check(save, "OK");
        if kind == "file" {
            ours.client.check("ACL LOAD", "OK");
            let mut again = Client::connect(([127, 0, 0, 1], ports[0]).into())
                .map_err(|error| error.to_string())?;
            again.call(&[b"AUTH".as_slice(), PASSWORD]);
            same("ACL SAVE and ACL LOAD", &before, &list(&mut again))?;
        }
        let mut ours = ours.again(program, PASSWORD)?;
        same(&format!("{save} and a start"), &before, &list(&mut ours.client))?;
    }
    Ok(())
}
