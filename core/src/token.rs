//! Bearer tokens as a store keeps them: by their hash, never by their text.

use std::fmt;

use async_trait::async_trait;

use crate::{StoreError, StoreErrorKind};

/// Where issued tokens are kept.
///
/// The invariant: what is kept cannot be turned back into a token, and a token once revoked stays revoked.
#[async_trait]
pub trait TokenStore: fmt::Debug + Send + Sync + 'static {
    /// Keeps a token that was just issued.
    ///
    /// # Errors
    /// `Refused` for a row outside [`TokenRow::check`]; `Conflict` when the entity has a token of this id or hash already:
    /// draw again; `Unavailable` when the outcome is unknown: forget the token and issue another.
    async fn insert(&self, row: &TokenRow) -> Result<(), StoreError>;

    /// The token of `entity` with this hash, whatever its state.
    ///
    /// # Errors
    /// `Unavailable` when the store cannot be asked; `Corrupt` when what it keeps makes no sense.
    async fn find(&self, entity: &str, hash: &[u8; 32]) -> Result<Option<TokenRow>, StoreError>;

    /// Every token of `entity`, by the time of issue, then by id.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    async fn list(&self, entity: &str) -> Result<Vec<TokenRow>, StoreError>;

    /// Revokes the token with this id. One that is revoked already keeps its first time, so a repeat is safe.
    /// `false` if the entity has no such token.
    ///
    /// # Errors
    /// `Unavailable` when the outcome is unknown: ask again.
    async fn revoke(&self, entity: &str, id: &str, at_ms: u64) -> Result<bool, StoreError>;

    /// Forgets every token of `entity` that was expired or revoked by `dead_by_ms`, that millisecond included. Says how many.
    /// No answer changes: an unknown token is refused as a dead one is.
    ///
    /// # Errors
    /// `Unavailable` when the outcome is unknown: ask again.
    async fn prune(&self, entity: &str, dead_by_ms: u64) -> Result<u64, StoreError>;
}

/// What is kept of a token. Nothing in it is secret, though its hash is shown to nobody.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenRow {
    /// The entity it belongs to.
    pub entity: String,
    /// A short name for lists and for revoking: random, not secret, and no part of the token.
    pub id: String,
    /// The hash of the token.
    pub hash: [u8; 32],
    /// What it may be used for. None twice.
    pub scopes: Vec<String>,
    /// Whose it is, in the owner's words; may be empty.
    pub label: String,
    /// When it was issued, Unix ms.
    pub issued_ms: u64,
    /// From when on it is no longer accepted, Unix ms; `None` for never.
    pub expires_ms: Option<u64>,
    /// When it was revoked, Unix ms; `None` if it was not.
    pub revoked_ms: Option<u64>,
}

/// How a token stands at some instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TokenState {
    /// Accepted.
    Active,
    /// Past its time.
    Expired,
    /// Taken back.
    Revoked,
}

impl TokenRow {
    /// Most scopes of a token: a list that a person can still read.
    pub const SCOPES_MAX: usize = 32;
    /// Longest scope, in characters.
    pub const SCOPE_LEN_MAX: usize = 64;
    /// Longest label, in characters: a line of text.
    pub const LABEL_LEN_MAX: usize = 200;
    /// Longest id, in characters: people type it.
    pub const ID_LEN_MAX: usize = 32;
    /// Longest name of an entity, in characters, as in the config.
    pub const ENTITY_LEN_MAX: usize = 63;
    /// Times lie below this: stores keep signed 64-bit columns.
    pub const TIME_END_MS: u64 = 1 << 63;

    /// A token without scopes, label or end.
    pub fn new(entity: impl Into<String>, id: impl Into<String>, hash: [u8; 32], issued_ms: u64) -> Self {
        Self {
            entity: entity.into(),
            id: id.into(),
            hash,
            scopes: Vec::new(),
            label: String::new(),
            issued_ms,
            expires_ms: None,
            revoked_ms: None,
        }
    }

    /// Whether `text` may be a scope: a letter `a` to `z`, then up to 63 of `a-z`, `0-9`, `:`, `.`, `_` and `-`.
    pub fn is_scope(text: &str) -> bool {
        let letters = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b":._-".contains(&byte);
        text.len() <= Self::SCOPE_LEN_MAX
            && text.bytes().next().is_some_and(|first| first.is_ascii_lowercase())
            && text.bytes().all(letters)
    }

    /// How it stands at `now_ms`. A revoked token is revoked, expired or not.
    pub fn state(&self, now_ms: u64) -> TokenState {
        match (self.revoked_ms, self.expires_ms) {
            (Some(_), _) => TokenState::Revoked,
            (None, Some(end_ms)) if end_ms <= now_ms => TokenState::Expired,
            _ => TokenState::Active,
        }
    }

    /// Since when it is of no use, or from when on it will be, Unix ms; `None` for one that never ends.
    pub fn dead_since_ms(&self) -> Option<u64> {
        self.expires_ms.into_iter().chain(self.revoked_ms).min()
    }

