//! Bearer tokens: issued once, known by their hash ever after.
//!
//! The invariant: the text of a token exists where it was issued and where it is presented, and nowhere else. It is not
//! stored, not logged and in no `Debug`; and whoever presents a wrong one does not learn what is wrong with it.

use std::{fmt, sync::Arc};

use mintage_core::{StoreError, StoreErrorKind, TokenRow, TokenState, TokenStore};
use rand::{TryRng, rngs::SysRng};

use crate::{
    config::TokensConfig,
    public::{BearerFormat, BearerToken},
    registry::Core,
};

/// How often a token is drawn anew when its id is taken. Two clashes in a row of ids of 50 bits are no chance any more.
const DRAWS_MAX: u32 = 3;

/// Characters of an id: 50 bits. It only has to differ from those of its entity, and people type it.
const ID_LEN: usize = 10;

/// 32 symbols, so that five bits of a random byte choose one: digits and letters without `i`, `l`, `o` and `u`.
const ID_SYMBOLS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Issues and checks the bearer tokens of one entity. Cheap to clone, safe to share.
///
/// It works as long as it is held: [`Registry::close`](crate::Registry::close) has nothing of it to give back.
#[derive(Clone)]
pub struct Tokens {
    config: TokensConfig,
    store: Arc<dyn TokenStore>,
    core: Arc<Core>,
}

/// What a token is issued for.
///
/// ```
/// use mintage::{Expiry, Issue};
///
/// let issue = Issue::new().scope("orders:read").label("billing job").expires(Expiry::After { ms: 30 * 86_400_000 });
/// assert_eq!(issue.scopes, ["orders:read"]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Issue {
    /// What it may be used for.
    pub scopes: Vec<String>,
    /// Whose it is, for lists. Not secret.
    pub label: String,
    /// How long it is accepted.
    pub expiry: Expiry,
}

/// How long a token is accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Expiry {
    /// As the config says: for `expires`, or for ever where it says nothing.
    #[default]
    Configured,
    /// For so long from now on.
    After {
        /// Milliseconds.
        ms: u64,
    },
    /// Until this instant, which is no part.
    At {
        /// Unix milliseconds.
        unix_ms: u64,
    },
    /// Until it is revoked.
    Never,
}

/// The one answer to a token that is not accepted: malformed, unknown, expired or revoked. HTTP: 401.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("this token is not accepted")]
pub struct Unauthorized;

/// Why a token was not accepted, or could not be checked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// It is not accepted, and nobody is told why.
    #[error(transparent)]
    Unauthorized(#[from] Unauthorized),
    /// It is good, but not for this: its owner may know. HTTP: 403.
    #[error("this token is not issued for {scope}")]
    MissingScope {
        /// The scope asked for.
        scope: String,
    },
    /// The store could not be asked, which says nothing about the token. HTTP: 503.
    #[error("the token could not be checked")]
    Store(#[source] StoreError),
}

/// Why no token was issued.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IssueError {
    /// The config does not allow the scope.
    #[error("no scope {scope:?} (known: {known}): add it to `scopes` of the entity in the config, or leave it out")]
    Scope {
        /// The scope asked for.
        scope: String,
        /// Those there are.
        known: String,
    },
    /// It would never be accepted.
    #[error("the token would have expired already: give it a time in the future")]
    Expired,
    /// The operating system gave no random bytes.
    #[error("the operating system gave no random bytes: check that getrandom or /dev/urandom is allowed here")]
    NoEntropy,
    /// The store did not keep it, or may not have: then nobody holds the token, and another can be issued.
    #[error("the token was not issued")]
    Store(#[source] StoreError),
}

/// Why there are no such tokens.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokensError {
    /// The config has no such entity, or it was left out by [`only`](crate::RegistryBuilder::only).
    #[error(
        "no entity {name:?} with bearer tokens (known: {known}): add [entities.{name}] with `scheme = \"bearer\"` to the config"
    )]
    NoEntity {
        /// The name asked for.
        name: String,
        /// Those there are.
        known: String,
    },
    /// The entity has ids instead.
    #[error("entity {entity} has ids of the scheme {scheme}, not bearer tokens: ask for its minter")]
    Ids {
        /// The entity.
        entity: String,
        /// Its scheme.
        scheme: String,
    },
}

