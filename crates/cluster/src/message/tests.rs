//! Messages of real servers, generated ones, and damaged ones.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::*;
use proptest::prelude::*;

/// Messages that servers sent to each other, with the types that they have.
const GOLDEN: &[(&str, &[u8])] = &[
    ("ping", include_bytes!("../../tests/golden/valkey-9.1.2-ping.bin")),
    ("meet", include_bytes!("../../tests/golden/valkey-9.1.2-meet.bin")),
    ("fail", include_bytes!("../../tests/golden/valkey-9.1.2-fail.bin")),
    ("ask", include_bytes!("../../tests/golden/valkey-9.1.2-auth-request.bin")),
    ("vote", include_bytes!("../../tests/golden/valkey-9.1.2-auth-ack.bin")),
    ("start", include_bytes!("../../tests/golden/valkey-9.1.2-mfstart.bin")),
    ("update", include_bytes!("../../tests/golden/valkey-9.1.2-update.bin")),
    ("light", include_bytes!("../../tests/golden/valkey-9.1.2-publish-light.bin")),
    ("light", include_bytes!("../../tests/golden/valkey-9.1.2-publishshard-light.bin")),
    ("ping", include_bytes!("../../tests/golden/redis-8.0.6-ping.bin")),
    ("meet", include_bytes!("../../tests/golden/redis-8.0.6-meet.bin")),
    ("publish", include_bytes!("../../tests/golden/redis-8.0.6-publish.bin")),
    ("publish", include_bytes!("../../tests/golden/redis-8.0.6-publishshard.bin")),
    ("update", include_bytes!("../../tests/golden/redis-8.0.6-update.bin")),
    ("ping", include_bytes!("../../tests/golden/redis-7.0.15-ping.bin")),
    ("meet", include_bytes!("../../tests/golden/redis-7.0.15-meet.bin")),
    ("publish", include_bytes!("../../tests/golden/redis-7.0.15-publish.bin")),
    ("publish", include_bytes!("../../tests/golden/redis-7.0.15-publishshard.bin")),
    ("ask", include_bytes!("../../tests/golden/redis-7.0.15-auth-request.bin")),
];

/// The place of a PING of Redis 8.0 in the list.
const REDIS_8_PING: usize = 9;

fn name(message: &Message) -> &'static str {
    match message {
        Message::Light(_) => "light",
        Message::LightModule => "module",
        Message::Full(_, body) => match body {
            Body::Ping(_) => "ping",
            Body::Pong(_) => "pong",
            Body::Meet(_) => "meet",
            Body::Fail(_) => "fail",
            Body::Publish(_) => "publish",
            Body::AskVote => "ask",
            Body::Vote => "vote",
            Body::Update(_) => "update",
            Body::StartFailover => "start",
            Body::Other(_) => "other",
        },
    }
}

#[test]
fn messages_of_real_servers_are_understood_to_the_last_byte() {
    for (at, (expected, bytes)) in GOLDEN.iter().enumerate() {
        let message = Message::decode(bytes).unwrap_or_else(|error| panic!("{at}: {error}"));
        assert_eq!(name(&message), *expected, "{at}");
        // Redis 8.0 sends an extension of 40 bytes for its internal use, which is skipped.
        let is_skipped = bytes.len() - message.encode().len() == 48;
        assert!(
            message.encode() == *bytes || is_skipped && at == REDIS_8_PING,
            "{at}: {message:?}"
        );
        let prefix = bytes.first_chunk().expect("a prefix");
        assert_eq!(length(prefix), Ok(bytes.len()));
    }
}

#[test]
fn a_ping_of_valkey_says_who_it_is_and_what_it_knows() {
    let Message::Full(header, Body::Ping(gossip)) = Message::decode(GOLDEN[0].1).expect("valid")
    else {
        panic!("a PING")
    };
    assert!(header.flags.has(Flags::PRIMARY.with(Flags::REPLICA)));
    assert!(header.flags.has(Flags::MYSELF) && header.has_extensions);
    assert_eq!(header.ports.bus - header.ports.client, 2000);
    assert!(!gossip.entries.is_empty());
    assert!(gossip.entries.iter().all(|entry| entry.ip.as_str() == "127.0.0.1"));
    let has = |what: fn(&Extension) -> bool| gossip.extensions.iter().any(what);
    assert!(has(|e| matches!(e, Extension::HostName(name) if name.as_str().starts_with("host-"))));
    assert!(has(|e| matches!(e, Extension::NodeName(name) if name.as_str().starts_with("name-"))));
    assert!(has(|e| matches!(e, Extension::Shard(_))));
}

#[test]
fn what_is_cut_or_goes_on_is_refused() {
    for (_, bytes) in GOLDEN {
        for end in 0..bytes.len() {
            assert!(Message::decode(&bytes[..end]).is_err(), "{end} bytes");
        }
        let mut longer = bytes.to_vec();
        longer.push(0);
        longer[4..8].copy_from_slice(&(bytes.len() as u32 + 1).to_be_bytes());
        assert!(Message::decode(&longer).is_err());
    }
}

#[test]
fn a_length_is_believed_within_limits_only() {
    let mut prefix: [u8; PREFIX_LEN] = *GOLDEN[0].1.first_chunk().expect("a prefix");
    for (total, is_valid) in [(2255, false), (2256, true), (16 << 20, true), (17 << 20, false)] {
        prefix[4..8].copy_from_slice(&u32::to_be_bytes(total));
        assert_eq!(length(&prefix).is_ok(), is_valid, "{total}");
    }
    prefix[0] = b'X';
    assert_eq!(length(&prefix), Err(DecodeError::NoMessage));
    assert!(DecodeError::NoMessage.ends_link() && !DecodeError::Cut.ends_link());
}

