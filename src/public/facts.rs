//! What each form promises and what it leaks, in figures: the same words in the docs, in `explain` and in `check`.

use mintage_core::{Bits, plugin::Fact};

use crate::public::{
    PublicForm,
    form::{Redundancy, Shape, Stage, UuidPlain},
};

/// The number of ids that the probing figures are told for.
const EXAMPLE_IDS: u64 = 1_000_000;
/// Hits that pin a density to about 30 per cent: the relative error of n hits is 1/√n.
const PROBE_HITS: u64 = 11;

impl PublicForm {
    /// What the form promises, honestly, in a few words.
    pub fn label(&self) -> &'static str {
        match self.shape() {
            Shape::Token { context: true, .. } => "authenticated, context-bound",
            Shape::Token { .. } => "authenticated, deterministic",
            Shape::Short { redundancy: Redundancy::Bits32, .. } => "weakly authenticated",
            Shape::Short { redundancy: Redundancy::None, .. } => "obfuscation only",
            Shape::Number { .. } => "hides the sequence; existence can be probed",
            Shape::Uuid(UuidPlain::I64) => "authenticated",
            Shape::Uuid(_) => "hides time and counter only",
            Shape::Plain => "hides nothing",
        }
    }

    /// Whether a text that nobody was given is refused, but for the odds that [`facts`](Self::facts) names.
    pub fn authenticates(&self) -> bool {
        match self.shape() {
            Shape::Token { .. } | Shape::Short { redundancy: Redundancy::Bits32, .. } | Shape::Uuid(UuidPlain::I64) => {
                true
            }
            Shape::Short { .. } | Shape::Number { .. } | Shape::Uuid(_) | Shape::Plain => false,
        }
    }

    /// What `explain` says: the label, the odds of a forgery, what leaks, how the key changes.
    pub fn facts(&self) -> Vec<Fact> {
        let label = Fact::new("public form", format!("{}: {}", self.name(), self.label()));
        let mut facts = vec![if self.deserves_warning() { label.warn() } else { label }];
        facts.push(Fact::new("forgery", self.forgery()));
        facts.push(Fact::new("leaks", self.leaks()));
        if let Shape::Number { stages, .. } = self.shape() {
            facts.extend(stages.iter().map(probing));
        }
        if self.needs_key() {
            facts.push(Fact::new("key", self.key_changes()));
        }
        facts
    }

    /// Numbers do not authenticate either, but they say so in their name and have a figure of their own.
    fn deserves_warning(&self) -> bool {
        !self.authenticates() && !matches!(self.shape(), Shape::Number { .. })
    }

    fn forgery(&self) -> String {
        let versions = self.cuts().len() + 1;
        let odds = |bits: u32| match versions {
            1 => format!("a made-up text opens something once in 2^{bits} tries"),
            many => format!("a made-up text opens something {many} times in 2^{bits} tries, once a key version"),
        };
        match self.shape() {
            Shape::Token { context: true, .. } => odds(128),
            Shape::Token { .. } if self.bits() == Bits::Long => odds(96),
            Shape::Token { .. } => odds(64),
            Shape::Short { redundancy, .. } if redundancy.bits() > 0 => odds(redundancy.bits()),
            Shape::Uuid(UuidPlain::I64) => odds(58),
            Shape::Uuid(UuidPlain::U7K4) => {
                "one made-up text in four opens some id, as a rule one that was never made: always look it up"
                    .to_owned()
            }
            Shape::Number { .. } => {
                "a made-up number exists as often as the block is full: always check the asker's rights".to_owned()
            }
            Shape::Short { .. } | Shape::Uuid(_) => {
                "every text of the right shape opens some id, as a rule one that was never made: always look it up"
                    .to_owned()
            }
            Shape::Plain => "anybody can write one".to_owned(),
        }
    }

    fn leaks(&self) -> String {
        match self.shape() {
            Shape::Token { .. } | Shape::Short { .. } | Shape::Uuid(_) => {
                "that two texts name one id, and nothing else: no time, order or volume".to_owned()
            }
            Shape::Number { .. } => "how many there are, to whoever may ask often whether a number exists".to_owned(),
            Shape::Plain => format!(
                "all that the id says; of numbers that count up, three tell the total within about {} % and ten within {} %",
                tank_error_percent(3),
                tank_error_percent(10)
            ),
        }
    }

    fn key_changes(&self) -> String {
        match self.shape() {
            Shape::Number { .. } => "each stage keeps its key for ever; a new stage brings a new one".to_owned(),
            _ if self.rotates() => match self.cuts().len() {
                0 => "one version; a later one can take over ids still to come".to_owned(),
                more => format!("{} versions, each for its own ids", more + 1),
            },
            _ => "never changes: a text does not say which key it is under".to_owned(),
        }
    }
}

