//! A report as a list of blocks, independent of its format: the page and the Markdown of the
//! documentation are two renderings of the same blocks, so they always agree.
//!
//! The page is one file that needs no script, no network and no other file, and its content
//! security policy forbids them. In Markdown, pictures are files of their own, and tables that are
//! too long without folding are left out.

use super::chart::Chart;
use super::lines;
use super::ranges::{self, Row};
use crate::table::{Table, escape, escape_markdown};

/// The style of charts, on the page and in files of their own.
const CHART_STYLE: &str = include_str!("style.css");
const PAGE_STYLE: &str = include_str!("page.css");

/// The summary of the table below a chart.
const FIGURES: &str = "Figures: median (lowest to highest; number of rounds)";

/// The content security policy: the page loads nothing and runs nothing.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// A part of a report. All texts are plain text.
#[derive(Clone, Debug)]
pub(crate) enum Block {
    Heading {
        level: usize,
        text: String,
    },
    Text(String),
    /// A notice that applies to all figures.
    Notice {
        title: String,
        text: String,
    },
    Figure(Figure),
    /// A table, with its CSS classes on the page.
    Table(Table, &'static str),
    /// A table that the page folds below this summary.
    Folded(&'static str, Table),
    /// The same, but left out of Markdown because it is too long.
    OnPage(&'static str, Table),
}

/// A picture with its caption.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    pub(crate) id: String,
    title: String,
    text: String,
    svg: String,
    /// The part of the page below the picture, as HTML: the names and colours of the series, and
    /// their figures.
    below: String,
}

impl Block {
    pub(crate) fn heading(level: usize, text: &str) -> Block {
        Block::Heading { level, text: text.to_owned() }
    }

    /// Returns a table, or the text `Nothing.` if it is empty.
    pub(crate) fn table(table: Table, classes: &'static str) -> Block {
        if table.is_empty() { Block::Text("Nothing.".into()) } else { Block::Table(table, classes) }
    }

    fn html(&self) -> String {
        match self {
            Block::Heading { level, text } => format!("<h{level}>{}</h{level}>\n", escape(text)),
            Block::Text(text) => format!("<p>{}</p>\n", escape(text)),
            Block::Notice { title, text } => {
                format!("<p class=\"notice\"><b>{}:</b> {}</p>\n", escape(title), escape(text))
            }
            Block::Figure(figure) => figure.html(),
            Block::Table(table, classes) => table.html(classes),
            Block::Folded(words, table) | Block::OnPage(words, table) => folded(words, table),
        }
    }

    fn markdown(&self) -> String {
        match self {
            Block::Heading { level, text } => {
                format!("{} {}\n", "#".repeat(*level), escape_markdown(text))
            }
            Block::Text(text) => escape_markdown(text) + "\n",
            Block::Notice { title, text } => {
                format!("**{}:** {}\n", escape_markdown(title), escape_markdown(text))
            }
            Block::Figure(figure) => {
                let title = escape_markdown(&figure.title).replace(['[', ']'], "");
                format!("![{title}](pictures/{}.svg)\n", figure.id)
            }
            Block::Table(table, _) => table.markdown(),
            Block::Folded(words, table) => format!("{words}:\n\n{}", table.markdown()),
            Block::OnPage(..) => String::new(),
        }
    }
}

fn folded(words: &str, table: &Table) -> String {
    let table = if table.is_empty() { "<p>Nothing.</p>".into() } else { table.html("left") };
    format!("<details><summary>{words}</summary>{table}</details>\n")
}

impl Figure {
    /// Returns the picture of a chart that has something to draw.
    pub(crate) fn of(chart: &Chart) -> Figure {
        let hollow = chart.series.iter().any(|series| series.emulated);
        let hollow = if hollow { " Hollow marks: emulated." } else { "" };
        Figure {
            id: chart.id.clone(),
            title: chart.title.clone(),
            text: format!("{}{hollow}", chart.description),
            svg: lines::draw(chart),
            below: format!("{}\n{}", chart.legend(), folded(FIGURES, &chart.table())),
        }
    }

    /// Returns a picture of ratios; `None` if none of them can be drawn.
    pub(crate) fn of_ratios(id: &str, title: &str, text: &str, rows: &[Row]) -> Option<Figure> {
        let svg = ranges::draw(id, title, text, rows)?;
        let (id, title, text) = (id.to_owned(), title.to_owned(), text.to_owned());
        Some(Figure { id, title, text, svg, below: String::new() })
    }

    fn html(&self) -> String {
        let Figure { id, title, text, svg, below } = self;
        format!(
            "<figure id=\"{}\">\n<figcaption><b>{}</b>{}</figcaption>\n<div class=\"scroll\" tabindex=\"0\">{svg}</div>\n\
             {below}</figure>\n",
            escape(id),
            escape(title),
            escape(text)
        )
    }

    /// Returns an SVG file that contains the style, and a background because that of the page
    /// around it is unknown.
    pub(crate) fn alone(&self) -> String {
        let Some((head, body)) = self.svg.split_once('\n') else { return self.svg.clone() };
        let ground = "<rect width=\"100%\" height=\"100%\" fill=\"var(--paper)\"/>";
        format!("{head}\n<style>\n{CHART_STYLE}</style>\n{ground}\n{body}\n")
    }
}

/// Returns the whole page.
pub(crate) fn page(blocks: &[Block]) -> String {
    let body: String = blocks.iter().map(Block::html).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <title>Perdura: persistent memory against append-only files</title>\n\
         <style>\n{CHART_STYLE}{PAGE_STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )
}

/// Returns the Markdown of all blocks.
pub(crate) fn markdown(blocks: &[Block]) -> String {
    let texts = blocks.iter().map(Block::markdown).filter(|text| !text.is_empty());
    texts.collect::<Vec<_>>().join("\n")
}
