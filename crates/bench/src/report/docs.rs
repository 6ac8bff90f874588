//! The part of the documentation that a comparison writes: a folder `results/<date>` with
//! `comparison.md`, its pictures and the page.
//!
//! A measurement of another day gets another folder, so that figures stay with the commit that they
//! were measured on.

use super::chart::Chart;
use super::findings::{Finding, Verdict};
use super::page::DURABLE;
use super::tables::{self, name};
use super::{device, figures, lines, page, ranges};
use crate::results::{Family, FileError, Results};
use crate::table::{Table, escape_markdown as cell};
use std::path::Path;

/// Folders that every machine has: paths below them tell nothing about anybody's.
const COMMON: [&str; 6] = ["/dev", "/mnt", "/tmp", "/usr", "/var", "/opt"];

/// Results that anybody may read: of a path on somebody's machine only the name is left.
pub(crate) fn public(results: &Results) -> Results {
    let mut results = results.clone();
    let machine = &mut results.machine;
    let places = machine.places.iter_mut().map(|place| &mut place.path);
    let commands = results.systems.iter_mut().flat_map(|system| &mut system.command);
    let studies = results.device.iter_mut().flat_map(|study| [&mut study.dir, &mut study.note]);
    let skipped =
        results.skipped.iter_mut().flat_map(|skipped| [&mut skipped.what, &mut skipped.why]);
    let versions = machine.versions.iter_mut().map(|version| &mut version.text);
    let texts = machine.command_line.iter_mut().chain(&mut results.partial);
    let texts = texts.chain(&mut results.warnings);
    for text in texts.chain(places).chain(commands).chain(studies).chain(skipped).chain(versions) {
        *text = without_paths(text);
    }
    results
}

/// Returns a text whose words are names where they were paths.
fn without_paths(text: &str) -> String {
    let name = |word: &str| {
        let (option, path) = match word.split_once("=/") {
            Some((option, _)) => (&word[..=option.len()], &word[option.len() + 1..]),
            None => ("", word),
        };
        let is_private =
            path.starts_with('/') && !COMMON.iter().any(|c| Path::new(path).starts_with(c));
        let last = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        if is_private && !last.is_empty() { format!("{option}{last}") } else { word.to_owned() }
    };
    text.split(' ').map(name).collect::<Vec<_>>().join(" ")
}

/// Writes below a folder of documentation, into the folder of the day of the measurement.
pub(crate) fn write(results: &Results, findings: &[Finding], docs: &Path) -> Result<(), FileError> {
    let results = &public(results);
    let folder = docs.join("results").join(date(results));
    let of_pictures = folder.join("pictures");
    std::fs::create_dir_all(&of_pictures).map_err(FileError::of(&of_pictures))?;
    remove_pictures(&of_pictures).map_err(FileError::of(&of_pictures))?;
    let text = format!("# Comparison of ways to persist\n\n{}", section(results, findings));
    let mut files = vec![
        (folder.join("comparison.md"), text.trim_end().to_owned() + "\n"),
        (folder.join("report.html"), page::page(results, findings)),
    ];
    let pictures = pictures(results).into_iter();
    files.extend(pictures.map(|(name, svg)| (of_pictures.join(name), svg)));
    for (path, text) in files {
        std::fs::write(&path, text).map_err(FileError::of(&path))?;
    }
    Ok(())
}

/// Returns the day of a measurement: the name of its folder.
fn date(results: &Results) -> &str {
    let began = results.machine.began.as_str();
    began.split_once('T').map_or("undated", |(day, _)| day)
}

/// Returns a document with another text between two marks; none if they are not there, or more than
/// once.
pub(crate) fn replace_between(
    document: &str,
    (begin, end): (&str, &str),
    section: &str,
) -> Option<String> {
    let (before, rest) = document.split_once(begin)?;
    let (_, after) = rest.split_once(end)?;
    let once = !before.contains(end) && !after.contains(begin) && !after.contains(end);
    once.then(|| format!("{before}{begin}\n\n{section}\n{end}{after}"))
}

