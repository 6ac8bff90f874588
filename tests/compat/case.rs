//! One case of the suite, as its runner prints it.

/// How a case ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    Failed,
    /// Excluded by a tag, for example because an external server cannot pass it.
    Ignored,
    /// It did not end.
    Hung,
    /// The rest of the unit was not run.
    BrokeOff,
}

/// A case of a unit.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// The suite's name for it; repeated names are counted: `name #2`.
    pub(crate) name: String,
    pub(crate) outcome: Outcome,
    /// The message of a failure.
    pub(crate) detail: String,
}

impl Case {
    pub(crate) fn passed(&self) -> bool {
        self.outcome == Outcome::Passed
    }
}

/// Parses the output of a run. Of a unit that draws its cases (`is_drawn`), those whose names
/// differ in numbers only are one case, which passes if all of them do.
pub(crate) fn parse(log: &str, is_drawn: bool) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let mut lines = log.lines();
    let mut at_work = "";
    while let Some(line) = lines.next() {
        let (outcome, rest) = if let Some(rest) = line.strip_prefix("[ok]: ") {
            (Outcome::Passed, rest.rsplit_once(" (").map_or(rest, |(name, _)| name))
        } else if let Some(rest) = line.strip_prefix("[err]: ") {
            (Outcome::Failed, rest.rsplit_once(" in tests/").map_or(rest, |(name, _)| name))
        } else if let Some(rest) = line.strip_prefix("[ignore]: ") {
            (Outcome::Ignored, rest.rsplit_once(": ").map_or(rest, |(name, _)| name))
        } else if let Some(rest) = line.strip_prefix("[exception]: ") {
            (Outcome::BrokeOff, rest)
        } else if line.starts_with("[TIMEOUT]") {
            (Outcome::Hung, at_work)
        } else {
            if let Some((_, name)) = line.split_once("(IN PROGRESS) ") {
                at_work = name;
            }
            continue;
        };
        let detail = match outcome {
            Outcome::Failed => lines.next().unwrap_or("").chars().take(300).collect(),
            Outcome::BrokeOff => rest.to_owned(),
            _ => String::new(),
        };
        let name = if outcome == Outcome::BrokeOff { "(the rest of the unit)" } else { rest };
        if is_drawn && outcome != Outcome::Hung {
            add_drawn(&mut cases, Case { name: without_numbers(name), outcome, detail });
        } else {
            cases.push(Case { name: counted(&cases, name), outcome, detail });
        }
    }
    // The list of running cases follows the line that reports a timeout.
    if let Some(hung) = cases.iter_mut().find(|case| case.outcome == Outcome::Hung) {
        hung.name = at_work.to_owned();
    }
    cases
}

/// Returns the name, with a number if it occurred before.
fn counted(cases: &[Case], name: &str) -> String {
    let is_it = |case: &&Case| case.name == name || case.name.starts_with(&format!("{name} #"));
    match cases.iter().filter(is_it).count() {
        0 => name.to_owned(),
        before => format!("{name} #{}", before + 1),
    }
}

fn add_drawn(cases: &mut Vec<Case>, case: Case) {
    match cases.iter_mut().find(|known| known.name == case.name) {
        Some(known) if known.passed() => *known = case,
        Some(_) => {}
        None => cases.push(case),
    }
}

/// Returns the name with `n` in the place of each number.
fn without_numbers(name: &str) -> String {
    let is_delimiter = |letter: char| !letter.is_ascii_alphanumeric();
    let general = |word: &str| {
        let text = word.trim_end_matches(is_delimiter);
        match !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            true => format!("n{}", &word[text.len()..]),
            false => word.to_owned(),
        }
    };
    name.split_inclusive(is_delimiter).map(general).collect()
}
