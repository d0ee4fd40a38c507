//! The laws of schemes: call [`all`] with a scheme that is ready to mint.
//!
//! ```
//! # use mintage_core::{Anatomy, Bits, IdScheme, MintError, Order, ParseError, SchemeInfo};
//! # use std::sync::atomic::{AtomicU64, Ordering};
//! # #[derive(Debug)] struct Counter { info: SchemeInfo, last: AtomicU64 }
//! # #[async_trait::async_trait]
//! # impl IdScheme for Counter {
//! #     type Bits = u64;
//! #     fn info(&self) -> &SchemeInfo { &self.info }
//! #     fn mint(&self) -> Result<u64, MintError> { Ok(self.last.fetch_add(1, Ordering::Relaxed) + 1) }
//! #     fn format(&self, bits: u64, out: &mut dyn std::fmt::Write) -> std::fmt::Result { write!(out, "{bits}") }
//! #     fn parse(&self, text: &str) -> Result<u64, ParseError> { mintage_core::parse_decimal(text, 63) }
//! #     fn anatomy(&self, bits: u64) -> Anatomy { Anatomy::number(bits) }
//! # }
//! let counter = Counter {
//!     info: SchemeInfo::new("counter", Bits::Int, 63).ordered(Order::Minter),
//!     last: AtomicU64::new(0),
//! };
//! mintage_core::testkit::scheme::all(&counter);
//! ```
//!
//! Failures panic and name the law.
#![expect(clippy::panic, reason = "a test kit reports by panicking")]

use std::collections::HashSet;

use crate::{Bits, IdBits, IdScheme, MintError, Order};

/// How many ids a law looks at: enough to cross a unit of any layout with up to 12 sequence bits.
const SAMPLE: usize = 5_000;

/// Every law, on ids minted now.
pub fn all<S: IdScheme>(scheme: &S) {
    let ids = sample(scheme, SAMPLE);
    unique(scheme, &ids);
    ordered(scheme, &ids);
    for id in ids.iter().step_by(97) {
        round_trip(scheme, *id);
        one_text(scheme, *id);
        anatomy(scheme, *id);
        inside_its_range(scheme, *id);
    }
    batches(scheme);
    kind(scheme);
}

/// Mints `count` ids, waiting (by asking again) where the scheme says `Exhausted`.
///
/// # Panics
/// When it is refused for another reason, or for ever.
pub fn sample<S: IdScheme>(scheme: &S, count: usize) -> Vec<S::Bits> {
    let mut ids = Vec::with_capacity(count);
    let mut refusals = 0u64;
    while ids.len() < count {
        match scheme.mint() {
            Ok(id) => ids.push(id),
            Err(MintError::Exhausted { .. }) if refusals < 100_000_000 => {
                refusals += 1;
                std::hint::spin_loop();
            }
            Err(error) => panic!("{}: mint refused after {} ids: {error}", scheme.info().name, ids.len()),
        }
    }
    ids
}

/// No two ids are equal.
///
/// # Panics
/// When two are.
pub fn unique<S: IdScheme>(scheme: &S, ids: &[S::Bits]) {
    let distinct: HashSet<&S::Bits> = ids.iter().collect();
    assert_eq!(distinct.len(), ids.len(), "{}: uniqueness: an id was minted twice", scheme.info().name);
}

/// The order that `info` promises holds, of values and of the times in them.
///
/// # Panics
/// When it does not.
pub fn ordered<S: IdScheme>(scheme: &S, ids: &[S::Bits]) {
    let name = &scheme.info().name;
    for pair in ids.windows(2) {
        let [before, after] = pair else { continue };
        match scheme.info().order {
            // Those given here were minted by one thread.
            Order::Minter | Order::Thread => assert!(before < after, "{name}: order: {after:?} came after {before:?}"),
            Order::Time => {
                let time = |id| scheme.anatomy(id).time.map(|time| time.unix_ms);
                assert!(time(*before) <= time(*after), "{name}: time order: {after:?} came after {before:?}");
            }
            Order::Chance => {}
        }
    }
}

/// Text and back is the same id, and the text of that is the same text.
///
/// # Panics
/// When it is not.
pub fn round_trip<S: IdScheme>(scheme: &S, id: S::Bits) {
    let name = &scheme.info().name;
    let text = text_of(scheme, id);
    match scheme.parse(&text) {
        Ok(back) => {
            assert_eq!(back, id, "{name}: round trip of {text:?}");
            assert_eq!(text_of(scheme, back), text, "{name}: text of {text:?} read back");
        }
        Err(error) => panic!("{name}: its own text {text:?} does not parse: {error}"),
    }
    assert_eq!(S::Bits::from_any(id.to_any()), Some(id), "{name}: AnyId keeps the value");
}