fn id() -> impl Strategy<Value = Id> {
    any::<u64>().prop_map(|seed| Id::random(&mut fastrand::Rng::with_seed(seed)))
}

fn text() -> impl Strategy<Value = Text> {
    "[-.:a-z0-9]{0,45}".prop_map(|text| Text::parse(text.as_bytes()).expect("a text"))
}

fn shown(address: impl std::fmt::Display) -> Text {
    Text::parse(address.to_string().as_bytes()).expect("a text")
}

fn ports() -> impl Strategy<Value = Ports> {
    any::<[u16; 3]>().prop_map(|[client, other, bus]| Ports { client, other, bus })
}

fn extension() -> impl Strategy<Value = Extension> {
    prop_oneof![
        text().prop_map(Extension::HostName),
        text().prop_map(Extension::NodeName),
        (id(), any::<u64>()).prop_map(|(node, seconds)| Extension::Forgotten { node, seconds }),
        id().prop_map(Extension::Shard),
        any::<[u8; 4]>().prop_map(|ip| Extension::ClientIpv4(shown(Ipv4Addr::from(ip)))),
        any::<u128>().prop_map(|ip| Extension::ClientIpv6(shown(Ipv6Addr::from(ip)))),
        any::<u16>().prop_map(Extension::ClientPort),
        any::<u16>().prop_map(Extension::ClientTlsPort),
        text().prop_map(Extension::Zone),
    ]
}

fn gossip() -> impl Strategy<Value = Gossip> {
    let entry = (id(), any::<[u32; 2]>(), text(), ports(), any::<u16>()).prop_map(
        |(node, [ping_sent, pong_received], ip, ports, flags)| {
            let flags = Flags::from_bits(flags);
            Entry { node, ping_sent, pong_received, ip, ports, flags }
        },
    );
    let extensions = prop::collection::vec(extension(), 0..5);
    (prop::collection::vec(entry, 0..5), extensions)
        .prop_map(|(entries, extensions)| Gossip { entries, extensions })
}

fn published() -> impl Strategy<Value = Published> {
    (any::<bool>(), any::<Vec<u8>>(), any::<Vec<u8>>())
        .prop_map(|(is_sharded, channel, message)| Published { is_sharded, channel, message })
}

fn slots() -> impl Strategy<Value = SlotSet> {
    prop::collection::vec(0..crate::slot::SLOTS, 0..50)
        .prop_map(|slots| slots.into_iter().collect())
}

fn body() -> impl Strategy<Value = Body> {
    let update = (id(), any::<u64>(), slots())
        .prop_map(|(node, config_epoch, slots)| Body::Update(Update { node, config_epoch, slots }));
    prop_oneof![
        gossip().prop_map(Body::Ping),
        gossip().prop_map(Body::Pong),
        gossip().prop_map(Body::Meet),
        id().prop_map(Body::Fail),
        published().prop_map(Body::Publish),
        Just(Body::AskVote),
        Just(Body::Vote),
        update,
        Just(Body::StartFailover),
        (11..0x8000_u16).prop_map(Body::Other),
    ]
}

fn message() -> impl Strategy<Value = Message> {
    let header = (
        (id(), text(), ports(), any::<u16>(), prop::option::of(id())),
        any::<[u64; 3]>(),
        slots(),
        any::<[bool; 3]>(),
    );
    let full = (header, body()).prop_map(|(header, body)| {
        let ((sender, ip, ports, flags, primary), numbers, slots, switches) = header;
        let [current_epoch, config_epoch, offset] = numbers;
        let [is_down, is_paused, forces_vote] = switches;
        // A message with no extensions may still say that its sender knows them; with some it must.
        let has_extensions = body.gossip().is_some_and(|gossip| !gossip.extensions.is_empty());
        let flags = Flags::from_bits(flags);
        let header = Header {
            sender,
            ip,
            ports,
            flags,
            primary,
            current_epoch,
            config_epoch,
            slots,
            offset,
            is_down,
            is_paused,
            forces_vote,
            has_extensions,
        };
        Message::full(header, body)
    });
    prop_oneof![9 => full, 1 => published().prop_map(Message::Light)]
}

proptest! {
    #[test]
    fn a_message_is_read_as_it_was_written(message in message()) {
        prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
    }

    #[test]
    fn damaged_messages_are_refused_or_understood(
        message in message(),
        damage in prop::collection::vec((any::<u16>(), any::<u8>()), 1..20),
    ) {
        let mut bytes = message.encode();
        for (at, byte) in damage {
            let at = usize::from(at) % bytes.len();
            bytes[at] = byte;
        }
        // What is understood can be written again.
        if let Ok(message) = Message::decode(&bytes) {
            message.encode();
        }
    }

    #[test]
    fn damaged_messages_of_real_servers_are_refused_or_understood(
        which in 0..GOLDEN.len(),
        damage in prop::collection::vec((any::<u16>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = GOLDEN[which].1.to_vec();
        for (at, byte) in damage {
            let at = usize::from(at) % bytes.len();
            bytes[at] = byte;
        }
        let _ = Message::decode(&bytes);
    }

    #[test]
    fn bytes_that_are_no_message_are_refused(bytes in any::<Vec<u8>>()) {
        prop_assert!(Message::decode(&bytes).is_err());
    }
}
