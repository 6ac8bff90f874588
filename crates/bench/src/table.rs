//! Tables, built once and shown as Markdown, also on a terminal, or as HTML.
//!
//! Cells are plain text and are escaped here. A cell in backticks is code in both formats.

/// A header and rows with as many cells.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Returns an empty table with these columns.
    pub(crate) fn new<S: ToString>(head: impl IntoIterator<Item = S>) -> Table {
        Table { head: head.into_iter().map(|name| name.to_string()).collect(), rows: Vec::new() }
    }

    /// Adds a row; missing cells at its end are empty.
    pub(crate) fn add(&mut self, mut cells: Vec<String>) {
        cells.resize(self.head.len().max(cells.len()), String::new());
        self.rows.push(cells);
    }

    /// Returns true if the table has no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the table with aligned columns: figures are right-aligned, text is left-aligned.
    pub(crate) fn markdown(&self) -> String {
        let rows: Vec<Vec<String>> = [&self.head]
            .into_iter()
            .chain(&self.rows)
            .map(|row| row.iter().map(|cell| escape_markdown(cell)).collect())
            .collect();
        let column = |n: usize| rows.iter().map(move |row| row[n].as_str());
        let columns = 0..self.head.len();
        let width = |n| column(n).map(|cell| cell.chars().count()).max().unwrap_or(0).max(3);
        let widths: Vec<usize> = columns.clone().map(width).collect();
        let is_right = |n| n > 0 && column(n).skip(1).all(is_figure);
        let right: Vec<bool> = columns.clone().map(is_right).collect();
        let line = |cells: &[String]| {
            let padded = columns.clone().map(|n| match (right[n], widths[n]) {
                (true, width) => format!("{:>width$}", cells[n]),
                (false, width) => format!("{:<width$}", cells[n]),
            });
            format!("| {} |\n", padded.collect::<Vec<_>>().join(" | "))
        };
        let rule = columns.clone().map(|n| match right[n] {
            true => format!("{}:", "-".repeat(widths[n] - 1)),
            false => "-".repeat(widths[n]),
        });
        let rule = line(&rule.collect::<Vec<_>>());
        rows[1..].iter().fold(line(&rows[0]) + &rule, |text, row| text + &line(row))
    }

    /// Returns the table as an HTML element with these classes.
    pub(crate) fn html(&self, classes: &str) -> String {
        let head: String =
            self.head.iter().map(|cell| format!("<th scope=\"col\">{}</th>", html(cell))).collect();
        let row = |row: &Vec<String>| {
            let cells: String = row.iter().map(|cell| format!("<td>{}</td>", html(cell))).collect();
            format!("<tr>{cells}</tr>\n")
        };
        let rows: String = self.rows.iter().map(row).collect();
        format!(
            "<div class=\"scroll\"><table class=\"{classes}\"><thead><tr>{head}</tr></thead><tbody>\n{rows}</tbody></table></div>"
        )
    }
}

/// Returns true if a cell is empty or starts like a number.
fn is_figure(cell: &str) -> bool {
    let digits = cell.trim_start_matches(['-', '–', '*', '≤']);
    digits.is_empty() || digits.starts_with(|c: char| c.is_ascii_digit())
}

/// Escapes a text for Markdown, in a cell of a table or elsewhere.
pub(crate) fn escape_markdown(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ").replace('<', "&lt;")
}

/// Escapes a text for an element or a quoted attribute of HTML or SVG.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // Not allowed in XML, not even escaped.
            c if c.is_control() && !matches!(c, '\n' | '\t') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Returns the HTML of a cell. Line breaks are kept, without which the last lines of a log would
/// run together.
fn html(text: &str) -> String {
    let code = text.strip_prefix('`').and_then(|text| text.strip_suffix('`'));
    match code {
        Some(code) => format!("<code>{}</code>", escape(code)),
        None => escape(text).lines().map(str::trim).collect::<Vec<_>>().join("<br>"),
    }
}

/// Makes the cells of a row from values that can be displayed.
macro_rules! cells {
    ($($cell:expr),* $(,)?) => { vec![$($cell.to_string()),*] };
}
pub(crate) use cells;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_to_the_right() {
        let mut table = Table::new(["", "rate", "why"]);
        table.add(cells!["one", 7]);
        table.add(cells!["b", 12345, "a|<b>\nc"]);
        let expected = "|     |  rate | why         |\n| --- | ----: | ----------- |\n\
             | one |     7 |             |\n| b   | 12345 | a\\|&lt;b> c |\n";
        assert_eq!(table.markdown(), expected);
    }

    #[test]
    fn names_cannot_break_out() {
        let mut table = Table::new(["x"]);
        table.add(cells!["<script>alert('a&b')</script>\nnext"]);
        table.add(cells!["`--dir \"<a>\u{0}`"]);
        let html = table.html("left");
        for part in [
            "<td>&lt;script&gt;alert(&#39;a&amp;b&#39;)&lt;/script&gt;<br>next</td>",
            "<td><code>--dir &quot;&lt;a&gt;\u{fffd}</code></td>",
        ] {
            assert!(html.contains(part), "{part} in {html}");
        }
    }
}
