//! Futures of one thread, polled, dropped and woken at any point: each one that could go on is
//! woken, none takes another's element, and a dropped one leaves no trace.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use perdura::prelude::*;
use perdura::{Error, Options, Perdura, WriteBatch};

use super::draw::Draw;
use super::state::{Bytes, Checked, Db, Value, in_order, same};
use super::tables;

const STEPS: usize = 400;

#[derive(Default)]
struct Counting(AtomicUsize);

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// The target of a future.
#[derive(Clone, Copy, Debug, PartialEq)]
enum For {
    Front,
    Back,
    Lowest,
    /// A string, by a transaction that takes it.
    Flag,
    /// A row, by a transaction that takes it.
    Row,
}

type Future_<'s> = Pin<Box<dyn Future<Output = Result<Bytes, Error>> + 's>>;

struct Waiter<'s> {
    what: For,
    key: Bytes,
    future: Future_<'s>,
    counting: Arc<Counting>,
    /// How often it had been woken at the last poll; none before.
    seen: Option<usize>,
}

fn start<'s>(store: &'s Perdura, what: For, key: &[u8]) -> Future_<'s> {
    let key = key.to_vec();
    match what {
        For::Front => Box::pin(store.pop_front_async(key)),
        For::Back => Box::pin(store.pop_back_async(key)),
        For::Lowest => {
            let lowest = store.sorted_set_pop_async(key);
            Box::pin(async { lowest.await.map(|(member, _)| member) })
        }
        For::Flag => Box::pin(store.transact_async(key.clone(), move |tx| {
            let flag = tx.get(&key)?;
            if flag.is_some() {
                tx.delete(&key)?;
            }
            Ok(flag)
        })),
        For::Row => Box::pin(store.transact_async(key.clone(), move |tx| {
            Ok(tables::rows(tx, &key).pop_first()?.map(|(row, _)| row.1))
        })),
    }
}

/// Returns the model's answer for such a waiter, which takes it; none if it has to wait.
fn answer(db: &mut Db, what: For, key: &[u8]) -> Option<Result<Bytes, Error>> {
    let taken = match what {
        For::Front => db.list_mut(key).map(|list| list.pop_front()),
        For::Back => db.list_mut(key).map(|list| list.pop_back()),
        For::Lowest => db.sorted_mut(key).map(|set| {
            let lowest = in_order(set).into_iter().next()?.0;
            set.remove(&lowest);
            Some(lowest)
        }),
        For::Flag => db.string(key).map(|flag| flag.cloned()).inspect(|flag| {
            if flag.is_some() {
                db.keys.remove(key);
            }
        }),
        For::Row => db.rows_mut(key).map(|rows| rows.pop_first().map(|((_, row), _)| row)),
    };
    db.pruned(key);
    taken.transpose()
}

const WAITS: [(For, &[&str]); 5] = [
    (For::Front, &["l0", "l1"]),
    (For::Back, &["l0", "l1"]),
    (For::Lowest, &["z0", "z1"]),
    (For::Flag, &["f0", "f1"]),
    (For::Row, &["t0"]),
];

const KEYS: [&str; 7] = ["l0", "l1", "z0", "z1", "f0", "f1", "t0"];

