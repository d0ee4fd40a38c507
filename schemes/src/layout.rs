//! How the bits of a snowflake are divided, and what its time field counts.

use mintage_core::{Anatomy, Field, Role};

/// Bits an id may have if it is to be minted: databases keep signed 64-bit integers.
pub const MINT_BITS_MAX: u32 = 63;
/// Bits an id may have if it is only read.
pub const READ_BITS_MAX: u32 = 64;
/// Widest worker field that can be leased: stores number workers in 32-bit integers.
pub const WORKER_BITS_MAX: u32 = 31;
/// Widest time field: 2^48 ms is the year 10889, beyond it no store and no other scheme goes.
pub const TIME_BITS_MAX: u32 = 48;

/// The length of one step of the time field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TimeUnit {
    /// 1 ms.
    Millisecond,
    /// 10 ms.
    Centisecond,
    /// 1 s.
    Second,
}

/// The three fields of a snowflake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Part {
    /// Units since the epoch.
    Time,
    /// Who made it.
    Worker,
    /// Its number within the unit.
    Sequence,
}

/// How the bits are divided: the parts from the first bit to the last, and the unit of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    parts: [(Part, u32); 3],
    region_bits: u32,
    unit: TimeUnit,
}

/// Why a layout cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// Too many bits.
    #[error("{sum_text} is {bits} bits, {bits_max} at most: make a field narrower")]
    Sum {
        /// The sum, written out.
        sum_text: String,
        /// Its value.
        bits: u64,
        /// The most there may be.
        bits_max: u32,
    },
    /// A field has no bits, or too many by itself.
    #[error("{part} has {bits} bits: {from} to {to} are possible")]
    Width {
        /// Which field.
        part: &'static str,
        /// Its width.
        bits: u64,
        /// Least.
        from: u32,
        /// Most.
        to: u32,
    },
    /// The list of fields is not a permutation.
    #[error("fields names {0}: each of time, worker and sequence is named exactly once")]
    Fields(String),
    /// The region is wider than the worker field it is cut from.
    #[error("region has {region} bits, but the worker field it is part of has {worker}")]
    Region {
        /// Bits of the region.
        region: u64,
        /// Bits of the worker field.
        worker: u32,
    },
    /// No preset of that name.
    #[error("no preset {0:?}")]
    Preset(String),
}

/// The parts of one id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// Units since the epoch.
    pub time: u64,
    /// The whole worker field, region bits included.
    pub worker: u64,
    /// Number within the unit.
    pub sequence: u64,
}

/// A layout that somebody made known, with its epoch.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Preset {
    /// Its name in the config.
    pub name: &'static str,
    /// The layout.
    pub layout: Layout,
    /// Unix ms of time 0.
    pub epoch_ms: u64,
    /// Whether it may be minted here. Those of 64 bits may not: their ids turn negative in a signed column.
    pub mintable: bool,
}

/// 2026-01-01T00:00:00Z, the epoch of presets that are our own.
const OWN_EPOCH_MS: u64 = 1_767_225_600_000;

/// The presets. Epochs and widths of the first two groups are those their owners published.
pub const PRESETS: [Preset; 7] = [
    preset(
        "twitter",
        [(Part::Time, 41), (Part::Worker, 10), (Part::Sequence, 12)],
        5,
        TimeUnit::Millisecond,
        1_288_834_974_657,
    ),
    preset(
        "sonyflake",
        [(Part::Time, 39), (Part::Sequence, 8), (Part::Worker, 16)],
        0,
        TimeUnit::Centisecond,
        1_409_529_600_000,
    ),
    preset(
        "region-2-8",
        [(Part::Time, 41), (Part::Worker, 10), (Part::Sequence, 12)],
        2,
        TimeUnit::Millisecond,
        OWN_EPOCH_MS,
    ),
    preset("js53", [(Part::Time, 32), (Part::Worker, 8), (Part::Sequence, 13)], 0, TimeUnit::Second, OWN_EPOCH_MS),
    read_only(preset(
        "discord",
        [(Part::Time, 42), (Part::Worker, 10), (Part::Sequence, 12)],
        5,
        TimeUnit::Millisecond,
        1_420_070_400_000,
    )),
    read_only(preset(
        "instagram",
        [(Part::Time, 41), (Part::Worker, 13), (Part::Sequence, 10)],
        0,
        TimeUnit::Millisecond,
        1_314_220_021_721,
    )),
    read_only(preset(
        "mastodon",
        [(Part::Time, 48), (Part::Worker, 0), (Part::Sequence, 16)],
        0,
        TimeUnit::Millisecond,
        0,
    )),
];

const fn preset(
    name: &'static str,
    parts: [(Part, u32); 3],
    region_bits: u32,
    unit: TimeUnit,
    epoch_ms: u64,
) -> Preset {
    Preset { name, layout: Layout { parts, region_bits, unit }, epoch_ms, mintable: true }
}

const fn read_only(preset: Preset) -> Preset {
    Preset { mintable: false, ..preset }
}

