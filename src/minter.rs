//! Minters: what an application holds, one per entity.

use std::{fmt, iter::FusedIterator, marker::PhantomData, num::NonZeroU32, sync::Arc};

use mintage_core::{
    Anatomy, AnyId, AnyScheme, IdBits, IdScheme, MintError, NumberRun, ParseError, ReadyError, SchemeInfo,
};

use crate::{
    Entity, Id, Kind, PublicId,
    public::{Codec, EncodeError, PublicIdCodec, PublicIdError, PublicText},
    registry::Core,
};

/// How often `mint_ready` goes round when others drain what it waited for, before it gives the caller its error.
const ROUNDS_MAX: u32 = 1_000;

/// Mints the ids of one entity. Cheap to clone, safe to share.
pub struct Minter<E: Entity> {
    scheme: Arc<dyn IdScheme<Bits = <E::Kind as Kind>::Bits>>,
    codec: Option<Arc<Codec>>,
    /// Keeps the registry's tasks alive as long as somebody can mint.
    core: Arc<Core>,
    entity: PhantomData<fn() -> E>,
}

/// A minter whose entity is known at run time only: for programs such as `mintage`.
#[derive(Clone)]
pub struct AnyMinter {
    name: String,
    scheme: AnyScheme,
    codec: Option<Arc<Codec>>,
    _core: Arc<Core>,
}

impl<E: Entity> Minter<E> {
    pub(crate) fn new(
        scheme: Arc<dyn IdScheme<Bits = <E::Kind as Kind>::Bits>>,
        codec: Option<Arc<Codec>>,
        core: Arc<Core>,
    ) -> Self {
        Self { scheme, codec, core, entity: PhantomData }
    }

    /// Makes one id, in nanoseconds: it never waits and does no I/O.
    ///
    /// # Errors
    /// [`MintError`] says why not and what to do; [`mint_ready`](Self::mint_ready) waits instead.
    pub fn mint(&self) -> Result<Id<E>, MintError> {
        self.scheme.mint().map(Id::from_bits)
    }

    /// Makes one id, waiting for a range, a lease or the clock if need be.
    ///
    /// # Errors
    /// [`ReadyError`] carries the store's last error.
    pub async fn mint_ready(&self) -> Result<Id<E>, ReadyError> {
        let mut round = 0;
        loop {
            match self.mint() {
                Ok(id) => return Ok(id),
                Err(error) if round >= ROUNDS_MAX || !worth_waiting(error) => return Err(error.into()),
                Err(_) => self.scheme.ready().await?,
            }
            round += 1;
        }
    }

    /// Makes `count` ids, waiting as [`mint_ready`](Self::mint_ready) does; fewer only where the scheme comes to its end.
    ///
    /// # Errors
    /// As there. What was minted before the error is lost: a gap.
    pub async fn mint_many(&self, count: usize) -> Result<Vec<Id<E>>, ReadyError> {
        Ok(mint_many(self.scheme.as_ref(), count).await?.into_iter().map(Id::from_bits).collect())
    }

    /// Takes `count` ids in a row at once, for a bulk import: one trip to the store, however many they are. Ids in hand stay.
    ///
    /// They are `increment` apart, which is 1 as a rule. Those that the import does not use are a gap.
    ///
    /// # Errors
    /// `NoRanges` for schemes other than `segment`. `Spent` where fewer are left, and those stay. Otherwise the store's error,
    /// after having asked again for some seconds: asking twice never takes two ranges.
    pub async fn take_range(&self, count: NonZeroU32) -> Result<IdRun<E>, ReadyError> {
        self.scheme.take_range(count).await.map(|numbers| IdRun { numbers, entity: PhantomData })
    }

    /// The text of an id as it is stored and logged inside the house. It shows all that [`anatomy`](Self::anatomy) tells.
    pub fn text(&self, id: Id<E>) -> String {
        let mut text = String::new();
        // Writing into a String cannot fail.
        let _ = self.scheme.format(id.bits(), &mut text);
        text
    }

    /// Reads the text that [`text`](Self::text) writes. Exactly one text is taken for each id.
    ///
    /// # Errors
    /// [`ParseError`] names the first fault.
    pub fn parse(&self, text: &str) -> Result<Id<E>, ParseError> {
        self.scheme.parse(text).map(Id::from_bits)
    }

    /// What an id tells whoever holds it.
    pub fn anatomy(&self, id: Id<E>) -> Anatomy {
        self.scheme.anatomy(id.bits())
    }

