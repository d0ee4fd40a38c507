//! What the values of a config mean together: which names resolve, what fits into what.
//!
//! It reads on after a fault, so that everything is told at once. Values out of shape count as absent here; the shape
//! pass has told them, and whatever this pass says of the same path is dropped.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use mintage_core::plugin::{Catalog, Place, Problem, SchemeFactory, Setting, Settings, Share, Value};

use super::{
    Checked, Config, ConfigErrors, EntityConfig, Environment, KeyConfig, Problems, StoreConfig,
    keys::{BEARER, ENTITY_NAME, Grammar, NAME, REALM},
    offer::Offer,
    shape::Shape,
    tree::join,
    words,
};

mod fleet;
mod pools;
mod public;
mod series;
pub(super) mod stores;
mod tokens;

/// The realm of a config that names none.
const REALM_DEFAULT: &str = "live";

/// Checks the whole config.
///
/// # Errors
/// Everything that is wrong with it.
pub(super) fn check(
    config: &Config,
    catalog: &Catalog,
    environment: &Environment,
    now_ms: u64,
) -> Result<Checked, ConfigErrors> {
    let shape = Shape::of(&config.table, catalog);
    let mut reader = Reader { config, catalog, environment, now_ms, problems: Vec::new() };
    let mut checked = reader.config();
    let mut told = config.unreadable.clone();
    let unreadable: BTreeSet<&String> = config.unreadable.iter().map(|problem| &problem.path).collect();
    told.extend(shape.problems.into_iter().filter(|problem| !unreadable.contains(&problem.path)));
    let settled: BTreeSet<String> = told.iter().map(|problem| problem.path.clone()).chain(shape.mistyped).collect();
    told.extend(reader.problems.into_iter().filter(|problem| !settled.contains(&problem.path)));
    let (warnings, refusals): (Vec<Problem>, Vec<Problem>) = told.into_iter().partition(|problem| problem.warning);
    checked.warnings = Problems::new(&config.file, warnings);
    if refusals.is_empty() {
        return Ok(checked);
    }
    Err(ConfigErrors::new(Problems::new(&config.file, refusals), checked.warnings))
}

struct Reader<'c> {
    config: &'c Config,
    catalog: &'c Catalog,
    environment: &'c Environment,
    now_ms: u64,
    problems: Vec<Problem>,
}

/// A table by a name of the owner's choice, such as `[stores.main]`.
#[derive(Clone)]
struct Block<'c> {
    name: &'c str,
    path: String,
    at: Place,
    table: &'c [(String, Setting)],
}

/// What the entities' references may name.
struct Known<'c> {
    stores: Vec<&'c str>,
    keys: Vec<&'c str>,
}

impl<'c> Reader<'c> {
    fn config(&mut self) -> Checked {
        self.version();
        let realm = self.realm();
        let stores: Vec<Block<'c>> = self.blocks("stores", &NAME);
        let keys = self.blocks("keys", &NAME);
        let known = Known { stores: self.names("stores"), keys: self.names("keys") };
        if known.stores.is_empty() {
            self.refuse("stores", None, "no store: add the lines `[stores.main]` and `url = \"sqlite:mintage.db\"`");
        }
        let keys: Vec<KeyConfig> = keys.iter().filter_map(|block| self.master(block)).collect();
        let entities = self.entities(&known);
        self.sequences(&entities);
        let series = self.every_series(&known, &entities);
        let tokens = self.tokens(&known, &entities);
        let stores: Vec<StoreConfig> = stores.iter().filter_map(|block| self.store(block)).collect();
        self.gapless_fits(&entities, &series, &stores);
        self.durability_fits(&entities, &series, &stores);
        let regions = self.regions();
        let pools = self.pools(&known, &entities, &regions, &stores);
        self.share_places(&entities, &stores);
        Checked {
            folder: self.config.folder.clone(),
            realm,
            series,
            instance: self.own_instance(&pools),
            pools,
            regions: regions.into_iter().map(|(name, region)| (name.to_owned(), region)).collect(),
            stores,
            keys,
            entities,
            tokens,
            warnings: Problems::default(),
        }
    }

    fn version(&mut self) {
        if self.root("version").is_none() {
            self.refuse("version", None, "missing: write `version = 1` as the first line");
        }
    }

    fn realm(&mut self) -> String {
        let Some(setting) = self.root("realm") else { return REALM_DEFAULT.to_owned() };
        let Value::Text(realm) = &setting.value else { return REALM_DEFAULT.to_owned() };
        if !REALM.fits(realm) {
            self.refuse(
                "realm",
                Some(setting.at),
                format!("{} is no realm: write {}", words::quoted(realm), REALM.words),
            );
        }
        realm.clone()
    }

