//! DEBUG POPULATE: fills a database.

use engine::call::Call;
use engine::failure::{Done, Failure};
use keyspace::{Expire, Txn};

/// The number of keys in one transaction.
const KEYS_AT_ONCE: i64 = 100;

pub(super) fn populate(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let count = positive(call, 2)?;
    let prefix = call.args.get(3).copied().unwrap_or(b"key");
    let size = if call.args.len() > 4 { Some(positive(call, 4)?) } else { None };
    let db = call.db();
    for n in 0..count {
        let mut name = prefix.to_vec();
        name.extend_from_slice(format!(":{n}").as_bytes());
        let key = txn.key(&name);
        if txn.peek(db, &key).is_none() {
            let mut value = format!("value:{n}").into_bytes();
            if let Some(size) = size {
                value.resize(size as usize, 0);
            }
            txn.strings().set(db, &key, &value, Expire::Clear)?;
        }
        if n % KEYS_AT_ONCE == KEYS_AT_ONCE - 1 {
            call.commit_part(txn)?;
        }
    }
    call.out.ok();
    Ok(())
}

fn positive(call: &Call<'_>, at: usize) -> Result<i64, Failure> {
    let number = call.int(at).ok().filter(|number| *number >= 0);
    number.ok_or_else(|| "ERR value is out of range, must be positive".into())
}
