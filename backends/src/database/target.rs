//! Which server, database and user a URL names. The password is in the driver's options and nowhere else: nothing here prints
//! the URL.

use std::fmt;

use mintage_core::plugin::Address;
use sqlx::ConnectOptions;
#[cfg(feature = "mysql")]
use sqlx::mysql::{MySqlConnectOptions, MySqlSslMode};
#[cfg(feature = "postgres")]
use sqlx::postgres::{PgConnectOptions, PgSslMode};

/// The parameters that a PostgreSQL URL may have.
#[cfg(feature = "postgres")]
const POSTGRES_PARAMETERS: &[&str] = &[
    "application_name",
    "dbname",
    "host",
    "hostaddr",
    "options",
    "password",
    "port",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslrootcert",
    "user",
];

/// The parameters that a MySQL or MariaDB URL may have.
#[cfg(feature = "mysql")]
const MYSQL_PARAMETERS: &[&str] = &["socket", "ssl-ca", "ssl-cert", "ssl-key", "ssl-mode"];

/// Where to connect, and as whom.
#[derive(Clone)]
pub(super) enum Target {
    #[cfg(feature = "postgres")]
    Postgres(Box<PgConnectOptions>),
    #[cfg(feature = "mysql")]
    MySql(Box<MySqlConnectOptions>),
}

impl Target {
    /// Where an address leads: its URL, and what stands beside it.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub(super) fn at(address: &Address) -> Result<Self, String> {
        if address.tls.is_some() {
            tls_is_there(true)?;
        }
        Ok(match Self::of(&address.url)? {
            #[cfg(feature = "postgres")]
            Self::Postgres(mut to) => {
                if let Some(password) = &address.password {
                    to = Box::new(to.password(password.reveal()));
                }
                if let Some(tls) = &address.tls {
                    to = Box::new(to.ssl_mode(PgSslMode::VerifyFull));
                    if let Some(ca) = &tls.ca {
                        to = Box::new(to.ssl_root_cert(ca));
                    }
                }
                Self::Postgres(to)
            }
            #[cfg(feature = "mysql")]
            Self::MySql(mut to) => {
                if let Some(password) = &address.password {
                    to = Box::new(to.password(password.reveal()));
                }
                if let Some(tls) = &address.tls {
                    to = Box::new(to.ssl_mode(MySqlSslMode::VerifyIdentity));
                    if let Some(ca) = &tls.ca {
                        to = Box::new(to.ssl_ca(ca));
                    }
                }
                Self::MySql(to)
            }
        })
    }

    /// Reads a URL.
    ///
    /// # Errors
    /// What to write instead, without a part of the URL that may be secret.
    pub(super) fn of(url: &str) -> Result<Self, String> {
        match url.split_once("://").map(|(scheme, _)| scheme) {
            #[cfg(feature = "postgres")]
            Some("postgres" | "postgresql") => Self::postgres(url),
            #[cfg(feature = "mysql")]
            Some("mysql" | "mariadb") => Self::mysql(url),
            _ => {
                let kind = url.split_once(':').map_or("", |(kind, _)| kind);
                Err(format!("write {kind}://USER@HOST/DATABASE, such as {kind}://mintage@db.internal/ids"))
            }
        }
    }

    #[cfg(feature = "postgres")]
    fn postgres(url: &str) -> Result<Self, String> {
        known_parameters(url, POSTGRES_PARAMETERS)?;
        let options: PgConnectOptions = url.parse().map_err(|error| unreadable(url, &error))?;
        needs_database("postgres", options.get_database())?;
        let encrypted =
            matches!(options.get_ssl_mode(), PgSslMode::Require | PgSslMode::VerifyCa | PgSslMode::VerifyFull);
        tls_is_there(encrypted)?;
        Ok(Self::Postgres(Box::new(options.disable_statement_logging())))
    }

    #[cfg(feature = "mysql")]
    fn mysql(url: &str) -> Result<Self, String> {
        known_parameters(url, MYSQL_PARAMETERS)?;
        let options: MySqlConnectOptions = url.parse().map_err(|error| unreadable(url, &error))?;
        needs_database("mysql", options.get_database())?;
        let encrypted = matches!(
            options.get_ssl_mode(),
            MySqlSslMode::Required | MySqlSslMode::VerifyCa | MySqlSslMode::VerifyIdentity
        );
        tls_is_there(encrypted)?;
        // The store's clock is read as UTC: local time is ambiguous for an hour each year.
        let options = options.timezone("+00:00".to_owned()).charset("utf8mb4");
        Ok(Self::MySql(Box::new(options.disable_statement_logging())))
    }
}

