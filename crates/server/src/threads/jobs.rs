//! Threads for commands that take long: threads that serve connections do not execute these.
//!
//! A script may never end, so each has a thread of its own. All other commands end without waiting
//! for others: a few threads, as many as there are processors, execute them in turn, so that a
//! hundred such commands leave the other clients as much of the machine as a few do. The threads
//! are started when needed, and stay.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

use commands::{Job, Thread};
use pmem::ChargedClient;

use crate::net::meter::appended_since;
use crate::shared::Shared;
use crate::threads::contained::contained;

/// Lets threads of the server run the engine's jobs.
pub(crate) fn start(shared: &Arc<Shared>) {
    let most = std::thread::available_parallelism().map_or(2, |cores| cores.get().max(2));
    let queue = Arc::new(JobQueue { most, ..JobQueue::default() });
    let of_jobs = Arc::clone(shared);
    shared.engine.set_spawn(move |thread, job| {
        let shared = Arc::clone(&of_jobs);
        match thread {
            Thread::Own => {
                let builder = Builder::new().name("script".to_owned());
                builder.spawn(move || job(&shared.engine)).is_ok()
            }
            Thread::Shared => queue.add(&shared, job),
        }
    });
}

/// Jobs that wait for one of the threads that run them.
#[derive(Default)]
struct JobQueue {
    /// Maximum number of threads.
    most: usize,
    state: Mutex<State>,
    added: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

impl JobQueue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a job. Returns false if there is no thread and none can be started.
    fn add(self: &Arc<JobQueue>, shared: &Arc<Shared>, job: Job) -> bool {
        let mut state = self.state();
        state.jobs.push_back(job);
        if state.idle >= state.jobs.len() || state.threads == self.most {
            self.added.notify_one();
            return true;
        }
        let (queue, shared) = (Arc::clone(self), Arc::clone(shared));
        let builder = Builder::new().name(format!("commands-{}", state.threads));
        let is_started = builder.spawn(move || queue.run(&shared)).is_ok();
        state.threads += usize::from(is_started);
        if state.threads == 0 {
            state.jobs.pop_back();
        }
        state.threads > 0
    }

    fn run(&self, shared: &Shared) {
        loop {
            let mut state = self.state();
            state.idle += 1;
            let waiting = |state: &mut State| state.jobs.is_empty();
            let mut state =
                self.added.wait_while(state, waiting).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
            let job = state.jobs.pop_front();
            drop(state);
            job.into_iter().for_each(|job| {
                let before = pmem::counters();
                contained("a command", || job(&shared.engine));
                if let Some(journal) = &shared.journal {
                    // Its client has waited for the command. Others wait for its bytes.
                    let _ = journal.charge(appended_since(&before), &mut ChargedClient::default());
                }
            });
        }
    }
}
