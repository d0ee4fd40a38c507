//! The URLs of stores with several servers: `kind://[USER[:PASSWORD]@]HOST:PORT[,HOST:PORT …][/PATH]`.

use std::fmt;

use mintage_core::{
    StoreError,
    plugin::{Address, Secret},
};

use crate::rules::refused;

/// Such a URL, taken apart.
#[derive(Clone)]
pub(crate) struct Servers {
    kind: &'static str,
    user: Option<String>,
    password: Option<Secret>,
    /// Each with its port.
    pub(crate) hosts: Vec<String>,
    /// What stands after the hosts, without slashes around it.
    pub(crate) path: String,
}

impl Servers {
    /// The servers of an address, with the password of their user.
    ///
    /// # Errors
    /// `Refused` for a URL that cannot be, a user without a password, or a password without a user.
    pub(crate) fn at(kind: &'static str, address: &Address) -> Result<Self, StoreError> {
        let mut servers = Self::read(kind, &address.url).map_err(refused)?;
        if let Some(password) = &address.password {
            servers.password = Some(password.clone());
        }
        let what = match (&servers.user, &servers.password) {
            (Some(_), None) => {
                "the URL names a user without a password: say where it is, password = { env = \"…\" } or { file = \"…\" }"
            }
            (None, Some(_)) => "there is a password, and the URL names no user: write USER@ before the hosts",
            _ => return Ok(servers),
        };
        Err(refused(format!("{}: {what}", servers.place())))
    }

    /// User and password.
    pub(crate) fn login(&self) -> Option<(&str, &str)> {
        Some((self.user.as_deref()?, self.password.as_ref()?.reveal()))
    }

    /// Its errors never repeat the URL: there may be a password in it.
    pub(crate) fn read(kind: &'static str, url: &str) -> Result<Self, String> {
        let how = || format!("write {kind}://HOST:PORT, with commas between several, such as {kind}://a.internal:1234");
        let rest = url.strip_prefix(kind).and_then(|rest| rest.strip_prefix("://")).ok_or_else(how)?;
        let (servers, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, hosts) = match servers.rsplit_once('@') {
            None => (None, servers),
            Some((login, hosts)) => (Some(login), hosts),
        };
        let (user, password) = match login.map(|login| login.split_once(':').unwrap_or((login, ""))) {
            None => (None, None),
            Some(("", _)) => return Err("no user before the @: write USER@".to_owned()),
            Some((user, "")) => (Some(decoded(user)?), None),
            Some((user, password)) => (Some(decoded(user)?), Some(Secret::new(decoded(password)?))),
        };
        let hosts: Vec<String> = hosts.split(',').map(str::to_owned).collect();
        let has_port = |host: &String| {
            host.rsplit_once(':').is_some_and(|(name, port)| !name.is_empty() && port.parse::<u16>().is_ok())
        };
        if !hosts.iter().all(has_port) {
            return Err(how());
        }
        let path = path.trim_matches('/');
        let plain = |part: &str| {
            !matches!(part, "" | "." | "..")
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
        };
        if !path.is_empty() && !path.split('/').all(plain) {
            return Err("after the hosts: a path of letters, digits, -, _ and . was expected".to_owned());
        }
        let path = if path.is_empty() { "mintage" } else { path };
        Ok(Self { kind, user, password, hosts, path: path.to_owned() })
    }

    /// The URL without its password.
    pub(crate) fn place(&self) -> String {
        format!("{}://{}/{}", self.kind, self.hosts.join(","), self.path)
    }
}

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place())
    }
}

/// Resolves `%` and two digits, by which a password can hold an `@` or a `/`.
fn decoded(text: &str) -> Result<String, String> {
    let bad = || "user or password: % begins a character in two hex digits, such as %40 for @".to_owned();
    let mut bytes = Vec::with_capacity(text.len());
    let mut parts = text.split('%');
    bytes.extend(parts.next().unwrap_or_default().bytes());
    for part in parts {
        let digits = part.get(..2).ok_or_else(bad)?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| bad())?);
        bytes.extend(part.bytes().skip(2));
    }
    String::from_utf8(bytes).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_refusals() {
        let one = Servers::read("etcd", "etcd://me:s%40%2f@a:1,b.c:2/x/y/").unwrap();
        assert_eq!(one.login(), Some(("me", "s@/")));
        assert_eq!(
            (one.hosts.as_slice(), one.path.as_str()),
            (["a:1".to_owned(), "b.c:2".to_owned()].as_slice(), "x/y")
        );
        assert_eq!(format!("{one:?}"), "etcd://a:1,b.c:2/x/y");
        assert_eq!(Servers::read("etcd", "etcd://a:1").unwrap().path, "mintage");
        let bad = [
            "etcd:a:1",
            "etcd://",
            "etcd://a",
            "etcd://a:x",
            "etcd://a:1,",
            "etcd://:p@a:1",
            "etcd://a:1/../b",
            "etcd://a:1/b c",
        ];
        for bad in bad.into_iter().chain(["etcd://me:secret%@a:1", "etcd://me:secret@a"]) {
            let told = Servers::read("etcd", bad).unwrap_err();
            assert!(!told.contains("secret"), "{told}");
        }
    }

    #[test]
    fn user_and_password_come_together() {
        let at = |url: &str, password: Option<&str>| {
            let mut address = Address::new(url, ".", std::sync::Arc::new(mintage_core::SystemClock));
            address.password = password.map(Secret::new);
            Servers::at("etcd", &address)
        };
        assert_eq!(at("etcd://me@a:1", Some("secret")).unwrap().login(), Some(("me", "secret")));
        assert_eq!(at("etcd://me:old@a:1", Some("secret")).unwrap().login(), Some(("me", "secret")));
        assert_eq!(at("etcd://a:1", None).unwrap().login(), None);
        for (url, password) in [("etcd://a:1", Some("secret")), ("etcd://me@a:1", None)] {
            let told = at(url, password).unwrap_err().to_string();
            assert!(told.contains("user") && !told.contains("secret"), "{told}");
        }
    }
}
