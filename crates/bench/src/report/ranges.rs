//! Draws ratios: a mark with a range for each, on a logarithmic axis, and a line at 1.

use super::lines::wrap;
use super::scale::Axis;
use super::svg::{Anchor, Canvas};
use crate::stats::Summary;
use crate::units::Unit;

const WIDTH: f64 = 860.0;
const LEFT: f64 = 285.0;
const RIGHT: f64 = WIDTH - 230.0;
const TOP: f64 = 34.0;
const ROW: f64 = 34.0;

/// One ratio.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) emulated: bool,
    pub(crate) ratio: Summary,
}

impl Row {
    fn can_be_drawn(&self) -> bool {
        let of = [self.ratio.median, self.ratio.lowest, self.ratio.highest];
        of.iter().all(|value| value.is_finite() && *value > 0.0)
    }
}

/// Draws ratios; `None` if none of them can be drawn.
pub(crate) fn draw(id: &str, title: &str, description: &str, rows: &[Row]) -> Option<String> {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.can_be_drawn()).collect();
    if rows.is_empty() {
        return None;
    }
    let of = |row: &&Row| [row.ratio.median, row.ratio.lowest, row.ratio.highest];
    let mut values: Vec<f64> = rows.iter().flat_map(of).collect();
    values.push(1.0);
    let x = Axis::log(&values, (LEFT, RIGHT));
    let bottom = TOP + rows.len() as f64 * ROW;
    let mut canvas = Canvas::default();
    for &tick in &x.ticks {
        let Some(at) = x.at(tick) else { continue };
        canvas.line("grid", (at, TOP), (at, bottom));
        canvas.text("tick", (at, bottom + 17.0), Anchor::Middle, &Unit::Ratio.show(tick));
    }
    if let Some(at) = x.at(1.0) {
        canvas.line("equal", (at, TOP - 6.0), (at, bottom));
        canvas.text("name", (at - 8.0, TOP - 12.0), Anchor::End, "← worse");
        canvas.text("name", (at + 8.0, TOP - 12.0), Anchor::Start, "better →");
    }
    for (n, row) in rows.iter().enumerate() {
        show(&mut canvas, row, &x, TOP + (n as f64 + 0.5) * ROW);
    }
    Some(wrap(id, "", title, description, (WIDTH, bottom + 30.0), &canvas.0))
}

fn show(canvas: &mut Canvas, row: &Row, x: &Axis, y: f64) {
    // The metric is above the two systems.
    match row.name.split_once(", ") {
        Some((what, sides)) => {
            canvas.text("row", (LEFT - 20.0, y - 3.0), Anchor::End, what);
            canvas.text("note", (LEFT - 20.0, y + 11.0), Anchor::End, sides);
        }
        None => canvas.text("row", (LEFT - 20.0, y + 4.0), Anchor::End, &row.name),
    }
    canvas.text("value", (RIGHT + 22.0, y + 4.0), Anchor::Start, &written(&row.ratio));
    let (Some(low), Some(high), Some(at)) =
        (x.at(row.ratio.lowest), x.at(row.ratio.highest), x.at(row.ratio.median))
    else {
        return;
    };
    canvas.line("range s0", (low, y), (high, y));
    let says = format!("{}: {}", row.name, written(&row.ratio));
    let hollow = if row.emulated { " hollow" } else { "" };
    canvas.mark(&format!("s0 f0{hollow}"), 0, (at, y), &says);
}

/// Returns a ratio with its range and the number of its rounds: `2.1× (1.9× to 2.4×; 5)`.
pub(crate) fn written(ratio: &Summary) -> String {
    with_range(Unit::Ratio, ratio)
}

/// Returns a figure with its range and the number of its rounds.
pub(crate) fn with_range(unit: Unit, found: &Summary) -> String {
    let [median, lowest, highest] =
        [found.median, found.lowest, found.highest].map(|value| unit.show(value));
    match found.count {
        1 => format!("{median} (one round)"),
        count => format!("{median} ({lowest} to {highest}; {count})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(median: f64, highest: f64) -> Row {
        let ratio = Summary { median, lowest: median, highest, count: 3 };
        Row { name: "a < b".into(), emulated: false, ratio }
    }

    #[test]
    fn what_is_no_ratio_is_not_drawn() {
        let check = |rows: &[Row], marks: Option<usize>| {
            let svg = draw("r", "ratios", "text", rows);
            assert_eq!(svg.as_ref().map(|svg| svg.matches("class=\"mark").count()), marks);
            let svg = svg.unwrap_or_default();
            assert!(
                !svg.contains("NaN") && !svg.contains("inf") && !svg.contains("a < b"),
                "{svg}"
            );
        };
        check(&[row(2.0, 3.0), row(0.5, 0.6)], Some(2));
        check(&[row(2.0, 3.0), row(f64::NAN, 1.0), row(1.0, f64::INFINITY)], Some(1));
        check(&[row(0.0, 1.0)], None);
        check(&[], None);
    }

    #[test]
    fn a_ratio_is_never_written_without_its_range() {
        let of = |count| Summary { median: 2.0, lowest: 1.5, highest: 2.5, count };
        assert_eq!(written(&of(3)), "2× (1.5× to 2.5×; 3)");
        assert!(written(&of(1)).contains("one round"));
    }
}