/// For messages: server, database and user.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, user, socket, host, port, database) = match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(to) => {
                ("postgres", to.get_username(), to.get_socket(), to.get_host(), to.get_port(), to.get_database())
            }
            #[cfg(feature = "mysql")]
            Self::MySql(to) => {
                ("mysql", to.get_username(), to.get_socket(), to.get_host(), to.get_port(), to.get_database())
            }
        };
        let database = database.unwrap_or_default();
        match socket {
            Some(socket) => write!(f, "{scheme} database {database} behind {} as user {user}", socket.display()),
            None => write!(f, "{scheme}://{user}@{host}:{port}/{database}"),
        }
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The driver takes any parameter, and prints one that it does not know with its value.
fn known_parameters(url: &str, known: &[&str]) -> Result<(), String> {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let query = query.split('#').next().unwrap_or_default();
    for name in query.split('&').filter(|pair| !pair.is_empty()).map(|pair| pair.split('=').next().unwrap_or_default())
    {
        if !known.contains(&name) {
            return Err(format!("the URL has a parameter that does not exist here; there are {}", known.join(", ")));
        }
    }
    Ok(())
}

fn needs_database(scheme: &str, database: Option<&str>) -> Result<(), String> {
    if database.is_some_and(|database| !database.is_empty()) {
        return Ok(());
    }
    Err(format!("the URL names no database: write {scheme}://USER@HOST/DATABASE"))
}

fn tls_is_there(asked: bool) -> Result<(), String> {
    if asked && !cfg!(feature = "tls") {
        return Err(
            "an encrypted connection is asked for, which is not in this build: build it with the feature `tls`"
                .to_owned(),
        );
    }
    Ok(())
}

/// The driver's error is about one part of the URL, and repeats it only where that is no secret: a parameter's value.
fn unreadable(url: &str, error: &sqlx::Error) -> String {
    let kind = url.split_once(':').map_or("", |(kind, _)| kind);
    format!(
        "the URL cannot be read ({error}): write {kind}://USER@HOST/DATABASE, and % with two digits for what is special in a password"
    )
}

#[cfg(test)]
#[cfg(all(feature = "postgres", feature = "mysql"))]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_never_printed() {
        for url in [
            "postgres://app:hunter2@db:5433/ids",
            "postgresql://app@db:5433/ids?password=hunter2",
            "mysql://app:hunter2@db:5433/ids",
            "mariadb://app:h%75nter2@db:5433/ids",
        ] {
            let target = Target::of(url).unwrap();
            let told = format!("{target} {target:?}");
            assert!(
                told.contains("://app@db:5433/ids") && !told.contains("hunter2") && !told.contains("h%75"),
                "{told}"
            );
        }
        for url in [
            "postgres://app:hunter2@db",
            "postgres://app:hunter2@db:port/ids",
            "postgres://app:hunter2@db/ids?paswort=hunter2",
            "postgres:app:hunter2@db/ids",
            "mysql://app:hunter2@/ids",
            "mysql://app:hunter2@db/ids?charset=latin1",
            "mysql://app:hunter2@db",
            "mariadb://app:hunter2@[db/ids",
            "postgres://app:%ffhunter2@db/ids",
        ] {
            let told = Target::of(url).unwrap_err();
            assert!(!told.contains("hunter2") && !told.is_empty(), "{told}");
        }
    }

    #[test]
    fn an_encrypted_connection_needs_its_feature() {
        for url in ["postgres://app@db/ids?sslmode=verify-full", "mysql://app@db/ids?ssl-mode=REQUIRED"] {
            assert_eq!(Target::of(url).is_ok(), cfg!(feature = "tls"), "{url}");
        }
    }
}
