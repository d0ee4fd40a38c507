//! What `scheme = "…"` may say, with the keys that come along: the catalog's schemes, and bearer tokens.

use mintage_core::plugin::{Catalog, Key};

use super::keys::{BEARER, BEARER_ABOUT, ENTITY, TOKENS};

/// A value of `scheme`.
pub(super) struct Offer {
    pub(super) name: &'static str,
    /// One line for lists and editors.
    pub(super) about: &'static str,
    /// Every key of its entities.
    pub(super) keys: Vec<Key>,
}

impl Offer {
    /// All there are, by name.
    pub(super) fn all(catalog: &Catalog) -> Vec<Self> {
        // A stranger's scheme of that name would be read as ours.
        let mut offers: Vec<Self> = catalog
            .schemes()
            .iter()
            .filter(|factory| factory.name() != BEARER)
            .map(|factory| {
                let keys = ENTITY.iter().chain(factory.keys()).copied().collect();
                Self { name: factory.name(), about: factory.about(), keys }
            })
            .collect();
        offers.push(Self { name: BEARER, about: BEARER_ABOUT, keys: TOKENS.to_vec() });
        offers.sort_by_key(|offer| offer.name);
        offers
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.keys.iter().any(|known| known.name == key)
    }
}
