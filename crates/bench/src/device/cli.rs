//! The command line of `perdura-bench device`.

use super::method::Method;
use super::options::{ACCESSES, Access, Options};
use std::path::PathBuf;

/// Measures what a medium can do: bandwidth, operations and latency by access method, pattern,
/// block size and threads, and the cost of a fence, a flush and a log append. Files are made in the
/// given directories, and removed.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// A directory on the medium; may be given several times [default: /dev/shm and the current
    /// directory]
    #[arg(long, value_name = "DIR")]
    dir: Vec<PathBuf>,
    /// Bytes of the file, as 1048576, 64k, 256m or 4g [default: 256m; 64m with --quick]
    #[arg(long, value_parser = bytes)]
    size: Option<u64>,
    /// Access methods, separated by commas [default: all]
    #[arg(long, value_delimiter = ',', value_enum)]
    methods: Vec<Method>,
    /// Block sizes, separated by commas: multiples of 512 [default: 512,4k,8k,512k]
    #[arg(long, value_delimiter = ',', value_parser = block)]
    blocks: Vec<u64>,
    /// Access patterns, separated by commas: randread, read, randwrite, write, randrw50, rw50,
    /// randrw65, rw65, composite [default: all]
    #[arg(long, value_delimiter = ',', value_parser = access)]
    patterns: Vec<Access>,
    /// Numbers of threads, separated by commas [default: 1 and the number of cores]
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Vec<u32>,
    /// Seconds of each cell [default: 0.25; 0.05 with --quick]
    #[arg(long, value_parser = seconds)]
    seconds: Option<f64>,
    /// Write the results to a file that `perdura-bench report` reads
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Fewer patterns, one thread, short cells: some ten seconds
    #[arg(long)]
    quick: bool,
    /// No progress bar
    #[arg(long)]
    pub(crate) quiet: bool,
}

impl Arguments {
    /// Returns what is to be measured, for each directory.
    pub(crate) fn options(&self) -> Vec<Options> {
        let mut dirs = self.dir.clone();
        if dirs.is_empty() {
            let usual = [PathBuf::from("/dev/shm"), PathBuf::from(".")];
            dirs.extend(usual.into_iter().filter(|dir| dir.is_dir()));
        }
        dirs.into_iter().map(|dir| self.options_for(dir)).collect()
    }

    fn options_for(&self, dir: PathBuf) -> Options {
        fn given<T: Clone>(wanted: &[T], default: Vec<T>) -> Vec<T> {
            if wanted.is_empty() { default } else { wanted.to_vec() }
        }
        let usual = if self.quick { Options::quick(dir) } else { Options::new(dir) };
        Options {
            size: self.size.unwrap_or(usual.size),
            methods: given(&self.methods, usual.methods),
            blocks: given(&self.blocks, usual.blocks),
            accesses: given(&self.patterns, usual.accesses),
            threads: given(&self.threads, usual.threads),
            seconds: self.seconds.unwrap_or(usual.seconds),
            dir: usual.dir,
        }
    }
}

/// Returns a number of bytes, with `k`, `m`, `g` or `t` for powers of 1024.
fn bytes(text: &str) -> Result<u64, String> {
    let lower = text.to_ascii_lowercase();
    let number = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &lower[number.len()..] {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ if number.is_empty() => return Err("expected a number of bytes".into()),
        unit => return Err(format!("unknown unit {unit:?}: expected k, m, g or t")),
    };
    let number: u64 = number.parse().map_err(|_| "expected a number of bytes".to_owned())?;
    let size = number.checked_mul(1 << shift).ok_or("too large")?;
    if size == 0 { Err("must be more than 0".into()) } else { Ok(size) }
}

fn block(text: &str) -> Result<u64, String> {
    let size = bytes(text)?;
    match size.is_multiple_of(512) && size <= 64 << 20 {
        true => Ok(size),
        false => Err("expected a multiple of 512 of at most 64m".into()),
    }
}

fn access(text: &str) -> Result<Access, String> {
    let known = ACCESSES.into_iter().find(|access| access.name == text);
    known
        .ok_or_else(|| format!("expected one of {}", ACCESSES.map(|access| access.name).join(", ")))
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.001..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected seconds, from 0.001 to 3600".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn parse(line: &str) -> Result<Arguments, String> {
        let words = std::iter::once("device").chain(line.split_whitespace());
        Program::try_parse_from(words).map(|p| p.arguments).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_not_given_has_its_usual_value() {
        let options =
            &parse("--dir /a --dir /b --blocks 512,64k --threads 3").expect("right").options();
        assert_eq!(options.len(), 2);
        assert_eq!(options[1].dir, PathBuf::from("/b"));
        assert_eq!(
            (options[0].blocks.clone(), options[0].threads.clone()),
            (vec![512, 65536], vec![3])
        );
        assert_eq!((options[0].size, options[0].methods.len()), (256 << 20, 6));
        let quick = &parse("--dir /a --quick --seconds 2").expect("right").options()[0];
        assert_eq!((quick.seconds, quick.size), (2.0, 64 << 20));
        let named =
            &parse("--dir /a --methods clwb,direct --patterns rw65,composite").expect("right");
        assert_eq!(named.options()[0].methods, [Method::Clwb, Method::Direct]);
        assert_eq!(named.options()[0].accesses[0].reads_percent, 65);
    }

    #[test]
    fn wrong_arguments_are_refused_by_name() {
        let check = |line: &str, expect: &str| {
            let error = parse(line).expect_err(line);
            assert!(error.contains(expect), "{line}: {error}");
        };
        check("--size many", "expected a number of bytes");
        check("--size 0", "more than 0");
        check("--size 99999999t", "too large");
        check("--blocks 500", "multiple of 512");
        check("--patterns zigzag", "randread");
        check("--methods teleport", "fdatasync");
        check("--threads 0", "1..=1024");
        check("--seconds=-1", "from 0.001");
    }

    #[test]
    fn sizes_have_units() {
        let check = |text: &str, expect| assert_eq!(bytes(text).ok(), expect, "{text}");
        check("4096", Some(4096));
        check("64k", Some(65536));
        check("2GiB", Some(2 << 30));
        check("1q", None);
        check("k", None);
        check("", None);
    }
}
