//! The doors: `next_in`, and reserve, confirm and void, on series and on minters.

use std::sync::{PoisonError, atomic::Ordering};

use mintage_backends::gapless::{Counter, GaplessDatabase, Settled, Taken, Transaction};
use mintage_core::{
    AnyId, IdBits, MintError, RANGE_END, ReadyError, Reservation, ReservationState, Sequence, StoreError,
    StoreErrorKind,
};

use super::{Gapless, GaplessError, make};
use crate::{Entity, Id, Minter, Series, SeriesNumber, series};

impl Series {
    /// Assigns the next number of the period inside your transaction, which must be in the database of the series' store.
    /// The number is yours if you commit, and the next one's if you roll back, a savepoint included.
    ///
    /// From here to the end of your transaction everybody else who numbers in this period waits. So call it last, just before the
    /// insert and the commit; and if you number in several series, always in the same order.
    ///
    /// # Errors
    /// [`GaplessError`]. Roll back; where [`GaplessError::runs_again`] says so, run the whole transaction again.
    pub async fn next_in<D: GaplessDatabase>(
        &self,
        transaction: &mut Transaction<'_, D>,
    ) -> Result<SeriesNumber, GaplessError> {
        let gapless = self.gapless()?;
        gapless.fits::<D>()?;
        let at = self.desk().now()?;
        if D::MADE_OUTSIDE {
            gapless.make(&at.sequence).await?;
        }
        let record = series::record_name(&at.sequence.name);
        let taken = gapless.take(transaction, &at.sequence, &record, self.format().n_max()).await?;
        let number = taken.and_then(|n| self.desk().number(&at, n));
        number.ok_or_else(|| self.desk().full(at.period).into())
    }

    /// Takes the next number before the row is written, and notes what for. Commit at once, so that others can go on; then
    /// [`confirm_in`](Self::confirm_in) the number in the transaction that writes the row, or [`void_in`](Self::void_in) it.
    ///
    /// # Errors
    /// As [`next_in`](Self::next_in); [`GaplessError::Text`].
    pub async fn reserve_in<D: GaplessDatabase>(
        &self,
        transaction: &mut Transaction<'_, D>,
        note: &str,
    ) -> Result<SeriesNumber, GaplessError> {
        let gapless = self.gapless()?;
        fits_audit("a note", note)?;
        let number = self.next_in(transaction).await?;
        gapless.reserve(transaction, self.sequence_of(&number), number.n(), note).await?;
        Ok(number)
    }

    /// Says in the transaction that writes the row: the reserved number is used.
    ///
    /// # Errors
    /// [`GaplessError::Settled`] if it was confirmed or voided before, [`GaplessError::NeverReserved`]; as
    /// [`next_in`](Self::next_in).
    pub async fn confirm_in<D: GaplessDatabase>(
        &self,
        transaction: &mut Transaction<'_, D>,
        number: &SeriesNumber,
    ) -> Result<(), GaplessError> {
        let gapless = self.gapless()?;
        gapless.settle(transaction, self.sequence_of(number), number.n(), number.as_str(), None).await
    }

    /// Says that no row will ever have the reserved number, and why: a gap with a reason.
    ///
    /// # Errors
    /// As [`confirm_in`](Self::confirm_in); [`GaplessError::Text`].
    pub async fn void_in<D: GaplessDatabase>(
        &self,
        transaction: &mut Transaction<'_, D>,
        number: &SeriesNumber,
        reason: &str,
    ) -> Result<(), GaplessError> {
        let gapless = self.gapless()?;
        fits_audit("a reason", reason)?;
        gapless.settle(transaction, self.sequence_of(number), number.n(), number.as_str(), Some(reason)).await
    }

    /// The audit: every reserved number of every period, and what became of it.
    ///
    /// # Errors
    /// [`GaplessError`].
    pub async fn reservations(&self) -> Result<Vec<Reservation>, GaplessError> {
        self.gapless()?.reservations(&series::sequence_prefix(self.name()), false).await
    }

