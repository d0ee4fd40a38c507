//! Which store it is: an id that is made once and kept in the store itself, as a record beside the formats of the entities.
//!
//! Two databases look alike until something was given twice. What tells them apart must be in them, and on every kind of store:
//! so it is a record that no entity can have. A copy of a store, a restored backup too, has the id of its original.

use mintage_core::{Format, FormatStore, StoreError, StoreErrorKind};
use mintage_schemes::Entropy;

/// The name of the record. Entities have no dot in their names.
const RECORD: &str = "registry.id";
/// Its field.
const FIELD: &str = "id";

/// The id of a store; `None` before it has one.
///
/// # Errors
/// As [`FormatStore::pinned`].
pub(crate) async fn of(formats: &dyn FormatStore) -> Result<Option<String>, StoreError> {
    let record = formats.pinned(RECORD).await?;
    Ok(record.and_then(|record| record.field(FIELD).map(str::to_owned)))
}

/// Gives a store an id, unless another process was first, and says what it is.
///
/// # Errors
/// As [`FormatStore::pin`].
pub(super) async fn make(formats: &dyn FormatStore) -> Result<String, StoreError> {
    let refused = |message: String| StoreError::new(StoreErrorKind::Refused, message);
    let fresh = Entropy::os().draw_u128().map_err(|error| refused(error.to_string()))?;
    let record = Format::of("registry").with(FIELD, format!("{fresh:032x}"));
    match formats.pin(RECORD, &record).await {
        Err(error) if error.kind() != StoreErrorKind::FormatMismatch => return Err(error),
        _ => {}
    }
    of(formats).await?.ok_or_else(|| {
        let message =
            format!("the record {RECORD} was not kept, or another's is in its place: look at the table of formats");
        StoreError::new(StoreErrorKind::Corrupt, message)
    })
}
