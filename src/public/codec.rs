//! One entity's public ids: form, keys and grammar in one value.

use std::fmt;

use mintage_core::{AnyId, AnyScheme, Format, plugin::Fact};

use crate::public::{
    Alphabet, EncodeError, FormError, PublicForm, PublicIdCodec, PublicIdError, PublicText,
    form::Shape,
    human::{self, Spelling},
    keys::{Keyring, LABEL_LEN_MAX, Label},
    plain,
    rotation::{KeyPlan, Ownership},
    token::{BoundTokens, Tokens},
    width::{Limbs, Width},
};
#[cfg(feature = "ff1")]
use crate::public::{number::Numbers, short::Shorts, uuid::Uuids};

/// Writes and opens the public ids of one entity in one realm.
///
/// Made once, while the registry is built: all keys are derived then. Encoding and decoding take no lock, and tokens
/// and numbers no heap either.
///
/// A context where the form takes none, or none where it needs one, never passes silently: `encode` says
/// [`EncodeError::Context`], `decode` says [`PublicIdError::Rejected`].
///
/// ```
/// use mintage_core::{AnyId, Bits};
/// use mintage::public::{Codec, Keyring, PublicForm, PublicIdCodec};
///
/// let ring = Keyring::parse("1 = AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "example")?;
/// let orders = Codec::new(&PublicForm::token("ord", Bits::Int)?, "order", "live", &ring)?;
/// let text = orders.encode(AnyId::Int(1), b"")?;
/// assert_eq!(text, "ord_7km1dzhmsjg36ctn1d9mvat54y");
/// assert_eq!(orders.decode(&text, b"")?, AnyId::Int(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Codec {
    form: PublicForm,
    entity: String,
    realm: String,
    engine: Engine,
}

enum Engine {
    Token(Tokens),
    Bound(BoundTokens),
    #[cfg(feature = "ff1")]
    Short(Shorts),
    #[cfg(feature = "ff1")]
    Number(Numbers),
    #[cfg(feature = "ff1")]
    Uuid(Uuids),
    Plain(AnyScheme),
}

impl Codec {
    /// The codec of `entity` in `realm`, with every key from `ring`.
    ///
    /// # Errors
    /// [`FormError`] if a version that owns ids has no key, versions contradict each other, or a stage names other keys
    /// than the entity (for those, see [`with_rings`](Self::with_rings)).
    pub fn new(form: &PublicForm, entity: &str, realm: &str, ring: &Keyring) -> Result<Self, FormError> {
        Self::with_rings(form, entity, realm, |name| (name == form.key()).then_some(ring))
    }

