//! Chance may draw a code twice: insert, and draw again if it is taken.
//!
//! Asking first whether a code is free and inserting it then is a race that two processes lose together. So the insert
//! itself decides, by the unique index of the table: exactly one of two inserts of one code succeeds.

use std::{error::Error, fmt};

use mintage_core::ReadyError;

use crate::{Entity, Id, Minter};

/// Mints a code and lets `insert` try it, up to `tries_max` times, until one was free.
///
/// `insert` answers `true` if its row is in, and `false` if another row has the code. Let the database decide, in one
/// statement; name the column, so that a clash in another one stays an error:
///
/// ```
/// use mintage::{Config, Registry, entity, insert_or_redraw};
///
/// entity!(pub Link: Int = "links");
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let config = "version = 1\n[entities.links]\nscheme = \"code\"\nlength = 7\n[stores.main]\nurl = \"memory:\"\n";
/// let registry = Registry::builder().builtins().build(Config::parse(config, "mintage.toml")?).await?;
/// let links = registry.minter::<Link>()?;
///
/// let pool = sqlx::SqlitePool::connect("sqlite::memory:").await?;
/// sqlx::query("CREATE TABLE links (code INTEGER PRIMARY KEY, target TEXT NOT NULL)").execute(&pool).await?;
/// let link = insert_or_redraw(&links, 10, async |link| {
///     let done = sqlx::query("INSERT INTO links (code, target) VALUES (?, ?) ON CONFLICT (code) DO NOTHING")
///         .bind(i64::try_from(link.raw()).unwrap_or(i64::MAX))
///         .bind("https://example.com")
///         .execute(&pool)
///         .await?;
///     Ok::<bool, sqlx::Error>(done.rows_affected() == 1)
/// })
/// .await?;
/// assert_eq!(links.text(link).len(), 7);
/// # Ok(())
/// # }
/// ```
///
/// MariaDB has no `ON CONFLICT`: there, take error 1062 on that key as `false`. `INSERT IGNORE` hides other faults too.
///
/// If the answer to an insert is lost, its row may be in under a code that is never returned. Repeat such an insert in a
/// transaction of its own, or find the row by something else that is unique.
///
/// # Errors
/// [`RedrawError::Taken`] when every draw was taken: give the codes another character. Otherwise what `insert` or the
/// minter said; nothing is tried again after that.
pub async fn insert_or_redraw<E, F, A, X>(
    minter: &Minter<E>,
    tries_max: u32,
    mut insert: F,
) -> Result<Id<E>, RedrawError<X>>
where
    E: Entity,
    F: FnMut(Id<E>) -> A,
    A: Future<Output = Result<bool, X>>,
{
    for _ in 0..tries_max {
        let id = minter.mint_ready().await.map_err(RedrawError::Mint)?;
        if insert(id).await.map_err(RedrawError::Insert)? {
            return Ok(id);
        }
    }
    Err(RedrawError::Taken { tries: tries_max })
}

/// Why no code was found for a row.
#[derive(Debug)]
#[non_exhaustive]
pub enum RedrawError<X> {
    /// No code could be drawn.
    Mint(ReadyError),
    /// The insert failed for another reason than a code that is taken.
    Insert(X),
    /// Every code drawn was taken.
    Taken {
        /// How many were drawn.
        tries: u32,
    },
}

impl<X> fmt::Display for RedrawError<X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mint(error) => error.fmt(f),
            Self::Insert(_) => f.write_str("the row could not be inserted"),
            Self::Taken { tries } => write!(
                f,
                "all of {tries} codes drawn are taken: few are left, so raise `length` and put the present one into \
                 `lengths_before` (`mintage explain` tells the odds)"
            ),
        }
    }
}

impl<X: Error + 'static> Error for RedrawError<X> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Mint(error) => error.source(),
            Self::Insert(error) => Some(error),
            Self::Taken { .. } => None,
        }
    }
}
