//! Users at the start: those of `aclfile`, or those of the configuration's `user` lines.
//!
//! They are read before the store is opened, so that a mistake leaves everything as it was. The
//! engine interprets their rules; only this module knows files.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use commands::UserSet;

use crate::config::Values;
use crate::config::choice::NewUserChannels;
use crate::config::file::ReadError;
use crate::shared::Shared;

/// Why the users cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UsersError {
    /// A `user` line is wrong.
    #[error(transparent)]
    Line(ReadError),
    /// Something is wrong with the file.
    #[error("Aborting the start because of ACL errors: {0}")]
    File(String),
    /// Users come from both.
    #[error(
        "Configuring users by user lines and at the same time by the ACL file '{file}' is refused: \
         define them either in the one or in the other (at line {line}: {text})"
    )]
    Both {
        /// `aclfile`
        file: String,
        /// The first `user` line.
        line: usize,
        /// The whole line.
        text: String,
    },
}

/// Returns the path of `aclfile`.
pub(crate) fn file(values: &Values) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(&values.aclfile))
}

/// Returns the content of `aclfile`.
pub(crate) fn read_file(values: &Values) -> io::Result<Vec<u8>> {
    std::fs::read(file(values))
}

/// Returns the users of the configuration.
pub(crate) fn read(values: &Values) -> Result<UserSet, UsersError> {
    let all_channels = values.acl_pubsub_default == NewUserChannels::All;
    let name = values.aclfile.to_text();
    if name.is_empty() {
        return read_lines(values, all_channels);
    }
    if let Some(user) = values.users.first() {
        let (line, text) = (user.line, user.text.clone());
        return Err(UsersError::Both { file: name, line, text });
    }
    let text = read_file(values).map_err(|error| {
        let why = crate::process::text::os_error(&error);
        UsersError::File(format!("Error loading ACLs, opening file '{name}': {why}"))
    })?;
    commands::read_users_file(&name, &text, all_channels).map_err(UsersError::File)
}

fn read_lines(values: &Values, all_channels: bool) -> Result<UserSet, UsersError> {
    let words = |words: &Vec<Vec<u8>>| -> Vec<Vec<u8>> {
        match words.as_slice() {
            // All rules in one pair of quotes.
            [one] => one.split(|byte| *byte == b' ').map(<[u8]>::to_vec).collect(),
            words => words.to_vec(),
        }
    };
    let lines: Vec<Vec<Vec<u8>>> = values.users.iter().map(|user| words(&user.words)).collect();
    let lines: Vec<Vec<&[u8]>> =
        lines.iter().map(|line| line.iter().map(Vec::as_slice).collect()).collect();
    commands::read_user_lines(&lines, all_channels)
        .map_err(|(at, reason)| UsersError::Line(values.users[at].refused(reason)))
}

/// Installs the users of the configuration; `requirepass` is the password of the default one.
pub(crate) fn set(shared: &Shared, users: UserSet) {
    let values = shared.config.values();
    let (password, file) = (&values.requirepass, values.aclfile.to_text());
    if !file.is_empty() && !password.is_empty() {
        tracing::warn!(
            "requirepass has no effect with aclfile: the passwords of all users are those of {file}"
        );
    }
    shared.engine.permissions().set_default_password(password);
    commands::set_users(&shared.engine, users);
}
