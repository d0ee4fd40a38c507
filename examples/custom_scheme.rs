//! A scheme of your own: short random names such as `V1StGXR8_Z5jdHi6B-myT`, as nanoid makes them.
//!
//! A scheme needs two things: [`IdScheme`], which makes and reads ids, and [`SchemeFactory`], which makes the scheme from
//! `[entities.X]`. Both come from `mintage_core` alone. A [`Plugin`] carries the factory in by the door that the built-in
//! schemes use, so config, refusals, `explain`, the pinned format and typed ids work at once. The laws of the test kit say
//! whether it is a scheme: see the tests.
//!
//! `cargo run --example custom_scheme`
#![expect(clippy::print_stdout, reason = "an example that shows its work")]

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use mintage_core::{
    Anatomy, AnyScheme, Bits, Field, Format, IdScheme, MintError, ParseError, ReadyError, Role, SchemeInfo,
    plugin::{Catalog, Fact, Key, KeyKind, Opened, Plugin, SchemeFactory, SchemePlan, Settings, Site},
};
use rand::{TryRng, rngs::SysRng};

/// 64 symbols, so that each is 6 bits. They sort as bytes do, so names sort as their values.
const ALPHABET: &[u8; 64] = b"-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz";
const SYMBOL_BITS: u32 = 6;
/// With fewer, a thousand names a second would collide within a day.
const LENGTH_MIN: i64 = 12;
/// 126 bits: one more would not fit in a UUID column.
const LENGTH_MAX: i64 = 21;

/// Names of `length` random symbols.
#[derive(Clone, Debug)]
struct Nano {
    info: SchemeInfo,
    length: u32,
}

impl Nano {
    fn new(length: u32) -> Self {
        Self { info: SchemeInfo::new("nano", Bits::Wide, length * SYMBOL_BITS), length }
    }
}

#[async_trait]
impl IdScheme for Nano {
    type Bits = u128;

    fn info(&self) -> &SchemeInfo {
        &self.info
    }

    /// Asks the system each time: nothing is kept that a forked child could repeat.
    fn mint(&self) -> Result<u128, MintError> {
        let mut bytes = [0; 16];
        SysRng.try_fill_bytes(&mut bytes).map_err(|_| MintError::NoEntropy)?;
        Ok(u128::from_be_bytes(bytes) >> (u128::BITS - self.info.bits))
    }

    fn format(&self, bits: u128, out: &mut dyn fmt::Write) -> fmt::Result {
        for place in (0..self.length).rev() {
            let symbol = (bits >> (place * SYMBOL_BITS)) & 63;
            out.write_char(char::from(ALPHABET[symbol as usize]))?;
        }
        Ok(())
    }

    /// Exactly `length` symbols, so each id has one text.
    fn parse(&self, text: &str) -> Result<u128, ParseError> {
        let mut bits = 0;
        for (at, found) in text.char_indices() {
            let symbol = ALPHABET.iter().position(|symbol| char::from(*symbol) == found);
            let symbol = symbol.ok_or(ParseError::Character { at, found })?;
            bits = bits << SYMBOL_BITS | symbol as u128;
        }
        let expected = self.length as usize;
        if text.len() == expected { Ok(bits) } else { Err(ParseError::Length { found: text.len(), expected }) }
    }

    fn anatomy(&self, bits: u128) -> Anatomy {
        Anatomy::of(vec![
            Field::new("zero", Role::Fixed, 128 - self.info.bits, bits >> self.info.bits),
            Field::new("random", Role::Random, self.info.bits, bits & (u128::MAX >> (128 - self.info.bits))),
        ])
    }
}

/// Reads `scheme = "nano"`.
#[derive(Debug)]
struct NanoFactory;

