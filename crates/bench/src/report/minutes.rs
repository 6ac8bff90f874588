//! A picture of what was measured minute by minute, in a file of its own.

use super::chart::{Chart, Point, Series, Steps};
use super::docs::alone;
use super::lines;
use crate::units::Unit;

/// Labels of the horizontal axis at most.
const LABELS: usize = 12;

/// Figures of consecutive minutes, some series of them.
pub(crate) struct MinuteChart {
    /// The name of its element: letters, digits, hyphens.
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    /// `seconds` or `bytes`.
    pub(crate) unit: &'static str,
    pub(crate) series: Vec<(String, Vec<f64>)>,
}

/// Returns the picture as an SVG file; none if there is nothing to draw.
pub(crate) fn minutes_picture(figures: &MinuteChart) -> Option<String> {
    let most = figures.series.iter().map(|(_, values)| values.len()).max().unwrap_or(0);
    let step = most.div_ceil(LABELS).max(1);
    let label = |n: usize| if n.is_multiple_of(step) { n.to_string() } else { String::new() };
    let point = |(n, y): (usize, &f64)| Point {
        x: (n + 1) as f64,
        y: *y,
        low: *y,
        high: *y,
        rounds: Some(1),
    };
    let series = figures.series.iter().enumerate().map(|(style, (name, values))| Series {
        name: name.clone(),
        style,
        emulated: false,
        points: values.iter().enumerate().map(point).collect(),
    });
    let is_time = figures.unit == "seconds";
    let chart = Chart {
        id: figures.id.into(),
        title: figures.title.into(),
        description: format!("{}, for {most} minutes", figures.title),
        x: Steps {
            title: "minute".into(),
            places: (1..=most).map(|n| (n as f64, label(n))).collect(),
            log: false,
            ordered: true,
        },
        y_title: figures.unit.into(),
        unit: if is_time { Unit::Seconds } else { Unit::Bytes },
        log: is_time,
        series: series.collect(),
    };
    let chart = chart.drawable();
    (!chart.is_empty()).then(|| alone(&lines::draw(&chart)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_minute_has_a_mark_and_not_all_have_labels() {
        let check = |values: Vec<f64>, marks: usize, labels: usize| {
            let series = vec![("a".to_owned(), values)];
            let chart = MinuteChart { id: "a", title: "A", unit: "seconds", series };
            let svg = minutes_picture(&chart).unwrap_or_default();
            assert_eq!(svg.matches("class=\"mark").count(), marks);
            let labelled = (1..=60).filter(|n| svg.contains(&format!(">{n}</text>"))).count();
            assert_eq!(labelled, labels, "{svg}");
        };
        check(vec![], 0, 0);
        check(vec![0.001; 3], 3, 3);
        check(vec![0.001; 60], 60, 12);
    }
}
