//! SVG elements.

use crate::table::escape;
use std::fmt::Write;

/// A sequence of elements.
#[derive(Default)]
pub(crate) struct Canvas(pub(crate) String);

/// The point of a text that is placed at its coordinates.
#[derive(Clone, Copy)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// The number of shapes of marks. It is coprime to the number of colours, ten, so that seventy
/// series have different marks; the first seven differ in both colour and shape.
const SHAPES: usize = 7;

/// Returns the corners of a shape around its centre, in units of the circle's radius; `None` for
/// the circle itself.
fn corners(shape: usize) -> Option<&'static [(f64, f64)]> {
    Some(match shape % SHAPES {
        0 => return None,
        // A square, a triangle, a diamond, a triangle upside down.
        1 => &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
        2 => &[(0.0, -1.2), (1.1, 0.8), (-1.1, 0.8)],
        3 => &[(0.0, -1.25), (1.25, 0.0), (0.0, 1.25), (-1.25, 0.0)],
        4 => &[(0.0, 1.2), (1.1, -0.8), (-1.1, -0.8)],
        // Triangles to the right and to the left.
        5 => &[(1.2, 0.0), (-0.8, 1.1), (-0.8, -1.1)],
        _ => &[(-1.2, 0.0), (0.8, 1.1), (0.8, -1.1)],
    })
}

impl Canvas {
    pub(crate) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.put(format_args!(
            r#"<line class="{class}" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#
        ));
    }

    pub(crate) fn text(&mut self, class: &str, at: (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let ((x, y), text) = (at, escape(text));
        self.put(format_args!(
            r#"<text class="{class}" x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{text}</text>"#
        ));
    }

    /// Draws a line through the points; nothing if there are fewer than two.
    pub(crate) fn path(&mut self, class: &str, points: &[(f64, f64)]) {
        if points.len() < 2 {
            return;
        }
        let mut d = String::new();
        for (n, (x, y)) in points.iter().enumerate() {
            let _ = write!(d, "{}{x:.1} {y:.1}", if n == 0 { 'M' } else { 'L' });
        }
        self.put(format_args!(r#"<path class="{class}" d="{d}"/>"#));
    }

    /// Draws a mark of a shape, with a tooltip.
    pub(crate) fn mark(&mut self, class: &str, shape: usize, at: (f64, f64), says: &str) {
        const R: f64 = 4.2;
        let ((x, y), says) = (at, escape(says));
        let (open, close) = match corners(shape) {
            None => {
                let circle = r#"<circle class="mark"#;
                (format!(r#"{circle} {class}" cx="{x:.1}" cy="{y:.1}" r="{R}">"#), "circle")
            }
            Some(corners) => {
                let place = |(dx, dy): &(f64, f64)| format!("{:.1},{:.1}", x + dx * R, y + dy * R);
                let points: Vec<String> = corners.iter().map(place).collect();
                let points = points.join(" ");
                (format!(r#"<polygon class="mark {class}" points="{points}">"#), "polygon")
            }
        };
        self.put(format_args!("{open}<title>{says}</title></{close}>"));
    }

    fn put(&mut self, element: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.0, "{element}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Neither colour nor shape alone distinguishes many series; together they do.
    #[test]
    fn no_two_of_seventy_series_have_the_same_mark() {
        let mark = |style: usize| {
            let mut canvas = Canvas::default();
            canvas.mark(&format!("s{}", style % 10), style, (9.0, 9.0), "");
            canvas.0
        };
        let all: std::collections::BTreeSet<String> = (0..70).map(mark).collect();
        assert_eq!(all.len(), 70);
        let shapes: std::collections::BTreeSet<_> =
            (0..SHAPES).map(|shape| format!("{:?}", corners(shape))).collect();
        assert_eq!(shapes.len(), SHAPES);
    }

    #[test]
    fn a_line_needs_two_points() {
        let mut canvas = Canvas::default();
        canvas.path("c0", &[(1.0, 1.0)]);
        assert_eq!(canvas.0, "");
        canvas.path("c0", &[(1.0, 1.0), (2.0, 3.5)]);
        assert_eq!(canvas.0, "<path class=\"c0\" d=\"M1.0 1.0L2.0 3.5\"/>\n");
    }
}
