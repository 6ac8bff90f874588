//! `--command`, with the ratio and the key pattern that follow it.
//!
//! memtier_benchmark lets `--command-ratio` and `--command-key-pattern` speak of the command before
//! them, so their places on the command line matter; the library for command lines is asked for
//! these places.

use clap::{
    Arg, ArgAction, ArgMatches, Args, Command as Cli, Error, FromArgMatches, error::ErrorKind,
};

use super::types::Pattern;

/// A command to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Its words, quoted where needed. `__key__` represents a key, also inside a word; `__data__`
    /// for a value.
    pub text: String,
    /// How often it is sent in a row.
    pub ratio: u64,
    /// How its keys are chosen.
    pub pattern: Pattern,
}

impl Command {
    /// Returns a command that is sent once in a row, with random keys.
    pub fn new(text: impl Into<String>) -> Command {
        Command { text: text.into(), ratio: 1, pattern: Pattern::Random }
    }
}

/// The commands of a run, in their order: none means SET and GET.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commands(pub Vec<Command>);

const COMMAND: &str = "command";
const RATIO: &str = "command-ratio";
const PATTERN: &str = "command-key-pattern";

/// Everything that was given for an option, each with its place on the command line.
fn placed<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, name: &str) -> Vec<(usize, T)> {
    let places = matches.indices_of(name).into_iter().flatten();
    places.zip(matches.get_many::<T>(name).into_iter().flatten().cloned()).collect()
}

impl FromArgMatches for Commands {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Commands, Error> {
        let texts = placed::<String>(matches, COMMAND);
        let mut commands: Vec<_> =
            texts.iter().map(|(_, text)| Command::new(text.clone())).collect();
        let of = |place: usize, name: &str| {
            texts.iter().rposition(|(at, _)| *at < place).ok_or_else(|| {
                let what =
                    format!("--{name} speaks of the --command before it, and there is none\n");
                Error::raw(ErrorKind::MissingRequiredArgument, what)
            })
        };
        for (place, ratio) in placed::<u64>(matches, RATIO) {
            commands[of(place, RATIO)?].ratio = ratio;
        }
        for (place, pattern) in placed::<Pattern>(matches, PATTERN) {
            commands[of(place, PATTERN)?].pattern = pattern;
        }
        Ok(Commands(commands))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Commands::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Commands {
    fn augment_args(cli: Cli) -> Cli {
        let option = |name: &'static str, value: &'static str, help: &'static str| {
            let option = Arg::new(name).long(name).value_name(value).help(help);
            option.action(ArgAction::Append).help_heading("Requests")
        };
        let command = "A command to send in place of SET and GET, again for each further one: __key__ stands for a key, \
            __data__ for a value";
        let ratio = "How often the --command before is sent in a row [default: 1]";
        let pattern =
            "How the keys of the --command before are chosen: R, S, G, Z or P [default: R]";
        cli.arg(option(COMMAND, "TEXT", command).conflicts_with_all(["ratio", "key_pattern"]))
            .arg(option(RATIO, "NUMBER", ratio).value_parser(clap::value_parser!(u64).range(1..)))
            .arg(option(PATTERN, "PATTERN", pattern).value_parser(str::parse::<Pattern>))
    }

    fn augment_args_for_update(cli: Cli) -> Cli {
        Commands::augment_args(cli)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Commands, Error> {
        let cli = Commands::augment_args(Cli::new("test"));
        // The two that it cannot be combined with.
        let cli = cli.arg(Arg::new("ratio").long("ratio")).arg(Arg::new("key_pattern").long("kp"));
        let words = ["test"].iter().chain(words);
        Commands::from_arg_matches(&cli.try_get_matches_from(words)?)
    }

    #[test]
    fn a_ratio_speaks_of_the_command_before_it() {
        let words = [
            "--command=A __key__",
            "--command=B",
            "--command-key-pattern=Z",
            "--command-ratio=3",
            "--command=C",
        ];
        let Commands(commands) = read(&words).expect("commands");
        let expected = [
            Command::new("A __key__"),
            Command { text: "B".into(), ratio: 3, pattern: Pattern::Zipf },
            Command::new("C"),
        ];
        assert_eq!(commands, expected);
    }

    #[test]
    fn a_ratio_without_a_command_is_refused() {
        for words in [["--command-ratio=3", "--command=A"], ["--command=A", "--command-ratio=0"]] {
            assert!(read(&words).is_err(), "{words:?}");
        }
    }
}
