//! `[series.NAME]`: formats that are unambiguous, and zones that exist.

use mintage_core::plugin::{RangesKept, Settings};

use super::{Block, EntityConfig, Known, Reader};
use crate::{
    config::{
        SeriesConfig, StoreConfig,
        keys::{ENTITY_NAME, SERIES_RANGE_MAX},
        tree::join,
        words,
    },
    series::{Restart, SeriesFormat, Template, Zone, sequence_prefix},
};

/// Most digits a group has: as many as a number.
const GROUP_MAX: i64 = 18;
/// How many names are compared at a time: as many as `nearest` looks at.
const NAMES_AT_A_TIME: usize = 100;

impl<'c> Reader<'c> {
    pub(super) fn every_series(&mut self, known: &Known<'c>, entities: &[EntityConfig]) -> Vec<SeriesConfig> {
        let blocks = self.blocks("series", &ENTITY_NAME);
        let series: Vec<SeriesConfig> = blocks.iter().filter_map(|block| self.one_series(block, known)).collect();
        for one in &series {
            self.series_clashes(one, entities);
        }
        series
    }

    fn one_series(&mut self, block: &Block<'c>, known: &Known<'c>) -> Option<SeriesConfig> {
        let store = self.store_of(block, known);
        let mut settings = self.settings(block);
        let format = series_format(&mut settings);
        let range = settings.integer("range", 1..=SERIES_RANGE_MAX).unwrap_or(1);
        let gapless = settings.flag("gapless").unwrap_or(false);
        settings.choice("durability", &["weak"]);
        if gapless && settings.has("range") {
            settings.refuse("range", "a gapless series assigns one number at a time: take this line out");
        }
        let format = format?;
        if u64::try_from(range).unwrap_or(1) > format.n_max() {
            let message = format!("{range} is more than a period has: its numbers end at {}", format.n_max());
            settings.refuse("range", message);
        }
        Some(SeriesConfig {
            name: block.name.to_owned(),
            format,
            range: u32::try_from(range).unwrap_or(1),
            gapless,
            // Empty after a fault, and then nobody sees it.
            store: store.unwrap_or_default(),
            at: block.at,
        })
    }

    /// Gapless numbers need a store in whose database the owner can begin a transaction.
    pub(super) fn gapless_fits(&mut self, entities: &[EntityConfig], series: &[SeriesConfig], stores: &[StoreConfig]) {
        let entities = entities
            .iter()
            .filter(|entity| entity.needs.gapless)
            .map(|entity| ("entities", entity.name.as_str(), entity.store.as_str()));
        let series =
            series.iter().filter(|one| one.gapless).map(|one| ("series", one.name.as_str(), one.store.as_str()));
        let backends = self.catalog.backends();
        for (section, name, store) in entities.chain(series) {
            let Some(store) = stores.iter().find(|known| known.name == store) else { continue };
            let factory = self.catalog.backend_of(&store.url);
            if factory.is_none_or(|factory| factory.keeps_gapless()) {
                continue;
            }
            let able: Vec<&str> =
                backends.iter().filter(|factory| factory.keeps_gapless()).map(|factory| factory.url_scheme()).collect();
            let message = format!(
                "gapless numbers are assigned inside a transaction of yours, and store {} ({}:) has none: keep them in your database, by a store of the kind {}",
                store.name,
                store.url_scheme(),
                words::listed(&able)
            );
            let at = self.block(section, name).and_then(|block| block.setting("gapless")).map(|setting| setting.at);
            self.refuse(&join(&join(section, name), "gapless"), at, message);
        }
    }

    /// Whoever counts needs a store that remembers how far it has counted, or has to say that it need not.
    pub(super) fn durability_fits(
        &mut self,
        entities: &[EntityConfig],
        series: &[SeriesConfig],
        stores: &[StoreConfig],
    ) {
        let counting = entities.iter().filter(|entity| entity.needs.sequence.is_some() && !entity.needs.gapless);
        let entities = counting
            .flat_map(|entity| entity.range_stores().into_iter().map(|store| ("entities", &entity.name, store)));
        let series = series.iter().filter(|one| !one.gapless).map(|one| ("series", &one.name, one.store.as_str()));
        for (section, name, store) in entities.chain(series) {
            let Some(store) = stores.iter().find(|known| known.name == store) else { continue };
            let factory = self.catalog.backend_of(&store.url);
            let kept = factory.map_or(RangesKept::ForGood, |factory| factory.ranges_kept(&store.url));
            let Some(block) = self.block(section, name) else { continue };
            let is_meant = block.text("durability").is_some_and(|(word, _)| word == "weak");
            let message = match kept {
                RangesKept::WhileOpen if !is_meant => format!(
                    "store {} ({}:) forgets how far it has counted, so numbers would come again after the end of the process: choose \
                     another store, or write durability = \"weak\" here if that is meant, as in a test",
                    store.name,
                    store.url_scheme()
                ),
                RangesKept::NotAtAll => format!(
                    "store {} ({}:) keeps no numbers as its URL has it, because it may forget its last writes: choose another store, or \
                     take the weak durability out of its URL",
                    store.name,
                    store.url_scheme()
                ),
                _ => continue,
            };
            let key = ["store", "stores"].into_iter().find(|key| block.setting(key).is_some());
            let (path, at) = match key.and_then(|key| Some((key, block.setting(key)?.at))) {
                Some((key, at)) => (join(&block.path, key), at),
                None => (block.path, block.at),
            };
            self.refuse(&path, Some(at), message);
        }
    }

