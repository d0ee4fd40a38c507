//! What an id tells whoever holds it.

use std::borrow::Cow;

/// The parts of one id, from its first bit to its last.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Anatomy {
    /// The fields in order, most significant first. Their widths add up to the width drawn.
    pub fields: Vec<Field>,
    /// When it was made, if it says so.
    pub time: Option<IdTime>,
    /// The worker id it carries, region bits included.
    pub worker: Option<u64>,
    /// The region part of the worker id, where the layout has one.
    pub region: Option<u64>,
    /// Its number within the time unit, or its place in a sequence.
    pub sequence: Option<u64>,
    /// Remarks for a reader, such as `nil UUID` or `implausibly old: the value looks like seconds`.
    pub notes: Vec<Cow<'static, str>>,
}

/// One run of bits.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Field {
    /// What the layout calls it, such as `time` or `rand_a`.
    pub name: Cow<'static, str>,
    /// What it is for.
    pub role: Role,
    /// How many bits it has.
    pub width: u32,
    /// Its value. Fields wider than 128 bits do not occur.
    pub value: u128,
}

/// What a run of bits is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Role {
    /// Time since the epoch, in units.
    Time,
    /// Which worker made it.
    Worker,
    /// A number that counts up.
    Sequence,
    /// Chance.
    Random,
    /// The same in every id of this kind: version, variant, sign.
    Fixed,
}

/// A time read from an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IdTime {
    /// Unix milliseconds at the start of the unit; before 1970 for some old UUIDs.
    pub unix_ms: i64,
    /// How long the unit is, in milliseconds. 1 also for finer clocks.
    pub unit_ms: u32,
}

impl Anatomy {
    /// An id with nothing but the fields given.
    pub fn of(fields: Vec<Field>) -> Self {
        Self { fields, ..Self::default() }
    }

    /// A plain number: one field of 63 bits below the sign, which says nothing of time or place.
    pub fn number(value: u64) -> Self {
        Self {
            fields: vec![
                Field::new("sign", Role::Fixed, 1, u128::from(value >> 63)),
                Field::new("number", Role::Sequence, 63, u128::from(value & (u64::MAX >> 1))),
            ],
            sequence: Some(value),
            ..Self::default()
        }
    }

    /// Adds the time it was made.
    #[must_use]
    pub fn made_at(mut self, unix_ms: i64, unit_ms: u32) -> Self {
        self.time = Some(IdTime { unix_ms, unit_ms });
        self
    }

    /// Adds a remark.
    #[must_use]
    pub fn noting(mut self, note: impl Into<Cow<'static, str>>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// How many bits the fields add up to.
    pub fn width(&self) -> u32 {
        self.fields.iter().map(|field| field.width).sum()
    }
}

impl Field {
    /// A run of `width` bits.
    pub fn new(name: impl Into<Cow<'static, str>>, role: Role, width: u32, value: u128) -> Self {
        Self { name: name.into(), role, width, value }
    }
}