    /// Whether it keeps the limits above. Stores call it before they keep a row, and after they have read one.
    ///
    /// # Errors
    /// `Refused` says which limit it breaks.
    pub fn check(&self) -> Result<(), StoreError> {
        let one_line = |text: &str, longest: usize| text.chars().count() <= longest && !text.contains(char::is_control);
        let id_fits = (1..=Self::ID_LEN_MAX).contains(&self.id.len())
            && self.id.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        let twice = |(at, scope): (usize, &String)| self.scopes.iter().skip(at + 1).any(|other| other == scope);
        let times = [Some(self.issued_ms), self.expires_ms, self.revoked_ms];
        let fault = if self.entity.is_empty() || !one_line(&self.entity, Self::ENTITY_LEN_MAX) {
            format!("the entity of a token has 1 to {} characters on one line", Self::ENTITY_LEN_MAX)
        } else if !id_fits {
            format!("the id of a token has 1 to {} of a-z and 0-9", Self::ID_LEN_MAX)
        } else if !one_line(&self.label, Self::LABEL_LEN_MAX) {
            format!("the label of a token has at most {} characters on one line", Self::LABEL_LEN_MAX)
        } else if self.scopes.len() > Self::SCOPES_MAX {
            format!("a token has at most {} scopes, not {}", Self::SCOPES_MAX, self.scopes.len())
        } else if self.scopes.iter().any(|scope| !Self::is_scope(scope)) {
            format!(
                "a scope has 1 to {} of a-z, 0-9, `:`, `.`, `_` and `-`, a letter first, such as orders:read",
                Self::SCOPE_LEN_MAX
            )
        } else if self.scopes.iter().enumerate().any(twice) {
            "a scope stands there twice: once is enough".to_owned()
        } else if times.into_iter().flatten().any(|time| time >= Self::TIME_END_MS) {
            "a time of a token does not fit 63 bits: check the clock and the expiry".to_owned()
        } else {
            return Ok(());
        };
        Err(StoreError::new(StoreErrorKind::Refused, fault))
    }
}

/// Without the hash: a log of hashes tells which tokens are in use.
impl fmt::Debug for TokenRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenRow")
            .field("entity", &self.entity)
            .field("id", &self.id)
            .field("scopes", &self.scopes)
            .field("label", &self.label)
            .field("issued_ms", &self.issued_ms)
            .field("expires_ms", &self.expires_ms)
            .field("revoked_ms", &self.revoked_ms)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> TokenRow {
        let mut row = TokenRow::new("api_keys", "7km1dzhm", [0xa7; 32], 5);
        row.scopes = vec!["orders:read".to_owned(), "a.b_c-d9".to_owned()];
        row.label = "é".repeat(TokenRow::LABEL_LEN_MAX);
        row
    }

    #[test]
    fn every_limit_is_kept() {
        row().check().unwrap();
        let mut most = row();
        most.scopes = (0..TokenRow::SCOPES_MAX).map(|nth| format!("s{nth}")).collect();
        most.expires_ms = Some(TokenRow::TIME_END_MS - 1);
        most.check().unwrap();
        type Fault = fn(&mut TokenRow);
        let breaks: [(&str, Fault); 13] = [
            ("entity", |row| row.entity.clear()),
            ("entity", |row| row.entity = "e".repeat(64)),
            ("the id", |row| row.id.clear()),
            ("the id", |row| row.id = "x".repeat(33)),
            ("the id", |row| row.id = "ID".to_owned()),
            ("label", |row| row.label.push('x')),
            ("label", |row| row.label = "a\u{1b}[2J".to_owned()),
            ("32 scopes", |row| row.scopes = (0..33).map(|nth| format!("s{nth}")).collect()),
            ("a scope has", |row| row.scopes = vec!["x".repeat(65)]),
            ("a scope has", |row| row.scopes = vec!["Orders".to_owned()]),
            ("twice", |row| row.scopes = vec!["a".to_owned(), "b".to_owned(), "a".to_owned()]),
            ("63 bits", |row| row.issued_ms = 1 << 63),
            ("63 bits", |row| row.expires_ms = Some(u64::MAX)),
        ];
        for (word, spoil) in breaks {
            let mut spoilt = row();
            spoil(&mut spoilt);
            let error = spoilt.check().unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Refused);
            assert!(error.to_string().contains(word), "{error}");
        }
        for bad in ["", "9a", ":a", "a b", "a,b", "é", "A"] {
            assert!(!TokenRow::is_scope(bad), "{bad}");
        }
    }

    #[test]
    fn revoked_goes_before_expired_and_the_end_is_no_part() {
        let mut row = row();
        assert_eq!(row.state(u64::MAX), TokenState::Active);
        row.expires_ms = Some(100);
        assert_eq!([row.state(99), row.state(100)], [TokenState::Active, TokenState::Expired]);
        row.revoked_ms = Some(50);
        assert_eq!([row.state(0), row.state(100)], [TokenState::Revoked, TokenState::Revoked]);
        let dead_since = |expires_ms, revoked_ms| TokenRow { expires_ms, revoked_ms, ..row.clone() }.dead_since_ms();
        assert_eq!([dead_since(None, None), dead_since(Some(100), None)], [None, Some(100)]);
        assert_eq!([dead_since(None, Some(50)), dead_since(Some(100), Some(50))], [Some(50), Some(50)]);
        assert_eq!(dead_since(Some(100), Some(150)), Some(100), "revoked when it was of no use already");
    }

    #[test]
    fn debug_does_not_show_the_hash() {
        let told = format!("{:?}", row());
        assert!(told.contains("7km1dzhm") && !told.contains("167") && !told.contains("hash"), "{told}");
    }
}
