//! The report in a real browser: headless Chromium lays out the page, and a probe lists what a
//! reader would not be able to see.
//!
//! The page has no script, and its policy forbids any. So it is loaded into frames of another page,
//! one for each width, whose script examines the charts and writes its findings into the document
//! that `--dump-dom` prints. Frames with injected faults show that the probe can fail. The browser
//! is installed with `.ci/packages chromium` where that is possible; otherwise the test is skipped
//! and says so.

#![forbid(unsafe_code)]

use bench::report;
use bench::results::Results;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// The widths of a desktop and of a telephone, in CSS pixels.
const WIDTHS: [u32; 2] = [1280, 400];

/// The seconds that the browser may take, even on a slow machine.
const PATIENCE: &str = "240";

/// Examines each frame and lists the faults.
const PROBE: &str = r#"
function look(frame) {
  const page = frame.contentDocument, wrong = [], root = page.documentElement;
  if (root.scrollWidth > frame.clientWidth) wrong.push('page: ' + root.scrollWidth + ' pixels wide');
  const charts = [...page.querySelectorAll('svg.chart')];
  for (const svg of charts) {
    const name = svg.closest('figure').id, box = svg.getBoundingClientRect(), view = svg.viewBox.baseVal;
    if (!(box.width > 0 && box.height > 0)) wrong.push(name + ': no size');
    const marks = [...svg.querySelectorAll('.mark')];
    if (marks.length === 0) wrong.push(name + ': empty');
    for (const shape of svg.querySelectorAll('.mark, path, line')) {
      for (const a of shape.attributes) {
        if (/NaN|Infinity|undefined/i.test(a.value)) wrong.push(name + ': ' + a.name + ' is ' + a.value);
      }
    }
    for (const shape of [...marks, ...svg.querySelectorAll('text')]) {
      const b = shape.getBBox(), all = [b.x, b.y, b.width, b.height];
      if (!all.every(Number.isFinite) || b.width <= 0 || b.height <= 0) wrong.push(name + ': a mark or text without size');
      if (b.x < -1 || b.y < -1 || b.x + b.width > view.width + 1 || b.y + b.height > view.height + 1)
        wrong.push(name + ': outside of the picture: ' + (shape.textContent || shape.tagName));
    }
    const names = [...svg.querySelectorAll('text.series')].map(t => t.getBBox());
    names.forEach((a, n) => names.slice(n + 1).forEach(b => {
      if (a.y + a.height - 3 > b.y && b.y + b.height - 3 > a.y) wrong.push(name + ': names cover each other');
    }));
  }
  for (const figure of page.querySelectorAll('figure'))
    if (!figure.querySelector('figcaption') || !figure.querySelector('svg title')) wrong.push(figure.id + ': no words');
  const colours = new Set(charts.flatMap(svg => [...svg.querySelectorAll('.line')].map(l => getComputedStyle(l).stroke)));
  return { charts: charts.length, colours: colours.size, wrong };
}
const errors = [];
addEventListener('error', event => errors.push(String(event.message)));
addEventListener('load', () => {
  const found = {};
  for (const frame of document.querySelectorAll('iframe')) {
    try { found[frame.id] = look(frame); } catch (error) { errors.push(frame.id + ': ' + error); }
  }
  document.getElementById('found').textContent = JSON.stringify({ frames: found, errors });
});
"#;

/// Returns the name of a browser's program; the browser is installed if necessary.
fn browser() -> Option<&'static str> {
    let runs = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    let find = || ["chromium", "chromium-browser", "google-chrome"].into_iter().find(runs);
    find().or_else(|| {
        let packages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.ci/packages");
        let installed = Command::new(packages).arg("chromium").status();
        installed.is_ok_and(|status| status.success()).then(find)?
    })
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;").replace('>', "&gt;")
}

