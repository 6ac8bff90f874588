//! A node on real sockets: no more than is needed to speak with real servers.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cluster::machine::{Effect, Machine, Moment, Settings};
use cluster::message::{Message, PREFIX_LEN, Published, Text, length};
use cluster::topology::{NodePorts, Topology};
use cluster::{Clock, LinkId};

/// A node, and the thread in which it lives.
pub(crate) struct Bus {
    state: Arc<Mutex<State>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    pub(crate) port: u16,
}

struct State {
    machine: Machine,
    listener: TcpListener,
    streams: BTreeMap<LinkId, (TcpStream, Vec<u8>)>,
    began: Instant,
    ticked: Instant,
    random: fastrand::Rng,
    offset: u64,
    delivered: Vec<Published>,
}

impl Bus {
    pub(crate) fn start(node_timeout: u64, client_port: u16) -> Bus {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a socket");
        let port = listener.local_addr().expect("an address").port();
        let mut random = fastrand::Rng::new();
        let topology = Topology::new(0, &mut random);
        let ports = NodePorts { tcp: client_port, tls: 0, bus: port };
        let settings = Settings { node_timeout, ports, ..Settings::default() };
        let machine = Machine::new(topology, settings);
        let now = Instant::now();
        let state = State {
            machine,
            listener,
            streams: BTreeMap::new(),
            began: now,
            ticked: now,
            random,
            offset: 1,
            delivered: Vec::new(),
        };
        let state = Arc::new(Mutex::new(state));
        let is_over = Arc::new(AtomicBool::new(false));
        let (of_thread, until) = (Arc::clone(&state), Arc::clone(&is_over));
        let thread = std::thread::spawn(move || {
            while !until.load(Ordering::Relaxed) {
                of_thread.lock().expect("no panic").turn();
                std::thread::sleep(Duration::from_millis(3));
            }
        });
        Bus { state, is_over, thread: Some(thread), port }
    }

    pub(crate) fn command(
        &self,
        command: impl FnOnce(&mut Machine, &mut Moment<'_>) -> Vec<Effect>,
    ) {
        let mut state = self.state.lock().expect("no panic");
        let effects = state.step(command);
        state.perform(effects);
    }

    /// Returns what clients of this node were to be told.
    pub(crate) fn delivered(&self) -> Vec<Published> {
        self.state.lock().expect("no panic").delivered.clone()
    }

    pub(crate) fn ask<T>(&self, question: impl FnOnce(&Machine) -> T) -> T {
        question(&self.state.lock().expect("no panic").machine)
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn ip() -> Text {
    Text::parse(b"127.0.0.1").expect("an address")
}

impl State {
    fn step(
        &mut self,
        step: impl FnOnce(&mut Machine, &mut Moment<'_>) -> Vec<Effect>,
    ) -> Vec<Effect> {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis();
        let steady = self.began.elapsed().as_millis() as u64;
        let clock = Clock { steady, wall: wall as u64 };
        let (offset, random) = (self.offset, &mut self.random);
        let mut moment =
            Moment { clock, offset, data_age: 0, is_synced: true, has_data: true, random };
        step(&mut self.machine, &mut moment)
    }

    fn turn(&mut self) {
        if self.ticked.elapsed() >= Duration::from_millis(100) {
            self.ticked = Instant::now();
            let effects = self.step(Machine::tick);
            self.perform(effects);
        }
        while let Ok((stream, _)) = self.listener.accept() {
            stream.set_nonblocking(true).expect("a socket");
            let mut link = None;
            self.step(|machine, moment| {
                link = Some(machine.accepted(ip(), ip(), moment));
                Vec::new()
            });
            self.streams.insert(link.expect("accepted"), (stream, Vec::new()));
        }
        for link in self.streams.keys().copied().collect::<Vec<_>>() {
            self.read(link);
        }
    }

    fn read(&mut self, link: LinkId) {
        let mut piece = [0; 65536];
        let Some((stream, buffer)) = self.streams.get_mut(&link) else { return };
        let ended = match stream.read(&mut piece) {
            Ok(0) => true,
            Ok(count) => {
                buffer.extend_from_slice(&piece[..count]);
                false
            }
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        };
        while let Some((_, buffer)) = self.streams.get_mut(&link)
            && let Some(prefix) = buffer.first_chunk::<PREFIX_LEN>()
        {
            let total = length(prefix).expect("a length");
            if buffer.len() < total {
                break;
            }
            let bytes: Vec<u8> = buffer.drain(..total).collect();
            let message = Message::decode(&bytes).expect("a valid message");
            let effects = self.step(|machine, moment| machine.received(link, message, moment));
            self.perform(effects);
        }
        if ended && self.streams.remove(&link).is_some() {
            let effects = self.step(|machine, moment| machine.closed(link, moment));
            self.perform(effects);
        }
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Connect { link, ip, port } => {
                    let stream = TcpStream::connect((ip.as_str(), port));
                    let is_up = stream.is_ok();
                    if let Ok(stream) = stream {
                        stream.set_nonblocking(true).expect("a socket");
                        self.streams.insert(link, (stream, Vec::new()));
                    }
                    let effects = self.step(|machine, moment| match is_up {
                        true => machine.connected(link, moment),
                        false => machine.closed(link, moment),
                    });
                    self.perform(effects);
                }
                Effect::Send { link, message } => {
                    if let Some((stream, _)) = self.streams.get_mut(&link) {
                        let _ = stream.write_all(&message);
                    }
                }
                Effect::Deliver(published) => self.delivered.push(published),
                Effect::Close(link) => drop(self.streams.remove(&link)),
                _ => {}
            }
        }
    }
}
