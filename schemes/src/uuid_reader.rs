//! Reads UUIDs: strict text, lenient text, and what a UUID of any version tells.
//!
//! The strict form is the one of RFC 9562: 36 characters, hyphens after 8, 13, 18 and 23, in either case. A reader that fills
//! up short groups, skips characters or looks for hyphens elsewhere lets several texts name one row.

use mintage_core::{Anatomy, Field, ParseError, Role};
use uuid::Uuid;

use crate::strict::seconds_remark;

/// Reads a UUID of any version, nil and max included, in its hyphenated form.
///
/// # Errors
/// [`ParseError`] names the fault: a foreign character, a group of the wrong length, missing hyphens.
pub fn parse_uuid(text: &str) -> Result<Uuid, ParseError> {
    let bytes = text.as_bytes();
    if bytes.len() != HYPHENATED_LEN {
        return Err(fault(text));
    }
    let mut value = 0u128;
    let mut foreign = false;
    for (position, byte) in bytes.iter().enumerate() {
        if HYPHENS.contains(&position) {
            foreign |= *byte != b'-';
        } else {
            let digit = nibble(*byte);
            foreign |= digit.is_none();
            value = (value << 4) | u128::from(digit.unwrap_or(0));
        }
    }
    if foreign { Err(fault(text)) } else { Ok(Uuid::from_u128(value)) }
}

/// Reads a UUID in any usual spelling: hyphenated or 32 digits, with `{}` or `urn:uuid:` around it, with spaces around that.
///
/// For a person's input. Where texts are compared or stored, use [`parse_uuid`].
///
/// # Errors
/// [`ParseError`] names the fault; places are counted in `text` as given.
pub fn parse_uuid_lenient(text: &str) -> Result<Uuid, ParseError> {
    let inner = text.trim_ascii();
    let inner = match inner.split_at_checked(URN.len()) {
        Some((head, rest)) if head.eq_ignore_ascii_case(URN) => rest,
        _ => inner.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(inner),
    };
    let parsed = match inner.len() {
        SIMPLE_LEN if inner.bytes().all(|byte| nibble(byte).is_some()) => {
            u128::from_str_radix(inner, 16).map(Uuid::from_u128).map_err(|_| ParseError::OutOfRange)
        }
        found if !inner.contains('-') => Err(match fault(inner) {
            ParseError::Hyphens => ParseError::Length { found, expected: SIMPLE_LEN },
            other => other,
        }),
        _ => parse_uuid(inner),
    };
    parsed.map_err(|error| match error {
        ParseError::Character { at, found } => {
            // `inner` is a part of `text`.
            ParseError::Character { at: at + (inner.as_ptr().addr() - text.as_ptr().addr()), found }
        }
        other => other,
    })
}

/// Reads a UUID of one version, as an id: nil and max are none.
///
/// # Errors
/// As [`parse_uuid`]; `Special`, `Variant` or `Version` for a UUID of another kind.
pub(crate) fn parse_version(text: &str, expected: u8) -> Result<Uuid, ParseError> {
    let uuid = parse_uuid(text)?;
    match uuid.as_u128() {
        0 => return Err(ParseError::Special("nil")),
        u128::MAX => return Err(ParseError::Special("max")),
        _ => {}
    }
    match version(uuid) {
        None => Err(ParseError::Variant),
        Some(found) if found == expected => Ok(uuid),
        Some(found) => Err(ParseError::Version { found, expected }),
    }
}

/// What a UUID of any version tells. A time only where the version has one: never for 4 or 8, never for nil and max.
pub fn uuid_anatomy(uuid: Uuid) -> Anatomy {
    let bits = uuid.as_u128();
    match (bits, version(uuid)) {
        (0, _) => Anatomy::of(vec![Field::new("nil", Role::Fixed, 128, 0)]).noting("nil UUID"),
        (u128::MAX, _) => Anatomy::of(vec![Field::new("max", Role::Fixed, 128, u128::MAX)]).noting("max UUID"),
        (_, None) => other_variant(bits),
        (_, Some(1)) => version_1(bits),
        (_, Some(2)) => {
            let parts = [
                ("local_id", Role::Worker, 32),
                ("time_mid", Role::Time, 16),
                VERSION,
                ("time_high", Role::Time, 12),
                VARIANT,
                ("clock_seq", Role::Sequence, 6),
                ("domain", Role::Fixed, 8),
                ("node", Role::Worker, 48),
            ];
            cut(bits, &parts).noting("version 2 (DCE security): its time is cut to seven minutes and not shown")
        }
        (_, Some(3)) => {
            cut(bits, &timeless(["md5_high", "md5_mid", "md5_low"])).noting("version 3: made from a name by MD5")
        }
        (_, Some(4)) => cut(bits, &timeless(["random_a", "random_b", "random_c"])),
        (_, Some(5)) => {
            cut(bits, &timeless(["sha1_high", "sha1_mid", "sha1_low"])).noting("version 5: made from a name by SHA-1")
        }
        (_, Some(6)) => version_6(bits),
        (_, Some(7)) => version_7(bits),
        (_, Some(8)) => cut(bits, &timeless(["custom_a", "custom_b", "custom_c"]))
            .noting("version 8: only its maker knows what it means"),
        (_, Some(unknown)) => cut(bits, &timeless(["data_a", "data_b", "data_c"]))
            .noting(format!("version {unknown} is not defined by RFC 9562")),
    }
}

