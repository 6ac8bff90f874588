//! The parts of the documentation that a comparison writes: a section of `docs/benchmarks.md`, pictures, the page.
//!
//! Only what stands between the two marks is replaced; the rest of the document is somebody's writing.

use super::chart::Chart;
use super::findings::{Finding, Verdict};
use super::ranges::{self, written};
use super::tables::name;
use super::{ReportError, device, figures, lines, page};
use crate::results::Results;
use std::path::Path;

pub(crate) const BEGIN: &str = "<!-- perdura-bench report: begin -->";
pub(crate) const END: &str = "<!-- perdura-bench report: end -->";

/// Writes into a folder of documentation.
pub(crate) fn write(
    results: &Results,
    findings: &[Finding],
    html: &str,
    docs: &Path,
) -> Result<(), ReportError> {
    let path = docs.join("benchmarks.md");
    let failed = |path: &Path, cause| ReportError::Io { path: path.to_owned(), cause };
    let text = std::fs::read_to_string(&path).map_err(|cause| failed(&path, cause))?;
    let section = section(results, findings);
    let text =
        replace(&text, &section).ok_or_else(|| ReportError::NoMarks { path: path.clone() })?;
    let folder = docs.join("pictures");
    std::fs::create_dir_all(&folder).map_err(|cause| failed(&folder, cause))?;
    let mut files = vec![(path, text), (docs.join("report.html"), html.to_owned())];
    files.extend(pictures(results).into_iter().map(|(name, svg)| (folder.join(name), svg)));
    for (path, text) in files {
        std::fs::write(&path, text).map_err(|cause| failed(&path, cause))?;
    }
    Ok(())
}

/// A document with another text between the marks; none if they are not there, or more than once.
fn replace(document: &str, section: &str) -> Option<String> {
    let (before, rest) = document.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    let once = !before.contains(END) && !after.contains(BEGIN) && !after.contains(END);
    once.then(|| format!("{before}{BEGIN}\n\n{section}\n{END}{after}"))
}

/// Pictures that stand alone, with their own looks.
fn pictures(results: &Results) -> Vec<(String, String)> {
    let rows = page::paper_rows(results);
    let title = "The paper’s ratios and ours";
    let mut all: Vec<(String, String)> =
        ranges::draw("paper", title, "Ratios with their ranges", &rows)
            .map(|svg| ("paper.svg".to_owned(), alone(&svg)))
            .into_iter()
            .collect();
    let media = results.device.iter().enumerate().flat_map(|(n, study)| device::charts(study, n));
    for chart in figures::charts(results).into_iter().chain(media) {
        all.push((format!("{}.svg", chart.id), alone(&lines::draw(&chart))));
    }
    all
}

/// An SVG file: the looks go into it, and a ground, since the page's is not known.
fn alone(svg: &str) -> String {
    let Some((head, body)) = svg.split_once('\n') else { return svg.to_owned() };
    let ground = "<rect width=\"100%\" height=\"100%\" fill=\"var(--paper)\"/>";
    format!("{head}\n<style>\n{}</style>\n{ground}\n{body}\n", page::CHART_STYLE)
}

/// A cell of a table in Markdown.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ").replace('<', "&lt;")
}

fn row(cells: &[String]) -> String {
    let cells: Vec<String> = cells.iter().map(|text| cell(text)).collect();
    format!("| {} |\n", cells.join(" | "))
}

fn picture(chart: &Chart) -> String {
    format!("![{}](pictures/{}.svg)\n\n", cell(&chart.title).replace(['[', ']'], ""), chart.id)
}