impl SchemeFactory for NanoFactory {
    fn name(&self) -> &'static str {
        "nano"
    }

    fn about(&self) -> &'static str {
        "short random names for links, made anywhere without coordination"
    }

    fn keys(&self) -> &'static [Key] {
        const KEYS: &[Key] = &[Key {
            name: "length",
            kind: KeyKind::Integer(LENGTH_MIN, LENGTH_MAX),
            about: "How many symbols a name has; 21 by default.",
        }];
        KEYS
    }

    /// What is wrong is noted in `settings`, with its place in the file, and told together with all other faults.
    fn plan(&self, settings: &mut Settings<'_>) -> Option<Arc<dyn SchemePlan>> {
        let before = settings.refusals();
        let length = settings.integer("length", LENGTH_MIN..=LENGTH_MAX).unwrap_or(LENGTH_MAX);
        let length = u32::try_from(length).ok()?;
        (settings.refusals() == before).then(|| Arc::new(NanoPlan(Nano::new(length))) as Arc<dyn SchemePlan>)
    }
}

/// A `nano` entity, decided but not open.
#[derive(Debug)]
struct NanoPlan(Nano);

#[async_trait]
impl SchemePlan for NanoPlan {
    fn info(&self) -> &SchemeInfo {
        &self.0.info
    }

    /// Whatever changes the meaning of a text: a process that disagrees with what the store recorded does not start.
    fn format(&self) -> Format {
        Format::of("nano").with("length", self.0.length)
    }

    fn reader(&self) -> AnyScheme {
        AnyScheme::Wide(Arc::new(self.0.clone()))
    }

    fn facts(&self, _now_ms: u64) -> Vec<Fact> {
        // Half of all collisions are met after about 1.2 times the square root of the number of values.
        let half = 1.1774 * 2f64.powi(i32::try_from(self.0.info.bits).unwrap_or(0) / 2);
        vec![Fact::new("uniqueness", format!("by chance: even odds of one collision after {half:.0e} names"))]
    }

    async fn open(&self, _site: Site) -> Result<Opened, ReadyError> {
        Ok(self.reader().into())
    }
}

/// The door: `Registry::builder().plugin::<NanoPlugin>()`.
struct NanoPlugin;

impl Plugin for NanoPlugin {
    fn install(catalog: &mut Catalog) {
        catalog.scheme(NanoFactory);
    }
}

const CONFIG: &str = r#"
version = 1
[entities.links]
scheme = "nano"
length = 16
[entities.orders]
scheme = "segment"
durability = "weak"
[stores.main]
url = "memory:"
"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let config = mintage::Config::parse(CONFIG, "links.toml")?;
    let registry = mintage::Registry::builder().builtins().plugin::<NanoPlugin>().build(config).await?;
    let links = registry.any_minter("links")?;
    for _ in 0..3 {
        let id = links.mint()?;
        println!("https://example.com/{}", links.text(id).unwrap_or_default());
    }
    registry.close().await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use mintage::{Config, Id, Minter, Registry, entity};

    use super::*;

    entity!(Link: Uuid = "links");

    #[test]
    fn it_keeps_the_laws() {
        for length in [12, 16, 21] {
            mintage_core::testkit::scheme::all(&Nano::new(length));
        }
    }

    #[test]
    fn texts_sort_as_their_values() {
        let nano = AnyScheme::Wide(Arc::new(Nano::new(21)));
        let ids = (0..1000).map(|_| nano.mint().unwrap());
        let mut named: Vec<_> = ids.map(|id| (nano.format(id).unwrap(), id)).collect();
        named.sort();
        assert!(named.is_sorted_by_key(|(_, id)| *id));
    }

    #[tokio::test]
    async fn it_enters_by_the_same_door() {
        let config = Config::parse(CONFIG, "links.toml").unwrap();
        let registry = Registry::builder().builtins().plugin::<NanoPlugin>().build(config).await.unwrap();
        let links: Minter<Link> = registry.minter().unwrap();
        let id: Id<Link> = links.mint().unwrap();
        assert_eq!(links.text(id).len(), 16);
        assert_eq!(links.parse(&links.text(id)), Ok(id));
        registry.close().await.unwrap();
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let config = Config::parse(&CONFIG.replace("length = 16", "length = 99\nlenght = 1"), "links.toml").unwrap();
        let told = Registry::builder().builtins().plugin::<NanoPlugin>().check(&config).unwrap_err().to_string();
        assert!(told.contains("links.toml:5:1 entities.links.length: 99 lies outside 12 to 21"), "{told}");
        assert!(told.contains("links.toml:6:1 entities.links.lenght") && told.contains("length"), "{told}");
    }
}