/// Signs, spaces, separators, other digits and added symbols are refused: one text names one id.
///
/// # Panics
/// When a second text is taken, or `parse` panics itself.
pub fn one_text<S: IdScheme>(scheme: &S, id: S::Bits) {
    let name = &scheme.info().name;
    let text = text_of(scheme, id);
    let middle = text.len() / 2;
    let (head, tail) = text.split_at(if text.is_char_boundary(middle) { middle } else { 0 });
    let wrong = [
        String::new(),
        format!("+{text}"),
        format!("-{text}"),
        format!("0{text}"),
        format!("0x{text}"),
        format!(" {text}"),
        format!("{text} "),
        format!("{text}\n"),
        format!("{text}\0"),
        text.repeat(24),
        format!("{head}_{tail}"),
        format!("{head} {tail}"),
        format!("{head}\u{ff11}{tail}"),
        format!("{{{text}}}"),
        "\u{e9}".repeat(text.len()),
        "\u{1f980}".repeat(7),
    ];
    for other in wrong {
        assert!(scheme.parse(&other).is_err(), "{name}: {other:?} was taken for an id beside {text:?}");
    }
}

/// The fields cover the width in which the id is drawn, and a value fits its field.
///
/// # Panics
/// When they do not.
pub fn anatomy<S: IdScheme>(scheme: &S, id: S::Bits) {
    let name = &scheme.info().name;
    let anatomy = scheme.anatomy(id);
    let drawn = match S::Bits::KIND {
        Bits::Int => 64,
        Bits::Wide => 128,
        Bits::Long => 160,
    };
    assert_eq!(anatomy.width(), drawn, "{name}: the fields of {id:?} do not add up");
    for field in &anatomy.fields {
        assert!(
            field.width >= 128 || field.value >> field.width == 0,
            "{name}: field {} holds {} in {} bits",
            field.name,
            field.value,
            field.width
        );
    }
}

/// An id lies inside the range of the instant it carries.
///
/// # Panics
/// When it does not.
pub fn inside_its_range<S: IdScheme>(scheme: &S, id: S::Bits) {
    let name = &scheme.info().name;
    let Some(time) = scheme.anatomy(id).time else {
        assert!(scheme.range_at(0, 1).is_none(), "{name}: a range of a time that no id carries");
        return;
    };
    if let Some((first, last)) = scheme.range_at(time.unix_ms, time.unix_ms) {
        assert!(first <= id && id <= last, "{name}: {id:?} lies outside the range of its own time");
    }
    assert!(scheme.range_at(time.unix_ms, time.unix_ms - 1).is_none(), "{name}: a range of an empty span");
    if let Some(last_ms) = scheme.runs_out() {
        assert!(time.unix_ms <= last_ms, "{name}: {id:?} was made after the scheme ran out");
    }
}

/// A batch is a prefix of distinct ids in the same order, and empty only for an empty slice.
///
/// # Panics
/// When it is not.
pub fn batches<S: IdScheme>(scheme: &S) {
    let name = &scheme.info().name;
    assert_eq!(scheme.mint_batch(&mut []), Ok(0), "{name}: an empty batch");
    let mut ids = Vec::new();
    for size in [1, 2, 64, 1000] {
        let mut batch = vec![S::Bits::default(); size];
        match scheme.mint_batch(&mut batch) {
            Ok(made) => {
                assert!(0 < made && made <= size, "{name}: a batch of {size} made {made}");
                ids.extend_from_slice(&batch[..made.min(size)]);
            }
            Err(MintError::Exhausted { .. }) => {}
            Err(error) => panic!("{name}: batch of {size}: {error}"),
        }
    }
    unique(scheme, &ids);
    ordered(scheme, &ids);
}

/// `info` tells the width it really has.
///
/// # Panics
/// When it does not.
pub fn kind<S: IdScheme>(scheme: &S) {
    assert_eq!(scheme.info().kind, S::Bits::KIND, "{}: info tells another width", scheme.info().name);
}

fn text_of<S: IdScheme>(scheme: &S, id: S::Bits) -> String {
    let mut text = String::new();
    if scheme.format(id, &mut text).is_err() {
        panic!("{}: format failed on a String", scheme.info().name);
    }
    text
}
