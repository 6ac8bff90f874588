//! Draws a chart: lines over an ordered axis, with whiskers for the spread and names at the ends of
//! the lines.
//!
//! Each name is at the end of its line, so that a reader needs no legend. Names that would overlap
//! are moved apart and joined to their lines by thin lines. Colour is never the only distinction:
//! each style has a shape too.

use super::chart::{Chart, Point, Series};
use super::scale::Axis;
use super::svg::{Anchor, Canvas};
use crate::table::escape;
use std::fmt::Write;

/// The size of a picture, in user units.
const WIDTH: f64 = 800.0;
const HEIGHT: f64 = 380.0;

/// The edges of the plot in the picture; the right edge leaves space for names.
const LEFT: f64 = 66.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = HEIGHT - 48.0;

/// The height of a name.
const NAME: f64 = 16.0;

/// The width of a letter in a wide font.
const LETTER: f64 = 8.1;

/// The maximum number of letters of a name; longer names are cut.
const LONGEST: usize = 38;

/// The horizontal distance between points of neighbouring series at the same position, on an axis
/// without order.
const DODGE: f64 = 7.0;

/// Draws a chart that has something to draw.
pub(crate) fn draw(chart: &Chart) -> String {
    let x = horizontal(chart);
    let ends = |s: &Series| s.points.iter().flat_map(|p| [p.y, p.low, p.high]).collect::<Vec<_>>();
    let values: Vec<f64> = chart.series.iter().flat_map(ends).collect();
    let y = match chart.log {
        true => Axis::log(&values, (BOTTOM, TOP)),
        false => Axis::linear(&values, (BOTTOM, TOP)),
    };
    let mut canvas = Canvas::default();
    axes(&mut canvas, chart, &x, &y);
    let places: Vec<Vec<(f64, f64)>> =
        (0..chart.series.len()).map(|n| place(chart, n, &x, &y)).collect();
    // The first system is the subject of the page, so it is drawn last, on top of the others.
    for (series, places) in chart.series.iter().zip(&places).rev() {
        marks(&mut canvas, chart, series, places, &y);
    }
    names(&mut canvas, chart, &places);
    // On a narrow screen the plot takes the whole width, and a legend replaces the names.
    let plot = format!(" style=\"--plot:{:.3}\"", (right(chart) + 6.0) / WIDTH);
    wrap(&chart.id, &plot, &chart.title, &chart.description, (WIDTH, HEIGHT), &canvas.0)
}

/// Returns an SVG element with a title, a description and additional attributes.
pub(crate) fn wrap(
    id: &str,
    attributes: &str,
    title: &str,
    description: &str,
    size: (f64, f64),
    body: &str,
) -> String {
    let ((width, height), id) = (size, escape(id));
    let (title, description) = (escape(title), escape(description));
    let mut svg = format!(
        "<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         role=\"img\"{attributes} aria-labelledby=\"{id}-title {id}-text\">\n"
    );
    let _ = write!(
        svg,
        "<title id=\"{id}-title\">{title}</title>\n<desc id=\"{id}-text\">{description}</desc>\n"
    );
    svg.push_str(body);
    svg.push_str("</svg>");
    svg
}

/// Returns the right edge of the plot.
fn right(chart: &Chart) -> f64 {
    let letters = chart.series.iter().map(|series| series.label().chars().count()).max();
    WIDTH - 26.0 - letters.unwrap_or(0).clamp(16, LONGEST) as f64 * LETTER
}

/// Returns a name, cut if it is too long.
fn short(name: &str) -> String {
    match name.chars().count() {
        0..=LONGEST => name.to_owned(),
        _ => name.chars().take(LONGEST - 1).chain(['…']).collect(),
    }
}

fn horizontal(chart: &Chart) -> Axis {
    let places: Vec<f64> = chart.x.places.iter().map(|(place, _)| *place).collect();
    let low = places.iter().copied().fold(f64::INFINITY, f64::min);
    let high = places.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    // A single position is in the middle.
    let (low, high) = match (low == high, chart.x.log) {
        (true, true) => (low / 2.0, high * 2.0),
        (true, false) => (low - 1.0, high + 1.0),
        (false, _) => (low, high),
    };
    let inset = if chart.x.ordered { 18.0 } else { 40.0 };
    Axis::fixed((low, high), chart.x.log, places, (LEFT + inset, right(chart) - inset))
}

fn axes(canvas: &mut Canvas, chart: &Chart, x: &Axis, y: &Axis) {
    let right = right(chart);
    for &tick in &y.ticks {
        let Some(at) = y.at(tick) else { continue };
        canvas.line("grid", (LEFT, at), (right, at));
        canvas.text("tick", (LEFT - 8.0, at + 4.0), Anchor::End, &chart.unit.show(tick));
    }
    canvas.line("axis", (LEFT, BOTTOM), (right, BOTTOM));
    for (place, label) in &chart.x.places {
        let Some(at) = x.at(*place) else { continue };
        canvas.line("axis", (at, BOTTOM), (at, BOTTOM + 5.0));
        canvas.text("tick", (at, BOTTOM + 19.0), Anchor::Middle, label);
    }
    let scale = if chart.log { ", logarithmic" } else { "" };
    canvas.text(
        "name",
        (LEFT - 56.0, TOP - 20.0),
        Anchor::Start,
        &format!("{}{scale}", chart.y_title),
    );
    canvas.text("name", (f64::midpoint(LEFT, right), HEIGHT - 8.0), Anchor::Middle, &chart.x.title);
}