    /// As [`new`](Self::new), where `ring_of` finds the keys of a name of `[keys]` (`None`: the config names none).
    ///
    /// # Errors
    /// As [`new`](Self::new), or if `ring_of` does not know a name.
    pub fn with_rings<'k>(
        form: &PublicForm,
        entity: &str,
        realm: &str,
        ring_of: impl Fn(Option<&str>) -> Option<&'k Keyring>,
    ) -> Result<Self, FormError> {
        for (what, text) in [("entity", entity), ("realm", realm)] {
            if text.is_empty() || text.len() > LABEL_LEN_MAX || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
                let fault =
                    format!("the name of the {what} must be 1 to {LABEL_LEN_MAX} ASCII characters without spaces");
                return Err(FormError::new("form", fault));
            }
        }
        let engine = Engine::new(form, entity, realm, &ring_of)?;
        Ok(Self { form: form.clone(), entity: entity.to_owned(), realm: realm.to_owned(), engine })
    }

    /// The scheme's own text, for ids that may be seen.
    pub fn plain(scheme: AnyScheme, entity: &str, realm: &str) -> Self {
        let form = PublicForm::plain(scheme.info().kind);
        Self { form, entity: entity.to_owned(), realm: realm.to_owned(), engine: Engine::Plain(scheme) }
    }

    /// Opens a text that was written before its id was reissued under another key. Answer "revoked", never the row.
    ///
    /// # Errors
    /// As [`decode`](PublicIdCodec::decode): also for every text that is valid at present.
    pub fn decode_legacy(&self, text: &str, context: &[u8]) -> Result<AnyId, PublicIdError> {
        self.check_context(context).map_err(|_| PublicIdError::Rejected)?;
        match &self.engine {
            Engine::Token(tokens) => tokens.decode_former(text).map(|id| id.to_id(tokens.width)),
            Engine::Bound(tokens) => tokens.decode_former(text, context).map(|id| id.to_id(tokens.width)),
            #[cfg(feature = "ff1")]
            Engine::Short(shorts) => shorts.decode_former(text).map(|id| id.to_id(Width::Int)),
            #[cfg(feature = "ff1")]
            Engine::Uuid(uuids) => uuids.decode_former(text).map(|id| id.to_id(uuids.width())),
            _ => self.decode(text, context).and(Err(PublicIdError::Rejected)),
        }
    }

    /// Opens what a person typed: [`normalise_human`](Self::normalise_human), then `decode`. For support desks only.
    ///
    /// # Errors
    /// As [`decode`](PublicIdCodec::decode).
    pub fn decode_human(&self, typed: &str, context: &[u8]) -> Result<AnyId, PublicIdError> {
        self.decode(&self.normalise_human(typed)?, context)
    }

    /// Puts right what people do to an id that they type or read out: case, spaces, hyphens, and `o`, `i`, `l` in a body.
    ///
    /// The result is not checked: it may still be no id.
    ///
    /// # Errors
    /// `Malformed` if what remains is longer than any id.
    pub fn normalise_human(&self, typed: &str) -> Result<PublicText, PublicIdError> {
        human::normalise(typed, self.spelling())
    }

    /// The form.
    pub fn form(&self) -> &PublicForm {
        &self.form
    }

    /// What this form promises, in the words that docs, `explain` and `check` share.
    pub fn label(&self) -> &'static str {
        self.form.label()
    }

    /// What `explain` says about it: how a forgery fares, what leaks.
    pub fn facts(&self) -> Vec<Fact> {
        self.form.facts()
    }

    /// The key versions that own ids at present. Empty for numbers, whose stages have keys of their own, and for plain text.
    pub fn versions(&self) -> Vec<u32> {
        self.plan().map(Ownership::owners).unwrap_or_default()
    }

    /// The key version that owns `id`, for plans and figures.
    pub fn version_of(&self, id: AnyId) -> Option<u32> {
        let id = Limbs::of(id, Width::of(self.form.bits())?)?;
        self.plan().map(|plan| plan.owner_of(id))
    }

    /// From which id on which key version owns, for `explain` and for the record in the store: to move a start that ids
    /// have crossed would change their texts. Empty as [`versions`](Self::versions) is.
    pub fn ownership(&self) -> Vec<(AnyId, u32)> {
        let spans = |plan: &Ownership, width| {
            plan.spans().map(|(from, version)| (Limbs::to_id(from, width), version)).collect()
        };
        self.plan().zip(Width::of(self.form.bits())).map(|(plan, width)| spans(plan, width)).unwrap_or_default()
    }

    /// Adds what must never change to an entity's format, so that the store refuses a config that would re-key silently. An
    /// entity that had no form may be given one.
    #[must_use]
    pub fn pin(&self, format: Format) -> Format {
        self.form.pin(format, &self.realm)
    }

    fn check_context(&self, context: &[u8]) -> Result<(), EncodeError> {
        if self.form.takes_context() == context.is_empty() { Err(EncodeError::Context) } else { Ok(()) }
    }

    fn plan(&self) -> Option<&Ownership> {
        match &self.engine {
            Engine::Token(tokens) => Some(tokens.ownership()),
            Engine::Bound(tokens) => Some(tokens.ownership()),
            #[cfg(feature = "ff1")]
            Engine::Short(shorts) => Some(shorts.ownership()),
            #[cfg(feature = "ff1")]
            Engine::Uuid(uuids) => Some(uuids.ownership()),
            _ => None,
        }
    }

    fn spelling(&self) -> Spelling {
        match self.form.shape() {
            Shape::Token { alphabet: Alphabet::Base62, .. } => Spelling::Separators,
            Shape::Token { alphabet: Alphabet::NoVowel, .. } => Spelling::Case,
            Shape::Token { .. } | Shape::Short { .. } | Shape::Number { .. } => Spelling::LookAlikes,
            Shape::Uuid(_) => Spelling::Uuid,
            Shape::Plain => Spelling::AsIs,
        }
    }
}

