//! Which public text an entity's ids get, as decided in the config: settings that are known to be sound.
//!
//! A form exists only if it is sound: whatever can be refused without a key is refused while it is made.

use std::ops::Range;

use mintage_core::{AnyId, AnyScheme, Bits, Format};

use crate::public::{
    Alphabet,
    keys::{Keyring, StartAt},
    width::Width,
};

/// Fewest digits of a number, check digit included: with one less there are under a million.
pub(crate) const DIGITS_MIN: u32 = 8;
/// Most digits of a number, check digit included: one more and it looks like a bank card.
pub(crate) const DIGITS_MAX: u32 = 15;
/// Fewest numbers a stage may have (SP 800-38G Rev. 1).
pub(crate) const STAGE_SIZE_MIN: u64 = 1_000_000;
/// At which share of its numbers in use `check` warns, unless the config says otherwise.
pub const MAX_FILL_DEFAULT: f64 = 0.001;
/// How long a prefix may be.
const PREFIX_LEN: std::ops::RangeInclusive<usize> = 2..=32;

/// The public form of one entity, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct PublicForm {
    bits: Bits,
    shape: Shape,
    /// The name in `[keys]`, where the config gives one.
    key: Option<String>,
    cuts: Vec<(u32, AnyId)>,
}

/// What distinguishes the forms.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shape {
    Token { prefix: String, alphabet: Alphabet, context: bool },
    Short { prefix: String, redundancy: Redundancy },
    Number { stages: Vec<Stage>, max_fill: f64, group: Option<u8> },
    Uuid(UuidPlain),
    Plain,
}

/// How much of a `short` text shows that it was not made up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Redundancy {
    /// None: every text of the right shape opens something. Obfuscation only; 13 symbols.
    None,
    /// 32 bits: one text in four billion does. 20 symbols.
    Bits32,
}

/// What a public UUID hides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UuidPlain {
    /// A 64-bit id; tampering is refused but for one text in 2^58.
    I64,
    /// A UUIDv7; every text opens something, and the key can never be rotated.
    U7,
    /// A UUIDv7 until the year 2109, with the key version in clear so that the key can be rotated.
    U7K4,
    /// A ULID whose time is below 2^42; every text opens something, and the key can never be rotated.
    Ulid42,
}

/// A block of ids and the block of numbers they appear as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// The first id. The stage ends where the next one begins.
    pub base: u64,
    /// The smallest number, without its check digit.
    pub lo: u64,
    /// One past the largest number, without its check digit.
    pub hi: u64,
    /// The name in `[keys]`, if not the entity's.
    pub key: Option<String>,
}

/// How much of the present stage is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// Ids of the stage up to and including the one asked about.
    pub used: u64,
    /// Numbers the stage has.
    pub room: u64,
}

/// Why a form cannot be: which key of `public = { … }` is at fault, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {message}")]
pub struct FormError {
    key: &'static str,
    message: String,
}

impl PublicForm {
    /// `ord_7km1dzhmsjg36ctn1d9mvat54y`: authenticated and deterministic. The default.
    ///
    /// # Errors
    /// If the prefix breaks its grammar.
    pub fn token(prefix: &str, bits: Bits) -> Result<Self, FormError> {
        Width::of(bits).ok_or_else(|| FormError::new("form", "a token takes ids of 64, 128 or 160 bits"))?;
        let prefix = checked_prefix(prefix)?;
        Ok(Self::of(bits, Shape::Token { prefix, alphabet: Alphabet::Crockford, context: false }))
    }

    /// The token in other symbols. Base62 differs in upper and lower case: only where nothing folds case.
    ///
    /// # Errors
    /// On any form but a token without context.
    pub fn in_alphabet(mut self, symbols: Alphabet) -> Result<Self, FormError> {
        match &mut self.shape {
            Shape::Token { alphabet, context, .. } if !*context || symbols == Alphabet::Crockford => {
                *alphabet = symbols
            }
            _ => return Err(FormError::new("alphabet", "only for `form = \"token\"` without context")),
        }
        Ok(self)
    }

