//! The counters behind numbers, for those who look after them: what they stand at, moving them up, taking over the counters of
//! existing tables, and counting what was never used.
//!
//! The invariant: a counter is moved up or left alone. Looking makes no store.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::Duration,
};

use mintage_backends::{Gaps, NumberColumn};
use mintage_core::{
    Format, RANGE_END, Reservation, Sequence, SequenceRow, StoreError, StoreErrorKind,
    plugin::{Backend, Fact},
    protocol::UNLISTED,
};

use crate::{
    BuildError, Config, Period, RegistryBuilder, Restart,
    config::{Checked, EntityConfig, SeriesConfig, holds_password},
    publish, series,
};

/// How long reading a column may take: the largest of an indexed column comes at once, the gaps of a large table do not.
const READ_MS_MAX: u64 = 600_000;

/// The counters of a config.
#[derive(Debug)]
pub struct Sequences {
    builder: RegistryBuilder,
    checked: Checked,
    backends: BTreeMap<String, Backend>,
    troubles: Vec<BuildError>,
    /// The stores that could not be asked.
    unknown: BTreeSet<String>,
}

/// One counter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SequenceState {
    /// The store, by its name in the config.
    pub store: String,
    /// The sequence's name in the store.
    pub name: String,
    /// Whose numbers it counts.
    pub owner: SequenceOwner,
    /// Where the config has it begin; `None` where the config does not know it.
    pub start: Option<u64>,
    /// The next number; `None` where it was never used.
    pub next: Option<u64>,
    /// How often it was raised.
    pub raises: u64,
    /// Whether it gives no number until it is raised: the store may have forgotten the last ones.
    pub waits: bool,
}

/// Whose numbers a sequence counts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SequenceOwner {
    /// An entity's.
    Entity(String),
    /// Those of one period of a series.
    Series(String),
    /// Nobody's in this config.
    Nobody,
    /// Those of all sequences that are not in the store, under the name `*`. Listed only while it waits: none is made until it was
    /// raised.
    Unlisted,
}

/// Why a counter was not found or not moved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SequenceError {
    /// There is none of that name.
    #[error(
        "no sequence {name:?} (known: {known}): write an entity, SERIES/PERIOD, or a name that `mintage sequences list` shows"
    )]
    Unknown {
        /// The name asked for.
        name: String,
        /// Those there are.
        known: String,
    },
    /// A series has one for each period.
    #[error("series {series} counts each {each} for itself: name the period, such as {series}/{example}")]
    Periods {
        /// The series.
        series: String,
        /// Day, month or year.
        each: &'static str,
        /// How a period is written.
        example: String,
    },
    /// The entity's scheme counts nothing.
    #[error("entity {entity} uses {scheme}, which has no counter")]
    NoCounter {
        /// The entity.
        entity: String,
        /// Its scheme.
        scheme: String,
    },
    /// Several stores have one.
    #[error("sequence {name} is in several stores ({stores}): name the store that is meant")]
    Ambiguous {
        /// The sequence.
        name: String,
        /// The stores.
        stores: String,
    },
    /// No store of the config has that name.
    #[error("no store {store:?} (known: {known})")]
    NoStore {
        /// The name asked for.
        store: String,
        /// Those of the config.
        known: String,
    },
    /// It is counted in another store than the one that was named.
    #[error("sequence {name} is in store {stores}, not in {store}: name that one, or none")]
    Elsewhere {
        /// The sequence.
        name: String,
        /// The store that was named.
        store: String,
        /// Where it is.
        stores: String,
    },
    /// Its store could not be asked: [`Sequences::troubles`] says why.
    #[error("store {store} could not be asked, so nothing is known of its sequences")]
    Unasked {
        /// The store.
        store: String,
    },
    /// A store said no.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The column of a table cannot be read.
    #[error(transparent)]
    Column(StoreError),
    /// The column's place is written wrongly.
    #[error("{0}")]
    Place(String),
}