/// The version, if the variant is that of RFC 9562; otherwise those bits mean something else.
pub(crate) fn version(uuid: Uuid) -> Option<u8> {
    let bits = uuid.as_u128();
    (bits >> 62 & 0b11 == 0b10).then_some((bits >> 76 & 0xf) as u8)
}

const HYPHENATED_LEN: usize = 36;
const SIMPLE_LEN: usize = 32;
const HYPHENS: [usize; 4] = [8, 13, 18, 23];
const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];
const URN: &str = "urn:uuid:";

/// 100 ns ticks from 1582-10-15, where versions 1 and 6 count from, to 1970-01-01.
const GREGORIAN_TO_UNIX: i64 = 0x01b2_1dd2_1381_4000;
const TICKS_PER_MS: i64 = 10_000;

type Part = (&'static str, Role, u32);
const VERSION: Part = ("version", Role::Fixed, 4);
const VARIANT: Part = ("variant", Role::Fixed, 2);

fn nibble(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Says what is wrong with a text that is not a hyphenated UUID.
#[cold]
fn fault(text: &str) -> ParseError {
    if text.is_empty() {
        return ParseError::Empty;
    }
    if let Some((at, found)) = text.char_indices().find(|(_, c)| !c.is_ascii_hexdigit() && *c != '-') {
        return ParseError::Character { at, found };
    }
    if text.bytes().filter(|byte| *byte == b'-').count() != HYPHENS.len() {
        return ParseError::Hyphens;
    }
    let wrong = text.split('-').map(str::len).zip(GROUPS).enumerate().find(|(_, (found, expected))| found != expected);
    match wrong {
        Some((index, (found, expected))) => ParseError::Group { group: index + 1, found, expected },
        None => ParseError::Hyphens,
    }
}

/// Cuts 128 bits into parts, from the first bit on.
fn cut(bits: u128, parts: &[Part]) -> Anatomy {
    let mut left = u128::BITS;
    let fields = parts
        .iter()
        .map(|(name, role, width)| {
            left -= width;
            Field::new(*name, *role, *width, bits >> left & (u128::MAX >> (u128::BITS - width)))
        })
        .collect();
    Anatomy::of(fields)
}

/// The parts of a version without time: whatever it is, 48, 12 and 62 bits of it.
fn timeless([high, middle, low]: [&'static str; 3]) -> [Part; 5] {
    [(high, Role::Random, 48), VERSION, (middle, Role::Random, 12), VARIANT, (low, Role::Random, 62)]
}

fn version_1(bits: u128) -> Anatomy {
    let ticks = (bits >> 64 & 0x0fff) << 48 | (bits >> 80 & 0xffff) << 32 | bits >> 96;
    let parts = [
        ("time_low", Role::Time, 32),
        ("time_mid", Role::Time, 16),
        VERSION,
        ("time_high", Role::Time, 12),
        VARIANT,
        ("clock_seq", Role::Sequence, 14),
        ("node", Role::Worker, 48),
    ];
    cut(bits, &parts).made_at(gregorian_ms(ticks), 1)
}

fn version_6(bits: u128) -> Anatomy {
    let ticks = bits >> 80 << 12 | bits >> 64 & 0x0fff;
    let parts = [
        ("time_high", Role::Time, 32),
        ("time_mid", Role::Time, 16),
        VERSION,
        ("time_low", Role::Time, 12),
        VARIANT,
        ("clock_seq", Role::Sequence, 14),
        ("node", Role::Worker, 48),
    ];
    cut(bits, &parts).made_at(gregorian_ms(ticks), 1)
}

fn version_7(bits: u128) -> Anatomy {
    let parts =
        [("time", Role::Time, 48), VERSION, ("rand_a", Role::Random, 12), VARIANT, ("rand_b", Role::Random, 62)];
    let unix_ms = (bits >> 80) as u64;
    let anatomy = cut(bits, &parts).made_at(unix_ms as i64, 1);
    match seconds_remark(unix_ms) {
        Some(remark) => anatomy.noting(remark),
        None => anatomy,
    }
}

/// `ticks` has 60 bits.
fn gregorian_ms(ticks: u128) -> i64 {
    (ticks as i64 - GREGORIAN_TO_UNIX).div_euclid(TICKS_PER_MS)
}

fn other_variant(bits: u128) -> Anatomy {
    let (width, note) = match bits >> 61 & 0b111 {
        0b000..=0b011 => (1, "variant of the Apollo NCS: no RFC 9562 UUID"),
        0b110 => (3, "variant of old Microsoft GUIDs: no RFC 9562 UUID"),
        _ => (3, "reserved variant: no RFC 9562 UUID"),
    };
    let parts = [("data_a", Role::Random, 64), ("variant", Role::Fixed, width), ("data_b", Role::Random, 64 - width)];
    cut(bits, &parts).noting(note)
}
