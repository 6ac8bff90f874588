//! Members picked at random: HRANDFIELD, SRANDMEMBER.
//!
//! A positive count asks for different members. A negative one asks for as many picks, each of any
//! member. The method depends on the share of all members that is asked for, as in Redis; each
//! member is as likely as any other.

use std::collections::HashMap;

use engine::call::Call;
use engine::failure::Failure;
use fastrand::Rng;
use keyspace::Members;

/// Members with their values.
pub(crate) type Picked = Vec<(Vec<u8>, Vec<u8>)>;

/// If more than one in this many members is asked for, it costs less to list all and draw from
/// them.
pub(crate) const SHARE: u64 = 3;
/// The maximum number of picks with repetition in a reply.
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

/// Picks this many members, with repetition if the count is negative.
pub(crate) fn pick(members: &Members<'_>, count: i64, random: &mut Rng) -> Result<Picks, Failure> {
    let wanted = count.unsigned_abs();
    if count < 0 {
        return repeat(members, wanted, random);
    }
    Ok(Picks { members: pick_different(members, wanted, random)?, draws: None })
}

/// Picks this many different members.
pub(crate) fn pick_different(
    members: &Members<'_>,
    wanted: u64,
    random: &mut Rng,
) -> Result<Picked, Failure> {
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

/// Picks with repetition. If there are more picks than members, only the members are kept, and each
/// pick is made when it is shown: a reply may hold millions.
fn repeat(members: &Members<'_>, wanted: u64, random: &mut Rng) -> Result<Picks, Failure> {
    if wanted > MOST_PICKS {
        return Err("ERR value is out of range".into());
    }
    if members.is_listpack() || wanted >= members.len() {
        return Ok(Picks { members: all(members)?, draws: Some(wanted as usize) });
    }
    let mut picked = Picked::new();
    for _ in 0..wanted {
        let Some((field, value)) = members.random(|| random.u64(..))? else { break };
        picked.push((field.as_ref().to_vec(), value.as_ref().to_vec()));
    }
    Ok(Picks { members: picked, draws: None })
}

/// The members that a reply shows.
#[derive(Default)]
pub(crate) struct Picks {
    members: Picked,
    /// The number of picks to draw from the members; `None` if the members are the picks.
    draws: Option<usize>,
}

impl Picks {
    /// Returns the number of picks.
    pub(crate) fn len(&self) -> usize {
        match self.draws {
            Some(_) if self.members.is_empty() => 0,
            Some(draws) => draws,
            None => self.members.len(),
        }
    }

    /// Shows each pick, a member with its value.
    pub(crate) fn each(&self, random: &mut Rng, mut show: impl FnMut(&[u8], &[u8])) {
        for at in 0..self.len() {
            let at = if self.draws.is_some() { random.usize(..self.members.len()) } else { at };
            let (field, value) = &self.members[at];
            show(field, value);
        }
    }
}
