//! The passwords of stores: read when a store is opened, from a file or a variable, and shown to nobody. A URL in a file is read
//! likewise.

use std::{fs::File, io::Read, path::Path};

use mintage_core::{StoreError, StoreErrorKind, plugin::Secret};

use crate::config::{Environment, PasswordPlace};

/// Longest password or URL, in bytes: more than any server takes, and little enough that a wrong file is noticed.
const LEN_MAX: usize = 4_096;

/// Reads a password.
///
/// # Errors
/// `Refused`, naming the place and not what is there.
pub(crate) fn read(place: &PasswordPlace, environment: &Environment) -> Result<Secret, StoreError> {
    match place {
        PasswordPlace::Variable(name) => match environment.value(name) {
            Err(error) => Err(refused(error.to_string())),
            Ok(Some(password)) => Ok(Secret::new(password)),
            Ok(None) => Err(refused(format!("the environment variable {name} is not set: set it to the password"))),
        },
        PasswordPlace::File(path) => line_in(path, "password").map(Secret::new),
    }
}

/// The one line of a file, which is `what`.
///
/// # Errors
/// `Refused`, naming the file and not what is there.
pub(crate) fn line_in(path: &Path, what: &str) -> Result<String, StoreError> {
    let shown = path.display();
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LEN_MAX as u64 + 2).read_to_end(&mut bytes));
    read.map_err(|error| {
        refused(format!("the {what} in {shown} cannot be read: check the path and the rights on it")).caused_by(error)
    })?;
    let text =
        String::from_utf8(bytes).map_err(|_| refused(format!("{shown} is no text: name the file of the {what}")))?;
    // Editors end a file with a line end, which is no part of it.
    let line = text.strip_suffix('\n').unwrap_or(&text);
    let line = line.strip_suffix('\r').unwrap_or(line);
    if line.is_empty() || line.len() > LEN_MAX || line.contains(['\n', '\0']) {
        return Err(refused(format!(
            "{shown} holds no {what}: it is one line of 1 to {LEN_MAX} bytes, and nothing else"
        )));
    }
    Ok(line.to_owned())
}

fn refused(message: String) -> StoreError {
    StoreError::new(StoreErrorKind::Refused, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_one_line_and_never_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        let read_in = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            read(&PasswordPlace::File(path.clone()), &Environment::default())
        };
        for bytes in [&b"hunter2"[..], b"hunter2\n", b"hunter2\r\n"] {
            let secret = read_in(bytes).unwrap();
            assert_eq!(secret.reveal(), "hunter2");
            assert!(!format!("{secret:?}").contains("hunter2"));
        }
        for bytes in [&b""[..], b"\n", b"hunter2\nhunter3\n", b"hunter2\0", b"hunter2\xff", &[b'h'; LEN_MAX + 1]] {
            let told = read_in(bytes).unwrap_err().to_string();
            assert!(told.contains("password") && !told.contains("hunter"), "{told}");
        }
        assert!(line_in(&folder.path().join("none"), "password").unwrap_err().to_string().contains("cannot be read"));
        let environment = Environment::of([("PASSWORD", "hunter2")]);
        assert_eq!(read(&PasswordPlace::Variable("PASSWORD".to_owned()), &environment).unwrap().reveal(), "hunter2");
        assert!(
            read(&PasswordPlace::Variable("OTHER".to_owned()), &environment).unwrap_err().to_string().contains("OTHER")
        );
    }
}
