//! From options to requests: what one connection sends, request by request.
//!
//! A [`Workload`] is made once from the options and says which classes of requests there will be,
//! each counted for itself. A [`Source`] is one connection's copy of it, with a random generator of
//! its own: it writes the next request.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand_distr::{Normal, Zipf};

use super::Error;
use super::keys::{Keys, Range};
use super::mix::Mix;
use super::options::{Options, SizePattern};
use super::outcome::Kind;
use super::source::{Many, Request, Source};
use super::template::{Piece, Template};
use super::types::{Pattern, Requests};
use super::values::{Size, Values};
use super::ycsb::{self, Action, Ycsb};

/// A class of requests, which are counted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Class {
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

/// What connections send.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) classes: Vec<Class>,
    requests: Vec<Request>,
    mix: Mix,
    size: Size,
    random_data: bool,
    range: Range,
    parallel: bool,
    connections: u64,
    each: Option<Requests>,
    prefix: Vec<u8>,
    seed: u64,
    distinct: bool,
}

impl Workload {
    /// Returns what the options ask for.
    ///
    /// # Errors
    /// Where they do not fit together.
    pub(crate) fn new(options: &Options) -> Result<Workload, Error> {
        let range = Range { low: options.key_minimum, high: options.key_maximum };
        let requests = if let Some(ycsb) = options.ycsb {
            ycsb_requests(options, ycsb, range)?
        } else if options.commands.0.is_empty() {
            memtier_requests(options, range)?
        } else {
            command_requests(options, range)?
        };
        let connections = options.threads as u64 * options.clients as u64;
        let parallel = options.key_pattern.set == Pattern::Parallel
            || options.commands.0.iter().any(|command| command.pattern == Pattern::Parallel);
        if parallel && range.len() < connections {
            return Err(Error::Options(format!(
                "the pattern P gives each connection a part of the keys, but there are {connections} connections and \
                 {} keys: take fewer connections or a higher --key-maximum",
                range.len()
            )));
        }
        let mut workload = Workload {
            classes: Vec::new(),
            requests,
            mix: mix(options),
            size: size(options, range),
            random_data: options.random_data,
            range,
            parallel,
            connections,
            each: match (options.requests, options.test_time) {
                (None, None) => Some(Requests::Each(super::REQUESTS)),
                (requests, _) => requests,
            },
            prefix: options.key_prefix.clone().into_bytes(),
            seed: if options.randomize { super::clock::now_as_seed() } else { 0 },
            distinct: options.distinct_client_seed,
        };
        workload.classify();
        Ok(workload)
    }

    /// Requests of one name are one class.
    fn classify(&mut self) {
        for request in &mut self.requests {
            let class = Class { name: request.name.clone(), kind: request.kind };
            let known = self.classes.iter().position(|known| known.name == class.name);
            request.class = known.unwrap_or(self.classes.len());
            if known.is_none() {
                self.classes.push(class);
            }
        }
    }

    /// Returns what one of the connections sends.
    pub(crate) fn source(&self, connection: u64) -> Source {
        let seed = if self.distinct { self.seed.wrapping_add(connection) } else { self.seed };
        let mut random = SmallRng::seed_from_u64(seed);
        let values = Values::new(self.size.clone(), self.random_data.then_some(&mut random));
        let mut requests = self.requests.clone();
        if self.parallel {
            let part = self.part(connection);
            requests.iter_mut().for_each(|request| request.keys.move_to(part));
        }
        Source { requests, mix: self.mix.clone(), values, random, prefix: self.prefix.clone() }
    }

    /// Returns how many requests a connection sends; `None` without an end.
    pub(crate) fn requests_of(&self, connection: u64) -> Option<u64> {
        self.each.map(|each| match each {
            Requests::Each(number) => number,
            Requests::AllKeys if self.parallel => self.part(connection).len(),
            Requests::AllKeys => self.range.len(),
        })
    }

    fn part(&self, connection: u64) -> Range {
        self.range.part(connection, self.connections).unwrap_or(self.range)
    }
}

fn mix(options: &Options) -> Mix {
    if let Some(ycsb) = options.ycsb {
        return Mix::drawn(ycsb.mix().iter().map(|(_, share)| *share));
    }
    if !options.commands.0.is_empty() {
        return Mix::rows(options.commands.0.iter().map(|command| command.ratio).collect());
    }
    let mix = Mix::rows(vec![options.ratio.0, options.ratio.1]);
    match options.wait_ratio {
        Some(ratio) => mix.with_waits(ratio),
        None => mix,
    }
}

fn size(options: &Options, keys: Range) -> Size {
    if let Some(span) = options.data_size_range {
        let (low, high) = (span.low as usize, span.high as usize);
        return match options.data_size_pattern {
            SizePattern::R => Size::Drawn(low, high),
            SizePattern::S => Size::Growing { low, high, keys },
        };
    }
    if let Some(sizes) = &options.data_size_list {
        let mut sum = 0;
        let sums = sizes.0.iter().map(|(size, weight)| {
            sum += weight;
            (*size as usize, sum)
        });
        return Size::Weighted(sums.collect());
    }
    Size::Fixed(options.data_size.unwrap_or(32))
}