    fn gapless(&self) -> Result<&Gapless, GaplessError> {
        self.desk().gapless.as_deref().ok_or_else(|| GaplessError::NotGapless { name: self.name().to_owned() })
    }

    fn sequence_of(&self, number: &SeriesNumber) -> String {
        format!("{}{}", series::sequence_prefix(self.name()), number.period())
    }
}

impl<E: Entity> Minter<E> {
    /// Assigns the next id inside your transaction: as [`Series::next_in`], for an entity with `gapless = true`.
    ///
    /// # Errors
    /// As there.
    pub async fn next_in<D: GaplessDatabase>(
        &self,
        transaction: &mut Transaction<'_, D>,
    ) -> Result<Id<E>, GaplessError> {
        let (gapless, sequence) = self.gapless()?;
        gapless.fits::<D>()?;
        let spent = || GaplessError::from(ReadyError::new(MintError::Spent));
        let number = gapless.take(transaction, sequence, E::NAME, RANGE_END - 1).await?.ok_or_else(spent)?;
        IdBits::from_any(AnyId::Int(number)).map(Id::from_bits).ok_or_else(spent)
    }

    /// Takes the next id before the row is written: as [`Series::reserve_in`].
    ///
    /// # Errors
    /// As there.
    pub async fn reserve_in<D: GaplessDatabase>(
        &self,
        transaction: &mut Transaction<'_, D>,
        note: &str,
    ) -> Result<Id<E>, GaplessError> {
        let (gapless, sequence) = self.gapless()?;
        fits_audit("a note", note)?;
        let id = self.next_in(transaction).await?;
        gapless.reserve(transaction, sequence.name.clone(), number_of(id)?, note).await?;
        Ok(id)
    }

    /// Says that the reserved id is used: as [`Series::confirm_in`].
    ///
    /// # Errors
    /// As there.
    pub async fn confirm_in<D: GaplessDatabase>(
        &self,
        transaction: &mut Transaction<'_, D>,
        id: Id<E>,
    ) -> Result<(), GaplessError> {
        let (gapless, sequence) = self.gapless()?;
        let number = number_of(id)?;
        gapless.settle(transaction, sequence.name.clone(), number, &number.to_string(), None).await
    }

    /// Says that no row will ever have the reserved id: as [`Series::void_in`].
    ///
    /// # Errors
    /// As there.
    pub async fn void_in<D: GaplessDatabase>(
        &self,
        transaction: &mut Transaction<'_, D>,
        id: Id<E>,
        reason: &str,
    ) -> Result<(), GaplessError> {
        let (gapless, sequence) = self.gapless()?;
        fits_audit("a reason", reason)?;
        let number = number_of(id)?;
        gapless.settle(transaction, sequence.name.clone(), number, &number.to_string(), Some(reason)).await
    }

    /// The audit: every reserved id, and what became of it.
    ///
    /// # Errors
    /// [`GaplessError`].
    pub async fn reservations(&self) -> Result<Vec<Reservation>, GaplessError> {
        let (gapless, sequence) = self.gapless()?;
        gapless.reservations(&sequence.name, true).await
    }

    fn gapless(&self) -> Result<(&Gapless, &Sequence), GaplessError> {
        self.core().gapless(E::NAME).ok_or_else(|| GaplessError::NotGapless { name: E::NAME.to_owned() })
    }
}

impl Gapless {
    fn fits<D: GaplessDatabase>(&self) -> Result<(), GaplessError> {
        if self.birth.forked() {
            return Err(ReadyError::new(MintError::Forked).into());
        }
        if self.closed.load(Ordering::Acquire) {
            return Err(ReadyError::new(MintError::Closed).into());
        }
        if D::URL_SCHEMES.contains(&self.url_scheme.as_str()) {
            return Ok(());
        }
        Err(GaplessError::OtherDatabase {
            name: self.name.clone(),
            store: self.store.clone(),
            expected: self.url_scheme.clone(),
            found: D::URL_SCHEMES.iter().map(|scheme| format!("{scheme}:")).collect::<Vec<_>>().join(" or "),
        })
    }

