//! Making this server a node of a cluster.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use ::cluster::{Clock, Machine, Topology, View};
use commands::Primary;
use tokio::runtime::Builder;

use super::bus::{Bus, Parts};
use super::error::ClusterError;
use super::file::NodeFile;
use super::node::ClusterNode;
use super::pulse::{self, Pulse};
use super::{drop_slots, roles, settings};
use crate::host::Server;
use crate::net::listen;
use crate::process::{log, machine};
use crate::shared::Shared;

/// A node whose file was read, and that does not run yet.
pub(crate) struct OpenNode {
    file: NodeFile,
    topology: Topology,
    random: fastrand::Rng,
}

/// Reads the file of the node that this server is, if the configuration says that it is one.
pub(crate) fn open(shared: &Shared) -> Result<Option<OpenNode>, ClusterError> {
    let values = shared.config.values();
    if !values.cluster_enabled {
        return Ok(None);
    }
    let keyspace = shared.engine.keyspace();
    if keyspace::Db::all().skip(1).any(|db| keyspace.count(db).0 > 0) {
        return Err(ClusterError::Databases);
    }
    let mut random = fastrand::Rng::with_seed(u64::from_le_bytes(machine::random::<8>()?));
    let clock = Clock { steady: 0, wall: shared.engine.clock().unix_ms() };
    let (file, text) = NodeFile::open(&values.cluster_config_file.to_text())?;
    let topology = match text {
        Some(text) => {
            let read = Topology::from_file(&text, clock, values.tls_cluster, &mut random);
            read.map_err(|source| ClusterError::Damaged { path: file.path().into(), source })?
        }
        None => {
            let topology = Topology::new(0, &mut random);
            tracing::info!("No cluster configuration found, I'm {}", topology.my_id());
            topology
        }
    };
    Ok(Some(OpenNode { file, topology, random }))
}

impl OpenNode {
    /// Returns the primary that this server is to follow from its start.
    pub(crate) fn primary(&self) -> Option<Primary> {
        let me = self.topology.me();
        let primary = me.primary.filter(|_| me.is_replica());
        let primary = self.topology.node(primary?)?;
        let is_known = !primary.ip.is_empty() && primary.ports.tcp != 0;
        let host = primary.ip.as_str().to_owned();
        is_known.then_some(Primary { host, port: primary.ports.tcp })
    }

    /// Runs the node, before any client is served.
    pub(crate) fn start(
        self,
        shared: &Arc<Shared>,
        server: &Arc<Server>,
    ) -> Result<(), ClusterError> {
        let OpenNode { file, topology, random } = self;
        let values = shared.config.values();
        let port = settings::bus_port(&values);
        let machine = Machine::new(topology, settings::of_machine(&values, port));
        // Others must not learn an ID that a restart does not find.
        let clock = Clock { steady: 0, wall: shared.engine.clock().unix_ms() };
        let saved = file.save(&machine.file(clock));
        saved.map_err(|source| ClusterError::Unsaved { path: file.path().into(), source })?;
        let policy = settings::policy(&values);
        let listeners = listen::open(&values.bind.to_text(), port, values.tcp_backlog)?;
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let view = View::of(&machine, policy);
        let (node, arriving) = ClusterNode::new(port);
        let node = Arc::new(node);
        let (roles, slots) = (roles::start(server)?, drop_slots::start(server)?);
        let began = Instant::now();
        let pulse = Arc::new(Pulse::default());
        let parts =
            Parts { machine, policy, file, random, roles, slots, began, pulse: Arc::clone(&pulse) };
        let bus = Bus::new(parts, shared, &node, values.cluster_link_sendbuf_limit);
        shared.engine.cluster().join(Arc::clone(&node) as Arc<dyn commands::ClusterNode>, view);
        let _ = shared.cluster.set(node);
        pulse::watch(pulse, began, shared)?;
        let shared = Arc::clone(shared);
        std::thread::Builder::new().name("cluster".into()).spawn(move || {
            let run = AssertUnwindSafe(|| runtime.block_on(bus.run(arriving, listeners)));
            if catch_unwind(run).is_err() {
                log::fatal("the node of the cluster has panicked: it cannot go on");
                shared.shutdown.fail();
            }
        })?;
        Ok(())
    }
}