/// Makes SET and GET, and what their options make of them.
fn memtier_requests(options: &Options, range: Range) -> Result<Vec<Request>, Error> {
    let fixed = |text: &str| Template::parse(text).map_err(Error::Options);
    let offset = options.data_offset;
    let (set, get) = match (options.expiry_range, offset) {
        (Some(span), _) => {
            let head = fixed("SETEX __key__")?.with(Piece::Number(span.low, span.high));
            (head.with(Piece::Data), fixed("GET __key__")?)
        }
        (None, 0) => (fixed("SET __key__ __data__")?, fixed("GET __key__")?),
        (None, _) => {
            let end = offset + options.data_size.unwrap_or(32).max(1) as u64 - 1;
            let set = fixed(&format!("SETRANGE __key__ {offset} __data__"))?;
            (set, fixed(&format!("GETRANGE __key__ {offset} {end}"))?)
        }
    };
    let (get, many) = match options.multi_key_get {
        Some(keys) => (fixed("MGET")?.with(Piece::Keys), Many::UpTo(keys)),
        None => (get, Many::One),
    };
    let patterns = options.key_pattern;
    let mut requests = vec![
        Request::new("SET", Kind::Write, set, choose(options, patterns.set, range)?, Many::One),
        Request::new("GET", Kind::Read, get, choose(options, patterns.get, range)?, many),
    ];
    if options.wait_ratio.is_some() {
        let number = |span: Option<super::types::Span>| {
            span.map_or(Piece::Number(0, 0), |span| Piece::Number(span.low, span.high))
        };
        let wait = fixed("WAIT")?;
        let wait = wait.with(number(options.num_slaves)).with(number(options.wait_timeout));
        requests.push(Request::new("WAIT", Kind::Other, wait, Keys::Random(range), Many::One));
    }
    Ok(requests)
}

fn command_requests(options: &Options, range: Range) -> Result<Vec<Request>, Error> {
    let mut requests = Vec::new();
    for command in &options.commands.0 {
        let template = Template::parse(&command.text)
            .map_err(|why| Error::Options(format!("--command {:?}: {why}", command.text)))?;
        let keys = choose(options, command.pattern, range)?;
        let name = template.name.clone();
        let kind = Kind::of(&name, template.sends_data());
        requests.push(Request::new(&name, kind, template, keys, Many::One));
    }
    Ok(requests)
}

fn ycsb_requests(options: &Options, ycsb: Ycsb, range: Range) -> Result<Vec<Request>, Error> {
    let inserted = Arc::new(AtomicU64::new(range.high.saturating_add(1)));
    let ranks = zipf(options, range.len(), ycsb::EXPONENT)?;
    let known = if ycsb.reads_latest() {
        Keys::Latest { range, ranks, inserted: Arc::clone(&inserted) }
    } else {
        Keys::Scrambled { range, ranks }
    };
    let request = |action: Action| {
        let keys = match action {
            Action::Insert => Keys::Insert { inserted: Arc::clone(&inserted) },
            _ => known.clone(),
        };
        let (name, kind, text, many) = match action {
            Action::Read => ("READ", Kind::Read, "GET __key__", Many::One),
            Action::Update => ("UPDATE", Kind::Write, "SET __key__ __data__", Many::One),
            Action::Insert => ("INSERT", Kind::Write, "SET __key__ __data__", Many::One),
            Action::Scan => ("SCAN", Kind::Read, "MGET", Many::Run(ycsb::LONGEST_SCAN)),
            Action::ReadModifyWrite => ("RMW", Kind::Write, "GET __key__", Many::Twice),
        };
        let template = Template::parse(text).map_err(Error::Options)?;
        let template = if action == Action::Scan { template.with(Piece::Keys) } else { template };
        Ok(Request::new(name, kind, template, keys, many))
    };
    ycsb.mix().iter().map(|(action, _)| request(*action)).collect()
}

/// Returns how keys are chosen under a pattern.
fn choose(options: &Options, pattern: Pattern, range: Range) -> Result<Keys, Error> {
    Ok(match pattern {
        Pattern::Random => Keys::Random(range),
        Pattern::Sequential | Pattern::Parallel => Keys::Sequence { range, next: range.low },
        Pattern::Gaussian => {
            let middle = (range.low as f64 + range.high as f64) / 2.0;
            let deviation = options.key_stddev.unwrap_or(range.len() as f64 / 6.0);
            let curve = Normal::new(options.key_median.unwrap_or(middle), deviation);
            let curve = curve.map_err(|e| Error::Options(format!("--key-stddev: {e}")))?;
            Keys::Gaussian { range, curve }
        }
        Pattern::Zipf => {
            let range = Range { low: range.low.max(1), high: range.high.max(1) };
            Keys::Zipf { low: range.low, ranks: zipf(options, range.len(), 1.0)? }
        }
    })
}

fn zipf(options: &Options, keys: u64, exponent: f64) -> Result<Zipf<f64>, Error> {
    let exponent = options.key_zipf_exp.unwrap_or(exponent);
    Zipf::new(keys as f64, exponent).map_err(|e| Error::Options(format!("--key-zipf-exp: {e}")))
}

#[cfg(test)]
#[path = "workload_tests.rs"]
mod tests;