    /// The number; `None` if the largest has been given.
    async fn take<D: GaplessDatabase>(
        &self,
        transaction: &mut Transaction<'_, D>,
        sequence: &Sequence,
        record: &str,
        number_max: u64,
    ) -> Result<Option<u64>, GaplessError> {
        let counter = Counter { sequence, record, owner: &self.owner, number_max };
        match D::take(transaction, &self.tables, counter).await.map_err(|source| self.said(source))? {
            Taken::Number(number) => Ok(Some(number)),
            Taken::Full => Ok(None),
            Taken::Missing => {
                let message = format!(
                    "the database of this transaction has no counter {}: begin the transaction in the database of store {}. If it \
                     is, the counter was deleted: restore it with its next number above every number in use",
                    sequence.name, self.store
                );
                Err(self.said(StoreError::new(StoreErrorKind::Refused, message)))
            }
        }
    }

    /// Makes the sequence of a period by the store, on a connection of its own.
    async fn make(&self, sequence: &Sequence) -> Result<(), GaplessError> {
        let is_made = || self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if is_made().as_ref() == Some(&sequence.name) {
            return Ok(());
        }
        make(&*self.ranges, &*self.formats, sequence).await.map_err(|source| self.said(source))?;
        *is_made() = Some(sequence.name.clone());
        Ok(())
    }

    async fn reserve<D: GaplessDatabase>(
        &self,
        transaction: &mut Transaction<'_, D>,
        sequence: String,
        number: u64,
        note: &str,
    ) -> Result<(), GaplessError> {
        let reservation = Reservation::new(sequence, number, note, self.clock.unix_ms());
        D::reserve(transaction, &self.tables, &reservation).await.map_err(|source| self.said(source))
    }

    /// Confirmed without a reason, void with one.
    async fn settle<D: GaplessDatabase>(
        &self,
        transaction: &mut Transaction<'_, D>,
        sequence: String,
        number: u64,
        text: &str,
        reason: Option<&str>,
    ) -> Result<(), GaplessError> {
        self.fits::<D>()?;
        let mut settled = Reservation::new(sequence, number, "", 0);
        settled.state = if reason.is_some() { ReservationState::Void } else { ReservationState::Confirmed };
        settled.settled_ms = Some(self.clock.unix_ms());
        settled.reason = reason.map(str::to_owned);
        let (name, number) = (self.name.clone(), text.to_owned());
        match D::settle(transaction, &self.tables, &settled).await.map_err(|source| self.said(source))? {
            Settled::Now => Ok(()),
            Settled::Before(state) => Err(GaplessError::Settled { name, number, state }),
            Settled::Never => Err(GaplessError::NeverReserved { name, number }),
        }
    }

    async fn reservations(&self, prefix: &str, whole: bool) -> Result<Vec<Reservation>, GaplessError> {
        if self.birth.forked() {
            return Err(ReadyError::new(MintError::Forked).into());
        }
        let mut found = self.kept.reservations(prefix).await.map_err(|source| self.said(source))?;
        found.retain(|one| !whole || one.sequence == prefix);
        Ok(found)
    }

    fn said(&self, source: StoreError) -> GaplessError {
        GaplessError::Store { name: self.name.clone(), source }
    }
}

fn number_of<E: Entity>(id: Id<E>) -> Result<u64, GaplessError> {
    // Only entities of numbers are gapless.
    u64::from_any(id.bits().to_any()).ok_or_else(|| GaplessError::NotGapless { name: E::NAME.to_owned() })
}

fn fits_audit(what: &'static str, text: &str) -> Result<(), GaplessError> {
    let fits = (1..=Reservation::TEXT_LEN_MAX).contains(&text.len()) && !text.contains(char::is_control);
    if fits { Ok(()) } else { Err(GaplessError::Text { what, most: Reservation::TEXT_LEN_MAX }) }
}
