//! The choice of systems and workloads by their names on the command line.

/// Keeps the items that a name in `wanted` selects: the item with this id, and those whose ids
/// continue it after `-` or `@`. Fails if a name selects none; `kind` is then part of the text.
pub(super) fn choose<T>(
    items: &mut Vec<T>,
    wanted: &[String],
    kind: &str,
    id: impl Fn(&T) -> &str,
) -> Result<(), String> {
    let fits = |wanted: &str, id: &str| {
        id == wanted || id.strip_prefix(wanted).is_some_and(|rest| rest.starts_with(['-', '@']))
    };
    for name in wanted {
        if !items.iter().any(|item| fits(name, id(item))) {
            let all: Vec<_> = items.iter().map(id).collect();
            return Err(format!("no {kind} {name}; there are: {}", all.join(", ")));
        }
    }
    items.retain(|item| wanted.iter().any(|name| fits(name, id(item))));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_selects_its_item_and_those_that_continue_it() {
        let check = |wanted: &[&str], expect: Result<&[&str], &str>| {
            let mut items = vec!["aof-no", "aof-no@second", "aof-not", "pmem"];
            let wanted: Vec<String> = wanted.iter().map(|name| (*name).to_owned()).collect();
            let chosen = choose(&mut items, &wanted, "system", |item| item);
            assert_eq!(chosen.as_ref().map(|()| &items[..]).map_err(String::as_str), expect);
        };
        check(&["aof-no"], Ok(&["aof-no", "aof-no@second"]));
        check(&["pmem", "aof-no@second"], Ok(&["aof-no@second", "pmem"]));
        check(&["aof"], Ok(&["aof-no", "aof-no@second", "aof-not"]));
        check(&[], Ok(&[]));
        let unknown = "no system pm; there are: aof-no, aof-no@second, aof-not, pmem";
        check(&["pmem", "pm"], Err(unknown));
    }
}
