//! A page in Prometheus's text format (version 0.0.4): families of samples, each with its help.
//!
//! [`Page::family`] begins a family, and its samples follow at once, as the format requires. Names
//! and label names are our own and need no escaping; label values may be anything.

use std::fmt::{Display, Write};

/// The page that is being written.
#[derive(Default)]
pub(super) struct Page {
    text: String,
}

/// The type of a family.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// It only grows, except after a restart or CONFIG RESETSTAT.
    Counter,
    /// Its current value.
    Gauge,
    /// Counts by upper bound, the total count, and the sum.
    Histogram,
}

impl Page {
    /// Returns the page.
    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// Begins a family.
    pub(super) fn family(&mut self, name: &str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    /// Writes a sample of the family that was begun last.
    pub(super) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.text.push_str(name);
        for (at, (label, text)) in labels.iter().enumerate() {
            self.text.push(if at == 0 { '{' } else { ',' });
            let _ = write!(self.text, "{label}=\"");
            self.escaped(text);
            self.text.push('"');
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }

    fn escaped(&mut self, text: &str) {
        for c in text.chars() {
            match c {
                '\\' => self.text.push_str("\\\\"),
                '"' => self.text.push_str("\\\""),
                '\n' => self.text.push_str("\\n"),
                c => self.text.push(c),
            }
        }
    }

    /// Writes a family of one sample that only grows.
    pub(super) fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, Kind::Counter, help);
        self.sample(name, &[], value);
    }

    /// Writes a family of one sample.
    pub(super) fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, Kind::Gauge, help);
        self.sample(name, &[], value);
    }

    /// Writes a family of one sample that is 1 or 0.
    pub(super) fn flag(&mut self, name: &str, help: &str, value: bool) {
        self.gauge(name, help, u8::from(value));
    }
}

/// Returns microseconds as seconds.
pub(super) fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_written_as_the_format_wants() {
        let mut page = Page::default();
        page.counter("a_total", "All of it.", 3);
        page.family("b_seconds", Kind::Gauge, "Time.");
        page.sample("b_seconds", &[("x", "1"), ("y", "a\"b\\c\nd")], seconds(1_500));
        let expect = "# HELP a_total All of it.\n# TYPE a_total counter\na_total 3\n\
                      # HELP b_seconds Time.\n# TYPE b_seconds gauge\n\
                      b_seconds{x=\"1\",y=\"a\\\"b\\\\c\\nd\"} 0.0015\n";
        assert_eq!(page.into_text(), expect);
    }
}