    /// The smallest and largest id of the Unix milliseconds `from_ms..=to_ms`, for WHERE clauses; `None` where ids carry no
    /// time.
    pub fn range_at(&self, from_ms: i64, to_ms: i64) -> Option<(Id<E>, Id<E>)> {
        self.scheme.range_at(from_ms, to_ms).map(|(first, last)| (Id::from_bits(first), Id::from_bits(last)))
    }

    /// The public id of `id`: the only form in which it may leave the house.
    ///
    /// # Errors
    /// [`PublicIdError::Encode`]: the config gives the entity no public form, or the id does not fit it. Never the raw id.
    pub fn publish(&self, id: Id<E>) -> Result<PublicId<E>, PublicIdError> {
        self.publish_for(id, b"")
    }

    /// As [`publish`](Self::publish), bound to `context`, such as a tenant: it opens with the same context only.
    ///
    /// # Errors
    /// As there; also where the form takes no context.
    pub fn publish_for(&self, id: Id<E>, context: &[u8]) -> Result<PublicId<E>, PublicIdError> {
        codec(self.codec.as_ref())?.encode(id.bits().to_any(), context).map(PublicId::new)
    }

    /// Opens a public id.
    ///
    /// # Errors
    /// [`PublicIdError::Malformed`]: a bad request. [`PublicIdError::Rejected`]: answer exactly as if nothing was found;
    /// it is one value at one cost, whatever the cause.
    pub fn resolve(&self, text: impl AsRef<str>) -> Result<Id<E>, PublicIdError> {
        self.resolve_for(text, b"")
    }

    /// Opens a public id that was bound to `context`.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub fn resolve_for(&self, text: impl AsRef<str>, context: &[u8]) -> Result<Id<E>, PublicIdError> {
        self.opened(codec(self.codec.as_ref())?.decode(text.as_ref(), context))
    }

    /// Opens what a person typed: puts right case, spaces, hyphens and look-alikes first. For support desks only.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub fn resolve_human(&self, typed: &str) -> Result<Id<E>, PublicIdError> {
        self.resolve_human_for(typed, b"")
    }

    /// Opens what a person typed of a public id that was bound to `context`.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub fn resolve_human_for(&self, typed: &str, context: &[u8]) -> Result<Id<E>, PublicIdError> {
        self.opened(codec(self.codec.as_ref())?.decode_human(typed, context))
    }

    /// Puts right what people make of a public id, without opening it: the text to search for or to show again.
    ///
    /// # Errors
    /// [`PublicIdError::Malformed`] if what remains is no text of a public id's length and characters.
    pub fn normalise_human(&self, typed: &str) -> Result<PublicId<E>, PublicIdError> {
        codec(self.codec.as_ref())?.normalise_human(typed)?.parse()
    }

    /// Opens a text that was given out before its id was reissued under another key. Answer "revoked", never the row.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve): also for every text that is valid at present.
    pub fn resolve_legacy(&self, text: &str) -> Result<Id<E>, PublicIdError> {
        self.resolve_legacy_for(text, b"")
    }

    /// As [`resolve_legacy`](Self::resolve_legacy), for a text that was bound to `context`.
    ///
    /// # Errors
    /// As there.
    pub fn resolve_legacy_for(&self, text: &str, context: &[u8]) -> Result<Id<E>, PublicIdError> {
        id_of_any(codec(self.codec.as_ref())?.decode_legacy(text, context)?)
    }

    /// A text that cannot be opened is counted: many of them are a broken client, or somebody who guesses.
    fn opened(&self, decoded: Result<AnyId, PublicIdError>) -> Result<Id<E>, PublicIdError> {
        decoded.and_then(id_of_any).inspect_err(|error| self.core.note_unopened(E::NAME, error))
    }

    /// Checks an id that a client made itself, `now_ms` being our clock in Unix ms: of this scheme, and neither from the
    /// future nor from before the scheme began.
    ///
    /// # Errors
    /// [`AcceptError`] says which. An id that passes may still exist already: only a unique index knows.
    pub fn accept(&self, raw: <E::Kind as Kind>::Raw, now_ms: u64) -> Result<Id<E>, AcceptError> {
        let bits = E::Kind::from_raw(raw)?;
        let mut text = String::new();
        // Writing into a String cannot fail; what the scheme does not read back is none of its ids.
        let _ = self.scheme.format(bits, &mut text);
        let bits = self.scheme.parse(&text)?;
        let now_ms = i64::try_from(now_ms).unwrap_or(i64::MAX);
        let made = self.scheme.anatomy(bits).time;
        if made.is_none() && self.scheme.range_at(ACCEPT_FROM_MS, i64::MAX).is_some() {
            return Err(AcceptError::Timeless);
        }
        if let Some(made) = made {
            let ahead_ms = made.unix_ms.saturating_sub(now_ms);
            if ahead_ms > ACCEPT_SKEW_MS {
                return Err(AcceptError::Future { ahead_ms });
            }
            if made.unix_ms < ACCEPT_FROM_MS {
                return Err(AcceptError::Past { unix_ms: made.unix_ms });
            }
        }
        Ok(Id::from_bits(bits))
    }

    /// Name, width and order of the scheme behind it.
    pub fn info(&self) -> &SchemeInfo {
        self.scheme.info()
    }

    #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite", feature = "sqlx"))]
    pub(crate) fn core(&self) -> &Core {
        &self.core
    }
}

