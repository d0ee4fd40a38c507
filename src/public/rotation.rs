//! Which key version owns which ids, and how a text finds its version.
//!
//! Versions own disjoint intervals of ids, so every id has one text and no text needs to say which key it is under.
//! A text is tried under every version that owns anything at present, all of them always, and opens only if exactly
//! one of them both accepts it and owns what comes out.

use mintage_core::AnyId;
use subtle::{Choice, ConditionallySelectable};
use zeroize::Zeroizing;

use crate::public::{
    FormError, PublicIdError,
    keys::{FIRST_VERSION, Keyring, Label, Reissue},
    width::{Limbs, Width},
};

/// Which version owns which ids: from each span's first id to the next span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ownership {
    /// Ascending; the first starts at the lowest id.
    spans: Vec<Span>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Span {
    from: Limbs,
    owner: u32,
    /// Versions whose texts of this span are still opened by `decode_legacy`.
    former: Vec<u32>,
}

/// What the keys of one codec are derived from.
pub(crate) struct KeyPlan<'a> {
    pub(crate) ring: &'a Keyring,
    pub(crate) ownership: Ownership,
    pub(crate) label: Label<'a>,
}

/// One cipher a version, and who owns what.
pub(crate) struct Keyset<T> {
    keys: Vec<Keyed<T>>,
    ownership: Ownership,
}

struct Keyed<T> {
    version: u32,
    cipher: T,
    /// Owns ids at present.
    owns: bool,
    /// Owned ids that were reissued, and is not revoked.
    owned: bool,
}

/// Collects the candidates of one decode in constant time.
#[derive(Default)]
struct Pick {
    id: Limbs,
    found: u32,
}

impl Ownership {
    /// The first version owns everything, for ever.
    pub(crate) fn sole() -> Self {
        Self { spans: vec![Span { from: Limbs::default(), owner: FIRST_VERSION, former: Vec::new() }] }
    }

    /// The versions of `cuts` (ascending) take over at their ids, then `ring`'s reissues move whole spans.
    pub(crate) fn plan(cuts: &[(u32, AnyId)], width: Width, ring: &Keyring) -> Result<Self, FormError> {
        let mut plan = Self::sole();
        for (version, from) in cuts {
            let from = Limbs::of(*from, width)
                .ok_or_else(|| FormError::new("key", format!("version {version} starts at an id of another width")))?;
            plan.cut(*version, from)?;
        }
        let mut reissues: Vec<Reissue> = ring.reissues().to_vec();
        reissues.sort_unstable_by_key(|reissue| reissue.version);
        for Reissue { version, old } in reissues {
            for span in plan.spans.iter_mut().filter(|span| span.owner == old) {
                span.owner = version;
                span.former.push(old);
            }
        }
        plan.spans.iter_mut().for_each(|span| span.former.retain(|version| !ring.is_revoked(*version)));
        match plan.spans.iter().find(|span| ring.is_revoked(span.owner)) {
            None => Ok(plan),
            Some(span) => Err(FormError::new(
                "key",
                format!("version {} is revoked but still owns ids: reissue them under a new version first", span.owner),
            )),
        }
    }

    /// The version that owns `id`.
    pub(crate) fn owner_of(&self, id: Limbs) -> u32 {
        self.span_of(id).map_or(FIRST_VERSION, |span| span.owner)
    }

    /// Whether `version` owns `id`, at one cost for every id: it may be what a wrong text opened as.
    fn is_owner(&self, id: Limbs, version: u32) -> Choice {
        self.holds(id, |span| span.owner == version)
    }

    /// Whether `version` owned `id` before it was reissued.
    fn was_owner(&self, id: Limbs, version: u32) -> Choice {
        self.holds(id, |span| span.former.contains(&version))
    }

    /// Whether the span of `id` is one of those that `ours` names. Looks at all of them, and at `id` in constant time only.
    fn holds(&self, id: Limbs, ours: impl Fn(&Span) -> bool) -> Choice {
        let mut held = Choice::from(0);
        for span in &self.spans {
            // Spans ascend, and the last one that is reached is the one.
            held = Choice::conditional_select(&held, &truth(ours(span)), id.reaches(span.from));
        }
        held
    }

    /// From which id on which version owns.
    pub(crate) fn spans(&self) -> impl Iterator<Item = (Limbs, u32)> {
        self.spans.iter().map(|span| (span.from, span.owner))
    }

    /// Every version that is needed, those of the past included.
    pub(crate) fn versions(&self) -> Vec<u32> {
        let mut versions: Vec<u32> =
            self.spans.iter().flat_map(|span| span.former.iter().copied().chain([span.owner])).collect();
        versions.sort_unstable();
        versions.dedup();
        versions
    }