    fn entities(&mut self, known: &Known<'c>) -> Vec<EntityConfig> {
        let blocks = self.blocks("entities", &ENTITY_NAME);
        if self.names("entities").is_empty() && self.names("series").is_empty() {
            let message =
                "no entity and no series: add one, such as the lines `[entities.users]` and `scheme = \"uuidv7\"`";
            self.refuse("entities", self.root("entities").map(|setting| setting.at), message);
        }
        let minting = blocks.iter().filter(|block| !block.has_tokens());
        let entities: Vec<EntityConfig> = minting.filter_map(|block| self.entity(block, known)).collect();
        self.public_clashes(&entities);
        entities
    }

    fn entity(&mut self, block: &Block<'c>, known: &Known<'c>) -> Option<EntityConfig> {
        // An entity that shares its numbers out names its stores otherwise.
        let is_shared = block.setting("stores").is_some() && block.setting("store").is_none();
        let store = if is_shared { None } else { self.store_of(block, known) };
        let factory = self.scheme(block)?;
        let mut settings = self.settings(block);
        let refusals = settings.refusals();
        let plan = factory.plan(&mut settings);
        if plan.is_none() && settings.refusals() == refusals {
            settings
                .refuse("", format!("the scheme {} cannot use these settings and does not say why", factory.name()));
        }
        let plan = plan?;
        let needs = plan.needs();
        let store = if needs.shares.is_empty() { store } else { self.shares(block, &needs.shares, known) };
        let public = self.public(block, plan.as_ref(), known);
        Some(EntityConfig {
            name: block.name.to_owned(),
            scheme: factory.name().to_owned(),
            needs,
            plan,
            // Empty after a fault, and then nobody sees it.
            store: store.unwrap_or_default(),
            public,
            public_is_written: block.setting("public").is_some(),
            at: block.at,
        })
    }

    /// The first of the stores that share an entity's numbers, if all of them are there.
    fn shares(&mut self, block: &Block<'c>, shares: &[Share], known: &Known<'c>) -> Option<String> {
        let path = join(&block.path, "stores");
        let mut all = Vec::new();
        for share in shares {
            all.push(self.known_name("store", &share.store, &known.stores, &path, share.at.unwrap_or(block.at)));
        }
        all.into_iter().collect::<Option<Vec<_>>>()?.into_iter().next()
    }

    /// Two names of one store would give one share of the numbers twice.
    fn share_places(&mut self, entities: &[EntityConfig], stores: &[StoreConfig]) {
        for entity in entities {
            let mut urls: BTreeMap<&str, &str> = BTreeMap::new();
            for share in &entity.needs.shares {
                let Some(store) = stores.iter().find(|store| store.name == share.store) else { continue };
                if let Some(other) = urls.insert(&store.url, &store.name) {
                    let message =
                        format!("{other} and {} are the same store: both would give the same numbers", store.name);
                    self.refuse(&join(&join("entities", &entity.name), "stores"), share.at, message);
                }
            }
        }
    }