/// Adds an element that a waiter may wait for, in one of several ways. Returns the text of the
/// call.
fn put(store: &Perdura, db: &mut Db, draw: &mut Draw) -> Result<String, Error> {
    let n = draw.below(1000).to_string();
    let (list, set) = (draw.of(&["l0", "l1"]), draw.of(&["z0", "z1"]));
    let database = store.database(0)?;
    let (back, wrong) = (n.clone().into_bytes(), Err(Error::WrongType));
    Ok(match draw.below(11) {
        0 => {
            db.list_mut(list.as_bytes())?.push_back(back);
            store.push_back(list, &n).map(|_| format!("push_back({list})"))?
        }
        1 => {
            db.list_mut(list.as_bytes())?.push_front(back);
            database.push_front(list, &n).map(|_| format!("database.push_front({list})"))?
        }
        2 => {
            db.list_mut(list.as_bytes())?.push_back(back);
            let others = draw.below(3);
            store.transact(|tx| {
                (0..others).try_for_each(|n| tx.set(format!("other{n}"), "x"))?;
                tx.push_back(list, &n)
            })?;
            format!("transact, push_back({list})")
        }
        3 => {
            db.list_mut(list.as_bytes())?.push_back(back);
            store.transaction(&["other", list], |tx| tx.push_back(list, &n))?;
            format!("transaction, push_back({list})")
        }
        4 => {
            let made = database
                .try_transaction::<_, _, Error>(&[set], |tx| tx.sorted_set_add(set, &n, 2.0));
            db.sorted_mut(set.as_bytes())?.insert(back, 2.0);
            made.map(|_| format!("database.try_transaction, sorted_set_add({set})"))?
        }
        5 => {
            db.sorted_mut(set.as_bytes())?.insert(back, 1.0);
            store.sorted_set_add(set, &n, 1.0).map(|_| format!("sorted_set_add({set})"))?
        }
        6 => {
            store.push_back("source", &n)?;
            store.rename("source", list)?;
            db.put(list.as_bytes(), Value::List([back].into()), None);
            format!("rename(source, {list})")
        }
        7 => {
            db.rows_mut(b"t0")?.insert((1, back.clone()), Vec::new());
            tables::rows(store, b"t0").insert((1, &back), &[]).map(|_| "a row".into())?
        }
        8 => {
            store.set_add("numbers", &n)?;
            store.sort_into("numbers", perdura::Order::Bytes, list)?;
            store.delete("numbers")?;
            db.put(list.as_bytes(), Value::List([back].into()), None);
            format!("sort_into({list})")
        }
        9 if draw.one_in(3) => {
            // Another type: a waiter there gets an error.
            db.put(list.as_bytes(), Value::String(back), None);
            store.set(list, &n).map(|()| format!("set({list})"))?
        }
        _ => {
            let flag = draw.of(&["f0", "f1"]);
            if db.string(flag.as_bytes()).is_err() {
                return wrong;
            }
            db.put(flag.as_bytes(), Value::String(back), None);
            let mut batch = WriteBatch::new();
            batch.set(flag, n.clone());
            match draw.below(4) {
                0 => store.set(flag, &n)?,
                1 => store.set_for(flag, &n, Duration::from_secs(3600))?,
                2 => drop(store.fetch_update(flag, |_| Some(n.clone().into_bytes()))?),
                _ => store.write(&batch)?,
            }
            format!("a write of {flag}")
        }
    })
}

/// Makes a change that no waiter waits for. Returns whether it may wake one all the same.
fn other(store: &Perdura, db: &mut Db, draw: &mut Draw) -> Result<(String, bool), Error> {
    let key = draw.of(&KEYS);
    Ok(match draw.below(7) {
        0 => store.exists(key).map(|_| ("exists".into(), false))?,
        1 => store.get("nothing").map(|_| ("get".into(), false))?,
        2 => store.keys().try_for_each(|key| key.map(drop)).map(|()| ("keys".into(), false))?,
        3 => store.snapshot().map(|_| ("snapshot".into(), false))?,
        4 => {
            let undone = store
                .transact(|tx| tx.push_back("l0", "undone").and(Err::<(), _>(Error::Overflow)));
            assert!(matches!(undone, Err(Error::Overflow | Error::WrongType)), "{undone:?}");
            ("a transaction that fails".into(), true)
        }
        5 => {
            db.keys.remove(key.as_bytes());
            store.delete(key).map(|_| (format!("delete({key})"), true))?
        }
        _ => store.transact(|tx| tx.exists(key)).map(|_| ("transact, exists".into(), true))?,
    })
}

fn poll(waiter: &mut Waiter<'_>, db: &mut Db, draw: &mut Draw) -> Result<bool, String> {
    // A future may be polled by another task than before: only the last one is woken.
    let before = draw.rng.bool().then(|| std::mem::take(&mut waiter.counting));
    let waker = Waker::from(Arc::clone(&waiter.counting));
    let polled = waiter.future.as_mut().poll(&mut Context::from_waker(&waker));
    drop(waker);
    let want = answer(db, waiter.what, &waiter.key);
    let text =
        format!("a future that waits for {:?} of {}", waiter.what, waiter.key.escape_ascii());
    match (polled, want) {
        (Poll::Pending, None) => {
            waiter.seen = Some(waiter.counting.0.load(SeqCst));
            let kept = Arc::strong_count(&waiter.counting);
            same(&format!("{text}: its wakers"), kept, 2)?;
            let earlier = before.map_or(1, |counting| Arc::strong_count(&counting));
            same(&format!("{text}: its wakers of an earlier poll"), earlier, 1)?;
            Ok(false)
        }
        (Poll::Ready(got), Some(want)) => same(&text, got, want).map(|()| true),
        (polled, want) => Err(format!("{text} is {polled:?}, and not {want:?}")),
    }
}