/// Returns the coordinates of the points of a series.
fn place(chart: &Chart, n: usize, x: &Axis, y: &Axis) -> Vec<(f64, f64)> {
    let shift = match chart.x.ordered {
        true => 0.0,
        false => (n as f64 - (chart.series.len() as f64 - 1.0) / 2.0) * DODGE,
    };
    let place = |point: &Point| Some((x.at(point.x)? + shift, y.at(point.y)?));
    chart.series[n].points.iter().filter_map(place).collect()
}

fn marks(canvas: &mut Canvas, chart: &Chart, series: &Series, places: &[(f64, f64)], y: &Axis) {
    let style = series.style % 10;
    if chart.x.ordered {
        canvas.path(&format!("line s{style}"), places);
    }
    for (point, at) in series.points.iter().zip(places) {
        if let (Some(low), Some(high)) = (y.at(point.low), y.at(point.high))
            && (low - high).abs() > 1.0
        {
            canvas.line(&format!("spread s{style}"), (at.0, low), (at.0, high));
        }
        let label = chart.x.places.iter().find(|(place, _)| *place == point.x);
        let says = format!(
            "{}, {}: {}",
            series.label(),
            label.map_or("", |(_, label)| label),
            chart.figure(point)
        );
        let hollow = if series.emulated { " hollow" } else { "" };
        canvas.mark(&format!("s{style} f{style}{hollow}"), series.style, *at, &says);
    }
}

/// Draws the names next to the last points, moved apart where they would overlap.
fn names(canvas: &mut Canvas, chart: &Chart, places: &[Vec<(f64, f64)>]) {
    let mut ends: Vec<(&Series, (f64, f64))> =
        chart.series.iter().zip(places).filter_map(|(s, p)| Some((s, *p.last()?))).collect();
    ends.sort_by(|a, b| a.1.1.total_cmp(&b.1.1));
    let wanted: Vec<f64> = ends.iter().map(|(_, end)| end.1).collect();
    let found = spread(&wanted, NAME, BOTTOM);
    for ((series, end), at) in ends.into_iter().zip(found) {
        let style = series.style % 10;
        let x = right(chart) + 14.0;
        canvas
            .path(&format!("lead s{style}"), &[(end.0 + 6.0, end.1), (x - 8.0, at), (x - 3.0, at)]);
        canvas.text(
            &format!("series t{style}"),
            (x, at + 4.0),
            Anchor::Start,
            &short(&series.label()),
        );
    }
}

/// Moves ascending positions down until they are at least `space` apart, then moves those below
/// `bottom` back up.
fn spread(wanted: &[f64], space: f64, bottom: f64) -> Vec<f64> {
    let mut found: Vec<f64> = wanted.to_vec();
    for n in 1..found.len() {
        found[n] = found[n].max(found[n - 1] + space);
    }
    let mut limit = bottom;
    for place in found.iter_mut().rev() {
        *place = place.min(limit);
        limit = *place - space;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::chart::Steps;
    use super::*;
    use crate::units::Unit;

    fn chart(points: &[f64]) -> Chart {
        let point = |(n, y): (usize, &f64)| {
            let (y, rounds) = (*y, Some(3));
            Point { x: n as f64, y, low: y, high: y * 1.5, rounds }
        };
        Chart {
            id: "a".into(),
            title: "A <title>".into(),
            description: "text".into(),
            x: Steps {
                title: "x".into(),
                places: (0..points.len()).map(|n| (n as f64, n.to_string())).collect(),
                log: false,
                ordered: true,
            },
            y_title: "y".into(),
            unit: Unit::Rate,
            log: true,
            series: vec![Series {
                name: "a & b".into(),
                style: 0,
                emulated: true,
                points: points.iter().enumerate().map(point).collect(),
            }],
        }
    }

    #[test]
    fn every_good_point_has_a_mark_and_no_bad_one() {
        let check = |points: &[f64], marks: usize| {
            let chart = chart(points).drawable();
            let svg = if chart.is_empty() { String::new() } else { draw(&chart) };
            assert_eq!(svg.matches("class=\"mark").count(), marks, "{points:?}");
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        };
        check(&[1.0, 2.0, 3.0], 3);
        check(&[1.0, f64::NAN, 0.0, f64::INFINITY, -3.0, 7.0], 2);
        check(&[5.0], 1);
        check(&[f64::NAN], 0);
        check(&[], 0);
    }

    #[test]
    fn a_range_without_end_is_not_drawn() {
        let mut chart = chart(&[1.0, 2.0]);
        chart.series[0].points[0].high = f64::INFINITY;
        chart.series[0].points[1].low = f64::NAN;
        let svg = draw(&chart.drawable());
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn names_are_escaped_and_report_what_is_emulated() {
        let svg = draw(&chart(&[1.0, 2.0]).drawable());
        assert!(svg.contains("a &amp; b (emulated)") && svg.contains("A &lt;title&gt;"), "{svg}");
        assert!(svg.contains("hollow"));
    }

    #[test]
    fn names_move_apart_and_stay_inside() {
        let check = |wanted: &[f64], expect: &[f64]| {
            assert_eq!(spread(wanted, 10.0, 100.0), expect);
        };
        check(&[10.0, 50.0], &[10.0, 50.0]);
        check(&[10.0, 12.0, 13.0], &[10.0, 20.0, 30.0]);
        check(&[95.0, 97.0, 99.0], &[80.0, 90.0, 100.0]);
        check(&[], &[]);
    }
}
