//! The data of a chart, apart from its looks: series of points with their spreads, over an ordered
//! axis.
//!
//! The picture ([`lines`](super::lines)) and the table next to it are made from the same data, so
//! they always agree.

use crate::table::{Table, escape};
use crate::units::Unit;

/// A line chart.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    /// The name of the chart's element and file: letters, digits, hyphens.
    pub(crate) id: String,
    pub(crate) title: String,
    /// The text alternative to the picture.
    pub(crate) description: String,
    pub(crate) x: Steps,
    pub(crate) y_title: String,
    pub(crate) unit: Unit,
    pub(crate) log: bool,
    pub(crate) series: Vec<Series>,
}

/// The horizontal axis.
#[derive(Clone, Debug)]
pub(crate) struct Steps {
    pub(crate) title: String,
    /// The positions on the axis, with their labels.
    pub(crate) places: Vec<(f64, String)>,
    pub(crate) log: bool,
    /// Whether the positions have an order, so that a line between two of them means something.
    pub(crate) ordered: bool,
}

/// The points of one system or method.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) name: String,
    /// The index of its colour and shape, the same in all charts.
    pub(crate) style: usize,
    /// Whether its figures come from DRAM instead of persistent memory: its markers are hollow.
    pub(crate) emulated: bool,
    pub(crate) points: Vec<Point>,
}

/// A median with its range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// The number of rounds; `None` if the range is that of slices of one measurement.
    pub(crate) rounds: Option<usize>,
}

impl Series {
    /// Returns the name, marked if the series is emulated.
    pub(crate) fn label(&self) -> String {
        label(&self.name, self.emulated)
    }
}

/// Returns a name, marked if it is emulated.
pub(crate) fn label(name: &str, emulated: bool) -> String {
    if emulated { format!("{name} (emulated)") } else { name.to_owned() }
}

impl Chart {
    /// Keeps only what can be drawn: finite points, only positive ones on a logarithmic axis, and
    /// series that still have points.
    pub(crate) fn drawable(mut self) -> Chart {
        let log = self.log;
        for series in &mut self.series {
            series.points.retain(|p| p.x.is_finite() && p.y.is_finite() && (!log || p.y > 0.0));
        }
        self.series.retain(|series| !series.points.is_empty());
        self
    }

    /// Returns true if there is nothing to draw.
    pub(crate) fn is_empty(&self) -> bool {
        self.series.is_empty()
    }

    /// Returns the figure of a point, with its range and the number of its rounds.
    pub(crate) fn figure(&self, point: &Point) -> String {
        let middle = self.unit.show(point.y);
        let range = format!("{} to {}", self.unit.show(point.low), self.unit.show(point.high));
        match point.rounds {
            Some(1) => format!("{middle} (one round)"),
            Some(rounds) => format!("{middle} ({range}; {rounds})"),
            None => format!("{middle} ({range})"),
        }
    }

    /// Returns the names and colours of the series, for a screen that is too narrow for the names
    /// in the picture.
    pub(crate) fn legend(&self) -> String {
        let entry = |series: &Series| {
            let (style, name) = (series.style % 10, escape(&series.label()));
            format!("<li><span class=\"key k{style}\"></span>{name}</li>")
        };
        let entries: String = self.series.iter().map(entry).collect();
        format!("<ul class=\"legend\">{entries}</ul>")
    }

    /// Returns the table next to the picture.
    pub(crate) fn table(&self) -> Table {
        let places = self.x.places.iter().map(|(_, label)| label);
        let mut table = Table::new([&self.x.title].into_iter().chain(places));
        for series in &self.series {
            let figure = |(place, _): &(f64, String)| {
                let point = series.points.iter().find(|point| point.x == *place);
                point.map_or("–".into(), |point| self.figure(point))
            };
            let figures = self.x.places.iter().map(figure);
            table.add([series.label()].into_iter().chain(figures).collect());
        }
        table
    }
}