    /// The token bound to a tenant or user that is named at run time; it opens for nobody else.
    ///
    /// # Errors
    /// On any form but a token in Crockford's alphabet.
    pub fn with_context(mut self) -> Result<Self, FormError> {
        match &mut self.shape {
            Shape::Token { alphabet: Alphabet::Crockford, context, .. } => *context = true,
            _ => return Err(FormError::new("context", "only for `form = \"token\"` in the crockford alphabet")),
        }
        Ok(self)
    }

    /// `ord_` and 20 or 13 symbols, for links people type: weakly authenticated, or obfuscation only.
    ///
    /// # Errors
    /// If the prefix breaks its grammar.
    pub fn short(prefix: &str, redundancy: Redundancy) -> Result<Self, FormError> {
        let prefix = checked_prefix(prefix)?;
        Ok(Self::of(Bits::Int, Shape::Short { prefix, redundancy }))
    }

    /// Numbers of `digits` digits, check digit included, for the ids of a dense sequence from `start` on.
    ///
    /// # Errors
    /// Unless there are 8 to 15 digits.
    pub fn number(digits: u32, start: u64) -> Result<Self, FormError> {
        if !(DIGITS_MIN..=DIGITS_MAX).contains(&digits) {
            let message = format!("{digits} digits: write {DIGITS_MIN} to {DIGITS_MAX}, check digit included");
            return Err(FormError::new("digits", message));
        }
        let lo = 10u64.pow(digits - 2);
        Self::stages(vec![Stage { base: start, lo, hi: lo * 10, key: None }])
    }

    /// Numbers whose width or leading digits change as the sequence grows.
    ///
    /// # Errors
    /// Unless every stage has a million numbers of one width, all blocks are disjoint, and no id falls between two.
    pub fn stages(stages: Vec<Stage>) -> Result<Self, FormError> {
        if stages.is_empty() {
            return Err(FormError::new("stages", "empty: write `digits = 12`, or one stage at least"));
        }
        for (at, stage) in stages.iter().enumerate() {
            check_stage(stage, stages.get(at + 1))
                .map_err(|fault| FormError::new("stages", format!("[{at}] {fault}")))?;
            if let Some(other) = stages[..at].iter().position(|other| overlap(&other.range(), &stage.range())) {
                let fault = format!("[{at}] and [{other}] share numbers: give each its own block");
                return Err(FormError::new("stages", fault));
            }
        }
        Ok(Self::of(Bits::Int, Shape::Number { stages, max_fill: MAX_FILL_DEFAULT, group: None }))
    }

    /// Warns once this share of a stage's numbers is in use.
    ///
    /// # Errors
    /// On any form but numbers, or unless the share lies above 0 and at most at 1.
    pub fn with_max_fill(mut self, share: f64) -> Result<Self, FormError> {
        match &mut self.shape {
            Shape::Number { max_fill, .. } if share > 0.0 && share <= 1.0 => *max_fill = share,
            Shape::Number { .. } => {
                return Err(FormError::new("max_fill", "a share above 0 and at most 1, such as 0.001"));
            }
            _ => return Err(FormError::new("max_fill", "only for `form = \"number\"`")),
        }
        Ok(self)
    }

    /// Shows numbers to people in groups of so many digits.
    ///
    /// # Errors
    /// On any form but numbers, or unless the group has 1 to 15 digits.
    pub fn in_groups_of(mut self, digits: u8) -> Result<Self, FormError> {
        match &mut self.shape {
            Shape::Number { group, .. } if digits > 0 && u32::from(digits) <= DIGITS_MAX => *group = Some(digits),
            Shape::Number { .. } => return Err(FormError::new("group", format!("write 1 to {DIGITS_MAX} digits"))),
            _ => return Err(FormError::new("group", "only for `form = \"number\"`")),
        }
        Ok(self)
    }

    /// A UUIDv8, for interfaces that insist on a UUID.
    pub fn uuid(plain: UuidPlain) -> Self {
        Self::of(if plain == UuidPlain::I64 { Bits::Int } else { Bits::Wide }, Shape::Uuid(plain))
    }

    /// The scheme's own text: nothing is hidden.
    pub fn plain(bits: Bits) -> Self {
        Self::of(bits, Shape::Plain)
    }

