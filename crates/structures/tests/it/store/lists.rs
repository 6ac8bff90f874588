//! The elements of the list.

use heap::{Full, Ptr, Shard, View};
use structures::list::{self, Element, Limits, List, Retain, Side};
use structures::listpack;
use structures::reclaim::Queue;

use super::{LIST, OWNER_LIST, Plan, bytes};

pub fn change_list(shard: &mut Shard<'_>, queue: Queue, plan: &Plan) -> Result<(), Full> {
    let root = shard.root(LIST);
    let old = List::from_word(shard.word(root));
    match run_list(shard, queue, old, plan) {
        Ok(new) => {
            shard.set(root, new.word());
            Ok(())
        }
        Err(list::Error::Full(full)) => Err(full),
        Err(list::Error::Damaged(damage)) => panic!("{damage}"),
    }
}

pub fn run_list(
    shard: &mut Shard<'_>,
    queue: Queue,
    list: List,
    plan: &Plan,
) -> Result<List, list::Error> {
    let limits = Limits::new(2048, 100);
    match *plan {
        Plan::Push { side, count, len, seed } => (0..count as u64).try_fold(list, |list, n| {
            let element = bytes(seed + n, len);
            list.push(shard, side, listpack::Item::Bytes(&element), limits)
        }),
        Plan::Pop { side, count } => list.pop(shard, queue, side, count as u64, true, |_, _| {}),
        Plan::Trim { side, count } => list.trim(shard, queue, side, count as u64),
        Plan::Change { at, len, seed, insert } => {
            let element = bytes(seed, len);
            let item = listpack::Item::Bytes(&element);
            if insert {
                return list.insert(shard, at as u64, item, limits);
            }
            list.set(shard, queue, at as u64, item, limits).map(|(list, _)| list)
        }
        Plan::Thin(from) => {
            let mut number = 0;
            list.retain(shard, queue, from, limits, |_, _| {
                number += 1;
                if number % 2 == 1 { Retain::Drop } else { Retain::Keep }
            })
        }
        Plan::MoveNode(at) => Ok(list.relocate(shard, at)?.0.unwrap_or(list)),
        Plan::DropList => {
            list.release(shard, queue, OWNER_LIST)?;
            Ok(List::EMPTY)
        }
        _ => Ok(list),
    }
}

pub fn read_list(shard: &Shard<'_>, reachable: &mut Vec<Ptr>) -> Result<Vec<Vec<u8>>, String> {
    let list = List::from_word(shard.word(shard.root(LIST)));
    list.check(shard).map_err(|damage| damage.to_string())?;
    list.blocks(shard, |block| reachable.push(block));
    let mut elements = Vec::new();
    let visit = |element: Element<'_>| {
        elements.push(match element {
            Element::Item(listpack::Item::Bytes(bytes)) => bytes.to_vec(),
            Element::Item(listpack::Item::Int(int)) => int.to_string().into_bytes(),
            Element::Blob(blob) => blob.to_vec(shard).expect("sound"),
        });
        true
    };
    list.visit(shard, 0, Side::Head, true, visit).map_err(|damage| damage.to_string())?;
    Ok(elements)
}