fn unescape(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

/// The findings of the probe.
struct Seen {
    frames: Value,
    /// What the browser wrote to its console.
    console: Vec<String>,
}

impl Seen {
    fn wrong(&self, name: &str) -> String {
        self.frames[name]["wrong"].to_string()
    }

    fn count(&self, name: &str, what: &str) -> u64 {
        self.frames[name][what].as_u64().unwrap_or(0)
    }
}

/// Loads pages into frames of the given names and widths, and returns the findings of the probe.
fn look_at(browser: &str, pages: &[(String, u32, &str)]) -> Seen {
    let frame = |(name, width, html): &(String, u32, &str)| {
        format!(
            "<iframe id=\"{name}\" width={width} height=900 srcdoc=\"{}\"></iframe>\n",
            escape(html)
        )
    };
    let frames: String = pages.iter().map(frame).collect();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("frames.html");
    let style = "<!doctype html><style>iframe{border:0}</style>";
    let page = format!("{style}<script>{PROBE}</script>\n{frames}<pre id=found></pre>");
    fs::write(&file, page).expect("written");
    let (dom, console) = dump(browser, &file, folder.path());
    let start = dom.rfind("<pre id=\"found\">").expect("the probe's element") + 16;
    let end = start + dom[start..].find("</pre>").expect("its end");
    let found: Value = serde_json::from_str(&unescape(&dom[start..end])).expect("the probe's JSON");
    assert_eq!(found["errors"].as_array().map(Vec::len), Some(0), "{}", found["errors"]);
    Seen { frames: found["frames"].clone(), console }
}

/// Returns the document after loading, and what the browser wrote to its console.
fn dump(browser: &str, file: &Path, folder: &Path) -> (String, Vec<String>) {
    let output = Command::new("timeout")
        .args([PATIENCE, browser, "--headless=new", "--no-sandbox", "--disable-gpu"])
        .args(["--disable-dev-shm-usage", "--hide-scrollbars", "--window-size=1400,1000"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .args(["--enable-logging=stderr", "--dump-dom", &format!("file://{}", file.display())])
        .stdin(Stdio::null())
        .output()
        .expect("the browser runs");
    let log = String::from_utf8_lossy(&output.stderr);
    assert_ne!(output.status.code(), Some(124), "the browser does not end: {log}");
    let console = log.lines().filter(|line| line.contains(":CONSOLE")).map(str::to_owned).collect();
    (String::from_utf8_lossy(&output.stdout).into_owned(), console)
}

fn page_of(results: &Results) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let page = report::write(results, folder.path()).expect("written");
    fs::read_to_string(page).expect("read")
}

fn sample() -> Results {
    Results::load(Path::new("tests/sample/results.json")).expect("the sample")
}

/// Returns results with long names, many systems, and figures that are close together or far apart.
fn hard() -> Results {
    let mut results = sample();
    for (n, copy) in results.systems.clone().into_iter().enumerate() {
        let id = format!("{}@second", copy.id);
        let runs: Vec<_> =
            results.runs.iter().filter(|run| run.system == copy.id).cloned().collect();
        results.runs.extend(runs.into_iter().map(|mut run| {
            run.system = id.clone();
            run.operations += n as u64 * 1_000_000;
            run.latency.p99999 *= 1e4;
            run
        }));
        let title = format!("{} second", copy.title);
        results.systems.push(bench::results::System { id, title, ..copy });
    }
    results
}

#[test]
fn every_chart_can_be_seen_at_every_width_and_planted_faults_are_noticed() {
    let Some(browser) = browser() else {
        println!("SKIPPED, nothing was tested: no Chromium");
        return;
    };
    let whole = page_of(&sample());
    good_pages(browser, &whole, &page_of(&hard()));
    planted_faults(browser, &whole);
}

fn good_pages(browser: &str, whole: &str, hard: &str) {
    let mut pages = Vec::new();
    for width in WIDTHS {
        pages.push((format!("whole-{width}"), width, whole));
        pages.push((format!("hard-{width}"), width, hard));
    }
    let seen = look_at(browser, &pages);
    assert!(seen.console.is_empty(), "the page complains: {:?}", seen.console);
    for (name, ..) in &pages {
        assert_eq!(seen.wrong(name), "[]", "{name}");
        assert!(seen.count(name, "charts") >= 8, "{name}: {}", seen.count(name, "charts"));
        assert!(seen.count(name, "colours") >= 5, "{name}: {}", seen.count(name, "colours"));
    }
}

fn planted_faults(browser: &str, whole: &str) {
    let at = whole.find("class=\"mark").expect("a mark");
    let figure = whole[..at].rfind("<figure").expect("a figure");
    let end = figure + whole[figure..].find("</figure>").expect("its end");
    let plant = |from: &str, to: &str| {
        let chart = whole[figure..end].replace(from, to);
        format!("{}{chart}{}", &whole[..figure], &whole[end..])
    };
    let faults = [
        ("empty", plant("class=\"mark", "class=\"none"), ": empty"),
        ("broken", plant(" cx=\"", " cx=\"NaN\" data-was=\""), "cx is NaN"),
        ("flat", plant("<svg ", "<svg style=\"display:none\" "), "no size"),
        (
            "cut",
            plant(">write throughput<", &format!(">{}<", "long ".repeat(40))),
            "outside of the picture",
        ),
        ("wide", whole.replace("<h1>", "<div style=\"width:2000px\">.</div><h1>"), "pixels wide"),
    ];
    let pages = faults.each_ref().map(|(name, page, _)| ((*name).to_owned(), 1280, page.as_str()));
    let seen = look_at(browser, &pages);
    for (name, _, expect) in &faults {
        assert!(seen.wrong(name).contains(expect), "{name}: {}", seen.wrong(name));
    }
    assert!(seen.console.iter().any(|line| line.contains("NaN")), "{:?}", seen.console);
}