/// Removes the pictures of results before these, which may have had other charts.
fn remove_pictures(folder: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "svg") {
            std::fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Pictures that stand alone, with their own looks.
fn pictures(results: &Results) -> Vec<(String, String)> {
    let rows = page::key_rows(results);
    let mut all: Vec<(String, String)> =
        ranges::draw("ratios", page::KEY_RATIOS, "Ratios with their ranges", &rows)
            .map(|svg| ("ratios.svg".to_owned(), alone(&svg)))
            .into_iter()
            .collect();
    let media = results.device.iter().enumerate().flat_map(|(n, study)| device::charts(study, n));
    for chart in figures::charts(results).into_iter().chain(media) {
        all.push((format!("{}.svg", chart.id), alone(&lines::draw(&chart))));
    }
    all
}

/// Returns an SVG file: the looks go into it, and a ground, since the page's is not known.
pub(super) fn alone(svg: &str) -> String {
    let Some((head, body)) = svg.split_once('\n') else { return svg.to_owned() };
    let ground = "<rect width=\"100%\" height=\"100%\" fill=\"var(--paper)\"/>";
    format!("{head}\n<style>\n{}</style>\n{ground}\n{body}\n", page::CHART_STYLE)
}

fn picture(chart: &Chart) -> String {
    format!("![{}](pictures/{}.svg)\n\n", cell(&chart.title).replace(['[', ']'], ""), chart.id)
}

/// Returns the text: ratios first, then pictures, then every figure against others.
fn section(results: &Results, findings: &[Finding]) -> String {
    let m = &results.machine;
    let kind = if m.virtual_machine { "virtual, " } else { "" };
    let mut text = format!(
        "Measured {} on {} ({kind}{} cores), {}, {}, commit {}, with `{}`. [report.html](report.html) has all of it.\n\n",
        m.began,
        cell(&m.cpu),
        m.cores,
        cell(&m.distribution),
        cell(&m.kernel),
        m.commit.as_deref().unwrap_or("unknown"),
        short(&m.command_line)
    );
    for (title, what) in page::notices(results) {
        text += &format!("**{}:** {}.\n\n", cell(&title), cell(&what));
    }
    if !results.runs.is_empty() {
        text += &format!(
            "Rounds of each system with each load: {}, of runs of {} s. A figure is the median of its rounds; in brackets: \
             the lowest, the highest and the number of rounds.\n\n",
            page::rounds(results, None),
            results.plan.seconds
        );
    }
    if results.systems.is_empty() {
        return text + &media(results);
    }
    if !page::key_rows(results).is_empty() {
        text += &format!("![{}](pictures/ratios.svg)\n\n", page::KEY_RATIOS);
    }
    text += &tables::key_ratios(results).markdown();
    text.push('\n');
    figures::charts(results).iter().for_each(|chart| text += &picture(chart));
    let durable = tables::durable(results);
    if !durable.is_empty() {
        text += &format!("## {DURABLE}\n\n{}\n", durable.markdown());
    }
    text += &slower(results, findings);
    text += &all_ratios(results, findings);
    text += &media(results);
    text
}

/// Returns a command line with the program's name in the place of its path.
pub(crate) fn short(words: &[String]) -> String {
    let name = words.first().and_then(|path| path.rsplit('/').next());
    let rest = words.iter().skip(1).map(String::as_str);
    cell(&name.into_iter().chain(rest).collect::<Vec<_>>().join(" "))
}

/// Returns what is compared with somebody else's server; the page has what is between Perdura's own
/// systems too.
fn with_others<'a>(
    results: &'a Results,
    findings: &'a [Finding],
) -> impl Iterator<Item = &'a Finding> {
    let is_other =
        |f: &&Finding| matches!(results.systems[f.theirs].family, Family::Redis | Family::Peer);
    findings.iter().filter(is_other)
}

/// Figures in which Perdura was slower in every round.
fn slower(results: &Results, findings: &[Finding]) -> String {
    let lost = tables::outcome(results, with_others(results, findings), Verdict::Lost);
    let table = if lost.is_empty() { "Nothing.\n".into() } else { lost.markdown() };
    format!("## Where Perdura is slower\n\n{table}\n")
}