    /// Under the keys of this name of `[keys]`.
    #[must_use]
    pub fn under_key(mut self, name: impl Into<String>) -> Self {
        self.key = Some(name.into());
        self
    }

    /// Key `version` owns the ids from `from` on. Forms whose key can never change ignore it.
    #[must_use]
    pub fn owned_from(mut self, version: u32, from: AnyId) -> Self {
        self.cuts.push((version, from));
        self.cuts.sort_unstable_by_key(|(version, _)| *version);
        self
    }

    /// Takes over the starts that `ring` names for this entity; `scheme` says which id a time begins at.
    ///
    /// A number named for the entity goes before a time. Versions that name no start for an entity own none of its ids.
    #[must_use]
    pub fn rotated_by(self, ring: &Keyring, entity: &str, scheme: &AnyScheme) -> Self {
        ring.versions().fold(self, |form, version| {
            let starts = || ring.starts().iter().filter(|start| start.version == version).map(|start| &start.at);
            let number = starts().find_map(|at| match at {
                StartAt::Number { entity: named, from } if named == entity => Some(AnyId::Int(*from)),
                _ => None,
            });
            let time = || {
                starts().find_map(|at| match at {
                    StartAt::Time { unix_ms } => first_id_at(scheme, *unix_ms),
                    StartAt::Number { .. } => None,
                })
            };
            match number.or_else(time) {
                Some(from) => form.owned_from(version, from),
                None => form,
            }
        })
    }

    /// Its name in the config.
    pub fn name(&self) -> &'static str {
        match self.shape {
            Shape::Token { .. } => "token",
            Shape::Short { .. } => "short",
            Shape::Number { .. } => "number",
            Shape::Uuid(_) => "uuid",
            Shape::Plain => "plain",
        }
    }

    /// The width of the ids it takes.
    pub fn bits(&self) -> Bits {
        self.bits
    }

    /// What its texts begin with, without the `_`.
    pub fn prefix(&self) -> Option<&str> {
        match &self.shape {
            Shape::Token { prefix, .. } | Shape::Short { prefix, .. } => Some(prefix),
            _ => None,
        }
    }

    /// Whether a context is needed at run time.
    pub fn takes_context(&self) -> bool {
        matches!(self.shape, Shape::Token { context: true, .. })
    }

    /// Whether upper and lower case differ: such texts must not be kept in a column that folds case.
    pub fn is_case_sensitive(&self) -> bool {
        matches!(self.shape, Shape::Token { alphabet: Alphabet::Base62, .. })
    }

    /// Whether a key is needed at all.
    pub fn needs_key(&self) -> bool {
        self.shape != Shape::Plain
    }

    /// The name in `[keys]`, where the config gives one.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// The names in `[keys]` that stages give of their own.
    pub fn stage_keys(&self) -> impl Iterator<Item = &str> {
        let stages = match &self.shape {
            Shape::Number { stages, .. } => stages.as_slice(),
            _ => &[],
        };
        stages.iter().filter_map(|stage| stage.key.as_deref())
    }

    /// How many digits stand together when a number is shown to people.
    pub fn group(&self) -> Option<u8> {
        match self.shape {
            Shape::Number { group, .. } => group,
            _ => None,
        }
    }

    /// Whether later key versions can take over: not where every text opens something, for then two versions would.
    pub fn rotates(&self) -> bool {
        match self.shape {
            Shape::Token { .. } | Shape::Short { redundancy: Redundancy::Bits32, .. } => true,
            Shape::Uuid(plain) => matches!(plain, UuidPlain::I64 | UuidPlain::U7K4),
            _ => false,
        }
    }

    /// How much of the stage of `id` is in use if `id` is its newest id. `None` on other forms and outside every stage.
    pub fn fill(&self, id: u64) -> Option<Fill> {
        let Shape::Number { stages, .. } = &self.shape else { return None };
        let stage = stages.iter().rev().find(|stage| stage.base <= id)?;
        let used = (id - stage.base).checked_add(1).filter(|used| *used <= stage.room())?;
        Some(Fill { used, room: stage.room() })
    }

    /// Whether so much is in use that numbers can be guessed: time for a new stage.
    pub fn is_too_full(&self, fill: Fill) -> bool {
        matches!(self.shape, Shape::Number { max_fill, .. } if fill.ratio() > max_fill)
    }

    /// Two entities of one realm must share neither a prefix nor a number: names those that do, with what to change.
    pub fn clashes(forms: &[(&str, &Self)]) -> Vec<(String, FormError)> {
        let mut found = Vec::new();
        for (at, (entity, form)) in forms.iter().enumerate() {
            for (other, before) in &forms[..at] {
                if let Some(error) = form.clash_with(before, other) {
                    found.push(((*entity).to_owned(), error));
                }
            }
        }
        found
    }

    /// Adds to an entity's format what of its public form must never change in `realm`.
    pub(crate) fn pin(&self, format: Format, realm: &str) -> Format {
        let format = format.growing("public", self.name()).growing("public.realm", realm);
        let format = match self.prefix() {
            Some(prefix) => format.growing("public.prefix", prefix),
            None => format,
        };
        match &self.shape {
            Shape::Token { alphabet, context, .. } => {
                format.growing("public.alphabet", alphabet.name()).growing("public.context", context)
            }
            Shape::Short { redundancy, .. } => format.growing("public.params", redundancy.param()),
            Shape::Uuid(plain) => format.growing("public.params", plain.name()),
            Shape::Number { stages, .. } => stages.iter().enumerate().fold(format, |format, (at, stage)| {
                format.growing(&format!("public.stage.{at}"), format!("base={};{}", stage.base, stage.params()))
            }),
            Shape::Plain => format,
        }
    }

    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    /// From where on later versions own ids, in their order; none where the key can never change.
    pub(crate) fn cuts(&self) -> &[(u32, AnyId)] {
        if self.rotates() { &self.cuts } else { &[] }
    }

    fn of(bits: Bits, shape: Shape) -> Self {
        Self { bits, shape, key: None, cuts: Vec::new() }
    }

    fn clash_with(&self, other: &Self, entity: &str) -> Option<FormError> {
        match (&self.shape, &other.shape) {
            (Shape::Number { stages, .. }, Shape::Number { stages: others, .. }) => {
                let shares = |stage: &Stage| others.iter().any(|other| overlap(&other.range(), &stage.range()));
                stages.iter().any(shares).then(|| {
                    let message = format!(
                        "{entity} gives out numbers of this block too: choose other `digits`, or `stages` with other leading digits"
                    );
                    FormError::new("digits", message)
                })
            }
            _ => self.prefix().filter(|prefix| other.prefix() == Some(prefix)).map(|prefix| {
                FormError::new("prefix", format!("{entity} has the prefix {prefix:?} too: each entity needs its own"))
            }),
        }
    }
}