impl Preset {
    /// The preset of that name.
    ///
    /// # Errors
    /// [`LayoutError::Preset`].
    pub fn named(name: &str) -> Result<Self, LayoutError> {
        PRESETS.into_iter().find(|preset| preset.name == name).ok_or_else(|| LayoutError::Preset(name.to_owned()))
    }
}

impl TimeUnit {
    /// Its length in milliseconds.
    pub const fn ms(self) -> u64 {
        match self {
            Self::Millisecond => 1,
            Self::Centisecond => 10,
            Self::Second => 1000,
        }
    }
}

impl Part {
    /// Its name in the config.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Worker => "worker",
            Self::Sequence => "sequence",
        }
    }
}

impl Layout {
    /// Time, worker and sequence in this order, in milliseconds, without a region.
    ///
    /// # Errors
    /// As [`Layout::of`].
    pub fn new(time: u32, worker: u32, sequence: u32) -> Result<Self, LayoutError> {
        Self::of([(Part::Time, time), (Part::Worker, worker), (Part::Sequence, sequence)], 0, TimeUnit::Millisecond)
    }

    /// Any order, unit and region (the first `region_bits` of the worker field), fit to be minted: 63 bits at most, and no
    /// empty field. (Even a single process needs a worker field of 1 bit: the lease on it keeps a second process away.)
    ///
    /// # Errors
    /// [`LayoutError`] says which width is wrong.
    pub fn of(parts: [(Part, u32); 3], region_bits: u32, unit: TimeUnit) -> Result<Self, LayoutError> {
        for wanted in [Part::Time, Part::Worker, Part::Sequence] {
            if parts.iter().filter(|(part, _)| *part == wanted).count() != 1 {
                return Err(LayoutError::Fields(parts.map(|(part, _)| part.name()).join(", ")));
            }
        }
        let bits: u64 = parts.iter().map(|(_, width)| u64::from(*width)).sum();
        if bits > u64::from(MINT_BITS_MAX) {
            let sum_text = parts.map(|(_, width)| width.to_string()).join("+");
            return Err(LayoutError::Sum { sum_text, bits, bits_max: MINT_BITS_MAX });
        }
        for (part, width) in parts {
            let most = match part {
                Part::Time => TIME_BITS_MAX,
                Part::Worker => WORKER_BITS_MAX,
                Part::Sequence => MINT_BITS_MAX - 2,
            };
            if width == 0 || width > most {
                return Err(LayoutError::Width { part: part.name(), bits: width.into(), from: 1, to: most });
            }
        }
        let layout = Self { parts, region_bits, unit };
        if region_bits > layout.worker_bits() {
            return Err(LayoutError::Region { region: region_bits.into(), worker: layout.worker_bits() });
        }
        Ok(layout)
    }

    /// The parts and their widths, from the first bit to the last.
    pub fn parts(&self) -> [(Part, u32); 3] {
        self.parts
    }

    /// The time unit.
    pub fn unit(&self) -> TimeUnit {
        self.unit
    }

    /// How many bits there are.
    pub fn bits(&self) -> u32 {
        self.parts.iter().map(|(_, width)| width).sum()
    }

    /// Bits of the time field.
    pub fn time_bits(&self) -> u32 {
        self.width(Part::Time)
    }

    /// Bits of the worker field, region included.
    pub fn worker_bits(&self) -> u32 {
        self.width(Part::Worker)
    }

    /// Bits of the sequence.
    pub fn sequence_bits(&self) -> u32 {
        self.width(Part::Sequence)
    }

    /// The leading bits of the worker field that name the region.
    pub fn region_bits(&self) -> u32 {
        self.region_bits
    }

    /// Whether ids sort by time: the time field comes first.
    pub fn sorts_by_time(&self) -> bool {
        self.parts[0].0 == Part::Time
    }

    /// Largest value of a field.
    pub fn max(&self, part: Part) -> u64 {
        ones(self.width(part))
    }

    /// How far a field is shifted left.
    pub(crate) fn shift(&self, wanted: Part) -> u32 {
        self.parts.iter().skip_while(|(part, _)| *part != wanted).skip(1).map(|(_, width)| width).sum()
    }

    /// Puts an id together; `None` if a part does not fit its field.
    pub fn join(&self, parts: Parts) -> Option<u64> {
        let fits = parts.time <= self.max(Part::Time)
            && parts.worker <= self.max(Part::Worker)
            && parts.sequence <= self.max(Part::Sequence);
        fits.then(|| {
            shl(parts.time, self.shift(Part::Time))
                | shl(parts.worker, self.shift(Part::Worker))
                | shl(parts.sequence, self.shift(Part::Sequence))
        })
    }

    /// Takes an id apart. Bits above the layout are ignored: check `id >> bits()` first where they matter.
    pub fn split(&self, id: u64) -> Parts {
        let field = |part| shr(id, self.shift(part)) & self.max(part);
        Parts { time: field(Part::Time), worker: field(Part::Worker), sequence: field(Part::Sequence) }
    }