/// What of a sequence's numbers is not in a table.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unused {
    /// The numbers looked at: from the first to one before the next.
    pub from: u64,
    /// One past the last number looked at.
    pub to: u64,
    /// What no row has.
    pub gaps: Gaps,
    /// The audit of what was reserved, where the numbers are gapless.
    pub reservations: Vec<Reservation>,
}

impl RegistryBuilder {
    /// The counters of a config, in the stores that exist already.
    ///
    /// # Errors
    /// [`BuildError::Config`]. A store that cannot be opened is passed over and reported by [`Sequences::troubles`].
    pub async fn sequences(self, config: &Config) -> Result<Sequences, BuildError> {
        let checked = self.check(config)?;
        let (backends, unknown) = (BTreeMap::new(), BTreeSet::new());
        let mut found = Sequences { builder: self, checked, backends, troubles: Vec::new(), unknown };
        let stores: Vec<String> = found.checked.stores.iter().map(|store| store.name.clone()).collect();
        for store in stores {
            match found.builder.open_existing(&found.checked, &store).await {
                Ok(Some(backend)) => {
                    found.backends.insert(store, backend);
                }
                Ok(None) => {}
                Err(error) => {
                    found.troubles.push(error);
                    found.unknown.insert(store);
                }
            }
        }
        Ok(found)
    }

    /// Reads where a column of numbers is: `URL#TABLE.COLUMN`, with `[NAME=VALUE]` behind it for the rows that count. In place of
    /// the URL `env:VARIABLE` names the variable that holds it.
    ///
    /// # Errors
    /// [`SequenceError::Place`] says what to write, and repeats no URL.
    pub fn column(&self, text: &str, folder: &Path) -> Result<NumberColumn, SequenceError> {
        let place = |told: String| SequenceError::Place(told);
        let Some(rest) = text.strip_prefix("env:") else {
            if holds_password(text.split('#').next().unwrap_or_default()) {
                let told = "a password among the arguments is seen by other users and kept by the shell: put the URL into an \
                            environment variable and write env:VARIABLE#TABLE.COLUMN";
                return Err(place(told.to_owned()));
            }
            return NumberColumn::parse(text, folder).map_err(place);
        };
        let (variable, names) =
            rest.split_once('#').ok_or_else(|| place("write env:VARIABLE#TABLE.COLUMN".to_owned()))?;
        let url = self.environment_shared().value(variable).map_err(|error| place(error.to_string()))?;
        let url = url.ok_or_else(|| place(format!("the environment variable {variable} is not set")))?;
        NumberColumn::parse(&format!("{url}#{names}"), folder).map_err(place)
    }
}

impl Sequences {
    /// Stores that could not be asked.
    pub fn troubles(&self) -> &[BuildError] {
        &self.troubles
    }

    /// The folder of the config: where relative paths begin.
    pub fn folder(&self) -> &Path {
        &self.checked.folder
    }

    /// For [`RegistryBuilder::column`].
    pub fn builder(&self) -> &RegistryBuilder {
        &self.builder
    }

    /// Every counter: those of the config's entities, used or not, and what else is in its stores. By store and name. What is in
    /// a store that could not be asked is not known, and is left out.
    ///
    /// # Errors
    /// [`BuildError::Store`].
    pub async fn list(&self) -> Result<Vec<SequenceState>, BuildError> {
        let mut found = BTreeMap::new();
        for store in self.backends.keys() {
            let waiting = self.waiting(store).await?;
            for row in self.rows(store).await? {
                let (owner, start) = self.owner(store, &row.name);
                let mut one = state(store, row, owner, start);
                one.waits = waiting.contains(&one.name);
                found.insert((store.clone(), one.name.clone()), one);
            }
            if waiting.iter().any(|name| name == UNLISTED) {
                found.insert((store.clone(), UNLISTED.to_owned()), unlisted(store));
            }
        }
        for entity in &self.checked.entities {
            if let Some(sequence) = &entity.needs.sequence {
                for store in entity.range_stores().into_iter().filter(|store| !self.unknown.contains(*store)) {
                    let key = (store.to_owned(), sequence.name.clone());
                    let waits = found.contains_key(&(store.to_owned(), UNLISTED.to_owned()));
                    found.entry(key).or_insert_with(|| unused(store, entity, sequence, waits));
                }
            }
        }
        Ok(found.into_values().collect())
    }

