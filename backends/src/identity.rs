//! Which file a path leads to, so that a store notices when its file was deleted or replaced while it was in use.
//!
//! An open file lives on after its name is gone. A process that kept writing to it, beside another one that made a new file
//! of that name, would hand out the same numbers.

use std::{fs::Metadata, io, path::Path};

/// A file, whatever it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    #[cfg(unix)]
    device_and_inode: (u64, u64),
}

impl Identity {
    /// The file at `path`.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn at(path: &Path) -> io::Result<Self> {
        std::fs::metadata(path).map(|metadata| Self::of(&metadata))
    }

    #[cfg(unix)]
    pub(crate) fn of(metadata: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self { device_and_inode: (metadata.dev(), metadata.ino()) }
    }

    /// Elsewhere a file cannot be deleted or replaced while it is open, so that existing is enough.
    #[cfg(not(unix))]
    pub(crate) fn of(_: &Metadata) -> Self {
        Self {}
    }
}