    /// Every version that owns something at present.
    pub(crate) fn owners(&self) -> Vec<u32> {
        self.versions().into_iter().filter(|version| self.owns(*version)).collect()
    }

    fn cut(&mut self, version: u32, from: Limbs) -> Result<(), FormError> {
        let last = self.spans.last().map_or((FIRST_VERSION, Limbs::default()), |span| (span.owner, span.from));
        if version <= last.0 || from < last.1 {
            let fault = format!(
                "version {version} must not start below version {}: key versions take over in their order",
                last.0
            );
            return Err(FormError::new("key", fault));
        }
        if from == last.1 {
            // The one before owns nothing: this entity has no id that is older than the new key.
            self.spans.pop();
        }
        self.spans.push(Span { from, owner: version, former: Vec::new() });
        Ok(())
    }

    fn span_of(&self, id: Limbs) -> Option<&Span> {
        self.spans.iter().rev().find(|span| span.from <= id)
    }

    fn owns(&self, version: u32) -> bool {
        self.spans.iter().any(|span| span.owner == version)
    }

    fn owned(&self, version: u32) -> bool {
        self.spans.iter().any(|span| span.former.contains(&version))
    }
}

impl KeyPlan<'_> {
    /// What a cipher that takes a tweak is tweaked with.
    #[cfg(feature = "ff1")]
    pub(crate) fn tweak(&self) -> &[u8] {
        self.label.entity.as_bytes()
    }

    /// One cipher for every version that owns or owned ids, each from a key of `N` bytes.
    pub(crate) fn keyset<T, const N: usize>(
        &self,
        cipher: impl Fn(&Zeroizing<[u8; N]>) -> Result<T, FormError>,
    ) -> Result<Keyset<T>, FormError> {
        Keyset::new(self.ownership.clone(), |version| {
            let key = self.ring.derive(version, &self.label).ok_or_else(|| FormError::no_key(version))?;
            cipher(&key)
        })
    }
}

impl<T> Keyset<T> {
    fn new(ownership: Ownership, cipher: impl Fn(u32) -> Result<T, FormError>) -> Result<Self, FormError> {
        let keys = ownership
            .versions()
            .into_iter()
            .map(|version| {
                let (owns, owned) = (ownership.owns(version), ownership.owned(version));
                Ok(Keyed { version, cipher: cipher(version)?, owns, owned })
            })
            .collect::<Result<Vec<_>, FormError>>()?;
        Ok(Self { keys, ownership })
    }

    /// Who owns what.
    pub(crate) fn ownership(&self) -> &Ownership {
        &self.ownership
    }

    /// The cipher of the version that owns `id`.
    pub(crate) fn owner_of(&self, id: Limbs) -> Result<&T, PublicIdError> {
        self.of_version(self.ownership.owner_of(id)).ok_or(PublicIdError::Internal)
    }

    /// The cipher of a version.
    pub(crate) fn of_version(&self, version: u32) -> Option<&T> {
        self.keys.iter().find(|key| key.version == version).map(|key| &key.cipher)
    }

    /// The one id that one of the present owners accepts and owns.
    pub(crate) fn open(&self, open: impl Fn(&T, u32) -> (Limbs, Choice)) -> Result<Limbs, PublicIdError> {
        let mut pick = Pick::default();
        for key in self.keys.iter().filter(|key| key.owns) {
            let (id, accepted) = open(&key.cipher, key.version);
            pick.take(id, accepted & self.ownership.is_owner(id, key.version));
        }
        pick.one()
    }

    /// As [`open`](Self::open), for texts written before their ids were reissued.
    pub(crate) fn open_former(&self, open: impl Fn(&T, u32) -> (Limbs, Choice)) -> Result<Limbs, PublicIdError> {
        let mut pick = Pick::default();
        for key in self.keys.iter().filter(|key| key.owned) {
            let (id, accepted) = open(&key.cipher, key.version);
            pick.take(id, accepted & self.ownership.was_owner(id, key.version));
        }
        pick.one()
    }
}

impl Pick {
    fn take(&mut self, id: Limbs, valid: Choice) {
        self.id.conditional_assign(&id, valid);
        self.found += u32::from(valid.unwrap_u8());
    }

    /// Two that fit is a chance of 2^-64 or (for `short`) 2^-32 a text: then neither is opened, rather than the wrong one.
    fn one(self) -> Result<Limbs, PublicIdError> {
        if self.found == 1 { Ok(self.id) } else { Err(PublicIdError::Rejected) }
    }
}