    /// One counter: of an entity, as `SERIES/PERIOD`, or by its name in a store.
    ///
    /// # Errors
    /// [`SequenceError`].
    pub async fn find(&self, name: &str, store: Option<&str>) -> Result<SequenceState, SequenceError> {
        store.map_or(Ok(()), |store| self.is_known(store))?;
        let all = self.list().await?;
        let mut places = self.named(name, store)?.into_iter();
        if let Some((at, sequence, owner)) = places.next() {
            self.was_asked(&at)?;
            let known = all.iter().find(|one| one.store == at && one.name == sequence.name).cloned();
            let waits = all.iter().any(|one| one.store == at && one.owner == SequenceOwner::Unlisted);
            return Ok(known.unwrap_or(SequenceState {
                store: at,
                start: Some(sequence.start),
                name: sequence.name,
                owner,
                next: None,
                raises: 0,
                waits,
            }));
        }
        let mut fits = all.iter().filter(|one| one.name == name && store.is_none_or(|store| one.store == store));
        match (fits.next(), fits.next()) {
            (Some(one), None) => Ok(one.clone()),
            (Some(_), Some(_)) => {
                let stores = all.iter().filter(|one| one.name == name).map(|one| one.store.as_str());
                Err(SequenceError::Ambiguous { name: name.to_owned(), stores: stores.collect::<Vec<_>>().join(", ") })
            }
            (None, _) => {
                // It may be in the one that was not asked.
                let unknown = self.unknown.iter().find(|unknown| store.is_none_or(|store| store == unknown.as_str()));
                unknown.map_or(Ok(()), |unknown| self.was_asked(unknown))?;
                let entities = self.checked.entities.iter().filter(|entity| entity.needs.sequence.is_some());
                let known = entities.map(|entity| &entity.name).chain(self.checked.series.iter().map(|one| &one.name));
                let known = known.map(String::as_str).collect::<Vec<_>>().join(", ");
                Err(SequenceError::Unknown { name: name.to_owned(), known })
            }
        }
    }

    /// Whether what [`list`](Self::list) says is all there is in a store; in every store, if none is named.
    ///
    /// # Errors
    /// [`SequenceError::NoStore`]; [`SequenceError::Unasked`].
    pub fn is_complete(&self, store: Option<&str>) -> Result<(), SequenceError> {
        match store {
            Some(store) => self.is_known(store).and_then(|()| self.was_asked(store)),
            None => self.unknown.iter().try_for_each(|store| self.was_asked(store)),
        }
    }

    fn is_known(&self, store: &str) -> Result<(), SequenceError> {
        let known: Vec<&str> = self.checked.stores.iter().map(|known| known.name.as_str()).collect();
        if known.contains(&store) {
            return Ok(());
        }
        Err(SequenceError::NoStore { store: store.to_owned(), known: known.join(", ") })
    }

    fn was_asked(&self, store: &str) -> Result<(), SequenceError> {
        match self.unknown.contains(store) {
            true => Err(SequenceError::Unasked { store: store.to_owned() }),
            false => Ok(()),
        }
    }