impl Tokens {
    pub(crate) fn new(config: TokensConfig, store: Arc<dyn TokenStore>, core: Arc<Core>) -> Self {
        Self { config, store, core }
    }

    /// The entity's name in the config.
    pub fn entity(&self) -> &str {
        &self.config.name
    }

    /// What its tokens look like; [`scanner_pattern`](BearerFormat::scanner_pattern) finds lost ones.
    pub fn format(&self) -> &BearerFormat {
        &self.config.format
    }

    /// A new token, and what is kept of it. [`reveal`](BearerToken::reveal) it to its owner and drop it: nobody can ask for it
    /// again.
    ///
    /// # Errors
    /// [`IssueError`]; then no token is out.
    pub async fn issue(&self, issue: Issue) -> Result<(BearerToken, TokenRow), IssueError> {
        self.awake().map_err(IssueError::Store)?;
        self.scopes_are_known(&issue.scopes)?;
        let now_ms = self.core.now_ms();
        let expires_ms = self.end_of(issue.expiry, now_ms)?;
        let mut draws_left = DRAWS_MAX;
        loop {
            let token = self.config.format.issue().ok_or(IssueError::NoEntropy)?;
            let id = draw_id().ok_or(IssueError::NoEntropy)?;
            let mut row = TokenRow::new(self.entity(), id, *token.hash().as_bytes(), now_ms);
            row.scopes.clone_from(&issue.scopes);
            row.label.clone_from(&issue.label);
            row.expires_ms = expires_ms;
            row.check().map_err(IssueError::Store)?;
            draws_left -= 1;
            match self.store.insert(&row).await {
                Ok(()) => return Ok((token, row)),
                Err(error) if error.kind() == StoreErrorKind::Conflict && draws_left > 0 => {}
                Err(error) => return Err(IssueError::Store(error)),
            }
        }
    }

    /// Checks a token that somebody presents.
    ///
    /// # Errors
    /// [`VerifyError::Unauthorized`] is one value for malformed, unknown, expired and revoked tokens.
    /// [`VerifyError::Store`] says nothing about the token: let the client ask again.
    pub async fn verify(&self, text: &str) -> Result<TokenRow, VerifyError> {
        self.awake().map_err(VerifyError::Store)?;
        // What is malformed anybody can see, so it may be refused without a trip to the store.
        let hash = self.config.format.parse(text).map_err(|_| Unauthorized)?.hash();
        let found = self.store.find(self.entity(), hash.as_bytes()).await.map_err(VerifyError::Store)?;
        // The store's index has found it by parts of the hash. What decides is a comparison that takes the same time for any
        // row, and for none.
        let kept = found.as_ref().map_or([0; 32], |row| row.hash);
        let is_same = hash.matches(&kept);
        match found {
            Some(row) if is_same && row.state(self.core.now_ms()) == TokenState::Active => Ok(row),
            _ => Err(Unauthorized.into()),
        }
    }

    /// As [`verify`](Self::verify), for a use that needs `scope`. Scopes are compared whole: `orders` is not `orders:read`.
    ///
    /// # Errors
    /// As there, and [`VerifyError::MissingScope`] for a good token that was not issued for this.
    pub async fn verify_scope(&self, text: &str, scope: &str) -> Result<TokenRow, VerifyError> {
        let row = self.verify(text).await?;
        if row.scopes.iter().any(|held| held == scope) {
            return Ok(row);
        }
        Err(VerifyError::MissingScope { scope: scope.to_owned() })
    }

    /// The tokens issued so far, by time, those of no use any more included. Nothing in them is secret.
    ///
    /// # Errors
    /// What the store said.
    pub async fn list(&self) -> Result<Vec<TokenRow>, StoreError> {
        self.awake()?;
        self.store.list(self.entity()).await
    }

