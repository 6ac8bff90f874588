//! HSCAN, SSCAN: the members of one key, some at a time.
//!
//! A listpack is returned as a whole, whatever count is given; a table is scanned by the cursor of
//! its index.

use engine::call::Call;
use engine::failure::{Done, Failure};
use keyspace::{Members, Txn};

use crate::keys::scan::{cursor, parse};

/// Finds the collection that a command scans.
type Find = for<'t> fn(&Call<'_>, &'t mut Txn<'_>) -> Result<Option<Members<'t>>, Failure>;

/// Replies with the next cursor and some members, or fields each with its value.
pub(crate) fn scan(call: &mut Call<'_>, txn: &mut Txn<'_>, find: Find, values: bool) -> Done {
    let cursor = cursor(call.args[2]).ok_or("ERR invalid cursor")?;
    let (mut found, mut next) = (Vec::new(), 0);
    // If there is no key, options are not checked.
    if let Some(members) = find(call, txn)? {
        let options = parse(call, 3)?;
        next = members.scan(cursor, options.count, |field, value| {
            if options.fits(field) {
                found.push(field.to_vec());
                if values && !options.no_values {
                    found.push(value.to_vec());
                }
            }
        })?;
    }
    call.out.array(2);
    call.out.bulk(itoa::Buffer::new().format(next));
    call.out.array(found.len());
    found.iter().for_each(|item| call.out.bulk(item));
    Ok(())
}
