//! The two families of servers, and the statements that an administrator may run for each.

/// Which family of servers a store is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// PostgreSQL, from version 13.
    Postgres,
    /// MySQL from 8.0.21 and MariaDB from 10.6.
    MySql,
}

impl Dialect {
    /// The family that a URL names by what stands before its colon.
    pub fn of_url(url: &str) -> Option<Self> {
        match url.split_once(':')?.0 {
            "postgres" | "postgresql" => Some(Self::Postgres),
            "mysql" | "mariadb" => Some(Self::MySql),
            _ => None,
        }
    }

    /// The statements that make the tables, for those who do not let a program do it.
    ///
    /// Every name carries the prefix `mintage_`, so that the tables can stand in an application's own database;
    /// [`TablePrefix::apply`](mintage_core::TablePrefix::apply) gives them another.
    /// `mintage_sequence.last` is one less than the next number, and -1 before number 0: the next number can be 2^63, which
    /// a signed column cannot hold. `incarnation` names the physical server that a pool or sequence was last used on.
    pub fn ddl(self) -> &'static str {
        match self {
            Self::Postgres => concat!(include_str!("postgres-range.sql"), include_str!("postgres.sql")),
            Self::MySql => concat!(include_str!("mysql-range.sql"), include_str!("mysql.sql")),
        }
    }

    /// The statements that make the table of the history of ranges alone, for a database that was made before there was one.
    pub fn range_ddl(self) -> &'static str {
        match self {
            Self::Postgres => include_str!("postgres-range.sql"),
            Self::MySql => include_str!("mysql-range.sql"),
        }
    }

    /// The statement that makes the table which gapless numbers need besides, if they are reserved.
    pub fn gapless_ddl(self) -> &'static str {
        match self {
            Self::Postgres => include_str!("postgres-gapless.sql"),
            Self::MySql => include_str!("mysql-gapless.sql"),
        }
    }

    /// The statements that give the user `mintage` what it needs, and no more, once the tables are there.
    pub fn grants(self) -> &'static str {
        match self {
            Self::Postgres => include_str!("postgres-grants.sql"),
            Self::MySql => include_str!("mysql-grants.sql"),
        }
    }
}