    /// How a token of the list stands now.
    pub fn state(&self, row: &TokenRow) -> TokenState {
        row.state(self.core.now_ms())
    }

    /// Takes a token back, at once and for ever, by the id that the list shows. `false` if there is none of that id; a token
    /// that is revoked already stays so, and the answer is `true`.
    ///
    /// # Errors
    /// What the store said. If it is `Unavailable`, ask again: a repeat changes nothing.
    pub async fn revoke(&self, id: &str) -> Result<bool, StoreError> {
        self.awake()?;
        self.store.revoke(self.entity(), id, self.core.now_ms()).await
    }

    /// The tokens that have been expired or revoked for `dead_for_ms` and longer: what [`prune`](Self::prune) would forget.
    ///
    /// # Errors
    /// What the store said.
    pub async fn dead(&self, dead_for_ms: u64) -> Result<Vec<TokenRow>, StoreError> {
        let dead_by_ms = self.core.now_ms().saturating_sub(dead_for_ms);
        let mut rows = self.list().await?;
        rows.retain(|row| row.dead_since_ms().is_some_and(|since_ms| since_ms <= dead_by_ms));
        Ok(rows)
    }

    /// Forgets the tokens that have been expired or revoked for `dead_for_ms` and longer, and says how many. They were refused
    /// before and are refused now; only the list is shorter.
    ///
    /// Leave a margin: a clock that is far ahead takes good tokens for expired ones, and what is forgotten does not come back.
    ///
    /// # Errors
    /// What the store said. If it is `Unavailable`, ask again.
    pub async fn prune(&self, dead_for_ms: u64) -> Result<u64, StoreError> {
        self.awake()?;
        self.store.prune(self.entity(), self.core.now_ms().saturating_sub(dead_for_ms)).await
    }

    fn scopes_are_known(&self, scopes: &[String]) -> Result<(), IssueError> {
        let Some(known) = &self.config.scopes else { return Ok(()) };
        match scopes.iter().find(|scope| !known.contains(scope)) {
            None => Ok(()),
            Some(scope) => Err(IssueError::Scope { scope: scope.clone(), known: known.join(", ") }),
        }
    }

    fn end_of(&self, expiry: Expiry, now_ms: u64) -> Result<Option<u64>, IssueError> {
        let life_ms = |ms: u64| Some(now_ms.saturating_add(ms));
        let end_ms = match expiry {
            Expiry::Configured => self.config.expires_ms.and_then(life_ms),
            Expiry::After { ms } => life_ms(ms),
            Expiry::At { unix_ms } => Some(unix_ms),
            Expiry::Never => None,
        };
        if end_ms.is_some_and(|end_ms| end_ms <= now_ms) { Err(IssueError::Expired) } else { Ok(end_ms) }
    }

    /// The store's connection is the parent's: a forked child must not speak on it.
    fn awake(&self) -> Result<(), StoreError> {
        if !self.core.forked() {
            return Ok(());
        }
        let message = "this process was forked: build a registry of its own after the fork";
        Err(StoreError::new(StoreErrorKind::Refused, message))
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("entity", &self.config.name).finish_non_exhaustive()
    }
}

impl Issue {
    /// A token without scopes and label that is accepted for as long as the config says.
    pub fn new() -> Self {
        Self::default()
    }

    /// For one more use.
    #[must_use]
    pub fn scope(mut self, scope: impl Into<String>) -> Self {
        self.scopes.push(scope.into());
        self
    }

    /// With a label for lists.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Accepted for so long.
    #[must_use]
    pub fn expires(mut self, expiry: Expiry) -> Self {
        self.expiry = expiry;
        self
    }
}

/// A short name. `None` if the operating system gives no chance.
fn draw_id() -> Option<String> {
    let mut drawn = [0; ID_LEN];
    SysRng.try_fill_bytes(&mut drawn).ok()?;
    drawn.iter().map(|byte| ID_SYMBOLS.get(usize::from(byte % 32)).copied().map(char::from)).collect()
}