    /// Whether [`raise`](Self::raise) would be refused for its number alone.
    ///
    /// # Errors
    /// [`BuildError::Store`]: `Refused` above 2^63, and below the next number of one that waits: whoever raises it says that what
    /// was forgotten lies below, and so says nothing by a number that the store itself still knows.
    pub fn may_raise(&self, which: &SequenceState, floor: u64) -> Result<(), BuildError> {
        let next = which.next.filter(|next| which.waits && floor < *next);
        let message = match next {
            Some(next) => format!(
                "sequence {} waits at {next}, and {floor} is below that: write one above every number in use or held by a running \
                 process, {next} if that is none",
                which.name
            ),
            None if floor <= RANGE_END => return Ok(()),
            None => format!("sequence {}: {floor} is above 9223372036854775807", which.name),
        };
        let source = StoreError::new(StoreErrorKind::Refused, message);
        Err(BuildError::Store { store: which.store.clone(), source })
    }

    /// Moves a counter up, so that the next number is `floor` at least; makes it there where it was never used. Never lowers it. One
    /// that waits goes on from there. Of [`SequenceOwner::Unlisted`] it says that no number of a sequence that is not in the store is
    /// in use or held by a process; `floor` means nothing then.
    ///
    /// Processes that run learn of it with their next trip to the store, or within a minute; until then they may go on with what
    /// they hold: two ranges at most, or `initial_ranges` where that is more; built with `once`, 8,192 numbers.
    ///
    /// # Errors
    /// [`BuildError::Store`]: `Refused` above 2^63.
    pub async fn raise(&mut self, which: &SequenceState, floor: u64) -> Result<SequenceState, BuildError> {
        let store = &which.store;
        let failed = |source| BuildError::Store { store: store.clone(), source };
        self.may_raise(which, floor)?;
        if !self.backends.contains_key(store) {
            let backend = self.builder.open_store(&self.checked, store).await?;
            self.backends.insert(store.clone(), backend);
        }
        let backend = self.backends.get(store).cloned().unwrap_or_default();
        let ranges = backend.ranges.ok_or_else(|| failed(keeps_no_ranges()))?;
        if which.owner == SequenceOwner::Unlisted {
            ranges.raise(&Sequence::new(UNLISTED, 0), 0).await.map_err(failed)?;
            return Ok(SequenceState { waits: false, ..which.clone() });
        }
        // Made where it is to stand, so that nobody gets a number from below in between.
        let first = floor.max(which.start.unwrap_or_default()).min(RANGE_END - 1);
        let sequence = Sequence::new(which.name.clone(), first);
        if which.next.is_none() {
            match ranges.create(&sequence).await {
                // The store may have forgotten it: whoever raises it knows where it goes on.
                Err(error) if error.kind() == StoreErrorKind::RolledBack => ranges.restore(&sequence).await,
                made => made,
            }
            .map_err(failed)?;
            if let (SequenceOwner::Series(_), Some(formats)) = (&which.owner, backend.formats) {
                let record = Format::of("segment").with("sequence", &which.name);
                formats.pin(&series::record_name(&which.name), &record).await.map_err(failed)?;
            }
        }
        ranges.raise(&sequence, floor).await.map_err(failed)?;
        let row = ranges.sequence(&which.name).await.map_err(failed)?;
        let row = row.ok_or_else(|| failed(mintage_core::protocol::lost_sequence(&sequence)))?;
        Ok(state(store, row, which.owner.clone(), which.start))
    }

    /// Which numbers below the next one no row of `column` has.
    ///
    /// A number that a running process holds looks like a gap until it is used or given back.
    ///
    /// # Errors
    /// [`SequenceError::Column`].
    pub async fn unused(
        &self,
        which: &SequenceState,
        column: &NumberColumn,
        runs_max: u32,
    ) -> Result<Unused, SequenceError> {
        let from = which.start.unwrap_or_default();
        let to = which.next.unwrap_or(from).max(from);
        let gaps = column.gaps(from, to, runs_max, Duration::from_millis(READ_MS_MAX)).await;
        let gaps = gaps.map_err(SequenceError::Column)?;
        Ok(Unused { from, to, gaps, reservations: self.reservations(which).await? })
    }