/// The section: ratios first, then pictures, then what was lost and won.
fn section(results: &Results, findings: &[Finding]) -> String {
    let m = &results.machine;
    let kind = if m.virtual_machine { "virtual, " } else { "" };
    let mut text = format!(
        "Measured {} on {} ({kind}{} cores), {}, {}, commit {}, with `{}`. [report.html](report.html) is the whole of it.\n\n",
        m.began,
        cell(&m.cpu),
        m.cores,
        cell(&m.distribution),
        cell(&m.kernel),
        m.commit.as_deref().unwrap_or("unknown"),
        short(&m.command_line)
    );
    if let Some(why) = &results.partial {
        text += &format!("**Partial:** the measurement ended early: {}.\n\n", cell(why));
    }
    for system in results.systems.iter().filter(|system| system.emulated.is_some()) {
        let what = system.emulated.as_deref().unwrap_or_default();
        text += &format!("**Emulated:** {}: {}.\n\n", cell(&system.title), cell(what));
    }
    if results.systems.is_empty() {
        return text + &media(results);
    }
    if !page::paper_rows(results).is_empty() {
        text += "![The paper’s ratios and ours](pictures/paper.svg)\n\n";
    }
    text += "| ratio | the paper | here (lowest to highest) |\n|---|---|---|\n";
    for found in results.paper() {
        let here = found.found.map_or("not measured".into(), |ratio| written(&ratio));
        text += &row(&[found.what, found.paper, here]);
    }
    text.push('\n');
    figures::charts(results).iter().for_each(|chart| text += &picture(chart));
    text += &outcome(results, findings, Verdict::Lost, "What was lost");
    text += &outcome(results, findings, Verdict::Won, "What was won");
    text += &media(results);
    text
}

/// A command line with the program's name in the place of its path.
fn short(words: &[String]) -> String {
    let name = words.first().and_then(|path| path.rsplit('/').next());
    let rest = words.iter().skip(1).map(String::as_str);
    cell(&name.into_iter().chain(rest).collect::<Vec<_>>().join(" "))
}

fn outcome(results: &Results, findings: &[Finding], verdict: Verdict, title: &str) -> String {
    let mut text = format!("### {title}\n\n");
    let found: Vec<&Finding> = findings.iter().filter(|f| f.verdict() == verdict).collect();
    if found.is_empty() {
        return text + "Nothing.\n\n";
    }
    text += "| load and figure | Perdura | against | ratio, better above 1× |\n|---|---|---|---|\n";
    for f in found {
        let note = if f.saturated { ", generator saturated" } else { "" };
        let ratio = format!("{}{note}", written(&f.ratio));
        text += &row(&[f.what.clone(), name(results, f.ours), name(results, f.theirs), ratio]);
    }
    text + "\n"
}

fn media(results: &Results) -> String {
    let mut text = String::new();
    for (n, study) in results.device.iter().enumerate() {
        text += &format!(
            "### The medium: {}\n\n{}, domain {}. {}.\n\n",
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
    fn only_what_stands_between_the_marks_is_replaced() {
        let check = |document: &str, expect: Option<&str>| {
            assert_eq!(replace(document, "new").as_deref(), expect, "{document}");
        };
        let expect = format!("mine\n{BEGIN}\n\nnew\n{END}\nmine too\n");
        check(&format!("mine\n{BEGIN}\nold\n{END}\nmine too\n"), Some(&expect));
        check("no marks", None);
        check(&format!("{END} {BEGIN}"), None);
        check(&format!("{BEGIN}{END}{BEGIN}{END}"), None);
        let twice = replace(&replace(&expect, "x").expect("marks"), "new");
        assert_eq!(twice.as_deref(), Some(expect.as_str()));
    }

    #[test]
    fn names_do_not_break_a_table() {
        assert_eq!(row(&["a|b".into(), "c\nd".into(), "<i>".into()]), "| a\\|b | c d | &lt;i> |\n");
    }

    #[test]
    fn a_folder_gets_section_pictures_and_page() {
        let docs = tempfile::tempdir().expect("a folder");
        let results = sample();
        let refused = write(&results, &findings(&results), "page", docs.path());
        assert!(matches!(refused, Err(ReportError::Io { .. })));
        let path = docs.path().join("benchmarks.md");
        std::fs::write(&path, format!("# Mine\n{BEGIN}\n{END}\n")).expect("written");
        write(&results, &findings(&results), "page", docs.path()).expect("written");
        let text = std::fs::read_to_string(&path).expect("read");
        assert!(text.starts_with("# Mine\n") && text.contains("### What was lost"), "{text}");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split_once(')')) {
            assert!(docs.path().join(link.0).exists(), "{}", link.0);
        }
        let svg =
            std::fs::read_to_string(docs.path().join("pictures/throughput.svg")).expect("read");
        assert!(svg.contains("<style>") && svg.contains("prefers-color-scheme"));
    }
}