impl PublicIdCodec for Codec {
    fn encode(&self, id: AnyId, context: &[u8]) -> Result<PublicText, PublicIdError> {
        self.check_context(context)?;
        let limbs = |width| Limbs::of(id, width).ok_or(EncodeError::WidthMismatch);
        match &self.engine {
            Engine::Token(tokens) => tokens.encode(limbs(tokens.width)?),
            Engine::Bound(tokens) => tokens.encode(limbs(tokens.width)?, context),
            #[cfg(feature = "ff1")]
            Engine::Short(shorts) => shorts.encode(limbs(Width::Int)?),
            #[cfg(feature = "ff1")]
            Engine::Number(numbers) => numbers.encode(limbs(Width::Int)?.to_int()),
            #[cfg(feature = "ff1")]
            Engine::Uuid(uuids) => uuids.encode(limbs(uuids.width())?),
            Engine::Plain(scheme) => plain::encode(scheme, id),
        }
    }

    fn decode(&self, text: &str, context: &[u8]) -> Result<AnyId, PublicIdError> {
        self.check_context(context).map_err(|_| PublicIdError::Rejected)?;
        match &self.engine {
            Engine::Token(tokens) => tokens.decode(text).map(|id| id.to_id(tokens.width)),
            Engine::Bound(tokens) => tokens.decode(text, context).map(|id| id.to_id(tokens.width)),
            #[cfg(feature = "ff1")]
            Engine::Short(shorts) => shorts.decode(text).map(|id| id.to_id(Width::Int)),
            #[cfg(feature = "ff1")]
            Engine::Number(numbers) => numbers.decode(text).map(AnyId::Int),
            #[cfg(feature = "ff1")]
            Engine::Uuid(uuids) => uuids.decode(text).map(|id| id.to_id(uuids.width())),
            Engine::Plain(scheme) => plain::decode(scheme, text),
        }
    }
}

/// Says which codec this is, and nothing of its keys.
impl fmt::Debug for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Codec")
            .field("entity", &self.entity)
            .field("realm", &self.realm)
            .field("form", &self.form)
            .finish_non_exhaustive()
    }
}

impl Engine {
    fn new<'k>(
        form: &PublicForm,
        entity: &str,
        realm: &str,
        ring_of: &impl Fn(Option<&str>) -> Option<&'k Keyring>,
    ) -> Result<Self, FormError> {
        if *form.shape() == Shape::Plain {
            return Err(FormError::new("form", "plain text takes no keys: make its codec with `Codec::plain`"));
        }
        let width =
            Width::of(form.bits()).ok_or_else(|| FormError::new("form", "ids of this width have no public form"))?;
        let plan = |scheme, params| {
            let ring = ring_of(form.key()).ok_or_else(|| FormError::no_ring(form.key()))?;
            let ownership = Ownership::plan(form.cuts(), width, ring)?;
            Ok::<_, FormError>(KeyPlan { ring, ownership, label: Label { scheme, realm, entity, params } })
        };
        match form.shape() {
            Shape::Token { prefix, context: true, .. } => {
                BoundTokens::new(prefix, width, &plan(BoundTokens::SCHEME, width.param())?).map(Self::Bound)
            }
            Shape::Token { prefix, alphabet, .. } => {
                Tokens::new(prefix, *alphabet, width, &plan(Tokens::SCHEME, width.param())?).map(Self::Token)
            }
            #[cfg(feature = "ff1")]
            Shape::Short { prefix, redundancy } => {
                Shorts::new(prefix, *redundancy, &plan(Shorts::SCHEME, redundancy.param())?).map(Self::Short)
            }
            #[cfg(feature = "ff1")]
            Shape::Number { stages, .. } => {
                Numbers::new(stages, realm, entity, |name| ring_of(name.or(form.key()))).map(Self::Number)
            }
            #[cfg(feature = "ff1")]
            Shape::Uuid(plain) => Uuids::new(*plain, &plan(Uuids::SCHEME, plain.name())?).map(Self::Uuid),
            _ => Err(FormError::new("form", "this build has no format-preserving encryption: add the feature `ff1`")),
        }
    }
}