    /// The audit of what was reserved of a gapless counter; nothing of others.
    ///
    /// # Errors
    /// [`BuildError::Store`].
    pub async fn reservations(&self, which: &SequenceState) -> Result<Vec<Reservation>, BuildError> {
        let gapless = match &which.owner {
            SequenceOwner::Entity(name) => self.checked.entity(name).is_some_and(|entity| entity.needs.gapless),
            SequenceOwner::Series(name) => self.checked.series(name).is_some_and(|series| series.gapless),
            SequenceOwner::Nobody | SequenceOwner::Unlisted => false,
        };
        let kept = self.backends.get(&which.store).and_then(|backend| backend.gapless.as_ref());
        let (true, Some(kept)) = (gapless, kept) else { return Ok(Vec::new()) };
        let failed = |source| BuildError::Store { store: which.store.clone(), source };
        kept.prepare().await.map_err(failed)?;
        let mut found = kept.reservations(&which.name).await.map_err(failed)?;
        found.retain(|one| one.sequence == which.name);
        Ok(found)
    }

    /// The largest number in use in a column.
    ///
    /// # Errors
    /// [`SequenceError::Column`].
    pub async fn largest(&self, column: &NumberColumn) -> Result<Option<u64>, SequenceError> {
        column.largest(Duration::from_millis(READ_MS_MAX)).await.map_err(SequenceError::Column)
    }

    async fn waiting(&self, store: &str) -> Result<Vec<String>, BuildError> {
        let Some(ranges) = self.backends.get(store).and_then(|backend| backend.ranges.as_ref()) else {
            return Ok(Vec::new());
        };
        ranges.waiting().await.map_err(|source| BuildError::Store { store: store.to_owned(), source })
    }

    async fn rows(&self, store: &str) -> Result<Vec<SequenceRow>, BuildError> {
        let Some(ranges) = self.backends.get(store).and_then(|backend| backend.ranges.as_ref()) else {
            return Ok(Vec::new());
        };
        ranges.sequences().await.map_err(|source| BuildError::Store { store: store.to_owned(), source })
    }

    fn owner(&self, store: &str, sequence: &str) -> (SequenceOwner, Option<u64>) {
        let of = |entity: &&EntityConfig| {
            entity.range_stores().contains(&store)
                && entity.needs.sequence.as_ref().is_some_and(|known| known.name == sequence)
        };
        if let Some(entity) = self.checked.entities.iter().find(of) {
            let start = entity.needs.sequence.as_ref().map(|known| known.start);
            return (SequenceOwner::Entity(entity.name.clone()), start);
        }
        let of = |series: &&SeriesConfig| {
            series.store == store && sequence.starts_with(&series::sequence_prefix(&series.name))
        };
        match self.checked.series.iter().find(of) {
            Some(series) => (SequenceOwner::Series(series.name.clone()), Some(series.format.start)),
            None => (SequenceOwner::Nobody, None),
        }
    }

    /// The counter that the config means by a name: an entity, or a period of a series. An entity of several stores has one in
    /// each.
    fn named(
        &self,
        name: &str,
        store: Option<&str>,
    ) -> Result<Option<(String, Sequence, SequenceOwner)>, SequenceError> {
        if let Some(entity) = self.checked.entity(name) {
            let sequence = entity
                .needs
                .sequence
                .clone()
                .ok_or_else(|| SequenceError::NoCounter { entity: name.to_owned(), scheme: entity.scheme.clone() })?;
            let stores = entity.range_stores();
            let chosen = match (store, stores.as_slice()) {
                (None, [only]) => Some(only),
                (None, _) => None,
                (Some(store), _) => {
                    let chosen = stores.iter().find(|known| **known == store);
                    Some(chosen.ok_or_else(|| elsewhere(name, store, &stores.join(", ")))?)
                }
            };
            let chosen =
                chosen.ok_or_else(|| SequenceError::Ambiguous { name: name.to_owned(), stores: stores.join(", ") })?;
            return Ok(Some(((*chosen).to_owned(), sequence, SequenceOwner::Entity(name.to_owned()))));
        }
        let (series, period) = name.split_once('/').map_or((name, None), |(series, period)| (series, Some(period)));
        let Some(series) = self.checked.series(series) else { return Ok(None) };
        if let Some(store) = store.filter(|store| *store != series.store) {
            return Err(elsewhere(name, store, &series.store));
        }
        let restart = series.format.restart;
        let period = match period {
            None if restart == Restart::Never => Some(Period::All),
            None => None,
            Some(text) => restart.period_named(text),
        };
        let period = period.ok_or_else(|| SequenceError::Periods {
            series: series.name.clone(),
            each: restart.name(),
            example: restart.example().to_owned(),
        })?;
        let sequence = Sequence::new(format!("{}{period}", series::sequence_prefix(&series.name)), series.format.start);
        Ok(Some((series.store.clone(), sequence, SequenceOwner::Series(series.name.clone()))))
    }
}