impl Stage {
    /// How many numbers it has.
    pub fn room(&self) -> u64 {
        self.hi.saturating_sub(self.lo)
    }

    pub(crate) fn range(&self) -> Range<u64> {
        self.lo..self.hi
    }

    /// What stands for it in its key's label.
    pub(crate) fn params(&self) -> String {
        format!("lo={};hi={};chk=damm", self.lo, self.hi)
    }
}

impl Redundancy {
    /// How many bits.
    pub(crate) fn bits(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Bits32 => 32,
        }
    }

    /// What stands for it in a key's label.
    pub(crate) fn param(self) -> &'static str {
        match self {
            Self::None => "w64",
            Self::Bits32 => "w64;r32",
        }
    }
}

impl UuidPlain {
    /// Its name in the config and in a key's label.
    pub fn name(self) -> &'static str {
        match self {
            Self::I64 => "i64",
            Self::U7 => "u7",
            Self::U7K4 => "u7k4",
            Self::Ulid42 => "ulid42",
        }
    }
}

impl Fill {
    /// Used over room.
    pub fn ratio(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a share, told roughly")]
        let ratio = self.used as f64 / self.room as f64;
        ratio
    }
}

impl FormError {
    /// With the key of `public = { … }` at fault and what to write instead.
    pub fn new(key: &'static str, message: impl Into<String>) -> Self {
        Self { key, message: message.into() }
    }

