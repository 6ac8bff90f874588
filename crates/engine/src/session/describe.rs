//! The description of a client: its line in CLIENT LIST.

use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;

use crate::engine::Engine;
use crate::execute::call::Call;
use crate::line_text::in_line;
use crate::session::client::Client;

/// Redis's PROTO_REPLY_CHUNK_BYTES.
const REPLY_CHUNK: usize = 16 * 1024;

/// Returns one line of CLIENT LIST, without its end.
pub fn describe(engine: &Engine, client: &Client, now_ms: u64) -> String {
    let text = |bytes: &std::sync::Mutex<Vec<u8>>| {
        let bytes = bytes.lock().unwrap_or_else(PoisonError::into_inner);
        in_line(&bytes).into_owned()
    };
    let since = |ms: u64| now_ms.saturating_sub(ms) / 1000;
    let user = match client.is_primary.load(Relaxed) {
        true => "(superuser)".to_owned(),
        false => in_line(&client.user_name()).into_owned(),
    };
    let command = engine.table().all().get(client.last_command.load(Relaxed));
    let output = client.output.load(Relaxed) + client.push_bytes.load(Relaxed);
    let capacity = client.reply_buffer.load(Relaxed);
    // Redis has a buffer of 16 KiB, and a list of such buffers for the rest.
    let listed = output.saturating_sub(REPLY_CHUNK);
    let (query, spare) =
        (client.query_buffer.load(Relaxed), client.query_buffer_free.load(Relaxed));
    let (argv, multi) = (client.argv_mem.load(Relaxed), client.multi_mem.load(Relaxed));
    format!(
        "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db={} sub={} psub={} ssub={} \
         multi={} qbuf={query} qbuf-free={spare} argv-mem={argv} multi-mem={multi} rbs={capacity} \
         rbp={capacity} obl={} oll={} omem={listed} tot-mem={} events={} cmd={} user={} redir={} resp={} lib-name={} lib-ver={}",
        client.id,
        client.peer.addr,
        client.peer.laddr,
        client.peer.fd,
        text(&client.name),
        since(client.since_ms),
        since(client.seen_ms.load(Relaxed)),
        flags(client),
        client.db.load(Relaxed),
        client.subscriptions[0].load(Relaxed),
        client.subscriptions[1].load(Relaxed),
        client.subscriptions[2].load(Relaxed),
        client.queued.load(Relaxed),
        output.min(REPLY_CHUNK),
        listed.div_ceil(REPLY_CHUNK),
        client.memory(),
        if output > 0 { "rw" } else { "r" },
        command.map_or_else(|| "NULL".to_owned(), |c| c.full_name()),
        user,
        client.tracking.redirect().map_or(-1, |id| id as i64),
        client.protocol.load(Relaxed),
        text(&client.lib_name),
        text(&client.lib_version),
    )
}

impl Call<'_> {
    /// Records for CLIENT LIST the length of this command's words: for one that waits, or that
    /// shows its own client. The words of others change too fast to be worth a store each.
    pub fn show_arguments(&self) {
        let bytes = self.args.iter().map(|word| word.len()).sum();
        self.session.client.argv_mem.store(bytes, Relaxed);
    }
}

/// Returns the letters for the state of a client, `N` for none.
pub fn flags(client: &Client) -> String {
    let mut flags = String::new();
    let mut add = |flag, yes| {
        if yes {
            flags.push(flag);
        }
    };
    add('S', client.is_replica.load(Relaxed));
    add('M', client.is_primary.load(Relaxed));
    add('O', client.monitor.load(Relaxed));
    add('P', client.is_subscribed());
    add('x', client.queued.load(Relaxed) >= 0);
    add('b', client.blocked.load(Relaxed));
    add('t', client.tracking.is_on());
    add('R', client.tracking.is_broken());
    add('B', client.tracking.options().broadcast);
    add('A', client.killed.load(Relaxed));
    add('U', client.peer.addr.ends_with(":0"));
    add('e', client.no_evict.load(Relaxed));
    add('T', client.no_touch.load(Relaxed));
    if flags.is_empty() { "N".into() } else { flags }
}