    /// The fields for a drawing, unused leading bits first, 64 in all.
    pub(crate) fn anatomy(&self, id: u64) -> Anatomy {
        let found = self.split(id);
        let mut fields = Vec::with_capacity(5);
        let unused = READ_BITS_MAX - self.bits();
        if unused > 0 {
            let name = if unused == 1 { "sign" } else { "unused" };
            fields.push(Field::new(name, Role::Fixed, unused, u128::from(shr(id, self.bits()))));
        }
        let worker_low = self.worker_bits() - self.region_bits;
        for (part, width) in self.parts.into_iter().filter(|(_, width)| *width > 0) {
            match part {
                Part::Time => fields.push(Field::new("time", Role::Time, width, u128::from(found.time))),
                Part::Sequence => {
                    fields.push(Field::new("sequence", Role::Sequence, width, u128::from(found.sequence)))
                }
                Part::Worker => {
                    if self.region_bits > 0 {
                        let region = u128::from(shr(found.worker, worker_low));
                        fields.push(Field::new("region", Role::Worker, self.region_bits, region));
                    }
                    if worker_low > 0 {
                        let worker = u128::from(found.worker & ones(worker_low));
                        fields.push(Field::new("worker", Role::Worker, worker_low, worker));
                    }
                }
            }
        }
        let mut anatomy = Anatomy::of(fields);
        anatomy.worker = (self.worker_bits() > 0).then_some(found.worker);
        anatomy.region = (self.region_bits > 0).then(|| shr(found.worker, worker_low));
        anatomy.sequence = Some(found.sequence);
        anatomy
    }

    fn width(&self, wanted: Part) -> u32 {
        self.parts.iter().find(|(part, _)| *part == wanted).map_or(0, |(_, width)| *width)
    }
}

/// As the format fingerprint keeps it: `time:41 worker:10(region:2) sequence:12 unit:1ms`.
impl std::fmt::Display for Layout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (part, width) in self.parts {
            write!(f, "{}:{width}", part.name())?;
            if part == Part::Worker && self.region_bits > 0 {
                write!(f, "(region:{})", self.region_bits)?;
            }
            f.write_str(" ")?;
        }
        write!(f, "unit:{}ms", self.unit.ms())
    }
}

fn ones(bits: u32) -> u64 {
    if bits == 0 { 0 } else { u64::MAX >> (64 - bits.min(64)) }
}

fn shl(value: u64, by: u32) -> u64 {
    value.checked_shl(by).unwrap_or(0)
}

fn shr(value: u64, by: u32) -> u64 {
    value.checked_shr(by).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Cases B64, B65.
    #[test]
    fn widths_are_checked_with_the_sum_shown() {
        let told = |layout: Result<Layout, LayoutError>| layout.unwrap_err().to_string();
        assert!(told(Layout::new(41, 18, 7)).starts_with("41+18+7 is 66 bits, 63 at most"));
        assert!(told(Layout::new(41, 10, 13)).starts_with("41+10+13 is 64 bits, 63 at most"));
        assert!(told(Layout::new(u32::MAX, 10, 13)).contains("63 at most"));
        assert!(Layout::new(41, 14, 8).is_ok());
        for (time, worker, sequence) in [(0, 10, 12), (41, 0, 12), (41, 10, 0), (49, 5, 5), (20, 32, 4)] {
            assert!(
                matches!(Layout::new(time, worker, sequence), Err(LayoutError::Width { .. })),
                "{time}/{worker}/{sequence}"
            );
        }
        let twice = [(Part::Time, 41), (Part::Time, 10), (Part::Sequence, 12)];
        assert!(matches!(Layout::of(twice, 0, TimeUnit::Millisecond), Err(LayoutError::Fields(_))));
        let wide_region = [(Part::Time, 41), (Part::Worker, 10), (Part::Sequence, 12)];
        assert!(matches!(Layout::of(wide_region, 11, TimeUnit::Millisecond), Err(LayoutError::Region { .. })));
    }

    #[test]
    fn every_layout_joins_and_splits_at_its_edges() {
        let mut layouts: Vec<Layout> = PRESETS.iter().map(|preset| preset.layout).collect();
        layouts.push(
            Layout::of([(Part::Sequence, 7), (Part::Time, 40), (Part::Worker, 16)], 3, TimeUnit::Second).unwrap(),
        );
        for layout in layouts {
            let [time, worker, sequence] = [Part::Time, Part::Worker, Part::Sequence].map(|part| layout.max(part));
            for parts in [
                Parts { time: 0, worker: 0, sequence: 0 },
                Parts { time, worker, sequence },
                Parts { time, worker: 0, sequence: 0 },
                Parts { time: 0, worker, sequence: 0 },
                Parts { time: 0, worker: 0, sequence },
            ] {
                let id = layout.join(parts).unwrap();
                assert_eq!(layout.split(id), parts, "{layout}");
                assert_eq!(layout.anatomy(id).width(), 64, "{layout}");
            }
            assert_eq!(layout.join(Parts { time: time + 1, worker: 0, sequence: 0 }), None);
            assert_eq!(layout.join(Parts { time: 0, worker: worker + 1, sequence: 0 }), None);
            assert_eq!(layout.join(Parts { time: 0, worker: 0, sequence: sequence + 1 }), None);
        }
    }
}