impl RegistryBuilder {
    /// What the live counters say of public numbers: how full each domain is, with a warning above its `max_fill`. Stores that
    /// are no SQL database or file are not asked, and none is made.
    pub async fn fills(&self, checked: &Checked) -> Vec<(String, Result<Fact, BuildError>)> {
        let mut told = Vec::new();
        for entity in &checked.entities {
            let (Some(form), Some(sequence)) = (&entity.public, &entity.needs.sequence) else { continue };
            if form.fill(sequence.start).is_none() {
                continue;
            }
            match self.next_of(checked, entity, sequence).await {
                Ok(Some(next)) => {
                    let Some(last) = next.checked_sub(1).filter(|last| *last >= sequence.start) else { continue };
                    told.extend(publish::fill(form, sequence.start, last).map(|fact| (entity.name.clone(), Ok(fact))));
                }
                Ok(None) => {}
                Err(error) => told.push((entity.name.clone(), Err(error))),
            }
        }
        told
    }

    /// The next number of an entity, if its store is there and can be asked without making anything.
    async fn next_of(
        &self,
        checked: &Checked,
        entity: &EntityConfig,
        sequence: &Sequence,
    ) -> Result<Option<u64>, BuildError> {
        let mut next = None;
        for store in entity.range_stores() {
            let Some(backend) = self.open_existing(checked, store).await? else { continue };
            let Some(ranges) = backend.ranges else { continue };
            let row = ranges.sequence(&sequence.name).await;
            let row = row.map_err(|source| BuildError::Store { store: store.to_owned(), source })?;
            next = next.max(row.map(|row| row.next));
        }
        Ok(next)
    }
}

fn state(store: &str, row: SequenceRow, owner: SequenceOwner, start: Option<u64>) -> SequenceState {
    SequenceState {
        store: store.to_owned(),
        name: row.name,
        owner,
        start,
        next: Some(row.next),
        raises: mintage_core::protocol::raises(row.version),
        waits: false,
    }
}

fn elsewhere(name: &str, store: &str, stores: &str) -> SequenceError {
    SequenceError::Elsewhere { name: name.to_owned(), store: store.to_owned(), stores: stores.to_owned() }
}

fn unlisted(store: &str) -> SequenceState {
    SequenceState {
        store: store.to_owned(),
        name: UNLISTED.to_owned(),
        owner: SequenceOwner::Unlisted,
        start: None,
        next: None,
        raises: 0,
        waits: true,
    }
}

/// One that its store may have forgotten is not made by itself.
fn unused(store: &str, entity: &EntityConfig, sequence: &Sequence, waits: bool) -> SequenceState {
    SequenceState {
        store: store.to_owned(),
        name: sequence.name.clone(),
        owner: SequenceOwner::Entity(entity.name.clone()),
        start: Some(sequence.start),
        next: None,
        raises: 0,
        waits,
    }
}

fn keeps_no_ranges() -> StoreError {
    StoreError::new(StoreErrorKind::Refused, "it does not keep ranges: choose another store for this")
}