/// Checks that no waiter that could go on is asleep.
fn check_woken(waiters: &[Waiter<'_>], db: &Db, last: &str) -> Checked {
    for waiter in waiters {
        let Some(seen) = waiter.seen else { continue };
        let can_go_on = answer(&mut db.clone(), waiter.what, &waiter.key).is_some();
        if can_go_on && waiter.counting.0.load(SeqCst) == seen {
            let (what, key) = (waiter.what, waiter.key.escape_ascii());
            return Err(format!(
                "a missed wake-up: who waits for {what:?} of {key} sleeps after {last}"
            ));
        }
    }
    Ok(())
}

fn wakes(waiters: &[Waiter<'_>]) -> usize {
    waiters.iter().map(|waiter| waiter.counting.0.load(SeqCst)).sum()
}

/// Checks that waits with a timeout of zero equal the calls that do not wait.
fn no_time(store: &Perdura, db: &mut Db, draw: &mut Draw) -> Checked {
    let (what, keys) = draw.of(&WAITS);
    let key = draw.of(keys);
    let zero = Duration::ZERO;
    let got = match what {
        For::Front => store.pop_front_wait(key, zero),
        For::Back => store.pop_back_wait(key, zero),
        For::Lowest => store.sorted_set_pop_wait(key, zero).map(|found| found.map(|found| found.0)),
        For::Row => store.transact_wait(key, zero, |tx| {
            Ok(tables::rows(tx, key.as_bytes()).pop_first()?.map(|(row, _)| row.1))
        }),
        For::Flag => return Ok(()),
    };
    same(
        &format!("a wait of no time for {what:?} of {key}"),
        got,
        answer(db, what, key.as_bytes()).transpose(),
    )
}

pub(crate) fn round(seed: u64) -> Checked {
    let options = Options::volatile().limit(32 << 20).background(false);
    let store = Perdura::open(options).map_err(|error| error.to_string())?;
    let (mut db, mut draw) = (Db::default(), Draw::new(seed, true));
    let mut waiters: Vec<Waiter<'_>> = Vec::new();
    for step in 0..STEPS {
        let before = wakes(&waiters);
        let mut last = String::new();
        match draw.below(20) {
            0..4 if waiters.len() < 12 => {
                let (what, keys) = draw.of(&WAITS);
                let key = draw.of(keys).as_bytes().to_vec();
                let future = start(&store, what, &key);
                waiters.push(Waiter { what, key, future, counting: Arc::default(), seen: None });
            }
            4..11 if !waiters.is_empty() => {
                let n = draw.below(waiters.len());
                if poll(&mut waiters[n], &mut db, &mut draw)? {
                    waiters.swap_remove(n);
                }
                last = "a poll".into();
            }
            11 | 12 if !waiters.is_empty() => {
                let Waiter { future, counting, .. } =
                    waiters.swap_remove(draw.below(waiters.len()));
                drop(future);
                same("the wakers of a future that was dropped", Arc::strong_count(&counting), 1)?;
            }
            13 => no_time(&store, &mut db, &mut draw)?,
            14 | 15 => match other(&store, &mut db, &mut draw) {
                Ok((call, may_wake)) => {
                    if !may_wake && wakes(&waiters) != before {
                        return Err(format!(
                            "{call} changed nothing and woke who waits (step {step})"
                        ));
                    }
                    last = call;
                }
                Err(error) => return Err(format!("a call failed: {error}")),
            },
            _ => match put(&store, &mut db, &mut draw) {
                Ok(call) => last = call,
                Err(Error::WrongType) => {}
                Err(error) => return Err(format!("a call failed: {error}")),
            },
        }
        check_woken(&waiters, &db, &last).map_err(|what| format!("{what} (step {step})"))?;
    }
    Ok(())
}