fn truth(of: bool) -> Choice {
    Choice::from(u8::from(of))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(lines: &str) -> Keyring {
        let keys = "1 = AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n2 = ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=\n\
                    3 = ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pzw=\n";
        Keyring::parse(&format!("{keys}{lines}"), "test").unwrap()
    }

    fn owners(plan: &Ownership, ids: [u64; 4]) -> [u32; 4] {
        ids.map(|id| plan.owner_of(Limbs::int(id)))
    }

    #[test]
    fn versions_own_half_open_intervals() {
        let cuts = [(2, AnyId::Int(100)), (3, AnyId::Int(200))];
        let plan = Ownership::plan(&cuts, Width::Int, &ring("")).unwrap();
        assert_eq!(owners(&plan, [0, 99, 100, 199]), [1, 1, 2, 2]);
        assert_eq!(owners(&plan, [200, u64::MAX, 1, 150]), [3, 3, 1, 2]);
        assert_eq!((plan.owners(), plan.versions()), (vec![1, 2, 3], vec![1, 2, 3]));
        let cuts = [(2, AnyId::Int(0)), (3, AnyId::Int(100)), (4, AnyId::Int(100))];
        let plan = Ownership::plan(&cuts, Width::Int, &ring("")).unwrap();
        assert_eq!((owners(&plan, [0, 99, 100, 199]), plan.versions()), ([2, 2, 4, 4], vec![2, 4]));
        for wrong in [
            [(2, AnyId::Int(100)), (3, AnyId::Int(50))],
            [(3, AnyId::Int(100)), (2, AnyId::Int(200))],
            [(1, AnyId::Int(100)), (3, AnyId::Int(200))],
            [(2, AnyId::Wide(100)), (3, AnyId::Int(200))],
        ] {
            assert!(Ownership::plan(&wrong, Width::Int, &ring("")).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_reissue_moves_every_span_and_remembers_until_revoked() {
        let cuts = [(2, AnyId::Int(100))];
        let plan = Ownership::plan(&cuts, Width::Int, &ring("3.reissues = 1")).unwrap();
        assert_eq!(owners(&plan, [0, 99, 100, 199]), [3, 3, 2, 2]);
        assert_eq!((plan.owners(), plan.versions()), (vec![2, 3], vec![1, 2, 3]));
        let plan = Ownership::plan(&cuts, Width::Int, &ring("3.reissues = 1\n1.revoked = true")).unwrap();
        assert_eq!(plan.versions(), [2, 3]);
        let plan = Ownership::plan(&cuts, Width::Int, &ring("3.reissues = 2\n2.reissues = 1")).unwrap();
        assert_eq!(owners(&plan, [0, 99, 100, 199]), [3, 3, 3, 3]);
        assert_eq!(plan.versions(), [1, 2, 3]);
        assert!(Ownership::plan(&cuts, Width::Int, &ring("1.revoked = true")).is_err());
    }

    /// The way of equal cost finds the same owner.
    #[test]
    fn owners_are_the_same_on_both_ways() {
        let cuts = [(2, AnyId::Int(100)), (3, AnyId::Int(200))];
        let plan = Ownership::plan(&cuts, Width::Int, &ring("3.reissues = 1")).unwrap();
        for id in [0, 1, 99, 100, 101, 199, 200, 201, u64::MAX].map(Limbs::int) {
            for version in 1..=4 {
                assert_eq!(bool::from(plan.is_owner(id, version)), plan.owner_of(id) == version, "{id:?} {version}");
                let owned = plan.span_of(id).is_some_and(|span| span.former.contains(&version));
                assert_eq!(bool::from(plan.was_owner(id, version)), owned, "{id:?} {version}");
            }
        }
    }

    #[test]
    fn a_text_that_two_versions_accept_is_refused() {
        let plan = Ownership::plan(&[(2, AnyId::Int(100))], Width::Int, &ring("")).unwrap();
        let keys = Keyset::new(plan, Ok).unwrap();
        let both = |_: &u32, version| (Limbs::int(if version == 1 { 5 } else { 500 }), Choice::from(1));
        assert_eq!(keys.open(both), Err(PublicIdError::Rejected));
        let stranger = |_: &u32, version| (Limbs::int(if version == 1 { 500 } else { 5 }), Choice::from(1));
        assert_eq!(keys.open(stranger), Err(PublicIdError::Rejected), "neither owns what it opened");
        let one = |_: &u32, version| (Limbs::int(500), Choice::from(u8::from(version == 2)));
        assert_eq!(keys.open(one), Ok(Limbs::int(500)));
        assert_eq!(keys.open_former(one), Err(PublicIdError::Rejected));
    }
}