impl<E: Entity> Clone for Minter<E> {
    fn clone(&self) -> Self {
        Self {
            scheme: Arc::clone(&self.scheme),
            codec: self.codec.clone(),
            core: Arc::clone(&self.core),
            entity: PhantomData,
        }
    }
}

impl<E: Entity> fmt::Debug for Minter<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Minter")
            .field("entity", &E::NAME)
            .field("scheme", &self.scheme.info().name)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for AnyMinter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyMinter")
            .field("entity", &self.name)
            .field("scheme", &self.scheme.info().name)
            .finish_non_exhaustive()
    }
}

impl AnyMinter {
    pub(crate) fn new(name: String, scheme: AnyScheme, codec: Option<Arc<Codec>>, core: Arc<Core>) -> Self {
        Self { name, scheme, codec, _core: core }
    }

    /// The entity.
    pub fn entity(&self) -> &str {
        &self.name
    }

    /// The scheme behind it.
    pub fn scheme(&self) -> &AnyScheme {
        &self.scheme
    }

    /// Makes one id without waiting.
    ///
    /// # Errors
    /// As [`Minter::mint`].
    pub fn mint(&self) -> Result<AnyId, MintError> {
        self.scheme.mint()
    }

    /// Makes one id, waiting if need be.
    ///
    /// # Errors
    /// As [`Minter::mint_ready`].
    pub async fn mint_ready(&self) -> Result<AnyId, ReadyError> {
        let mut round = 0;
        loop {
            match self.mint() {
                Ok(id) => return Ok(id),
                Err(error) if round >= ROUNDS_MAX || !worth_waiting(error) => return Err(error.into()),
                Err(_) => self.scheme.ready().await?,
            }
            round += 1;
        }
    }

    /// Makes `count` ids, waiting if need be; fewer only where the scheme comes to its end.
    ///
    /// # Errors
    /// As [`Minter::mint_many`].
    pub async fn mint_many(&self, count: usize) -> Result<Vec<AnyId>, ReadyError> {
        Ok(match &self.scheme {
            AnyScheme::Int(scheme) => any_ids(mint_many(scheme.as_ref(), count).await?),
            AnyScheme::Wide(scheme) => any_ids(mint_many(scheme.as_ref(), count).await?),
            AnyScheme::Long(scheme) => any_ids(mint_many(scheme.as_ref(), count).await?),
            other => {
                return Err(ReadyError::with_source(MintError::Closed, format!("ids of an unknown width: {other:?}")));
            }
        })
    }

    /// Takes `count` numbers in a row, as [`Minter::take_range`].
    ///
    /// # Errors
    /// As there.
    pub async fn take_range(&self, count: NonZeroU32) -> Result<NumberRun, ReadyError> {
        self.scheme.take_range(count).await
    }

    /// The public text of an id, as [`Minter::publish_for`].
    ///
    /// # Errors
    /// As there.
    pub fn publish(&self, id: AnyId, context: &[u8]) -> Result<PublicText, PublicIdError> {
        codec(self.codec.as_ref())?.encode(id, context)
    }

    /// The text of an id, as [`Minter::text`]; `None` if the id has another width.
    pub fn text(&self, id: AnyId) -> Option<String> {
        self.scheme.format(id)
    }
}

