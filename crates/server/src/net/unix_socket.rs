//! The Unix socket in the file system: its name, its permissions, and its end.
//!
//! No client connects before the socket has the configured permissions: it has them as soon as it
//! has its name, and accepts no connection before it listens, which comes later. Only another
//! socket at its path is replaced, since its server may be gone; any other file is somebody's data.
//! At the end the socket is removed if it is still the one that was made.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, fchmod};
use socket2::{Domain, SockAddr, Socket, Type};

/// Makes a socket at a path with these permissions, or the system's if they are 0. It does not
/// listen yet.
pub(crate) fn bind(path: &Path, permissions: u32) -> io::Result<Socket> {
    match path.symlink_metadata() {
        Ok(found) if found.file_type().is_socket() => fs::remove_file(path)?,
        Ok(_) => {
            let text = "there is a file of that name, and it is no socket";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
        }
        Err(_) => {}
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    if permissions != 0 {
        // The name gets these permissions, less the process's mask. Some sandboxes refuse this; no
        // client can connect before the socket listens.
        let _ = fchmod(&socket, Mode::from_raw_mode(permissions));
    }
    socket.bind(&SockAddr::unix(path)?)?;
    if permissions != 0 {
        fs::set_permissions(path, Permissions::from_mode(permissions))?;
    }
    Ok(socket)
}

/// The name of a socket in the file system.
#[derive(Debug)]
pub(crate) struct SocketName {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl SocketName {
    /// Records which socket is at a path.
    pub(crate) fn of(path: &Path) -> Option<SocketName> {
        // The working directory may have changed at the end.
        let path = std::path::absolute(path).ok()?;
        let found = path.symlink_metadata().ok()?;
        Some(SocketName { path, device: found.dev(), inode: found.ino() })
    }

    /// Removes the name, unless it now belongs to another socket.
    pub(crate) fn remove(&self) {
        let found = self.path.symlink_metadata();
        if found.is_ok_and(|found| (found.dev(), found.ino()) == (self.device, self.inode)) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn nobody_connects_before_the_permissions_are_right() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        for asked in [0o700, 0o770, 0o777, 0o600] {
            let socket = bind(&path, asked).expect("a socket");
            let mode = path.metadata().expect("its name").permissions().mode();
            assert_eq!(mode & 0o777, asked);
            let refused = UnixStream::connect(&path).expect_err("it does not listen");
            assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
            socket.listen(1).expect("it listens");
            UnixStream::connect(&path).expect("a connection");
        }
    }

    #[test]
    fn only_sockets_are_replaced_and_only_the_own_one_is_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        fs::write(&path, "data").expect("a file");
        assert!(bind(&path, 0o700).is_err());
        assert_eq!(fs::read(&path).expect("the file"), b"data");
        fs::remove_file(&path).expect("removed");
        let _first = bind(&path, 0).expect("a socket");
        let first = SocketName::of(&path).expect("a name");
        let _second = bind(&path, 0o700).expect("in its place");
        first.remove();
        assert!(path.exists(), "it is that of another");
        SocketName::of(&path).expect("a name").remove();
        assert!(!path.exists());
    }
}
