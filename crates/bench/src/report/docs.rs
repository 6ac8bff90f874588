//! The part of the documentation that a comparison writes: a folder `results/<date>` with
//! `comparison.md`, its pictures and the page. Private paths of the measured machine are reduced to
//! their last components.
//!
//! Measurements of different days get different folders, so that figures stay with the commit on
//! which they were measured.

use super::contents::contents;
use super::document::{self, Block};
use super::findings::findings;
use crate::results::{FileError, Results};
use std::path::Path;

/// Directories that exist on every machine: paths below them are not private.
const COMMON: [&str; 6] = ["/dev", "/mnt", "/tmp", "/usr", "/var", "/opt"];

/// Returns the results for publication: private paths are reduced to their last components.
fn public(results: &Results) -> Results {
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

/// Returns a text in which each private path is replaced by its last component.
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

/// Writes the files into the folder of the measurement's day, below the folder of the
/// documentation.
pub(crate) fn write(results: &Results, docs: &Path) -> Result<(), FileError> {
    let results = &public(results);
    let folder = docs.join("results").join(date(results));
    let of_pictures = folder.join("pictures");
    // Earlier results may have had other charts.
    if of_pictures.exists() {
        std::fs::remove_dir_all(&of_pictures).map_err(FileError::of(&of_pictures))?;
    }
    std::fs::create_dir_all(&of_pictures).map_err(FileError::of(&of_pictures))?;
    let blocks = contents(results, &findings(results));
    let mut files = vec![
        (folder.join("comparison.md"), document::markdown(&blocks)),
        (folder.join("report.html"), document::page(&blocks)),
    ];
    for block in &blocks {
        if let Block::Figure(figure) = block {
            files.push((of_pictures.join(format!("{}.svg", figure.id)), figure.alone()));
        }
    }
    for (path, text) in files {
        std::fs::write(&path, text).map_err(FileError::of(&path))?;
    }
    Ok(())
}

/// Returns the day of a measurement, the name of its folder.
fn date(results: &Results) -> &str {
    let began = results.machine.began.as_str();
    began.split_once('T').map_or("undated", |(day, _)| day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::sample;

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
        assert!(write(&results, &nowhere).is_err());
        let folder = docs.path().join("results").join(&results.machine.began[..10]);
        let pictures = folder.join("pictures");
        std::fs::create_dir_all(&pictures).expect("a folder");
        std::fs::write(pictures.join("before.svg"), "<svg/>").expect("written");
        write(&results, docs.path()).expect("written");
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