    fn scheme(&mut self, block: &Block<'c>) -> Option<&'c dyn SchemeFactory> {
        let catalog = self.catalog;
        let known: Vec<&str> = Offer::all(catalog).iter().map(|offer| offer.name).collect();
        let Some(setting) = block.setting("scheme") else {
            let message = format!("missing: write `scheme = \"…\"`, one of {}", words::listed(&known));
            self.refuse(&join(&block.path, "scheme"), Some(block.at), message);
            return None;
        };
        let Value::Text(name) = &setting.value else { return None };
        let factory = catalog.schemes().iter().find(|factory| factory.name() == name);
        if factory.is_none() {
            self.refuse(&join(&block.path, "scheme"), Some(setting.at), words::unknown("scheme", name, &known));
        }
        factory.map(|factory| factory.as_ref())
    }

    /// Two entities on one sequence would share its numbers: never the same one twice, but hardly what was meant.
    fn sequences(&mut self, entities: &[EntityConfig]) {
        let mut owners: BTreeMap<(&str, String), &str> = BTreeMap::new();
        for entity in entities {
            let Some(sequence) = entity.needs.sequence.as_ref().filter(|_| !entity.store.is_empty()) else { continue };
            let stores = entity.range_stores();
            let taken = stores.iter().find_map(|store| Some((store, owners.get(&(*store, sequence.name.clone()))?)));
            let Some((store, owner)) = taken else {
                owners.extend(stores.into_iter().map(|store| ((store, sequence.name.clone()), entity.name.as_str())));
                continue;
            };
            let message = format!(
                "{} in store {store} is the sequence of entity {owner} already: give this entity a sequence of its own",
                words::quoted(&sequence.name),
            );
            let path = join("entities", &entity.name);
            let named = self.block("entities", &entity.name).and_then(|block| block.setting("sequence"));
            match named {
                Some(setting) => self.refuse(&join(&path, "sequence"), Some(setting.at), message),
                None => self.refuse(&path, Some(entity.at), message),
            }
        }
    }

    /// The store a table names, or the only one there is.
    fn store_of(&mut self, block: &Block<'c>, known: &Known<'c>) -> Option<String> {
        let path = join(&block.path, "store");
        match block.setting("store").map(|setting| (&setting.value, setting.at)) {
            Some((Value::Text(name), at)) => self.known_name("store", name, &known.stores, &path, at),
            Some(_) => None,
            None => match known.stores.as_slice() {
                [] => None,
                [only] => Some((*only).to_owned()),
                several => {
                    let message = format!(
                        "missing: there are several stores, so write `store = \"…\"`, one of {}",
                        words::listed(several)
                    );
                    self.refuse(&path, Some(block.at), message);
                    None
                }
            },
        }
    }

    /// A name that must be one of `known`; told otherwise.
    fn known_name(&mut self, what: &str, name: &str, known: &[&str], path: &str, at: Place) -> Option<String> {
        if known.contains(&name) {
            return Some(name.to_owned());
        }
        self.refuse(path, Some(at), words::unknown(what, name, known));
        None
    }

    /// The tables of a section, in the order of the file; names out of grammar are told.
    fn blocks(&mut self, section: &str, grammar: &Grammar) -> Vec<Block<'c>> {
        let blocks: Vec<Block<'c>> = self.tables(section).collect();
        for block in &blocks {
            if !grammar.fits(block.name) {
                let message =
                    format!("{} cannot be used as a name here: write {}", words::quoted(block.name), grammar.words);
                self.refuse(&block.path, Some(block.at), message);
            }
        }
        blocks
    }

    fn block(&self, section: &str, name: &str) -> Option<Block<'c>> {
        self.tables(section).find(|block| block.name == name)
    }

    /// The names in a section, those of broken tables too.
    fn names(&self, section: &str) -> Vec<&'c str> {
        self.entries(section).iter().map(|(name, _)| name.as_str()).collect()
    }

    fn tables(&self, section: &str) -> impl Iterator<Item = Block<'c>> {
        self.entries(section).iter().filter_map(|(name, setting)| match &setting.value {
            Value::Table(table) => Some(Block { name, path: join(section, name), at: setting.at, table }),
            _ => None,
        })
    }

    fn entries(&self, section: &str) -> &'c [(String, Setting)] {
        match self.root(section).map(|setting| &setting.value) {
            Some(Value::Table(table)) => table,
            _ => &[],
        }
    }

    fn root(&self, key: &str) -> Option<&'c Setting> {
        self.config.table.iter().find(|(name, _)| name == key).map(|(_, setting)| setting)
    }

    fn settings<'s>(&'s mut self, block: &Block<'s>) -> Settings<'s> {
        Settings::new(block.path.clone(), Some(block.at), block.table, &mut self.problems, self.now_ms)
    }

    /// A path of the config, which begins at its folder; told where there is no folder to begin at.
    fn beside_config(&mut self, path: &str, at: Place, file: &str) -> PathBuf {
        if self.config.is_placeless && Path::new(file).is_relative() {
            let message = format!(
                "{} would lie beside the config, and {} lies in no folder: write a whole path, or name the config by its file",
                words::quoted(file),
                self.config.file
            );
            self.refuse(path, Some(at), message);
        }
        self.config.folder.join(file)
    }

    fn refuse(&mut self, path: &str, at: Option<Place>, message: impl Into<String>) {
        self.problems.push(Problem { path: path.to_owned(), at, message: message.into(), warning: false });
    }
}

impl<'c> Block<'c> {
    fn setting(&self, key: &str) -> Option<&'c Setting> {
        self.table.iter().find(|(name, _)| name == key).map(|(_, setting)| setting)
    }

    /// Whether it is an entity of bearer tokens: those mint nothing.
    fn has_tokens(&self) -> bool {
        self.text("scheme").is_some_and(|(scheme, _)| scheme == BEARER)
    }

    fn text(&self, key: &str) -> Option<(&'c str, Place)> {
        match self.setting(key) {
            Some(Setting { value: Value::Text(text), at }) => Some((text, *at)),
            _ => None,
        }
    }
}