    /// The key of `public = { … }` at fault.
    pub fn key(&self) -> &'static str {
        self.key
    }

    /// What is wrong and what to write.
    pub fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn no_key(version: u32) -> Self {
        Self::new("key", format!("the key ring has no version {version}, which owns ids: put its line back"))
    }

    pub(crate) fn no_ring(name: Option<&str>) -> Self {
        match name {
            Some(name) => {
                Self::new("key", format!("there are no keys {name:?}: add [keys.{name}], or correct the name"))
            }
            None => Self::new("key", "says not which keys: write the name of a block of [keys]"),
        }
    }
}

/// `seg *("_" seg)` of lower-case letters and digits, each segment a letter first.
pub(crate) fn is_prefix(text: &str) -> bool {
    let is_segment = |segment: &str| {
        segment.bytes().next().is_some_and(|first| first.is_ascii_lowercase())
            && segment.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    PREFIX_LEN.contains(&text.len()) && text.split('_').all(is_segment)
}

fn checked_prefix(text: &str) -> Result<String, FormError> {
    if is_prefix(text) {
        return Ok(text.to_owned());
    }
    let message = format!(
        "{text:?} is no prefix: {} to {} of a-z and 0-9, in parts joined by `_` that each begin with a letter, such as ord",
        PREFIX_LEN.start(),
        PREFIX_LEN.end()
    );
    Err(FormError::new("prefix", message))
}

fn check_stage(stage: &Stage, next: Option<&Stage>) -> Result<(), String> {
    let Stage { base, lo, hi, .. } = *stage;
    if lo >= hi || stage.room() < STAGE_SIZE_MIN {
        return Err(format!("{lo} to {hi} has under {STAGE_SIZE_MIN} numbers: so few can be read off"));
    }
    let digits = lo.checked_ilog10().map_or(0, |log| log + 1);
    if hi > 10u64.saturating_pow(digits) {
        return Err(format!("{lo} to {hi} has numbers of two widths: end at {} at most", 10u64.saturating_pow(digits)));
    }
    // One more for the check digit.
    if !(DIGITS_MIN..=DIGITS_MAX).contains(&(digits + 1)) {
        return Err(format!("{lo} has {digits} digits: {} to {}, check digit aside", DIGITS_MIN - 1, DIGITS_MAX - 1));
    }
    if base.checked_add(stage.room()).is_none() {
        return Err(format!("begins at id {base}: its last ids do not fit 64 bits"));
    }
    let Some(next) = next else { return Ok(()) };
    if next.base <= base {
        return Err(format!(
            "begins at id {base} and the next stage at {}: begin each above the one before",
            next.base
        ));
    }
    if next.base - base > stage.room() {
        return Err(format!("ends at id {} and the next stage begins at {}", base + stage.room(), next.base));
    }
    Ok(())
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

/// The smallest id that is stamped at `unix_ms` or later.
fn first_id_at(scheme: &AnyScheme, unix_ms: i64) -> Option<AnyId> {
    let last_ms = scheme.runs_out().unwrap_or(i64::MAX).max(unix_ms);
    scheme.range_at(unix_ms, last_ms).map(|(first, _)| first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(base: u64, lo: u64, hi: u64) -> Stage {
        Stage { base, lo, hi, key: None }
    }

    #[test]
    fn prefixes_follow_their_grammar() {
        for good in ["us", "ord", "ord2", "acme_ord", "a_b", &"a".repeat(32)] {
            assert!(PublicForm::token(good, Bits::Int).is_ok(), "{good}");
        }
        for bad in
            ["", "o", "Ord", "ord_", "_ord", "ord__er", "2ord", "ord_2", "ord-er", "örd", "or d", &"a".repeat(33)]
        {
            let told = PublicForm::token(bad, Bits::Int).unwrap_err();
            assert_eq!(told.key(), "prefix", "{bad}");
            assert!(told.message().contains("such as ord"), "{told}");
        }
    }

    #[test]
    fn alphabets_and_context_are_for_tokens_and_not_for_both() {
        let token = || PublicForm::token("ord", Bits::Long).unwrap();
        assert!(token().in_alphabet(Alphabet::Base62).unwrap().is_case_sensitive());
        assert!(token().with_context().unwrap().takes_context());
        assert_eq!(token().with_context().unwrap().in_alphabet(Alphabet::NoVowel).unwrap_err().key(), "alphabet");
        assert_eq!(token().in_alphabet(Alphabet::Base62).unwrap().with_context().unwrap_err().key(), "context");
        let short = PublicForm::short("ord", Redundancy::Bits32).unwrap();
        assert!(short.clone().with_context().is_err() && short.in_alphabet(Alphabet::Crockford).is_err());
        assert!(PublicForm::uuid(UuidPlain::I64).with_max_fill(0.1).is_err());
    }

    #[test]
    fn numbers_have_room_one_width_and_no_gap() {
        for digits in 8..=15 {
            let form = PublicForm::number(digits, 1).unwrap();
            let room = 9 * 10u64.pow(digits - 2);
            assert_eq!(form.fill(1), Some(Fill { used: 1, room }));
            assert_eq!((form.fill(0), form.fill(room + 1)), (None, None));
        }
        for digits in [0, 7, 16, 20] {
            assert_eq!(PublicForm::number(digits, 1).unwrap_err().key(), "digits");
        }
        let wrong = [
            vec![],
            vec![stage(1, 1_000_000, 1_999_999)],
            vec![stage(1, 2_000_000, 1_000_000)],
            vec![stage(1, 0, 5_000_000)],
            vec![stage(1, 100_000, 1_000_000)],
            vec![stage(1, 9_000_000, 11_000_000)],
            vec![stage(1, 100_000_000_000_000, 900_000_000_000_000)],
            vec![stage(1, u64::MAX - 2_000_000, u64::MAX)],
            vec![stage(u64::MAX - 5, 1_000_000, 5_000_000)],
            vec![stage(1, 1_000_000, 5_000_000), stage(1, 5_000_000, 9_000_000)],
            vec![stage(1, 1_000_000, 5_000_000), stage(3_000_000, 4_000_000, 9_000_000)],
            vec![stage(1, 1_000_000, 5_000_000), stage(4_000_002, 5_000_000, 9_000_000)],
        ];
        for stages in wrong {
            let told = PublicForm::stages(stages.clone());
            assert!(told.is_err(), "{stages:?}");
        }
        let growing = vec![
            stage(1, 1_000_000, 5_000_000),
            stage(4_000_001, 5_000_000, 9_000_000),
            stage(6_000_000, 10_000_000, 90_000_000),
        ];
        let form = PublicForm::stages(growing).unwrap();
        assert_eq!(form.fill(4_000_000), Some(Fill { used: 4_000_000, room: 4_000_000 }));
        assert_eq!(form.fill(4_000_001), Some(Fill { used: 1, room: 4_000_000 }));
    }

    #[test]
    fn a_number_form_says_when_it_is_too_full() {
        let form = PublicForm::number(8, 1).unwrap();
        let at = |form: &PublicForm, id| form.is_too_full(form.fill(id).unwrap());
        assert!(!at(&form, 9_000) && at(&form, 9_001));
        let form = form.with_max_fill(0.5).unwrap();
        assert!(!at(&form, 4_500_000) && at(&form, 4_500_001));
        for wrong in [0.0, -0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert!(PublicForm::number(8, 1).unwrap().with_max_fill(wrong).is_err());
        }
    }

    #[test]
    fn entities_share_neither_prefix_nor_number() {
        let ord = PublicForm::token("ord", Bits::Int).unwrap();
        let link = PublicForm::short("ord", Redundancy::Bits32).unwrap();
        let twelve = PublicForm::number(12, 1).unwrap();
        let ten = PublicForm::number(10, 1).unwrap();
        let part = PublicForm::stages(vec![stage(1, 50_000_000_000, 60_000_000_000)]).unwrap();
        assert!(PublicForm::clashes(&[("orders", &ord), ("invoices", &twelve), ("bills", &ten)]).is_empty());
        let found = PublicForm::clashes(&[("orders", &ord), ("links", &link), ("invoices", &twelve), ("bills", &part)]);
        let told: Vec<_> = found.iter().map(|(entity, error)| (entity.as_str(), error.key())).collect();
        assert_eq!(told, [("links", "prefix"), ("bills", "digits")]);
    }
}