/// Ids taken together by [`Minter::take_range`], in ascending order.
#[derive(Clone, PartialEq, Eq)]
pub struct IdRun<E: Entity> {
    numbers: NumberRun,
    entity: PhantomData<fn() -> E>,
}

impl<E: Entity> IdRun<E> {
    /// The smallest of those left.
    pub fn smallest(&self) -> Option<Id<E>> {
        self.numbers.smallest().and_then(id_of)
    }

    /// The largest of those left.
    pub fn largest(&self) -> Option<Id<E>> {
        self.numbers.largest().and_then(id_of)
    }

    /// How many are left.
    pub fn count_left(&self) -> u64 {
        self.numbers.count_left()
    }

    /// The distance from one to the next.
    pub fn step(&self) -> u64 {
        self.numbers.step()
    }
}

fn id_of<E: Entity>(number: u64) -> Option<Id<E>> {
    IdBits::from_any(AnyId::Int(number)).map(Id::from_bits)
}

impl<E: Entity> Iterator for IdRun<E> {
    type Item = Id<E>;

    fn next(&mut self) -> Option<Id<E>> {
        self.numbers.next().and_then(id_of)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.numbers.size_hint()
    }
}

impl<E: Entity> FusedIterator for IdRun<E> {}

impl<E: Entity> fmt::Debug for IdRun<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdRun").field("smallest", &self.smallest()).field("largest", &self.largest()).finish()
    }
}

/// Ids made between two looks at the state, so that a large request reserves no memory it may never fill.
const BATCH_MAX: usize = 4096;

async fn mint_many<B: IdBits>(scheme: &dyn IdScheme<Bits = B>, count: usize) -> Result<Vec<B>, ReadyError> {
    let mut ids = Vec::with_capacity(count.min(BATCH_MAX));
    let mut batch = vec![B::default(); count.min(BATCH_MAX)];
    while ids.len() < count {
        let want = (count - ids.len()).min(batch.len());
        let Some(slots) = batch.get_mut(..want) else { break };
        match scheme.mint_batch(slots) {
            Ok(made) => ids.extend(slots.iter().take(made)),
            // The last numbers there are: they are good, and the next call says that no more will come.
            Err(MintError::Spent) if !ids.is_empty() => break,
            Err(error) if !worth_waiting(error) => return Err(error.into()),
            Err(_) => match scheme.ready().await {
                Err(error) if error.kind() == MintError::Spent && !ids.is_empty() => break,
                ready => ready?,
            },
        }
    }
    Ok(ids)
}

fn any_ids<B: IdBits>(ids: Vec<B>) -> Vec<AnyId> {
    ids.into_iter().map(IdBits::to_any).collect()
}

/// How far ahead of our clock a client's may be.
const ACCEPT_SKEW_MS: i64 = 60_000;
/// 2010-01-01: no scheme here is older, so an id that says so was made up.
const ACCEPT_FROM_MS: i64 = 1_262_304_000_000;

/// Why an id that a client made is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AcceptError {
    /// It is no id of this entity's scheme.
    #[error("no id of this entity: {0}")]
    Parse(#[from] ParseError),
    /// It carries a time that is still to come.
    #[error("its time lies {ahead_ms} ms ahead of our clock: the client's clock is wrong, or the id was made up")]
    Future {
        /// How far, in milliseconds.
        ahead_ms: i64,
    },
    /// It carries no time where every id of this kind does: nil, or all ones.
    #[error("it carries no time, and every id of this kind does: it stands for no record")]
    Timeless,
    /// It carries a time before ids of this kind existed.
    #[error("its time, {unix_ms} ms since 1970, lies before ids of this kind existed: it was made up")]
    Past {
        /// Unix milliseconds.
        unix_ms: i64,
    },
}

fn codec(codec: Option<&Arc<Codec>>) -> Result<&Codec, PublicIdError> {
    codec.map(Arc::as_ref).ok_or(PublicIdError::Encode(EncodeError::NoForm))
}

fn id_of_any<E: Entity>(id: AnyId) -> Result<Id<E>, PublicIdError> {
    // A codec of this entity opens ids of its width.
    IdBits::from_any(id).map(Id::from_bits).ok_or(PublicIdError::Internal)
}

/// Whether `ready` can help.
fn worth_waiting(error: MintError) -> bool {
    matches!(error, MintError::Exhausted { .. } | MintError::LeaseLapsed | MintError::ClockBackwards { .. })
}
