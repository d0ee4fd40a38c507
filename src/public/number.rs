//! Order numbers that hide how many orders there are: a permutation of a block of numbers, and a check digit.
//!
//! FF1 permutes all numerals of one length; a result beyond the block is permuted again until it lies within (cycle
//! walking), which gives a permutation of exactly the block. A stage never changes its key: a sequence that outgrows
//! its numbers gets another stage.

use crate::public::{
    EncodeError, FormError, Malformed, PublicIdError, PublicText, damm,
    ff1::Ff1,
    form::{DIGITS_MAX, Stage},
    keys::{FIRST_VERSION, Keyring, Label},
};

/// A walk longer than this is a fault, not bad luck: a block fills at least a tenth of its numerals, so the odds are
/// 0.9^1000, or 10^-45.
const WALK_STEPS_MAX: u32 = 1000;
/// Numerals are at least this long, so that the domain has a million of them.
const NUMERAL_DIGITS_MIN: u32 = 6;

/// Numbers of one entity.
pub(crate) struct Numbers {
    /// By ascending id.
    stages: Vec<KeyedStage>,
}

struct KeyedStage {
    base: u64,
    /// How many of its ids may be used: all, or as many as there are before the next stage begins.
    ids: u64,
    lo: u64,
    hi: u64,
    cipher: Ff1,
}

impl Numbers {
    pub(crate) const SCHEME: &str = "num-ff1";

    /// `ring_of` finds the key ring of a stage.
    pub(crate) fn new<'k>(
        stages: &[Stage],
        realm: &str,
        entity: &str,
        ring_of: impl Fn(Option<&str>) -> Option<&'k Keyring>,
    ) -> Result<Self, FormError> {
        let keyed = stages.iter().enumerate().map(|(at, stage)| {
            let label = Label { scheme: Self::SCHEME, realm, entity, params: &stage.params() };
            let key = ring_of(stage.key.as_deref())
                .ok_or_else(|| FormError::no_ring(stage.key.as_deref()))?
                .derive::<32>(FIRST_VERSION, &label)
                .ok_or_else(|| FormError::no_key(FIRST_VERSION))?;
            let digits = (stage.room() - 1).checked_ilog10().map_or(1, |log| log + 1).max(NUMERAL_DIGITS_MIN);
            let cipher = Ff1::keyed(&key, 10, digits, entity.as_bytes())?;
            let ids = stages.get(at + 1).map_or(stage.room(), |next| next.base - stage.base);
            Ok(KeyedStage { base: stage.base, ids, lo: stage.lo, hi: stage.hi, cipher })
        });
        Ok(Self { stages: keyed.collect::<Result<_, FormError>>()? })
    }

    pub(crate) fn encode(&self, id: u64) -> Result<PublicText, PublicIdError> {
        let stage = self.stages.iter().rev().find(|stage| stage.base <= id).ok_or(EncodeError::OutOfRange)?;
        let offset = id - stage.base;
        if offset >= stage.ids {
            return Err(EncodeError::StageExhausted.into());
        }
        spell(stage.lo + stage.walk(offset, |cipher, halves| cipher.encrypt(halves))?)
    }

    pub(crate) fn decode(&self, text: &str) -> Result<u64, PublicIdError> {
        let payload = self.payload(text.as_bytes())?;
        let stage = self.stages.iter().find(|stage| (stage.lo..stage.hi).contains(&payload));
        let stage = stage.ok_or(Malformed::OutOfInterval)?;
        let offset = stage.walk(payload - stage.lo, |cipher, halves| cipher.decrypt(halves))?;
        // Numbers of ids that belong to the next stage are never given out.
        if offset < stage.ids { Ok(stage.base + offset) } else { Err(PublicIdError::Rejected) }
    }

    /// What the digits before the check digit say. Read by hand: `parse` would take a plus sign.
    fn payload(&self, text: &[u8]) -> Result<u64, Malformed> {
        let widths = |stage: &KeyedStage| stage.lo.checked_ilog10().map_or(0, |log| log as usize + 2);
        if !self.stages.iter().any(|stage| widths(stage) == text.len()) {
            return Err(Malformed::Length);
        }
        match damm::check(text) {
            None => Err(Malformed::Alphabet),
            Some(0) => Ok(text[..text.len() - 1].iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0'))),
            Some(_) => Err(Malformed::CheckDigit),
        }
    }
}

impl KeyedStage {
    fn walk(&self, from: u64, step: impl Fn(&Ff1, (u64, u64)) -> (u64, u64)) -> Result<u64, PublicIdError> {
        let half = self.cipher.right();
        let mut at = from;
        for _ in 0..WALK_STEPS_MAX {
            let (left, right) = step(&self.cipher, (at / half, at % half));
            at = left * half + right;
            if at < self.hi - self.lo {
                return Ok(at);
            }
        }
        Err(PublicIdError::Internal)
    }
}

fn spell(payload: u64) -> Result<PublicText, PublicIdError> {
    let mut digits = [b'0'; DIGITS_MAX as usize];
    let width = payload.checked_ilog10().map_or(1, |log| log as usize + 1);
    let (payload_digits, check) = digits.split_at_mut_checked(width).ok_or(PublicIdError::Internal)?;
    let mut rest = payload;
    for digit in payload_digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    *check.first_mut().ok_or(PublicIdError::Internal)? =
        b'0' + damm::check(payload_digits).ok_or(PublicIdError::Internal)?;
    PublicText::compose("", width + 1, |text| text.copy_from_slice(&digits[..=width]))
}