    /// A series shares its name with no entity, and its counters with none.
    fn series_clashes(&mut self, series: &SeriesConfig, entities: &[EntityConfig]) {
        let path = join("series", &series.name);
        if self.names("entities").contains(&series.name.as_str()) {
            let message = "there is an entity of this name already: call one of them otherwise";
            self.refuse(&path, Some(series.at), message);
        }
        let prefix = sequence_prefix(&series.name);
        let counts_there = |entity: &&EntityConfig| {
            entity.range_stores().contains(&series.store.as_str())
                && entity.needs.sequence.as_ref().is_some_and(|sequence| sequence.name.starts_with(&prefix))
        };
        if let Some(entity) = entities.iter().find(counts_there) {
            let message = format!(
                "the sequence of entity {} begins with {prefix}, as those of this series do: rename one",
                entity.name
            );
            self.refuse(&path, Some(series.at), message);
        }
    }
}

fn series_format(settings: &mut Settings<'_>) -> Option<SeriesFormat> {
    let check_digit = settings.choice("check_digit", &["damm"]).is_some();
    let group = settings.integer("group", 1..=GROUP_MAX).and_then(|group| usize::try_from(group).ok());
    if !settings.has("format") {
        settings.refuse("format", "missing: write `format = \"{yyyy}{mm}{dd}-{n:06}\"`");
    }
    let text = settings.text("format")?;
    let template = match Template::parse(text, check_digit) {
        Ok(template) => template,
        Err(fault) => {
            settings.refuse("format", format!("{}: {fault}", words::quoted(text)));
            return None;
        }
    };
    let zone = zone(settings, template.finest());
    let restart = restart(settings, template.finest());
    let start = settings.integer("start", 0..=i64::MAX).and_then(|start| u64::try_from(start).ok()).unwrap_or(1);
    if start > template.n_max() {
        settings.refuse("start", format!("{start} is above {}, the largest number of the format", template.n_max()));
    }
    Some(SeriesFormat { text: text.to_owned(), template, zone: zone?, restart: restart?, start, check_digit, group })
}

/// The zone, if the format has a date. `None` after a fault.
fn zone(settings: &mut Settings<'_>, finest: Restart) -> Option<Option<Zone>> {
    if finest == Restart::Never {
        if settings.has("zone") {
            settings.refuse("zone", "the format has no date, so no zone matters: take this line out");
        }
        return Some(None);
    }
    if !settings.has("zone") {
        settings.refuse("zone", "missing: write `zone = \"Europe/Berlin\"`, the time zone whose midnight ends the day");
    }
    let name = settings.text("zone")?;
    let zone = Zone::named(name);
    if zone.is_none() {
        let near = nearest_zone(name).map(|near| format!("; did you mean \"{near}\"?")).unwrap_or_default();
        let message = format!(
            "no time zone {}: write a name of the IANA database, such as Europe/Berlin{near}",
            words::quoted(name)
        );
        settings.refuse("zone", message);
    }
    zone.map(Some)
}

/// The zone that `name` most likely stands for: that of the city, else one spelled much the same.
fn nearest_zone(name: &str) -> Option<String> {
    let names = Zone::names();
    let city = name.trim().replace(' ', "_");
    let of_city =
        names.iter().find(|known| known.rsplit('/').next().is_some_and(|last| last.eq_ignore_ascii_case(&city)));
    if of_city.is_some() {
        return of_city.cloned();
    }
    let known: Vec<&str> = names.iter().map(String::as_str).collect();
    let best: Vec<&str> = known.chunks(NAMES_AT_A_TIME).filter_map(|names| words::nearest(name, names)).collect();
    words::nearest(name, &best).map(str::to_owned)
}

/// As often as the text changes; less often if the config says so. `None` after a fault.
fn restart(settings: &mut Settings<'_>, finest: Restart) -> Option<Restart> {
    if !settings.has("restart") {
        return Some(finest);
    }
    let restart = settings.choice("restart", &["day", "month", "year", "never"]).and_then(Restart::named)?;
    if restart > finest {
        let message = format!(
            "numbers that begin again each {} need its date in the text, or texts repeat: add it to the format",
            restart.name()
        );
        settings.refuse("restart", message);
        return None;
    }
    Some(restart)
}