/// How many questions tell how full a stage is.
fn probing(stage: &Stage) -> Fact {
    let digits = stage.lo.checked_ilog10().map_or(0, |log| log + 2);
    let probes = stage.room() / EXAMPLE_IDS * PROBE_HITS;
    Fact::new(
        "probing",
        format!(
            "of {digits} digits, with {EXAMPLE_IDS} ids about {probes} probes tell how many there are (within 30 %); \
             limit look-ups, ask for a second factor, keep numbers out of URLs"
        ),
    )
}

/// The relative error of the total estimated from `seen` serial numbers drawn from 1..=total.
fn tank_error_percent(seen: u32) -> u32 {
    let seen = f64::from(seen);
    // A percentage below 100.
    (100.0 / (seen * (seen + 2.0)).sqrt()).round() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(form: &PublicForm) -> String {
        form.facts().iter().map(|fact| format!("{}: {}\n", fact.name, fact.text)).collect()
    }

    #[test]
    fn figures_are_those_of_the_arithmetic() {
        assert_eq!((tank_error_percent(3), tank_error_percent(10)), (26, 9));
        let ten = told(&PublicForm::number(10, 1).unwrap());
        assert!(ten.contains("about 9900 probes"), "{ten}");
        let twelve = told(&PublicForm::number(12, 1).unwrap());
        assert!(twelve.contains("about 990000 probes"), "{twelve}");
    }

    #[test]
    fn every_form_says_how_a_forgery_fares() {
        let token = |bits| PublicForm::token("ord", bits).unwrap();
        for (form, label, odds, authenticates) in [
            (token(Bits::Int), "authenticated, deterministic", "2^64", true),
            (token(Bits::Wide), "authenticated, deterministic", "2^64", true),
            (token(Bits::Long), "authenticated, deterministic", "2^96", true),
            (token(Bits::Int).with_context().unwrap(), "authenticated, context-bound", "2^128", true),
            (PublicForm::short("ord", Redundancy::Bits32).unwrap(), "weakly authenticated", "2^32", true),
            (PublicForm::short("ord", Redundancy::None).unwrap(), "obfuscation only", "every text", false),
            (PublicForm::uuid(UuidPlain::I64), "authenticated", "2^58", true),
            (PublicForm::uuid(UuidPlain::U7), "hides time and counter only", "every text", false),
            (PublicForm::uuid(UuidPlain::U7K4), "hides time and counter only", "one made-up text in four", false),
            (PublicForm::uuid(UuidPlain::Ulid42), "hides time and counter only", "every text", false),
            (PublicForm::number(12, 1).unwrap(), "hides the sequence; existence can be probed", "rights", false),
            (PublicForm::plain(Bits::Int), "hides nothing", "anybody", false),
        ] {
            assert_eq!((form.label(), form.authenticates()), (label, authenticates));
            assert!(told(&form).contains(odds), "{}", told(&form));
            let warned = form.facts().iter().any(|fact| fact.warning);
            assert_eq!(warned, !authenticates && form.name() != "number", "{}", told(&form));
        }
        let rotated = token(Bits::Int).owned_from(2, mintage_core::AnyId::Int(100));
        assert!(told(&rotated).contains("2 times in 2^64"), "{}", told(&rotated));
    }
}
