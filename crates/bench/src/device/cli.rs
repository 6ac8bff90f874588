//! The command line of `perdura-bench device`.

use super::method::Method;
use super::options::{ACCESSES, Access, Options};
use crate::units::{parse_bytes, parse_seconds};
use std::path::PathBuf;

/// Measures what a medium can do: bandwidth, operations and latency by access method, pattern,
/// block size and threads, and the cost of a fence, a flush and a log append. Files are made in the
/// given directories, and removed.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A directory on the medium; may be given several times [default: /dev/shm and the current
    /// directory]
    #[arg(long, value_name = "DIR")]
    dir: Vec<PathBuf>,
    /// Bytes of the file, as 1048576, 64k, 256m or 4g [default: 256m; 64m with --quick]
    #[arg(long, value_parser = parse_bytes)]
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
    #[arg(long, value_parser = parse_seconds)]
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

fn block(text: &str) -> Result<u64, String> {
    let size = parse_bytes(text)?;
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
}
