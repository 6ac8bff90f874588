//! Members picked by chance: HRANDFIELD, SRANDMEMBER.
//!
//! A positive count asks for different members, a negative one for as many picks as it says, each
//! of any member. Which way is taken depends on how many of all are asked for, as in Redis; each
//! member is as likely as any other.

use std::collections::HashMap;

use fastrand::Rng;
use keyspace::Members;

use crate::call::Call;
use crate::failure::Failure;

/// Members with their values.
pub(crate) type Picked = Vec<(Vec<u8>, Vec<u8>)>;

/// From this share of all members on, it costs less to list all and draw among them.
pub(crate) const SHARE: u64 = 3;
/// The most picks with repetition that a reply may hold.
pub(crate) const MOST_PICKS: u64 = 1 << 26;

/// Returns the count of a request, in Redis's range.
pub(crate) fn count(call: &Call<'_>, at: usize) -> Result<i64, Failure> {
    let count = call.int(at)?;
    if count < -i64::MAX {
        let (min, max) = (-i64::MAX, i64::MAX);
        let text = format!("ERR value is out of range, value must between {min} and {max}");
        return Err(Failure::text(text));
    }
    Ok(count)
}

/// Picks this many.
pub(crate) fn pick(members: &Members<'_>, count: i64, random: &mut Rng) -> Result<Picked, Failure> {
    let wanted = count.unsigned_abs();
    if count < 0 {
        return repeat(members, wanted, random);
    }
    if wanted >= members.len() {
        return all(members);
    }
    if members.is_listpack() || wanted.saturating_mul(SHARE) > members.len() {
        let mut all = all(members)?;
        let wanted = (wanted as usize).min(all.len());
        for at in 0..wanted {
            let other = random.usize(at..all.len());
            all.swap(at, other);
        }
        all.truncate(wanted);
        return Ok(all);
    }
    let mut picked = HashMap::new();
    while (picked.len() as u64) < wanted {
        let Some((field, value)) = members.random(|| random.u64(..))? else { break };
        picked.insert(field.as_ref().to_vec(), value.as_ref().to_vec());
    }
    Ok(picked.into_iter().collect())
}

fn all(members: &Members<'_>) -> Result<Picked, Failure> {
    let mut all = Picked::new();
    members.visit(|field, value| all.push((field.to_vec(), value.to_vec())))?;
    Ok(all)
}

fn repeat(members: &Members<'_>, wanted: u64, random: &mut Rng) -> Result<Picked, Failure> {
    if wanted > MOST_PICKS {
        return Err("ERR value is out of range".into());
    }
    if members.is_listpack() {
        let all = all(members)?;
        return Ok((0..wanted).filter_map(|_| random.choice(&all).cloned()).collect());
    }
    let mut picked = Picked::new();
    for _ in 0..wanted {
        let Some((field, value)) = members.random(|| random.u64(..))? else { break };
        picked.push((field.as_ref().to_vec(), value.as_ref().to_vec()));
    }
    Ok(picked)
}