/// Returns every ratio to others, won, lost or neither: a table for each system of ours.
fn all_ratios(results: &Results, findings: &[Finding]) -> String {
    let found: Vec<&Finding> = with_others(results, findings).collect();
    let mut text = String::new();
    for ours in 0..results.systems.len() {
        let of_it: Vec<&&Finding> = found.iter().filter(|f| f.ours == ours).collect();
        let mut others: Vec<usize> = of_it.iter().map(|f| f.theirs).collect();
        others.sort_unstable();
        others.dedup();
        if others.is_empty() {
            continue;
        }
        text += &format!(
            "## {} against others\n\nAbove 1× Perdura is better; bold: worse in every round.\n\n",
            cell(&name(results, ours))
        );
        let others_names = others.iter().map(|theirs| name(results, *theirs));
        let mut table = Table::new(["load and figure".to_owned()].into_iter().chain(others_names));
        let mut loads: Vec<&str> = Vec::new();
        for f in &of_it {
            if !loads.contains(&f.what.as_str()) {
                loads.push(&f.what);
            }
        }
        for load in loads {
            let found = |theirs: &usize| {
                let found = of_it.iter().find(|f| f.theirs == *theirs && f.what == load);
                found.map_or("–".into(), |f| match f.verdict() {
                    Verdict::Lost => format!("**{}**", f.figure()),
                    Verdict::Won | Verdict::Even => f.figure(),
                })
            };
            table.add([load.to_owned()].into_iter().chain(others.iter().map(found)).collect());
        }
        text += &(table.markdown() + "\n");
    }
    text
}

fn media(results: &Results) -> String {
    let mut text = String::new();
    for (n, study) in results.device.iter().enumerate() {
        text += &format!(
            "## The medium: {}\n\n{}, domain {}. {}.\n\n",
            cell(&study.dir),
            cell(&study.medium),
            cell(&study.domain),
            cell(study.note.trim_end_matches('.'))
        );
        device::charts(study, n).iter().for_each(|chart| text += &picture(chart));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::findings::findings;
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn only_text_between_the_marks_is_replaced() {
        let replace = |document: &str, text| replace_between(document, ("<b>", "<e>"), text);
        let check = |document: &str, expect: Option<&str>| {
            assert_eq!(replace(document, "new").as_deref(), expect, "{document}");
        };
        let expect = "mine\n<b>\n\nnew\n<e>\nmine too\n";
        check("mine\n<b>\nold\n<e>\nmine too\n", Some(expect));
        check("no marks", None);
        check("<e> <b>", None);
        check("<b><e><b><e>", None);
        let twice = replace(&replace(expect, "x").expect("marks"), "new");
        assert_eq!(twice.as_deref(), Some(expect));
    }

    #[test]
    fn paths_of_somebodys_machine_are_not_published() {
        let check = |text: &str, expect: &str| assert_eq!(without_paths(text), expect);
        check("/srv/me/target/release/perdura-bench", "perdura-bench");
        check("--dir=/srv/me/data", "--dir=data");
        check("/dev/shm", "/dev/shm");
        check("no room in /srv/me: full", "no room in me: full");
        check("perdura-server 0.1.0 (always / no)", "perdura-server 0.1.0 (always / no)");
        let mut results = sample();
        let secret = "/srv/secret/bin";
        results.machine.command_line[0] = format!("{secret}/perdura-bench");
        results.systems[0].command[0] = format!("{secret}/perdura-server");
        results.machine.places[0].path = secret.into();
        results.device[0].dir = secret.into();
        results.partial = Some(format!("{secret}: full"));
        let text = serde_json::to_string(&public(&results)).expect("JSON");
        assert!(!text.contains("secret"), "{text}");
    }

    #[test]
    fn the_folder_of_the_day_gets_text_pictures_and_page() {
        let docs = tempfile::tempdir().expect("a folder");
        let results = sample();
        let nowhere = docs.path().join("file");
        std::fs::write(&nowhere, "").expect("written");
        assert!(write(&results, &findings(&results), &nowhere).is_err());
        let folder = docs.path().join("results").join(&results.machine.began[..10]);
        let pictures = folder.join("pictures");
        std::fs::create_dir_all(&pictures).expect("a folder");
        std::fs::write(pictures.join("before.svg"), "<svg/>").expect("written");
        write(&results, &findings(&results), docs.path()).expect("written");
        assert!(!pictures.join("before.svg").exists(), "a picture of other results");
        let text = std::fs::read_to_string(folder.join("comparison.md")).expect("read");
        assert!(text.starts_with("# ") && text.contains("## Where Perdura is slower"), "{text}");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split_once(')')) {
            assert!(folder.join(link.0).exists(), "{}", link.0);
        }
        let svg = std::fs::read_to_string(pictures.join("throughput.svg")).expect("read");
        assert!(svg.contains("<style>") && svg.contains("prefers-color-scheme"));
    }
}
